// SPDX-License-Identifier: Apache-2.0

import com.google.protobuf.CodedInputStream;
import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.ExtensionRegistry;
import com.google.protobuf.Message;
import com.google.protobuf.TextFormat;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Compares Protobuf frames with Google's Protobuf for Java.
 *
 * <p>{@code write FILES CASES OUT} reads messages in the text format (name, type, text, between bars) and writes the
 * frames that Java gives them. {@code verify FILES FRAMES} reads lines of another writer (name, type, frame in hex,
 * text) and fails unless Java reads the same. FILES is a serialized FileDescriptorSet.
 *
 * <p>In the folder testdata, with Java 17 and Maven:
 *
 * <pre>
 * mvn -q -f golden-java-protobuf/pom.xml dependency:copy-dependencies -DoutputDirectory=/tmp/protobuf
 * java -cp '/tmp/protobuf/*' golden-java-protobuf/ProtobufGolden.java write protobuf/files.pb protobuf/cases.txt protobuf/java.txt
 * </pre>
 *
 * <p>The test TestJavaProtobufReadsRandomMessages, with the build tag integration, runs the other direction.
 */
public final class ProtobufGolden {
  private static final HexFormat HEX = HexFormat.of();

  private final Map<String, FileDescriptor> files = new LinkedHashMap<>();
  private final ExtensionRegistry extensions = ExtensionRegistry.newInstance();

  public static void main(String[] args) throws Exception {
    ProtobufGolden golden = new ProtobufGolden(Path.of(args[1]));
    if (args[0].equals("write")) {
      golden.write(Path.of(args[2]), Path.of(args[3]));
    } else {
      golden.verify(Path.of(args[2]));
    }
  }

  private ProtobufGolden(Path set) throws Exception {
    for (FileDescriptorProto proto : FileDescriptorSet.parseFrom(Files.readAllBytes(set)).getFileList()) {
      FileDescriptor[] imports =
          proto.getDependencyList().stream().map(files::get).toArray(FileDescriptor[]::new);
      FileDescriptor file = FileDescriptor.buildFrom(proto, imports);
      files.put(proto.getName(), file);
      for (FieldDescriptor extension : file.getExtensions()) {
        extensions.add(extension);
      }
    }
  }

  private void write(Path cases, Path out) throws IOException {
    List<String> lines = new ArrayList<>();
    for (String line : Files.readAllLines(cases)) {
      String[] parts = line.split("\\|", 3);
      Descriptor type = find(parts[1]);
      ByteArrayOutputStream frame = new ByteArrayOutputStream();
      frame.write(new byte[] {0, 0, 0, 1, 2});
      CodedOutputStream coded = CodedOutputStream.newInstance(frame);
      coded.useDeterministicSerialization();
      List<Integer> path = path(type);
      if (path.equals(List.of(0))) {
        coded.writeSInt32NoTag(0);
      } else {
        coded.writeSInt32NoTag(path.size());
        for (int index : path) {
          coded.writeSInt32NoTag(index);
        }
      }
      parse(type, parts[2]).writeTo(coded);
      coded.flush();
      lines.add(parts[0] + "|" + HEX.formatHex(frame.toByteArray()));
    }
    Files.write(out, lines);
  }

  private void verify(Path frames) throws IOException {
    int failures = 0;
    int count = 0;
    for (String line : Files.readAllLines(frames)) {
      count++;
      try {
        String[] parts = line.split("\\|", 4);
        Descriptor type = find(parts[1]);
        CodedInputStream in = CodedInputStream.newInstance(HEX.parseHex(parts[2]));
        if (in.readRawByte() != 0) {
          throw new IllegalStateException("no magic byte");
        }
        in.skipRawBytes(4);
        List<Integer> path = new ArrayList<>();
        int size = in.readSInt32();
        for (int i = 0; i < size; i++) {
          path.add(in.readSInt32());
        }
        Descriptor named = at(type.getFile(), path.isEmpty() ? List.of(0) : path);
        if (named != type) {
          throw new IllegalStateException("indexes " + path + " are of " + named.getFullName());
        }
        Message got = DynamicMessage.parseFrom(type, in, extensions);
        Message want = parse(type, parts[3]);
        if (!got.equals(want) || !got.getUnknownFields().asMap().isEmpty()) {
          throw new IllegalStateException("message is " + got + " instead of " + want);
        }
      } catch (IOException | RuntimeException e) {
        failures++;
        System.out.println(line + "\n  " + e);
      }
    }
    System.out.println(count + " messages compared, " + failures + " differ");
    System.exit(failures == 0 ? 0 : 1);
  }

  private Message parse(Descriptor type, String text) throws TextFormat.ParseException {
    DynamicMessage.Builder builder = DynamicMessage.newBuilder(type);
    TextFormat.merge(text, extensions, builder);
    return builder.build();
  }

  private Descriptor find(String name) {
    for (FileDescriptor file : files.values()) {
      String prefix = file.getPackage() + ".";
      if (!name.startsWith(prefix)) {
        continue;
      }
      Descriptor found = null;
      for (String part : name.substring(prefix.length()).split("\\.")) {
        found = found == null ? file.findMessageTypeByName(part) : found.findNestedTypeByName(part);
        if (found == null) {
          break;
        }
      }
      if (found != null) {
        return found;
      }
    }
    throw new IllegalArgumentException("no message " + name);
  }

  /** Returns the position of a message, and before it those of the messages around it. */
  private static List<Integer> path(Descriptor type) {
    Descriptor parent = type.getContainingType();
    List<Integer> path = parent == null ? new ArrayList<>() : path(parent);
    path.add(declared(parent, type.getFile()).indexOf(type));
    return path;
  }

  private static Descriptor at(FileDescriptor file, List<Integer> path) {
    Descriptor found = null;
    for (int index : path) {
      found = declared(found, file).get(index);
    }
    return found;
  }

  /** Returns what a source text declares as messages: not the entries of maps, and not groups. */
  private static List<Descriptor> declared(Descriptor parent, FileDescriptor file) {
    List<Descriptor> declared = new ArrayList<>(parent == null ? file.getMessageTypes() : parent.getNestedTypes());
    declared.removeIf(d -> d.getOptions().getMapEntry());
    if (parent != null) {
      for (FieldDescriptor field : parent.getFields()) {
        if (field.getType() == FieldDescriptor.Type.GROUP) {
          declared.remove(field.getMessageType());
        }
      }
    }
    return declared;
  }
}

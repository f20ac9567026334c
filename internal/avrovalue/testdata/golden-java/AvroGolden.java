// SPDX-License-Identifier: Apache-2.0

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import org.apache.avro.Conversions;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/**
 * Compares Avro data with Apache Avro for Java.
 *
 * <p>{@code write CASES GOLDEN} reads cases (schema, datum as Avro JSON, perhaps a reader schema) and writes them with
 * the bytes that Java gives them. {@code verify DATA} reads data of another writer (schema, bytes, the same datum as
 * Avro JSON, perhaps a reader schema and the datum as read by it) and fails unless Java reads the same.
 *
 * <p>In the folder testdata, with Java 17 and Maven:
 *
 * <pre>
 * mvn -q -f golden-java/pom.xml dependency:copy-dependencies -DoutputDirectory=/tmp/avro
 * java -cp '/tmp/avro/*' golden-java/AvroGolden.java write avro/cases.json avro/golden.json
 * </pre>
 *
 * <p>The test TestJavaAvroReadsRandomData, with the build tag integration, runs the other direction.
 */
public final class AvroGolden {
  private static final ObjectMapper JSON = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);
  private static final HexFormat HEX = HexFormat.of();

  /** Bytes of a logical type stay bytes. */
  private static final GenericData PLAIN = new GenericData();

  /**
   * Decimals are numbers. A text that is read as a decimal has the bytes of its writer, which need not be the fewest
   * that hold the number, and may be none.
   */
  private static final GenericData NUMBERS = new GenericData();

  static {
    NUMBERS.addLogicalTypeConversion(new Conversions.DecimalConversion() {
      @Override
      public BigDecimal fromBytes(ByteBuffer value, Schema schema, LogicalType type) {
        return value.hasRemaining()
            ? super.fromBytes(value, schema, type)
            : BigDecimal.valueOf(0, ((LogicalTypes.Decimal) type).getScale());
      }
    });
  }

  public static void main(String[] args) throws IOException {
    if (args[0].equals("write")) {
      write(new File(args[1]), new File(args[2]));
    } else {
      verify(new File(args[1]));
    }
  }

  private static Schema schema(JsonNode text) {
    return new Schema.Parser().parse(text.toString());
  }

  private static void write(File cases, File golden) throws IOException {
    ArrayNode out = JSON.createArrayNode();
    for (JsonNode test : JSON.readTree(cases)) {
      Schema writer = schema(test.get("schema"));
      Object datum = fromJson(writer, test.get("datum"));
      ObjectNode entry = ((ObjectNode) test).deepCopy();
      byte[] data = toBinary(writer, datum, false);
      entry.put("data", HEX.formatHex(data));
      byte[] blocked = toBinary(writer, datum, true);
      if (!Arrays.equals(data, blocked)) {
        entry.put("blocked", HEX.formatHex(blocked));
      }
      if (test.has("reader")) {
        Schema reader = schema(test.get("reader"));
        try {
          entry.put("resolved", HEX.formatHex(toBinary(reader, fromBinary(writer, reader, data), false)));
        } catch (RuntimeException e) {
          entry.put("refused", e.getMessage());
        }
      }
      out.add(entry);
    }
    JSON.writeValue(golden, out);
  }

  private static void verify(File file) throws IOException {
    int failures = 0;
    int unread = 0;
    int count = 0;
    for (JsonNode test : JSON.readTree(file)) {
      count++;
      try {
        Schema writer = schema(test.get("schema"));
        byte[] data = HEX.parseHex(test.get("data").asText());
        expect("datum", fromJson(writer, test.get("datum")), fromBinary(writer, writer, data));
        if (test.has("resolved")) {
          Schema reader = schema(test.get("reader"));
          expect("resolved datum", fromJson(reader, test.get("resolved"), NUMBERS), fromBinary(writer, reader, data, NUMBERS));
        }
      } catch (IOException | RuntimeException e) {
        if (isDefect(e)) {
          unread++;
        } else {
          failures++;
        }
        System.out.println(test + "\n  " + e);
      }
    }
    System.out.println(count + " data compared, " + failures + " differ, " + unread + " unread");
    System.exit(failures == 0 ? 0 : 1);
  }

  /**
   * Says whether Java's own parser has lost its way: for about one in 40 000 random schemas, of those that contain
   * themselves, it meets a symbol that it has not filled in, and ends with a NullPointerException.
   */
  private static boolean isDefect(Exception e) {
    return e instanceof NullPointerException && e.getStackTrace()[0].getClassName().startsWith("org.apache.avro.io.parsing.");
  }

  private static void expect(String what, Object want, Object got) {
    if (!same(want, got)) {
      throw new IllegalStateException(what + " is " + got + " instead of " + want);
    }
  }

  /** Compares data; Avro's own comparison refuses maps. */
  private static boolean same(Object a, Object b) {
    if (a instanceof IndexedRecord x && b instanceof IndexedRecord y) {
      return x.getSchema().getFields().stream().allMatch(f -> same(x.get(f.pos()), y.get(f.pos())));
    }
    if (a instanceof Map<?, ?> x && b instanceof Map<?, ?> y) {
      return x.keySet().equals(y.keySet()) && x.keySet().stream().allMatch(key -> same(x.get(key), y.get(key)));
    }
    if (a instanceof List<?> x && b instanceof List<?> y) {
      return x.size() == y.size() && IntStream.range(0, x.size()).allMatch(i -> same(x.get(i), y.get(i)));
    }
    return Objects.equals(a, b);
  }

  private static Object fromJson(Schema schema, JsonNode datum) throws IOException {
    return fromJson(schema, datum, PLAIN);
  }

  private static Object fromJson(Schema schema, JsonNode datum, GenericData model) throws IOException {
    return new GenericDatumReader<Object>(schema, schema, model).read(null, DecoderFactory.get().jsonDecoder(schema, datum.toString()));
  }

  private static Object fromBinary(Schema writer, Schema reader, byte[] data) throws IOException {
    return fromBinary(writer, reader, data, PLAIN);
  }

  private static Object fromBinary(Schema writer, Schema reader, byte[] data, GenericData model) throws IOException {
    BinaryDecoder in = DecoderFactory.get().binaryDecoder(data, null);
    Object datum = new GenericDatumReader<Object>(writer, reader, model).read(null, in);
    if (!in.isEnd()) {
      throw new IllegalStateException("bytes follow the datum");
    }
    return datum;
  }

  private static byte[] toBinary(Schema schema, Object datum, boolean blocked) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    BinaryEncoder encoder = blocked
        ? new EncoderFactory().configureBlockSize(64).blockingBinaryEncoder(out, null)
        : EncoderFactory.get().binaryEncoder(out, null);
    new GenericDatumWriter<Object>(schema).write(datum, encoder);
    encoder.flush();
    return out.toByteArray();
  }
}

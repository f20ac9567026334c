// SPDX-License-Identifier: Apache-2.0

import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.common.header.internals.RecordHeaders;

// Reads lines and writes a line for each, by the Kafka serdes of a schema registry:
// "write URL TOPIC SCHEMA" makes frames in hex of records in Avro's JSON, and
// "read URL TOPIC" makes records of frames.
public class Serdes {
    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of(
            "apicurio.registry.url", args[1],
            "apicurio.registry.auto-register", true,
            "apicurio.registry.auto-register.if-exists", "FIND_OR_CREATE_VERSION",
            "apicurio.registry.use-id", "contentId");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        if (args[0].equals("write")) {
            Schema schema = new Schema.Parser().parse(args[3]);
            try (AvroKafkaSerializer<GenericRecord> serializer = new AvroKafkaSerializer<>()) {
                serializer.configure(settings, false);
                for (String line; (line = lines.readLine()) != null;) {
                    GenericRecord record = new GenericDatumReader<GenericRecord>(schema)
                        .read(null, DecoderFactory.get().jsonDecoder(schema, line));
                    out.append(HexFormat.of().formatHex(serializer.serialize(args[2], record))).append('\n');
                }
            }
        } else {
            try (AvroKafkaDeserializer<GenericRecord> deserializer = new AvroKafkaDeserializer<>()) {
                deserializer.configure(settings, false);
                for (String line; (line = lines.readLine()) != null;) {
                    GenericRecord record = deserializer.deserialize(args[2], new RecordHeaders(), HexFormat.of().parseHex(line));
                    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                    var json = EncoderFactory.get().jsonEncoder(record.getSchema(), bytes);
                    new GenericDatumWriter<GenericRecord>(record.getSchema()).write(record, json);
                    json.flush();
                    out.append(bytes.toString(StandardCharsets.UTF_8)).append('\n');
                }
            }
        }
        System.out.print(out);
        System.exit(0); // the registry's client keeps threads
    }
}

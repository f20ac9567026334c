// SPDX-License-Identifier: Apache-2.0

//go:build integration

package columnarschema_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnarschema"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
	"github.com/krabka-io/krabka-streams-go/schema"
)

const (
	javaFirst = `{"type":"record","name":"shop.Order","fields":[
		{"name":"id","type":"int"},{"name":"note","type":["null","string"]},
		{"name":"either","type":["int","string"]},{"name":"tags","type":{"type":"array","items":"string"}},
		{"name":"counts","type":{"type":"map","values":"long"}},
		{"name":"color","type":{"type":"enum","name":"shop.Color","symbols":["RED","BLUE"]}}]}`
	// javaSecond has a wider id, another order, no note and a price.
	javaSecond = `{"type":"record","name":"shop.Order","fields":[
		{"name":"color","type":{"type":"enum","name":"shop.Color","symbols":["RED","BLUE","GREEN"]}},
		{"name":"id","type":"long"},{"name":"either","type":["int","string"]},
		{"name":"price","type":"double","default":1.5},
		{"name":"tags","type":{"type":"array","items":"string"}},{"name":"counts","type":{"type":"map","values":"long"}}]}`
	// javaReader reads both.
	javaReader = `{"type":"record","name":"shop.Order","fields":[
		{"name":"id","type":"long"},{"name":"note","type":["null","string"],"default":null},
		{"name":"either","type":["int","string"]},{"name":"tags","type":{"type":"array","items":"string"}},
		{"name":"counts","type":{"type":"map","values":"long"}},
		{"name":"color","type":{"type":"enum","name":"shop.Color","symbols":["RED","BLUE","GREEN"]}},
		{"name":"price","type":"double","default":1.5}]}`
)

// javaSerdes runs the Kafka serdes for Java of a registry's vendor on lines. They
// need Maven, which fetches them, and the registry's own interface of version 3, whose
// registry needs Java 21.
type javaSerdes struct{ library, registry, topic string }

func newJavaSerdes(t *testing.T, topic string) javaSerdes {
	t.Helper()
	j := javaSerdes{filepath.Join(t.TempDir(), "lib"), strings.Replace(kafkatest.RegistryURL(t), "/apis/ccompat/v7", "/apis/registry/v3", 1), topic}
	out, err := exec.CommandContext(t.Context(), "mvn", "-q", "-B", "-f", "testdata/java-serdes/pom.xml",
		"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DoutputDirectory="+j.library).CombinedOutput()
	if err != nil {
		t.Fatalf("mvn: %v\n%.4000s", err, out)
	}
	return j
}

func (j javaSerdes) run(t *testing.T, lines []string, mode string, args ...string) []string {
	t.Helper()
	args = append([]string{"-cp", j.library + "/*", "testdata/java-serdes/Serdes.java", mode, j.registry, j.topic}, args...)
	command := exec.CommandContext(t.Context(), "java", args...)
	command.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	var problems strings.Builder
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		t.Fatalf("java: %v\n%.4000s", err, problems.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func (j javaSerdes) write(t *testing.T, schemaText string, records ...string) []columnar.ProduceRecord {
	t.Helper()
	var produced []columnar.ProduceRecord
	for _, line := range j.run(t, records, "write", schemaText) {
		value, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		produced = append(produced, columnar.ProduceRecord{Value: value})
	}
	return produced
}

// Serialisers of others write under two schemas, through a real registry and a real
// broker; the records become columns as a third schema says, and as the first one
// says; and what is written from columns is read by the others' deserialiser.
func TestRecordsOfJavaSerdesBecomeColumnsAndComeBack(t *testing.T) {
	topic := fmt.Sprintf("java-%d", time.Now().UnixNano())
	java := newJavaSerdes(t, topic)
	records := java.write(t, javaFirst,
		`{"id":7,"note":{"string":"first"},"either":{"int":3},"tags":["a","b"],"counts":{"x":1},"color":"BLUE"}`,
		`{"id":8,"note":null,"either":{"string":"s"},"tags":[],"counts":{},"color":"RED"}`)
	records = append(records, java.write(t, javaSecond,
		`{"color":"RED","id":9000000000,"either":{"int":-1},"price":2.25,"tags":["c"],"counts":{"y":-5}}`)...)
	consumed := throughBroker(t, topic, records)

	client, err := schema.NewRegistryClient(kafkatest.RegistryURL(t), schema.WithRequestTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	cache := schema.NewSchemaCache(client)
	defer func() { _ = cache.Close() }()
	codec := func(text string) columnar.BatchCodec {
		made, err := columnarschema.FromRegistry(t.Context(), client, cache, topic).ReadAs(schema.KindAvro, text).Codec(memory.DefaultAllocator)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	batch := decodeWaiting(t, cache, codec(javaReader), topic, consumed)
	defer batch.Release()
	got := map[string]string{}
	for i := range 7 {
		got[batch.ColumnName(i)] = batch.Column(i).String()
	}
	want := map[string]string{
		"id": "[7 8 9000000000]", "note": `["first" (null) (null)]`, "either": `{[3 (null) -1] [(null) "s" (null)]}`,
		"tags": `[["a" "b"] [] ["c"]]`, "counts": `[{["x"] [1]} {[] []} {["y"] [-5]}]`, "color": `["BLUE" "RED" "RED"]`, "price": "[1.5 1.5 2.25]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}

	// The latest schema of the subject reads the older records, and is written.
	latest, err := columnarschema.FromRegistry(t.Context(), client, cache, topic).Codec(memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	newest := decodeWaiting(t, cache, latest, topic, consumed)
	defer newest.Release()
	produced, err := latest.Encode(topic, newest)
	if err != nil {
		t.Fatal(err)
	}
	var frames []string
	for _, record := range throughBroker(t, topic+"-again", produced) {
		frames = append(frames, hex.EncodeToString(record.Value))
	}
	if frames[2] != hex.EncodeToString(records[2].Value) {
		t.Errorf("the record under the latest schema comes back as %s, want %x", frames[2], records[2].Value)
	}
	read := java.run(t, frames, "read")
	wantRead := []string{
		`{"color":"BLUE","id":7,"either":{"int":3},"price":1.5,"tags":["a","b"],"counts":{"x":1}}`,
		`{"color":"RED","id":8,"either":{"string":"s"},"price":1.5,"tags":[],"counts":{}}`,
		`{"color":"RED","id":9000000000,"either":{"int":-1},"price":2.25,"tags":["c"],"counts":{"y":-5}}`,
	}
	if diff := cmp.Diff(wantRead, read); diff != "" {
		t.Errorf("records that Java reads (-want +got):\n%s", diff)
	}
}

// decodeWaiting decodes records, and waits for the schemas that are fetched.
func decodeWaiting(t *testing.T, cache *schema.SchemaCache, codec columnar.BatchCodec, topic string, records []columnar.ConsumedRecord) arrow.RecordBatch {
	t.Helper()
	for {
		batch, err := codec.Decode(topic, records)
		if err == nil {
			return batch
		}
		pending, ok := errors.AsType[*schema.FetchPendingError](err)
		if !ok {
			t.Fatal(err)
		}
		if _, err := cache.AwaitWriterSchema(t.Context(), pending.SchemaID); err != nil {
			t.Fatal(err)
		}
	}
}

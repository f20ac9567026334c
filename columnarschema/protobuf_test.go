// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/protoplan"
	"github.com/krabka-io/krabka-streams-go/internal/prototext"
	"github.com/krabka-io/krabka-streams-go/internal/testpb"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// protoMessage returns the first message that a text declares.
func protoMessage(t testing.TB, text string) protoreflect.MessageDescriptor {
	t.Helper()
	file, err := prototext.Compile(t.Context(), text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0)
}

func protoFrame(t testing.TB, id int, indexes []int, body []byte) []byte {
	t.Helper()
	frame, err := schema.EncodeProtobuf(id, indexes, body)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func wireOf(t testing.TB, m proto.Message) []byte {
	t.Helper()
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// placed is an order with every kind of field of the message.
func placed() *testpb.Placed {
	return &testpb.Placed{
		Id: "o-1", At: timestamppb.New(timestamppb.Now().AsTime().Truncate(1000)), Weight: 2.5, Gift: true, Note: proto.String(""),
		Customer: &testpb.Customer{Name: "Ada", Credit: &testpb.Money{Cents: -5}},
		Lines:    []*testpb.Placed_Line{{Sku: "a", Count: -1, Image: []byte{0xff}}, {}},
		Tags:     []string{"", "x"}, Payment: &testpb.Placed_Cash{Cash: &testpb.Money{Currency: "EUR"}},
	}
}

func TestProtobufMessagesBecomeTheirColumns(t *testing.T) {
	sources, err := filepath.Glob("testdata/proto/*.proto")
	if err != nil || len(sources) != 5 {
		t.Fatalf("schemas are %v, %v", sources, err)
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		columns := ProtobufArrowSchema(protoMessage(t, string(text)))
		checkGolden(t, source, schemaText(columns))
		fields := protoMessage(t, string(text)).Fields()
		for i, want := range columns.Fields() {
			if got := ProtobufArrowField(fields.Get(i)); !got.Equal(want) {
				t.Errorf("%s: field %s alone is %v, in its message %v", source, want.Name, got, want)
			}
		}
	}
}

func TestMetadataKeysOfProtobufAreThoseOfThePlan(t *testing.T) {
	got := []string{protoplan.KeyJSON, protoplan.KeyEnum, protoplan.KeyOneof, protoplan.KeyWrapper, protoplan.KeyMessage}
	want := []string{MetadataJSON, MetadataProtoEnum, MetadataProtoOneof, MetadataProtoWrapper, MetadataProtoMessage}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

// placedCache knows the orders file under id 7.
func placedCache(t testing.TB) *schema.SchemaCache {
	t.Helper()
	cache := offlineCache(t)
	spec, err := schema.ProtobufFramerSpec((&testpb.Placed{}).ProtoReflect().Descriptor())
	if err != nil {
		t.Fatal(err)
	}
	cache.SeedSubjectID("orders-value", 7)
	cache.SeedWriterSchema(7, spec.Schema)
	if err := cache.SeedWriterReferences(7, spec.References...); err != nil {
		t.Fatal(err)
	}
	return cache
}

func TestProtobufRecordsBecomeColumnsAndComeBack(t *testing.T) {
	codec := NewProtobufBatchCodec((*testpb.Placed)(nil), placedCache(t), checkedTestAllocator(t))
	if err := codec.Err(); err != nil {
		t.Fatal(err)
	}
	full := placed()
	bodies := [][]byte{wireOf(t, full), {}, nil, wireOf(t, &testpb.Placed{Payment: &testpb.Placed_Card{}})}
	records := make([]columnar.ConsumedRecord, len(bodies))
	for i, body := range bodies {
		records[i] = columnar.ConsumedRecord{Key: []byte("k"), Timestamp: 42, Partition: 3, Offset: int64(100 + i)}
		if body != nil {
			records[i].Value = protoFrame(t, 7, []int{0}, body)
		}
	}
	batch, err := codec.Decode("orders", records)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	want := map[string]string{
		"id": `["o-1" "" (null) ""]`, "gift": "[true false (null) false]", "note": `["" (null) (null) (null)]`,
		"tags": `[["" "x"] [] (null) []]`, "card": `[(null) (null) (null) ""]`,
		"cash":                   `{[0 (null) (null) (null)] ["EUR" (null) (null) (null)]}`,
		columnar.TombstoneColumn: "[false false true false]", columnar.OffsetColumn: "[100 101 102 103]",
	}
	for name, values := range want {
		if got := batch.Column(batch.Schema().FieldIndices(name)[0]).String(); got != values {
			t.Errorf("column %s is %s, want %s", name, got, values)
		}
	}
	produced, err := codec.Encode("orders", batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, record := range records {
		if diff := cmp.Diff(record.Value, produced[i].Value); diff != "" {
			t.Errorf("value of record %d (-want +got):\n%s", i, diff)
		}
	}
}

// The message stands elsewhere in another file that declares it.
func TestMessageIndexesAreThoseOfTheWriter(t *testing.T) {
	local := protoMessage(t, `syntax = "proto3"; package p; message M { string a = 1; }`)
	cache := offlineCache(t)
	cache.SeedSubjectID("m-value", 1)
	cache.SeedWriterSchema(1, `syntax = "proto3"; package p; message M { string a = 1; }`)
	cache.SeedWriterSchema(2, `syntax = "proto3"; package p; message Other { message In {} } message M { string a = 1; int32 b = 2; }`)
	cache.SeedWriterSchema(3, `syntax = "proto3";`)
	cache.SeedWriterMessageType(3, "p.M")
	cache.SeedWriterSchema(4, `syntax = "proto3";`)
	cache.SeedWriterMessageType(4, "p.Stated")
	codec := NewProtobufBatchCodec(dynamicpb.NewMessage(local), cache, checkedTestAllocator(t))
	body := []byte{0x0a, 1, 'x', 0x10, 5}
	for _, tc := range []struct {
		id      int
		indexes []int
		want    string // of the error
	}{
		{1, []int{0}, ""}, {2, []int{1}, ""}, {3, []int{0}, ""}, {3, []int{4}, ""},
		{1, []int{1}, "indexes [1] lead nowhere"},
		{2, []int{0}, "writer p.Other, local p.M"},
		{2, []int{0, 0}, "writer p.Other.In, local p.M"},
		{4, []int{0}, "writer p.Stated, local p.M"},
	} {
		batch, err := codec.Decode("m", []columnar.ConsumedRecord{{Value: protoFrame(t, tc.id, tc.indexes, body)}})
		if tc.want == "" {
			if err != nil {
				t.Errorf("schema %d indexes %v: %v", tc.id, tc.indexes, err)
				continue
			}
			if got := batch.Column(0).String(); got != `["x"]` {
				t.Errorf("schema %d indexes %v: column a is %s", tc.id, tc.indexes, got)
			}
			batch.Release()
			continue
		}
		var wrong *schema.ProtobufMessageError
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Error(), tc.want) || wrong.Local != "p.M" {
			t.Errorf("schema %d indexes %v gives %v, want an error that says %q", tc.id, tc.indexes, err, tc.want)
		}
	}
	_, err := codec.Decode("m", []columnar.ConsumedRecord{{Value: protoFrame(t, 99, []int{0}, body)}})
	var pending *schema.FetchPendingError
	if unavailable := new(schema.SchemaUnavailableError); !errors.As(err, &pending) && !errors.As(err, &unavailable) {
		t.Errorf("an unknown schema gives %v", err)
	}
}

func TestUndeclaredFieldsPassThroughOnDemand(t *testing.T) {
	local := protoMessage(t, `syntax = "proto3"; package p; message M { string a = 5; }`)
	cache := offlineCache(t)
	cache.SeedSubjectID("m-value", 1)
	cache.SeedWriterSchema(1, `syntax = "proto3"; package p; message M { string a = 5; }`)
	// Field 9 comes before and behind field 5, and as a group.
	body := []byte{0x48, 1, 0x2a, 1, 'x', 0x4b, 0x08, 7, 0x4c}
	records := []columnar.ConsumedRecord{{Value: protoFrame(t, 1, []int{0}, body)}, {Value: protoFrame(t, 1, []int{0}, []byte{0x2a, 0})}}
	for name, tc := range map[string]struct {
		options []CodecOption
		columns string
		want    []byte
	}{
		"dropped": {nil, `["x" ""]`, []byte{0x2a, 1, 'x'}},
		"kept":    {[]CodecOption{WithUnknownFields()}, `["x" ""]`, []byte{0x2a, 1, 'x', 0x48, 1, 0x4b, 0x08, 7, 0x4c}},
	} {
		codec := NewProtobufBatchCodec(dynamicpb.NewMessage(local), cache, checkedTestAllocator(t), tc.options...)
		batch, err := codec.Decode("m", records)
		if err != nil {
			t.Fatal(err)
		}
		if got := batch.Column(0).String(); got != tc.columns {
			t.Errorf("%s: column a is %s", name, got)
		}
		produced, err := codec.Encode("m", batch)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, produced[0].Value[6:]); diff != "" {
			t.Errorf("%s: body (-want +got):\n%s", name, diff)
		}
		batch.Release()
	}
}

func TestProjectedProtobufColumnsAreTheOnesThatAreBuilt(t *testing.T) {
	codec := NewProtobufBatchCodec((*testpb.Placed)(nil), placedCache(t), checkedTestAllocator(t), WithColumns("card", "id"))
	both := append(wireOf(t, &testpb.Placed{Id: "o", Payment: &testpb.Placed_Card{Card: "c"}}), wireOf(t, placed())...)
	batch, err := codec.Decode("orders", []columnar.ConsumedRecord{{Value: protoFrame(t, 7, []int{0}, both)}})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	// The cash payment, which has no column, takes the place of the card.
	if got := batch.Schema().Field(1).Name; got != "card" || batch.Column(0).String() != `["o-1"]` || batch.Column(1).String() != "[(null)]" {
		t.Errorf("batch is %v", batch)
	}
}

func TestBadProtobufRecordsLeaveNoTrace(t *testing.T) {
	var poison []int
	codec := NewProtobufBatchCodec((*testpb.Placed)(nil), placedCache(t), checkedTestAllocator(t),
		WithPoisonHandler(func(e *columnar.RecordError) { poison = append(poison, e.Index) }))
	strict := NewProtobufBatchCodec((*testpb.Placed)(nil), placedCache(t), checkedTestAllocator(t))
	good := protoFrame(t, 7, []int{0}, wireOf(t, placed()))
	bad := append(append([]byte{}, good...), 0x2a, 3, 0x0a, 1, 0xff) // a line whose sku is no UTF-8
	records := []columnar.ConsumedRecord{{Value: good}, {Value: bad, Offset: 9}, {Value: good}}
	_, err := strict.Decode("orders", records)
	var failed *columnar.DecodeError
	if !errors.As(err, &failed) || len(failed.Records) != 1 || failed.Records[0].Offset != 9 ||
		!strings.Contains(err.Error(), "field lines[2].sku: at byte ") || !strings.Contains(err.Error(), "not valid UTF-8") {
		t.Errorf("the bad record gives %v", err)
	}
	batch, err := codec.Decode("orders", records)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	twice, err := strict.Decode("orders", []columnar.ConsumedRecord{{Value: good}, {Value: good}})
	if err != nil {
		t.Fatal(err)
	}
	defer twice.Release()
	if !array.RecordEqual(batch, twice) || !cmp.Equal(poison, []int{1}) {
		t.Errorf("without record %v the batch is\n%v\nwant\n%v", poison, batch, twice)
	}
}

func TestRowsThatAreNoMessageAreRefused(t *testing.T) {
	m := protoMessage(t, `syntax = "proto3"; package p; message M { int32 n = 1; oneof o { string a = 2; bool b = 3; } repeated string l = 4; E e = 5; } enum E { ZERO = 0; }`)
	cache := offlineCache(t)
	cache.SeedSubjectID("m-value", 1)
	codec := NewProtobufBatchCodec(dynamicpb.NewMessage(m), cache, checkedTestAllocator(t))
	fields := []arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "a", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true}, {Name: "l", Type: arrow.ListOf(arrow.BinaryTypes.String)},
		{Name: "e", Type: arrow.BinaryTypes.LargeString},
	}
	encode := func(fields []arrow.Field, json string) ([]byte, error) {
		batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader("["+json+"]"))
		if err != nil {
			t.Fatal(err)
		}
		defer batch.Release()
		produced, err := codec.Encode("m", batch)
		if err != nil {
			return nil, err
		}
		return produced[0].Value[6:], nil
	}
	body, err := encode(fields, `{"n":-1,"b":true,"l":["x",""],"e":"300"}`)
	if want := []byte{0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0x18, 1, 0x22, 1, 'x', 0x22, 0, 0x28, 0xac, 2}; err != nil || !cmp.Equal(want, body) {
		t.Errorf("body is %x, %v, want %x", body, err, want)
	}
	for json, want := range map[string]string{
		`{"n":2147483648,"l":[],"e":"ZERO"}`:         `column "n": the number 2147483648 is out of the range`,
		`{"n":1,"a":"","b":false,"l":[],"e":"ZERO"}`: `column "b": both this member and a of a oneof`,
		`{"n":1,"l":["x",null],"e":"ZERO"}`:          `column "l[1]": a list in Protobuf has no nulls`,
		`{"n":1,"l":[],"e":"ONE"}`:                   `column "e": enum p.E has no value "ONE"`,
		`{"n":1,"l":[],"e":"2147483648"}`:            `column "e": enum p.E has no value "2147483648"`,
	} {
		var row *columnar.RowError
		if _, err := encode(fields, json); !errors.As(err, &row) || !strings.Contains(err.Error(), want) {
			t.Errorf("row %s gives %v, want an error that says %s", json, err, want)
		}
	}
	fields[0].Type, fields[3].Type = arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64
	_, err = encode(fields[:4], `{"n":"1","l":1}`)
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) {
		t.Fatalf("columns of other types give %v", err)
	}
	var columns []string
	for _, c := range mismatch.Columns {
		columns = append(columns, c.Column)
	}
	if diff := cmp.Diff([]string{"n", "l", "e"}, columns); diff != "" {
		t.Errorf("columns that do not fit (-want +got):\n%s", diff)
	}
}

func TestProtobufRowsBecomeColumnsAndComeBack(t *testing.T) {
	mem := checkedTestAllocator(t)
	bridge := NewProtobufRowBridge((*testpb.Placed)(nil))
	rows := []*testpb.Placed{placed(), {}, {Payment: &testpb.Placed_Card{}, Lines: []*testpb.Placed_Line{{}}}}
	batch, err := bridge.RowsToBatch(rows, mem)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if !batch.Schema().Equal(ProtobufArrowSchema((&testpb.Placed{}).ProtoReflect().Descriptor())) || !batch.Schema().Equal(bridge.ArrowSchema()) {
		t.Errorf("schema is %v", batch.Schema())
	}
	again, err := bridge.BatchToRows(batch)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, again, protocmp.Transform()); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	var row *columnar.RowError
	if _, err := bridge.RowsToBatch([]*testpb.Placed{{}, nil}, mem); !errors.As(err, &row) || row.Row != 1 {
		t.Errorf("a nil row gives %v", err)
	}
	empty, err := bridge.RowsToBatch(nil, mem)
	if err != nil || empty.NumRows() != 0 || empty.NumCols() != batch.NumCols() {
		t.Errorf("no rows give %v, %v", empty, err)
	}
	empty.Release()
}

func TestPrototypeThatNamesNoMessageIsReported(t *testing.T) {
	codec := NewProtobufBatchCodec((*dynamicpb.Message)(nil), offlineCache(t), checkedTestAllocator(t))
	_, decode := codec.Decode("m", []columnar.ConsumedRecord{{Value: []byte{0}}})
	bridge := NewProtobufRowBridge[proto.Message](nil)
	_, rows := bridge.RowsToBatch(nil, memory.DefaultAllocator)
	codec.RegisterSubject("m")
	for name, err := range map[string]error{"Err": codec.Err(), "Decode": decode, "RowsToBatch": rows} {
		if err == nil || !strings.Contains(err.Error(), "the prototype is nil") {
			t.Errorf("%s gives %v", name, err)
		}
	}
	if codec.ArrowSchema().NumFields() != 0 || bridge.ArrowSchema().NumFields() != 0 {
		t.Error("a codec without a message has columns")
	}
}

func TestProtobufColumnsAreCheckedBeforeTheFirstRow(t *testing.T) {
	for _, prototype := range []proto.Message{&testpb.Placed{}, &testpb.Scalars{}, &testpb.Basket{}} {
		codec := NewProtobufBatchCodec(prototype, offlineCache(t), checkedTestAllocator(t))
		if err := codec.CheckSchema(codec.Schema()); err != nil {
			t.Errorf("the codec's own columns: %v", err)
		}
		err := codec.CheckSchema(arrow.NewSchema(codec.Schema().Fields()[1:], nil))
		if mismatch, ok := err.(*MismatchError); !ok || len(mismatch.Columns) != 1 || mismatch.Columns[0].Column != codec.Schema().Field(0).Name {
			t.Errorf("a missing column gives %v", err)
		}
	}
}

// A text that a registry holds is looked up as it is, with its comments.
func TestProtobufTopicsKeepTheTextOfTheRegistry(t *testing.T) {
	const text = "// Pings.\nsyntax = \"proto3\";\npackage p;\nmessage Ping { string text = 1; }\n"
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := struct {
			ID      int    `json:"id"`
			Subject string `json:"subject"`
			Version int    `json:"version"`
			Schema  string `json:"schema"`
			Type    string `json:"schemaType"`
		}{1, "pings-value", 1, text, "PROTOBUF"}
		if r.Method == http.MethodPost {
			var asked struct{ Schema string }
			if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
				t.Error(err)
			}
			sent = append(sent, asked.Schema)
		}
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	client, err := schema.NewRegistryClient(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	cache := newCache(t, client)
	if _, err := FromRegistry(t.Context(), client, cache, "pings").Codec(checkedTestAllocator(t)); err != nil {
		t.Fatal(err)
	}
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(sent) == 0 || sent[0] != text {
		t.Errorf("the registry was asked for %q", sent)
	}
}

// The frames are those that Protobuf for Java and protobuf-go have written.
func TestProtobufBodiesOfOtherLibrariesComeBack(t *testing.T) {
	// The nanosecond of the first is cut, and the extension of the other dropped.
	lossy := []string{"placed", "legacy"}
	for _, file := range []string{"java.txt", "go.txt"} {
		lines := goldenFrames(t, file)
		if len(lines) < 19 {
			t.Fatalf("%s has only %d frames", file, len(lines))
		}
		for i, message := range goldenFrames(t, "cases.txt") {
			kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(message[1]))
			if err != nil {
				t.Fatal(err)
			}
			value, err := hex.DecodeString(lines[i][1])
			if err != nil || lines[i][0] != message[0] {
				t.Fatalf("%s: frame %d is %q, %v", file, i, lines[i], err)
			}
			again := recordThroughColumns(t, kind.Zero().Interface(), value)
			if same := bytes.Equal(value, again); same == slices.Contains(lossy, message[0]) {
				t.Errorf("%s: %s comes back as\n%x, was\n%x", file, message[0], again, value)
			}
		}
	}
}

// goldenFrames returns the lines of a file of frames, split into their parts.
func goldenFrames(t *testing.T, file string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../schema/testdata/protobuf", file))
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.Split(line, "|"))
		}
	}
	return lines
}

// recordThroughColumns reads a record into columns, and writes it again.
func recordThroughColumns(t *testing.T, prototype proto.Message, value []byte) []byte {
	t.Helper()
	spec, err := schema.ProtobufFramerSpec(prototype.ProtoReflect().Descriptor())
	if err != nil {
		t.Fatal(err)
	}
	frame, err := schema.DecodeProtobuf(value)
	if err != nil {
		t.Fatal(err)
	}
	cache := offlineCache(t)
	cache.SeedSubjectID("t-value", frame.SchemaID)
	cache.SeedWriterSchema(frame.SchemaID, spec.Schema)
	if err := cache.SeedWriterReferences(frame.SchemaID, spec.References...); err != nil {
		t.Fatal(err)
	}
	codec := NewProtobufBatchCodec(prototype, cache, checkedTestAllocator(t))
	batch, err := codec.Decode("t", []columnar.ConsumedRecord{{Value: value}})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	produced, err := codec.Encode("t", batch)
	if err != nil {
		t.Fatal(err)
	}
	return produced[0].Value
}

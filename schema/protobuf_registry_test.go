// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/krabka-io/krabka-streams-go/internal/prototext"
	"github.com/krabka-io/krabka-streams-go/internal/registrydouble"
	"github.com/krabka-io/krabka-streams-go/internal/testpb"
)

// dynamicProtobuf returns a serde of dynamic messages.
func dynamicProtobuf(tb testing.TB, text, name string, cache *SchemaCache, options ...SerdeOption) *ProtobufSerde[*dynamicpb.Message] {
	tb.Helper()
	s, err := NewDynamicProtobufSerde(text, name, cache, RoleValue, options...)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// fieldsOf returns the fields of a message that are set, in the JSON mapping.
func fieldsOf(tb testing.TB, message proto.Message) string {
	tb.Helper()
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
	if err != nil {
		tb.Fatal(err)
	}
	return compacted(KindJSON, string(text))
}

// sourceOf returns the text that a file of testpb is compiled from.
func sourceOf(tb testing.TB, file protoreflect.FileDescriptor) string {
	tb.Helper()
	text, err := os.ReadFile("../internal/testpb/" + file.Path())
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// The file of Placed imports customer.proto and money.proto, and the first of
// them imports the second.
func TestProtobufImportsAreRegisteredFirstAndOnce(t *testing.T) {
	double := newInProcessRegistry(t)
	cache := double.cache()
	placed := newProtobuf(t, &testpb.Placed{}, cache)
	customer := newProtobuf(t, &testpb.Customer{}, cache)
	placed.RegisterSubject("t")
	customer.RegisterSubject("c")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]int{
		"POST /subjects/shop%2Fmoney.proto/versions":    1,
		"POST /subjects/shop%2Fcustomer.proto/versions": 1,
		"POST /subjects/t-value/versions":               1,
		"POST /subjects/c-value/versions":               1,
	} {
		if n := double.count(request); n != want {
			t.Errorf("%d times %s, want %d", n, request, want)
		}
	}
	if n := len(double.recorded()); n != 4 {
		t.Errorf("%d requests, want 4: %v", n, double.recorded())
	}
	var registered schemaBody
	for _, r := range double.Requests() {
		if strings.HasPrefix(r.Path, "/subjects/t-value/") {
			if err := json.Unmarshal([]byte(r.Body), &registered); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []SchemaReference{{"shop/customer.proto", "shop/customer.proto", 1}, {"shop/money.proto", "shop/money.proto", 1}}
	if diff := cmp.Diff(want, registered.References); diff != "" {
		t.Errorf("references mismatch (-want +got):\n%s", diff)
	}
	if registered.SchemaType != "PROTOBUF" || registered.MessageType != "shop.Placed" || registered.Schema != prototext.Print(testpb.File_shop_order_proto) {
		t.Errorf("registered %+v", registered)
	}

	data, err := placed.Serialize("t", samePlaced())
	if err != nil {
		t.Fatal(err)
	}
	// Another process reads the record with nothing but the registry.
	other := double.cache()
	id, _ := cache.IDForSubject("t-value")
	if _, err := other.AwaitWriterSchema(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range other.WriterDependencies(id) {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"shop/money.proto", "shop/customer.proto"}, names); diff != "" {
		t.Errorf("dependencies mismatch (-want +got):\n%s", diff)
	}
	got, err := newProtobuf(t, (*testpb.Placed)(nil), other).Deserialize("t", data)
	if diff := cmp.Diff(samePlaced(), got, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("Deserialize: %v, mismatch (-want +got):\n%s", err, diff)
	}
	dynamic, err := newProtobuf[*dynamicpb.Message](t, nil, other).Deserialize("t", data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(samePlaced(), dynamic, protocmp.Transform()); diff != "" {
		t.Errorf("a dynamic message mismatch (-want +got):\n%s", diff)
	}
}

func TestProtobufReferencesCanBeGiven(t *testing.T) {
	double := newInProcessRegistry(t)
	double.register("money-of-all", NewSchema{Kind: KindProtobuf, Schema: "other"})
	double.register("money-of-all", NewSchema{Kind: KindProtobuf, Schema: prototext.Print(testpb.File_shop_money_proto)})
	cache := double.cache()
	s := newProtobuf(t, &testpb.Customer{}, cache,
		WithReferences(Reference{Name: "shop/money.proto", Subject: "money-of-all", Version: 2}))
	s.RegisterSubject("c")
	named := newProtobuf(t, &testpb.Customer{}, cache,
		WithReferenceSubjects(func(path string) string { return strings.ReplaceAll(path, "/", ".") }))
	named.RegisterSubject("named")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	for subject, want := range map[string][]SchemaReference{
		"c-value":     {{"shop/money.proto", "money-of-all", 2}},
		"named-value": {{"shop/money.proto", "shop.money.proto", 1}},
	} {
		latest, err := double.client().Latest(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, latest.References); diff != "" {
			t.Errorf("%s: references mismatch (-want +got):\n%s", subject, diff)
		}
	}
}

// Files that import all files before them have 2^n paths through their imports.
func TestALadderOfImportsIsNotUnfolded(t *testing.T) {
	double := newInProcessRegistry(t)
	cache := double.cache()
	var references []Reference
	text := func(n int) string {
		var b strings.Builder
		b.WriteString(`syntax = "proto3"; `)
		for i := range n {
			fmt.Fprintf(&b, `import "f%d.proto"; `, i)
		}
		fmt.Fprintf(&b, "message M%d {", n)
		for i := range n {
			fmt.Fprintf(&b, " M%d f%d = %d;", i, i, i+1)
		}
		return b.String() + " }"
	}
	const files = 40
	for i := range files {
		name := fmt.Sprintf("f%d.proto", i)
		references = append(references, Reference{Name: name, Subject: name, Schema: text(i), References: references[:i:i]})
	}
	s := dynamicProtobuf(t, text(files), "", cache, WithReferences(references...))
	s.RegisterSubject("t")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(double.recorded()); n != files+1 {
		t.Errorf("%d requests, want %d", n, files+1)
	}
}

func TestProtobufRegisterModes(t *testing.T) {
	double := newInProcessRegistry(t, registrydouble.Settings{WithoutMessageTypes: true})
	lookup := double.cache(WithRegisterMode(LookupOnly))
	customer := newProtobuf(t, &testpb.Customer{}, lookup)
	customer.RegisterSubject("t")
	if err := lookup.Prewarm(t.Context()); !errors.Is(err, ErrSubjectNotFound) || !strings.Contains(err.Error(), "reference shop/money.proto in subject shop/money.proto") {
		t.Errorf("looking up what is not there: %v", err)
	}
	auto := double.cache()
	newProtobuf(t, &testpb.Customer{}, auto).RegisterSubject("t")
	if err := auto.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lookup.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, _ := auto.IDForSubject("t-value")
	if id, ok := lookup.IDForSubject("t-value"); !ok || id != want {
		t.Errorf("looked up %d, want %d", id, want)
	}
	for _, request := range double.recorded() {
		if strings.Contains(request, "google") {
			t.Errorf("a well-known file is in the request %s", request)
		}
	}
}

func TestUseLatestWritesTheIndexesOfTheLatestSchema(t *testing.T) {
	double := newInProcessRegistry(t)
	latest := double.register("t-value", NewSchema{Kind: KindProtobuf, Schema: `syntax = "proto3"; package shop;
		message Added {} message Placed { string id = 1; } message Shipped { string id = 1; string carrier = 2; int32 parcels = 3; }`})
	cache := double.cache(WithRegisterMode(UseLatest), WithoutLatestCheck())
	s := newProtobuf(t, &testpb.Shipped{}, cache)
	s.RegisterSubject("t")
	missing := newProtobuf(t, &testpb.Cancelled{}, cache)
	missing.RegisterSubject("t")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := s.Serialize("t", &testpb.Shipped{Id: "a"})
	if want := string(Encode(latest, []byte("\x02\x04\x0a\x01a"))); err != nil || string(data) != want {
		t.Errorf("Serialize = % x, %v, want % x", data, err, want)
	}
	if got, err := s.Deserialize("t", data); err != nil || got.GetId() != "a" {
		t.Errorf("Deserialize = %v, %v", got, err)
	}
	_, err = missing.Serialize("t", &testpb.Cancelled{})
	wantProtobufError[*ProtobufMessageError](t, err, fmt.Sprintf(
		"cannot serialize schema value: schema %d declares no message shop.Cancelled with message indexes (PROTOBUF schema %[1]d, subject t-value)", latest))
}

func TestUseLatestComparesProtobufFiles(t *testing.T) {
	double := newInProcessRegistry(t)
	const local = `syntax = "proto3"; package shop; message Sale { int64 cents = 1; }`
	for subject, text := range map[string]string{
		"wider-value":      `syntax = "proto3"; package shop; message First {} message Sale { int64 cents = 1; string shop = 2; }`,
		"other-value":      `syntax = "proto3"; package shop; message Sale { string cents = 1; }`,
		"missing-value":    `syntax = "proto3"; package shop; message Other {}`,
		"unreadable-value": `syntax = "proto3"; import "gone.proto";`,
	} {
		double.register(subject, NewSchema{Kind: KindProtobuf, Schema: text})
	}
	cache := double.cache(WithRegisterMode(UseLatest))
	s := dynamicProtobuf(t, local, "", cache)
	for _, topic := range []string{"wider", "other", "missing", "unreadable"} {
		s.RegisterSubject(topic)
	}
	report := cache.PrewarmReport(t.Context())
	for subject, want := range map[string]string{
		"other-value":      "shop.Sale",
		"missing-value":    "message shop.Sale is absent from the reader",
		"unreadable-value": `import "gone.proto" is neither a well-known file nor a reference of the schema`,
	} {
		err := report.Failures[subject]
		if err == nil || !strings.HasPrefix(err.Error(), "latest schema ") ||
			!strings.Contains(err.Error(), " cannot read what the local schema describes: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %s", subject, err, want)
		}
	}
	if err := report.Failures["wider-value"]; err != nil {
		t.Errorf("a schema with more fields: %v", err)
	}
	message := dynamicpb.NewMessage(s.Descriptor())
	message.Set(s.Descriptor().Fields().ByName("cents"), protoreflect.ValueOfInt64(7))
	if data, err := s.Serialize("wider", message); err != nil || string(data[5:]) != "\x02\x02\x08\x07" {
		t.Errorf("Serialize = % x, %v", data, err)
	}
}

// One topic carries several messages, in one serde.
func TestATopicOfSeveralMessages(t *testing.T) {
	double := newInProcessRegistry(t, registrydouble.Settings{WithoutMessageTypes: true})
	for name, options := range map[string][]SerdeOption{
		"one subject":            nil,
		"a subject for each":     {WithRecordStrategy(TopicRecordNameStrategy)},
		"a text of one's own":    {WithProtobufText(sourceOf(t, testpb.File_shop_order_proto))},
		"without a prototype":    nil,
		"subjects, no prototype": {WithRecordStrategy(TopicRecordNameStrategy)},
	} {
		cache := double.cache()
		var prototype proto.Message = &testpb.Placed{}
		messages := []proto.Message{&testpb.Shipped{}, (*testpb.Node)(nil)}
		if strings.Contains(name, "prototype") {
			messages, prototype = append(messages, prototype), nil
		}
		s := newProtobuf(t, prototype, cache, append(options, WithMessages(messages...))...)
		s.RegisterSubject("t")
		if err := cache.Prewarm(t.Context()); err != nil {
			t.Fatal(err)
		}
		ids := map[string]bool{}
		for _, want := range []proto.Message{samePlaced(), &testpb.Shipped{Id: "s"}, &testpb.Node{Text: proto.String("n")}} {
			data, err := s.Serialize("t", want)
			if err != nil {
				t.Fatalf("%s: %T: %v", name, want, err)
			}
			ids[string(data[:5])] = true
			got, err := s.Deserialize("t", data)
			if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
				t.Errorf("%s: %v, mismatch (-want +got):\n%s", name, err, diff)
			}
			appended, err := s.AppendSerialize([]byte("x"), "t", want)
			if err != nil || string(appended) != "x"+string(data) {
				t.Errorf("%s: AppendSerialize = %x, %v", name, appended, err)
			}
			bare, headers, err := s.SerializeWithHeaders("t", want, nil)
			if err != nil || len(headers) != 1 || !strings.HasSuffix(string(data), string(bare)) {
				t.Fatalf("%s: SerializeWithHeaders = %x, %v, %v", name, bare, headers, err)
			}
			if got, err = s.DeserializeWithHeaders("t", bare, headers); err != nil && !isPending(err) || err == nil && !proto.Equal(got, want) {
				t.Errorf("%s: with headers %v, %v", name, got, err)
			}
		}
		if len(ids) != 2 {
			t.Errorf("%s: %d schema ids, want one for each file", name, len(ids))
		}
		_, err := s.Serialize("t", &testpb.Money{})
		wrong, ok := errors.AsType[*ProtobufMessageError](err)
		if !ok || !strings.HasPrefix(err.Error(), "cannot serialize schema value: message shop.Money is none that the serde writes") {
			t.Errorf("%s: a message that is not among them: %v, %v", name, wrong, err)
		}
		if data, err := s.Serialize("t", nil); data != nil || err != nil {
			t.Errorf("%s: nil is written as %x, %v", name, data, err)
		}
	}
}

func isPending(err error) bool {
	_, ok := errors.AsType[*FetchPendingError](err)
	return ok
}

func TestMessagesFromTheRegistrysTextAlone(t *testing.T) {
	const text = `syntax = "proto2"; package far;
		message Event { optional string name = 1; map<string, int32> counts = 2; repeated Kind kinds = 3 [packed = true];
			optional group Place = 4 { optional double x = 1; } extensions 100 to max; message Inner { optional bool on = 1; } }
		enum Kind { NONE = 0; BIG = 1; }
		extend Event { optional string note = 100; }
		message Second { optional Event event = 1; }`
	cache := offlineCache(t)
	cache.SeedWriterSchema(1, text)
	body := "\x0a\x01a\x12\x05\x0a\x01k\x10\x07\x1a\x02\x01\x00\x23\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x24\xa2\x06\x02hi\xf8\x3f\x01"
	for _, indexed := range []string{"\x00", "\x02\x00"} {
		s := newProtobuf[*dynamicpb.Message](t, nil, cache)
		got, err := s.Deserialize("t", Encode(1, []byte(indexed+body)))
		if err != nil {
			t.Fatal(err)
		}
		const want = `{"name":"a","counts":{"k":7},"kinds":["BIG","NONE"],"Place":{"x":1},"[far.note]":"hi"}`
		if text := fieldsOf(t, got); text != want {
			t.Errorf("fields are %s, want %s", text, want)
		}
		if got.ProtoReflect().Descriptor().FullName() != "far.Event" || len(got.GetUnknown()) != 3 {
			t.Errorf("message %v with %x unknown", got.ProtoReflect().Descriptor().FullName(), got.GetUnknown())
		}
	}
	generic := newProtobuf[proto.Message](t, nil, cache)
	got, err := generic.Deserialize("t", Encode(1, []byte("\x02\x02\x0a\x03\x0a\x01a")))
	if err != nil || fieldsOf(t, got) != `{"event":{"name":"a"}}` {
		t.Errorf("the second message: %v, %v", got, err)
	}
	got, err = generic.Deserialize("t", Encode(1, []byte("\x04\x00\x00\x08\x01")))
	if err != nil || fieldsOf(t, got) != `{"on":true}` {
		t.Errorf("a nested message, behind a map and a group: %v, %v", got, err)
	}
	if _, err := generic.Deserialize("t", Encode(1, []byte("\x04\x00\x02"))); err == nil || !strings.Contains(err.Error(), "message far.Event declares 1 messages") {
		t.Errorf("indexes of a group's message: %v", err)
	}
	_, err = generic.Deserialize("t", Encode(1, []byte("\x00\x12\x05\x0a\x02k")))
	data, ok := errors.AsType[*ProtobufDataError](err)
	if !ok || data.Message != "far.Event" || data.Path != "counts[0]" || data.Offset != 1 {
		t.Errorf("a truncated dynamic message: %v", err)
	}
	_, err = generic.Serialize("t", got)
	if wrong, ok := errors.AsType[*ProtobufMessageError](err); !ok || wrong.Error() != "message far.Event.Inner is none that the serde writes" {
		t.Errorf("writing without a schema: %v", err)
	}
	generic.RegisterSubject("t")
	if report := cache.PrewarmReport(t.Context()); len(report.Schemas) != 0 {
		t.Errorf("a serde without a schema has registered %+v", report.Schemas)
	}
}

func TestGenericMessagesTakeLinkedTypes(t *testing.T) {
	cache := offlineCache(t)
	local := newProtobuf(t, &testpb.Shipped{}, cache).local
	seedLocal(t, cache, 1, local)
	framed := Encode(1, []byte("\x02\x02\x0a\x01a"))
	for name, tt := range map[string]struct {
		options []SerdeOption
		linked  bool
	}{
		"linked":   {nil, true},
		"no types": {[]SerdeOption{WithProtobufTypes(new(protoregistry.Types))}, false},
	} {
		got, err := newProtobuf[proto.Message](t, nil, cache, tt.options...).Deserialize("t", framed)
		if err != nil {
			t.Fatal(err)
		}
		if _, linked := got.(*testpb.Shipped); linked != tt.linked || fieldsOf(t, got) != `{"id":"a"}` {
			t.Errorf("%s: %T %v", name, got, got)
		}
	}
	type carried interface {
		proto.Message
		GetCarrier() string
	}
	narrow := newProtobuf[carried](t, nil, cache)
	if got, err := narrow.Deserialize("t", framed); err != nil || got.(*testpb.Shipped).Id != "a" {
		t.Errorf("a narrow type: %v, %v", got, err)
	}
	_, err := narrow.Deserialize("t", Encode(1, []byte("\x00")))
	wantProtobufError[*ProtobufMessageError](t, err, "cannot deserialize schema value: Protobuf message shop.Placed (message indexes [0]) "+
		"has no Go type that is a schema.carried (PROTOBUF schema 1, subject t-value)")
}

func TestExtensionsAreFoundThroughTheTypes(t *testing.T) {
	cache := offlineCache(t)
	framed := Encode(1, []byte("\x00\x0a\x01a\xa2\x06\x02hi"))
	linked := newProtobuf(t, &testpb.Legacy{}, cache)
	seedLocal(t, cache, 1, linked.local)
	got, err := linked.Deserialize("t", framed)
	if err != nil || proto.GetExtension(got, testpb.E_Remark) != "hi" {
		t.Errorf("a linked extension: %v, %v", got, err)
	}
	without := newProtobuf(t, &testpb.Legacy{}, cache, WithProtobufTypes(new(protoregistry.Types)))
	got, err = without.Deserialize("t", framed)
	if err != nil || len(got.ProtoReflect().GetUnknown()) != 5 {
		t.Errorf("without types: %v, %v", got, err)
	}
}

func TestDynamicMessagesUnderATextOfOnesOwn(t *testing.T) {
	double := newInProcessRegistry(t)
	cache := double.cache()
	const money = `syntax = "proto3"; package far; message Money { int64 cents = 1; }`
	const text = `syntax = "proto3"; package far; import "money.proto"; import "google/protobuf/any.proto";
		message Other {} message Bill { Money sum = 1; google.protobuf.Any extra = 2; }`
	s := dynamicProtobuf(t, text, "far.Bill", cache, WithReferences(Reference{Name: "money.proto", Subject: "money", Schema: money}))
	s.RegisterSubject("t")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	latest, err := double.client().Latest(t.Context(), "t-value")
	if err != nil || latest.Schema != text || latest.MessageType != "far.Bill" {
		t.Errorf("registered %+v, %v", latest, err)
	}
	bill := dynamicpb.NewMessage(s.Descriptor())
	sum := s.Descriptor().Fields().ByName("sum")
	bill.Mutable(sum).Message().Set(sum.Message().Fields().ByName("cents"), protoreflect.ValueOfInt64(7))
	data, err := s.Serialize("t", bill)
	if err != nil || string(data[5:]) != "\x02\x02\x0a\x02\x08\x07" {
		t.Fatalf("Serialize = % x, %v", data, err)
	}
	got, err := s.Deserialize("t", data)
	if err != nil || !proto.Equal(bill, got) || got.Descriptor() != s.Descriptor() {
		t.Errorf("Deserialize = %v, %v", got, err)
	}
	if _, err := s.Serialize("t", dynamicpb.NewMessage(sum.Message())); err == nil ||
		err.Error() != "cannot serialize schema value: message far.Money is none that the serde writes (PROTOBUF schema 2, subject t-value)" {
		t.Errorf("another message: %v", err)
	}
}

func TestWithoutMessageCheckNoSchemaIsNeeded(t *testing.T) {
	client, err := NewRegistryClient("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	cache := NewSchemaCache(client)
	s := newProtobuf(t, &testpb.Shipped{}, cache, WithoutMessageCheck())
	for _, indexes := range []string{"\x00", "\x02\x06"} {
		if got, err := s.Deserialize("t", Encode(99, []byte(indexes+"\x0a\x01a"))); err != nil || got.GetId() != "a" {
			t.Errorf("Deserialize = %v, %v", got, err)
		}
	}
	if fetches := cache.Stats().SchemasInProgress; fetches != 0 {
		t.Errorf("%d fetches", fetches)
	}
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
}

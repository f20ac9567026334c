// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/krabka-io/krabka-streams-go/internal/prototext"
	"github.com/krabka-io/krabka-streams-go/internal/registrydouble"
	"github.com/krabka-io/krabka-streams-go/internal/testpb"
)

// newProtobuf returns a serde that works.
func newProtobuf[T proto.Message](tb testing.TB, prototype T, cache *SchemaCache, options ...SerdeOption) *ProtobufSerde[T] {
	tb.Helper()
	s := NewProtobufSerde(prototype, cache, RoleValue, options...)
	if err := s.Err(); err != nil {
		tb.Fatal(err)
	}
	return s
}

// seededProtobuf returns a serde over a cache without a registry, whose subject
// for the topic "t" has the id.
func seededProtobuf[T proto.Message](tb testing.TB, prototype T, id int, options ...SerdeOption) (*ProtobufSerde[T], *SchemaCache) {
	tb.Helper()
	cache := offlineCache(tb)
	s := newProtobuf(tb, prototype, cache, options...)
	cache.SeedSubjectID("t-value", id)
	if s.local != nil {
		seedLocal(tb, cache, id, s.local)
	}
	return s, cache
}

// seedLocal makes an id stand for a local schema.
func seedLocal(tb testing.TB, cache *SchemaCache, id int, local *protobufLocal) {
	tb.Helper()
	cache.SeedWriterSchema(id, local.text)
	if err := cache.SeedWriterReferences(id, local.references...); err != nil {
		tb.Fatal(err)
	}
}

func samePlaced() *testpb.Placed {
	return &testpb.Placed{
		Id:       "o-1",
		At:       &timestamppb.Timestamp{Seconds: 1_700_000_000, Nanos: 1},
		Customer: &testpb.Customer{Name: "Ada", Credit: &testpb.Money{Cents: 5, Currency: "EUR"}},
		Lines:    []*testpb.Placed_Line{{Sku: "a", Count: -2}, {Sku: "b", Image: []byte{0}}},
		Note:     proto.String(""),
		Tags:     []string{"x", "y"},
		Payment:  &testpb.Placed_Cash{Cash: &testpb.Money{Cents: -1}},
	}
}

func wantProtobufError[E error](t *testing.T, err error, want string) E {
	t.Helper()
	typed, ok := errors.AsType[E](err)
	if !ok || err.Error() != want {
		t.Errorf("error is %T %v, want %T %s", err, err, typed, want)
	}
	return typed
}

func TestProtobufRoundTripsWithASeededMessageType(t *testing.T) {
	s, cache := seededProtobuf(t, (*wrapperspb.StringValue)(nil), 15)
	cache.SeedWriterMessageType(15, "google.protobuf.StringValue")
	data, err := s.Serialize("t", wrapperspb.String("hello"))
	if err != nil || hex.EncodeToString(data) != "000000000f"+"020e"+"0a0568656c6c6f" {
		t.Fatalf("Serialize = %x, %v", data, err)
	}
	value, err := s.Deserialize("t", data)
	if err != nil || value.GetValue() != "hello" {
		t.Errorf("Deserialize = %v, %v", value, err)
	}
	cache.SeedWriterMessageType(15, "demo.Other")
	_, err = s.Deserialize("t", data)
	wrong := wantProtobufError[*ProtobufMessageError](t, err, "cannot deserialize schema value: Protobuf messageType mismatch: "+
		"writer demo.Other, local google.protobuf.StringValue (message indexes [7]) (PROTOBUF schema 15, subject t-value)")
	if diff := cmp.Diff([]int{7}, wrong.Indexes); diff != "" || wrong.Writer != "demo.Other" || wrong.Local != "google.protobuf.StringValue" {
		t.Errorf("error is %+v", wrong)
	}
	for _, tombstone := range [][]byte{nil, {}} {
		if value, err := s.Deserialize("t", tombstone); value != nil || err != nil {
			t.Errorf("a tombstone is read as %v, %v", value, err)
		}
	}
	if data, err := s.Serialize("t", nil); data != nil || err != nil {
		t.Errorf("a nil message is written as %x, %v", data, err)
	}
}

// A registry may hold a text without messages, or one that only its own tools
// read. The message that it states is then what its records hold.
func TestAStatedMessageStandsInForTheText(t *testing.T) {
	s, cache := seededProtobuf(t, (*wrapperspb.StringValue)(nil), 1)
	framed := Encode(1, []byte("\x00\x0a\x01x"))
	for _, text := range []string{`syntax = "proto3";`, "not a schema"} {
		cache.SeedWriterSchema(1, text)
		cache.SeedWriterMessageType(1, "google.protobuf.StringValue")
		if value, err := s.Deserialize("t", framed); err != nil || value.GetValue() != "x" {
			t.Errorf("%s: Deserialize = %v, %v", text, value, err)
		}
		cache.SeedWriterMessageType(1, "demo.Other")
		if _, err := s.Deserialize("t", framed); err == nil || !strings.Contains(err.Error(), "Protobuf messageType mismatch: writer demo.Other, ") {
			t.Errorf("%s: error is %v", text, err)
		}
		cache.SeedWriterMessageType(1, "")
		if _, err := s.Deserialize("t", framed); err == nil {
			t.Errorf("%s: a record of no message is read", text)
		}
	}
	generic := newProtobuf[proto.Message](t, nil, cache)
	cache.SeedWriterMessageType(1, "google.protobuf.StringValue")
	if value, err := generic.Deserialize("t", framed); err != nil || value.(*wrapperspb.StringValue).GetValue() != "x" {
		t.Errorf("without a prototype: %v, %v", value, err)
	}
}

// The indexes, not the type that the registry states for the id, tell the
// messages of one file apart.
func TestMessagesOfOneFileShareAnIDAndKeepApart(t *testing.T) {
	double := newInProcessRegistry(t, registrydouble.Settings{WithoutMessageTypes: true})
	cache := double.cache()
	shipped := newProtobuf(t, (*testpb.Shipped)(nil), cache, WithRecordStrategy(TopicRecordNameStrategy))
	placed := newProtobuf(t, (*testpb.Placed)(nil), cache, WithRecordStrategy(TopicRecordNameStrategy))
	placed.RegisterSubject("t")
	shipped.RegisterSubject("t")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	one, err := placed.Serialize("t", samePlaced())
	if err != nil {
		t.Fatal(err)
	}
	two, err := shipped.Serialize("t", &testpb.Shipped{Id: "o-1", Carrier: "DHL"})
	if err != nil || !strings.HasPrefix(string(two), string(one[:5])+"\x02\x02") {
		t.Fatalf("messages of one file are written as %x and %x, %v", one, two, err)
	}
	if got, err := placed.Deserialize("t", one); err != nil || got.GetCustomer().GetName() != "Ada" {
		t.Errorf("Placed: %v, %v", got, err)
	}
	if got, err := shipped.Deserialize("t", two); err != nil || got.GetCarrier() != "DHL" {
		t.Errorf("Shipped: %v, %v", got, err)
	}
	_, err = shipped.Deserialize("t", one)
	wrong, ok := errors.AsType[*ProtobufMessageError](err)
	if !ok || wrong.Writer != "shop.Placed" || wrong.Local != "shop.Shipped" || !cmp.Equal(wrong.Indexes, []int{0}) {
		t.Errorf("a record of another message: %v", err)
	}
}

func TestMessageIndexesCountWhatTheTextDeclares(t *testing.T) {
	cache := offlineCache(t)
	for _, tt := range []struct {
		prototype proto.Message
		want      string
	}{
		{&testpb.Placed{}, "00"},
		{&testpb.Placed_Line{}, "040000"},
		{&testpb.Shipped{}, "0202"},
		{&testpb.Cancelled{}, "0204"},
		{&testpb.Cancelled_Reason{}, "040400"}, // behind the entries of a map
		{&testpb.Cancelled_Reason_Detail{}, "06040000"},
		{&testpb.Cancelled_Refund{}, "040402"},
		{&testpb.Legacy{}, "00"},
		{&testpb.Legacy_Part{}, "040000"}, // behind a group
		{&testpb.Node{}, "0202"},
	} {
		s := newProtobuf(t, tt.prototype, cache)
		if got := hex.EncodeToString(s.local.indexes); got != tt.want {
			t.Errorf("%T has indexes %s, want %s", tt.prototype, got, tt.want)
		}
	}
	for _, prototype := range []proto.Message{&testpb.Legacy_Header{}, dynamicpb.NewMessage((&testpb.Cancelled{}).ProtoReflect().Descriptor().Fields().ByNumber(1).Message())} {
		err := NewProtobufSerde(prototype, cache, RoleValue).Err()
		if want := "the Protobuf schema gives message " + string(prototype.ProtoReflect().Descriptor().FullName()) + " no message indexes: it is not declared there, or is that of a map or group"; err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}

func TestMessageIndexesAreThoseOfTheRegisteredText(t *testing.T) {
	const reordered = `syntax = "proto3"; package shop;
		message First { map<string, int32> counts = 1; message Inner {} }
		message Shipped { string carrier = 2; string id = 1; }`
	s, cache := seededProtobuf(t, &testpb.Shipped{}, 3, WithProtobufText(reordered))
	data, err := s.Serialize("t", &testpb.Shipped{Id: "a"})
	if err != nil || hex.EncodeToString(data) != "0000000003"+"0202"+"0a0161" {
		t.Fatalf("Serialize = %x, %v", data, err)
	}
	// Another writer has the message elsewhere.
	cache.SeedWriterSchema(4, `syntax = "proto3"; package shop; message A {} message B {} message Shipped { string id = 1; string more = 9; } message C {}`)
	for indexes, want := range map[string]string{
		"\x02\x04": "",
		"\x00":     "Protobuf messageType mismatch: writer shop.A, local shop.Shipped (message indexes [0])",
		"\x02\x06": "Protobuf messageType mismatch: writer shop.C, local shop.Shipped (message indexes [3])",
		"\x02\x08": "Protobuf message indexes [4] lead nowhere, or are absent: the schema declares 4 messages, the index 4 (1 of 1) is out of range",
		"\x04\x04\x02": "Protobuf message indexes [2 1] lead nowhere, or are absent: message shop.Shipped declares 0 messages, " +
			"the index 1 (2 of 2) is out of range",
	} {
		got, err := s.Deserialize("t", Encode(4, []byte(indexes+"\x0a\x01a\x4a\x01z")))
		if want == "" {
			if diff := cmp.Diff(&testpb.Shipped{Id: "a"}, got, protocmp.Transform(), protocmp.IgnoreUnknown()); err != nil || diff != "" {
				t.Errorf("% x: %v, mismatch (-want +got):\n%s", indexes, err, diff)
			}
			continue
		}
		wrong := wantProtobufError[*ProtobufMessageError](t, err, "cannot deserialize schema value: "+want+" (PROTOBUF schema 4, subject t-value)")
		if wrong != nil && wrong.Local != "shop.Shipped" {
			t.Errorf("% x: error is %+v", indexes, wrong)
		}
	}
	// The list [0] has a long form, too.
	cache.SeedWriterSchema(5, `syntax = "proto3"; package shop; message Shipped { string id = 1; }`)
	for _, indexes := range []string{"\x00", "\x02\x00", "\x82\x00\x80\x00"} {
		if got, err := s.Deserialize("t", Encode(5, []byte(indexes+"\x0a\x01a"))); err != nil || got.GetId() != "a" {
			t.Errorf("indexes % x: %v, %v", indexes, got, err)
		}
	}
}

func TestProtobufRecordsWithoutGoodIndexesAreErrors(t *testing.T) {
	s, _ := seededProtobuf(t, &testpb.Shipped{}, 3)
	for _, tt := range []struct{ name, body, want string }{
		{"nothing", "", "truncated Protobuf message-index varint; the message indexes are malformed or absent at byte 5 (PROTOBUF schema 3, subject t-value)"},
		{"a negative index", "\x02\x01", "Protobuf message index -1 (1 of 1) is negative; the message indexes are malformed or absent at byte 6 (PROTOBUF schema 3, subject t-value)"},
		{"a huge count", "\xfe\xff\xff\xff\x0f", "invalid Protobuf message-index count: 2147483647; the message indexes are malformed or absent at byte 5 (PROTOBUF schema 3, subject t-value)"},
		{"a bare message", "\x0a\x03o-1", "Protobuf message index -2 (1 of 5) is negative; the message indexes are malformed or absent at byte 6"},
		{"an index out of range", "\x02\x0e", "Protobuf message indexes [7] lead nowhere, or are absent: the schema declares 3 messages, the index 7 (1 of 1) is out of range"},
		{"a bare message with plausible indexes", "\x0a\x02\x02\x0a\x00\x12\x00", "Protobuf message indexes [1 1 5 0 9] lead nowhere, or are absent: message shop.Shipped declares 0 messages, the index 1 (2 of 5) is out of range"},
	} {
		_, err := s.Deserialize("t", Encode(3, []byte(tt.body)))
		frame, framed := errors.AsType[*FrameError](err)
		message, messaged := errors.AsType[*DeserializeError](err)
		switch {
		case framed && frame.Subject == "t-value" && frame.SchemaID == 3 && frame.Offset >= 5:
		case messaged && message.Subject == "t-value" && message.SchemaID == 3:
		default:
			t.Errorf("%s: error is %T %v", tt.name, err, err)
		}
		if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error is %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestProtobufEveryPrefixIsAnError(t *testing.T) {
	s, _ := seededProtobuf(t, &testpb.Placed{}, 9)
	data, err := s.Serialize("t", samePlaced())
	if err != nil {
		t.Fatal(err)
	}
	boundaries := map[int]bool{} // between fields a message may end
	for at := 6; at < len(data); {
		boundaries[at] = true
		_, _, n := protowire.ConsumeField(data[at:])
		at += n
	}
	for n := 1; n < len(data); n++ {
		value, err := s.Deserialize("t", data[:n])
		if boundaries[n] {
			continue
		}
		wrong, ok := errors.AsType[*ProtobufDataError](err)
		if _, framed := errors.AsType[*FrameError](err); n < 6 && framed {
			continue
		}
		if !ok || value != nil || wrong.Offset > n-6 || wrong.Message != "shop.Placed" || wrong.Path == "" && wrong.Offset == n-6 {
			t.Errorf("the first %d bytes are read as %v, %v", n, value, err)
		}
	}
}

func TestProtobufFaultsNameFieldAndOffset(t *testing.T) {
	s, _ := seededProtobuf(t, &testpb.Placed{}, 9, WithRecursionLimit(3))
	nodes, nodeCache := seededProtobuf(t, &testpb.Node{}, 9)
	_ = nodeCache
	deep := []byte{}
	for range 10_001 {
		deep = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), deep)
	}
	for _, tt := range []struct {
		name, body, want string
		path             string
		offset           int
	}{
		{"length", "\x0a\x05ab", "message shop.Placed field id at byte 1: unexpected EOF", "id", 1},
		{"nested", "\x1a\x04\x12\x02\x08\x80", "message shop.Placed field customer.credit.cents at byte 5: unexpected EOF", "customer.credit.cents", 5},
		{"not text", "\x2a\x03\x0a\x01\xff", "message shop.Placed field lines[0].sku at byte 4: the text is not valid UTF-8", "lines[0].sku", 4},
		{"tag", "\x0a\x00\x07", "message shop.Placed at byte 2: ", "", 2},
		{"unknown field", "\xf2\x07\x05a", "message shop.Placed field 126 at byte 2: unexpected EOF", "126", 2},
		{"fixed", "\x39\x00\x00", "message shop.Placed field weight at byte 1: unexpected EOF", "weight", 1},
		{"group end", "\x0c", "message shop.Placed at byte 0: cannot parse invalid wire-format data", "", 0},
		{"depth", "\x1a\x04\x12\x02\x08\x01\x1a\x00", "", "", 0},
	} {
		got, err := s.Deserialize("t", Encode(9, []byte("\x00"+tt.body)))
		if tt.want == "" {
			if err != nil || got.GetCustomer().GetCredit().GetCents() != 1 {
				t.Errorf("%s: %v, %v", tt.name, got, err)
			}
			continue
		}
		wrong, ok := errors.AsType[*ProtobufDataError](err)
		if !ok || wrong.Path != tt.path || wrong.Offset != tt.offset || !strings.Contains(err.Error(), tt.want) || wrong.Unwrap() == nil {
			t.Errorf("%s: error is %v, want %s", tt.name, err, tt.want)
		}
	}
	_, err := nodes.Deserialize("t", Encode(9, append([]byte("\x02\x02"), deep...)))
	half := strings.TrimSuffix(strings.Repeat("next.", 16), ".")
	if wrong, ok := errors.AsType[*ProtobufDataError](err); !ok || !strings.Contains(err.Error(), "exceeded maximum recursion depth") ||
		wrong.Offset == 0 || wrong.Path != half+"...."+half {
		t.Errorf("a message of 10001 levels: %.400v", err)
	}
	narrow, _ := seededProtobuf(t, &testpb.Node{}, 9, WithRecursionLimit(2))
	for body, deep := range map[string]bool{"\x0a\x00": false, "\x0a\x02\x0a\x00": true} {
		if _, err := narrow.Deserialize("t", Encode(9, []byte("\x02\x02"+body))); (err != nil) != deep {
			t.Errorf("with a limit of 2 levels % x: %v", body, err)
		}
	}
}

func TestProtobufKeepsUnknownFields(t *testing.T) {
	body := []byte("\x0a\x01a\x9a\x06\x02hi\xa0\x06\x07")
	for _, discard := range []bool{false, true} {
		var options []SerdeOption
		want := string(body)
		if discard {
			options, want = []SerdeOption{WithDiscardUnknown()}, "\x0a\x01a"
		}
		s, _ := seededProtobuf(t, &testpb.Shipped{}, 3, options...)
		value, err := s.Deserialize("t", Encode(3, append([]byte("\x02\x02"), body...)))
		if err != nil {
			t.Fatal(err)
		}
		data, err := s.Serialize("t", value)
		if err != nil || string(data[7:]) != want {
			t.Errorf("discard %v: written again as % x, %v, want % x", discard, data[7:], err, want)
		}
	}
}

func TestPartialMessages(t *testing.T) {
	strict, _ := seededProtobuf(t, &testpb.Legacy{}, 3)
	if data, err := strict.Serialize("t", &testpb.Legacy{}); err == nil || !strings.Contains(err.Error(), "required field shop.Legacy.id not set") {
		t.Errorf("Serialize = %x, %v", data, err)
	}
	_, err := strict.Deserialize("t", Encode(3, []byte{0}))
	wantProtobufError[*ProtobufDataError](t, err, "cannot deserialize schema value: message shop.Legacy at byte 0: required field shop.Legacy.id not set (PROTOBUF schema 3, subject t-value)")
	loose, _ := seededProtobuf(t, &testpb.Legacy{}, 3, WithPartialMessages())
	data, err := loose.Serialize("t", &testpb.Legacy{})
	if err != nil || len(data) != 6 {
		t.Fatalf("Serialize = %x, %v", data, err)
	}
	if value, err := loose.Deserialize("t", data); err != nil || value.Id != nil {
		t.Errorf("Deserialize = %v, %v", value, err)
	}
}

func TestProtobufConstructorErrors(t *testing.T) {
	cache := offlineCache(t)
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"no cache", NewProtobufSerde(&testpb.Money{}, nil, RoleValue).Err(), "schema cache must not be nil"},
		{"role", NewProtobufSerde(&testpb.Money{}, cache, Role(7)).Err(), "unknown role 7"},
		{"option of another format", NewProtobufSerde(&testpb.Money{}, cache, RoleValue, WithExactNumbers()).Err(),
			"WithExactNumbers is an option of JSON serdes, not of PROTOBUF ones"},
		{"nil values", NewProtobufSerde(&testpb.Money{}, cache, RoleValue, WithNilValues()).Err(), "WithNilValues is not for Protobuf, which has no null"},
		{"recursion limit", NewProtobufSerde(&testpb.Money{}, cache, RoleValue, WithRecursionLimit(0)).Err(), "recursion limit 0 is not positive"},
		{"types", NewProtobufSerde(&testpb.Money{}, cache, RoleValue, WithProtobufTypes(nil)).Err(), "Protobuf types must not be nil"},
		{"empty text", NewProtobufSerde(&testpb.Money{}, cache, RoleValue, WithProtobufText("")).Err(), "Protobuf text must not be empty"},
		{"text", NewProtobufSerde(&testpb.Money{}, cache, RoleValue, WithProtobufText("message {")).Err(), "invalid Protobuf schema: 1:9: syntax error: unexpected '{'"},
		{"text of another message", NewProtobufSerde(&testpb.Money{}, cache, RoleValue, WithProtobufText("message Money {}")).Err(),
			"the Protobuf schema gives message shop.Money no message indexes: it is not declared there, or is that of a map or group"},
		{"reference subjects", NewProtobufSerde(&testpb.Money{}, cache, RoleValue, WithReferenceSubjects(nil)).Err(), "reference subject strategy must not be nil"},
		{"nil messages", NewProtobufSerde[proto.Message](&testpb.Money{}, cache, RoleValue, WithMessages(nil)).Err(), "WithMessages needs messages that are not nil"},
		{"messages of another type", NewProtobufSerde(&testpb.Money{}, cache, RoleValue, WithMessages(&testpb.Node{})).Err(), "WithMessages: *testpb.Node is not a *testpb.Money"},
		{"a message twice", NewProtobufSerde[proto.Message](&testpb.Money{}, cache, RoleValue, WithMessages(&testpb.Money{})).Err(), "WithMessages: message shop.Money is given twice"},
		{"messages without a check", NewProtobufSerde[proto.Message](&testpb.Money{}, cache, RoleValue, WithMessages(&testpb.Node{}), WithoutMessageCheck()).Err(),
			"WithoutMessageCheck excludes WithMessages"},
		{"no prototype", NewProtobufSerde[proto.Message](nil, cache, RoleValue, WithoutMessageCheck()).Err(), "WithoutMessageCheck and WithProtobufText need a prototype"},
		{"dynamic text", dynamicError(cache, "message M {}", "", WithProtobufText("x")), "WithProtobufText is for serdes whose schema is not a parameter"},
		{"no text", dynamicError(cache, "", ""), "invalid Protobuf schema: it declares no message"},
		{"no such message", dynamicError(cache, "message M {}", "N"), "invalid Protobuf schema: it declares no message N"},
		{"missing import", dynamicError(cache, `import "a.proto"; message M {}`, ""),
			`invalid Protobuf schema: 1:8: import "a.proto" is neither a well-known file nor a reference of the schema`},
		{"conflict", dynamicError(cache, "message M {}", "", WithReferences(Reference{Name: "a", Schema: "x"}, Reference{Name: "a", Schema: "y"})),
			"conflicting schema references: a names version 0 of subject  and version 0 of subject "},
		{"embedded message", NewProtobufSerde(embedded{}, cache, RoleValue).Err(), "new messages of a schema.embedded are of type *testpb.Money"},
	} {
		if tt.err == nil || tt.err.Error() != tt.want {
			t.Errorf("%s: error is %v, want %s", tt.name, tt.err, tt.want)
		}
	}
}

type embedded struct{ *testpb.Money }

func dynamicError(cache *SchemaCache, text, name string, options ...SerdeOption) error {
	_, err := NewDynamicProtobufSerde(text, name, cache, RoleValue, options...)
	return err
}

// A constructor without an error result must not hide one until the first
// record.
func TestABrokenProtobufSerdeFailsThePrewarm(t *testing.T) {
	double := newInProcessRegistry(t)
	cache := double.cache()
	s := NewProtobufSerde(&testpb.Money{}, cache, RoleValue, WithRecursionLimit(-1))
	s.RegisterSubject("t")
	if err := cache.Prewarm(t.Context()); !errors.Is(err, ErrInvalidOption) || err.Error() != "t-value: recursion limit -1 is not positive" {
		t.Errorf("prewarm error is %v", err)
	}
	_, err1 := s.Serialize("t", &testpb.Money{})
	_, err2 := s.Deserialize("t", Encode(1, []byte{0}))
	_, err3 := s.Deserialize("t", nil)
	_, _, err4 := s.SerializeWithHeaders("t", nil, nil)
	_, err5 := s.DeserializeWithHeaders("t", []byte{1}, []Header{{ValueSchemaIDHeader, nil}})
	for i, err := range []error{err1, err2, err3, err4, err5} {
		if err == nil || err.Error() != "recursion limit -1 is not positive" {
			t.Errorf("call %d: error is %v", i, err)
		}
	}
	if dst, err := s.AppendSerialize([]byte("x"), "t", nil); string(dst) != "x" || err == nil {
		t.Errorf("AppendSerialize = %q, %v, want the error and what was there", dst, err)
	}
	byRecord := NewProtobufSerde(&testpb.Shipped{}, cache, RoleValue, WithRecordStrategy(RecordNameStrategy), WithRecursionLimit(-1))
	byRecord.RegisterSubject("t")
	generic := NewProtobufSerde[proto.Message](nil, cache, RoleValue, WithRecursionLimit(-1))
	generic.RegisterSubject("u")
	want := []PrewarmedSchema{
		{Subject: "shop.Shipped", Kind: KindProtobuf, MessageType: "shop.Shipped", Requested: true},
		{Subject: "t-value", Kind: KindProtobuf, MessageType: "shop.Money", Requested: true},
		{Subject: "u-value", Kind: KindProtobuf, Requested: true},
	}
	if diff := cmp.Diff(want, cache.PrewarmReport(t.Context()).Schemas, cmpopts.IgnoreFields(PrewarmedSchema{}, "Duration", "Err")); diff != "" {
		t.Errorf("report mismatch (-want +got):\n%s", diff)
	}
	if n := len(double.recorded()); n != 0 {
		t.Errorf("%d requests", n)
	}
	without := NewProtobufSerde(&testpb.Money{}, nil, RoleValue)
	without.RegisterSubject("t")
	if got := without.Subject("t"); got != "t-value" || without.Descriptor() != nil {
		t.Errorf("subject is %q", got)
	}
	if _, err := without.Deserialize("t", []byte{0}); err == nil || err.Error() != "schema cache must not be nil" {
		t.Errorf("error is %v", err)
	}
}

func TestProtobufSerdesAreSafeForConcurrentUse(t *testing.T) {
	s, cache := seededProtobuf(t, &testpb.Placed{}, 9)
	seedLocal(t, cache, 10, s.local)
	want := samePlaced()
	data, err := s.Serialize("t", want)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 200 {
				got, err := s.Deserialize("t", append(Encode(9+i%2, nil), data[5:]...))
				if err != nil || !proto.Equal(got, want) {
					t.Errorf("Deserialize = %v, %v", got, err)
				}
				again, err := s.Serialize("t", got)
				if err != nil || string(again) != string(data) {
					t.Errorf("Serialize = %x, %v", again, err)
				}
			}
		})
	}
	group.Wait()
}

// The frame costs nothing: writing does not allocate, and reading as little as
// the Protobuf library alone.
func TestTheProtobufFrameDoesNotAllocate(t *testing.T) {
	s, cache := seededProtobuf(t, &testpb.Placed{}, 7)
	several := newProtobuf[proto.Message](t, &testpb.Placed{}, cache, WithMessages(&testpb.Shipped{}))
	value := samePlaced()
	data, err := s.Serialize("t", value)
	if err != nil {
		t.Fatal(err)
	}
	dynamic := newProtobuf[*dynamicpb.Message](t, nil, cache)
	headers := []Header{{ValueSchemaIDHeader, data[:6]}}
	allocations := func(call func() error) float64 {
		t.Helper()
		if err := call(); err != nil {
			t.Fatal(err)
		}
		return leastAllocations(func() { _ = call() })
	}
	typed := allocations(func() error { return proto.Unmarshal(data[6:], new(testpb.Placed)) })
	generic := allocations(func() error {
		return proto.Unmarshal(data[6:], dynamicpb.NewMessage(value.ProtoReflect().Descriptor()))
	})
	buffer := make([]byte, 0, 512)
	for name, tt := range map[string]struct {
		want float64
		call func() error
	}{
		"append":            {0, func() error { _, err := s.AppendSerialize(buffer, "t", value); return err }},
		"append of several": {0, func() error { _, err := several.AppendSerialize(buffer, "t", value); return err }},
		"serialize":         {1, func() error { _, err := s.Serialize("t", value); return err }},
		"typed":             {typed, func() error { _, err := s.Deserialize("t", data); return err }},
		"several":           {typed, func() error { _, err := several.Deserialize("t", data); return err }},
		"with headers":      {typed, func() error { _, err := s.DeserializeWithHeaders("t", data[6:], headers); return err }},
		"dynamic":           {generic, func() error { _, err := dynamic.Deserialize("t", data); return err }},
	} {
		if n := allocations(tt.call); n > tt.want {
			t.Errorf("%s allocates %v objects, want %v", name, n, tt.want)
		}
	}
}

// The long form costs its two lists of indexes, whatever the file is like.
func TestTheLongFormOfIndexesDoesNotCostTheFile(t *testing.T) {
	var text strings.Builder
	text.WriteString(`syntax = "proto2";`)
	for i := range 300 {
		fmt.Fprintf(&text, " message M%d { optional group G%d = 1 {} }", i, i)
	}
	cache := offlineCache(t)
	cache.SeedWriterSchema(7, text.String())
	s := newProtobuf[*dynamicpb.Message](t, nil, cache)
	allocations := func(indexes string) float64 {
		t.Helper()
		data := Encode(7, []byte(indexes))
		if m, err := s.Deserialize("t", data); err != nil || m.Descriptor().FullName() != "M0" {
			t.Fatalf("indexes % x: %v, %v", indexes, m, err)
		}
		return leastAllocations(func() { _, _ = s.Deserialize("t", data) })
	}
	short := allocations("\x00")
	for _, long := range []string{"\x02\x00", "\x82\x00\x80\x00"} {
		if n := allocations(long); n > short+2 {
			t.Errorf("indexes % x allocate %v objects, the short form %v", long, n, short)
		}
	}
}

// The Protobuf library panics on the first of these bodies.
func TestMapKeysOfAnotherWireTypeAreNoPanic(t *testing.T) {
	s, cache := seededProtobuf(t, &testpb.Cancelled{}, 7)
	dynamic := newProtobuf[*dynamicpb.Message](t, nil, cache)
	for _, body := range []string{"\x0a\x05\x0a\x01k\x08\x01", "\x0a\x02\x08\x01", "\x0a\x05\x08\x01\x12\x01v", "\x0a\x05\x0a\x01k\x10\x01"} {
		data := Encode(7, []byte("\x02\x04"+body))
		if _, err := s.Deserialize("t", data); err != nil {
			t.Errorf("% x: %v", body, err)
		}
		_, err := dynamic.Deserialize("t", data)
		wrong, ok := errors.AsType[*ProtobufDataError](err)
		if panics := body == "\x0a\x05\x0a\x01k\x08\x01"; ok != panics || err != nil && !ok ||
			panics && (wrong.Message != "shop.Cancelled" || !strings.HasPrefix(wrong.reason, "the Protobuf library fails: ")) {
			t.Errorf("% x as a dynamic message: %v", body, err)
		}
	}
}

// A generated message may hold an extension that is a dynamic one.
func TestMapKeysOfAnotherWireTypeInExtensionsAreNoPanic(t *testing.T) {
	file := mustParseProto(t, `syntax = "proto2"; package x; import "shop/legacy.proto";
		message Map { map<string, string> m = 1; } extend shop.Legacy { optional Map map = 150; }`,
		map[string]string{"shop/legacy.proto": prototext.Print((&testpb.Legacy{}).ProtoReflect().Descriptor().ParentFile())})
	types, err := fileTypes(file)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := seededProtobuf(t, &testpb.Legacy{}, 3, WithProtobufTypes(types))
	_, err = s.Deserialize("t", Encode(3, []byte("\x00\x0a\x01a\xb2\x09\x07\x0a\x05\x0a\x01k\x08\x01")))
	if _, ok := errors.AsType[*ProtobufDataError](err); !ok {
		t.Errorf("error is %v, want a ProtobufDataError", err)
	}
	for prototype, want := range map[proto.Message]bool{
		&testpb.Placed{}: false, &testpb.Scalars{}: false, &testpb.Legacy{}: true, dynamicpb.NewMessage(file.Messages().Get(0)): true,
	} {
		if got := mayPanic(prototype.ProtoReflect().Type()); got != want {
			t.Errorf("%T is guarded %v, want %v", prototype, got, want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// checkSerializeError checks whose value an error is about, and its text.
func checkSerializeError(t *testing.T, err error, want SerializeError, text string) {
	t.Helper()
	e, ok := errors.AsType[*SerializeError](err)
	if !ok || e.Subject != want.Subject || e.SchemaID != want.SchemaID || e.Kind != want.Kind || err.Error() != text {
		t.Errorf("error %#v, want %#v: %s", err, want, text)
	}
}

func TestSerializeErrorsOfAvroNameTheElement(t *testing.T) {
	s, _ := seededAvroSerde[any](t, `{"type":"record","name":"Order","fields":[{"name":"lines","type":{"type":"array","items":"int"}}]}`, 11)
	bad := map[string]any{"lines": []any{1, "two"}}
	const text = "cannot serialize schema value: field lines[1]: type string cannot be written as Avro int (AVRO schema 11, subject orders-value)"
	dst := []byte("kept")
	out, err := s.AppendSerialize(dst, "orders", bad)
	checkSerializeError(t, err, SerializeError{Subject: "orders-value", SchemaID: 11, Kind: KindAvro}, text)
	if string(out) != "kept" {
		t.Errorf("AppendSerialize = %q", out)
	}
	if _, _, err = s.SerializeWithHeaders("orders", bad, nil); err == nil || err.Error() != text {
		t.Errorf("SerializeWithHeaders: %v", err)
	}
	if value, ok := errors.AsType[*AvroValueError](err); !ok || value.Path() != "lines[1]" {
		t.Errorf("error %#v, want one of lines[1]", err)
	}
	_, err = s.Serialize("other", bad)
	if e, ok := errors.AsType[*UnresolvedSubjectError](err); !ok || e.Subject != "other-value" || e.Kind != KindAvro {
		t.Errorf("without an id: %#v", err)
	}
}

func TestSerializeErrorsOfJSONNameThePlace(t *testing.T) {
	cache := seededCache(t, "orders-key", 5, `{"properties":{"id":{"type":"string"}}}`)
	s, err := NewJSONSchemaSerde[map[string]any](`{"properties":{"id":{"type":"string"}}}`, cache, RoleKey, true)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Serialize("orders", map[string]any{"id": 5})
	checkSerializeError(t, err, SerializeError{Subject: "orders-key", SchemaID: 5, Kind: KindJSON},
		`cannot serialize schema value: JSON Schema validation failed: got number, want string at "/id" (JSON schema 5, subject orders-key)`)
	if invalid, ok := errors.AsType[*ValidationError](err); !ok || invalid.Violations[0].Pointer != "/id" {
		t.Errorf("error %#v, want a violation at /id", err)
	}
}

func TestSerializeErrorsOfProtobufNameTheField(t *testing.T) {
	const bad = "a\xff"
	for _, tc := range []struct {
		value             proto.Message
		path, reason, who string
	}{
		{wrapperspb.String(bad), "value", "the text is not valid UTF-8", "google.protobuf.StringValue"},
		{&structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{
			structpb.NewStringValue("good"), structpb.NewStringValue(bad)}})}},
			`fields["k"].list_value.values[1].string_value`, "the text is not valid UTF-8", "google.protobuf.Struct"},
		{&structpb.Struct{Fields: map[string]*structpb.Value{bad: nil}},
			`fields["a\xff"]`, "the text is not valid UTF-8", "google.protobuf.Struct"},
		{&descriptorpb.UninterpretedOption{Name: []*descriptorpb.UninterpretedOption_NamePart{
			{NamePart: proto.String("n"), IsExtension: proto.Bool(true)}, {NamePart: proto.String("m")}}},
			"name[1]", "required field google.protobuf.UninterpretedOption.NamePart.is_extension not set", "google.protobuf.UninterpretedOption"},
		{&descriptorpb.UninterpretedOption_NamePart{NamePart: proto.String("n")},
			"", "required field google.protobuf.UninterpretedOption.NamePart.is_extension not set", "google.protobuf.UninterpretedOption.NamePart"},
	} {
		cache := NewSchemaCache(nil)
		s := NewProtobufSerde(tc.value, cache, RoleValue)
		cache.SeedSubjectID("orders-value", 7)
		place := "message " + tc.who
		if tc.path != "" {
			place += " field " + tc.path
		}
		_, err := s.Serialize("orders", tc.value)
		checkSerializeError(t, err, SerializeError{Subject: "orders-value", SchemaID: 7, Kind: KindProtobuf},
			"cannot serialize schema value: "+place+": "+tc.reason+" (PROTOBUF schema 7, subject orders-value)")
		if e, ok := errors.AsType[*ProtobufValueError](err); !ok || e.Message != tc.who || e.Path != tc.path || e.Unwrap() == nil {
			t.Errorf("%s: error %#v, want one of field %q", tc.who, err, tc.path)
		}
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSerializeErrorsOfForeignMessagesNameTheSubject(t *testing.T) {
	cache := NewSchemaCache(nil)
	t.Cleanup(func() { _ = cache.Close() })
	s := NewProtobufSerde[proto.Message](wrapperspb.String(""), cache, RoleValue, WithMessages(wrapperspb.Bool(true)))
	_, err := s.Serialize("orders", wrapperspb.Int32(1))
	checkSerializeError(t, err, SerializeError{Subject: "orders-value", Kind: KindProtobuf},
		"cannot serialize schema value: message google.protobuf.Int32Value is none that the serde writes (PROTOBUF, subject orders-value)")
	if e, ok := errors.AsType[*ProtobufMessageError](err); !ok || !strings.HasSuffix(e.Local, ".StringValue") {
		t.Errorf("error %#v, want one of StringValue", err)
	}
}

func TestSerializeErrorsOfTheSchemaNameTheSubject(t *testing.T) {
	cache := seededCache(t, "t-value", 1, "W")
	failure := errors.New("no plan")
	s := newPlainSerde(t, cache, &plainFormat{failure: failure})
	_, err := s.Serialize("t", "x")
	checkSerializeError(t, err, SerializeError{Subject: "t-value", SchemaID: 1, Kind: KindProtobuf},
		"cannot serialize schema value: no plan (PROTOBUF schema 1, subject t-value)")
	if !errors.Is(err, failure) {
		t.Errorf("error %v does not wrap its cause", err)
	}
}

// Errors show a type by the name that users know it by.
func TestErrorsNameTheTypesOfUsers(t *testing.T) {
	const duration = `{"type":"fixed","name":"D","size":12,"logicalType":"duration"}`
	cache := seededCache(t, "t-value", 1, `["null","string"]`)
	anyOf, err := NewGenericAvroSerde(`["null","string"]`, cache, RoleValue)
	if err != nil {
		t.Fatal(err)
	}
	_, written := anyOf.Serialize("t", AvroDuration{Days: 1})
	_, typed := NewAvroSerde[AvroDuration](`"string"`, cache, RoleValue)
	_, derived := AvroSchemaFor[struct {
		D AvroDuration `avro:"d,decimal(4,2)"`
	}]("")
	cache.SeedWriterSchema(2, duration)
	texts, err := NewAvroSerde[map[AvroDuration]string](duration, cache, RoleValue)
	if err == nil {
		_, err = texts.Deserialize("t", Encode(2, make([]byte, 12)))
	}
	for _, err := range []error{written, typed, derived, err} {
		if err == nil || !strings.Contains(err.Error(), "schema.AvroDuration") || strings.Contains(err.Error(), "avrovalue") {
			t.Errorf("error is %v", err)
		}
	}
}

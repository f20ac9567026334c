// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

func mustParseProto(tb testing.TB, text string, imports map[string]string) protoreflect.FileDescriptor {
	tb.Helper()
	file, err := Compile(tb.Context(), text, imports)
	if err != nil {
		tb.Fatalf("%v in:\n%s", err, text)
	}
	return file
}

func serialized(tb rapid.TB, file protoreflect.FileDescriptor) string {
	tb.Helper()
	data, err := proto.Marshal(protodesc.ToFileDescriptorProto(file))
	if err != nil {
		tb.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(data)
}

func TestProtobufSourceWithImportsInBothForms(t *testing.T) {
	const money = `syntax = "proto3"; package money; import public "base.proto"; message Money { base.Currency currency = 1; int64 cents = 2; }`
	const base = `syntax = "proto3"; package base; enum Currency { XXX = 0; EUR = 1; }`
	const text = `syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "money.proto";
message Order {
  google.protobuf.Timestamp at = 1;
  money.Money price = 2;
  base.Currency also = 3; // by the public import
  map<string, money.Money> extras = 4;
}`
	source := map[string]string{"money.proto": money, "base.proto": base}
	moneyFile := mustParseProto(t, money, source)
	for name, imports := range map[string]map[string]string{
		"texts":      source,
		"serialized": {"money.proto": serialized(t, moneyFile), "base.proto": serialized(t, mustParseProto(t, base, nil))},
		"mixed":      {"money.proto": serialized(t, moneyFile), "base.proto": base},
	} {
		t.Run(name, func(t *testing.T) {
			file := mustParseProto(t, text, imports)
			for _, again := range []protoreflect.FileDescriptor{file, mustParseProto(t, serialized(t, file), imports)} {
				order := again.Messages().ByName("Order")
				message := dynamicpb.NewMessage(order)
				at := message.NewField(order.Fields().ByName("at")).Message()
				at.Set(at.Descriptor().Fields().ByName("seconds"), protoreflect.ValueOfInt64(5))
				message.Set(order.Fields().ByName("at"), protoreflect.ValueOfMessage(at))
				message.Set(order.Fields().ByName("also"), protoreflect.ValueOfEnum(1))
				data, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
				if err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprintf("%x", data); got != "0a0208051801" {
					t.Errorf("message is %s", got)
				}
				if got := order.Fields().ByName("price").Message().Fields().ByName("currency").Enum().Values().Get(1).Name(); got != "EUR" {
					t.Errorf("imported value is %s", got)
				}
			}
		})
	}
}

func TestProtobufSourceErrorsNameThePlace(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		imports    map[string]string
		want       SchemaError
		message    string
	}{
		{"syntax", "syntax = \"proto3\";\nmessage A {", nil, SchemaError{Line: 2, Column: 12}, `2:12: syntax error: unexpected $end`},
		{"unknown type", "syntax = \"proto3\";\nmessage A { B b = 1; }", nil, SchemaError{Line: 2, Column: 13}, `2:13: field A.b: unknown type B`},
		{"missing import", "syntax = \"proto3\";\nimport \"b.proto\";", nil, SchemaError{Line: 2, Column: 8, MissingImport: "b.proto"},
			`2:8: import "b.proto" is neither a well-known file nor a reference of the schema`},
		{"missing import of an import", `import "a.proto";`, map[string]string{"a.proto": `import "b.proto";`},
			SchemaError{File: "a.proto", Line: 1, Column: 8, MissingImport: "b.proto"},
			`a.proto:1:8: import "b.proto" is neither a well-known file nor a reference of the schema`},
		{"import of itself", `import "schema.proto";`, nil, SchemaError{Line: 1, Column: 8, MissingImport: "schema.proto"},
			`1:8: import "schema.proto" is neither a well-known file nor a reference of the schema`},
		{"import cycle", `import "a.proto";`, map[string]string{"a.proto": `import "b.proto";`, "b.proto": ` import "a.proto";`},
			SchemaError{File: "b.proto", Line: 1, Column: 9}, `b.proto:1:9: import "a.proto" closes a cycle of imports`},
		{"error in an import", `import "a.proto";`, map[string]string{"a.proto": "\nmessage {}"}, SchemaError{File: "a.proto", Line: 2, Column: 9},
			`a.proto:2:9: syntax error: unexpected '{'`},
		{"same name twice", `import "a.proto"; message A {}`, map[string]string{"a.proto": "message A {}"}, SchemaError{Line: 1, Column: 27},
			`1:27: symbol "A" already defined at a.proto:1:9`},
		{"option", "message A {}\noption (x.y) = 1;", nil, SchemaError{Line: 2, Column: 8}, `2:8: unknown extension x.y`},
		{"neither text nor descriptor", "AAAA", nil, SchemaError{}, `neither source text nor a serialized descriptor: proto: cannot parse invalid wire-format data`},
		{"descriptor of nothing", "CgF4GgF4", nil, SchemaError{MissingImport: "x"}, `import "x" is neither a well-known file nor a reference of the schema`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Compile(t.Context(), tc.text, tc.imports)
			got, ok := errors.AsType[*SchemaError](err)
			if !ok {
				t.Fatalf("error is %v", err)
			}
			// The library varies the space in its texts.
			if text := strings.ReplaceAll(got.Error(), "\u00a0", " "); text != tc.message {
				t.Errorf("error is %q, want %q", text, tc.message)
			}
			if diff := cmp.Diff([]any{tc.want.File, tc.want.Line, tc.want.Column, tc.want.MissingImport}, []any{got.File, got.Line, got.Column, got.MissingImport}); diff != "" {
				t.Errorf("place mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProtobufSourceEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Compile(ctx, `import "a.proto";`, map[string]string{"a.proto": ""}); err != context.Canceled {
		t.Errorf("error is %v", err)
	}
}

func TestProtobufSourceMayHaveTheNameOfTheSchemaAmongItsImports(t *testing.T) {
	imports := map[string]string{"schema.proto": `message A {}`, "_schema.proto": ``}
	file := mustParseProto(t, `import "schema.proto"; message B { optional A a = 1; }`, imports)
	if got := file.Messages().Get(0).Fields().Get(0).Message().FullName(); got != "A" {
		t.Errorf("type is %s", got)
	}
}

func TestProtobufSourceIsBounded(t *testing.T) {
	list := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, tc := range []struct{ name, text, want string }{
		{"nested messages", "\n" + strings.Repeat("message A{", 1_000_000/2), "2:1010: brackets are nested more than 100 deep"},
		{"nested literals", "option (a) = " + strings.Repeat("{a:", 200), "1:314: brackets are nested more than 100 deep"},
		{"brackets in strings and comments", `option java_package = "` + strings.Repeat("{", 200) + `"; // ` + strings.Repeat("[", 200) + "\n/*" + strings.Repeat("<", 200) + "*/", ""},
		{"long name", "message " + strings.Repeat("a", 3000) + " {}", "1:2057: a name is longer than 2048 bytes"},
		{"long full name", "message " + strings.Repeat("a", 1500) + " { message " + strings.Repeat("b", 1500) + " {}}",
			`the full name of "` + strings.Repeat("b", 40) + `" is longer than 2048 bytes`},
		{"long scope of many names", "message " + strings.Repeat("a", 2000) + " {" + list(5_000, "optional int32 a%[1]d=1%05[1]d;") + "}",
			`the full names are out of proportion to the size of the schema, from that of "a`},
		{"long package", "package a" + strings.Repeat(".a", 150) + ";", "1:9: package name may not contain more than 100 periods"},
		{"options of many ranges", "message A { extensions " + list(2_000, "1%04d,") + "9 [" + list(2_000, "(a%d)=1,") + "(a)=1]; }",
			`the options of extension ranges in "A" are out of proportion to the size of the schema`},
		{"size", strings.Repeat(" ", 9<<20), "more than 8388608 bytes of Protobuf source"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Compile(t.Context(), tc.text, nil)
			if tc.want == "" {
				if err != nil {
					t.Errorf("error is %v", err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error is %.200v, want %s", err, tc.want)
			}
		})
	}
	chain := map[string]string{}
	for i := range 200 {
		chain[fmt.Sprintf("%d.proto", i)] = fmt.Sprintf(`import "%d.proto";`, i+1)
	}
	if _, err := Compile(t.Context(), chain["0.proto"], chain); err == nil || err.Error() != "100.proto: imports are nested more than 100 deep" {
		t.Errorf("error is %v", err)
	}
}

// What Kafka Connect's converter registers for a decimal, a date and a time.
const connectSource = `syntax = "proto3";
package shop;
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";
message Order {
  option (confluent.message_meta) = { doc: "an order" };
  confluent.type.Decimal price = 1 [(confluent.field_meta) = { params: [{ key: "precision", value: "10" }] }];
  google.type.Date day = 2;
  google.type.TimeOfDay at = 3;
}
`

func TestFilesThatRegistriesHaveNeedNoReference(t *testing.T) {
	order := mustParseProto(t, connectSource, nil)
	got := dynamicpb.NewMessage(order.Messages().ByName("Order"))
	if err := proto.Unmarshal([]byte("\x0a\x05\x0a\x01\x05\x18\x02\x12\x05\x08\xea\x0f\x18\x1e"), got); err != nil {
		t.Fatal(err)
	}
	const want = `{"price":{"value":"BQ==","scale":2},"day":{"year":2026,"day":30}}`
	data, err := protojson.Marshal(got)
	if err != nil || strings.ReplaceAll(string(data), " ", "") != want {
		t.Errorf("read %s, %v, want %s", data, err, want)
	}
	printed := Print(order)
	if again, err := Compile(t.Context(), printed, nil); err != nil || Print(again) != printed {
		t.Errorf("the printed text does not compile to itself: %v\n%s", err, printed)
	}
	if !strings.Contains(printed, `option (.confluent.message_meta) = {`) && !strings.Contains(printed, `option (confluent.message_meta) = {`) {
		t.Errorf("the printed text has lost its metadata:\n%s", printed)
	}

	// A reference of the same name is what the schema means.
	file := mustParseProto(t, `syntax = "proto3"; import "google/type/date.proto"; message M { google.type.Date day = 1; }`, map[string]string{
		"google/type/date.proto": `syntax = "proto3"; package google.type; message Date { string text = 1; }`,
	})
	if date := file.Messages().Get(0).Fields().Get(0).Message(); date.Fields().ByName("text") == nil {
		t.Errorf("the reference is not used: %v", date)
	}
	for _, path := range []string{"google/type/none.proto", "../schema.go", "google//type/date.proto", "", "google"} {
		_, err := Compile(t.Context(), `import "`+path+`"; message M {}`, nil)
		if _, ok := errors.AsType[*SchemaError](err); !ok {
			t.Errorf("import of %q: error is %v", path, err)
		}
	}
}

func TestEveryFileOfGoogleTypeNeedsNoReference(t *testing.T) {
	for file, name := range map[string]string{
		"calendar_period": "CalendarPeriod", "color": "Color", "date": "Date", "datetime": "DateTime", "dayofweek": "DayOfWeek",
		"decimal": "Decimal", "expr": "Expr", "fraction": "Fraction", "interval": "Interval", "latlng": "LatLng",
		"localized_text": "LocalizedText", "money": "Money", "month": "Month", "phone_number": "PhoneNumber",
		"postal_address": "PostalAddress", "quaternion": "Quaternion", "timeofday": "TimeOfDay",
	} {
		order := mustParseProto(t, fmt.Sprintf(`syntax = "proto3"; import "google/type/%s.proto"; message Order { google.type.%s value = 1; }`, file, name), nil)
		field := order.Messages().ByName("Order").Fields().ByName("value")
		if got, want := string(typeName(field)), "google.type."+name; got != want {
			t.Errorf("google/type/%s.proto: the field is a %s, want %s", file, got, want)
		}
	}
	order := mustParseProto(t, `syntax = "proto3"; import "google/type/money.proto"; message Order { google.type.Money price = 1; }`, nil)
	got := dynamicpb.NewMessage(order.Messages().ByName("Order"))
	if err := proto.Unmarshal([]byte("\x0a\x09\x0a\x03EUR\x10\x05\x18\x07"), got); err != nil {
		t.Fatal(err)
	}
	data, err := protojson.Marshal(got)
	if want := `{"price":{"currencyCode":"EUR","units":"5","nanos":7}}`; err != nil || strings.ReplaceAll(string(data), " ", "") != want {
		t.Errorf("read %s, %v, want %s", data, err, want)
	}
}

func typeName(field protoreflect.FieldDescriptor) protoreflect.FullName {
	if field.Enum() != nil {
		return field.Enum().FullName()
	}
	return field.Message().FullName()
}

// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

const faultySchema = `syntax = "proto2";
message Order {
  repeated Line lines = 1;
  map<string, Line> by_name = 2;
  repeated int32 packed = 14 [packed = true];
  repeated group Part = 16 { optional Line line = 1; }
  optional Order inner = 17;
  extensions 100 to 199;
}
message Line { required int32 price = 1; optional string note = 2; }
extend Order { repeated Line extra = 100; }
`

func TestProtobufFaultsNameTheElement(t *testing.T) {
	cache := offlineCache(t)
	s, err := NewDynamicProtobufSerde(faultySchema, "Order", cache, RoleValue)
	if err != nil {
		t.Fatal(err)
	}
	cache.SeedSubjectID("t-value", 9)
	cache.SeedWriterSchema(9, faultySchema)
	field := func(number protowire.Number, parts ...string) string {
		return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), strings.Join(parts, "")))
	}
	const line = "\x0a\x02\x08\x01" // a good one, in lines
	for _, tt := range []struct {
		name, body, path string
		offset           int
		reason           string
	}{
		{"list", line + line + field(1, "\x08\x80"), "lines[2].price", 11, "unexpected EOF"},
		{"list that ends early", line + "\x0a\x05\x08", "lines[1]", 5, "unexpected EOF"},
		{"nested", field(17, line, field(1, "\x08\x80")), "inner.lines[1].price", 10, "unexpected EOF"},
		{"wrong wire type in between", line + "\x08\x05" + field(1, "\x08\x80"), "lines[2].price", 9, "unexpected EOF"},
		{"map entry", field(2, field(1, "k"), "\x12\x06\x08\x01\x08\xff\xff\xff"), "by_name[0].value.price", 10, "unexpected EOF"},
		{"undeclared field", line + "\xf2\x07\x05a", "126", 6, "unexpected EOF"},
		{"varint of eleven bytes", field(1, "\x08"+strings.Repeat("\x80", 11)), "lines[0].price", 3, "variable length integer overflow"},
		{"end of no group", line + "\x0c", "", 4, "cannot parse invalid wire-format data"},
		{"text of proto2", field(1, "\x08\x01\x12\x01\xff") + "\x0a\x05", "lines[1]", 8, "unexpected EOF"},
		{"packed", field(14, "\x03\x80"), "", 4, "cannot parse invalid wire-format data"},
		{"extension", field(100, "\x08\x80"), "", 5, "cannot parse invalid wire-format data"},
		{"group", "\x83\x01" + field(1, "\x08\x80") + "\x84\x01", "", 8, "cannot parse invalid wire-format data"},
		{"not set", field(1, "\x12\x01a"), "", 5, "required field Line.price not set"},
		{"nothing", line, "-", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.Deserialize("t", Encode(9, []byte("\x00"+tt.body)))
			if tt.path == "-" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wrong, ok := errors.AsType[*ProtobufDataError](err)
			if !ok || wrong.Path != tt.path || wrong.Offset != tt.offset || wrong.reason != tt.reason || wrong.Unwrap() == nil {
				t.Errorf("error is %v, want the path %s, the offset %d and %s", err, tt.path, tt.offset, tt.reason)
			}
		})
	}
}

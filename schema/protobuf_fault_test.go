// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// faultySchema has every kind of key, and messages in all places.
const faultySchema = `syntax = "proto2";
message Order {
  repeated Line lines = 1;
  map<string, Line> by_name = 2;
  map<int32, Line> by_int32 = 3;
  map<sint32, Line> by_sint32 = 4;
  map<int64, Line> by_int64 = 5;
  map<sint64, Line> by_sint64 = 6;
  map<uint32, Line> by_uint32 = 7;
  map<uint64, Line> by_uint64 = 8;
  map<fixed32, Line> by_fixed32 = 9;
  map<sfixed32, Line> by_sfixed32 = 10;
  map<fixed64, Line> by_fixed64 = 11;
  map<sfixed64, Line> by_sfixed64 = 12;
  map<bool, Line> by_bool = 13;
  repeated int32 packed = 14 [packed = true];
  repeated fixed32 loose = 15;
  repeated group Part = 16 { optional Line line = 1; }
  optional Order inner = 17;
  map<string, string> texts = 18;
  extensions 100 to 199;
}
message Line { required int32 price = 1; optional string note = 2; repeated Line more = 3; }
extend Order { repeated Line extra = 100; }
`

func TestProtobufFaultsNameElementsAndKeys(t *testing.T) {
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
	const (
		line  = "\x0a\x02\x08\x01" // a good one, in lines
		bad   = "\x12\x06\x08\x01\x08\xff\xff\xff"
		value = bad // of a map entry, or a line of a group
	)
	inPart := func(parts ...string) string {
		return "\x83\x01" + strings.Join(parts, "") + "\x84\x01"
	}
	for _, tt := range []struct{ name, body, path string }{
		{"list", line + line + field(1, "\x08\x80"), "lines[2].price"},
		{"list that ends early", line + "\x0a\x05\x08", "lines[1]"},
		{"list in a list", line + field(1, "\x08\x01", field(3, "\x08\x01"), field(3, "\x12\x05a")), "lines[1].more[1].note"},
		{"list in two parts of a message", field(17, line, line) + field(17, line, field(1, "\x08\x80")), "inner.lines[3].price"},
		{"wrong wire type in between", line + "\x08\x05" + field(1, "\x08\x80"), "lines[1].price"},
		{"packed", field(14, "\x01\x02") + field(14, "\x03\x80"), "packed[3]"},
		{"packed and not", "\x70\x01" + field(14, "\x01\x80"), "packed[2]"},
		{"fixed", "\x7d\x01\x00\x00\x00\x7d\x01", "loose[1]"},
		{"group", inPart("\x0a\x02\x08\x01") + inPart("\x0a\x02\x08\x80"), "part[1].line.price"},
		{"extension", field(100, "\x08\x01") + field(100, "\x08\x80"), "(extra)[1].price"},
		{"string key", field(2, field(1, "a\"b"), value), `by_name["a\"b"].price`},
		{"key behind the value", field(2, value, field(1, "k")), `by_name["k"].price`},
		{"the last of two keys", field(2, field(1, "j"), field(1, "k"), value), `by_name["k"].price`},
		{"no key", field(2, value), `by_name[""].price`},
		{"a key of another wire type", field(2, "\x08\x05", value), `by_name[""].price`},
		{"no key and the end", field(2, "\x12\x07"), "by_name"},
		{"a key and the end", field(2, field(1, "k"), "\x12\x07"), `by_name["k"]`},
		{"a key that is cut off", field(2, "\x0a\x07k"), "by_name.key"},
		{"a value that is cut off", field(18, field(1, "k"), "\x12\x07v"), `texts["k"]`},
		{"int32", field(3, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", value), "by_int32[-1].price"},
		{"sint32", field(4, "\x08\x05", value), "by_sint32[-3].price"},
		{"int64", field(5, "\x08\x05", value), "by_int64[5].price"},
		{"sint64", field(6, "\x08\x05", value), "by_sint64[-3].price"},
		{"uint32", field(7, "\x08\x05", value), "by_uint32[5].price"},
		{"uint64", field(8, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", value), "by_uint64[18446744073709551615].price"},
		{"fixed32", field(9, "\x0d\xff\xff\xff\xff", value), "by_fixed32[4294967295].price"},
		{"sfixed32", field(10, "\x0d\xff\xff\xff\xff", value), "by_sfixed32[-1].price"},
		{"fixed64", field(11, "\x09\x01\x00\x00\x00\x00\x00\x00\x00", value), "by_fixed64[1].price"},
		{"sfixed64", field(12, "\x09\xff\xff\xff\xff\xff\xff\xff\xff", value), "by_sfixed64[-1].price"},
		{"bool", field(13, "\x08\x02", value), "by_bool[true].price"},
		{"not set", line, "-"},
		{"not set in a list", line + field(1, "\x12\x01a"), "lines[1]"},
		{"not set under a key", field(13, "\x08\x01", field(2, "")), "by_bool[true]"},
		{"not set under a text", field(2, field(1, "k"), field(2, field(2, "n"))), `by_name["k"]`},
		{"not set in a group", inPart(field(1, "\x12\x01a")), "part[0].line"},
		{"not set in an extension", field(17, field(100, "")), "inner.(extra)[0]"},
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
			if !ok || wrong.Path != tt.path || !strings.Contains(err.Error(), "message Order field "+tt.path+" at byte ") {
				t.Errorf("error is %v, want the path %s", err, tt.path)
			}
			if strings.HasPrefix(tt.name, "not set") && !strings.Contains(err.Error(), "required field Line.price not set") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// The path of an element shows little of a key.
func TestPathsCutLongKeysOff(t *testing.T) {
	cache := offlineCache(t)
	s, err := NewDynamicProtobufSerde(faultySchema, "Order", cache, RoleValue)
	if err != nil {
		t.Fatal(err)
	}
	cache.SeedWriterSchema(9, faultySchema)
	entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), strings.Repeat("k", 1<<20))
	entry = append(entry, "\x12\x02\x08\x80"...)
	body := protowire.AppendBytes(protowire.AppendTag([]byte{0}, 2, protowire.BytesType), entry)
	_, err = s.Deserialize("t", Encode(9, body))
	wrong, ok := errors.AsType[*ProtobufDataError](err)
	if want := `by_name["` + strings.Repeat("k", 64) + `"...].price`; !ok || wrong.Path != want {
		t.Errorf("error is %.300v, want the path %s", err, want)
	}
}

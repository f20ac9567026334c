// SPDX-License-Identifier: Apache-2.0

package keytable

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

func TestEncodedValuesAreReadBack(t *testing.T) {
	values := []any{
		nil, true, false, "text", []byte{1, 2}, int64(-3), uint64(math.MaxUint64), float32(1.5), 2.5,
		new(big.Int).Lsh(big.NewInt(1), 90), big.NewRat(-5, 4), []any{int64(1), nil, "x"}, map[string]any{"b": int64(1), "a": []any{true}},
	}
	for _, value := range values {
		data, err := AppendValue(nil, value)
		if err != nil {
			t.Fatal(err)
		}
		r := statebytes.NewReader(data)
		got := readValue(r, 0)
		r.End()
		if diff := cmp.Diff(fmt.Sprintf("%T %v", value, value), fmt.Sprintf("%T %v", got, got)); diff != "" || r.Err() != nil {
			t.Errorf("%T: %v, mismatch (-want +got):\n%s", value, r.Err(), diff)
		}
	}
}

func TestEncodedValuesAreChecked(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"nothing":           {"", "truncated snapshot"},
		"unknown tag":       {"z", "unknown snapshot value tag 'z'"},
		"truncated text":    {"s\x00\x00\x00\x02x", "truncated snapshot"},
		"invalid integer":   {"I\x00\x00\x00\x01x", "invalid integer in snapshot"},
		"invalid rational":  {"R\x00\x00\x00\x031/0", "invalid rational in snapshot"},
		"exponent":          {"R\x00\x00\x00\x031e9", "invalid rational in snapshot"},
		"long integer":      {"I\x00\x00\x10\x01" + strings.Repeat("1", MaxDigits+1), "invalid integer in snapshot"},
		"count of items":    {"L\xff\xff\xff\xff", "truncated snapshot"},
		"count of entries":  {"M\x00\x00\x00\x01\x00", "truncated snapshot"},
		"nested too deeply": {strings.Repeat("L\x00\x00\x00\x01", maxValueDepth+2) + "n", "values nest too deep in snapshot"},
	} {
		r := statebytes.NewReader([]byte(test.data))
		readValue(r, 0)
		if r.Err() == nil || r.Err().Error() != test.want {
			t.Errorf("%s: error = %v, want %s", name, r.Err(), test.want)
		}
	}
}

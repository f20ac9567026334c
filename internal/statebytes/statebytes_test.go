// SPDX-License-Identifier: Apache-2.0

package statebytes_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// written returns a snapshot with one value of each form, with its checksum.
func written() []byte {
	var w statebytes.Writer
	w.Byte(7)
	w.Flag(true)
	w.Uint32(2)
	w.Append([]byte("ab"))
	w.Uint64(math.MaxUint64)
	w.Block([]byte("cde"))
	copy(w.Extend(2), "fg")
	return w.Seal()
}

func TestReaderReturnsWhatWriterAppended(t *testing.T) {
	sealed := written()
	const content = "\x07\x01\x00\x00\x00\x02ab\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x03cdefg"
	body, err := statebytes.Open(sealed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(content, string(body)); diff != "" {
		t.Errorf("bytes mismatch (-want +got):\n%s", diff)
	}
	r := statebytes.NewReader(body)
	got := []any{r.Byte(), r.Byte(), r.Count(1), string(r.Take(2)), r.Int64(), string(r.Block()), string(r.Take(2))}
	r.End()
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	if diff := cmp.Diff([]any{byte(7), byte(1), 2, "ab", int64(-1), "cde", "fg"}, got); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}
}

func TestOpenRefusesDamage(t *testing.T) {
	sealed := written()
	for length := range len(sealed) {
		if _, err := statebytes.Open(sealed[:length]); err == nil {
			t.Errorf("a snapshot cut to %d bytes was opened", length)
		}
	}
	for at := range sealed {
		damaged := append([]byte{}, sealed...)
		damaged[at] ^= 8
		if _, err := statebytes.Open(damaged); err == nil {
			t.Errorf("a snapshot with a flipped bit at %d was opened", at)
		}
	}
}

func TestReaderTrustsNoLength(t *testing.T) {
	for name, test := range map[string]struct {
		data string
		read func(r *statebytes.Reader)
		want string
	}{
		"number":         {"\x00\x00\x00", func(r *statebytes.Reader) { r.Uint32() }, "truncated snapshot"},
		"count":          {"\x00\x00\x00\x02abc", func(r *statebytes.Reader) { r.Count(2) }, "truncated snapshot"},
		"largest count":  {"\xff\xff\xff\xffabc", func(r *statebytes.Reader) { r.Count(1 << 20) }, "truncated snapshot"},
		"block":          {"\x00\x00\x00\x00\x00\x00\x00\x04abc", func(r *statebytes.Reader) { r.Block() }, "truncated snapshot"},
		"negative block": {"\xff\xff\xff\xff\xff\xff\xff\xffabc", func(r *statebytes.Reader) { r.Block() }, "truncated snapshot"},
		"trailing bytes": {"ab", func(r *statebytes.Reader) { r.Byte() }, "trailing bytes"},
	} {
		r := statebytes.NewReader([]byte(test.data))
		test.read(r)
		r.End()
		if r.Err() == nil || r.Err().Error() != test.want {
			t.Errorf("%s: error = %v, want %q", name, r.Err(), test.want)
		}
		if value := r.Take(0); value != nil {
			t.Errorf("%s: a read after the error returned %q", name, value)
		}
	}
}

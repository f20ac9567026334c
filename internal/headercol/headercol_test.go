// SPDX-License-Identifier: Apache-2.0

package headercol

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeaderBytes(t *testing.T) {
	got := Append(nil, []header{{"ab", []byte{7}}, {"", nil}})
	want := []byte{0, 0, 0, 2, 0, 0, 0, 2, 'a', 'b', 0, 0, 0, 1, 7, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Append mismatch (-want +got):\n%s", diff)
	}
}

func TestHeadersRoundTripInOrder(t *testing.T) {
	for _, headers := range [][]header{
		nil,
		{{"a", []byte("1")}, {"a", nil}, {"a", []byte{}}, {"", []byte("x")}, {"\xff", []byte{0}}},
	} {
		blob := Append(nil, headers)
		if size, err := Size(headers); err != nil || size != len(blob) {
			t.Errorf("Size = %d, %v; want %d", size, err, len(blob))
		}
		got, err := Decode[header](blob)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(headers, got); diff != "" {
			t.Errorf("headers mismatch (-want +got):\n%s", diff)
		}
	}
}

func TestMalformedHeaderBytes(t *testing.T) {
	for name, test := range map[string]struct {
		blob []byte
		want error
		text string
	}{
		"empty":             {nil, ErrTruncated, "truncated Kafka headers"},
		"short count":       {[]byte{0, 0, 0}, ErrTruncated, "truncated Kafka headers"},
		"negative count":    {[]byte{0xff, 0xff, 0xff, 0xff}, errCount, "invalid Kafka header count"},
		"huge count":        {[]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}, errCount, "invalid Kafka header count"},
		"missing header":    {[]byte{0, 0, 0, 1}, ErrTruncated, "truncated Kafka headers"},
		"negative key":      {[]byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, errKeyLength, "negative Kafka header key length"},
		"long key":          {[]byte{0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0}, ErrTruncated, "truncated Kafka headers"},
		"value length < -1": {[]byte{0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xfe}, errValueLength, "invalid Kafka header value length"},
		"long value":        {[]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}, ErrTruncated, "truncated Kafka headers"},
		"bytes behind none": {[]byte{0, 0, 0, 0, 1}, errTrailingBytes, "trailing bytes in Kafka headers"},
		"bytes behind one":  {[]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 9}, errTrailingBytes, "trailing bytes in Kafka headers"},
	} {
		headers, err := Decode[header](test.blob)
		if !errors.Is(err, test.want) || err.Error() != test.text {
			t.Errorf("%s: headers %v, error %v; want %q", name, headers, err, test.text)
		}
	}
}

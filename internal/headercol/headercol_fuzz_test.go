// SPDX-License-Identifier: Apache-2.0

package headercol

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzHeaders(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0})
	f.Add(Append(nil, []header{{"a", []byte("1")}, {"a", nil}, {"", []byte{}}}))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, blob []byte) {
		headers, err := Decode[header](blob)
		if err != nil {
			return
		}
		if diff := cmp.Diff(blob, Append(nil, headers)); diff != "" {
			t.Errorf("headers that decode do not encode to the same bytes (-want +got):\n%s", diff)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzHeaders(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0})
	f.Add(appendHeaders(nil, []RecordHeader{{"a", []byte("1")}, {"a", nil}, {"", []byte{}}}))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, blob []byte) {
		headers, err := decodeHeaders(blob)
		if err != nil {
			return
		}
		if diff := cmp.Diff(blob, appendHeaders(nil, headers)); diff != "" {
			t.Errorf("headers that decode do not encode to the same bytes (-want +got):\n%s", diff)
		}
	})
}

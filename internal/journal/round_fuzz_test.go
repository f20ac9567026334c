// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzDecodeJournalRound(f *testing.F) {
	f.Add(exampleRound(3).Encode())
	f.Add((&Round{}).Encode())
	f.Add([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, data []byte) {
		round, err := decodeRound(data)
		if err != nil {
			return
		}
		again, err := decodeRound(round.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(round, again); diff != "" {
			t.Errorf("round trip mismatch (-want +got):\n%s", diff)
		}
	})
}

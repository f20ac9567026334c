// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzDecodeJournalRound(f *testing.F) {
	f.Add(exampleRound(3).encode())
	f.Add((&journalRound{}).encode())
	f.Add([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, data []byte) {
		round, err := decodeJournalRound(data)
		if err != nil {
			return
		}
		again, err := decodeJournalRound(round.encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(round, again, compareRounds); diff != "" {
			t.Errorf("round trip mismatch (-want +got):\n%s", diff)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzSplitPlainState(f *testing.F) {
	for _, seed := range []string{"", "null", "[]", "[", `[{"topic":"in","partition":0,"offset":7}]`, `{"topic":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		stored := map[string][]byte{plainPositions: text, "node": {1}}
		state, positions, err := splitPlainState(stored)
		if err != nil {
			if state != nil || positions != nil {
				t.Errorf("state %v and positions %v beside an error", state, positions)
			}
			return
		}
		if positions == nil {
			t.Error("positions that were read are nil")
		}
		if diff := cmp.Diff(map[string][]byte{"node": {1}}, state); diff != "" {
			t.Errorf("state mismatch (-want +got):\n%s", diff)
		}
	})
}

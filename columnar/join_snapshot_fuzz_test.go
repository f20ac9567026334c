// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// FuzzJoinRestore checks that no snapshot makes a join panic, neither when it is
// restored nor when the join goes on from it.
func FuzzJoinRestore(f *testing.F) {
	mem := memory.NewGoAllocator()
	spec := byUser(time.Hour)
	batch, _, err := array.RecordFromJSON(mem, eventSchema, strings.NewReader(`[{"user":"a","amount":1,"__timestamp":5},{"user":"b","amount":1,"__timestamp":6}]`))
	if err != nil {
		f.Fatal(err)
	}
	join := newJoinState(spec, mem)
	if _, err := join.process([]flow{{batch: batch}}, []flow{{batch: batch}}); err != nil {
		f.Fatal(err)
	}
	snapshot, err := join.snapshot()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(snapshot[:len(snapshot)-4])
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, snapshot := range [][]byte{data, sealed(data)} {
			join := newJoinState(spec, mem)
			if join.restore(snapshot) != nil {
				continue
			}
			join.commit()
			again, err := join.snapshot()
			if err != nil {
				t.Fatalf("a restored state cannot be saved: %v", err)
			}
			if err := newJoinState(spec, mem).restore(again); err != nil {
				t.Fatalf("the snapshot of a restored state cannot be restored: %v", err)
			}
			// Rows with other columns than those of the batch are an error.
			results, err := join.process([]flow{{batch: batch}}, []flow{{batch: batch}})
			if err == nil {
				releaseBatches(results)
			}
		}
	})
}

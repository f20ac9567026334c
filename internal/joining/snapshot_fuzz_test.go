// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
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
	join := New(spec, mem)
	if _, err := join.Process([]arrow.RecordBatch{batch}, []arrow.RecordBatch{batch}); err != nil {
		f.Fatal(err)
	}
	snapshot, err := join.Snapshot()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(snapshot[:len(snapshot)-4])
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, snapshot := range [][]byte{data, sealed(data)} {
			join := New(spec, mem)
			if join.Restore(snapshot) != nil {
				continue
			}
			join.Commit()
			again, err := join.Snapshot()
			if err != nil {
				t.Fatalf("a restored state cannot be saved: %v", err)
			}
			if err := New(spec, mem).Restore(again); err != nil {
				t.Fatalf("the snapshot of a restored state cannot be restored: %v", err)
			}
			// Rows with other columns than those of the batch are an error.
			results, err := join.Process([]arrow.RecordBatch{batch}, []arrow.RecordBatch{batch})
			if err == nil {
				arrays.Release(results)
			}
		}
	})
}

// sealed returns a snapshot of those bytes with its checksum.
func sealed(data []byte) []byte {
	var w statebytes.Writer
	w.Append(data)
	return w.Seal()
}

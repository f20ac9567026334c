// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

// FuzzGroupRestore checks that no snapshot makes an operator panic, neither
// when it is restored nor when the operator goes on from it, and that what was
// restored is saved as it is.
func FuzzGroupRestore(f *testing.F) {
	mem := memory.NewGoAllocator()
	schema, spec := everyKind()
	spec.Windowed, spec.Window = true, Windowing{Size: 1000}
	operator := newAtomic(mem, spec)
	batch, _, err := array.RecordFromJSON(mem, schema, strings.NewReader("["+strings.Join(everyKindRows[:3], ",")+"]"))
	if err != nil {
		f.Fatal(err)
	}
	operator.rows(f, batch)
	snapshot, err := operator.Snapshot()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(snapshot[:len(snapshot)-4])
	simple := newAtomic(mem, Spec{Keys: []string{"k"}, Aggregations: []Aggregation{
		{Function: Count, OutputColumn: "n"}, {InputColumn: "v", OutputColumn: "s", Function: Max},
	}})
	simpleBatch, _, err := array.RecordFromJSON(mem, arrowtest.Fields("k", textType, "v", int64Type), strings.NewReader(`[{"k":"a","v":1}]`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		snapshot := sealed(data)
		continueFrom(t, operator.fresh(), snapshot, batch)
		continueFrom(t, simple.fresh(), snapshot, simpleBatch)
	})
}

func continueFrom(t *testing.T, operator atomic, snapshot []byte, batch arrow.RecordBatch) {
	if operator.restore(snapshot) != nil {
		return
	}
	first, err := operator.Snapshot()
	if err != nil {
		t.Fatalf("a restored state cannot be saved: %v", err)
	}
	again := operator.fresh()
	if err := again.restore(first); err != nil {
		t.Fatalf("the snapshot of a restored state cannot be restored: %v", err)
	}
	if second, err := again.Snapshot(); err != nil || !bytes.Equal(first, second) {
		t.Fatalf("snapshots of one state differ: %v", err)
	}
	// Values of other types than the batch's are an error.
	_, _ = operator.tryRows(batch)
}

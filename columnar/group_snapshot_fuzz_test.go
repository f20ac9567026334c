// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// FuzzGroupRestore checks that no snapshot makes an operator panic, neither
// when it is restored nor when the operator goes on from it, and that what was
// restored is saved as it is.
func FuzzGroupRestore(f *testing.F) {
	mem := memory.NewGoAllocator()
	schema, grouping := everyKind()
	grouping.Window = time.Second
	operator, err := NewGroupBy(mem, grouping)
	if err != nil {
		f.Fatal(err)
	}
	batch, _, err := array.RecordFromJSON(mem, schema, strings.NewReader("["+strings.Join(everyKindRows[:3], ",")+"]"))
	if err != nil {
		f.Fatal(err)
	}
	if err := operator.Process(&Context{}, batch); err != nil {
		f.Fatal(err)
	}
	snapshot, err := operator.Snapshot()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(snapshot[:len(snapshot)-4])
	simple := GroupBy(mem, []string{"k"}, Aggregation{Function: Count, OutputColumn: "n"}, Aggregation{InputColumn: "v", OutputColumn: "s", Function: Max})
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

func continueFrom(t *testing.T, operator *BuiltinOp, snapshot []byte, batch arrow.RecordBatch) {
	if operator.Restore(snapshot) != nil {
		return
	}
	first, err := operator.Snapshot()
	if err != nil {
		t.Fatalf("a restored state cannot be saved: %v", err)
	}
	again := operator.fresh()
	if err := again.Restore(first); err != nil {
		t.Fatalf("the snapshot of a restored state cannot be restored: %v", err)
	}
	if second, err := again.Snapshot(); err != nil || !bytes.Equal(first, second) {
		t.Fatalf("snapshots of one state differ: %v", err)
	}
	ctx := &Context{}
	// Values of other types than the batch's are an error.
	_ = operator.Process(ctx, batch)
	for _, result := range ctx.Take() {
		result.Release()
	}
}

// sealed returns a snapshot of those bytes with its checksum.
func sealed(data []byte) []byte {
	var w statebytes.Writer
	w.Append(data)
	return w.Seal()
}

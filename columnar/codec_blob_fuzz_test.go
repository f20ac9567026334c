// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

func FuzzBlobCodec(f *testing.F) {
	for _, seed := range arrowtest.StreamSeeds(f)[:6] {
		f.Add(seed, []byte(nil))
		f.Add(seed, seed)
	}
	plain := arrowtest.TwoColumns(memory.DefaultAllocator, "a", "b")
	f.Add(arrowtest.Stream(f, []arrow.RecordBatch{plain}), arrowtest.Stream(f, []arrow.RecordBatch{plain}, ipc.WithLZ4()))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
		defer mem.AssertSize(t, 0)
		codec := NewBlobCodec(mem)
		batch, err := codec.Decode("in", []ConsumedRecord{{Value: first}, {Key: []byte{}, Value: second}, {}})
		if err != nil {
			return
		}
		defer batch.Release()
		arrowtest.ReadEverything(batch, arrays.Value)
		if _, err := codec.Encode("out", batch); err == nil && !NewRowMetadata(batch).Tombstone(int(batch.NumRows())-1) {
			t.Error("the tombstone behind the values is lost")
		}
	})
}

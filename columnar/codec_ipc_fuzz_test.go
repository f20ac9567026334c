// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

// ipcSeeds returns small valid streams of all layouts.
func ipcSeeds(tb testing.TB) [][]byte {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	mem := memory.DefaultAllocator
	plain := arrowtest.TwoColumns(mem, "a", "bc", "a text that is longer than the others")
	seeds := [][]byte{
		arrowStream(tb, []arrow.RecordBatch{plain, plain}),
		arrowStream(tb, []arrow.RecordBatch{plain}, ipc.WithZstd()),
		arrowStream(tb, []arrow.RecordBatch{plain}, ipc.WithLZ4()),
	}
	for _, dt := range arrowtest.EveryType() {
		column := arrowtest.RandomArray(r, mem, dt, 5)
		batch := array.NewRecordBatch(oneField(dt), []arrow.Array{column}, 5)
		seeds = append(seeds, arrowStream(tb, []arrow.RecordBatch{batch}))
	}
	return seeds
}

// readEverything reads values of an accepted batch; what it reads is defined
// because the batch was checked.
func readEverything(batch arrow.RecordBatch) {
	rows := int(batch.NumRows())
	for _, column := range batch.Columns() {
		for row := range min(rows, 50) {
			arrays.Value(column, row)
			column.ValueStr(row)
		}
		if rows > 0 {
			arrays.Value(column, rows-1)
		}
	}
}

func FuzzIPC(f *testing.F) {
	for _, seed := range ipcSeeds(f) {
		f.Add(seed)
	}
	f.Add([]byte{1, 2, 3})
	f.Add(ipcEndOfStream[:])
	serde := NewIPCSerde(memory.DefaultAllocator)
	f.Fuzz(func(t *testing.T, data []byte) {
		mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
		defer mem.AssertSize(t, 0)
		fresh := NewIPCSerde(mem)
		batch, err := fresh.Deserialize("any", data)
		if err != nil {
			return
		}
		defer batch.Release()
		readEverything(batch)
		again, err := serde.Serialize("any", batch)
		if err != nil {
			return // the schema holds what cannot be written, such as invalid names
		}
		back, err := serde.Deserialize("any", again)
		if err != nil {
			t.Fatalf("an accepted batch of %d rows does not survive: %v", batch.NumRows(), err)
		}
		defer back.Release()
		if back.NumRows() != batch.NumRows() {
			t.Errorf("%d rows became %d", batch.NumRows(), back.NumRows())
		}
	})
}

func TestIPCSurvivesDamage(t *testing.T) {
	r := arrowtest.NewRand(t)
	seeds := ipcSeeds(t)
	accepted := 0
	for round := range 20_000 {
		data := bytes.Clone(seeds[r.IntN(len(seeds))])
		for range 1 + r.IntN(3) {
			at := r.IntN(len(data))
			switch r.IntN(3) {
			case 0:
				data[at] = byte(r.Int())
			case 1:
				data[at] ^= 1 << r.IntN(8)
			default:
				data[at] = 0xff
			}
		}
		if r.IntN(10) == 0 {
			data = data[:r.IntN(len(data))]
		}
		mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
		var before, after runtime.MemStats
		if round%100 == 0 {
			runtime.ReadMemStats(&before)
		}
		batch, err := NewIPCSerde(mem).Deserialize("any", data)
		if round%100 == 0 {
			runtime.ReadMemStats(&after)
			if spent, bound := after.TotalAlloc-before.TotalAlloc, uint64(100*len(data)+1<<20); spent > bound {
				t.Errorf("reading %d damaged bytes took %d bytes of memory, more than %d", len(data), spent, bound)
			}
		}
		if err == nil {
			accepted++
			readEverything(batch)
			batch.Release()
		}
		mem.AssertSize(t, 0)
	}
	if accepted == 0 {
		t.Error("no damaged stream was accepted, so that none was read")
	}
}

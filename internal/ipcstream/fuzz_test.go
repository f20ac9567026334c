// SPDX-License-Identifier: Apache-2.0

package ipcstream

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

func FuzzIPC(f *testing.F) {
	for _, seed := range arrowtest.StreamSeeds(f) {
		f.Add(seed)
	}
	f.Add([]byte{1, 2, 3})
	f.Add(endOfStream[:])
	serde := newCodec(f, memory.DefaultAllocator)
	f.Fuzz(func(t *testing.T, data []byte) {
		mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
		defer mem.AssertSize(t, 0)
		fresh := newCodec(t, mem)
		batch, err := fresh.Decode(data)
		if err != nil {
			return
		}
		defer batch.Release()
		arrowtest.ReadEverything(batch, arrays.Value)
		again, err := serde.Encode(batch)
		if err != nil {
			return // the schema holds what cannot be written, such as invalid names
		}
		back, err := serde.Decode(again)
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
	seeds := arrowtest.StreamSeeds(t)
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
		batch, err := newCodec(t, mem).Decode(data)
		if round%100 == 0 {
			runtime.ReadMemStats(&after)
			if spent, bound := after.TotalAlloc-before.TotalAlloc, uint64(100*len(data)+1<<20); spent > bound {
				t.Errorf("reading %d damaged bytes took %d bytes of memory, more than %d", len(data), spent, bound)
			}
		}
		if err == nil {
			accepted++
			arrowtest.ReadEverything(batch, arrays.Value)
			batch.Release()
		}
		mem.AssertSize(t, 0)
	}
	if accepted == 0 {
		t.Error("no damaged stream was accepted, so that none was read")
	}
}

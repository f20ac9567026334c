// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"encoding/binary"
	"fmt"
	"log"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// firsts is a processor with state: it passes the first row of each id. It
// remembers what it changed, so that a failed run costs what changed and not
// what is held.
type firsts struct {
	seen  map[int64]bool
	fresh []int64 // added since the latest commit
}

var _ columnar.ReversibleProcessor = (*firsts)(nil)

func newFirsts() columnar.Processor { return &firsts{seen: map[int64]bool{}} }

func (f *firsts) Process(ctx *columnar.Context, batch arrow.RecordBatch) error {
	ids, ok := batch.Column(batch.Schema().FieldIndices("id")[0]).(*array.Int64)
	if !ok {
		return fmt.Errorf("column id is not of type int64")
	}
	start := 0 // of a run of rows that pass
	for row := range ids.Len() {
		id := ids.Value(row)
		if f.seen[id] {
			forward(ctx, batch, start, row)
			start = row + 1
			continue
		}
		f.seen[id] = true
		f.fresh = append(f.fresh, id)
	}
	forward(ctx, batch, start, ids.Len())
	return nil
}

// forward passes rows on without copying them. The slice is handed over.
func forward(ctx *columnar.Context, batch arrow.RecordBatch, start, end int) {
	if start < end {
		ctx.Forward(batch.NewSlice(int64(start), int64(end)))
	}
}

// Snapshot writes the ids in ascending order, so that equal state has equal
// bytes.
func (f *firsts) Snapshot() ([]byte, error) {
	var snapshot []byte
	for _, id := range slices.Sorted(maps.Keys(f.seen)) {
		snapshot = binary.BigEndian.AppendUint64(snapshot, uint64(id))
	}
	return snapshot, nil
}

func (f *firsts) Restore(snapshot []byte) error {
	if len(snapshot)%8 != 0 {
		return fmt.Errorf("a snapshot of %d bytes", len(snapshot))
	}
	seen := map[int64]bool{}
	for ; len(snapshot) > 0; snapshot = snapshot[8:] {
		seen[int64(binary.BigEndian.Uint64(snapshot))] = true
	}
	f.seen, f.fresh = seen, nil
	return nil
}

func (f *firsts) Commit() { f.fresh = nil }

func (f *firsts) Rollback() error {
	for _, id := range f.fresh {
		delete(f.seen, id)
	}
	f.fresh = nil
	return nil
}

// A processor of your own is a node like any other. The topology makes one for
// each logical partition, and saves and restores it with the partition.
func ExampleTopology_AddProcessor() {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	codec, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	}, nil))
	if err != nil {
		log.Fatal(err)
	}
	topology := columnar.NewTopology(mem)
	source, err := topology.AddSource("events", []string{"events"}, codec)
	if err != nil {
		log.Fatal(err)
	}
	unique, err := topology.AddProcessor("unique", newFirsts, source)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := topology.AddSink("out", "unique-events", codec, unique); err != nil {
		log.Fatal(err)
	}
	built, err := topology.Build()
	if err != nil {
		log.Fatal(err)
	}
	defer built.Close()

	send := func(built *columnar.BuiltTopology, values ...string) {
		var records []columnar.ConsumedRecord
		for i, value := range values {
			records = append(records, columnar.NewConsumedRecord(nil, []byte(value), 0, 0, int64(i)))
		}
		outputs, err := built.RunBatch("events", records)
		if err != nil {
			fmt.Println("failed:", err)
		}
		for _, output := range outputs {
			fmt.Printf("%s\n", output.Record.Value)
		}
	}
	send(built, `{"id":1}`, `{"id":2}`, `{"id":1}`)

	state, err := built.SnapshotPartition(0)
	if err != nil {
		log.Fatal(err)
	}
	another, err := topology.Build()
	if err != nil {
		log.Fatal(err)
	}
	defer another.Close()
	if err := another.RestorePartition(0, state); err != nil {
		log.Fatal(err)
	}
	send(another, `{"id":2}`, `{"id":3}`)
	fmt.Println("bytes left:", mem.CurrentAlloc())
	// Output:
	// {"id":1}
	// {"id":2}
	// {"id":3}
	// bytes left: 0
}

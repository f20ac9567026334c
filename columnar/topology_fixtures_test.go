// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

// newAllocator returns an allocator that must hold nothing when the test ends.
func newAllocator(tb testing.TB) *memory.CheckedAllocator { return arrowtest.NewAllocator(tb) }

// failingAllocator panics at its n-th allocation.
type failingAllocator struct {
	memory.Allocator
	left int
}

var errAllocation = errors.New("allocation refused")

func (f *failingAllocator) Allocate(size int) []byte {
	f.count()
	return f.Allocator.Allocate(size)
}

func (f *failingAllocator) Reallocate(size int, b []byte) []byte {
	f.count()
	return f.Allocator.Reallocate(size, b)
}

func (f *failingAllocator) count() {
	f.left--
	if f.left < 0 {
		panic(errAllocation)
	}
}

// amountCodec reads records such as "ada 5" into the columns user and amount,
// and writes the first two columns of a batch in that form. The value "!" is
// not readable.
type amountCodec struct{ mem memory.Allocator }

var amountSchema = arrow.NewSchema([]arrow.Field{
	{Name: "user", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "amount", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
}, nil)

var errUnreadable = errors.New("unreadable record")

func (c amountCodec) Decode(_ string, records []ConsumedRecord) (arrow.RecordBatch, error) {
	users, amounts := array.NewStringBuilder(c.mem), array.NewInt64Builder(c.mem)
	defer users.Release()
	defer amounts.Release()
	for _, record := range records {
		if string(record.Value) == "!" {
			return nil, errUnreadable
		}
		user, text, _ := strings.Cut(string(record.Value), " ")
		amount, err := strconv.ParseInt(text, 10, 64)
		users.Append(user)
		if err != nil {
			amounts.AppendNull()
		} else {
			amounts.Append(amount)
		}
	}
	columns := []arrow.Array{users.NewArray(), amounts.NewArray()}
	defer arrays.Release(columns)
	payload := array.NewRecordBatch(amountSchema, columns, int64(len(records)))
	defer payload.Release()
	return AttachMetadata(c.mem, payload, records)
}

func (c amountCodec) Encode(_ string, batch arrow.RecordBatch) ([]ProduceRecord, error) {
	records := make([]ProduceRecord, batch.NumRows())
	for i := range records {
		var cells []string
		for j := range int(min(batch.NumCols(), 2)) {
			cells = append(cells, batch.Column(j).ValueStr(i))
		}
		records[i].Value = []byte(strings.Join(cells, " "))
	}
	return records, nil
}

// amounts makes records from texts such as "ada 5", with timestamps 0, 1, ...
func amounts(partition int, values ...string) []ConsumedRecord {
	records := make([]ConsumedRecord, len(values))
	for i, value := range values {
		records[i] = ConsumedRecord{Value: []byte(value), Timestamp: int64(i), Partition: partition, Offset: int64(i)}
	}
	return records
}

// produced renders outputs as "topic:value".
func produced(outputs []ProducedToTopic) []string {
	var texts []string
	for _, output := range outputs {
		texts = append(texts, output.Topic+":"+string(output.Record.Value))
	}
	return texts
}

// must fails the test on an error.
func must[T any](tb testing.TB) func(T, error) T {
	return func(value T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return value
	}
}

// chain builds source "in" -> nodes in a row -> sink "out". A node is a
// *BuiltinOp or a processor factory, named n0, n1, ... The codec allocates
// from mem.
func chain(tb testing.TB, mem memory.Allocator, nodes ...any) *BuiltTopology {
	tb.Helper()
	topology := NewTopology(mem)
	parent := must[Node](tb)(topology.AddSource("source", []string{"in"}, amountCodec{mem}))
	for i, node := range nodes {
		name := fmt.Sprintf("n%d", i)
		switch node := node.(type) {
		case *BuiltinOp:
			parent = must[Node](tb)(topology.AddOperator(name, node, parent))
		case func() Processor:
			parent = must[Node](tb)(topology.AddProcessor(name, node, parent))
		}
	}
	must[Node](tb)(topology.AddSink("sink", "out", amountCodec{mem}, parent))
	return must[*BuiltTopology](tb)(topology.Build())
}

// tally is a processor that counts the rows it has seen, and passes its input
// on. It fails on the batch behind which the count would be failAt.
type tally struct {
	rows, failAt int64
	snapshots    int
}

func (p *tally) Process(ctx *Context, batch arrow.RecordBatch) error {
	p.rows += batch.NumRows()
	if p.rows == p.failAt {
		return errTally
	}
	ctx.Forward(batch)
	return nil
}

func (p *tally) Snapshot() ([]byte, error) {
	p.snapshots++
	return strconv.AppendInt(nil, p.rows, 10), nil
}

func (p *tally) Restore(snapshot []byte) error {
	rows, err := strconv.ParseInt(string(snapshot), 10, 64)
	if err != nil {
		return err
	}
	p.rows = rows
	return nil
}

var errTally = errors.New("tally refuses")

// reversibleTally is a tally that takes back its own changes.
type reversibleTally struct {
	tally
	committed          int64
	commits, rollbacks int
}

func (p *reversibleTally) Commit() {
	p.commits++
	p.committed = p.rows
}

func (p *reversibleTally) Rollback() error {
	p.rollbacks++
	p.rows = p.committed
	return nil
}

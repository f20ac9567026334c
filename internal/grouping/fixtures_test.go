// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

var (
	int64Type = arrow.PrimitiveTypes.Int64
	textType  = arrow.BinaryTypes.String
)

var (
	amountSchema = arrowtest.Fields("user", textType, "amount", int64Type)
	eventSchema  = arrowtest.Fields("user", textType, "amount", int64Type, metacols.Timestamp, int64Type)
)

// events makes a batch of amount 1 for user a at each timestamp.
func events(tb testing.TB, timestamps ...int64) arrow.RecordBatch {
	tb.Helper()
	rows := make([]string, len(timestamps))
	for i, timestamp := range timestamps {
		rows[i] = fmt.Sprintf(`{"user":"a","amount":1,"__timestamp":%d}`, timestamp)
	}
	return arrowtest.JSONBatch(tb, arrowtest.NewAllocator(tb), eventSchema, rows...)
}

func countRows() []Aggregation { return []Aggregation{{Function: Count, OutputColumn: "n"}} }

func totals() []Aggregation {
	return []Aggregation{
		{InputColumn: "amount", OutputColumn: "total", Function: Sum},
		{InputColumn: "amount", OutputColumn: "count", Function: Count},
	}
}

// windowed returns a grouping by windows whose rows are accepted until stream time
// is retention past the end of their window.
func windowed(tb testing.TB, keys []string, size, retention time.Duration, aggregations ...Aggregation) Spec {
	tb.Helper()
	return Spec{Keys: keys, Aggregations: aggregations, Windowed: true, Window: must[Windowing](tb)(NewWindowing(size, retention))}
}

// atomic is an operator whose batches and restores happen as a whole or not at all.
type atomic struct {
	*Operator
	mem memory.Allocator
}

func newAtomic(mem memory.Allocator, spec Spec) atomic {
	spec = spec.WithDefaults()
	if problems := spec.Check(); len(problems) > 0 {
		panic(errors.Join(problems...))
	}
	return atomic{New(mem, spec), mem}
}

func (o atomic) fresh() atomic { return atomic{New(o.mem, *o.spec), o.mem} }

func (o atomic) settle(err error) error {
	if err != nil {
		return errors.Join(err, o.Rollback())
	}
	o.Commit()
	return nil
}

func (o atomic) restore(snapshot []byte) error { return o.settle(o.Restore(snapshot)) }

func (o atomic) tryRows(batch arrow.RecordBatch) ([]string, error) {
	result, err := o.Process(batch)
	if o.settle(err) != nil {
		return nil, err
	}
	defer result.Release()
	return arrowtest.Rows(result), nil
}

func (o atomic) rows(tb testing.TB, batch arrow.RecordBatch) []string {
	tb.Helper()
	return must[[]string](tb)(o.tryRows(batch))
}

// sealed returns a snapshot of those bytes with its checksum.
func sealed(data []byte) []byte {
	var w statebytes.Writer
	w.Append(data)
	return w.Seal()
}

func must[T any](tb testing.TB) func(T, error) T {
	return func(value T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return value
	}
}

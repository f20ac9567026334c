// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// fields makes a schema of nullable fields from names and types in turn.
func fields(namesAndTypes ...any) *arrow.Schema {
	var list []arrow.Field
	for i := 0; i < len(namesAndTypes); i += 2 {
		list = append(list, arrow.Field{Name: namesAndTypes[i].(string), Type: namesAndTypes[i+1].(arrow.DataType), Nullable: true})
	}
	return arrow.NewSchema(list, nil)
}

// jsonBatch makes a batch from rows in JSON, such as {"user":"ada","amount":5}.
// It is released when the test ends.
func jsonBatch(tb testing.TB, mem memory.Allocator, schema *arrow.Schema, rows ...string) arrow.RecordBatch {
	tb.Helper()
	batch, _, err := array.RecordFromJSON(mem, schema, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(batch.Release)
	return batch
}

// rowsOf renders the rows of a batch as "cell cell".
func rowsOf(batch arrow.RecordBatch) []string {
	rows := make([]string, batch.NumRows())
	for i := range rows {
		cells := make([]string, batch.NumCols())
		for j := range cells {
			cells[j] = batch.Column(j).ValueStr(i)
		}
		rows[i] = strings.Join(cells, " ")
	}
	return rows
}

// processRows runs an operator on a batch and renders the result.
func processRows(tb testing.TB, operator *BuiltinOp, batch arrow.RecordBatch) []string {
	tb.Helper()
	rows, err := tryRows(operator, batch)
	if err != nil {
		tb.Fatal(err)
	}
	return rows
}

func tryRows(operator *BuiltinOp, batch arrow.RecordBatch) ([]string, error) {
	ctx := &Context{}
	if err := operator.Process(ctx, batch); err != nil {
		return nil, errors.Join(err, noneForwarded(ctx))
	}
	taken := ctx.Take()
	if len(taken) != 1 {
		return nil, errors.New("the operator did not forward one batch")
	}
	defer taken[0].Release()
	return rowsOf(taken[0]), nil
}

func noneForwarded(ctx *Context) error {
	if len(ctx.Take()) > 0 {
		return errors.New("a failed operator forwarded a batch")
	}
	return nil
}

func sortedCopy(rows []string) []string {
	rows = slices.Clone(rows)
	slices.Sort(rows)
	return rows
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

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
	return arrowtest.Rows(taken[0]), nil
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

// Types of test columns, in short.
var (
	int8Type   = arrow.PrimitiveTypes.Int8
	int32Type  = arrow.PrimitiveTypes.Int32
	int64Type  = arrow.PrimitiveTypes.Int64
	uint8Type  = arrow.PrimitiveTypes.Uint8
	uint64Type = arrow.PrimitiveTypes.Uint64
	floatType  = arrow.PrimitiveTypes.Float64
	textType   = arrow.BinaryTypes.String
)

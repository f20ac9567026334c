// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

// randomExpression returns an expression over expressionSchema, which need not
// make sense.
func randomExpression(r *rand.Rand, depth int) Expression {
	if depth == 0 || r.IntN(8) == 0 {
		columns := []string{"i", "j", "u", "f", "s", "b", "t", "d", "at", "l", "k", "g", "z", TombstoneColumn}
		literals := []any{nil, 0, 1, -1, 7, uint64(1 << 63), 1.5, "", "abc", []byte("b"), true, false}
		if r.IntN(3) == 0 {
			return Literal(literals[r.IntN(len(literals))])
		}
		return Column(columns[r.IntN(len(columns))])
	}
	a := randomExpression(r, depth-1)
	b := func() Expression { return randomExpression(r, depth-1) }
	switch r.IntN(20) {
	case 0:
		return a.Add(b())
	case 1:
		return a.Sub(b())
	case 2:
		return a.Mul(b())
	case 3:
		return a.Div(b())
	case 4:
		return a.Mod(b())
	case 5:
		return a.Equal(b())
	case 6:
		return a.Less(b())
	case 7:
		return a.GreaterOrEqual(b())
	case 8:
		return a.IsNull()
	case 9:
		return a.Contains(b())
	case 10:
		return a.BigEndian()
	case 11, 12:
		return And(a, b())
	case 13, 14:
		return Or(a, b())
	case 15:
		return Not(a)
	case 16:
		return a.In(b(), b())
	case 17, 18:
		return If(a, b(), b())
	default:
		types := []arrow.DataType{int8Type, int64Type, arrow.PrimitiveTypes.Uint16, floatType, textType, arrow.FixedWidthTypes.Boolean, &arrow.Decimal128Type{Precision: 5, Scale: 1}}
		return a.Cast(types[r.IntN(len(types))])
	}
}

// TestExpressionsDoNotDependOnTheBatch computes expressions on a batch as a whole
// and on its rows one by one.
func TestExpressionsDoNotDependOnTheBatch(t *testing.T) {
	r, mem := arrowtest.NewRand(t), newAllocator(t)
	batch := arrowtest.JSONBatch(t, mem, expressionSchema, append(expressionRows,
		`{"i":0,"j":0,"u":0,"f":0,"s":"7","b":"Yg==","t":true,"d":"0.00","at":"1970-01-01T00:00:00Z","l":[null],"k":"x","g":1e30}`,
		`{"i":9223372036854775807,"j":-2147483648,"u":1,"f":1e300,"s":"true","t":false,"d":"99999999.99","k":"7"}`)...)
	compute := func(e Expression, slice arrow.RecordBatch) ([]string, error) {
		defer slice.Release()
		ctx := &Context{}
		if err := Derive(mem, e.As("result")).Process(ctx, slice); err != nil {
			return nil, err
		}
		result := ctx.Take()[0]
		defer result.Release()
		column := result.Column(int(result.NumCols()) - 1)
		return append(arrowtest.Texts(column), column.DataType().String()), nil
	}
	compared := 0
	for range 4000 {
		e := randomExpression(r, 1+r.IntN(4))
		whole, wholeErr := compute(e, batch.NewSlice(0, batch.NumRows()))
		var rows []string
		var rowErr error
		for row := range batch.NumRows() {
			one, err := compute(e, batch.NewSlice(row, row+1))
			if rowErr = firstError(rowErr, err); err != nil {
				break
			}
			rows = append(rows, one[0])
			if row == batch.NumRows()-1 {
				rows = append(rows, one[1])
			}
		}
		if _, err := compute(e, batch.NewSlice(2, 2)); err != nil && wholeErr == nil {
			t.Errorf("%s: error of no row: %v", e, err)
		}
		if (wholeErr == nil) != (rowErr == nil) {
			t.Errorf("%s: error of the batch: %v; of its rows: %v", e, wholeErr, rowErr)
			continue
		}
		if wholeErr != nil {
			continue
		}
		compared++
		if diff := cmp.Diff(rows, whole); diff != "" {
			t.Errorf("%s: mismatch (-rows one by one +batch):\n%s", e, diff)
		}
	}
	if compared < 400 {
		t.Errorf("only %d expressions could be computed", compared)
	}
}

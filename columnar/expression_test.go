// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

var expressionSchema = arrowtest.Fields(
	"i", int64Type, "j", int32Type, "u", uint64Type, "f", floatType, "s", textType, "b", arrow.BinaryTypes.Binary,
	"t", arrow.FixedWidthTypes.Boolean, "d", &arrow.Decimal128Type{Precision: 10, Scale: 2}, "at", arrow.FixedWidthTypes.Timestamp_ms,
	"l", arrow.ListOf(int64Type), "k", &arrow.DictionaryType{IndexType: int8Type, ValueType: textType}, "g", arrow.PrimitiveTypes.Float32, "z", arrow.Null,
)

var expressionRows = []string{
	`{"i":6,"j":-4,"u":7,"f":1.5,"s":"abc","b":"YWJj","t":true,"d":"1.25","at":"1970-01-01T00:00:02Z","l":[1],"k":"x","g":0.5}`,
	`{"i":-7,"j":2,"u":18446744073709551615,"f":-0.0,"s":"","b":"","t":false,"d":"-3.50","at":"1970-01-01T00:00:00Z","l":[],"k":"y","g":-2}`,
	`{}`,
}

func derive(tb testing.TB, e Expression) ([]string, arrow.DataType, error) {
	tb.Helper()
	mem := newAllocator(tb)
	batch := arrowtest.JSONBatch(tb, mem, expressionSchema, expressionRows...)
	ctx := &Context{}
	if err := Derive(mem, e.As("result")).Process(ctx, batch); err != nil {
		return nil, nil, errors.Join(err, noneForwarded(ctx))
	}
	result := ctx.Take()[0]
	defer result.Release()
	column := result.Column(int(result.NumCols()) - 1)
	texts := make([]string, column.Len())
	for row := range texts {
		texts[row] = column.ValueStr(row)
	}
	return texts, column.DataType(), nil
}

func TestExpressionValues(t *testing.T) {
	i, j, u, f, s, b := Column("i"), Column("j"), Column("u"), Column("f"), Column("s"), Column("b")
	flag, d, at := Column("t"), Column("d"), Column("at")
	const null = "(null)"
	for _, test := range []struct {
		e    Expression
		want []string
		dt   arrow.DataType
	}{
		{i, []string{"6", "-7", null}, int64Type},
		{j, []string{"-4", "2", null}, int32Type},
		{Literal(5), []string{"5", "5", "5"}, int64Type},
		{Literal(nil), []string{null, null, null}, arrow.Null},
		{Column("d").Mul(Literal(1).Div(Literal(nil))), []string{null, null, null}, arrow.Null},
		{Literal(uint64(1) << 63).Sub(Literal(nil)).Add(Literal(1.5)), []string{null, null, null}, arrow.Null},
		{Column("u").Add(Column("z")).Less(Column("f")), []string{null, null, null}, arrow.FixedWidthTypes.Boolean},
		{If(Column("t"), Column("z").Mul(Literal(2)), Column("f")), []string{null, "-0", null}, floatType},
		{Literal(uint64(math.MaxUint64)), []string{"18446744073709551615", "18446744073709551615", "18446744073709551615"}, uint64Type},
		{Literal("x").Equal("x"), []string{"true", "true", "true"}, arrow.FixedWidthTypes.Boolean},
		{i.Add(j), []string{"2", "-5", null}, int64Type},
		{i.Sub(1), []string{"5", "-8", null}, int64Type},
		{i.Mul(j), []string{"-24", "-14", null}, int64Type},
		{i.Div(4), []string{"1", "-1", null}, int64Type},
		{i.Mod(4), []string{"2", "-3", null}, int64Type},
		{i.Mod(4).Add(i.Mul(2)), []string{"14", "-17", null}, int64Type},
		{u.Div(2), []string{"3", "9223372036854775807", null}, uint64Type},
		{u.Mod(10), []string{"7", "5", null}, uint64Type},
		{u.Sub(7), []string{"0", "18446744073709551608", null}, uint64Type},
		{i.Add(nil), []string{null, null, null}, arrow.Null},
		{u.Add(nil).Less(j), []string{null, null, null}, arrow.FixedWidthTypes.Boolean},
		{i.Add(nil).Add(f), []string{null, null, null}, arrow.Null},
		{d.Sub(nil).Mul(Literal(1.5).Mul(1)), []string{null, null, null}, arrow.Null},
		{f.Add(1), []string{"2.5", "1", null}, floatType},
		{i.Div(2.0), []string{"3", "-3.5", null}, floatType},
		{f.Mul(f).Sub(Column("g")), []string{"1.75", "2", null}, floatType},
		{Literal(1).Div(f).Cast(textType), []string{"0.6666666666666666", "-Inf", null}, textType},
		{d.Add(big.NewRat(1, 200)), []string{"1.255", "-3.495", null}, &arrow.Decimal128Type{Precision: 38, Scale: 3}},
		{d.Sub(1), []string{"0.25", "-4.5", null}, &arrow.Decimal128Type{Precision: 38, Scale: 2}},
		{d.Mul(d), []string{"1.5625", "12.25", null}, &arrow.Decimal128Type{Precision: 38, Scale: 4}},
		{d.Mul(0.5), []string{"0.625", "-1.75", null}, &arrow.Decimal128Type{Precision: 38, Scale: 3}},
		{d.Add(f), []string{"2.75", "-3.5", null}, floatType},
		{i.Equal(6), []string{"true", "false", null}, nil},
		{i.NotEqual(j), []string{"true", "true", null}, nil},
		{i.Less(j), []string{"false", "true", null}, nil},
		{i.LessOrEqual(6), []string{"true", "true", null}, nil},
		{i.Greater(5.5), []string{"true", "false", null}, nil},
		{i.GreaterOrEqual(-7), []string{"true", "true", null}, nil},
		{u.Greater(7), []string{"false", "true", null}, nil},
		{u.Equal(uint64(math.MaxUint64)), []string{"false", "true", null}, nil},
		{f.Equal(0), []string{"false", "true", null}, nil},
		{f.Less(math.NaN()), []string{"true", "true", null}, nil},
		{Literal(math.NaN()).Equal(math.NaN()), []string{"true", "true", "true"}, nil},
		{d.Equal(1.25), []string{"true", "false", null}, nil},
		{d.LessOrEqual(-3), []string{"false", "true", null}, nil},
		{s.Equal("abc"), []string{"true", "false", null}, nil},
		{s.Less("abd"), []string{"true", "true", null}, nil},
		{b.Equal("abc"), []string{"true", "false", null}, nil},
		{b.Greater([]byte{0}), []string{"true", "false", null}, nil},
		{Column("k").NotEqual("x"), []string{"false", "true", null}, nil},
		{flag.Equal(true), []string{"true", "false", null}, nil},
		{Not(flag), []string{"false", "true", null}, nil},
		{at.Greater(time.UnixMilli(1999)), []string{"true", "false", null}, nil},
		{Literal(time.UnixMilli(0)).Equal(at), []string{"false", "true", null}, nil},
		{i.In(1, 6), []string{"true", "false", null}, nil},
		{i.In(), []string{"false", "false", "false"}, nil},
		{s.In("", nil), []string{null, "true", null}, nil},
		{i.IsNull(), []string{"false", "false", "true"}, nil},
		{Column("l").IsNull(), []string{"false", "false", "true"}, nil},
		{s.HasPrefix("ab"), []string{"true", "false", null}, nil},
		{s.HasSuffix("bc"), []string{"true", "false", null}, nil},
		{b.Contains("b"), []string{"true", "false", null}, nil},
		{And(flag, nil), []string{null, "false", null}, nil},
		{Or(flag, nil), []string{"true", null, null}, nil},
		{And(), []string{"true", "true", "true"}, nil},
		{Or(), []string{"false", "false", "false"}, nil},
		{And(i.Greater(0), s.Equal("abc"), flag), []string{"true", "false", null}, nil},
		// The row in which the divisor is 0 is decided before.
		{And(j.NotEqual(2), Literal(1).Div(j.Sub(2)).LessOrEqual(0)), []string{"true", "false", null}, nil},
		{Or(j.Equal(2), Literal(6).Div(j.Sub(2)).Equal(-1)), []string{"true", "true", null}, nil},
		{If(flag, i, j), []string{"6", "2", null}, int64Type},
		{If(i.IsNull(), 1, i.Mul(2)), []string{"12", "-14", "1"}, int64Type},
		{If(j.Equal(2), -1, Literal(6).Div(j.Sub(2))), []string{"-1", "-1", null}, int64Type},
		{If(flag, s, "none"), []string{"abc", "none", "none"}, textType},
		{If(flag, d, 0), []string{"1.25", "0", "0"}, &arrow.Decimal128Type{Precision: 38, Scale: 2}},
		{If(flag, nil, true), []string{null, "true", "true"}, nil},
		{If(flag, f, nil), []string{"1.5", null, null}, floatType},
		{i.Cast(textType), []string{"6", "-7", null}, textType},
		{i.Cast(int8Type).Mul(100), []string{"600", "-700", null}, int64Type},
		{j.Cast(arrow.PrimitiveTypes.Float32), []string{"-4", "2", null}, arrow.PrimitiveTypes.Float32},
		{f.Mul(2).Cast(int64Type), []string{"3", "0", null}, int64Type},
		{d.Cast(textType), []string{"1.25", "-3.5", null}, textType},
		{d.Cast(floatType), []string{"1.25", "-3.5", null}, floatType},
		{i.Cast(&arrow.Decimal128Type{Precision: 5, Scale: 1}).Mul(d), []string{"7.5", "24.5", null}, &arrow.Decimal128Type{Precision: 38, Scale: 3}},
		{Literal("12").Cast(int64Type).Add(i), []string{"18", "5", null}, int64Type},
		{i.BigEndian(), []string{"AAAAAAAAAAY=", "//////////k=", null}, arrow.BinaryTypes.Binary},
		{Literal(258).BigEndian(), []string{"AAAAAAAAAQI=", "AAAAAAAAAQI=", "AAAAAAAAAQI="}, arrow.BinaryTypes.Binary},
	} {
		got, dt, err := derive(t, test.e)
		if err != nil {
			t.Errorf("%s: %v", test.e, err)
			continue
		}
		if test.dt == nil {
			test.dt = arrow.FixedWidthTypes.Boolean
		}
		if diff := cmp.Diff(test.want, got); diff != "" || !arrow.TypeEqual(dt, test.dt) {
			t.Errorf("%s: type %s, want %s; values mismatch (-want +got):\n%s", test.e, dt, test.dt, diff)
		}
	}
}

func TestExpressionErrors(t *testing.T) {
	i, u, s, f, d := Column("i"), Column("u"), Column("s"), Column("f"), Column("d")
	for _, test := range []struct {
		e      Expression
		column string
		row    int
		want   string
	}{
		{Column("x").Add(1), "x", namedcols.NoRow, "Arrow column does not exist: x"},
		{s.Greater(4), "s", namedcols.NoRow, "s is text and 4 is integer"},
		{i.Add(s), "i", namedcols.NoRow, "i is integer and s is text"},
		{And(i, true), "i", namedcols.NoRow, "i is integer, not boolean"},
		{Not(s), "s", namedcols.NoRow, "s is text, not boolean"},
		{i.HasPrefix("a"), "i", namedcols.NoRow, "i is integer, not text or bytes"},
		{f.Mod(2), "f", namedcols.NoRow, "operator is not defined for values that are 64-bit float"},
		{d.Div(2), "d", namedcols.NoRow, "operator is not defined for values that are decimal"},
		{s.Add("x"), "s", namedcols.NoRow, "operator is not defined for values that are text"},
		{Column("l").Equal(Column("l")), "l", namedcols.NoRow, "cannot compare values that are nested"},
		{If(true, Column("l"), Column("l")), "l", namedcols.NoRow, "cannot choose between values that are nested"},
		{Literal(nil).Equal(Column("l")), "l", namedcols.NoRow, "cannot compare values that are nested"},
		{If(Column("t"), nil, Column("l")), "t", namedcols.NoRow, "cannot choose between values that are nested"},
		{Literal(nil).Add(Column("t")), "t", namedcols.NoRow, "operator is not defined for values that are boolean"},
		{Column("t").BigEndian(), "t", namedcols.NoRow, "t is boolean, not integer"},
		{i.Equal(time.UnixMilli(0)), "i", namedcols.NoRow, "does not compare with type int64"},
		{Literal(time.Second).Equal(time.Second), "1s = 1s", namedcols.NoRow, "has no unit to compare with"},
		{i.Add(int64(math.MaxInt64)), "i", 0, "integer overflow"},
		{i.Sub(int64(math.MaxInt64)), "i", 1, "integer overflow"},
		{i.Mul(int64(math.MaxInt64)), "i", 0, "integer overflow"},
		{Literal(int64(math.MinInt64)).Div(i.Add(6)), "i", 1, "integer overflow"},
		{Literal(1).Div(i.Sub(6)), "i", 0, "division by zero"},
		{Literal(1).Mod(i.Add(7)), "i", 1, "division by zero"},
		{u.Add(1), "u", 1, "integer overflow"},
		{u.Mul(3), "u", 1, "integer overflow"},
		{u.Sub(8), "u", 0, "integer overflow"},
		{u.Div(Literal(0)), "u", 0, "division by zero"},
		{u.Add(i), "u", 1, "18446744073709551615 does not fit with integer"},
		{s.Cast(int64Type), "s", namedcols.NoRow, "not an integer"},
		{i.Cast(uint8Type), "i", namedcols.NoRow, "integer overflow: -7 does not fit uint8"},
		{d.Mul(big.NewRat(1, 3)), "1/3", namedcols.NoRow, "1/3 is not a decimal"},
	} {
		_, _, err := derive(t, test.e)
		var failure *ColumnError
		if !errors.As(err, &failure) || strings.Trim(failure.Column, "()") != test.column || failure.Row != test.row || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want a ColumnError of %s, row %d, with %q", test.e, err, test.column, test.row, test.want)
		}
	}
}

func TestExpressionThatIsInvalidIsRefusedByTheTopology(t *testing.T) {
	mem := newAllocator(t)
	topology := NewTopology(mem)
	source := must[Node](t)(topology.AddSource("source", []string{"in"}, amountCodec{mem}))
	for name, test := range map[string]struct {
		operator *BuiltinOp
		want     string
	}{
		"literal":       {FilterWhere(mem, And(true, Column("x").Equal(struct{}{}))), "cannot use struct {} as a literal"},
		"nothing":       {FilterWhere(mem, Expression{}), "expression is empty"},
		"no type":       {Derive(mem, Column("x").Cast(nil).As("y")), "column `y`: cast to no type"},
		"reserved name": {Derive(mem, Column("x").As(KeyColumn)), "reserved metadata column"},
		"name twice":    {Derive(mem, Column("x").As("y"), Column("z").As("y")), "derived column `y` appears twice"},
		"key":           {WithKey(mem, Expression{}), "column `__key`: expression is empty"},
		"of an operand": {WithTimestamp(mem, Column("x").Add(Expression{})), "column `__timestamp`: expression is empty"},
	} {
		if _, err := topology.AddOperator("x", test.operator, source); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: AddOperator = %v, want %q", name, err, test.want)
		}
	}
}

func TestExpressionText(t *testing.T) {
	e := And(Column("a").Mul(2).GreaterOrEqual(Column("b")), Not(Column("c").IsNull()), If(true, "x", nil).Cast(textType).HasPrefix("y"), Column("d").BigEndian().Equal(big.NewRat(1, 2)))
	want := `(((((a * 2) >= b) and not c is null) and (cast(if(true, "x", null) as utf8) has prefix "y")) and (big endian(d) = 1/2))`
	if got := e.String(); got != want {
		t.Errorf("String() = %s, want %s", got, want)
	}
	if got, want := Literal(make(chan int)).Add(1).String(), "(columnar: cannot use chan int as a literal)"; got != want {
		t.Errorf("String() = %s, want %s", got, want)
	}
}

func TestLiteralIsCopied(t *testing.T) {
	bytes, rat := []byte("abc"), big.NewRat(5, 4)
	first, second := Column("b").Equal(bytes), Column("d").Equal(rat)
	bytes[0] = 'x'
	rat.SetInt64(9)
	for _, e := range []Expression{first, second} {
		got, _, err := derive(t, e)
		if diff := cmp.Diff([]string{"true", "false", "(null)"}, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, values mismatch (-want +got):\n%s", e, err, diff)
		}
	}
}

func TestFilterWhereAgreesWithFilter(t *testing.T) {
	r := arrowtest.NewRand(t)
	mem := newAllocator(t)
	for range 20 {
		rows := make([]string, r.IntN(200))
		for i := range rows {
			rows[i] = fmt.Sprintf(`{"user":"u%d","amount":%d}`, r.IntN(5), r.IntN(20)-10)
			if r.IntN(8) == 0 {
				rows[i] = `{"user":"u1"}`
			}
		}
		batch := arrowtest.JSONBatch(t, mem, amountSchema, rows...)
		limit := r.Int64N(20) - 10
		want := processRows(t, Filter(mem, func(batch arrow.RecordBatch, row int) bool {
			amount := arrays.Value(batch.Column(1), row)
			return amount != nil && amount.(int64)%3 != 0 && (amount.(int64) > limit || arrays.Value(batch.Column(0), row) == "u2")
		}), batch)
		predicate := And(Column("amount").Mod(3).NotEqual(0), Or(Column("amount").Greater(limit), Column("user").Equal("u2")))
		if diff := cmp.Diff(want, processRows(t, FilterWhere(mem, predicate), batch)); diff != "" {
			t.Fatalf("%s mismatch (-want +got):\n%s", predicate, diff)
		}
	}
}

func TestFilterWhereNeedsABoolean(t *testing.T) {
	mem := newAllocator(t)
	batch := arrowtest.JSONBatch(t, mem, amountSchema, `{"user":"a","amount":1}`)
	if _, err := tryRows(FilterWhere(mem, Column("amount")), batch); err == nil || !strings.Contains(err.Error(), "column `amount`: predicate is not boolean") {
		t.Errorf("error = %v, want the predicate to be refused", err)
	}
	for predicate, want := range map[bool]int{true: 1, false: 0} {
		if got := processRows(t, FilterWhere(mem, Literal(predicate)), batch); len(got) != want {
			t.Errorf("%v keeps %q, want %d rows", predicate, got, want)
		}
	}
	if got := processRows(t, FilterWhere(mem, Literal(nil)), batch); len(got) != 0 {
		t.Errorf("null keeps %q", got)
	}
}

// TestErrorsOfRowsThatDoNotCount guards steps that fail: with a column, with
// none, in batches of no row, of one and of several.
func TestErrorsOfRowsThatDoNotCount(t *testing.T) {
	mem := newAllocator(t)
	schema := arrowtest.Fields("ok", arrow.FixedWidthTypes.Boolean, "n", int64Type)
	good, bad := `{"ok":true,"n":5}`, `{"ok":false,"n":1000}`
	narrow := Column("n").Cast(arrow.PrimitiveTypes.Int8)
	constant := Literal(1).Div(0)
	for name, test := range map[string]struct {
		expression Expression
		rows       []string
		want       []string
		fails      bool
	}{
		"a cast of a column":              {If(Column("ok"), narrow, 0), []string{good, bad}, []string{"5", "0"}, false},
		"a cast of a column, one row":     {If(Column("ok"), narrow, 0), []string{bad}, []string{"0"}, false},
		"a cast that counts, one row":     {If(Column("ok"), 0, narrow), []string{bad}, nil, true},
		"a constant, ignored":             {If(Column("ok"), constant, 7), []string{bad, bad}, []string{"7", "7"}, false},
		"a constant, ignored at first":    {If(Column("ok"), constant, 7), []string{bad, good}, nil, true},
		"a constant, one row":             {If(Column("ok"), constant, 7), []string{bad}, []string{"7"}, false},
		"a constant, no row":              {If(Column("ok"), constant, 7), nil, []string{}, false},
		"a constant behind And, no row":   {If(And(Column("ok"), constant.Equal(1)), 1, 2), nil, []string{}, false},
		"a constant behind Or, some rows": {If(Or(Not(Column("ok")), constant.Equal(1)), 1, 2), []string{bad, bad}, []string{"1", "1"}, false},
		"a cast of a constant, no row":    {If(Column("ok"), Literal(1000).Cast(arrow.PrimitiveTypes.Int8), 0), nil, []string{}, false},
	} {
		rows, err := tryRows(Derive(mem, test.expression.As("result")), arrowtest.JSONBatch(t, mem, schema, test.rows...))
		if test.fails != (err != nil) {
			t.Errorf("%s: error = %v; want one: %v", name, err, test.fails)
			continue
		}
		var got []string
		if !test.fails {
			got = []string{}
		}
		for _, row := range rows {
			got = append(got, row[strings.LastIndexByte(row, ' ')+1:])
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: results mismatch (-want +got):\n%s", name, diff)
		}
	}
}

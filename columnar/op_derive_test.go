// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// processed runs an operator on a batch; the result is released when the test
// ends.
func processed(tb testing.TB, operator *BuiltinOp, batch arrow.RecordBatch) arrow.RecordBatch {
	tb.Helper()
	ctx := &Context{}
	if err := operator.Process(ctx, batch); err != nil {
		tb.Fatal(err)
	}
	result := ctx.Take()[0]
	tb.Cleanup(result.Release)
	return result
}

func names(batch arrow.RecordBatch) []string {
	var names []string
	for _, field := range batch.Schema().Fields() {
		names = append(names, field.Name)
	}
	return names
}

func decoded(tb testing.TB, values ...string) arrow.RecordBatch {
	tb.Helper()
	batch := must[arrow.RecordBatch](tb)(amountCodec{newAllocator(tb)}.Decode("in", amounts(0, values...)))
	tb.Cleanup(batch.Release)
	return batch
}

func TestFilterKeepsColumnsOfEveryType(t *testing.T) {
	r := arrowtest.NewRand(t)
	mem := newAllocator(t)
	for _, dt := range arrowtest.EveryType() {
		arr := arrowtest.RandomArray(r, mem, dt, 40)
		batch := array.NewRecordBatch(arrowtest.Fields("c", dt), []arrow.Array{arr}, int64(arr.Len()))
		keep := func(_ arrow.RecordBatch, row int) bool { return row%3 == 1 }
		result := processed(t, Filter(mem, keep), batch)
		want := arrowtest.Texts(arr)
		for i, got := range arrowtest.Texts(result.Column(0)) {
			if got != want[i*3+1] {
				t.Errorf("%s: row %d = %s, want %s", dt, i, got, want[i*3+1])
			}
		}
		if result.NumRows() != 13 || result.Schema() != batch.Schema() {
			t.Errorf("%s: %d rows with schema %p, want 13 with %p", dt, result.NumRows(), result.Schema(), batch.Schema())
		}
		batch.Release()
		arr.Release()
	}
}

func TestFilterOfAllRowsCopiesNothing(t *testing.T) {
	mem := newAllocator(t)
	batch := decoded(t, "a 1", "b 2")
	result := processed(t, Filter(mem, keepAll), batch)
	if &result.Column(1).Data().Buffers()[1].Bytes()[0] != &batch.Column(1).Data().Buffers()[1].Bytes()[0] {
		t.Error("the rows were copied")
	}
	if none := processed(t, Filter(mem, amountAbove(5)), batch); none.NumRows() != 0 || none.NumCols() != batch.NumCols() {
		t.Errorf("filter of no row gave %d rows, %d columns", none.NumRows(), none.NumCols())
	}
}

func TestSelectPutsMetadataBehind(t *testing.T) {
	mem := newAllocator(t)
	batch := decoded(t, "a 1")
	for _, test := range []struct{ columns, want []string }{
		{[]string{"user"}, []string{"user", "__key", "__timestamp", "__partition", "__offset", "__headers"}},
		{[]string{"amount", OffsetColumn, "user", "amount", OffsetColumn}, []string{"amount", "__offset", "user", "__key", "__timestamp", "__partition", "__headers"}},
		{nil, []string{"__key", "__timestamp", "__partition", "__offset", "__headers"}},
	} {
		columns := append([]string{}, test.columns...)
		operator := Select(mem, columns...)
		for i := range columns {
			columns[i] = "changed"
		}
		if diff := cmp.Diff(test.want, names(processed(t, operator, batch))); diff != "" {
			t.Errorf("Select(%q) mismatch (-want +got):\n%s", test.columns, diff)
		}
	}
	var failure *ColumnError
	if _, err := tryRows(Select(mem, "user", "x"), batch); !errors.As(err, &failure) || failure.Column != "x" || !strings.Contains(err.Error(), "Arrow column does not exist: x") {
		t.Errorf("error = %v, want a ColumnError of x", err)
	}
}

func TestSelectFollowsASchemaChange(t *testing.T) {
	mem := newAllocator(t)
	operator := Select(mem, "b")
	first := arrowtest.JSONBatch(t, mem, arrowtest.Fields("a", int64Type, "b", int64Type), `{"a":1,"b":2}`)
	second := arrowtest.JSONBatch(t, mem, arrowtest.Fields("b", textType, "a", int64Type), `{"a":1,"b":"x"}`)
	got := append(processRows(t, operator, first), processRows(t, operator, second)...)
	if diff := cmp.Diff([]string{"2", "x"}, got); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
}

func TestOperatorsKeepSchemaMetadata(t *testing.T) {
	mem := newAllocator(t)
	metadata := arrow.NewMetadata([]string{"origin"}, []string{"here"})
	schema := arrow.NewSchema(amountSchema.Fields(), &metadata)
	batch := arrowtest.JSONBatch(t, mem, schema, `{"user":"a","amount":1}`)
	for name, operator := range map[string]*BuiltinOp{
		"filter": Filter(mem, keepAll), "select": Select(mem, "user"), "derive": Derive(mem, Literal(1).As("one")),
	} {
		if got := processed(t, operator, batch).Schema().Metadata(); !got.Equal(metadata) {
			t.Errorf("%s: metadata = %v, want %v", name, got, metadata)
		}
	}
}

// What is known about a column goes along with its values, under each name, and
// not with values that are made of them.
func TestDeriveKeepsWhatIsKnownOfColumns(t *testing.T) {
	mem := newAllocator(t)
	raw := arrow.NewMetadata([]string{"krabka.json"}, []string{"true"})
	none := arrow.Metadata{}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "raw", Type: textType, Metadata: raw},
		{Name: "other", Type: textType, Metadata: raw, Nullable: true},
		{Name: "plain", Type: textType},
		{Name: "flag", Type: arrow.FixedWidthTypes.Boolean},
	}, nil)
	codec := must[*JSONCodec](t)(NewJSONCodec(mem, schema))
	batch := must[arrow.RecordBatch](t)(codec.Decode("in", []ConsumedRecord{{Value: []byte(`{"raw":{"a":1},"other":[2],"plain":"p","flag":true}`)}}))
	defer batch.Release()
	column := Column("raw")
	for _, test := range []struct {
		name  string
		value Expression
		want  arrow.Field
		json  string
	}{
		{"the column", column, arrow.Field{Metadata: raw}, `{"a":1}`},
		{"a column that may be null", Column("other"), arrow.Field{Metadata: raw, Nullable: true}, `[2]`},
		{"a choice between two", If(Column("flag"), column, Column("other")), arrow.Field{Metadata: raw, Nullable: true}, `{"a":1}`},
		{"a choice between equals", If(Column("flag"), column, column), arrow.Field{Metadata: raw}, `{"a":1}`},
		{"a choice within a choice", If(Column("flag"), If(Not(Column("flag")), Column("other"), column), nil), arrow.Field{Metadata: raw, Nullable: true}, `{"a":1}`},
		{"a choice with null", If(Column("flag"), nil, column), arrow.Field{Metadata: raw, Nullable: true}, `null`},
		{"a choice with text", If(Column("flag"), column, Column("plain")), arrow.Field{Metadata: none}, `"{\"a\":1}"`},
		{"a choice with a literal", If(Column("flag"), column, "x"), arrow.Field{Metadata: none, Nullable: true}, `"{\"a\":1}"`},
		{"the column as text", column.Cast(textType), arrow.Field{Metadata: none, Nullable: true}, `"{\"a\":1}"`},
		{"a question", Column("plain").IsNull(), arrow.Field{Metadata: none, Nullable: true}, `false`},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := processed(t, Derive(mem, test.value.As("x")), batch)
			at := namedcols.First(result.Schema(), "x")
			got := result.Schema().Field(at)
			if got.Nullable != test.want.Nullable || !got.Metadata.Equal(test.want.Metadata) {
				t.Errorf("field %v, want nullable %v and metadata %v", got, test.want.Nullable, test.want.Metadata)
			}
			records := must[[]ProduceRecord](t)(codec.Encode("out", processed(t, Select(mem, "x"), result)))
			if want := `{"x":` + test.json + `}`; string(records[0].Value) != want {
				t.Errorf("record %s, want %s", records[0].Value, want)
			}
		})
	}
}

func double(batch arrow.RecordBatch, row int) (any, error) {
	return 2 * arrays.Value(batch.Column(1), row).(int64), nil
}

func TestWithColumns(t *testing.T) {
	mem := newAllocator(t)
	batch := decoded(t, "a 5", "b 9")
	field := func(name string, dt arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: dt, Nullable: true}
	}
	columns := []DerivedColumn{
		{Field: field("double_amount", int64Type), Value: double},
		{Field: field("amount", textType), Value: func(batch arrow.RecordBatch, row int) (any, error) {
			// The batch is the input, in which amount is what it was.
			value, err := double(batch, row)
			return big.NewInt(value.(int64)), err
		}},
		{Field: field(WindowStartColumn, int64Type), Value: func(arrow.RecordBatch, int) (any, error) { return nil, nil }},
	}
	operator := must[*BuiltinOp](t)(WithColumns(mem, columns...))
	columns[0].Value = nil
	result := processed(t, operator, batch)
	if diff := cmp.Diff(append(names(batch), "double_amount", WindowStartColumn), names(result)); diff != "" {
		t.Errorf("columns mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a 10 10 (null)", "b 18 18 (null)"}, processRows(t, Select(mem, "user", "amount", "double_amount", WindowStartColumn), payloadOf(t, result))); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
	if again := processed(t, operator, batch); again.Schema() != result.Schema() {
		t.Error("results of one schema have different schema objects")
	}
}

func payloadOf(tb testing.TB, batch arrow.RecordBatch) arrow.RecordBatch {
	tb.Helper()
	payload := PayloadBatch(batch)
	tb.Cleanup(payload.Release)
	return payload
}

func TestWithColumnsErrors(t *testing.T) {
	mem := newAllocator(t)
	batch := decoded(t, "a 5", "b 9")
	value := func(result any, err error) RowValue {
		return func(_ arrow.RecordBatch, row int) (any, error) {
			if row == 0 {
				return int64(1), nil
			}
			return result, err
		}
	}
	plain := arrow.Field{Name: "x", Type: int64Type, Nullable: true}
	for want, column := range map[string]DerivedColumn{
		"collides with a reserved metadata column": {Field: arrow.Field{Name: KeyColumn, Type: int64Type}, Value: double},
		"column `x`: derived column has no type":   {Field: arrow.Field{Name: "x"}, Value: double},
		"column `x`: derived column has no value":  {Field: plain},
	} {
		if operator, err := WithColumns(mem, column); operator != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("WithColumns = %v, %v, want %q", operator, err, want)
		}
	}
	if _, err := WithColumns(mem, DerivedColumn{Field: plain, Value: double}, DerivedColumn{Field: plain, Value: double}); err == nil || !strings.Contains(err.Error(), "derived column `x` appears twice") {
		t.Errorf("error = %v, want the name to be refused", err)
	}
	for want, column := range map[string]DerivedColumn{
		"tally refuses":                         {Field: plain, Value: value(nil, errTally)},
		"null in a column that is not nullable": {Field: arrow.Field{Name: "x", Type: int64Type}, Value: value(nil, nil)},
		"cannot convert":                        {Field: plain, Value: value(true, nil)},
	} {
		operator := must[*BuiltinOp](t)(WithColumns(mem, column))
		_, err := tryRows(operator, batch)
		var failure *ColumnError
		if !errors.As(err, &failure) || failure.Column != "x" || failure.Row != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want a ColumnError of x, row 1, with %q", err, want)
		}
		if want == "tally refuses" && !errors.Is(err, errTally) {
			t.Errorf("error %v does not wrap the cause", err)
		}
	}
}

func TestDeriveSeesTheInput(t *testing.T) {
	mem := newAllocator(t)
	batch := arrowtest.JSONBatch(t, mem, amountSchema, `{"user":"a","amount":5}`)
	operator := Derive(mem, Column("amount").Mul(2).As("amount"), Column("amount").Add(1).As("next"), Column("user").As("name"))
	if diff := cmp.Diff([]string{"a 10 6 a"}, processRows(t, operator, batch)); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
	copied := processed(t, operator, batch).Column(3)
	if &copied.Data().Buffers()[2].Bytes()[0] != &batch.Column(0).Data().Buffers()[2].Bytes()[0] {
		t.Error("a plain column was copied")
	}
}

func TestWithKeyAndTimestamp(t *testing.T) {
	mem := newAllocator(t)
	built := func(operators ...any) *BuiltTopology {
		topology := NewTopology(mem)
		parent := must[Node](t)(topology.AddSource("source", []string{"in"}, amountCodec{mem}))
		for i, operator := range operators {
			parent = must[Node](t)(topology.AddOperator(string(rune('a'+i)), operator.(*BuiltinOp), parent))
		}
		must[Node](t)(topology.AddSink("sink", "out", recordCodec{amountCodec{mem}}, parent))
		return must[*BuiltTopology](t)(topology.Build())
	}
	run := func(built *BuiltTopology) []ProduceRecord {
		var records []ProduceRecord
		for _, output := range must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "ada 7", "bob"))) {
			records = append(records, output.Record)
		}
		return records
	}
	count := must[*BuiltinOp](t)(NewGroupBy(mem, Grouping{Keys: []string{"user"}, Aggregations: countRows(), Emit: EmitChanges}))
	for name, test := range map[string]struct {
		built *BuiltTopology
		want  []ProduceRecord
	}{
		"text":     {built(WithKey(mem, Column("user"))), []ProduceRecord{{Key: []byte("ada"), Timestamp: 0}, {Key: []byte("bob"), Timestamp: 1}}},
		"integers": {built(WithKey(mem, Column("amount").BigEndian())), []ProduceRecord{{Key: []byte{0, 0, 0, 0, 0, 0, 0, 7}, Timestamp: 0}, {Timestamp: 1}}},
		"time": {
			built(WithTimestamp(mem, Column("amount").Add(100))), []ProduceRecord{{Timestamp: 107}, {}},
		},
		"groups": {built(count, WithKey(mem, Column("user"))), []ProduceRecord{{Key: []byte("ada")}, {Key: []byte("bob"), Timestamp: 1}}},
	} {
		if diff := cmp.Diff(test.want, run(test.built)); diff != "" {
			t.Errorf("%s: records mismatch (-want +got):\n%s", name, diff)
		}
	}
	for want, operator := range map[string]*BuiltinOp{
		"column `__key`: cannot be made of values that are integer":    WithKey(mem, Column("amount")),
		"column `__timestamp`: cannot be made of values that are text": WithTimestamp(mem, Column("user")),
	} {
		if _, err := built(operator).RunBatch("in", amounts(0, "ada 7")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

// recordCodec writes the key and the timestamp of rows.
type recordCodec struct{ amountCodec }

func (recordCodec) Encode(_ string, batch arrow.RecordBatch) ([]ProduceRecord, error) {
	metadata := NewRowMetadata(batch)
	records := make([]ProduceRecord, batch.NumRows())
	for i := range records {
		var err error
		if records[i], err = metadata.Record(i); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// TestTombstonesInExpressions uses the tombstone column on batches with and
// without it.
func TestTombstonesInExpressions(t *testing.T) {
	mem := newAllocator(t)
	with := arrowtest.Fields("n", int64Type, TombstoneColumn, arrow.FixedWidthTypes.Boolean)
	without := arrowtest.Fields("n", int64Type)
	deleted := Column(TombstoneColumn)
	derived := func() *BuiltinOp {
		return Derive(mem, deleted.As("deleted"), deleted.Cast(textType).As("text"), If(deleted, 0, Column("n")).As("left"))
	}
	for name, test := range map[string]struct {
		schema   *arrow.Schema
		rows     []string
		operator *BuiltinOp
		want     []string
	}{
		"kept where there is one":  {with, []string{`{"n":1,"__tombstone":false}`, `{"__tombstone":true}`}, FilterWhere(mem, Not(deleted)), []string{"1 false"}},
		"kept where there is none": {without, []string{`{"n":1}`, `{}`}, FilterWhere(mem, Not(deleted)), []string{"1", "(null)"}},
		"only tombstones":          {without, []string{`{"n":1}`, `{}`}, FilterWhere(mem, deleted), []string{}},
		"compared":                 {without, []string{`{"n":1}`}, FilterWhere(mem, deleted.Equal(false)), []string{"1"}},
		"not null":                 {without, []string{`{"n":1}`}, FilterWhere(mem, deleted.IsNull()), []string{}},
		"with a column":            {without, []string{`{"n":1}`, `{"n":2}`}, FilterWhere(mem, And(Not(deleted), Column("n").Greater(1))), []string{"2"}},
		"derived where there is one": {with, []string{`{"n":1,"__tombstone":false}`, `{"__tombstone":true}`}, derived(),
			[]string{"1 false false false 1", "(null) true true true 0"}},
		"derived where there is none": {without, []string{`{"n":1}`, `{"n":2}`}, derived(), []string{"1 false false 1", "2 false false 2"}},
		"selected":                    {without, []string{`{"n":1}`}, Select(mem, TombstoneColumn, "n"), []string{"1"}},
		"selected where there is one": {with, []string{`{"__tombstone":true}`}, Select(mem, TombstoneColumn, "n"), []string{"true (null)"}},
	} {
		// The other schema comes first: nothing of it may stay.
		other := arrowtest.JSONBatch(t, mem, map[bool]*arrow.Schema{true: without, false: with}[test.schema == with], `{"n":9}`)
		if _, err := tryRows(test.operator, other); err != nil {
			t.Errorf("%s: the other schema: %v", name, err)
		}
		got, err := tryRows(test.operator, arrowtest.JSONBatch(t, mem, test.schema, test.rows...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: rows mismatch (-want +got):\n%s", name, diff)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

func totals() []Aggregation {
	return []Aggregation{
		{InputColumn: "amount", OutputColumn: "total", Function: Sum},
		{InputColumn: "amount", OutputColumn: "count", Function: Count},
	}
}

func TestGroupByKeepsGroupsInOrderOfAppearance(t *testing.T) {
	mem := newAllocator(t)
	first := arrowtest.JSONBatch(t, mem, amountSchema, `{"user":"a","amount":5}`, `{"user":"b","amount":9}`, `{"user":"a","amount":3}`)
	operator := GroupBy(mem, []string{"user"}, totals()...)
	if diff := cmp.Diff([]string{"a 8 2", "b 9 1"}, processRows(t, operator, first)); diff != "" {
		t.Errorf("first batch mismatch (-want +got):\n%s", diff)
	}
	second := arrowtest.JSONBatch(t, mem, amountSchema, `{"user":"c","amount":null}`, `{"user":"a","amount":-1}`)
	if diff := cmp.Diff([]string{"a 7 3", "b 9 1", "c (null) 1"}, processRows(t, operator, second)); diff != "" {
		t.Errorf("second batch mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a 7 3", "b 9 1", "c (null) 1"}, processRows(t, operator, arrowtest.JSONBatch(t, mem, amountSchema))); diff != "" {
		t.Errorf("empty batch mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a -1 1", "c (null) 1"}, sortedCopy(processRows(t, operator.fresh(), second))); diff != "" {
		t.Errorf("fresh operator mismatch (-want +got):\n%s", diff)
	}
}

func TestGroupByOutputSchema(t *testing.T) {
	mem := newAllocator(t)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "k", Type: arrow.PrimitiveTypes.Int16, Metadata: arrow.NewMetadata([]string{"m"}, []string{"1"})},
		{Name: "v", Type: arrow.PrimitiveTypes.Int8, Nullable: true},
		{Name: TimestampColumn, Type: int64Type, Nullable: true},
	}, nil)
	batch := arrowtest.JSONBatch(t, mem, schema, `{"k":1,"v":2,"__timestamp":7}`)
	aggregations := []Aggregation{
		{InputColumn: "v", OutputColumn: "n", Function: Count},
		{InputColumn: "v", OutputColumn: "s", Function: Sum},
		{InputColumn: "v", OutputColumn: "m", Function: Max, OutputType: int64Type},
	}
	aggregates := []arrow.Field{
		{Name: "n", Type: int64Type, Nullable: true},
		{Name: "s", Type: arrow.PrimitiveTypes.Int8, Nullable: true},
		{Name: "m", Type: int64Type, Nullable: true},
	}
	bounds := []arrow.Field{{Name: WindowStartColumn, Type: int64Type}, {Name: WindowEndColumn, Type: int64Type}}
	key := schema.Field(0)
	for name, test := range map[string]struct {
		operator *BuiltinOp
		want     []arrow.Field
	}{
		"table":    {GroupBy(mem, []string{"k"}, aggregations...), append([]arrow.Field{key}, aggregates...)},
		"windowed": {must[*BuiltinOp](t)(WindowedGroupBy(mem, []string{"k"}, time.Second, aggregations...)), append(append([]arrow.Field{key}, bounds...), aggregates...)},
		"changes": {
			must[*BuiltinOp](t)(NewGroupBy(mem, Grouping{Keys: []string{"k"}, Aggregations: aggregations, Window: time.Second, Emit: EmitChanges})),
			append(append(append([]arrow.Field{key}, bounds...), aggregates...), arrow.Field{Name: TimestampColumn, Type: int64Type, Nullable: true}),
		},
		"time as key": {
			must[*BuiltinOp](t)(NewGroupBy(mem, Grouping{Keys: []string{TimestampColumn}})), []arrow.Field{schema.Field(2)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := &Context{}
			if err := test.operator.Process(ctx, batch); err != nil {
				t.Fatal(err)
			}
			result := ctx.Take()[0]
			defer result.Release()
			if !result.Schema().Equal(arrow.NewSchema(test.want, nil)) {
				t.Errorf("schema = %v, want %v", result.Schema(), test.want)
			}
		})
	}
}

func TestGroupByReportsWhatIsWrong(t *testing.T) {
	mem := newAllocator(t)
	for name, test := range map[string]struct {
		grouping Grouping
		want     []string
	}{
		"no keys":            {Grouping{}, []string{"groupBy requires at least one key column"}},
		"unknown function":   {Grouping{Keys: []string{"k"}, Aggregations: []Aggregation{{Function: 99}}}, []string{"unknown aggregate function 99"}},
		"output twice":       {Grouping{Keys: []string{"k"}, Aggregations: []Aggregation{{OutputColumn: "k"}}}, []string{"output column `k` appears twice"}},
		"several":            {Grouping{Window: time.Microsecond, Grace: -1, Emit: 7, MaxGroups: -1}, []string{"windowSize must be at least one millisecond", "grace must not be negative", "unknown emission 7", "maximum number of groups", "at least one key"}},
		"unit of no column":  {Grouping{Keys: []string{"k"}, Window: time.Minute, TimeUnit: time.Second}, []string{"a time unit needs a time column: the timestamp of records is in milliseconds"}},
		"unit of a minute":   {Grouping{Keys: []string{"k"}, TimeColumn: "at", TimeUnit: time.Minute}, []string{"time unit 1m0s is neither a second, a millisecond, a microsecond nor a nanosecond"}},
		"hop without window": {Grouping{Keys: []string{"k"}, Hop: time.Second}, []string{"hop and offset need a window"}},
		"offset of nothing":  {Grouping{Keys: []string{"k"}, Offset: time.Second}, []string{"hop and offset need a window"}},
		"long hop":           {Grouping{Keys: []string{"k"}, Window: time.Second, Hop: 2 * time.Second}, []string{"a hop of 2s does not do for windows of 1s: it is at least one millisecond and a 10000th of a window, and at most a window"}},
		"negative hop":       {Grouping{Keys: []string{"k"}, Window: time.Second, Hop: -time.Second}, []string{"a hop of -1s does not do"}},
		"tiny hop":           {Grouping{Keys: []string{"k"}, Window: time.Hour, Hop: 359 * time.Millisecond}, []string{"a hop of 359ms does not do"}},
		"final without end":  {Grouping{Keys: []string{"k"}, Emit: EmitFinal}, []string{"final emission needs a window"}},
		"grace without end":  {Grouping{Keys: []string{"k"}, Grace: 1}, []string{"grace needs a window"}},
		"event time as name": {Grouping{Keys: []string{"k"}, Aggregations: []Aggregation{{OutputColumn: TimestampColumn}}}, []string{"holds the event time of the group"}},
		"window as name":     {Grouping{Keys: []string{WindowEndColumn}, Window: time.Second}, []string{"output column `__window_end` appears twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			operator, err := NewGroupBy(mem, test.grouping)
			if operator != nil || err == nil {
				t.Fatalf("NewGroupBy = %v, %v, want an error", operator, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
	for name, test := range map[string]struct {
		size, retention time.Duration
		want            string
	}{
		"window":    {time.Microsecond, time.Second, "windowSize must be at least one millisecond"},
		"retention": {time.Second, time.Millisecond, "retention must not be shorter than windowSize"},
	} {
		if _, err := WindowedGroupByWithRetention(mem, []string{"k"}, test.size, test.retention); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want %q", name, err, test.want)
		}
	}
	batch := arrowtest.JSONBatch(t, mem, amountSchema)
	if err := GroupBy(mem, nil).Process(&Context{}, batch); err == nil || !strings.Contains(err.Error(), "groupBy requires at least one key column") {
		t.Errorf("error = %v, want keys to be required", err)
	}
}

func TestGroupByColumnErrors(t *testing.T) {
	mem := newAllocator(t)
	schema := arrowtest.Fields("user", textType, "amount", int64Type, "data", arrow.BinaryTypes.Binary, "list", arrow.ListOf(int64Type),
		"flag", arrow.FixedWidthTypes.Boolean, TimestampColumn, int64Type)
	batch := arrowtest.JSONBatch(t, mem, schema, `{"user":"12","amount":1,"data":"AA==","list":[1],"flag":true,"__timestamp":null}`, `{"user":"x"}`)
	windowed := must[*BuiltinOp](t)(WindowedGroupBy(mem, []string{"user"}, time.Second))
	for name, test := range map[string]struct {
		operator *BuiltinOp
		batch    arrow.RecordBatch
		column   string
		row      int
		want     string
	}{
		"missing key":     {GroupBy(mem, []string{"nobody"}), batch, "nobody", namedcols.NoRow, "Arrow column does not exist: nobody"},
		"missing input":   {GroupBy(mem, []string{"user"}, Aggregation{InputColumn: "x", Function: Count}), batch, "x", namedcols.NoRow, "Arrow column does not exist: x"},
		"sum of bytes":    {GroupBy(mem, []string{"user"}, Aggregation{InputColumn: "data", OutputColumn: "s", Function: Sum}), batch, "data", namedcols.NoRow, "cannot convert binary to an integer"},
		"sum of words":    {GroupBy(mem, []string{"amount"}, Aggregation{InputColumn: "user", OutputColumn: "s", Function: Sum}), batch, "user", 1, `not an integer: "x"`},
		"least list":      {GroupBy(mem, []string{"user"}, Aggregation{InputColumn: "list", OutputColumn: "s", Function: Min}), batch, "list", namedcols.NoRow, "cannot compare list"},
		"sum of booleans": {GroupBy(mem, []string{"user"}, Aggregation{InputColumn: "flag", OutputColumn: "s", Function: Sum}), batch, "s", namedcols.NoRow, "boolean"},
		"null time":       {windowed, batch, TimestampColumn, 0, "event timestamp is null at row 0"},
		"no time":         {windowed, arrowtest.JSONBatch(t, mem, amountSchema), TimestampColumn, namedcols.NoRow, "Arrow column does not exist: __timestamp"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tryRows(test.operator, test.batch)
			var failure *ColumnError
			if !errors.As(err, &failure) || failure.Column != test.column || failure.Row != test.row || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want a ColumnError of %s, row %d, with %q", err, test.column, test.row, test.want)
			}
			if strings.Contains(test.want, "does not exist") != errors.Is(err, ErrNoColumn) {
				t.Errorf("errors.Is(%v, ErrNoColumn) = %v", err, errors.Is(err, ErrNoColumn))
			}
		})
	}
	taken := arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type, WindowStartColumn, int64Type, TimestampColumn, int64Type))
	operator := must[*BuiltinOp](t)(WindowedGroupBy(mem, []string{"k"}, time.Second))
	if _, err := tryRows(operator, taken); err == nil || !strings.Contains(err.Error(), "window output column already exists") {
		t.Errorf("error = %v, want the window column to be in the way", err)
	}
}

func TestSumOverflow(t *testing.T) {
	mem := newAllocator(t)
	row := func(amount int64) string { return fmt.Sprintf(`{"user":"a","amount":%d}`, amount) }
	operator := GroupBy(mem, []string{"user"}, totals()...)
	want := []string{fmt.Sprintf("a %d 1", int64(math.MaxInt64))}
	if diff := cmp.Diff(want, processRows(t, operator, arrowtest.JSONBatch(t, mem, amountSchema, row(math.MaxInt64)))); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
	_, err := tryRows(operator, arrowtest.JSONBatch(t, mem, amountSchema, row(1)))
	if err == nil || !strings.Contains(err.Error(), "overflow") || !strings.Contains(err.Error(), "`total`") {
		t.Errorf("error = %v, want an overflow of total", err)
	}
	// The failed batch has not happened, and the sum may leave the range in
	// between.
	want = []string{fmt.Sprintf("a %d 5", int64(math.MaxInt64))}
	transient := arrowtest.JSONBatch(t, mem, amountSchema, row(math.MaxInt64), row(math.MaxInt64), row(-math.MaxInt64), row(-math.MaxInt64))
	if diff := cmp.Diff(want, processRows(t, operator, transient)); diff != "" {
		t.Errorf("transient overflow mismatch (-want +got):\n%s", diff)
	}

	narrow := arrowtest.Fields("k", int64Type, "v", arrow.PrimitiveTypes.Int8, "u", arrow.PrimitiveTypes.Uint64)
	batch := arrowtest.JSONBatch(t, mem, narrow, `{"k":1,"v":100,"u":18446744073709551615}`, `{"k":1,"v":28,"u":0}`)
	if _, err := tryRows(GroupBy(mem, []string{"k"}, Aggregation{InputColumn: "v", OutputColumn: "s", Function: Sum}), batch); err == nil || !strings.Contains(err.Error(), "integer overflow: 128 does not fit int8") {
		t.Errorf("error = %v, want 128 not to fit", err)
	}
	wide := GroupBy(mem, []string{"k"},
		Aggregation{InputColumn: "v", OutputColumn: "s", Function: Sum, OutputType: int64Type},
		Aggregation{InputColumn: "u", OutputColumn: "u", Function: Sum})
	if diff := cmp.Diff([]string{"1 128 18446744073709551615"}, processRows(t, wide, batch)); diff != "" {
		t.Errorf("wide output mismatch (-want +got):\n%s", diff)
	}
	if _, err := tryRows(wide, batch); err == nil || !strings.Contains(err.Error(), "36893488147419103230 does not fit uint64") {
		t.Errorf("error = %v, want an overflow of uint64", err)
	}
}

func TestAggregatesOfEveryKind(t *testing.T) {
	mem := newAllocator(t)
	all := func(column string) []Aggregation {
		return []Aggregation{
			{InputColumn: column, OutputColumn: "sum", Function: Sum},
			{InputColumn: column, OutputColumn: "min", Function: Min},
			{InputColumn: column, OutputColumn: "max", Function: Max},
		}
	}
	extremes := func(column string) []Aggregation { return all(column)[1:] }
	for name, test := range map[string]struct {
		dt           arrow.DataType
		values       []string // JSON
		aggregations []Aggregation
		want         string
	}{
		"int32":      {arrow.PrimitiveTypes.Int32, []string{"3", "null", "-5", "1"}, all("v"), "-1 -5 3"},
		"uint16":     {arrow.PrimitiveTypes.Uint16, []string{"65535", "0"}, all("v"), "65535 0 65535"},
		"uint64":     {arrow.PrimitiveTypes.Uint64, []string{"9223372036854775808", "1"}, all("v"), "9223372036854775809 1 9223372036854775808"},
		"float64":    {arrow.PrimitiveTypes.Float64, []string{"1.5", "-2.25", "null"}, all("v"), "-0.75 -2.25 1.5"},
		"float32":    {arrow.PrimitiveTypes.Float32, []string{"1.5", "-2.25"}, all("v"), "-0.75 -2.25 1.5"},
		"boolean":    {arrow.FixedWidthTypes.Boolean, []string{"true", "false", "true"}, extremes("v"), "false true"},
		"text":       {textType, []string{`"b"`, `"ab"`, `""`, "null"}, extremes("v"), " b"},
		"large text": {arrow.BinaryTypes.LargeString, []string{`"b"`, `"ab"`}, extremes("v"), "ab b"},
		"text view":  {arrow.BinaryTypes.StringView, []string{`"b"`, `"a long text that is not kept in place"`}, extremes("v"), "a long text that is not kept in place b"},
		"bytes":      {arrow.BinaryTypes.Binary, []string{`"Ag=="`, `"/w=="`}, extremes("v"), "Ag== /w=="},
		"fixed":      {&arrow.FixedSizeBinaryType{ByteWidth: 2}, []string{`"AgA="`, `"AQE="`}, extremes("v"), "AQE= AgA="},
		"date":       {arrow.FixedWidthTypes.Date32, []string{`"1970-01-03"`, `"1970-01-02"`}, all("v"), "1970-01-04 1970-01-02 1970-01-03"},
		"decimal":    {&arrow.Decimal128Type{Precision: 10, Scale: 2}, []string{`"1.25"`, `"-3.50"`, "null"}, all("v"), "-2.25 -3.5 1.25"},
		"decimal256": {&arrow.Decimal256Type{Precision: 60, Scale: 1}, []string{`"100000000000000000000000000000000000000000.5"`, `"1.0"`}, all("v"),
			"100000000000000000000000000000000000000001.5 1 100000000000000000000000000000000000000000.5"},
		"dictionary": {&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: textType}, []string{`"b"`, `"a"`, `"b"`, "null"}, extremes("v"), "a b"},
		"all null":   {int64Type, []string{"null", "null"}, all("v"), "(null) (null) (null)"},
		"null type":  {arrow.Null, []string{"null"}, all("v"), "(null) (null) (null)"},
		"digits":     {textType, []string{`"12"`, `"-2"`, `"+1"`}, []Aggregation{{InputColumn: "v", OutputColumn: "s", Function: Sum, OutputType: int64Type}}, "11"},
		"truths":     {arrow.FixedWidthTypes.Boolean, []string{"true", "true", "false"}, []Aggregation{{InputColumn: "v", OutputColumn: "s", Function: Sum, OutputType: int64Type}}, "2"},
		"int as float": {int64Type, []string{"3", "4"}, []Aggregation{{InputColumn: "v", OutputColumn: "s", Function: Sum, OutputType: arrow.PrimitiveTypes.Float64},
			{InputColumn: "v", OutputColumn: "m", Function: Min, OutputType: textType}}, "7 3"},
	} {
		t.Run(name, func(t *testing.T) {
			schema := arrowtest.Fields("k", int64Type, "v", test.dt)
			// In one batch, and in one batch per value.
			var rows []string
			for _, value := range test.values {
				rows = append(rows, fmt.Sprintf(`{"k":1,"v":%s}`, value))
			}
			operator := GroupBy(mem, []string{"k"}, test.aggregations...)
			want := []string{"1 " + test.want}
			if diff := cmp.Diff(want, processRows(t, operator, arrowtest.JSONBatch(t, mem, schema, rows...))); diff != "" {
				t.Errorf("one batch mismatch (-want +got):\n%s", diff)
			}
			operator = operator.fresh()
			var last []string
			for _, row := range rows {
				last = processRows(t, operator, arrowtest.JSONBatch(t, mem, schema, row))
			}
			if diff := cmp.Diff(want, last); diff != "" {
				t.Errorf("many batches mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFailedBatchTeachesNothing lets a batch fail behind columns that told what
// kind of values they hold, or a larger scale.
func TestFailedBatchTeachesNothing(t *testing.T) {
	mem := newAllocator(t)
	schema := func(key, most arrow.DataType, scale int32) *arrow.Schema {
		return arrowtest.Fields("key", key, "most", most, "price", &arrow.Decimal128Type{Precision: 38, Scale: scale}, "amount", arrow.PrimitiveTypes.Int64)
	}
	operator := GroupBy(mem, []string{"key"},
		Aggregation{InputColumn: "most", OutputColumn: "most", Function: Max},
		Aggregation{InputColumn: "price", OutputColumn: "price", Function: Sum},
		Aggregation{InputColumn: "amount", OutputColumn: "amount", Function: Sum})
	processRows(t, operator, arrowtest.JSONBatch(t, mem, schema(arrow.Null, arrow.Null, 2), `{"key":null,"most":null,"price":"1.25","amount":1}`))
	before := must[[]byte](t)(operator.Snapshot())

	failing := arrowtest.JSONBatch(t, mem, schema(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64, 30),
		`{"key":null,"most":1.5,"price":"0.5","amount":1}`, `{"key":7,"most":2.5,"price":"2","amount":9223372036854775807}`,
		`{"key":7,"most":null,"price":null,"amount":1}`)
	if _, err := tryRows(operator, failing); err == nil || !strings.Contains(err.Error(), "overflow") {
		t.Fatalf("Process = %v, want an overflow", err)
	}
	if diff := cmp.Diff(before, must[[]byte](t)(operator.Snapshot())); diff != "" {
		t.Errorf("state mismatch behind the failed batch (-want +got):\n%s", diff)
	}
	texts := arrowtest.JSONBatch(t, mem, schema(arrow.BinaryTypes.String, arrow.BinaryTypes.String, 2),
		`{"key":"a","most":"x","price":"1","amount":2}`, `{"key":null,"most":"y","price":"0.5","amount":3}`)
	if diff := cmp.Diff([]string{"(null) y 1.75 4", "a x 1 2"}, processRows(t, operator, texts)); diff != "" {
		t.Errorf("result mismatch (-want +got):\n%s", diff)
	}
}

// TestSumOfLongTexts adds integers that are larger than any integer column
// holds.
func TestSumOfLongTexts(t *testing.T) {
	mem := newAllocator(t)
	schema := arrowtest.Fields("key", arrow.BinaryTypes.String, "n", arrow.BinaryTypes.String)
	large := strings.Repeat("2", 38)
	for _, test := range []struct {
		name, want string
		values     []string
	}{
		{"transient", "a " + large, []string{large, "-" + large, large}},
		{"positive", "overflow", []string{large, large}},
		{"negative", "overflow", []string{"-" + large, "-" + large}},
	} {
		t.Run(test.name, func(t *testing.T) {
			operator := GroupBy(mem, []string{"key"}, Aggregation{InputColumn: "n", OutputColumn: "sum", Function: Sum})
			var got string
			for _, value := range test.values {
				rows, err := tryRows(operator, arrowtest.JSONBatch(t, mem, schema, fmt.Sprintf(`{"key":"a","n":%q}`, value)))
				if got = strings.Join(rows, ";"); err != nil {
					got = err.Error()
				}
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("sum = %s, want %s", got, test.want)
			}
		})
	}
}

// TestGroupByRefusesAnotherUnitOfTime changes the unit of a column between
// batches.
func TestGroupByRefusesAnotherUnitOfTime(t *testing.T) {
	mem := newAllocator(t)
	schema := func(key, latest, counted arrow.DataType) *arrow.Schema {
		return arrowtest.Fields("key", key, "latest", latest, "counted", counted)
	}
	seconds, millis := arrow.FixedWidthTypes.Timestamp_s, arrow.FixedWidthTypes.Timestamp_ms
	row := `{"key":"1970-01-01T00:00:07Z","latest":"1970-01-01T00:00:09Z","counted":"1970-01-01T00:00:01Z"}`
	for name, test := range map[string]struct {
		key, latest, counted arrow.DataType
		want                 string
	}{
		"key":     {millis, seconds, seconds, "columnar: column `key`: the column is of type timestamp[ms, tz=UTC], but the state holds values of type timestamp[s, tz=UTC]"},
		"maximum": {seconds, millis, seconds, "columnar: column `latest`: the column is of type timestamp[ms, tz=UTC], but the state holds values of type timestamp[s, tz=UTC]"},
		"count":   {seconds, seconds, millis, ""},
		"zone":    {&arrow.TimestampType{Unit: arrow.Second, TimeZone: "Asia/Tokyo"}, seconds, seconds, ""},
	} {
		t.Run(name, func(t *testing.T) {
			operator := GroupBy(mem, []string{"key"}, Aggregation{InputColumn: "latest", OutputColumn: "latest", Function: Max},
				Aggregation{InputColumn: "counted", OutputColumn: "count", Function: Count})
			processRows(t, operator, arrowtest.JSONBatch(t, mem, schema(seconds, seconds, seconds), row))
			restored := operator.fresh()
			if err := restored.Restore(must[[]byte](t)(operator.Snapshot())); err != nil {
				t.Fatal(err)
			}
			for _, operator := range []*BuiltinOp{operator, restored} {
				rows, err := tryRows(operator, arrowtest.JSONBatch(t, mem, schema(test.key, test.latest, test.counted), row))
				if got := fmt.Sprint(err); err != nil && got != test.want || err == nil && (test.want != "" || !strings.HasSuffix(rows[0], " 2")) {
					t.Errorf("Process = %v, %v, want error %q", rows, err, test.want)
				}
			}
		})
	}
}

// TestGroupByDictionariesOfEveryType groups by columns whose dictionaries Arrow
// cannot build, and by more values than an index can tell apart.
func TestGroupByDictionariesOfEveryType(t *testing.T) {
	mem := newAllocator(t)
	rnd := arrowtest.NewRand(t)
	for _, values := range []arrow.DataType{
		arrow.BinaryTypes.LargeString, arrow.FixedWidthTypes.Boolean, arrow.BinaryTypes.StringView, arrow.ListOf(arrow.PrimitiveTypes.Int32),
	} {
		dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: values}
		plain := arrowtest.RandomArray(rnd, mem, values, 40)
		plain.Retain()
		keys := must[arrow.Array](t)(arrays.Dress(mem, plain, dt))
		batch := array.NewRecordBatch(arrowtest.Fields("k", dt), []arrow.Array{keys}, 40)
		twin := array.NewRecordBatch(arrowtest.Fields("k", values), []arrow.Array{plain}, 40)
		count := Aggregation{OutputColumn: "n", Function: Count}
		want := processRows(t, GroupBy(mem, []string{"k"}, count), twin)
		if diff := cmp.Diff(want, processRows(t, GroupBy(mem, []string{"k"}, count), batch)); diff != "" {
			t.Errorf("%s mismatch (-want +got):\n%s", dt, diff)
		}
		keys.Release()
		plain.Release()
		batch.Release()
		twin.Release()
	}
	narrow := arrowtest.Fields("k", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String})
	operator := GroupBy(mem, []string{"k"})
	for first := range 2 {
		var rows []string
		for i := range 100 {
			rows = append(rows, fmt.Sprintf(`{"k":"%d"}`, first*100+i))
		}
		_, err := tryRows(operator, arrowtest.JSONBatch(t, mem, narrow, rows...))
		if got, want := fmt.Sprint(err), "columnar: column `k`: 200 distinct values do not fit dictionary<values=utf8, indices=int8, ordered=false>"; first == 1 && got != want {
			t.Errorf("Process = %s, want %s", got, want)
		}
	}
}

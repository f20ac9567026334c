// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

// valuesModel is the values of a column that each group has seen, as JSON.
type valuesModel struct {
	order []string
	seen  map[string][]string
}

func (m *valuesModel) clone() *valuesModel {
	c := &valuesModel{slices.Clone(m.order), map[string][]string{}}
	for key, values := range m.seen {
		c.seen[key] = slices.Clone(values)
	}
	return c
}

func (m *valuesModel) add(key, value string) {
	if _, known := m.seen[key]; !known {
		m.order = append(m.order, key)
		m.seen[key] = nil
	}
	if value != "null" {
		m.seen[key] = append(m.seen[key], value)
	}
}

// rows returns what functions give of the values of each group.
func (m *valuesModel) rows(functions []Function) []string {
	var rows []string
	for _, key := range m.order {
		row := key
		for _, function := range functions {
			row += " " + modelOf(function, m.seen[key])
		}
		rows = append(rows, row)
	}
	return rows
}

func modelOf(function Function, values []string) string {
	if function == CountValues {
		return strconv.Itoa(len(values))
	}
	if len(values) == 0 {
		return "(null)"
	}
	switch function {
	case First:
		return strings.Trim(values[0], `"`)
	case Last:
		return strings.Trim(values[len(values)-1], `"`)
	case AllTrue:
		return strconv.FormatBool(!slices.Contains(values, "false"))
	case AnyTrue:
		return strconv.FormatBool(slices.Contains(values, "true"))
	}
	sum := new(big.Rat)
	for _, value := range values {
		number, _ := new(big.Rat).SetString(value)
		sum.Add(sum, number)
	}
	mean, _ := sum.Quo(sum, big.NewRat(int64(len(values)), 1)).Float64()
	return strconv.FormatFloat(mean, 'g', -1, 64)
}

// TestAggregatesAgreeWithTheValues runs random values of each type through the
// aggregates that take it, with commits, rollbacks and restores between the batches.
func TestAggregatesAgreeWithTheValues(t *testing.T) {
	r := arrowtest.NewRand(t)
	every := []Function{CountValues, First, Last}
	numbers := append([]Function{Avg}, every...)
	for _, column := range []struct {
		dt        arrow.DataType
		functions []Function
		value     func() string
	}{
		{arrow.PrimitiveTypes.Int8, numbers, func() string { return strconv.Itoa(r.IntN(256) - 128) }},
		{int64Type, numbers, func() string { return strconv.FormatInt(int64(r.Uint64()), 10) }},
		{arrow.PrimitiveTypes.Uint64, numbers, func() string { return strconv.FormatUint(r.Uint64(), 10) }},
		// Halves have exact sums in any order.
		{arrow.PrimitiveTypes.Float64, numbers, func() string { return strconv.FormatFloat(float64(r.IntN(2000)-1000)/2, 'f', -1, 64) }},
		{arrow.PrimitiveTypes.Float32, numbers, func() string { return strconv.FormatFloat(float64(r.IntN(2000)-1000)/2, 'f', -1, 64) }},
		{&arrow.Decimal128Type{Precision: 9, Scale: 2}, numbers, func() string { return fmt.Sprintf("%d.%d%d", r.IntN(2000)-1000, r.IntN(10), 1+r.IntN(9)) }},
		{textType, every, func() string { return strconv.Quote(string(rune('a' + r.IntN(26)))) }},
		{arrow.FixedWidthTypes.Boolean, append([]Function{AllTrue, AnyTrue}, every...), func() string { return strconv.FormatBool(r.IntN(3) > 0) }},
	} {
		mem := arrowtest.NewAllocator(t)
		spec := Spec{Keys: []string{"k"}}
		for _, function := range column.functions {
			spec.Aggregations = append(spec.Aggregations, Aggregation{Function: function, InputColumn: "v", OutputColumn: function.String()})
		}
		spec = spec.WithDefaults()
		g := New(mem, spec)
		model := &valuesModel{seen: map[string][]string{}}
		committed := model.clone()
		for step := range 60 {
			switch r.IntN(6) {
			case 0:
				g.Commit()
				committed = model.clone()
			case 1:
				if err := g.Rollback(); err != nil {
					t.Fatal(err)
				}
				model = committed.clone()
			case 2:
				snapshot := must[[]byte](t)(g.Snapshot())
				g = New(mem, spec)
				if err := g.Restore(snapshot); err != nil {
					t.Fatal(err)
				}
				g.Commit()
				committed = model.clone()
			default:
				dt, rows := column.dt, make([]string, r.IntN(8))
				if r.IntN(5) == 0 {
					dt = arrow.Null
				}
				for i := range rows {
					key, value := string(rune('p'+r.IntN(4))), "null"
					if dt != arrow.Null && r.IntN(4) > 0 {
						value = column.value()
					}
					model.add(key, value)
					rows[i] = fmt.Sprintf(`{"k":%q,"v":%s}`, key, value)
				}
				result, err := g.Process(arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", textType, "v", dt), rows...))
				if err != nil {
					t.Fatalf("%s, step %d: %v", column.dt, step, err)
				}
				got := arrowtest.Rows(result)
				result.Release()
				if diff := cmp.Diff(model.rows(column.functions), got, cmp.Transformer("nonNil", nonNil)); diff != "" {
					t.Fatalf("%s, step %d mismatch (-want +got):\n%s", column.dt, step, diff)
				}
			}
		}
	}
}

func TestAggregatesRefuseColumns(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	list := arrow.ListOf(int64Type)
	for _, test := range []struct {
		function Function
		dt       arrow.DataType
		want     string
	}{
		{Avg, textType, "cannot average values of type utf8, which are no numbers"},
		{Avg, arrow.FixedWidthTypes.Timestamp_ms, "cannot average values of type timestamp[ms, tz=UTC], which are no numbers"},
		{First, list, "cannot keep the first value of a column of type list<item: int64, nullable>"},
		{Last, list, "cannot keep the last value of a column of type list<item: int64, nullable>"},
		{AllTrue, int64Type, "all_true takes Booleans, not int64"},
		{AnyTrue, textType, "any_true takes Booleans, not utf8"},
	} {
		g := newAtomic(mem, Spec{Keys: []string{"k"}, Aggregations: []Aggregation{{Function: test.function, InputColumn: "v", OutputColumn: "x"}}})
		_, err := g.tryRows(arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type, "v", test.dt), `{"k":1}`))
		if want := "columnar: column `v`: " + test.want; err == nil || err.Error() != want {
			t.Errorf("%v of %s: %v, want %s", test.function, test.dt, err, want)
		}
	}
}

// The nulls of a union lie in its children, and count as nulls all the same.
func TestCountValuesOfAUnion(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	union := arrow.SparseUnionOf([]arrow.Field{{Name: "n", Type: int64Type, Nullable: true}}, []arrow.UnionTypeCode{0})
	g := newAtomic(mem, Spec{Keys: []string{"k"}, Aggregations: []Aggregation{
		{Function: CountValues, InputColumn: "u", OutputColumn: "values"}, {Function: Count, OutputColumn: "rows"},
	}})
	got := g.rows(t, arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type, "u", union), `{"k":1,"u":[0,7]}`, `{"k":1,"u":[0,null]}`, `{"k":1,"u":[0,8]}`))
	if diff := cmp.Diff([]string{"1 2 3"}, got); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
}

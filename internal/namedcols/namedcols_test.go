// SPDX-License-Identifier: Apache-2.0

package namedcols_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

func schemaOf(names ...string) *arrow.Schema {
	fields := make([]arrow.Field, len(names))
	for i, name := range names {
		fields[i] = arrow.Field{Name: name, Type: arrow.Null, Nullable: true}
	}
	return arrow.NewSchema(fields, nil)
}

func TestTheFirstOfEqualNamesIsFound(t *testing.T) {
	schema := schemaOf("a", "b", "b")
	if got := []int{namedcols.First(schema, "b"), namedcols.First(schema, "c")}; !cmp.Equal(got, []int{1, -1}) {
		t.Errorf("columns b and c are at %d, want 1 and -1", got)
	}
	if i, err := namedcols.Index(schema, "b"); i != 1 || err != nil {
		t.Errorf("index of b = %d, %v; want 1", i, err)
	}
	columns := []arrow.Array{array.NewNull(2), array.NewNull(2), array.NewNull(2)}
	batch := array.NewRecordBatch(schema, columns, 2)
	defer batch.Release()
	if namedcols.Column(batch, "b") != columns[1] || namedcols.Column(batch, "c") != nil {
		t.Error("the column b is not the first of that name, or there is a column c")
	}
}

func TestErrorsNameTheColumn(t *testing.T) {
	cause := errors.New("columnar: value is odd")
	var found *namedcols.Error
	for want, err := range map[string]error{
		"columnar: column `a`: Arrow column does not exist: a (the columns are b, c)": namedcols.Missing(schemaOf("b", "c"), "a"),
		"columnar: column `a`: key is not there: a (the columns are none)":            namedcols.MissingText(schemaOf(), "key is not there: %s", "a"),
		"columnar: column `a`: value is odd, whatever its row is":                     namedcols.Failure("a", namedcols.WrongType(errors.New("value is odd, whatever its row is"))),
		"columnar: column `a`: value is odd":                                          namedcols.Failure("a", cause),
		"columnar: column `a`, row 3: value is odd":                                   namedcols.Failure("a", namedcols.AtRow(3, cause)),
		"columnar: column `b`: column `a`, row 3: value is odd":                       namedcols.Failure("b", namedcols.Failure("a", namedcols.AtRow(3, cause))),
		"columnar: column `a`: cannot read: columnar value is odd":                    namedcols.Failure("a", errors.New("cannot read: columnar value is odd")),
	} {
		if err.Error() != want || !errors.As(err, &found) {
			t.Errorf("error = %q, want %q", err, want)
		}
	}
	if _, err := namedcols.Index(schemaOf("a"), "b"); !errors.Is(err, namedcols.ErrMissing) || !errors.As(err, &found) || found.Row != namedcols.NoRow {
		t.Errorf("error of a missing column = %#v, want ErrMissing without a row", err)
	}
	if err := namedcols.Failure("a", namedcols.AtRow(3, cause)); !errors.Is(err, cause) || !errors.As(err, &found) || found.Row != 3 || found.Column != "a" {
		t.Errorf("error = %#v, want one of row 3 that wraps its cause", err)
	}
}

func TestMissingColumnsListAtMostThirtyTwo(t *testing.T) {
	names := make([]string, 34)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i)
	}
	_, err := namedcols.Index(schemaOf(names...), "a")
	if want := ", c31 and 2 more)"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error = %q, want it to end with %q", err, want)
	}
}

func TestWrongTypesAreToldFromValues(t *testing.T) {
	cause := errors.New("text")
	wrong := namedcols.Failure("a", namedcols.WrongType(cause))
	if !errors.Is(wrong, namedcols.ErrType) || !errors.Is(wrong, cause) || errors.Is(namedcols.Failure("a", cause), namedcols.ErrType) {
		t.Errorf("%v is not an error of the type that wraps its cause, or every error is one", wrong)
	}
	if namedcols.WrongType(nil) != nil {
		t.Error("no error became one")
	}
}

func TestSameSchema(t *testing.T) {
	one, again, other := schemaOf("a"), schemaOf("a"), schemaOf("b")
	if !namedcols.SameSchema(one, one) || !namedcols.SameSchema(one, again) || !namedcols.SameSchema(nil, nil) {
		t.Error("equal schemas are told apart")
	}
	if namedcols.SameSchema(one, other) || namedcols.SameSchema(one, nil) || namedcols.SameSchema(nil, one) {
		t.Error("different schemas count as the same")
	}
}

// TestPutReplacesAndAppends puts a column in the place of one of that name and
// another behind all.
func TestPutReplacesAndAppends(t *testing.T) {
	batch := array.NewRecordBatch(schemaOf("a", "b"), []arrow.Array{array.NewNull(2), array.NewNull(2)}, 2)
	defer batch.Release()
	fields := []arrow.Field{{Name: "c", Type: arrow.Null}, {Name: "a", Type: arrow.Null}}
	added := []arrow.Array{array.NewNull(2), array.NewNull(2)}
	result := namedcols.Put(batch, fields, added, nil)
	defer result.Release()
	if got := []string{result.ColumnName(0), result.ColumnName(1), result.ColumnName(2)}; !cmp.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("columns are %v, want a, b, c", got)
	}
	if result.Column(0) != added[1] || result.Column(1) != batch.Column(1) || result.Column(2) != added[0] {
		t.Error("the columns do not stand under their names")
	}
	again := namedcols.Put(batch, fields, added, result.Schema())
	defer again.Release()
	if again.Schema() != result.Schema() {
		t.Error("a schema that fits is not used again")
	}
}

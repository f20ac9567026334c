// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// Explode returns an operator that makes a row of each element of the lists of a
// column, in their order: the column becomes one of elements, in its place, and the
// other columns, metadata among them, are repeated. A row whose list is null or empty
// gives no row, and so does a tombstone. The column is a list of any Arrow type, or a
// map, whose elements are structs of key and value.
func Explode(mem memory.Allocator, column string) *BuiltinOp {
	return newOperator("explode "+column, "", func() kernel { return &explosion{mem: mem, column: column} })
}

type explosion struct {
	mem    memory.Allocator
	column string
	// source is the schema that the others were made for: the one without the column,
	// and the one with its elements.
	source, others, target *arrow.Schema
	at                     int

	rows, elements []int32 // scratch
}

func (e *explosion) reads(results columnNeeds) columnNeeds { return results.and(e.column) }

func (e *explosion) Process(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	if err := e.bind(batch.Schema()); err != nil {
		return nil, err
	}
	plain, err := arrays.Plain(e.mem, batch.Column(e.at))
	if err != nil {
		return nil, namedcols.Failure(e.column, err)
	}
	defer plain.Release()
	lists := plain.(array.ListLike)
	if err := e.spread(lists); err != nil {
		return nil, namedcols.Failure(e.column, err)
	}
	// The lists stay out of it: each would be copied once for each of its elements.
	rest := array.NewRecordBatch(e.others, slices.Delete(slices.Clone(batch.Columns()), e.at, e.at+1), batch.NumRows())
	defer rest.Release()
	taken, err := arrays.GatherBatch(e.mem, rest, e.rows)
	if err != nil {
		return nil, err
	}
	defer taken.Release()
	elements, err := arrays.Gather(e.mem, lists.ListValues(), e.elements)
	if err != nil {
		return nil, namedcols.Failure(e.column, err)
	}
	defer elements.Release()
	return array.NewRecordBatch(e.target, slices.Insert(slices.Clone(taken.Columns()), e.at, elements), int64(len(e.rows))), nil
}

// spread finds the rows and the elements of lists.
func (e *explosion) spread(lists array.ListLike) error {
	e.rows, e.elements = e.rows[:0], e.elements[:0]
	for row := range lists.Len() {
		if lists.IsNull(row) {
			continue
		}
		start, end := lists.ValueOffsets(row)
		if end > math.MaxInt32 || int64(len(e.rows))+end-start > math.MaxInt32 {
			return namedcols.AtRow(row, fmt.Errorf("the elements do not fit one batch of %d rows", math.MaxInt32))
		}
		for element := start; element < end; element++ {
			e.rows, e.elements = append(e.rows, int32(row)), append(e.elements, int32(element))
		}
	}
	return nil
}

func (e *explosion) bind(schema *arrow.Schema) error {
	if namedcols.SameSchema(e.source, schema) {
		return nil
	}
	at, err := namedcols.Index(schema, e.column)
	if err != nil {
		return err
	}
	field, fields := schema.Field(at), schema.Fields()
	lists, ok := arrays.PlainType(field.Type).(arrow.ListLikeType)
	if !ok {
		return namedcols.Failure(e.column, fmt.Errorf("a column of type %s has no elements: only lists and maps are exploded", field.Type))
	}
	element := lists.ElemField()
	element.Name = field.Name
	metadata := schema.Metadata()
	e.source, e.at = schema, at
	e.others = arrow.NewSchema(slices.Delete(schema.Fields(), at, at+1), &metadata)
	fields[at] = element
	e.target = arrow.NewSchema(fields, &metadata)
	return nil
}

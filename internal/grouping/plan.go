// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/eventtime"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// columnPlan is how a group-by reads batches of one schema, and what comes out.
type columnPlan struct {
	schema *arrow.Schema // of the batches
	keys   []int         // columns of the batch
	inputs []int         // columns of the batch; -1 for a count of rows
	time   int           // column of the batch, or -1
	known  *arrow.Schema // of the batches, in types that take what is held
	needed *arrow.Schema // the columns of known that are read
	output *arrow.Schema
}

// newColumnPlan plans batches of a schema beside groups whose columns have the types of
// held, which may be nil.
func newColumnPlan(spec *Spec, schema, held *arrow.Schema) (*columnPlan, error) {
	plan := &columnPlan{schema: schema, known: widened(schema, held), time: -1}
	output, err := plan.findKeys(spec)
	if err != nil {
		return nil, err
	}
	if spec.Windowed {
		if !spec.Timed && (schema.HasField(WindowStart) || schema.HasField(WindowEnd)) {
			return nil, errors.New("window output column already exists")
		}
		output = append(output,
			arrow.Field{Name: WindowStart, Type: arrow.PrimitiveTypes.Int64},
			arrow.Field{Name: WindowEnd, Type: arrow.PrimitiveTypes.Int64})
	}
	for _, aggregation := range spec.Aggregations {
		column, input := -1, arrow.Field{Type: arrow.Null}
		if aggregation.Function != Count || aggregation.InputColumn != "" {
			if column, err = namedcols.Index(schema, aggregation.InputColumn); err != nil {
				return nil, err
			}
			input = plan.known.Field(column)
		}
		plan.inputs = append(plan.inputs, column)
		output = append(output, aggregation.outputField(input))
	}
	if err := plan.findTime(spec); err != nil {
		return nil, err
	}
	if spec.showsTime() {
		output = append(output, arrow.Field{Name: metacols.Timestamp, Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	}
	plan.output = arrow.NewSchema(output, nil)
	plan.needed = plan.neededColumns()
	return plan, nil
}

// findKeys finds the key columns and returns their fields.
func (p *columnPlan) findKeys(spec *Spec) ([]arrow.Field, error) {
	var fields []arrow.Field
	for _, name := range spec.Keys {
		column, err := namedcols.Index(p.schema, name)
		if err != nil {
			return nil, err
		}
		p.keys = append(p.keys, column)
		fields = append(fields, p.known.Field(column))
	}
	return fields, nil
}

// findTime finds the column of event time, which windows need. Without windows, a batch
// may lack the timestamp of records, but not a column that was named.
func (p *columnPlan) findTime(spec *Spec) error {
	if !spec.Windowed && !spec.Timed {
		return nil
	}
	needed := spec.Windowed || spec.TimeColumn != metacols.Timestamp
	column := namedcols.First(p.schema, spec.TimeColumn)
	switch {
	case column >= 0 && eventtime.Holds(p.schema.Field(column).Type):
		p.time = column
	case column >= 0 && needed:
		return namedcols.Failure(spec.TimeColumn, fmt.Errorf("an event time is int64 (milliseconds) or a timestamp, not %s", p.schema.Field(column).Type))
	case needed:
		return namedcols.Missing(p.schema, spec.TimeColumn)
	}
	return nil
}

func (p *columnPlan) neededColumns() *arrow.Schema {
	columns := slices.Concat(p.keys, p.inputs, []int{p.time})
	slices.Sort(columns)
	var fields []arrow.Field
	for _, column := range slices.Compact(columns) {
		if column >= 0 {
			fields = append(fields, p.known.Field(column))
		}
	}
	return arrow.NewSchema(fields, nil)
}

// rowInput is what a group-by reads of one batch: plain arrays that it owns.
type rowInput struct {
	rows   int
	keys   []arrow.Array
	inputs []arrow.Array   // nil for a count of rows
	times  []int64         // nil without event time
	noTime arrays.Validity // of times
}

// read takes the columns of batch. What it owns must be released also when it
// fails.
func (in *rowInput) read(mem memory.Allocator, batch arrow.RecordBatch, plan *columnPlan, windowed bool, unit time.Duration, scratch *[]int64) error {
	in.rows = int(batch.NumRows())
	take := func(column int) (arrow.Array, error) {
		if column < 0 {
			return nil, nil
		}
		arr, err := arrays.Plain(mem, batch.Column(column))
		if err != nil {
			return nil, namedcols.Failure(batch.ColumnName(column), err)
		}
		return arr, nil
	}
	for _, column := range plan.keys {
		arr, err := take(column)
		if err != nil {
			return err
		}
		in.keys = append(in.keys, arr)
	}
	for _, column := range plan.inputs {
		arr, err := take(column)
		if err != nil {
			return err
		}
		in.inputs = append(in.inputs, arr)
	}
	if plan.time < 0 {
		return nil
	}
	column := batch.Column(plan.time)
	if windowed {
		if err := eventtime.Require(column); err != nil {
			return namedcols.Failure(batch.ColumnName(plan.time), err)
		}
	}
	var err error
	if in.times, err = eventtime.Millis(column, unit, scratch); err != nil {
		return namedcols.Failure(batch.ColumnName(plan.time), err)
	}
	in.noTime = arrays.ValidityOf(column)
	return nil
}

// keepRows leaves only the given rows, which are ascending and may repeat.
func (in *rowInput) keepRows(mem memory.Allocator, rows []int32) error {
	for _, columns := range [][]arrow.Array{in.keys, in.inputs} {
		for i, arr := range columns {
			if arr == nil {
				continue
			}
			taken, err := arrays.Gather(mem, arr, rows)
			if err != nil {
				return err
			}
			arr.Release()
			columns[i] = taken
		}
	}
	times := make([]int64, len(rows))
	for i, row := range rows {
		times[i] = in.times[row]
	}
	in.times, in.rows = times, len(rows)
	return nil
}

func (in *rowInput) release() {
	arrays.Release(in.keys)
	arrays.Release(in.inputs)
}

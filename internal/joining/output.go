// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// rowPairs are the rows of pairs, by side.
type rowPairs [2][]uint32

// results collects the pairs of a run and makes batches of them.
type results struct {
	mem   memory.Allocator
	pairs rowPairs
	// schemas are the schemas of results, by those of the sides.
	schemas map[[2]*arrow.Schema]*arrow.Schema
}

func (r *results) clear() { r.pairs[0], r.pairs[1] = r.pairs[0][:0], r.pairs[1][:0] }

// batches returns the pairs as batches that the caller owns: one, unless the
// schema of a side has changed.
func (r *results) batches(sides [2]*sideRows) (batches []arrow.RecordBatch, err error) {
	if len(r.pairs[0]) == 0 {
		return nil, nil
	}
	finished := false
	defer func() {
		if !finished {
			arrays.Release(batches)
		}
	}()
	for _, pairs := range r.splitBySchema(sides) {
		batch, err := r.batch(sides, pairs)
		if err != nil {
			return batches, err
		}
		batches = append(batches, batch)
	}
	finished = true
	return batches, nil
}

// splitBySchema returns the pairs in sets whose rows have one schema a side, in
// the order in which the sets begin.
func (r *results) splitBySchema(sides [2]*sideRows) []rowPairs {
	if sides[0].oneSchema() && sides[1].oneSchema() {
		return []rowPairs{r.pairs}
	}
	var sets []rowPairs
	index := make(map[[2]*arrow.Schema]int)
	for i, left := range r.pairs[0] {
		right := r.pairs[1][i]
		schemas := [2]*arrow.Schema{sides[0].schemaOf(left), sides[1].schemaOf(right)}
		set, ok := index[schemas]
		if !ok {
			set = len(sets)
			index[schemas] = set
			sets = append(sets, rowPairs{})
		}
		sets[set][0], sets[set][1] = append(sets[set][0], left), append(sets[set][1], right)
	}
	return sets
}

func (s *sideRows) oneSchema() bool {
	for _, chunk := range s.chunks {
		if chunk.batch.Schema() != s.chunks[0].batch.Schema() {
			return false
		}
	}
	return true
}

func (s *sideRows) schemaOf(row uint32) *arrow.Schema { return s.chunks[s.chunkOf(row)].batch.Schema() }

// batch returns pairs whose rows have one schema a side.
func (r *results) batch(sides [2]*sideRows, pairs rowPairs) (arrow.RecordBatch, error) {
	left, err := sides[0].gather(r.mem, pairs[0])
	if err != nil {
		return nil, onSide(0, err)
	}
	defer left.Release()
	right, err := sides[1].gather(r.mem, pairs[1])
	if err != nil {
		return nil, onSide(1, err)
	}
	defer right.Release()
	schema, err := r.schemaOf(left.Schema(), right.Schema())
	if err != nil {
		return nil, err
	}
	payload := payloadColumns(left.Schema())
	columns := slices.Concat(left.Columns()[:payload], right.Columns())
	var absent []arrow.Array
	defer func() { arrays.Release(absent) }()
	for _, field := range metadata {
		column := namedcols.Column(left, field.Name)
		if column == nil {
			if column, err = arrays.Nulls(r.mem, field.Type, len(pairs[0])); err != nil {
				return nil, err
			}
			absent = append(absent, column)
		}
		columns = append(columns, column)
	}
	return array.NewRecordBatch(schema, columns, int64(len(pairs[0]))), nil
}

// payloadColumns returns the number of payload columns, which come first.
func payloadColumns(schema *arrow.Schema) int {
	count := 0
	for count < schema.NumFields() && !metacols.IsReserved(schema.Field(count).Name) {
		count++
	}
	return count
}

func (r *results) schemaOf(left, right *arrow.Schema) (*arrow.Schema, error) {
	if schema, ok := r.schemas[[2]*arrow.Schema{left, right}]; ok {
		return schema, nil
	}
	fields := slices.Concat(left.Fields()[:payloadColumns(left)], right.Fields())
	seen := make(map[string]bool, len(fields))
	for _, field := range fields {
		if seen[field.Name] || metacols.IsReserved(field.Name) {
			return nil, &namedcols.Error{Column: field.Name, Row: namedcols.NoRow, Cause: fmt.Errorf("joined Arrow column name collides: %s", field.Name)}
		}
		seen[field.Name] = true
	}
	for _, field := range metadata {
		if column := namedcols.First(left, field.Name); column >= 0 {
			field = left.Field(column)
		}
		fields = append(fields, field)
	}
	schema := arrow.NewSchema(fields, nil)
	if len(r.schemas) > maxSchemas || r.schemas == nil {
		r.schemas = make(map[[2]*arrow.Schema]*arrow.Schema)
	}
	r.schemas[[2]*arrow.Schema{left, right}] = schema
	return schema, nil
}

// maxSchemas bounds the schemas that are kept at hand.
const maxSchemas = 16

// gather returns rows that have one schema, as a batch that the caller owns.
func (s *sideRows) gather(mem memory.Allocator, rows []uint32) (arrow.RecordBatch, error) {
	local := make([][]int32, len(s.chunks)) // rows by chunk
	chunk, place := s.chunkOf(rows[0]), make([]int32, len(rows))
	for i, row := range rows {
		if start := s.chunks[chunk].start; int(row) < start || int(row)-start >= int(s.chunks[chunk].batch.NumRows()) {
			chunk = s.chunkOf(row)
		}
		place[i] = int32(len(local[chunk]))
		local[chunk] = append(local[chunk], int32(int(row)-s.chunks[chunk].start))
	}
	if len(local[chunk]) == len(rows) {
		return arrays.GatherBatch(mem, s.chunks[chunk].batch, local[chunk])
	}
	// The rows of each batch, one after the other, and then in order.
	var parts []arrow.RecordBatch
	defer func() { arrays.Release(parts) }()
	starts, total := make([]int32, len(s.chunks)), int32(0)
	for i, rows := range local {
		starts[i] = total
		if len(rows) == 0 {
			continue
		}
		part, err := arrays.GatherBatch(mem, s.chunks[i].batch, rows)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		total += int32(len(rows))
	}
	for i, row := range rows {
		place[i] += starts[s.chunkOf(row)]
	}
	joined, err := arrays.ConcatBatches(mem, parts)
	if err != nil {
		return nil, err
	}
	defer joined.Release()
	return arrays.GatherBatch(mem, joined, place)
}

// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/errtext"
	"github.com/krabka-io/krabka-streams-go/internal/eventtime"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// stateMemory is where state keeps Arrow data: memory of Go, which needs no
// release, whatever the topology allocates from.
var stateMemory = memory.NewGoAllocator()

// sideRows is the rows that a join keeps of one side, in the order in which
// they came. The columns lie in batches, of which each holds the rows from
// start on.
type sideRows struct {
	prefix        string
	keepsMetadata bool

	rows   []keptRow
	chunks []rowChunk
	time   int64 // the latest timestamp of the side

	committed sideMark

	// source is the schema that columns and stored were made for.
	source  *arrow.Schema
	stored  *arrow.Schema
	columns []int
}

type keptRow struct {
	time int64
	key  uint32
	next uint32 // the next row with the key, or keytable.None
}

type rowChunk struct {
	start int
	batch arrow.RecordBatch
}

// sideMark is what brings a side back to a commit.
type sideMark struct {
	rows, chunks int
	time         int64
}

// append keeps rows of a batch, all of them if rows is nil. The columns that
// results have are copied.
func (s *sideRows) append(batch arrow.RecordBatch, rows []int32, times []int64) error {
	s.bind(batch.Schema())
	var sel arrays.Selection
	sel.Extend(0, int(batch.NumRows()))
	if rows != nil {
		var err error
		if sel, err = arrays.NewSelection(rows, int(batch.NumRows())); err != nil {
			return err
		}
	}
	if len(times) == 0 {
		return nil
	}
	columns := make([]arrow.Array, len(s.columns))
	for i, column := range s.columns {
		copied, err := copiedData(batch.Column(column).Data(), sel)
		if err != nil {
			return namedcols.Failure(batch.ColumnName(column), err)
		}
		columns[i] = array.MakeFromData(copied)
	}
	s.chunks = append(s.chunks, rowChunk{
		start: len(s.rows),
		batch: array.NewRecordBatch(s.stored, columns, int64(len(times))),
	})
	for _, time := range times {
		s.rows = append(s.rows, keptRow{time: time, next: keytable.None})
	}
	return nil
}

// bind finds the columns that are kept: the payload under the names that
// results give it and, for the left side, the metadata.
func (s *sideRows) bind(schema *arrow.Schema) {
	if namedcols.SameSchema(s.source, schema) {
		return
	}
	var fields []arrow.Field
	s.columns = nil
	for i, field := range schema.Fields() {
		if !metacols.IsReserved(field.Name) {
			field = metacols.Restore(field)
			field.Name = s.prefix + field.Name
			fields, s.columns = append(fields, field), append(s.columns, i)
		}
	}
	if s.keepsMetadata {
		for _, field := range metadata {
			if column := namedcols.First(schema, field.Name); column >= 0 {
				fields, s.columns = append(fields, schema.Field(column)), append(s.columns, column)
			}
		}
	}
	s.source, s.stored = schema, s.known(arrow.NewSchema(fields, nil))
}

// known returns the schema object that equal batches of the side have.
func (s *sideRows) known(schema *arrow.Schema) *arrow.Schema {
	for i := len(s.chunks) - 1; i >= 0; i-- {
		if held := s.chunks[i].batch.Schema(); held.Equal(schema) {
			return held
		}
	}
	return schema
}

// typeOf returns the type that a column of the input has in the latest rows that
// are kept, or nil.
func (s *sideRows) typeOf(name string) arrow.DataType {
	if len(s.chunks) == 0 {
		return nil
	}
	schema := s.chunks[len(s.chunks)-1].batch.Schema()
	for _, stored := range []string{s.prefix + name, s.prefix + metacols.Bare(name)} {
		if column := namedcols.First(schema, stored); column >= 0 {
			return arrays.PlainType(schema.Field(column).Type)
		}
	}
	return nil
}

// metadata are the metadata columns of results.
var metadata = metacols.Fields(false)

// copiedData returns the selected rows in memory of the state, dictionaries
// among them.
func copiedData(data arrow.ArrayData, sel arrays.Selection) (arrow.ArrayData, error) {
	taken, err := sel.Take(stateMemory, data, data.Offset())
	if err != nil {
		return nil, err
	}
	return withOwnDictionaries(taken)
}

// withOwnDictionaries replaces the dictionaries of data, which it takes over, by
// copies.
func withOwnDictionaries(data arrow.ArrayData) (arrow.ArrayData, error) {
	dictionary, _ := data.Dictionary().(*array.Data)
	if len(data.Children()) == 0 && dictionary == nil {
		return data, nil
	}
	defer data.Release()
	children := make([]arrow.ArrayData, 0, len(data.Children()))
	defer func() { arrays.Release(children) }()
	for _, child := range data.Children() {
		child.Retain()
		own, err := withOwnDictionaries(child)
		if err != nil {
			return nil, err
		}
		children = append(children, own)
	}
	if dictionary == nil {
		return array.NewData(data.DataType(), data.Len(), data.Buffers(), children, data.NullN(), data.Offset()), nil
	}
	var all arrays.Selection
	all.Extend(0, dictionary.Len())
	copied, err := copiedData(dictionary, all)
	if err != nil {
		return nil, err
	}
	defer copied.Release()
	return array.NewDataWithDictionary(data.DataType(), data.Len(), data.Buffers(), data.NullN(), data.Offset(), copied.(*array.Data)), nil
}

// chunkOf returns the index of the batch that holds a row.
func (s *sideRows) chunkOf(row uint32) int {
	return sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].start > int(row) }) - 1
}

// live returns the rows that may have partners to come, when the other side is
// at time.
func (s *sideRows) live(window, time int64) []uint32 {
	live := make([]uint32, 0, len(s.rows))
	for row := range s.rows {
		if eventtime.Plus(s.rows[row].time, window) >= time {
			live = append(live, uint32(row))
		}
	}
	return live
}

func (s *sideRows) liveRows(window, time int64) int {
	count := 0
	for row := range s.rows {
		if eventtime.Plus(s.rows[row].time, window) >= time {
			count++
		}
	}
	return count
}

// chunksOf returns batches of the given rows, which are ascending.
func (s *sideRows) chunksOf(rows []uint32) ([]rowChunk, error) {
	var chunks []rowChunk
	for at := 0; at < len(rows); {
		// The rows that lie in one batch.
		chunk := s.chunks[s.chunkOf(rows[at])]
		var local []int32
		for end := chunk.start + int(chunk.batch.NumRows()); at+len(local) < len(rows) && int(rows[at+len(local)]) < end; {
			local = append(local, int32(int(rows[at+len(local)])-chunk.start))
		}
		batch, err := arrays.GatherBatch(stateMemory, chunk.batch, local)
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, rowChunk{start: at, batch: batch})
		at += len(local)
	}
	return chunks, nil
}

// keep leaves only the given rows, which are ascending and whose batches are
// chunks. numbers holds the new numbers of keys. The rows are in no list
// afterwards.
func (s *sideRows) keep(rows []uint32, chunks []rowChunk, numbers []uint32) {
	held := make([]keptRow, len(rows), len(rows)+len(rows)/4)
	for i, row := range rows {
		held[i] = keptRow{time: s.rows[row].time, key: numbers[s.rows[row].key], next: keytable.None}
	}
	s.rows, s.chunks = held, chunks
}

// maxMergedRows bounds the batches that come of joining smaller ones.
const maxMergedRows = 1 << 16

// mergeChunks joins the latest batches as long as they are not much smaller
// than the one before, so that a row is copied a few times and few batches are
// left.
func (s *sideRows) mergeChunks() {
	for n := len(s.chunks); n >= 2; n = len(s.chunks) {
		earlier, later := s.chunks[n-2], s.chunks[n-1]
		rows := earlier.batch.NumRows() + later.batch.NumRows()
		if earlier.batch.NumRows() > 2*later.batch.NumRows() || rows > maxMergedRows || earlier.batch.Schema() != later.batch.Schema() {
			return
		}
		merged, err := arrays.ConcatBatches(stateMemory, []arrow.RecordBatch{earlier.batch, later.batch})
		if err != nil {
			// A column of the joined batch would be too large.
			return
		}
		s.chunks = append(s.chunks[:n-2], rowChunk{start: earlier.start, batch: merged})
	}
}

func (s *sideRows) mark() {
	s.committed = sideMark{rows: len(s.rows), chunks: len(s.chunks), time: s.time}
}

func (s *sideRows) rollback() {
	clear(s.chunks[s.committed.chunks:])
	s.rows, s.chunks = s.rows[:s.committed.rows], s.chunks[:s.committed.chunks]
	s.time = s.committed.time
}

// textPrefix begins the texts of errors that a cause may bring along.
const textPrefix errtext.Prefix = "columnar: "

// sideError is an error of one side of a join.
type sideError struct {
	side  int
	cause error
}

func (e *sideError) Error() string {
	return [...]string{"left", "right"}[e.side] + " side: " + textPrefix.Quote(e.cause)
}

func (e *sideError) Unwrap() error { return e.cause }

func onSide(side int, cause error) error { return &sideError{side: side, cause: cause} }

// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// Operator is a group-by in one logical partition: it finds the group of each row, adds the rows to
// the aggregates column by column, and emits groups. It is not safe for concurrent
// use.
type Operator struct {
	mem   memory.Allocator
	spec  *Spec
	state *groupState
	// former is the state before a restore that is not committed.
	former *groupState
	plan   *columnPlan

	// collectLate says that late rows are wanted; lateRows are those of the
	// latest batch.
	collectLate bool
	lateRows    arrow.RecordBatch

	// Scratch.
	ids    []uint32
	groups []uint32
	starts []int64
	millis []int64
	late   []int32
	// spreadRows are the rows of a batch, once for each window.
	spreadRows []int32
}

// New returns an operator without groups. spec has its defaults and no problems, see
// [Spec.WithDefaults] and [Spec.Check]. Results are allocated from mem; state lies in
// memory of Go, so an Operator needs no release.
func New(mem memory.Allocator, spec Spec) *Operator {
	return &Operator{mem: mem, spec: &spec, state: newGroupState(&spec)}
}

// Process adds the rows of a batch and returns the groups that this makes the
// operator emit, in a batch that the caller owns. It does not keep its input. After
// an error, the operator is to be rolled back.
func (g *Operator) Process(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	if err := g.bind(batch.Schema()); err != nil {
		return nil, err
	}
	var in rowInput
	defer in.release()
	if err := in.read(g.mem, batch, g.plan, g.spec.Windowed, g.spec.TimeUnit, &g.millis); err != nil {
		return nil, err
	}
	if g.spec.Windowed {
		if err := g.assignWindows(batch, &in); err != nil {
			return nil, err
		}
	}
	if err := g.addRows(&in); err != nil {
		return nil, err
	}
	return g.emit(g.emitted())
}

// bind makes a plan for batches of a schema.
func (g *Operator) bind(schema *arrow.Schema) error {
	if g.plan != nil && namedcols.SameSchema(g.plan.schema, schema) {
		return nil
	}
	held := g.state.schema
	if g.state.table.Groups == 0 {
		held = nil
	}
	plan, err := newColumnPlan(g.spec, schema, held)
	if err != nil {
		return err
	}
	for i, column := range plan.keys {
		if err := g.state.acceptKey(i, schema.Field(column).Type); err != nil {
			return namedcols.Failure(g.spec.Keys[i], err)
		}
	}
	for i, column := range plan.inputs {
		if column < 0 {
			continue
		}
		if err := g.state.acceptInput(i, schema.Field(column).Type); err != nil {
			return namedcols.Failure(g.spec.Aggregations[i].InputColumn, err)
		}
	}
	g.plan, g.state.schema = plan, plan.needed
	return nil
}

// assignWindows finds the windows of each row, which makes a row of in for each of them,
// and takes late rows out of in.
func (g *Operator) assignWindows(batch arrow.RecordBatch, in *rowInput) error {
	before := g.state.streamTime
	if window := g.spec.Window; window.hop() < window.Size {
		rows, starts, streamTime, late, err := window.spread(g.spreadRows[:0], g.starts[:0], in.times, before, g.late[:0])
		g.spreadRows, g.starts, g.late = rows, starts, late
		if err != nil {
			return namedcols.Failure(g.spec.TimeColumn, err)
		}
		if err := g.noteLate(batch, in.times, streamTime); err != nil {
			return err
		}
		return in.keepRows(g.mem, rows)
	}
	starts := arrays.Resized(&g.starts, in.rows)
	streamTime, late, err := g.spec.Window.assign(starts, in.times, before, g.late[:0])
	g.late = late
	if err != nil {
		return namedcols.Failure(g.spec.TimeColumn, err)
	}
	if err := g.noteLate(batch, in.times, streamTime); err != nil || len(late) == 0 {
		return err
	}
	onTime := make([]int32, 0, in.rows-len(late))
	for row := range int32(in.rows) {
		if len(late) > 0 && late[0] == row {
			late = late[1:]
			continue
		}
		starts[len(onTime)] = starts[row]
		onTime = append(onTime, row)
	}
	g.starts = starts[:len(onTime)]
	return in.keepRows(g.mem, onTime)
}

// noteLate counts the late rows of a batch, which moves stream time, and collects them
// where they are wanted.
func (g *Operator) noteLate(batch arrow.RecordBatch, times []int64, streamTime int64) error {
	before := g.state.streamTime
	g.state.streamTime = streamTime
	g.state.late += int64(len(g.late))
	if len(g.late) == 0 || !g.collectLate {
		return nil
	}
	return g.collect(batch, times, before)
}

// collect makes the batch of late rows: the rows of batch with the latest window that
// was closed, and the stream time that had closed it.
func (g *Operator) collect(batch arrow.RecordBatch, times []int64, streamTime int64) error {
	taken, err := arrays.GatherBatch(g.mem, batch, g.late)
	if err != nil {
		return err
	}
	defer taken.Release()
	starts, ends, streamTimes := arrays.Words{Kind: arrays.IntKind}, arrays.Words{Kind: arrays.IntKind}, arrays.Words{Kind: arrays.IntKind}
	row := int32(0)
	for _, late := range g.late {
		for ; row <= late; row++ {
			streamTime = max(streamTime, times[row])
		}
		start, _ := g.spec.Window.startOf(times[late])
		starts.Values = append(starts.Values, start)
		ends.Values = append(ends.Values, start+g.spec.Window.Size)
		streamTimes.Values = append(streamTimes.Values, streamTime)
	}
	var fields []arrow.Field
	var columns []arrow.Array
	defer func() { arrays.Release(columns) }()
	for i, column := range []*arrays.Words{&starts, &ends, &streamTimes} {
		fields = append(fields, arrow.Field{
			Name: [...]string{WindowStart, WindowEnd, StreamTime}[i], Type: arrow.PrimitiveTypes.Int64,
		})
		columns = append(columns, column.CopyWords(g.mem, arrow.PrimitiveTypes.Int64))
	}
	g.lateRows = namedcols.Put(taken, fields, columns, nil)
	return nil
}

// Windowed reports whether rows are put into windows, and thus may be late.
func (g *Operator) Windowed() bool { return g.spec.Windowed }

// Reads returns the names of the columns that are read of batches, some of them
// twice.
func (g *Operator) Reads() []string {
	names := append(slices.Clone(g.spec.Keys), g.spec.TimeColumn)
	for _, aggregation := range g.spec.Aggregations {
		names = append(names, aggregation.InputColumn)
	}
	return names
}

// Late returns how many rows were dropped as late, over the history of the state.
func (g *Operator) Late() int64 { return g.state.late }

// StreamTime returns the latest event time of windows, or [eventtime.None].
func (g *Operator) StreamTime() int64 { return g.state.streamTime }

// Awaits reports whether windows are to be emitted that a later stream time
// closes.
func (g *Operator) Awaits(streamTime int64) bool { return g.state.awaits(streamTime) }

// CollectLateRows makes the operator keep the late rows of each batch for
// [Operator.TakeLateRows].
func (g *Operator) CollectLateRows() { g.collectLate = true }

// TakeLateRows returns the late rows of the latest batch, which the caller
// owns, or nil.
func (g *Operator) TakeLateRows() arrow.RecordBatch {
	taken := g.lateRows
	g.lateRows = nil
	return taken
}

// addRows adds rows to their groups.
func (g *Operator) addRows(in *rowInput) error {
	s := g.state
	for i, arr := range in.keys {
		if err := s.table.Keys[i].Load(arr); err != nil {
			return namedcols.Failure(g.spec.Keys[i], err)
		}
	}
	if s.starts != nil {
		s.starts.LoadWords(g.starts)
	}
	for i, aggregate := range s.aggregates {
		if err := aggregate.load(in.inputs[i]); err != nil {
			return namedcols.Failure(g.spec.Aggregations[i].InputColumn, err)
		}
	}
	known := s.table.Groups
	s.beginRound()
	for first := 0; first < in.rows; first += keytable.ChunkRows {
		ids := arrays.Resized(&g.ids, min(keytable.ChunkRows, in.rows-first))
		if err := s.table.Lookup(ids, first); err != nil {
			return err
		}
		s.touch(ids)
		for i, aggregate := range s.aggregates {
			if err := aggregate.add(ids, first); err != nil {
				return namedcols.Failure(g.spec.Aggregations[i].InputColumn, err)
			}
		}
		if s.times != nil && in.times != nil {
			s.times.add(ids, in.times, in.noTime, first)
		}
	}
	if s.open != nil {
		for group := known; group < s.table.Groups; group++ {
			s.open.add(s.starts.At(uint32(group)), uint32(group))
		}
	}
	return nil
}

// emitted returns the groups that the batch makes the operator emit.
func (g *Operator) emitted() []uint32 {
	s := g.state
	switch g.spec.Emit {
	case EmitChanges:
		return s.touched
	case EmitFinal:
		return g.closeWindows()
	}
	groups := g.groups[:0]
	for group := range uint32(s.table.Groups) {
		if uint32(*s.table.Rows.Header(group)) == s.round || s.isLive(group) {
			groups = append(groups, group)
		}
	}
	g.groups = groups
	return groups
}

func (g *Operator) closeWindows() []uint32 {
	g.groups = g.state.open.close(g.groups[:0], func(start int64) bool {
		return g.spec.Window.isClosed(start, g.state.streamTime)
	})
	return g.groups
}

// emit returns a batch of groups.
func (g *Operator) emit(groups []uint32) (arrow.RecordBatch, error) {
	output := g.plan.output
	columns := make([]arrow.Array, 0, output.NumFields())
	defer func() { arrays.Release(columns) }()
	add := func(arr arrow.Array, err error) error {
		if err != nil {
			return namedcols.Failure(output.Field(len(columns)).Name, err)
		}
		columns = append(columns, arr)
		return nil
	}
	next := func() arrow.DataType { return output.Field(len(columns)).Type }
	s := g.state
	for _, key := range s.table.Keys[:len(g.spec.Keys)] {
		if err := add(key.Build(g.mem, next(), groups)); err != nil {
			return nil, err
		}
	}
	if s.starts != nil {
		if err := add(s.starts.Build(g.mem, next(), groups)); err != nil {
			return nil, err
		}
		ends := arrays.Words{Kind: arrays.IntKind, Values: arrays.Resized(&g.starts, len(groups))}
		for i, group := range groups {
			ends.Values[i] = s.starts.At(group) + g.spec.Window.Size
		}
		if err := add(ends.Build(g.mem, next())); err != nil {
			return nil, err
		}
	}
	for _, aggregate := range s.aggregates {
		if err := add(aggregate.build(g.mem, next(), groups)); err != nil {
			return nil, err
		}
	}
	if g.spec.showsTime() {
		if err := add(s.times.build(g.mem, next(), groups)); err != nil {
			return nil, err
		}
	}
	return array.NewRecordBatch(output, columns, int64(len(groups))), nil
}

// Advance moves stream time to at least timestamp and emits the windows that this closes, if closed
// windows are emitted.
func (g *Operator) Advance(timestamp int64) (arrow.RecordBatch, error) {
	if !g.spec.Windowed || timestamp <= g.state.streamTime {
		return nil, nil
	}
	if g.plan == nil && g.state.schema != nil {
		if err := g.bind(g.state.schema); err != nil {
			return nil, err
		}
	}
	if g.plan == nil && g.state.table.Groups > 0 {
		// The types of the groups are not known before the first batch.
		return nil, nil
	}
	g.state.streamTime = timestamp
	if g.state.open == nil {
		return nil, nil
	}
	groups := g.closeWindows()
	if len(groups) == 0 {
		return nil, nil
	}
	return g.emit(groups)
}

// Begin has nothing to prepare: changes are remembered as they are made.
func (g *Operator) Begin() error { return nil }

// Commit makes the pending changes permanent.
func (g *Operator) Commit() {
	g.former = nil
	g.state.commit()
}

// Rollback takes all changes since the latest commit back. The error is always nil.
func (g *Operator) Rollback() error {
	if g.lateRows != nil {
		g.TakeLateRows().Release()
	}
	if g.former != nil {
		g.state, g.former = g.former, nil
	}
	g.state.rollback()
	g.plan = nil
	return nil
}

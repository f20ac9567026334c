// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// groupKernel is a group-by: it finds the group of each row, adds the rows to
// the aggregates column by column, and emits groups.
type groupKernel struct {
	mem   memory.Allocator
	spec  *groupSpec
	state *groupState
	// former is the state before a restore that is not committed.
	former *groupState
	plan   *groupPlan

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
}

var (
	_ keeper     = (*groupKernel)(nil)
	_ timeKernel = (*groupKernel)(nil)
)

func newGroupKernel(mem memory.Allocator, spec *groupSpec) *groupKernel {
	return &groupKernel{mem: mem, spec: spec, state: newGroupState(spec)}
}

func (g *groupKernel) Process(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	if err := g.bind(batch.Schema()); err != nil {
		return nil, err
	}
	var in groupInput
	defer in.release()
	if err := in.read(g.mem, batch, g.plan, g.spec.windowed, &g.millis); err != nil {
		return nil, err
	}
	if g.spec.windowed {
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
func (g *groupKernel) bind(schema *arrow.Schema) error {
	if g.plan != nil && namedcols.SameSchema(g.plan.schema, schema) {
		return nil
	}
	plan, err := newGroupPlan(g.spec, schema)
	if err != nil {
		return err
	}
	for i, column := range plan.keys {
		if err := g.state.acceptKey(i, schema.Field(column).Type); err != nil {
			return namedcols.Failure(g.spec.keys[i], err)
		}
	}
	for i, column := range plan.inputs {
		if column < 0 {
			continue
		}
		if err := g.state.acceptInput(i, schema.Field(column).Type); err != nil {
			return namedcols.Failure(g.spec.aggregations[i].InputColumn, err)
		}
	}
	g.plan, g.state.schema = plan, plan.needed
	return nil
}

// assignWindows finds the window of each row and takes late rows out of in.
func (g *groupKernel) assignWindows(batch arrow.RecordBatch, in *groupInput) error {
	before := g.state.streamTime
	starts := arrays.Resized(&g.starts, in.rows)
	streamTime, late, err := g.spec.window.assign(starts, in.times, before, g.late[:0])
	g.late = late
	if err != nil {
		return namedcols.Failure(g.spec.timeColumn, err)
	}
	g.state.streamTime = streamTime
	g.state.late += int64(len(late))
	if len(late) == 0 {
		return nil
	}
	if g.collectLate {
		if err := g.collect(batch, in.times, before); err != nil {
			return err
		}
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

// collect makes the batch of late rows: the rows of batch with the window that
// was closed, and the stream time that had closed it.
func (g *groupKernel) collect(batch arrow.RecordBatch, times []int64, streamTime int64) error {
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
		starts.Values = append(starts.Values, g.starts[late])
		ends.Values = append(ends.Values, g.starts[late]+g.spec.window.size)
		streamTimes.Values = append(streamTimes.Values, streamTime)
	}
	var fields []arrow.Field
	var columns []arrow.Array
	defer func() { arrays.Release(columns) }()
	for i, column := range []*arrays.Words{&starts, &ends, &streamTimes} {
		fields = append(fields, arrow.Field{
			Name: [...]string{WindowStartColumn, WindowEndColumn, StreamTimeColumn}[i], Type: arrow.PrimitiveTypes.Int64,
		})
		columns = append(columns, column.CopyWords(g.mem, arrow.PrimitiveTypes.Int64))
	}
	g.lateRows = withColumns(taken, fields, columns, nil)
	return nil
}

// takeLateRows returns the late rows of the latest batch, which the caller
// owns, or nil.
func (g *groupKernel) takeLateRows() arrow.RecordBatch {
	taken := g.lateRows
	g.lateRows = nil
	return taken
}

// addRows adds rows to their groups.
func (g *groupKernel) addRows(in *groupInput) error {
	s := g.state
	for i, arr := range in.keys {
		if err := s.table.Keys[i].Load(arr); err != nil {
			return namedcols.Failure(g.spec.keys[i], err)
		}
	}
	if s.starts != nil {
		s.starts.LoadWords(g.starts)
	}
	for i, aggregate := range s.aggregates {
		if err := aggregate.load(in.inputs[i]); err != nil {
			return namedcols.Failure(g.spec.aggregations[i].InputColumn, err)
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
				return namedcols.Failure(g.spec.aggregations[i].InputColumn, err)
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
func (g *groupKernel) emitted() []uint32 {
	s := g.state
	switch g.spec.emit {
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

func (g *groupKernel) closeWindows() []uint32 {
	g.groups = g.state.open.close(g.groups[:0], func(start int64) bool {
		return g.spec.window.isClosed(start, g.state.streamTime)
	})
	return g.groups
}

// emit returns a batch of groups.
func (g *groupKernel) emit(groups []uint32) (arrow.RecordBatch, error) {
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
	for _, key := range s.table.Keys[:len(g.spec.keys)] {
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
			ends.Values[i] = s.starts.At(group) + g.spec.window.size
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

// advance moves stream time and emits the windows that this closes, if closed
// windows are emitted.
func (g *groupKernel) Advance(timestamp int64) (arrow.RecordBatch, error) {
	if !g.spec.windowed || timestamp <= g.state.streamTime {
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

func (g *groupKernel) Begin() error { return nil }

func (g *groupKernel) Commit() {
	g.former = nil
	g.state.commit()
}

func (g *groupKernel) Rollback() error {
	if g.lateRows != nil {
		g.takeLateRows().Release()
	}
	if g.former != nil {
		g.state, g.former = g.former, nil
	}
	g.state.rollback()
	g.plan = nil
	return nil
}

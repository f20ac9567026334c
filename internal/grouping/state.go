// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/eventtime"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// groupState is the state of a group-by: its groups, their aggregates, and how
// far event time has got. Changes are remembered since the latest commit.
type groupState struct {
	spec *Spec

	table keytable.Table
	// starts is the last key column: the window that a group belongs to.
	starts     *keytable.WordColumn
	aggregates []accumulator
	// times holds the latest event time of each group, if results carry it.
	times *timeState
	// sides are the accumulators that hold something beside the rows, and scaled
	// those of a scale.
	sides  []sideState
	scaled []rescalable

	// schema has the columns that are read, once they are known.
	schema *arrow.Schema

	streamTime int64
	late       int64 // rows dropped
	open       *openWindows

	// round numbers batches; rows hold the round that touched them last.
	round uint32
	// touched are the groups that the current round touched, in order.
	touched []uint32
	stamps  []uint32 // scratch: the rounds that touched them before

	committed stateMark
	// changed are the groups that existed at the latest commit and have changed
	// since, and saved are the rows that they had.
	changed []uint32
	saved   []uint64
	// learnedKeys and learnedInputs are the key columns and the aggregates whose
	// kind is known since then. What they hold of before is null throughout.
	learnedKeys, learnedInputs []int
	// compactAt is the number of groups from which on it is worth looking for
	// groups of closed windows.
	compactAt int
}

// stateMark is what brings a state back to a commit, besides the changed
// groups.
type stateMark struct {
	groups     int
	round      uint32
	schema     *arrow.Schema
	streamTime int64
	late       int64
}

func newGroupState(spec *Spec) *groupState {
	s := &groupState{spec: spec, streamTime: eventtime.None, compactAt: keytable.MinCompaction}
	s.reset()
	s.mark()
	return s
}

// reset forgets the kinds of all columns, with all groups.
func (s *groupState) reset() {
	s.table = keytable.New(s.spec.Limit)
	for i := range s.spec.Keys {
		s.table.Keys = append(s.table.Keys, keytable.NewColumn(arrays.AnyKind, i))
	}
	if s.spec.Windowed {
		s.table.Keys = append(s.table.Keys, keytable.NewColumn(arrays.IntKind, len(s.spec.Keys)))
	}
	s.aggregates = make([]accumulator, len(s.spec.Aggregations))
	for i, aggregation := range s.spec.Aggregations {
		s.aggregates[i] = newAccumulator(aggregation.Function, arrays.AnyKind)
	}
	s.times = nil
	if s.spec.Timed {
		s.times = &timeState{}
	}
	s.open = nil
	if s.spec.Emit == EmitFinal {
		s.open = newOpenWindows()
	}
	s.schema = nil
	s.changed, s.saved, s.touched = s.changed[:0], s.saved[:0], s.touched[:0]
	s.learnedKeys, s.learnedInputs = s.learnedKeys[:0], s.learnedInputs[:0]
	s.arrange()
}

// arrange gives the columns their places in the rows.
func (s *groupState) arrange() {
	var columns []keytable.Placeable
	for _, key := range s.table.Keys {
		columns = append(columns, key)
	}
	s.starts = nil
	if s.spec.Windowed {
		s.starts = s.table.Keys[len(s.spec.Keys)].(*keytable.WordColumn)
	}
	s.sides, s.scaled = nil, nil
	for _, aggregate := range s.aggregates {
		columns = append(columns, aggregate)
		if side, ok := aggregate.(sideState); ok {
			s.sides = append(s.sides, side)
		}
		if scaled, ok := aggregate.(rescalable); ok {
			scaled.remember(&s.saved)
			s.scaled = append(s.scaled, scaled)
		}
	}
	if s.times != nil {
		columns = append(columns, s.times)
	}
	s.saved = s.table.Rows.Relayout(columns, s.saved)
}

// checkUnit fails when values of a type do not count the unit of those that are
// held of a column.
func (s *groupState) checkUnit(column string, dt arrow.DataType) error {
	if s.schema == nil || s.table.Groups == 0 {
		return nil
	}
	at := namedcols.First(s.schema, column)
	if at < 0 {
		return nil
	}
	return namedcols.WrongType(keytable.CheckUnits(dt, s.schema.Field(at).Type))
}

// acceptKey makes a key column take values of a type.
func (s *groupState) acceptKey(i int, dt arrow.DataType) error {
	if err := s.checkUnit(s.spec.Keys[i], dt); err != nil {
		return err
	}
	held, kind := s.table.Keys[i], arrays.KindOf(dt)
	switch {
	case kind == arrays.AnyKind || kind == held.Kind():
		return nil
	case held.Kind() != arrays.AnyKind:
		return kindMismatch(dt, held.Kind())
	}
	// What is held is null throughout, and flagged so.
	fresh := keytable.NewColumn(kind, i)
	if s.table.Groups > 0 {
		fresh.ExpectNulls()
	}
	s.table.Keys[i] = fresh
	s.learnedKeys = append(s.learnedKeys, i)
	s.arrange()
	return nil
}

// acceptInput makes an aggregate take values of a type.
func (s *groupState) acceptInput(i int, dt arrow.DataType) error {
	function := s.spec.Aggregations[i].Function
	if err := checkAggregate(function, dt); err != nil {
		return err
	}
	if !function.counts() {
		if err := s.checkUnit(s.spec.Aggregations[i].InputColumn, dt); err != nil {
			return err
		}
	}
	held, kind := s.aggregates[i], heldKind(function, arrays.KindOf(dt))
	switch {
	case function.counts() || kind == arrays.AnyKind || kind == held.kind():
		return nil
	case held.kind() != arrays.AnyKind:
		return kindMismatch(dt, held.kind())
	}
	// All stored values and their undo copies are null, so the accumulator can be replaced.
	fresh := newAccumulator(function, kind)
	if side, ok := fresh.(sideState); ok {
		side.grow(s.table.Groups)
		side.save(s.changed)
	}
	s.aggregates[i] = fresh
	s.learnedInputs = append(s.learnedInputs, i)
	s.arrange()
	return nil
}

func kindMismatch(dt arrow.DataType, held arrays.Kind) error {
	return namedcols.WrongType(fmt.Errorf("the column is of type %s, but the state holds values of kind %s", dt, held))
}

// beginRound starts a batch.
func (s *groupState) beginRound() {
	s.round++
	s.touched = s.touched[:0]
}

// touch notes the groups of rows, and remembers those that existed at the
// latest commit.
func (s *groupState) touch(ids []uint32) {
	for _, side := range s.sides {
		side.grow(s.table.Groups)
	}
	rows := &s.table.Rows
	known := len(s.touched)
	s.touched = slices.Grow(s.touched, len(ids))[:known+len(ids)]
	touched, stamps := s.touched[known:], arrays.Resized(&s.stamps, len(ids))
	count := 0
	for _, id := range ids {
		header := rows.Header(id)
		stamp := uint32(*header)
		*header = *header&^keytable.RoundMask | uint64(s.round)
		// Without a branch, which would be a guess.
		touched[count], stamps[count] = id, stamp
		if stamp != s.round {
			count++
		}
	}
	s.touched = s.touched[:known+count]
	remembered := len(s.changed)
	for i, id := range touched[:count] {
		if stamps[i] <= s.committed.round && int(id) < s.committed.groups {
			s.changed = append(s.changed, id)
			s.saved = append(s.saved, rows.Row(id)...)
		}
	}
	for _, side := range s.sides {
		side.save(s.changed[remembered:])
	}
}

// isLive reports whether a group is held for more rows.
func (s *groupState) isLive(group uint32) bool {
	return s.starts == nil || !s.spec.Window.isClosed(s.starts.At(group), s.streamTime)
}

// live returns the groups that are held for more rows, in their order.
func (s *groupState) live() []uint32 {
	groups, live := make([]uint32, s.table.Groups), 0
	for group := range uint32(s.table.Groups) {
		groups[live] = group
		if s.starts == nil || s.isLive(group) {
			live++
		}
	}
	return groups[:live]
}

func (s *groupState) mark() {
	s.committed = stateMark{
		groups: s.table.Groups, round: s.round, schema: s.schema,
		streamTime: s.streamTime, late: s.late,
	}
}

// commit forgets the changes since the latest commit, and frees the memory of
// closed windows when they hold half of it.
func (s *groupState) commit() {
	s.changed, s.saved = s.changed[:0], s.saved[:0]
	s.learnedKeys, s.learnedInputs = s.learnedKeys[:0], s.learnedInputs[:0]
	for _, side := range s.sides {
		side.forget()
	}
	for _, scaled := range s.scaled {
		scaled.settle()
	}
	if s.open != nil {
		s.open.commit()
	}
	if s.round > math.MaxUint32/2 {
		for group := range uint32(s.table.Groups) {
			*s.table.Rows.Header(group) &^= keytable.RoundMask
		}
		s.round = 0
	}
	if s.starts != nil && s.table.Groups >= s.compactAt {
		s.compact()
	}
	s.mark()
}

func (s *groupState) compact() {
	groups := s.live()
	if len(groups)*2 <= s.table.Groups {
		s.table.Keep(groups)
		for _, side := range s.sides {
			side.keep(groups)
		}
		s.reopen()
	}
	s.compactAt = max(keytable.MinCompaction, len(groups)*2)
}

// reopen notes the groups of open windows anew.
func (s *groupState) reopen() {
	if s.open == nil {
		return
	}
	s.open = newOpenWindows()
	for group := range uint32(s.table.Groups) {
		s.open.add(s.starts.At(group), group)
	}
	s.open.commit()
}

// rollback takes the changes since the latest commit back.
func (s *groupState) rollback() {
	if s.committed.schema == nil && s.committed.groups == 0 {
		s.reset()
	} else {
		rows := &s.table.Rows
		for i, group := range s.changed {
			copy(rows.Row(group), s.saved[i*rows.Stride:])
		}
		s.table.Truncate(s.committed.groups)
		for _, side := range s.sides {
			side.restore(s.changed)
			side.truncate(s.committed.groups)
		}
		s.changed, s.saved, s.touched = s.changed[:0], s.saved[:0], s.touched[:0]
		for _, scaled := range s.scaled {
			scaled.unscale()
		}
		s.unlearn()
		if s.open != nil {
			s.open.rollback(s.committed.groups)
		}
	}
	s.schema = s.committed.schema
	s.streamTime, s.late = s.committed.streamTime, s.committed.late
	s.committed.round = s.round
}

// unlearn takes back what kinds the columns got since the latest commit.
func (s *groupState) unlearn() {
	if len(s.learnedKeys) == 0 && len(s.learnedInputs) == 0 {
		return
	}
	for _, i := range s.learnedKeys {
		s.table.Keys[i] = keytable.NewColumn(arrays.AnyKind, i)
		s.table.Keys[i].ExpectNulls()
	}
	for _, i := range s.learnedInputs {
		s.aggregates[i] = newAccumulator(s.spec.Aggregations[i].Function, arrays.AnyKind)
	}
	s.learnedKeys, s.learnedInputs = s.learnedKeys[:0], s.learnedInputs[:0]
	s.arrange()
}

// awaits reports whether windows are to be emitted that a later stream time
// closes.
func (s *groupState) awaits(streamTime int64) bool {
	if s.open == nil {
		return false
	}
	for start := range s.open.byStart {
		if s.spec.Window.isClosed(start, streamTime) {
			return true
		}
	}
	return false
}

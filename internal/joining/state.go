// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/eventtime"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// State is the state of a join in one logical partition: the rows that are
// kept of both sides, and for each key two lists of them. Changes are
// remembered since the latest commit. A State is not safe for concurrent use.
type State struct {
	spec   Spec
	mem    memory.Allocator
	window int64
	content
	// former is the content before a restore that is not committed.
	former *content

	times   []int64 // scratch
	results results
}

// content is what a snapshot holds.
type content struct {
	keys  *keyIndex
	sides [2]*sideRows
	// types are the types of the key columns of the latest batches, once known.
	types, committedTypes [2]arrow.DataType
}

// New returns a state without rows. Results are allocated from mem; the rows that
// are kept lie in memory of Go, so a State needs no release.
func New(spec Spec, mem memory.Allocator) *State {
	j := &State{spec: spec.withPrefixes(), mem: mem, window: spec.Window.Milliseconds(), results: results{mem: mem}}
	j.content = j.newContent()
	return j
}

func (j *State) newContent() content {
	c := content{keys: newKeyIndex(arrays.AnyKind)}
	for side, prefix := range []string{j.spec.LeftPrefix, j.spec.RightPrefix} {
		c.sides[side] = &sideRows{prefix: prefix, keepsMetadata: side == 0, time: eventtime.None}
		c.sides[side].mark()
	}
	return c
}

// Process takes in the batches of a run, all of the left side before those of the
// right one, and returns the pairs that they complete, in batches that the caller
// owns: none without pairs, and several where the schema of a side has changed. It
// copies what it keeps of left and right. After an error, the state is to be
// rolled back.
func (j *State) Process(left, right []arrow.RecordBatch) ([]arrow.RecordBatch, error) {
	j.results.clear()
	for side, batches := range [2][]arrow.RecordBatch{left, right} {
		for _, batch := range batches {
			if err := j.add(side, batch); err != nil {
				return nil, onSide(side, err)
			}
		}
	}
	return j.results.batches(j.sides)
}

// add takes in a batch of a side: each row meets the rows of the other side,
// and is kept for those to come.
func (j *State) add(side int, batch arrow.RecordBatch) error {
	return j.eachRow(side, batch, func(row, id uint32) {
		j.meet(side, row, id)
		j.link(side, row, id)
	})
}

// eachRow stores a batch and calls visit for each row in order, with the number
// of its key, when the side has got to the time of the row. Rows with a null
// key are left out.
func (j *State) eachRow(side int, batch arrow.RecordBatch, visit func(row, id uint32)) error {
	name := [2]string{j.spec.LeftKey, j.spec.RightKey}[side]
	key, err := j.readKey(side, name, batch)
	if err != nil {
		return err
	}
	defer func() { key.Release() }()
	all, err := readJoinTimes(batch)
	if err != nil {
		return err
	}
	times := all
	rows := rowsWithKey(key)
	if rows != nil {
		filled, err := arrays.Gather(j.mem, key, rows)
		if err != nil {
			return namedcols.Failure(name, err)
		}
		key.Release()
		key, times = filled, pick(all, rows, &j.times)
	}
	own, seen := j.sides[side], 0
	first := len(own.rows)
	if err := own.append(batch, rows, times); err != nil {
		return err
	}
	ids, err := j.keys.lookup(key)
	if err != nil {
		return namedcols.Failure(name, err)
	}
	for i, id := range ids {
		// Rows with a null key bring time forward as well.
		reached := i + 1
		if rows != nil {
			reached = int(rows[i]) + 1
		}
		for ; seen < reached; seen++ {
			own.time = max(own.time, all[seen])
		}
		row := uint32(first + i)
		own.rows[row].key = id
		visit(row, id)
	}
	for ; seen < len(all); seen++ {
		own.time = max(own.time, all[seen])
	}
	limit := j.spec.MaxRows
	if limit > 0 && len(own.rows) > limit && own.liveRows(j.window, j.sides[1-side].time) > limit {
		return &keytable.StateLimitError{Limit: limit}
	}
	return nil
}

// link keeps a row for partners to come, if there may be any.
func (j *State) link(side int, row, id uint32) {
	own := j.sides[side]
	if eventtime.Plus(own.rows[row].time, j.window) >= j.sides[1-side].time {
		j.keys.link(side, id, row, own)
	}
}

// readKey returns the key column of a batch as a plain array that the caller
// owns.
func (j *State) readKey(side int, name string, batch arrow.RecordBatch) (arrow.Array, error) {
	column := namedcols.Column(batch, name)
	if column == nil {
		return nil, namedcols.MissingText(batch.Schema(), "join key column does not exist: %s", name)
	}
	key, err := arrays.Plain(j.mem, column)
	if err == nil {
		if err = namedcols.WrongType(j.acceptKey(side, key.DataType())); err != nil {
			key.Release()
		}
	}
	if err != nil {
		return nil, namedcols.Failure(name, err)
	}
	return key, nil
}

// acceptKey makes the keys take values of a type that a side has.
func (j *State) acceptKey(side int, dt arrow.DataType) error {
	for _, held := range j.types {
		if held != nil {
			if err := keytable.CheckUnits(dt, held); err != nil {
				return err
			}
		}
	}
	j.types[side] = dt
	return j.keys.accept(dt)
}

var errJoinWithoutTime = errors.New("join requires __timestamp")

// readJoinTimes returns the timestamps of a batch.
func readJoinTimes(batch arrow.RecordBatch) ([]int64, error) {
	column := namedcols.Column(batch, metacols.Timestamp)
	if column == nil || column.DataType().ID() != arrow.INT64 {
		return nil, errJoinWithoutTime
	}
	if err := eventtime.Require(column); err != nil {
		return nil, namedcols.Failure(metacols.Timestamp, err)
	}
	return arrays.FixedValues[int64](column), nil
}

// rowsWithKey returns the rows whose key is not null; nil stands for all. The
// nulls of unions and of runs lie in their children, and a column without a type
// has nothing else.
func rowsWithKey(key arrow.Array) []int32 {
	switch kind := arrays.KindOf(key.DataType()); {
	case kind == arrays.AnyKind:
		return []int32{}
	case kind == arrays.NestedKind:
		rows := make([]int32, 0, key.Len())
		for row := range key.Len() {
			if key.IsValid(row) && arrays.Value(key, row) != nil {
				rows = append(rows, int32(row))
			}
		}
		return rows
	case key.NullN() > 0:
		return arrays.ValidityOf(key).Valid(key.Len())
	default:
		return nil
	}
}

// pick returns the items at rows.
func pick(items []int64, rows []int32, scratch *[]int64) []int64 {
	picked := arrays.Resized(scratch, len(rows))
	for i, row := range rows {
		picked[i] = items[row]
	}
	return picked
}

// meet adds the pairs that a row of a side makes with the rows that are kept of
// the other.
func (j *State) meet(side int, row, id uint32) {
	own, other, pairs := j.sides[side], j.sides[1-side], &j.results.pairs
	latest := eventtime.Plus(own.rows[row].time, j.window)
	list := j.keys.list(1-side, id)
	if list.sorted {
		list = j.keys.skip(1-side, id, other, func(partner uint32) bool {
			return eventtime.Plus(other.rows[partner].time, j.window) < own.time
		})
	}
	for partner := list.head; partner != keytable.None; partner = other.rows[partner].next {
		switch at := other.rows[partner].time; {
		case at > latest && list.sorted:
			return
		case at > latest, eventtime.Plus(at, j.window) < own.time:
		default:
			pairs[side] = append(pairs[side], row)
			pairs[1-side] = append(pairs[1-side], partner)
		}
	}
}

// Schema returns the schema of the pairs that the latest batches of both sides make,
// with or without rows. Keys that cannot be equal, since they are of different kinds,
// are an error. Both sides have had a batch.
func (j *State) Schema() (*arrow.Schema, error) {
	left, right := j.types[0], j.types[1]
	if a, b := arrays.KindOf(left), arrays.KindOf(right); a != b && a != arrays.AnyKind && b != arrays.AnyKind {
		return nil, namedcols.Failure(j.spec.RightKey, fmt.Errorf("the join key is of type %s, and that of the left side, `%s`, of type %s: make them of one kind with Cast", right, j.spec.LeftKey, left))
	}
	return j.results.schemaOf(j.sides[0].stored, j.sides[1].stored)
}

// StreamTime returns the latest event time that the state has seen, or
// [eventtime.None].
func (j *State) StreamTime() int64 { return max(j.sides[0].time, j.sides[1].time) }

// Advance moves the time of both sides to at least timestamp.
func (j *State) Advance(timestamp int64) {
	for _, side := range j.sides {
		side.time = max(side.time, timestamp)
	}
}

// Begin has nothing to prepare: changes are remembered as they are made.
func (j *State) Begin() error { return nil }

// Commit makes the pending changes permanent.
func (j *State) Commit() {
	j.former = nil
	j.content.commit(j.window)
}

// Rollback takes all changes since the latest commit back. The error is always nil.
func (j *State) Rollback() error {
	if j.former != nil {
		j.content, j.former = *j.former, nil
	}
	j.types = j.committedTypes
	j.keys.rollback(j.sides)
	for _, side := range j.sides {
		side.rollback()
	}
	return nil
}

// commit forgets the changes since the latest commit. It drops rows that are
// not kept any more when they are half of all, and joins small batches.
func (c *content) commit(window int64) {
	if len(c.sides[0].rows)+len(c.sides[1].rows) >= c.keys.compactAt {
		c.compact(window)
	}
	for _, side := range c.sides {
		side.mergeChunks()
		side.mark()
	}
	c.committedTypes = c.types
	c.keys.mark()
}

// compact drops the rows that are not kept any more, with the keys that only
// they had, if they are at least half of all.
func (c *content) compact(window int64) {
	var live [2][]uint32
	for i, side := range c.sides {
		live[i] = side.live(window, c.sides[1-i].time)
	}
	kept, all := len(live[0])+len(live[1]), len(c.sides[0].rows)+len(c.sides[1].rows)
	c.keys.compactAt = max(keytable.MinCompaction, kept*2)
	if kept*2 > all {
		return
	}
	var chunks [2][]rowChunk
	used := make([]bool, c.keys.table.Groups)
	for i, side := range c.sides {
		var err error
		if chunks[i], err = side.chunksOf(live[i]); err != nil {
			// The rows stay as they are, which costs memory only.
			return
		}
		for _, row := range live[i] {
			used[side.rows[row].key] = true
		}
	}
	numbers := c.keys.keep(used)
	for i, side := range c.sides {
		side.keep(live[i], chunks[i], numbers)
		for row := range side.rows {
			c.keys.link(i, side.rows[row].key, uint32(row), side)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// Join says how [Topology.AddJoin] pairs the rows of two branches.
//
// A left and a right row make a pair when their keys are equal and their
// timestamps are at most Window apart. Keys compare as in [NewGroupBy], but null
// keys are equal to nothing. Each pair comes out once, when the second of its
// rows is processed: in a run, all left rows are processed first, then all right
// rows, each in order. Pairs are in the order of the row that completed them,
// then in the order in which the rows it met had come.
//
// A row is kept as long as the other side may have a partner for it: until the
// latest timestamp of the other side is more than Window past its own. So
// branches whose timestamps ascend get all their pairs, however far one runs
// ahead of the other and however rows are cut into batches. A row that comes
// out of order meets what is kept at that time. MaxRows bounds what a silent
// side makes the other keep, and [BuiltTopology.AdvanceTime] ends it.
//
// Results have the payload columns of the left row, then those of the right
// row, each with the prefix of its side, and the metadata columns of the left
// row. A row without a timestamp is an error.
type Join struct {
	// LeftKey and RightKey are the columns that are compared; they hold values of
	// the same kind. [KeyColumn] is the record key.
	LeftKey  string
	RightKey string
	// Window is the greatest distance of timestamps; parts below a millisecond
	// are cut off. With 0, timestamps are equal.
	Window time.Duration
	// LeftPrefix and RightPrefix stand before the names of payload columns; empty
	// stands for "left_" and "right_".
	LeftPrefix  string
	RightPrefix string
	// MaxRows bounds the rows that are kept of each side; 0 stands for no bound.
	// A batch that would exceed it fails with a StateLimitError.
	MaxRows int
}

// layout identifies the form of the state.
func (j Join) layout() string {
	j = j.withPrefixes()
	return fmt.Sprintf("join/%d left=%q as %q right=%q as %q window=%dms", joinSnapshotVersion,
		j.LeftKey, j.LeftPrefix, j.RightKey, j.RightPrefix, j.Window.Milliseconds())
}

func (j Join) withPrefixes() Join {
	if j.LeftPrefix == "" {
		j.LeftPrefix = "left_"
	}
	if j.RightPrefix == "" {
		j.RightPrefix = "right_"
	}
	return j
}

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

// joinState is the state of a join in one logical partition: the rows that are
// kept of both sides, and for each key two lists of them. Changes are
// remembered since the latest commit.
type joinState struct {
	spec   Join
	mem    memory.Allocator
	window int64
	joinContent
	// former is the content before a restore that is not committed.
	former *joinContent

	// Scratch.
	times []int64
	pairs joinPairs
	// schemas are the schemas of results, by those of the sides.
	schemas map[[2]*arrow.Schema]*arrow.Schema
}

// joinContent is what a snapshot holds.
type joinContent struct {
	keys  *joinKeys
	sides [2]*joinSide
	// types are the types of the key columns of the latest batches, once known.
	types, committedTypes [2]arrow.DataType
}

// joinPairs are the rows of pairs, by side.
type joinPairs [2][]uint32

func newJoinState(spec Join, mem memory.Allocator) *joinState {
	j := &joinState{spec: spec.withPrefixes(), mem: mem, window: spec.Window.Milliseconds()}
	j.joinContent = j.newContent()
	return j
}

func (j *joinState) newContent() joinContent {
	c := joinContent{keys: newJoinKeys(arrays.AnyKind)}
	for side, prefix := range []string{j.spec.LeftPrefix, j.spec.RightPrefix} {
		c.sides[side] = &joinSide{prefix: prefix, keepsMetadata: side == 0, time: noTime}
		c.sides[side].mark()
	}
	return c
}

// process takes in the batches of a run and returns the pairs that they
// complete, in batches that the caller owns.
func (j *joinState) process(left, right []flow) ([]arrow.RecordBatch, error) {
	j.pairs[0], j.pairs[1] = j.pairs[0][:0], j.pairs[1][:0]
	for side, flows := range [2][]flow{left, right} {
		for _, in := range flows {
			if err := j.add(side, in.batch); err != nil {
				return nil, onSide(side, err)
			}
		}
	}
	return j.output()
}

// add takes in a batch of a side: each row meets the rows of the other side,
// and is kept for those to come.
func (j *joinState) add(side int, batch arrow.RecordBatch) error {
	return j.eachRow(side, batch, func(row, id uint32) {
		j.meet(side, row, id)
		j.link(side, row, id)
	})
}

// eachRow stores a batch and calls visit for each row in order, with the number
// of its key, when the side has got to the time of the row. Rows with a null
// key are left out.
func (j *joinState) eachRow(side int, batch arrow.RecordBatch, visit func(row, id uint32)) error {
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
		return &StateLimitError{Limit: limit}
	}
	return nil
}

// link keeps a row for partners to come, if there may be any.
func (j *joinState) link(side int, row, id uint32) {
	own := j.sides[side]
	if plusMillis(own.rows[row].time, j.window) >= j.sides[1-side].time {
		j.keys.link(side, id, row, own)
	}
}

// readKey returns the key column of a batch as a plain array that the caller
// owns.
func (j *joinState) readKey(side int, name string, batch arrow.RecordBatch) (arrow.Array, error) {
	column := namedcols.Column(batch, name)
	if column == nil {
		return nil, namedcols.MissingText("join key column does not exist: %s", name)
	}
	key, err := arrays.Plain(j.mem, column)
	if err == nil {
		if err = j.acceptKey(side, key.DataType()); err != nil {
			key.Release()
		}
	}
	if err != nil {
		return nil, namedcols.Failure(name, err)
	}
	return key, nil
}

// acceptKey makes the keys take values of a type that a side has.
func (j *joinState) acceptKey(side int, dt arrow.DataType) error {
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
	column := namedcols.Column(batch, TimestampColumn)
	if column == nil || column.DataType().ID() != arrow.INT64 {
		return nil, errJoinWithoutTime
	}
	if err := requireEventTimes(column); err != nil {
		return nil, namedcols.Failure(TimestampColumn, err)
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
func (j *joinState) meet(side int, row, id uint32) {
	own, other := j.sides[side], j.sides[1-side]
	latest := plusMillis(own.rows[row].time, j.window)
	list := j.keys.list(1-side, id)
	if list.sorted {
		list = j.keys.skip(1-side, id, other, func(partner uint32) bool {
			return plusMillis(other.rows[partner].time, j.window) < own.time
		})
	}
	for partner := list.head; partner != keytable.None; partner = other.rows[partner].next {
		switch at := other.rows[partner].time; {
		case at > latest && list.sorted:
			return
		case at > latest, plusMillis(at, j.window) < own.time:
		default:
			j.pairs[side] = append(j.pairs[side], row)
			j.pairs[1-side] = append(j.pairs[1-side], partner)
		}
	}
}

// advance moves the time of both sides.
func (j *joinState) advance(timestamp int64) {
	for _, side := range j.sides {
		side.time = max(side.time, timestamp)
	}
}

func (j *joinState) begin() error { return nil }

func (j *joinState) commit() {
	j.former = nil
	j.joinContent.commit(j.window)
}

func (j *joinState) rollback() error {
	if j.former != nil {
		j.joinContent, j.former = *j.former, nil
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
func (c *joinContent) commit(window int64) {
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
func (c *joinContent) compact(window int64) {
	var live [2][]uint32
	for i, side := range c.sides {
		live[i] = side.live(window, c.sides[1-i].time)
	}
	kept, all := len(live[0])+len(live[1]), len(c.sides[0].rows)+len(c.sides[1].rows)
	c.keys.compactAt = max(minCompaction, kept*2)
	if kept*2 > all {
		return
	}
	var chunks [2][]joinChunk
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

// plusMillis adds to a timestamp, within what it can hold.
func plusMillis(timestamp, millis int64) int64 {
	if timestamp > math.MaxInt64-millis {
		return math.MaxInt64
	}
	return timestamp + millis
}

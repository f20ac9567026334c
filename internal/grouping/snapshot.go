// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/ipcstream"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// snapshotVersion is the version of the snapshot of a group-by, which is:
//
//	byte   version
//	block  layout of the operator
//	int64  stream time
//	int64  rows dropped as late
//	block  Arrow IPC stream with an empty batch of the columns that are read;
//	       empty if they are not known
//	uint32 number of groups
//	for each key column, for each aggregate: byte kind
//	for each key column: keys
//	for each aggregate: values
//	for the latest event times, if results carry them: values
//	uint32 CRC-32C of everything before it
//
// A block is a uint64 length and as many bytes. Numbers are big-endian.
const snapshotVersion = 2

// Layout identifies the form of the state: a snapshot is restored only into a state
// of the same layout. What only changes which groups are
// held or emitted is not part of it.
func (s Spec) Layout() string {
	var text strings.Builder
	fmt.Fprintf(&text, "groups/%d keys=%q", snapshotVersion, s.Keys)
	if s.Windowed {
		fmt.Fprintf(&text, " window=%dms", s.Window.Size)
		if hop := s.Window.hop(); hop != s.Window.Size || s.Window.Offset != 0 {
			fmt.Fprintf(&text, " hop=%dms offset=%dms", hop, s.Window.Offset)
		}
	}
	if s.Timed {
		fmt.Fprintf(&text, " time=%q", s.TimeColumn)
	}
	for _, aggregation := range s.Aggregations {
		fmt.Fprintf(&text, " %s(%q)", aggregation.Function, aggregation.InputColumn)
	}
	return text.String()
}

// Snapshot returns the groups that are held for more rows, as bytes that the caller
// owns.
func (g *Operator) Snapshot() ([]byte, error) {
	s := g.state
	groups := s.live()
	var w statebytes.Writer
	w.Byte(snapshotVersion)
	w.Block([]byte(g.spec.Layout()))
	w.Uint64(uint64(s.streamTime))
	w.Uint64(uint64(s.late))
	schema, err := encodeSchema(s.schema)
	if err != nil {
		return nil, fmt.Errorf("cannot snapshot groupBy state: %w", err)
	}
	w.Block(schema)
	w.Reserve(s.encodedSize(groups))
	w.Uint32(uint32(len(groups)))
	for _, key := range s.table.Keys {
		w.Byte(byte(key.Kind()))
	}
	for _, aggregate := range s.aggregates {
		w.Byte(byte(aggregate.kind()))
	}
	for _, key := range s.table.Keys {
		key.Encode(&w, groups)
	}
	for _, aggregate := range s.aggregates {
		aggregate.encode(&w, groups)
	}
	if s.times != nil {
		s.times.encode(&w, groups)
	}
	return w.Seal(), nil
}

// EncodedSize is at least what groups take in a snapshot, in bytes, with what stands
// before and behind them.
func (s *groupState) encodedSize(groups []uint32) int {
	size := 4 + len(s.table.Keys) + len(s.aggregates) + 4
	for _, key := range s.table.Keys {
		size += key.EncodedSize(groups)
	}
	for _, aggregate := range s.aggregates {
		size += aggregate.encodedSize(groups)
	}
	if s.times != nil {
		size += s.times.encodedSize(groups)
	}
	return size
}

// Restore replaces the groups by those of a snapshot, as a pending change. A snapshot
// of another layout is a [keytable.StateLayoutError]; one that is damaged or of more
// groups than the limit is an error too, and after an error nothing has changed.
func (g *Operator) Restore(snapshot []byte) error {
	state, err := g.readSnapshot(snapshot)
	if err != nil {
		return fmt.Errorf("cannot restore groupBy state: %w", err)
	}
	if g.former == nil {
		g.former = g.state
	}
	g.state, g.plan = state, nil
	return nil
}

func (g *Operator) readSnapshot(snapshot []byte) (*groupState, error) {
	if len(snapshot) == 0 || snapshot[0] != snapshotVersion {
		return nil, errors.New("unsupported snapshot")
	}
	body, err := statebytes.Open(snapshot)
	if err != nil {
		return nil, err
	}
	r := statebytes.NewReader(body[1:])
	if layout := string(r.Block()); r.Err() == nil && layout != g.spec.Layout() {
		return nil, &keytable.StateLayoutError{Saved: layout, Want: g.spec.Layout()}
	}
	s := newGroupState(g.spec)
	s.streamTime, s.late = r.Int64(), r.Int64()
	if s.schema, err = decodeSchema(r.Block()); err != nil {
		return nil, err
	}
	// A group takes at least nine bytes for each key and eight for each aggregate.
	groups := r.Count(9*len(s.table.Keys) + 8*len(s.aggregates))
	if groups > g.spec.Limit {
		return nil, &keytable.StateLimitError{Limit: g.spec.Limit}
	}
	// The kinds come first, because they make the form of the rows.
	kinds := r.Take(uint64(len(s.table.Keys) + len(s.aggregates)))
	for i, kind := range kinds {
		if arrays.Kind(kind) > arrays.NestedKind {
			return nil, fmt.Errorf("unknown kind of values %d in snapshot", kind)
		}
		if i < len(s.table.Keys) {
			s.table.Keys[i] = keytable.NewColumn(arrays.Kind(kind), i)
		} else {
			function := g.spec.Aggregations[i-len(s.table.Keys)].Function
			s.aggregates[i-len(s.table.Keys)] = newAccumulator(function, arrays.Kind(kind))
		}
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	if err := s.makeRows(groups); err != nil {
		return nil, err
	}
	for _, key := range s.table.Keys {
		key.Decode(r, groups)
	}
	for _, aggregate := range s.aggregates {
		aggregate.decode(r, groups)
	}
	if s.times != nil {
		s.times.decode(r, groups)
	}
	r.End()
	if r.Err() != nil {
		return nil, r.Err()
	}
	return s, s.finishRestore(groups)
}

// makeRows makes empty rows for groups, for key columns and aggregates whose
// kinds have been set.
func (s *groupState) makeRows(groups int) error {
	if s.spec.Windowed && s.table.Keys[len(s.spec.Keys)].Kind() != arrays.IntKind {
		return errors.New("windows are not integers")
	}
	s.table.Rows.Reshape(0)
	s.arrange()
	s.table.Rows.Grow(groups)
	for _, side := range s.sides {
		side.grow(groups)
	}
	return nil
}

// finishRestore indexes groups whose rows have been filled.
func (s *groupState) finishRestore(groups int) error {
	if s.starts != nil {
		for group := range uint32(groups) {
			start := s.starts.At(group)
			if !s.spec.Window.isStart(start) || s.starts.IsNull(&s.table.Rows, group) {
				return fmt.Errorf("there is no window at %d", start)
			}
		}
	}
	if err := s.table.Index(groups); err != nil {
		return err
	}
	s.reopen()
	s.compactAt = max(keytable.MinCompaction, groups*2)
	s.mark()
	return nil
}

// newSchemaCodec returns a codec of the columns in a snapshot. What it allocates is
// memory of Go, whatever the operator allocates from.
func newSchemaCodec() *ipcstream.Codec {
	codec, _ := ipcstream.NewCodec(memory.NewGoAllocator(), ipcstream.Limits{})
	return codec
}

// encodeSchema returns a schema as an Arrow IPC stream with an empty batch; nil
// is empty.
func encodeSchema(schema *arrow.Schema) ([]byte, error) {
	if schema == nil {
		return nil, nil
	}
	columns := make([]arrow.Array, schema.NumFields())
	for i, field := range schema.Fields() {
		data := arrays.EmptyData(field.Type)
		columns[i] = array.MakeFromData(data)
		data.Release()
	}
	defer arrays.Release(columns)
	batch := array.NewRecordBatch(schema, columns, 0)
	defer batch.Release()
	return newSchemaCodec().Encode(batch)
}

func decodeSchema(stream []byte) (*arrow.Schema, error) {
	if len(stream) == 0 {
		return nil, nil
	}
	batch, err := newSchemaCodec().Decode(stream)
	if err != nil {
		return nil, err
	}
	defer batch.Release()
	return batch.Schema(), nil
}

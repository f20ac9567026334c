// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Versions of the snapshot of a group-by: the first byte. Version 1 lists the
// groups value by value and is read only. Version 2 is:
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
const (
	groupSnapshotVersion1 = 1
	groupSnapshotVersion  = 2
)

var snapshotTable = crc32.MakeTable(crc32.Castagnoli)

// StateLayoutError says that a snapshot was taken by an operator of another
// configuration.
type StateLayoutError struct {
	Saved, Want string // layouts, in words
}

func (e *StateLayoutError) Error() string {
	return fmt.Sprintf("state was saved by %s, and this is %s", e.Saved, e.Want)
}

// seal appends the checksum of a snapshot.
func (w *snapshotWriter) seal() []byte {
	w.uint32(crc32.Checksum(w.data, snapshotTable))
	return w.data
}

// unsealed returns a snapshot without its checksum, which it verifies.
func unsealed(snapshot []byte) ([]byte, error) {
	end := len(snapshot) - 4
	if end < 0 {
		return nil, errTruncatedSnapshot
	}
	tail := snapshotReader{data: snapshot[end:]}
	if tail.uint32() != crc32.Checksum(snapshot[:end], snapshotTable) {
		return nil, errors.New("checksum does not match")
	}
	return snapshot[:end], nil
}

func (g *groupKernel) snapshot() ([]byte, error) {
	s := g.state
	groups := s.live()
	var w snapshotWriter
	w.byte(groupSnapshotVersion)
	w.block([]byte(g.spec.layout()))
	w.uint64(uint64(s.streamTime))
	w.uint64(uint64(s.late))
	schema, err := encodeSchema(s.schema)
	if err != nil {
		return nil, fmt.Errorf("cannot snapshot groupBy state: %w", err)
	}
	w.block(schema)
	w.reserve(s.encodedSize(groups))
	w.uint32(uint32(len(groups)))
	for _, key := range s.table.keys {
		w.byte(byte(key.kind()))
	}
	for _, aggregate := range s.aggregates {
		w.byte(byte(aggregate.kind()))
	}
	for _, key := range s.table.keys {
		key.encode(&w, groups)
	}
	for _, aggregate := range s.aggregates {
		aggregate.encode(&w, groups)
	}
	if s.times != nil {
		s.times.encode(&w, groups)
	}
	return w.seal(), nil
}

// encodedSize is at least what groups take in a snapshot, in bytes, with what stands
// before and behind them.
func (s *groupState) encodedSize(groups []uint32) int {
	size := 4 + len(s.table.keys) + len(s.aggregates) + 4
	for _, key := range s.table.keys {
		size += key.encodedSize(groups)
	}
	for _, aggregate := range s.aggregates {
		size += aggregate.encodedSize(groups)
	}
	if s.times != nil {
		size += s.times.encodedSize(groups)
	}
	return size
}

func (g *groupKernel) restore(snapshot []byte) error {
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

func (g *groupKernel) readSnapshot(snapshot []byte) (*groupState, error) {
	if len(snapshot) == 0 {
		return nil, errors.New("unsupported snapshot")
	}
	switch snapshot[0] {
	case groupSnapshotVersion1:
		return g.readVersion1(snapshot[1:])
	case groupSnapshotVersion:
		body, err := unsealed(snapshot)
		if err != nil {
			return nil, err
		}
		return g.readVersion2(body[1:])
	default:
		return nil, errors.New("unsupported snapshot")
	}
}

func (g *groupKernel) readVersion2(body []byte) (*groupState, error) {
	r := &snapshotReader{data: body}
	if layout := string(r.block()); r.err == nil && layout != g.spec.layout() {
		return nil, &StateLayoutError{Saved: layout, Want: g.spec.layout()}
	}
	s := newGroupState(g.spec)
	s.streamTime, s.late = r.int64(), r.int64()
	var err error
	if s.schema, err = decodeSchema(r.block()); err != nil {
		return nil, err
	}
	// A group takes at least nine bytes for each key and eight for each aggregate.
	groups := r.count(9*len(s.table.keys) + 8*len(s.aggregates))
	if groups > g.spec.limit {
		return nil, &StateLimitError{Limit: g.spec.limit}
	}
	// The kinds come first, because they make the form of the rows.
	kinds := r.take(uint64(len(s.table.keys) + len(s.aggregates)))
	for i, kind := range kinds {
		if valueKind(kind) > nestedKind {
			return nil, fmt.Errorf("unknown kind of values %d in snapshot", kind)
		}
		if i < len(s.table.keys) {
			s.table.keys[i] = newKeyColumn(valueKind(kind), i)
		} else {
			function := g.spec.aggregations[i-len(s.table.keys)].Function
			s.aggregates[i-len(s.table.keys)] = newAccumulator(function, valueKind(kind))
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := s.makeRows(groups); err != nil {
		return nil, err
	}
	for _, key := range s.table.keys {
		key.decode(r, groups)
	}
	for _, aggregate := range s.aggregates {
		aggregate.decode(r, groups)
	}
	if s.times != nil {
		s.times.decode(r, groups)
	}
	r.end()
	if r.err != nil {
		return nil, r.err
	}
	return s, s.finishRestore(groups)
}

// makeRows makes empty rows for groups, for key columns and aggregates whose
// kinds have been set.
func (s *groupState) makeRows(groups int) error {
	if s.spec.windowed && s.table.keys[len(s.spec.keys)].kind() != intKind {
		return errors.New("windows are not integers")
	}
	s.table.rows.reshape(0)
	s.arrange()
	s.table.rows.grow(groups)
	for _, side := range s.sides {
		side.grow(groups)
	}
	return nil
}

// finishRestore indexes groups whose rows have been filled.
func (s *groupState) finishRestore(groups int) error {
	if s.starts != nil {
		for group := range uint32(groups) {
			start := s.starts.at(group)
			if whole, ok := s.spec.window.startOf(start); !ok || whole != start || s.starts.isNull(&s.table.rows, group) {
				return fmt.Errorf("there is no window at %d", start)
			}
		}
	}
	if err := s.table.index(groups); err != nil {
		return err
	}
	s.reopen()
	s.compactAt = max(minCompaction, groups*2)
	s.mark()
	return nil
}

// encodeSchema returns a schema as an Arrow IPC stream with an empty batch; nil
// is empty.
func encodeSchema(schema *arrow.Schema) ([]byte, error) {
	if schema == nil {
		return nil, nil
	}
	columns := make([]arrow.Array, schema.NumFields())
	for i, field := range schema.Fields() {
		data := emptyData(field.Type)
		columns[i] = array.MakeFromData(data)
		data.Release()
	}
	defer releaseArrays(columns)
	batch := array.NewRecordBatch(schema, columns, 0)
	defer batch.Release()
	return NewIPCSerde(stateMemory).Serialize("", batch)
}

func decodeSchema(stream []byte) (*arrow.Schema, error) {
	if len(stream) == 0 {
		return nil, nil
	}
	batch, err := NewIPCSerde(stateMemory).Deserialize("", stream)
	if err != nil {
		return nil, err
	}
	defer batch.Release()
	return batch.Schema(), nil
}

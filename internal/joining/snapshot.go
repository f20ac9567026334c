// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/eventtime"
	"github.com/krabka-io/krabka-streams-go/internal/ipcstream"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// snapshotVersion is the version of the snapshot of a join, which is:
//
//	uint32 version
//	block  layout of the join
//	int64  latest timestamp of the left side, int64 of the right side
//	byte   kind of the keys
//	uint32 number of keys, keys
//	for each side:
//	    uint32 number of rows
//	    int64  timestamp of each row
//	    uint32 number of the key of each row
//	    uint32 number of batches, and for each a block with an Arrow IPC stream;
//	           the batches hold the columns of the rows in their order
//	uint32 CRC-32C of everything before it
const snapshotVersion = 2

// Layout identifies the form of the state: a snapshot is restored only into a
// state of the same layout.
func (s Spec) Layout() string {
	s = s.withPrefixes()
	return fmt.Sprintf("join/%d left=%q as %q right=%q as %q window=%dms", snapshotVersion,
		s.LeftKey, s.LeftPrefix, s.RightKey, s.RightPrefix, s.Window.Milliseconds())
}

// Snapshot returns the state, without the rows that may not have partners to come,
// as bytes that the caller owns.
func (j *State) Snapshot() ([]byte, error) {
	var w statebytes.Writer
	w.Uint32(snapshotVersion)
	w.Block([]byte(j.spec.Layout()))
	var live [2][]uint32
	used := make([]bool, j.keys.table.Groups)
	for i, side := range j.sides {
		w.Uint64(uint64(side.time))
		live[i] = side.live(j.window, j.sides[1-i].time)
		for _, row := range live[i] {
			used[side.rows[row].key] = true
		}
	}
	keys, numbers := numbered(used)
	w.Byte(byte(j.keys.kind()))
	w.Uint32(uint32(len(keys)))
	j.keys.table.Keys[0].Encode(&w, keys)
	for i, side := range j.sides {
		if err := side.encode(&w, live[i], numbers); err != nil {
			return nil, fmt.Errorf("cannot snapshot join state: %w", onSide(i, err))
		}
	}
	return w.Seal(), nil
}

func (s *sideRows) encode(w *statebytes.Writer, rows, numbers []uint32) error {
	chunks, err := s.chunksOf(rows)
	if err != nil {
		return err
	}
	w.Uint32(uint32(len(rows)))
	out := w.Extend(12 * len(rows))
	times, keys := out[:8*len(rows)], out[8*len(rows):]
	for i, row := range rows {
		binary.BigEndian.PutUint64(times[8*i:], uint64(s.rows[row].time))
		binary.BigEndian.PutUint32(keys[4*i:], numbers[s.rows[row].key])
	}
	w.Uint32(uint32(len(chunks)))
	codec := newStateCodec()
	for _, chunk := range chunks {
		stream, err := codec.Encode(chunk.batch)
		if err != nil {
			return err
		}
		w.Block(stream)
	}
	return nil
}

// Restore replaces the state by that of a snapshot, as a pending change. A snapshot
// of another [Spec] is a [keytable.StateLayoutError]; one that is damaged or of
// more rows than the limit is an error too, and after an error nothing has changed.
func (j *State) Restore(snapshot []byte) error {
	content, err := j.readSnapshot(snapshot)
	if err != nil {
		return err
	}
	if j.former == nil {
		former := j.content
		j.former = &former
	}
	j.content = *content
	return nil
}

func (j *State) readSnapshot(snapshot []byte) (*content, error) {
	head := statebytes.NewReader(snapshot)
	if head.Uint32() != snapshotVersion {
		return nil, errors.New("unsupported join snapshot version")
	}
	var content *content
	body, err := statebytes.Open(snapshot)
	if err == nil {
		content, err = j.readContent(statebytes.NewReader(body[4:]))
	}
	switch {
	case errors.Is(err, statebytes.ErrTrailingBytes):
		return nil, errors.New("trailing bytes in join snapshot")
	case err != nil:
		return nil, fmt.Errorf("cannot restore join state: %w", err)
	}
	content.keys.mark()
	for _, side := range content.sides {
		side.mark()
	}
	return content, nil
}

func (j *State) readContent(r *statebytes.Reader) (*content, error) {
	if layout := string(r.Block()); r.Err() == nil && layout != j.spec.Layout() {
		return nil, &keytable.StateLayoutError{Saved: layout, Want: j.spec.Layout()}
	}
	c := j.newContent()
	for _, side := range c.sides {
		side.time = r.Int64()
	}
	kind := arrays.Kind(r.Byte())
	if kind > arrays.NestedKind {
		return nil, fmt.Errorf("unknown kind of keys %d in snapshot", kind)
	}
	keys := r.Count(9)
	if r.Err() != nil {
		return nil, r.Err()
	}
	c.keys.arrange(kind)
	c.keys.table.Rows.Grow(keys)
	c.keys.table.Keys[0].Decode(r, keys)
	if r.Err() != nil {
		return nil, r.Err()
	}
	if err := c.keys.table.Index(keys); err != nil {
		return nil, err
	}
	for i, side := range c.sides {
		if err := side.decode(r, keys, j.spec.MaxRows); err != nil {
			return nil, onSide(i, err)
		}
	}
	r.End()
	if r.Err() != nil {
		return nil, r.Err()
	}
	for i, name := range []string{j.spec.LeftKey, j.spec.RightKey} {
		c.types[i] = c.sides[i].typeOf(name)
	}
	c.committedTypes = c.types
	for i, side := range c.sides {
		for row := range side.rows {
			if eventtime.Plus(side.rows[row].time, j.window) >= c.sides[1-i].time {
				c.keys.link(i, side.rows[row].key, uint32(row), side)
			}
		}
	}
	return &c, nil
}

func (s *sideRows) decode(r *statebytes.Reader, keys, limit int) error {
	rows := r.Count(12)
	if limit > 0 && rows > limit {
		return &keytable.StateLimitError{Limit: limit}
	}
	times, numbers := r.Take(uint64(rows)*8), r.Take(uint64(rows)*4)
	if r.Err() != nil {
		return r.Err()
	}
	s.rows = make([]keptRow, rows)
	for row := range s.rows {
		number := binary.BigEndian.Uint32(numbers[4*row:])
		if int(number) >= keys {
			return fmt.Errorf("there is no key %d", number)
		}
		s.rows[row] = keptRow{time: int64(binary.BigEndian.Uint64(times[8*row:])), key: number, next: keytable.None}
	}
	codec, start := newStateCodec(), 0
	for i := r.Count(8); i > 0 && r.Err() == nil; i-- {
		batch, err := ownBatch(codec, r.Block())
		if err != nil {
			return err
		}
		if batch.NumRows() == 0 {
			return errors.New("a batch is empty")
		}
		s.chunks = append(s.chunks, rowChunk{start: start, batch: batch})
		start += int(batch.NumRows())
	}
	if r.Err() == nil && start != rows {
		return fmt.Errorf("batches have %d rows, not %d", start, rows)
	}
	return r.Err()
}

// newStateCodec returns a codec of the batches in a snapshot.
func newStateCodec() *ipcstream.Codec {
	codec, _ := ipcstream.NewCodec(stateMemory, ipcstream.Limits{})
	return codec
}

// ownBatch reads a batch that shares no memory with the stream.
func ownBatch(codec *ipcstream.Codec, stream []byte) (arrow.RecordBatch, error) {
	return codec.Decode(append([]byte{}, stream...))
}

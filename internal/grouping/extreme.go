// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"bytes"
	"cmp"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/eventtime"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// replaces reports whether a value takes the place of the one that is held, to which it
// stands in that order.
func (f Function) replaces(order int) bool {
	switch f {
	case Min, AllTrue:
		return order < 0
	case Max, AnyTrue:
		return order > 0
	default:
		return f == Last
	}
}

// wordExtremeState keeps one value of a word kind, such as the least, as an integer
// that sorts like the value.
type wordExtremeState struct {
	nullableCell
	valueKind arrays.Kind
	function  Function

	batch   []int64 // of the loaded array
	nulls   arrays.Validity
	scratch []int64
}

func (s *wordExtremeState) kind() arrays.Kind { return s.valueKind }

func (s *wordExtremeState) load(arr arrow.Array) (err error) {
	s.nulls = arrays.ValidityOf(arr)
	s.batch, err = arrays.ReadWords(arr, &s.scratch, arrays.OrderedWord)
	return err
}

func (s *wordExtremeState) add(ids []uint32, first int) error {
	for i, id := range ids {
		if s.nulls.IsNull(first + i) {
			continue
		}
		word := s.batch[first+i]
		if s.valueKind == arrays.UintKind {
			word = orderedUint(word)
		}
		if former, valid := s.get(id); !valid || s.function.replaces(cmp.Compare(word, former)) {
			s.set(id, word)
		}
	}
	return nil
}

func (s *wordExtremeState) build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error) {
	column := s.column(s.valueKind, groups, &s.scratch)
	switch s.valueKind {
	case arrays.UintKind:
		for i, word := range column.Values {
			column.Values[i] = orderedUint(word)
		}
	case arrays.Float32Kind, arrays.Float64Kind:
		for i, word := range column.Values {
			column.Values[i] = int64(math.Float64bits(orderedFloat(word)))
		}
	}
	return column.Build(mem, dt)
}

// timeState keeps the latest event time of each group in one word, which is the
// time less noTime: a group without event time is zero.
type timeState struct {
	keytable.Cell
	scratch []int64
}

func (*timeState) Width() int { return 1 }

func (s *timeState) add(ids []uint32, times []int64, nulls arrays.Validity, first int) {
	words, stride, offset := s.Rows.Words, s.Rows.Stride, s.Offset
	times = times[first : first+len(ids)]
	for i, id := range ids {
		word := uint64(orderedUint(times[i]))
		if cell := &words[int(id)*stride+offset]; word > *cell && !nulls.IsNull(first+i) {
			*cell = word
		}
	}
}

func (s *timeState) build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error) {
	column := arrays.Words{Kind: arrays.IntKind, Values: arrays.Resized(&s.scratch, len(groups))}
	for i, group := range groups {
		if column.Values[i] = orderedUint(int64(*s.Word(group, 0))); column.Values[i] == eventtime.None {
			column.SetNull(i)
		}
	}
	return column.Build(mem, dt)
}

func (*timeState) encodedSize(groups []uint32) int { return 8 * len(groups) }

func (s *timeState) encode(w *statebytes.Writer, groups []uint32) { s.EncodeWords(w, groups, 0) }

func (s *timeState) decode(r *statebytes.Reader, groups int) { s.DecodeWords(r, groups, 0) }

// byteExtremeState keeps one text or bytes, such as the least, in copies of
// its own beside the rows. A nil value is null.
type byteExtremeState struct {
	keytable.Cell
	valueKind arrays.Kind
	function  Function

	current [][]byte
	saved   [][]byte

	batch arrays.Bytes // of the loaded array
	nulls arrays.Validity
}

func (*byteExtremeState) Width() int { return 0 }

func (s *byteExtremeState) kind() arrays.Kind { return s.valueKind }

func (s *byteExtremeState) load(arr arrow.Array) (err error) {
	s.nulls = arrays.ValidityOf(arr)
	s.batch, err = arrays.ReadBytes(arr)
	return err
}

func (s *byteExtremeState) add(ids []uint32, first int) error {
	for i, id := range ids {
		if s.nulls.IsNull(first + i) {
			continue
		}
		former, value := s.current[id], s.batch.At(first+i)
		if former == nil || s.function.replaces(bytes.Compare(value, former)) {
			s.current[id] = append([]byte{}, value...)
		}
	}
	return nil
}

func (s *byteExtremeState) grow(groups int) {
	s.current = append(s.current, make([][]byte, groups-len(s.current))...)
}

func (s *byteExtremeState) save(groups []uint32) {
	for _, group := range groups {
		s.saved = append(s.saved, s.current[group])
	}
}

func (s *byteExtremeState) restore(groups []uint32) {
	for i, group := range groups {
		s.current[group] = s.saved[i]
	}
	s.forget()
}

func (s *byteExtremeState) forget() {
	clear(s.saved)
	s.saved = s.saved[:0]
}

func (s *byteExtremeState) truncate(groups int) {
	clear(s.current[groups:])
	s.current = s.current[:groups]
}

func (s *byteExtremeState) keep(groups []uint32) { s.current = keytable.Kept(s.current, groups) }

func (s *byteExtremeState) build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error) {
	return arrays.BuildBytes(mem, dt, len(groups), func(i int) []byte { return s.current[groups[i]] })
}

func (s *byteExtremeState) encodedSize(groups []uint32) int {
	size := 9 * len(groups)
	for _, group := range groups {
		size += len(s.current[group])
	}
	return size
}

func (s *byteExtremeState) encode(w *statebytes.Writer, groups []uint32) {
	for _, group := range groups {
		value := s.current[group]
		w.Flag(value != nil)
		w.Uint64(uint64(len(value)))
	}
	for _, group := range groups {
		w.Append(s.current[group])
	}
}

func (s *byteExtremeState) decode(r *statebytes.Reader, groups int) {
	heads := statebytes.NewReader(r.Take(uint64(groups) * 9))
	if r.Err() != nil {
		return
	}
	for group := range groups {
		valid := heads.Byte() != 0
		if value := r.Take(uint64(heads.Int64())); valid && r.Err() == nil {
			s.current[group] = append([]byte{}, value...)
		}
	}
}

// orderedFloat is the inverse of arrays.OrderedWord.
func orderedFloat(word int64) float64 {
	return math.Float64frombits(uint64(word ^ (word >> 63 & math.MaxInt64)))
}

// orderedUint returns an integer that sorts like the unsigned one. It is its
// own inverse.
func orderedUint(word int64) int64 { return word ^ math.MinInt64 }

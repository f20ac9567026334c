// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/decimals"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
	"github.com/krabka-io/krabka-streams-go/internal/numtext"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// decimalState holds decimals of one scale, which grows with the columns that
// are added. A decimal takes four words, the lowest first, and one that is 1 if
// it is not null.
type decimalState struct {
	keytable.Cell
	scale  int32
	scaled bool // scale is known
	// committed is the scale at the latest commit.
	committed int32
	// saved are the rows that are remembered.
	saved *[]uint64

	batch   []decimal256.Num // of the loaded array, in scale
	nulls   arrays.Validity
	scratch []decimal256.Num
}

func (*decimalState) Width() int { return 5 }

func (s *decimalState) remember(saved *[]uint64) { s.saved = saved }

func (s *decimalState) settle() { s.committed = s.scale }

func (s *decimalState) unscale() {
	if s.scale != s.committed {
		// Numbers get shorter, so they fit.
		s.Rows.Words, _ = s.rescaledRows(s.Rows.Words, s.committed-s.scale)
		s.scale = s.committed
	}
}

func (s *decimalState) get(group uint32) (number decimal256.Num, valid bool) {
	return decimal256.New(*s.Word(group, 3), *s.Word(group, 2), *s.Word(group, 1), *s.Word(group, 0)), *s.Word(group, 4) != 0
}

func (s *decimalState) set(group uint32, number decimal256.Num) {
	for i, word := range number.Array() {
		*s.Word(group, i) = word
	}
	*s.Word(group, 4) = 1
}

func (*decimalState) kind() arrays.Kind { return arrays.DecimalKind }

// load takes the values of a column in the scale of the state.
func (s *decimalState) load(arr arrow.Array) error {
	s.nulls, s.batch = arrays.ValidityOf(arr), decimals.Of(arr, &s.scratch)
	dt, ok := arr.DataType().(arrow.DecimalType)
	if !ok || s.scaled && dt.GetScale() == s.scale {
		return nil
	}
	if err := s.widen(dt.GetScale()); err != nil {
		return err
	}
	more := s.scale - dt.GetScale()
	if more == 0 {
		return nil
	}
	scaled := make([]decimal256.Num, len(s.batch))
	for row, number := range s.batch {
		if s.nulls.IsNull(row) {
			continue
		}
		if scaled[row], ok = decimals.Rescaled(number, more); !ok {
			return namedcols.AtRow(row, decimals.ErrOverflow)
		}
	}
	s.batch = scaled
	return nil
}

// widen makes the scale of the state at least scale, also in what is
// remembered.
func (s *decimalState) widen(scale int32) error {
	more := scale - s.scale
	if s.scaled && more <= 0 {
		return nil
	}
	if s.scaled {
		words, err := s.rescaledRows(s.Rows.Words, more)
		if err != nil {
			return err
		}
		saved, err := s.rescaledRows(*s.saved, more)
		if err != nil {
			return err
		}
		s.Rows.Words, *s.saved = words, saved
	}
	s.scale, s.scaled = scale, true
	return nil
}

func (s *decimalState) rescaledRows(words []uint64, more int32) ([]uint64, error) {
	scratch := keytable.Rows{Words: slices.Clone(words), Stride: s.Rows.Stride}
	moved := decimalState{Cell: keytable.Cell{Rows: &scratch, Offset: s.Offset}}
	for group := range uint32(len(words) / scratch.Stride) {
		number, valid := moved.get(group)
		if !valid {
			continue
		}
		number, ok := decimals.Rescaled(number, more)
		if !ok {
			return nil, decimals.ErrOverflow
		}
		moved.set(group, number)
	}
	return scratch.Words, nil
}

func (s *decimalState) build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error) {
	plain, ok := arrays.PlainType(dt).(arrow.DecimalType)
	if !ok || plain.GetScale() != s.scale {
		return arrays.Build(mem, dt, len(groups), func(i int) any {
			if number, valid := s.get(groups[i]); valid {
				return numtext.Rat(number.BigInt(), s.scale)
			}
			return nil
		})
	}
	values := arrays.NewBuffer(mem, len(groups)*plain.BitWidth()/8)
	defer values.Release()
	var nulls []bool
	for i, group := range groups {
		number, valid := s.get(group)
		if !valid && nulls == nil {
			nulls = make([]bool, len(groups))
		}
		if nulls != nil {
			nulls[i] = !valid
		}
		if valid && !number.FitsInPrecision(plain.GetPrecision()) {
			return nil, fmt.Errorf("decimal overflow: %s does not fit %s", number.ToString(s.scale), plain)
		}
		words := number.Array()
		switch plain.ID() {
		case arrow.DECIMAL32:
			arrays.Cast[int32](values.Bytes())[i] = int32(words[0])
		case arrow.DECIMAL64:
			arrays.Cast[int64](values.Bytes())[i] = int64(words[0])
		case arrow.DECIMAL128:
			arrays.Cast[decimal128.Num](values.Bytes())[i] = decimal128.New(int64(words[1]), words[0])
		default:
			arrays.Cast[decimal256.Num](values.Bytes())[i] = number
		}
	}
	return arrays.Dress(mem, arrays.Finish(mem, plain, len(groups), nulls, values), dt)
}

func (*decimalState) encodedSize(groups []uint32) int { return 5 + 33*len(groups) }

func (s *decimalState) encode(w *statebytes.Writer, groups []uint32) {
	w.Flag(s.scaled)
	w.Uint32(uint32(s.scale))
	for _, group := range groups {
		number, valid := s.get(group)
		w.Flag(valid)
		for _, word := range number.Array() {
			w.Uint64(word)
		}
	}
}

func (s *decimalState) decode(r *statebytes.Reader, groups int) {
	s.scaled, s.scale = r.Byte() != 0, int32(r.Uint32())
	if s.scale < -decimals.MaxScale || s.scale > decimals.MaxScale {
		r.Fail(fmt.Errorf("scale %d of decimals is out of range in snapshot", s.scale))
	}
	entries := statebytes.NewReader(r.Take(uint64(groups) * 33))
	if r.Err() != nil {
		return
	}
	for group := range uint32(groups) {
		valid := entries.Byte() != 0
		var words [4]uint64
		for j := range words {
			words[j] = uint64(entries.Int64())
		}
		if valid {
			s.set(group, decimal256.New(words[3], words[2], words[1], words[0]))
		}
	}
}

// decimalSumState adds decimals.
type decimalSumState struct{ decimalState }

func (s *decimalSumState) add(ids []uint32, first int) error {
	for i, id := range ids {
		if s.nulls.IsNull(first + i) {
			continue
		}
		former, _ := s.get(id)
		number := s.batch[first+i]
		sum := former.Add(number)
		if negative := former.Sign() < 0; negative == (number.Sign() < 0) && negative != (sum.Sign() < 0) {
			return namedcols.AtRow(first+i, decimals.ErrOverflow)
		}
		s.set(id, sum)
	}
	return nil
}

// decimalExtremeState keeps one decimal, such as the least.
type decimalExtremeState struct {
	decimalState
	function Function
}

func (s *decimalExtremeState) add(ids []uint32, first int) error {
	for i, id := range ids {
		if s.nulls.IsNull(first + i) {
			continue
		}
		number := s.batch[first+i]
		if former, valid := s.get(id); !valid || s.function.replaces(number.Cmp(former)) {
			s.set(id, number)
		}
	}
	return nil
}

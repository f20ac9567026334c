// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// wideInt is a 127-bit integer, or the absence of one. Bit 0 of high says
// whether there is one, the bits above it continue low.
type wideInt struct {
	high int64
	low  uint64
}

// plus returns the sum of w, if there is one, and a 128-bit integer.
func (w wideInt) plus(high int64, low uint64) wideInt {
	sum, carry := bits.Add64(w.low, low, 0)
	return wideInt{high: (w.high + (high+int64(carry))<<1) | 1, low: sum}
}

func (w wideInt) isNull() bool { return w.high&1 == 0 }

// maxWideBits is the size of integers that are taken in. What is left holds the
// sum of any number of 64-bit integers.
const maxWideBits = 125

// hasRoom reports whether w is no larger than integers that are taken in.
func (w wideInt) hasRoom() bool {
	high := w.high >> 1
	return high>>(maxWideBits-64) == high>>63
}

// int64 returns the integer, if it fits.
func (w wideInt) int64() (int64, bool) {
	value := int64(w.low)
	return value, w.high>>1 == value>>63
}

// uint64 returns the integer, if it fits.
func (w wideInt) uint64() (uint64, bool) { return w.low, w.high>>1 == 0 }

func (w wideInt) big() *big.Int {
	value := new(big.Int).Lsh(big.NewInt(w.high>>1), 64)
	return value.Add(value, new(big.Int).SetUint64(w.low))
}

// wideIntOf returns value, if it fits.
func wideIntOf(value *big.Int) (wideInt, bool) {
	if value.BitLen() > maxWideBits {
		return wideInt{}, false
	}
	low := new(big.Int).And(value, new(big.Int).SetUint64(math.MaxUint64))
	return wideInt{}.plus(new(big.Int).Rsh(value, 64).Int64(), low.Uint64()), true
}

// intSumState adds integers, booleans and integers in text. A sum takes the
// words high and low of a wideInt.
type intSumState struct {
	keytable.Cell
	null bool // all input was null so far

	batch    []int64 // of the loaded array
	unsigned bool
	texts    *arrays.Bytes // of the loaded array, if it is text
	nulls    arrays.Validity
	scratch  []int64
}

func (*intSumState) Width() int { return 2 }

func (s *intSumState) kind() arrays.Kind {
	if s.null {
		return arrays.AnyKind
	}
	return arrays.IntKind
}

func (s *intSumState) load(arr arrow.Array) (err error) {
	s.nulls, s.unsigned, s.texts = arrays.ValidityOf(arr), arr.DataType().ID() == arrow.UINT64, nil
	if arrays.KindOf(arr.DataType()) == arrays.TextKind {
		texts, err := arrays.ReadBytes(arr)
		s.texts = &texts
		return err
	}
	s.batch, err = arrays.ReadWords(arr, &s.scratch, nil)
	return err
}

func (s *intSumState) sum(group uint32) wideInt {
	return wideInt{high: int64(*s.Word(group, 0)), low: *s.Word(group, 1)}
}

func (s *intSumState) set(group uint32, sum wideInt) {
	*s.Word(group, 0), *s.Word(group, 1) = uint64(sum.high), sum.low
}

func (s *intSumState) add(ids []uint32, first int) error {
	if s.texts != nil {
		return s.addTexts(ids, first)
	}
	batch := s.batch[first : first+len(ids)]
	if s.nulls.HasNulls() || s.unsigned {
		for i, id := range ids {
			if s.nulls.IsNull(first + i) {
				continue
			}
			high := batch[i] >> 63
			if s.unsigned {
				high = 0
			}
			s.set(id, s.sum(id).plus(high, uint64(batch[i])))
		}
		return nil
	}
	words, stride, offset := s.Rows.Words, s.Rows.Stride, s.Offset
	for i, id := range ids {
		cell := words[int(id)*stride+offset:][:2]
		sum := wideInt{high: int64(cell[0]), low: cell[1]}.plus(batch[i]>>63, uint64(batch[i]))
		cell[0], cell[1] = uint64(sum.high), sum.low
	}
	return nil
}

func (s *intSumState) addTexts(ids []uint32, first int) error {
	for i, id := range ids {
		if s.nulls.IsNull(first + i) {
			continue
		}
		wide, err := parseWideInt(s.texts.At(first + i))
		if err != nil {
			return namedcols.AtRow(first+i, err)
		}
		sum := s.sum(id).plus(wide.high>>1, wide.low)
		if !sum.hasRoom() {
			return namedcols.AtRow(first+i, fmt.Errorf("integer overflow: %s needs more than %d bits", sum.big(), maxWideBits))
		}
		s.set(id, sum)
	}
	return nil
}

// parseWideInt reads an integer: a sign and decimal digits.
func parseWideInt(text []byte) (wideInt, error) {
	if len(text) > keytable.MaxDigits || !isIntegerText(text) {
		return wideInt{}, fmt.Errorf("not an integer: %q", text)
	}
	number, ok := new(big.Int).SetString(string(text), 10)
	if !ok {
		return wideInt{}, fmt.Errorf("not an integer: %q", text)
	}
	wide, ok := wideIntOf(number)
	if !ok {
		return wideInt{}, fmt.Errorf("integer overflow: %s", text)
	}
	return wide, nil
}

func isIntegerText(text []byte) bool {
	for i, c := range text {
		if (c < '0' || c > '9') && (i > 0 || c != '-' && c != '+') {
			return false
		}
	}
	return true
}

func (s *intSumState) build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error) {
	plain := arrays.PlainType(dt)
	unsigned := plain.ID() == arrow.UINT64
	if !unsigned && arrays.KindOf(plain) != arrays.IntKind {
		return arrays.Build(mem, dt, len(groups), func(i int) any {
			if sum := s.sum(groups[i]); !sum.isNull() {
				return sum.big()
			}
			return nil
		})
	}
	column := arrays.Words{Kind: arrays.IntKind, Values: arrays.Resized(&s.scratch, len(groups))}
	if unsigned {
		column.Kind = arrays.UintKind
	}
	for i, group := range groups {
		sum, fits := s.sum(group), true
		switch {
		case sum.isNull():
			column.SetNull(i)
			continue
		case unsigned:
			var word uint64
			word, fits = sum.uint64()
			column.Values[i] = int64(word)
		default:
			column.Values[i], fits = sum.int64()
		}
		if !fits {
			return nil, fmt.Errorf("integer overflow: %s does not fit %s", sum.big(), plain)
		}
	}
	return column.Build(mem, dt)
}

func (*intSumState) encodedSize(groups []uint32) int { return 16 * len(groups) }

func (s *intSumState) encode(w *statebytes.Writer, groups []uint32) {
	words, stride, offset := s.Rows.Words, s.Rows.Stride, s.Offset
	out := w.Extend(16 * len(groups))
	for _, group := range groups {
		sum := words[int(group)*stride+offset:][:2]
		binary.BigEndian.PutUint64(out[:8], sum[0])
		binary.BigEndian.PutUint64(out[8:16], sum[1])
		out = out[16:]
	}
}

func (s *intSumState) decode(r *statebytes.Reader, groups int) {
	words, stride, at := s.Rows.Words, s.Rows.Stride, s.Offset
	for in := r.Take(uint64(groups) * 16); len(in) >= 16; in = in[16:] {
		words[at], words[at+1] = binary.BigEndian.Uint64(in), binary.BigEndian.Uint64(in[8:])
		at += stride
	}
}

// nullableCell is a place for 64 bits or a null in every row: the bits, and a
// word that is 1 if there are any.
type nullableCell struct{ keytable.Cell }

func (*nullableCell) Width() int { return 2 }

func (c *nullableCell) get(group uint32) (word int64, valid bool) {
	return int64(*c.Word(group, 0)), *c.Word(group, 1) != 0
}

func (c *nullableCell) set(group uint32, word int64) {
	*c.Word(group, 0), *c.Word(group, 1) = uint64(word), 1
}

// column returns the values of groups.
func (c *nullableCell) column(kind arrays.Kind, groups []uint32, scratch *[]int64) arrays.Words {
	column := arrays.Words{Kind: kind, Values: arrays.Resized(scratch, len(groups))}
	for i, group := range groups {
		word, valid := c.get(group)
		if column.Values[i] = word; !valid {
			column.SetNull(i)
		}
	}
	return column
}

func (*nullableCell) encodedSize(groups []uint32) int { return 9 * len(groups) }

func (c *nullableCell) encode(w *statebytes.Writer, groups []uint32) {
	c.EncodeWords(w, groups, 0)
	out := w.Extend(len(groups))
	for i, group := range groups {
		out[i] = 0
		if *c.Word(group, 1) != 0 {
			out[i] = 1
		}
	}
}

func (c *nullableCell) decode(r *statebytes.Reader, groups int) {
	c.DecodeWords(r, groups, 0)
	for group, flag := range r.Take(uint64(groups)) {
		if flag != 0 {
			*c.Word(uint32(group), 1) = 1
		} else {
			*c.Word(uint32(group), 0) = 0
		}
	}
}

// floatSumState adds floats. The words are the bits of the sums.
type floatSumState struct {
	nullableCell
	batch   []int64 // of the loaded array
	nulls   arrays.Validity
	scratch []int64
}

func (*floatSumState) kind() arrays.Kind { return arrays.Float64Kind }

func (s *floatSumState) load(arr arrow.Array) (err error) {
	s.nulls = arrays.ValidityOf(arr)
	if arr.DataType().ID() == arrow.FLOAT64 {
		s.batch = arrays.FixedValues[int64](arr)
		return nil
	}
	s.batch, err = arrays.ReadWords(arr, &s.scratch, func(f float64) int64 { return int64(math.Float64bits(f)) })
	return err
}

func (s *floatSumState) add(ids []uint32, first int) error {
	for i, id := range ids {
		if s.nulls.IsNull(first + i) {
			continue
		}
		word, valid := s.get(id)
		if valid {
			sum := math.Float64frombits(uint64(word)) + math.Float64frombits(uint64(s.batch[first+i]))
			s.set(id, int64(math.Float64bits(sum)))
		} else {
			s.set(id, s.batch[first+i])
		}
	}
	return nil
}

func (s *floatSumState) build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error) {
	column := s.column(arrays.Float64Kind, groups, &s.scratch)
	return column.Build(mem, dt)
}

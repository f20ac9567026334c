// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/decimals"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

// vector is a column while an expression is computed. Which of the slices is
// used depends on the kind. A vector of one value, such as a literal, has it in
// place 0 for all rows.
type vector struct {
	kind    arrays.Kind
	words   []int64          // integers; floats as the bits of a float64
	truths  []bool           // booleans
	bytes   arrays.Bytes     // text and bytes
	when    arrow.DataType   // plain type of integers that are dates or times; nil otherwise
	numbers []decimal256.Num // decimals, unscaled
	scale   int32
	nulls   []bool // nil without nulls
	one     bool
}

// mask makes a place of a row: row&mask.
func (v *vector) mask() int {
	if v.one {
		return 0
	}
	return -1
}

func (v *vector) isNull(row int) bool { return v.nulls != nil && v.nulls[row&v.mask()] }

func (v *vector) text(row int) []byte { return v.bytes.At(row & v.mask()) }

// readVector returns a plain array as a vector that borrows its memory.
func readVector(arr arrow.Array, into *vectorScratch) (vector, error) {
	v := vector{kind: arrays.KindOf(arr.DataType()), when: timeTypeOf(arr.DataType())}
	if nulls := arrays.ValidityOf(arr); nulls.HasNulls() {
		v.nulls = arrays.Resized(&into.nulls, arr.Len())
		for row := range v.nulls {
			v.nulls[row] = nulls.IsNull(row)
		}
	}
	var err error
	switch v.kind {
	case arrays.BoolKind:
		v.truths = arrays.Resized(&into.truths, arr.Len())
		bits := arr.(*array.Boolean)
		for row := range v.truths {
			v.truths[row] = bits.Value(row)
		}
	case arrays.Float64Kind:
		v.words = arrays.FixedValues[int64](arr)
	case arrays.IntKind, arrays.UintKind, arrays.Float32Kind:
		v.words, err = arrays.ReadWords(arr, &into.words, func(f float64) int64 { return int64(math.Float64bits(f)) })
		if v.kind == arrays.Float32Kind {
			v.kind = arrays.Float64Kind
		}
	case arrays.TextKind, arrays.BytesKind:
		v.bytes, err = arrays.ReadBytes(arr)
	case arrays.DecimalKind:
		v.numbers = decimals.Of(arr, &into.numbers)
		v.scale = arr.DataType().(arrow.DecimalType).GetScale()
	}
	return v, err
}

// vectorScratch is memory that one step of an expression uses again for each
// batch.
type vectorScratch struct {
	words   []int64
	truths  []bool
	nulls   []bool
	numbers []decimal256.Num
	data    []byte
}

// mergedNulls returns which rows are null in any of vectors, or nil.
func (s *vectorScratch) mergedNulls(rows int, vectors ...*vector) []bool {
	var nulls []bool
	for _, v := range vectors {
		if v.nulls == nil {
			continue
		}
		if nulls == nil {
			nulls = arrays.Resized(&s.nulls, rows)
			clear(nulls)
		}
		mask := v.mask()
		for row := range nulls {
			nulls[row] = nulls[row] || v.nulls[row&mask]
		}
	}
	return nulls
}

// naturalType returns the type of a column of computed values.
func (v *vector) naturalType() arrow.DataType {
	switch v.kind {
	case arrays.IntKind:
		if v.when != nil {
			return v.when
		}
		return arrow.PrimitiveTypes.Int64
	case arrays.UintKind:
		return arrow.PrimitiveTypes.Uint64
	case arrays.BoolKind:
		return arrow.FixedWidthTypes.Boolean
	case arrays.Float64Kind:
		return arrow.PrimitiveTypes.Float64
	case arrays.TextKind:
		return arrow.BinaryTypes.String
	case arrays.BytesKind:
		return arrow.BinaryTypes.Binary
	case arrays.DecimalKind:
		return &arrow.Decimal128Type{Precision: computedDigits, Scale: v.scale}
	default:
		return arrow.Null
	}
}

// computedDigits is the precision of computed decimals.
const computedDigits = 38

// build returns the vector as an array of type dt with that many rows. Rows for
// which ignored is true are null. The caller owns the array.
func (v *vector) build(mem memory.Allocator, dt arrow.DataType, rows int, ignored []bool) (arrow.Array, error) {
	isNull := func(row int) bool { return v.isNull(row) || ignored != nil && ignored[row] }
	mask := v.mask()
	if v.when != nil {
		switch target := timeTypeOf(dt); {
		case target != nil && !arrow.TypeEqual(target, v.when):
			return v.buildTimes(mem, dt, target, rows, isNull)
		case arrays.KindOf(dt) == arrays.TextKind:
			return v.buildTimeTexts(mem, dt, rows, isNull)
		}
	}
	switch v.kind {
	case arrays.IntKind, arrays.UintKind, arrays.Float64Kind, arrays.BoolKind:
		column := arrays.Words{Kind: v.kind, Values: make([]int64, rows)}
		for row := range column.Values {
			switch {
			case isNull(row):
				column.SetNull(row)
			case v.kind != arrays.BoolKind:
				column.Values[row] = v.words[row&mask]
			case v.truths[row&mask]:
				column.Values[row] = 1
			}
		}
		return column.Build(mem, dt)
	case arrays.TextKind, arrays.BytesKind:
		if kind := arrays.KindOf(dt); kind == arrays.TextKind || kind == arrays.BytesKind {
			return arrays.BuildBytes(mem, dt, rows, func(row int) []byte {
				if isNull(row) {
					return nil
				}
				return notNil(v.text(row))
			})
		}
		return arrays.Build(mem, dt, rows, func(row int) any {
			if isNull(row) {
				return nil
			}
			return string(v.text(row))
		})
	case arrays.DecimalKind:
		return arrays.Build(mem, dt, rows, func(row int) any {
			if isNull(row) {
				return nil
			}
			return numtext.Rat(v.numbers[row&mask].BigInt(), v.scale)
		})
	case arrays.AnyKind:
		return arrays.Nulls(mem, dt, rows)
	default:
		return nil, fmt.Errorf("cannot compute values that are %s", v.kind)
	}
}

// buildTimes returns dates or times as an array of another type of them.
func (v *vector) buildTimes(mem memory.Allocator, dt, target arrow.DataType, rows int, isNull func(row int) bool) (arrow.Array, error) {
	column, mask := arrays.Words{Kind: arrays.IntKind, Values: make([]int64, rows)}, v.mask()
	for row := range column.Values {
		if isNull(row) {
			column.SetNull(row)
			continue
		}
		var err error
		if column.Values[row], err = castTime(v.words[row&mask], v.when, target); err != nil {
			return nil, namedcols.AtRow(row, err)
		}
	}
	return column.Build(mem, dt)
}

func (v *vector) buildTimeTexts(mem memory.Allocator, dt arrow.DataType, rows int, isNull func(row int) bool) (arrow.Array, error) {
	texts, mask := make([][]byte, rows), v.mask()
	for row := range texts {
		if isNull(row) {
			continue
		}
		text, err := timeText(v.words[row&mask], v.when)
		if err != nil {
			return nil, namedcols.AtRow(row, err)
		}
		texts[row] = []byte(text)
	}
	return arrays.BuildBytes(mem, dt, rows, func(row int) []byte { return texts[row] })
}

func notNil(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

// bigEndian returns integers as eight bytes each.
func (v *vector) bigEndian(data *[]byte) vector {
	bytes := (*data)[:0]
	for _, word := range v.words {
		bytes = binary.BigEndian.AppendUint64(bytes, uint64(word))
	}
	*data = bytes
	return vector{kind: arrays.BytesKind, bytes: arrays.Bytes{Data: bytes, Width: 8}, nulls: v.nulls, one: v.one}
}

// inFinerUnit converts counts to a unit that is not coarser.
func (v *vector) inFinerUnit(words []int64, to arrow.DataType, fail func(row int, err error) error) error {
	factor := nanosOf(v.when) / nanosOf(to)
	for row := range words {
		word, ok := multiplied(v.words[row], factor)
		if words[row] = word; !ok {
			if err := fail(row, fmt.Errorf("%w: %d of %s as %s", errTimeUnitRange, v.words[row], v.when, to)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inMillis returns integers, which are taken as milliseconds, or timestamps as
// milliseconds since the Unix epoch, rounded down.
func (v *vector) inMillis() (vector, error) {
	result := *v
	result.when = nil
	if v.kind != arrays.IntKind || v.when == nil {
		return result, nil
	}
	unit, millis := nanosOf(v.when), int64(time.Millisecond)
	result.words = make([]int64, len(v.words))
	for row, word := range v.words {
		ok := true
		if unit > millis {
			result.words[row], ok = multiplied(word, unit/millis)
		} else {
			result.words[row], _ = numtext.FloorDivMod(word, millis/unit)
		}
		if !ok && !v.isNull(row) {
			return vector{}, namedcols.AtRow(row, fmt.Errorf("timestamp %d of %s is out of range", word, v.when))
		}
	}
	return result, nil
}

// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

var (
	errNullValue   = errors.New("null in a field that cannot be null")
	errTextUTF8    = errors.New("text is not valid UTF-8")
	errNoBranch    = errors.New("no branch of the union is set")
	errTwoBranches = errors.New("several branches of the union are set")
)

// avroWriteCode is what an avroColumn writes.
type avroWriteCode uint8

const (
	writeBool avroWriteCode = iota
	writeInt32
	writeInt64
	writeScaled // an int64 in another unit
	writeFloat
	writeDouble
	writeWidened // a float as double
	writeString
	writeBytes
	writeFixed
	writeDecimal
	writeSymbol      // text of an enum
	writeSymbolIndex // dictionary of an enum
	writeDictionary  // dictionary of anything else
	writeList
	writeMap
	writeRecord
	writeUnion
	writeText     // JSON of a recursive value
	writeNull     // nothing, for a column of nulls
	writeConstant // the default of a field without a column
)

// avroColumn writes the values of one column of a batch. What most columns need for
// each value comes first.
type avroColumn struct {
	code   avroWriteCode
	ascii  bool // all texts are
	branch int  // of the value in a union, or -1

	valid      []byte // bits, nil where no value is null
	validStart int    // position of the first value's bit

	ints  []int32 // values of four bytes, or offsets
	longs []int64 // values of eight bytes
	bytes []byte  // what offsets count, values of size bytes each, or bits of booleans
	size  int
	kids  []avroColumn

	null     int // branch of null in a union, or -1
	bitStart int // position of the first boolean
	path     string
	schema   *avroplan.Schema
	factor   int64        // see scale
	limit    decimalWords // 10 to the power of the precision
	symbols  map[string]int
	index    func(row int) int // of a dictionary
	data     []byte            // of a constant
}

// avroRowWriter writes the rows of one batch.
type avroRowWriter struct{ fields []avroColumn }

func (w *avroRowWriter) appendRow(dst []byte, row int) ([]byte, error) {
	return appendAvro(w.fields, dst, row)
}

// fail returns the error of a value.
func (w *avroColumn) fail(cause error) error { return &ValueError{Column: w.path, Cause: cause} }

// isNull reports whether the value of a row is null.
func (w *avroColumn) isNull(row int) bool {
	at := w.validStart + row
	return w.valid != nil && w.valid[at>>3]&(1<<(at&7)) == 0
}

// avroRoom is room in an arena for all but long values, with what is written beyond
// a value and then overwritten by the next.
const avroRoom = 32

// appendAvro writes the values of a row, with their branches in unions.
func appendAvro(columns []avroColumn, dst []byte, row int) ([]byte, error) {
	for i := range columns {
		w := &columns[i]
		if w.valid != nil && w.isNull(row) {
			var err error
			if dst, err = w.appendNull(dst); err != nil {
				return dst, err
			}
			continue
		}
		if cap(dst)-len(dst) < avroRoom {
			dst = growAvro(dst)
		}
		if w.branch >= 0 {
			dst = avroplan.AppendLong(dst, int64(w.branch))
		}
		switch w.code {
		case writeInt32:
			dst = avroplan.AppendLong(dst, int64(w.ints[row]))
		case writeInt64:
			dst = avroplan.AppendLong(dst, w.longs[row])
		case writeFloat:
			dst = binary.LittleEndian.AppendUint32(dst, uint32(w.ints[row]))
		case writeDouble:
			dst = binary.LittleEndian.AppendUint64(dst, uint64(w.longs[row]))
		case writeBool:
			at := w.bitStart + row
			dst = append(dst, w.bytes[at>>3]>>(at&7)&1)
		case writeString, writeBytes:
			from, to := int(w.ints[row]), int(w.ints[row+1])
			if w.code == writeString && !w.ascii && !utf8.Valid(w.bytes[from:to]) {
				return dst, w.fail(errTextUTF8)
			}
			if size := to - from; size <= wordsText && from+wordsText <= len(w.bytes) && cap(dst)-len(dst) > wordsText {
				at := len(dst) + 1
				dst = dst[:at+wordsText]
				dst[at-1] = byte(size << 1)
				*(*[wordsText]byte)(dst[at:]) = *(*[wordsText]byte)(w.bytes[from:])
				dst = dst[:at+size]
			} else {
				dst = avroplan.AppendBytes(dst, w.bytes[from:to])
			}
		case writeFixed:
			dst = append(dst, w.bytes[row*w.size:(row+1)*w.size]...)
		default:
			var err error
			if dst, err = w.appendNested(dst, row); err != nil {
				return dst, err
			}
		}
	}
	return dst, nil
}

// growAvro makes room for the next value.
func growAvro(dst []byte) []byte { return slices.Grow(dst, avroRoom) }

// appendNested writes a value that consists of others.
func (w *avroColumn) appendNested(dst []byte, row int) ([]byte, error) {
	switch w.code {
	case writeRecord:
		return appendAvro(w.kids, dst, row)
	case writeList, writeMap:
		return w.appendItems(dst, row)
	case writeUnion:
		return w.appendUnion(dst, row)
	case writeDecimal:
		return w.appendDecimal(dst, row)
	}
	return w.appendRare(dst, row)
}

func (w *avroColumn) appendNull(dst []byte) ([]byte, error) {
	if w.null < 0 {
		return dst, w.fail(errNullValue)
	}
	return avroplan.AppendLong(dst, int64(w.null)), nil
}

// appendRare is append for what schemas have less often.
func (w *avroColumn) appendRare(dst []byte, row int) ([]byte, error) {
	switch w.code {
	case writeScaled:
		v, err := w.scale(w.longs[row])
		if err != nil {
			return dst, w.fail(err)
		}
		return avroplan.AppendLong(dst, v), nil
	case writeWidened:
		return avroplan.AppendDouble(dst, float64(math.Float32frombits(uint32(w.ints[row])))), nil
	case writeSymbol:
		v := w.bytes[w.ints[row]:w.ints[row+1]]
		symbol, ok := w.symbols[string(v)]
		if !ok {
			return dst, w.fail(fmt.Errorf("%q is no symbol of enum %s", v, w.schema.Name))
		}
		return avroplan.AppendLong(dst, int64(symbol)), nil
	case writeSymbolIndex:
		symbol := w.ints[w.index(row)]
		if symbol < 0 {
			return dst, w.fail(fmt.Errorf("value %d of the dictionary is no symbol of enum %s", w.index(row), w.schema.Name))
		}
		return avroplan.AppendLong(dst, int64(symbol)), nil
	case writeDictionary:
		return appendAvro(w.kids, dst, w.index(row))
	case writeText:
		out, err := appendFromText(dst, w.schema, w.bytes[w.ints[row]:w.ints[row+1]])
		if err != nil {
			return dst, w.fail(err)
		}
		return out, nil
	case writeConstant:
		return append(dst, w.data...), nil
	}
	return w.appendNull(dst)
}

// scale converts a time between units: a positive factor multiplies, a negative
// one divides by its amount.
func (w *avroColumn) scale(v int64) (int64, error) {
	switch {
	case w.factor > 0:
		if v > math.MaxInt64/w.factor || v < math.MinInt64/w.factor {
			return 0, fmt.Errorf("%d exceeds a %v", v, w.schema.Logical)
		}
		v *= w.factor
	case w.factor < 0:
		if v%-w.factor != 0 {
			return 0, fmt.Errorf("%d is no whole number of units of %v", v, w.schema.Logical)
		}
		v /= -w.factor
	}
	if w.schema.Kind == avroplan.Int && int64(int32(v)) != v {
		return 0, fmt.Errorf("%d exceeds a %v", v, w.schema.Logical)
	}
	return v, nil
}

// appendItems writes an array or a map as one block.
func (w *avroColumn) appendItems(dst []byte, row int) ([]byte, error) {
	from, to := int(w.ints[row]), int(w.ints[row+1])
	if from < to {
		dst = avroplan.AppendLong(dst, int64(to-from))
	}
	var err error
	for at := from; at < to; at++ {
		if dst, err = appendAvro(w.kids, dst, at); err != nil {
			return dst, err
		}
	}
	return append(dst, 0), nil
}

func (w *avroColumn) appendDecimal(dst []byte, row int) ([]byte, error) {
	var v decimalWords
	v.setMemory(w.bytes[row*w.size : (row+1)*w.size])
	if !v.below(&w.limit) {
		return dst, w.fail(fmt.Errorf("the number has more digits than decimal(%d,%d)", w.schema.Precision, w.schema.Scale))
	}
	if w.schema.Kind == avroplan.Fixed {
		out, fits := v.appendBytes(dst, w.schema.Size)
		if !fits {
			return dst, w.fail(fmt.Errorf("the number does not fit the %d bytes of %s", w.schema.Size, w.schema.Name))
		}
		return out, nil
	}
	start := len(dst)
	if v.short() {
		size := max(1, (bits.Len64(v[0]^uint64(int64(v[0])>>63))+8)/8) // with the sign
		dst = append(dst, byte(size<<1))
		for shift := 8*size - 8; shift >= 0; shift -= 8 {
			dst = append(dst, byte(v[0]>>shift))
		}
		return dst, nil
	}
	out, _ := v.appendBytes(append(dst, 0), 0)
	out[start] = byte(len(out)-start-1) << 1 // at most 32 bytes
	return out, nil
}

// appendUnion writes the branch whose column is set.
func (w *avroColumn) appendUnion(dst []byte, row int) ([]byte, error) {
	chosen := -1
	for i := range w.kids {
		if w.kids[i].isNull(row) || w.kids[i].code == writeNull {
			continue
		}
		if chosen >= 0 {
			return dst, w.fail(errTwoBranches)
		}
		chosen = i
	}
	if chosen < 0 {
		return dst, w.fail(errNoBranch)
	}
	return appendAvro(w.kids[chosen:chosen+1], dst, row)
}

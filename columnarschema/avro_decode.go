// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
	"github.com/krabka-io/krabka-streams-go/internal/columnset"
)

// avroCode is what an avroOp does.
type avroCode uint8

const (
	avroBool       avroCode = iota
	avroInt                 // an int as it is
	avroIntLong             // an int as a long
	avroLong                // a long as it is
	avroLongNode            // a long that is promoted or in another unit
	avroFloat               // a float as it is
	avroFloatNode           // a float that is promoted
	avroDouble              // a double as it is
	avroDoubleNode          // a double that is promoted
	avroString
	avroBytes
	avroFixed
	avroSymbol      // an enum as text
	avroSymbolIndex // an enum as index of a dictionary
	avroDecimalBytes
	avroDecimalFixed
	avroNullable // a union of null and another type
	avroChoose   // any union of the writer
	avroBranch   // one branch of a union that is a struct column
	avroStruct
	avroRecord // the record of all columns, below a union
	avroList
	avroMap
	avroText     // JSON text of a recursive value
	avroNull     // no bytes, and a null
	avroConstant // no bytes, and a constant
	avroDefault  // no bytes, and the default of a field
	avroSkip     // bytes without a column
	avroSkipLong
	avroSkipBytes
	avroFail
)

// avroOp reads one datum into one column. Ops are compiled once for a pair of
// schemas and are not changed.
type avroOp struct {
	code avroCode
	null uint8 // branch of an avroNullable that is null
	col  int32 // ID of the column; -1 for what is skipped
	size int32 // bytes of a fixed, the least of an item, or fields of a record without bytes
	name string
	kids []avroOp // fields, what an item consists of, branches
	*avroOpMore
}

// avroOpMore is the part of an avroOp that few ops look at, so that the ops of a
// record lie close together.
type avroOpMore struct {
	node    *avroplan.Node
	writer  *avroplan.Schema // of what is skipped
	others  []int            // columns of the branches that an avroBranch is not
	symbols [][]byte         // by the writer's index; nil for those that the reader does not know
	width   int              // bytes of a decimal in memory
	limit   decimalWords     // 10 to the power of the precision
	data    []byte           // of constants and defaults
}

// avroReader holds what reading needs beside the columns.
type avroReader struct {
	columns []*columnset.Column // by ID
	cursor  avroplan.Cursor
	text    []byte
}

// avroDecodePlan reads records of one writer schema.
type avroDecodePlan struct {
	fields []avroOp
	empty  int // see avroplan.Node.Empty
}

func (p *avroDecodePlan) decode(set *columnset.Set, _, body []byte) error {
	r := set.Scratch.(*avroReader)
	if r.columns == nil {
		r.columns = set.All()
	}
	r.cursor.Reset(body)
	if err := r.cursor.Empty(p.empty); err != nil {
		return err
	}
	pos, err := r.run(p.fields, 0)
	if err != nil {
		return err
	}
	r.cursor.Seek(pos)
	if err := r.cursor.End(); err != nil {
		return err
	}
	return nil
}

// run reads a datum for each op, the first at pos, and returns the position behind
// the last. It reads the short forms, which nearly all data have, by itself and with
// the position in a register. A datum in another form, a faulty one among them, and
// what schemas have less often is for [avroReader.one].
func (r *avroReader) run(ops []avroOp, pos int) (int, *avroplan.DatumError) {
	data, columns := r.cursor.Data(), r.columns
	for i := range ops {
		o := &ops[i]
		var err *avroplan.DatumError
		if o.code == avroNullable {
			var branch int
			if branch, pos, err = r.branch(data, pos); err != nil {
				return pos, ops[i].in(err)
			}
			if branch == int(o.null) {
				if o.col >= 0 {
					columns[o.col].AppendNull()
				}
				continue
			}
			o = &o.kids[0]
		}
		switch o.code {
		case avroBool:
			if pos < len(data) && data[pos] <= 1 {
				columns[o.col].AppendBool(data[pos] == 1)
				pos++
				continue
			}
		case avroInt:
			if pos < len(data) && data[pos] < 0x80 {
				columns[o.col].Append4(uint32(shortLong(data[pos])))
				pos++
				continue
			}
			if v, next := avroplan.ReadVarint(data, pos); next != 0 && v == int64(int32(v)) && next-pos <= binary.MaxVarintLen32 {
				columns[o.col].Append4(uint32(v))
				pos = next
				continue
			}
		case avroIntLong:
			if pos < len(data) && data[pos] < 0x80 {
				columns[o.col].Append8(uint64(shortLong(data[pos])))
				pos++
				continue
			}
			if v, next := avroplan.ReadVarint(data, pos); next != 0 && v == int64(int32(v)) && next-pos <= binary.MaxVarintLen32 {
				columns[o.col].Append8(uint64(v))
				pos = next
				continue
			}
		case avroLong:
			if pos < len(data) && data[pos] < 0x80 {
				columns[o.col].Append8(uint64(shortLong(data[pos])))
				pos++
				continue
			}
			if v, next := avroplan.ReadVarint(data, pos); next != 0 {
				columns[o.col].Append8(uint64(v))
				pos = next
				continue
			}
		case avroFloat:
			if len(data)-pos >= 4 {
				columns[o.col].Append4(binary.LittleEndian.Uint32(data[pos:]))
				pos += 4
				continue
			}
		case avroDouble:
			if len(data)-pos >= 8 {
				columns[o.col].Append8(binary.LittleEndian.Uint64(data[pos:]))
				pos += 8
				continue
			}
		case avroString:
			if size, start := shortText(data, pos); start != 0 {
				if size <= wordsText && len(data)-start >= wordsText {
					if v := (*[wordsText]byte)(data[start:]); isASCII(v, size) {
						columns[o.col].AppendShort(v, size)
						pos = start + size
						continue
					}
				}
				if v := data[start : start+size]; utf8.Valid(v) {
					columns[o.col].AppendBytes(v)
					pos = start + size
					continue
				}
			}
		case avroBytes:
			if size, start := shortText(data, pos); start != 0 {
				if size <= wordsText && len(data)-start >= wordsText {
					columns[o.col].AppendShort((*[wordsText]byte)(data[start:]), size)
				} else {
					columns[o.col].AppendBytes(data[start : start+size])
				}
				pos = start + size
				continue
			}
		case avroFixed:
			if size := int(o.size); len(data)-pos >= size {
				columns[o.col].AppendFixed(data[pos : pos+size])
				pos += size
				continue
			}
		case avroStruct:
			if o.size > 0 {
				if err := r.cursor.Empty(int(o.size)); err != nil {
					return pos, ops[i].in(err)
				}
			}
			if pos, err = r.run(o.kids, pos); err != nil {
				return pos, ops[i].in(err)
			}
			columns[o.col].EndStruct()
			continue
		case avroChoose:
			if branch, start := shortIndex(data, pos, len(o.kids)); start != 0 {
				if pos, err = r.run(o.kids[branch:branch+1], start); err != nil {
					return pos, ops[i].in(err)
				}
				continue
			}
		case avroBranch:
			if pos, err = r.run(o.kids, pos); err != nil {
				return pos, ops[i].in(err)
			}
			for _, id := range o.others {
				columns[id].AppendNull()
			}
			columns[o.col].EndStruct()
			continue
		case avroSymbol:
			if symbol, start := shortIndex(data, pos, len(o.symbols)); start != 0 && o.symbols[symbol] != nil {
				columns[o.col].AppendBytes(o.symbols[symbol])
				pos = start
				continue
			}
		case avroList, avroMap:
			if pos, err = r.items(o, pos); err != nil {
				return pos, ops[i].in(err)
			}
			continue
		case avroConstant:
			columns[o.col].AppendConstant(o.data)
			continue
		case avroNull:
			columns[o.col].AppendNull()
			continue
		case avroSkipLong:
			if pos < len(data) && data[pos] < 0x80 {
				pos++
				continue
			}
		case avroSkipBytes:
			if size, start := shortText(data, pos); start != 0 {
				pos = start + size
				continue
			}
		}
		if pos, err = r.one(o, pos); err != nil {
			return pos, ops[i].in(err)
		}
	}
	return pos, nil
}

// in puts an error into the field that the op reads, if it reads one.
func (o *avroOp) in(err *avroplan.DatumError) *avroplan.DatumError {
	if o.name == "" {
		return err
	}
	return err.In(o.name)
}

// shortLong returns the int or long of one byte.
func shortLong(b byte) int64 { return int64(b>>1) ^ -int64(b&1) }

// shortText returns the size and the start of a text whose length is one byte and
// that is there as a whole; otherwise start is 0.
func shortText(data []byte, pos int) (size, start int) {
	if pos < len(data) && data[pos]&0x81 == 0 {
		if size = int(data[pos] >> 1); size < len(data)-pos {
			return size, pos + 1
		}
	}
	return 0, 0
}

// shortIndex returns an index below n that is one byte and the position behind it,
// which is otherwise 0.
func shortIndex(data []byte, pos, n int) (index, next int) {
	if pos < len(data) && data[pos]&0x81 == 0 && int(data[pos]>>1) < n {
		return int(data[pos] >> 1), pos + 1
	}
	return 0, 0
}

// wordsText is the size of texts that are looked at and copied in two words.
const wordsText = 16

// isASCII reports whether the first size bytes are ASCII.
func isASCII(v *[wordsText]byte, size int) bool {
	low, high := binary.LittleEndian.Uint64(v[:8]), binary.LittleEndian.Uint64(v[8:])
	low &^= math.MaxUint64 << uint(8*size)
	high &^= math.MaxUint64 << uint(8*max(size-8, 0))
	return (low|high)&0x8080808080808080 == 0
}

// branch reads the branch of a union of two.
func (r *avroReader) branch(data []byte, pos int) (branch, next int, err *avroplan.DatumError) {
	if pos < len(data) && data[pos]&^2 == 0 {
		return int(data[pos] >> 1), pos + 1, nil
	}
	r.cursor.Seek(pos)
	branch, err = r.cursor.Index(2)
	return branch, r.cursor.Offset(), err
}

// one reads one datum at pos, of which it trusts nothing.
func (r *avroReader) one(o *avroOp, pos int) (int, *avroplan.DatumError) {
	r.cursor.Seek(pos)
	err := r.read(o)
	return r.cursor.Offset(), err
}

// read reads the datum at the cursor.
func (r *avroReader) read(o *avroOp) *avroplan.DatumError {
	c := &r.cursor
	var column *columnset.Column
	if o.col >= 0 {
		column = r.columns[o.col]
	}
	switch o.code {
	case avroBool:
		v, err := c.Bool()
		if err != nil {
			return err
		}
		column.AppendBool(v)
	case avroInt:
		v, err := c.Int()
		if err != nil {
			return err
		}
		column.Append4(uint32(v))
	case avroLong:
		v, err := c.Long()
		if err != nil {
			return err
		}
		column.Append8(uint64(v))
	case avroIntLong, avroLongNode:
		v, err := o.node.ReadLong(c)
		if err != nil {
			return err
		}
		column.Append8(uint64(v))
	case avroFloat, avroFloatNode:
		v, err := o.node.ReadFloat(c)
		if err != nil {
			return err
		}
		column.Append4(math.Float32bits(v))
	case avroDouble, avroDoubleNode:
		v, err := o.node.ReadDouble(c)
		if err != nil {
			return err
		}
		column.Append8(math.Float64bits(v))
	case avroString:
		v, err := c.RawString()
		if err != nil {
			return err
		}
		column.AppendBytes(v)
	case avroBytes:
		v, err := c.Bytes()
		if err != nil {
			return err
		}
		column.AppendBytes(v)
	case avroFixed:
		v, err := c.Fixed(int(o.size))
		if err != nil {
			return err
		}
		column.AppendFixed(v)
	case avroSymbol, avroSymbolIndex:
		i, err := o.node.ReadSymbol(c)
		if err != nil {
			return err
		}
		if o.code == avroSymbol {
			column.AppendString(o.node.Schema.Symbols[i])
		} else {
			column.Append4(uint32(i))
		}
	case avroDecimalBytes:
		v, err := c.Bytes()
		if err != nil {
			return err
		}
		return r.decimal(column, o, v)
	case avroDecimalFixed:
		v, err := c.Fixed(int(o.size))
		if err != nil {
			return err
		}
		return r.decimal(column, o, v)
	case avroText:
		text, err := avroTextReader{c}.appendText(r.text[:0], o.node)
		r.text = text
		if err != nil {
			return err
		}
		column.AppendBytes(text)
	case avroSkip, avroSkipLong, avroSkipBytes:
		return c.Skip(o.writer)
	case avroFail:
		return c.Fail("%s", o.node.Err)
	default:
		return r.nested(o)
	}
	return nil
}

// nested reads the datum at the cursor where it consists of others.
func (r *avroReader) nested(o *avroOp) *avroplan.DatumError {
	c := &r.cursor
	ops := o.kids
	switch o.code {
	case avroChoose:
		i, err := c.Index(len(o.kids))
		if err != nil {
			return err
		}
		ops = o.kids[i : i+1]
	case avroRecord:
		if err := c.Empty(int(o.size)); err != nil {
			return err
		}
	case avroDefault:
		datum, err := c.EnterDefault(o.data)
		if err != nil {
			return err
		}
		_, err = r.run(ops, 0)
		return c.LeaveDefault(datum, err)
	}
	pos, err := r.run(ops, c.Offset())
	if err != nil {
		return err
	}
	c.Seek(pos)
	return nil
}

// items reads the blocks of an array or a map.
func (r *avroReader) items(o *avroOp, pos int) (int, *avroplan.DatumError) {
	data := r.cursor.Data()
	for index := 0; ; {
		var count int
		if pos < len(data) && data[pos]&0x81 == 0 && (data[pos] == 0 || o.size > 0 && int(data[pos]>>1)*int(o.size) < len(data)-pos) {
			count = int(data[pos] >> 1)
			pos++
		} else {
			r.cursor.Seek(pos)
			block, err := r.cursor.Block(int(o.size))
			if err != nil {
				return pos, err
			}
			count, pos = block.Count, r.cursor.Offset()
		}
		if count == 0 {
			r.columns[o.col].EndList()
			return pos, nil
		}
		for end := index + count; index < end; index++ {
			var err *avroplan.DatumError
			if pos, err = r.run(o.kids, pos); err != nil {
				return pos, r.inItem(o, index, err)
			}
		}
	}
}

// inItem puts an error into the item of an array, or under the key of a map where
// the key has been read.
func (r *avroReader) inItem(o *avroOp, index int, err *avroplan.DatumError) *avroplan.DatumError {
	if o.code == avroList {
		return err.At(index)
	}
	keys := r.columns[o.kids[0].col]
	if row := r.columns[o.col].ListStart() + index; row < keys.Len() {
		return err.Under(string(keys.Text(row)))
	}
	return err
}

// decimal appends a big-endian number of the wire.
func (r *avroReader) decimal(column *columnset.Column, o *avroOp, v []byte) *avroplan.DatumError {
	var w decimalWords
	if !w.setBytes(v) || !w.below(&o.limit) {
		return r.cursor.Fail("the number has more digits than decimal(%d,%d)", o.node.Schema.Precision, o.node.Schema.Scale)
	}
	var memory [32]byte
	for i, word := range w {
		binary.NativeEndian.PutUint64(memory[8*i:], word)
	}
	column.AppendFixed(memory[:o.width])
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"encoding/binary"
	"math"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
	"github.com/krabka-io/krabka-streams-go/internal/columnset"
)

// avroCode is what an avroOp does.
type avroCode uint8

const (
	avroBool      avroCode = iota
	avroInt                // an int as it is
	avroLong               // a long as it is
	avroLongNode           // a long that is promoted or in another unit
	avroFloat              // a float as it is
	avroFloatNode          // a float that is promoted
	avroDouble             // a double as it is
	avroDoubleNode
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
	avroFail
)

// avroOp reads one datum into one column. Ops are compiled once for a pair of
// schemas and are not changed.
type avroOp struct {
	code avroCode
	null uint8 // branch of an avroNullable that is null
	col  int32 // ID of the column
	size int32 // bytes of a fixed, or the least of an item
	name string
	kids []avroOp // fields, items, branches
	*avroOpMore
}

// avroOpMore is the part of an avroOp that few ops look at, so that the ops of a
// record lie close together.
type avroOpMore struct {
	node    *avroplan.Node
	writer  *avroplan.Schema // of what is skipped
	others  []int            // columns of the branches that an avroBranch is not
	symbols [][]byte         // by the writer's index; nil for unknown ones
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
	if err := r.record(p.fields, p.empty); err != nil {
		return err
	}
	if err := r.cursor.End(); err != nil {
		return err
	}
	return nil
}

// record reads the fields of a record.
func (r *avroReader) record(fields []avroOp, empty int) *avroplan.DatumError {
	if err := r.cursor.Enter(); err != nil {
		return err
	}
	if empty > 0 {
		if err := r.cursor.Empty(empty); err != nil {
			return err
		}
	}
	for i := range fields {
		if err := r.run(&fields[i]); err != nil {
			return err.In(fields[i].name)
		}
	}
	r.cursor.Leave()
	return nil
}

// run reads one datum.
func (r *avroReader) run(o *avroOp) *avroplan.DatumError {
	c := &r.cursor
	switch o.code {
	case avroBool:
		v, err := c.Bool()
		if err != nil {
			return err
		}
		r.columns[o.col].AppendBool(v)
	case avroInt:
		if v, ok := c.Short(); ok {
			r.columns[o.col].Append4(uint32(v))
			return nil
		}
		v, err := c.Int()
		if err != nil {
			return err
		}
		r.columns[o.col].Append4(uint32(v))
	case avroLong:
		v, ok := c.Short()
		if !ok {
			var err *avroplan.DatumError
			if v, err = c.Long(); err != nil {
				return err
			}
		}
		r.columns[o.col].Append8(uint64(v))
	case avroFloat:
		v, err := c.Fixed(4)
		if err != nil {
			return err
		}
		r.columns[o.col].Append4(binary.LittleEndian.Uint32(v))
	case avroDouble:
		v, err := c.Fixed(8)
		if err != nil {
			return err
		}
		r.columns[o.col].Append8(binary.LittleEndian.Uint64(v))
	case avroString:
		v, err := c.RawString()
		if err != nil {
			return err
		}
		r.columns[o.col].AppendBytes(v)
	case avroBytes:
		v, err := c.Bytes()
		if err != nil {
			return err
		}
		r.columns[o.col].AppendBytes(v)
	case avroFixed:
		v, err := c.Fixed(int(o.size))
		if err != nil {
			return err
		}
		r.columns[o.col].AppendFixed(v)
	case avroNullable:
		i, ok := c.Short()
		if !ok || uint64(i) > 1 {
			var err *avroplan.DatumError
			if i, err = r.branch(i, ok); err != nil {
				return err
			}
		}
		if i == int64(o.null) {
			r.columns[o.col].AppendNull()
			return nil
		}
		return r.run(&o.kids[0])
	case avroStruct:
		if err := r.record(o.kids, int(o.size)); err != nil {
			return err
		}
		r.columns[o.col].EndStruct()
	case avroList, avroMap:
		return r.items(o)
	case avroConstant:
		r.columns[o.col].AppendConstant(o.data)
	case avroNull:
		r.columns[o.col].AppendNull()
	case avroSkip:
		return c.Skip(o.writer)
	default:
		return r.rare(o)
	}
	return nil
}

// branch reads the branch of a union of two that is not 0 or 1 in the short
// form: another short number, or a number of more bytes than it takes.
func (r *avroReader) branch(i int64, short bool) (int64, *avroplan.DatumError) {
	if short {
		err := r.cursor.Fail("index %d is none of 2", i)
		err.Offset--
		return 0, err
	}
	full, err := r.cursor.Index(2)
	return int64(full), err
}

// rare is run for what schemas have less often.
func (r *avroReader) rare(o *avroOp) *avroplan.DatumError {
	c, column := &r.cursor, r.columns[o.col]
	switch o.code {
	case avroLongNode:
		v, err := o.node.ReadLong(c)
		if err != nil {
			return err
		}
		column.Append8(uint64(v))
	case avroFloatNode:
		v, err := o.node.ReadFloat(c)
		if err != nil {
			return err
		}
		column.Append4(math.Float32bits(v))
	case avroDoubleNode:
		v, err := o.node.ReadDouble(c)
		if err != nil {
			return err
		}
		column.Append8(math.Float64bits(v))
	case avroSymbol, avroSymbolIndex:
		i, err := o.node.ReadSymbol(c)
		if err != nil {
			return err
		}
		if o.code == avroSymbol {
			column.AppendBytes(o.symbols[i])
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
	case avroChoose:
		i, err := c.Index(len(o.kids))
		if err != nil {
			return err
		}
		return r.run(&o.kids[i])
	case avroBranch:
		if err := r.run(&o.kids[0]); err != nil {
			return err
		}
		for _, id := range o.others {
			r.columns[id].AppendNull()
		}
		column.EndStruct()
	case avroRecord:
		return r.record(o.kids, int(o.size))
	case avroText:
		text, err := avroTextReader{c}.appendText(r.text[:0], o.node)
		r.text = text
		if err != nil {
			return err
		}
		column.AppendBytes(text)
	case avroDefault:
		datum, err := c.EnterDefault(o.data)
		if err != nil {
			return err
		}
		return c.LeaveDefault(datum, r.run(&o.kids[0]))
	default:
		return c.Fail("%s", o.node.Err)
	}
	return nil
}

// items reads the blocks of an array or a map.
func (r *avroReader) items(o *avroOp) *avroplan.DatumError {
	c, column := &r.cursor, r.columns[o.col]
	if err := c.Enter(); err != nil {
		return err
	}
	item, index := &o.kids[0], 0
	for {
		block, err := c.Block(int(o.size))
		if err != nil {
			return err
		}
		if block.Count == 0 {
			break
		}
		if o.code == avroMap {
			if err := r.entries(column, item, block.Count); err != nil {
				return err
			}
		} else {
			for range block.Count {
				if err := r.run(item); err != nil {
					return err.At(index)
				}
				index++
			}
		}
	}
	c.Leave()
	column.EndList()
	return nil
}

// entries reads the entries of one block of a map.
func (r *avroReader) entries(column *columnset.Column, value *avroOp, count int) *avroplan.DatumError {
	for range count {
		key, err := r.cursor.RawString()
		if err != nil {
			return err
		}
		column.Children()[0].AppendBytes(key)
		if err := r.run(value); err != nil {
			return err.Under(string(key))
		}
	}
	return nil
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

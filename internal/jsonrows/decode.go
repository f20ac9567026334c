// SPDX-License-Identifier: Apache-2.0

package jsonrows

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

// maxPredictedMembers bounds how many members of an object are remembered to
// recognise those of the next.
const maxPredictedMembers = 256

var errBase64 = errors.New("text is not base64")

// Decoder reads documents into the columns of a schema. It is used for one
// batch at a time.
type Decoder struct {
	Reader
	Root Sink
}

// NewDecoder returns a decoder into the columns of root. [Sink.Begin] begins a batch.
func NewDecoder(mem memory.Allocator, root *Node) *Decoder {
	return &Decoder{Root: newSink(mem, root)}
}

// Document reads one document into the next row; on error there is none.
func (d *Decoder) Document(data []byte) *Error {
	d.Data, d.Pos = data, 0
	row := d.Root.Count
	err := d.object(&d.Root)
	if err == nil {
		err = d.End()
	}
	if err != nil {
		d.Root.Truncate(row)
	}
	return err
}

// NullRow adds a row for a record without a value.
func (d *Decoder) NullRow() {
	for i := range d.Root.Children {
		d.Root.Children[i].Null()
	}
	d.Root.Valid()
}

// Columns returns the columns of all rows, and prepares for the next batch.
func (d *Decoder) Columns() ([]arrow.Array, error) {
	d.Data = nil
	data, err := d.Root.finish()
	if err != nil {
		return nil, err
	}
	defer data.Release()
	columns := make([]arrow.Array, len(data.Children()))
	for i, child := range data.Children() {
		columns[i] = array.MakeFromData(child)
	}
	return columns, nil
}

// object reads an object into the next value of a struct.
func (d *Decoder) object(s *Sink) *Error {
	if err := d.Expect('{', "an object"); err != nil {
		return err
	}
	row := s.Count
	if d.Peek() == '}' {
		d.Pos++
		return d.Missing(s, row)
	}
	for at := 0; ; at++ {
		child := 0
		if at < len(s.order) && d.startsWith(s.order[at].raw) {
			child = s.order[at].child
			d.Pos += len(s.order[at].raw)
		} else {
			var err *Error
			if child, at, err = d.Member(s, at); err != nil {
				return err
			}
		}
		if child < 0 {
			if err := d.Skip(); err != nil {
				return err
			}
		} else {
			sink := &s.Children[child]
			if sink.Count > row { // the last of equal members counts
				sink.Truncate(row)
			}
			if err := d.Value(sink); err != nil {
				return err.within(sink.Node.Name)
			}
		}
		c := d.Peek()
		d.Pos++
		if c == ',' {
			d.Peek()
			continue
		}
		if c == '}' {
			return d.Missing(s, row)
		}
		d.Pos--
		return d.Unexpected("a comma or the end of the object")
	}
}

func (d *Decoder) startsWith(raw []byte) bool {
	end := d.Pos + len(raw)
	return end <= len(d.Data) && string(d.Data[d.Pos:end]) == string(raw)
}

// Member reads a member name that is not the expected one, and the colon. It
// returns the child for the member and its place in the expected order.
func (d *Decoder) Member(s *Sink, at int) (child, place int, err *Error) {
	start := d.Pos
	name, err := d.Quoted()
	if err != nil {
		return 0, 0, err
	}
	child, ok := s.Node.Members[string(name)]
	if !ok {
		child = -1
	}
	if err := d.Expect(':', "a colon"); err != nil {
		return 0, 0, err
	}
	d.Peek()
	raw := d.Data[start:d.Pos]
	if child >= 0 {
		if known := s.position[child]; known < len(s.order) && string(s.order[known].raw) == string(raw) {
			return child, known, nil
		}
		s.position[child] = at
	}
	switch {
	case at < len(s.order):
		s.order[at] = member{raw, child}
	case at < maxPredictedMembers:
		s.order = append(s.order, member{raw, child})
	}
	return child, at, nil
}

// Missing ends an object: columns without a member are null.
func (d *Decoder) Missing(s *Sink, row int) *Error {
	for i := range s.Children {
		if sink := &s.Children[i]; sink.Count == row {
			if !sink.Node.nullable {
				return d.fail(ErrRequiredField).within(sink.Node.Name)
			}
			sink.Null()
		}
	}
	s.Valid()
	return nil
}

// Value reads a value into a sink.
func (d *Decoder) Value(s *Sink) *Error {
	c := d.Peek()
	if c == 'n' && s.Node.Kind != rawNode {
		return d.nullValue(s)
	}
	if s.Node.rules.Drift {
		if done, err := d.drifted(s, c); done {
			return err
		}
	}
	switch n := s.Node; n.Kind {
	case signedNode, unsignedNode, durationNode:
		if c != '-' && c-'0' > 9 {
			if n.rules.Convert && c == '"' {
				return d.integerText(s)
			}
			return d.Unexpected("a number")
		}
		v, err := d.integer(n.Type, n.limit, n.Kind != unsignedNode)
		if err != nil {
			return err
		}
		s.putInt(v)
	case textNode:
		if n.rules.Convert && c != '"' {
			return d.rawValue(s, c)
		}
		return d.textValue(s)
	case floatNode:
		if c != '-' && c-'0' > 9 {
			if n.rules.Convert && c == '"' {
				return d.integerText(s)
			}
			return d.Unexpected("a number")
		}
		return d.floatValue(s)
	case boolNode:
		return d.boolValue(s, c)
	case structNode:
		return d.object(s)
	case listNode:
		return d.listValue(s)
	case fixedListNode:
		return d.fixedListValue(s)
	case mapNode:
		return d.mapValue(s)
	case rawNode:
		return d.rawValue(s, c)
	case decimalNode:
		return d.decimalValue(s, c)
	case binaryNode, fixedBinaryNode:
		return d.binaryValue(s)
	case unionNode:
		return d.unionValue(s, c)
	case encodedNode:
		if err := d.Value(&s.Children[0]); err != nil {
			return err
		}
		s.Valid()
	case dateNode, clockNode, timestampNode:
		if c == '"' {
			return d.timeValue(s)
		}
		if n.rules.Epoch != 0 && n.Kind != clockNode {
			return d.epochValue(s)
		}
		v, err := d.integer(n.Type, n.limit, true)
		if err != nil {
			return err
		}
		s.putInt(v)
	default:
		return d.Unexpected("null")
	}
	return nil
}

func (d *Decoder) nullValue(s *Sink) *Error {
	start := d.Pos
	if err := d.literal("null"); err != nil {
		return err
	}
	if !s.Node.nullable {
		return d.failAt(start, ErrRequiredField)
	}
	s.Null()
	return nil
}

func (d *Decoder) textValue(s *Sink) *Error {
	if err := d.Expect('"', "a text"); err != nil {
		return err
	}
	start, end, escaped, err := d.text()
	if err != nil {
		return err
	}
	raw := d.Data[start:end]
	if escaped {
		// What an escape stands for is never longer than the escape.
		s.endText(len(unescape(s.room(len(raw))[:0], raw)))
		return nil
	}
	s.putText(raw)
	return nil
}

func (d *Decoder) floatValue(s *Sink) *Error {
	start := d.Pos
	size := 64
	if s.Node.width < 8 {
		size = 32
	}
	v, err := d.float(size)
	if err != nil {
		return err
	}
	if s.Node.width == 2 && float16.New(float32(v)).IsInf() {
		return d.failAt(start, errRange(s.Node.Type))
	}
	s.putFloat(v)
	return nil
}

func (d *Decoder) boolValue(s *Sink, c byte) *Error {
	switch c {
	case 't':
		if err := d.literal("true"); err != nil {
			return err
		}
	case 'f':
		if err := d.literal("false"); err != nil {
			return err
		}
	default:
		return d.Unexpected("true or false")
	}
	s.putBool(c == 't')
	s.Valid()
	return nil
}

// integerText reads a number column's value from text in base 10.
func (d *Decoder) integerText(s *Sink) *Error {
	start := d.Pos
	text, fault := d.Quoted()
	if fault != nil {
		return fault
	}
	converted, err := arrays.Coerce(s.Node.Type, string(text))
	if err != nil {
		return d.failAt(start, err)
	}
	switch v := converted.(type) {
	case int64:
		s.putInt(uint64(v))
	case uint64:
		s.putInt(v)
	case float64:
		s.putFloat(v)
	}
	return nil
}

// rawValue keeps the text of any value but null.
func (d *Decoder) rawValue(s *Sink, c byte) *Error {
	if c == 'n' {
		return d.nullValue(s)
	}
	start := d.Pos
	if err := d.Skip(); err != nil {
		return err
	}
	s.putText(d.Data[start:d.Pos])
	return nil
}

// decimalValue reads a number, or a text that holds one.
func (d *Decoder) decimalValue(s *Sink, c byte) *Error {
	start := d.Pos
	var text []byte
	if c == '"' {
		var err *Error
		if text, err = d.Quoted(); err != nil {
			return err
		}
		quoted := Reader{Data: text}
		if err := quoted.number(); err != nil || quoted.Pos < len(text) {
			return d.failAt(start, errNumber)
		}
	} else {
		if err := d.number(); err != nil {
			return err
		}
		text = d.Data[start:d.Pos]
	}
	dt := s.Node.Type.(arrow.DecimalType)
	limbs, err := d.Decimal(text).Scaled(dt.GetPrecision(), dt.GetScale())
	if err != nil {
		return d.failAt(start, err)
	}
	putLimbs(s.slot(), limbs)
	s.Valid()
	return nil
}

// putLimbs writes a two's complement number, lowest limb first, as a decimal of
// the slot's width.
func putLimbs(slot []byte, limbs [4]uint64) {
	if len(slot) == 4 {
		binary.NativeEndian.PutUint32(slot, uint32(limbs[0]))
		return
	}
	for i := range len(slot) / 8 {
		binary.NativeEndian.PutUint64(slot[i*8:], limbs[i])
	}
}

// binaryValue reads base64.
func (d *Decoder) binaryValue(s *Sink) *Error {
	start := d.Pos
	text, err := d.Quoted()
	if err != nil {
		return err
	}
	if s.Node.Kind == binaryNode {
		size, err := base64.StdEncoding.Decode(s.room(base64.StdEncoding.DecodedLen(len(text))), text)
		if err != nil {
			return d.failAt(start, errBase64)
		}
		s.endText(size)
		return nil
	}
	value, cause := base64.StdEncoding.AppendDecode(nil, text)
	if cause != nil {
		return d.failAt(start, errBase64)
	}
	if len(value) != s.Node.width {
		return d.failAt(start, fmt.Errorf("fixed-size binary column requires %d bytes, got %d", s.Node.width, len(value)))
	}
	copy(s.slot(), value)
	s.Valid()
	return nil
}

// timeValue reads a date, a time of day or a time from text.
func (d *Decoder) timeValue(s *Sink) *Error {
	start := d.Pos
	text, fault := d.Quoted()
	if fault != nil {
		return fault
	}
	var v int64
	var err error
	switch s.Node.Kind {
	case dateNode:
		days, rest, ok := numtext.ParseDate(text)
		if !ok || len(rest) > 0 {
			err = numtext.ErrDate
		}
		v = days
		if s.Node.width == 8 {
			v *= 86_400_000
		}
	case clockNode:
		seconds, nanos, rest, ok := numtext.ParseClock(text)
		if !ok || len(rest) > 0 {
			err = numtext.ErrClock
		}
		v, _ = numtext.InUnit(seconds, nanos, s.Node.unit)
	default:
		v, err = numtext.ParseTime(text, s.Node.unit, s.Node.zoned && !s.Node.rules.Drift)
	}
	if err != nil {
		return d.failAt(start, err)
	}
	s.putInt(uint64(v))
	return nil
}

// elements reads the elements of an array and returns how many there are.
func (d *Decoder) elements(s *Sink) (int, *Error) {
	if err := d.Expect('[', "a list"); err != nil {
		return 0, err
	}
	if d.Peek() == ']' {
		d.Pos++
		return 0, nil
	}
	for count := 0; ; {
		if err := d.Value(s); err != nil {
			return 0, err.within("[" + strconv.Itoa(count) + "]")
		}
		count++
		c := d.Peek()
		d.Pos++
		switch c {
		case ',':
		case ']':
			return count, nil
		default:
			d.Pos--
			return 0, d.Unexpected("a comma or the end of the list")
		}
	}
}

func (d *Decoder) listValue(s *Sink) *Error {
	if _, err := d.elements(&s.Children[0]); err != nil {
		return err
	}
	s.putOffset(s.Count+1, s.Children[0].Count)
	s.Valid()
	return nil
}

func (d *Decoder) fixedListValue(s *Sink) *Error {
	start := d.Pos
	count, err := d.elements(&s.Children[0])
	if err != nil {
		return err
	}
	if count != s.Node.size {
		return d.failAt(start, fmt.Errorf("fixed-size list requires %d values, got %d", s.Node.size, count))
	}
	s.Valid()
	return nil
}

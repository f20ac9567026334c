// SPDX-License-Identifier: Apache-2.0

package columnar

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

var errJSONBase64 = errors.New("text is not base64")

// jsonDecoder reads documents into the columns of a schema. It is used for one
// batch at a time.
type jsonDecoder struct {
	jsonReader
	root jsonSink
}

func newJSONDecoder(mem memory.Allocator, root *jsonNode) *jsonDecoder {
	return &jsonDecoder{root: newJSONSink(mem, root)}
}

// document reads one document into the next row; on error there is none.
func (d *jsonDecoder) document(data []byte) *JSONError {
	d.data, d.pos = data, 0
	row := d.root.count
	err := d.object(&d.root)
	if err == nil {
		err = d.end()
	}
	if err != nil {
		d.root.truncate(row)
	}
	return err
}

// columns returns the columns of all rows, and prepares for the next batch.
func (d *jsonDecoder) columns() ([]arrow.Array, error) {
	d.data = nil
	data, err := d.root.finish()
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
func (d *jsonDecoder) object(s *jsonSink) *JSONError {
	if err := d.expect('{', "an object"); err != nil {
		return err
	}
	row := s.count
	if d.peek() == '}' {
		d.pos++
		return d.missing(s, row)
	}
	for at := 0; ; at++ {
		child := 0
		if at < len(s.order) && d.startsWith(s.order[at].raw) {
			child = s.order[at].child
			d.pos += len(s.order[at].raw)
		} else {
			var err *JSONError
			if child, at, err = d.member(s, at); err != nil {
				return err
			}
		}
		if child < 0 {
			if err := d.skip(); err != nil {
				return err
			}
		} else {
			sink := &s.children[child]
			if sink.count > row { // the last of equal members counts
				sink.truncate(row)
			}
			if err := d.value(sink); err != nil {
				return err.within(sink.node.name)
			}
		}
		c := d.peek()
		d.pos++
		if c == ',' {
			d.peek()
			continue
		}
		if c == '}' {
			return d.missing(s, row)
		}
		d.pos--
		return d.unexpected("a comma or the end of the object")
	}
}

func (d *jsonDecoder) startsWith(raw []byte) bool {
	end := d.pos + len(raw)
	return end <= len(d.data) && string(d.data[d.pos:end]) == string(raw)
}

// member reads a member name that is not the expected one, and the colon. It
// returns the child for the member and its place in the expected order.
func (d *jsonDecoder) member(s *jsonSink, at int) (child, place int, err *JSONError) {
	start := d.pos
	name, err := d.string()
	if err != nil {
		return 0, 0, err
	}
	child, ok := s.node.members[string(name)]
	if !ok {
		child = -1
	}
	if err := d.expect(':', "a colon"); err != nil {
		return 0, 0, err
	}
	d.peek()
	raw := d.data[start:d.pos]
	if child >= 0 {
		if known := s.position[child]; known < len(s.order) && string(s.order[known].raw) == string(raw) {
			return child, known, nil
		}
		s.position[child] = at
	}
	switch {
	case at < len(s.order):
		s.order[at] = jsonMember{raw, child}
	case at < maxPredictedMembers:
		s.order = append(s.order, jsonMember{raw, child})
	}
	return child, at, nil
}

// missing ends an object: columns without a member are null.
func (d *jsonDecoder) missing(s *jsonSink, row int) *JSONError {
	for i := range s.children {
		if sink := &s.children[i]; sink.count == row {
			if !sink.node.nullable {
				return d.fail(ErrRequiredField).within(sink.node.name)
			}
			sink.null()
		}
	}
	s.valid()
	return nil
}

// value reads a value into a sink.
func (d *jsonDecoder) value(s *jsonSink) *JSONError {
	c := d.peek()
	if c == 'n' && s.node.kind != jsonRaw {
		return d.null(s)
	}
	switch n := s.node; n.kind {
	case jsonSigned, jsonUnsigned, jsonDuration:
		if c != '-' && c-'0' > 9 {
			if n.lenient && c == '"' {
				return d.integerText(s)
			}
			return d.unexpected("a number")
		}
		v, err := d.integer(n.dt, n.limit, n.kind != jsonUnsigned)
		if err != nil {
			return err
		}
		s.putInt(v)
	case jsonText:
		if n.lenient && c != '"' {
			return d.rawValue(s, c)
		}
		return d.textValue(s)
	case jsonFloat:
		if c != '-' && c-'0' > 9 {
			if n.lenient && c == '"' {
				return d.integerText(s)
			}
			return d.unexpected("a number")
		}
		return d.floatValue(s)
	case jsonBool:
		return d.boolValue(s, c)
	case jsonStruct:
		return d.object(s)
	case jsonList:
		return d.listValue(s)
	case jsonFixedList:
		return d.fixedListValue(s)
	case jsonMap:
		return d.mapValue(s)
	case jsonRaw:
		return d.rawValue(s, c)
	case jsonDecimal:
		return d.decimalValue(s, c)
	case jsonBinary, jsonFixedBinary:
		return d.binaryValue(s)
	case jsonUnion:
		return d.unionValue(s, c)
	case jsonEncoded:
		if err := d.value(&s.children[0]); err != nil {
			return err
		}
		s.valid()
	case jsonDate, jsonClock, jsonTimestamp:
		if c == '"' {
			return d.timeValue(s)
		}
		v, err := d.integer(n.dt, n.limit, true)
		if err != nil {
			return err
		}
		s.putInt(v)
	default:
		return d.unexpected("null")
	}
	return nil
}

func (d *jsonDecoder) null(s *jsonSink) *JSONError {
	start := d.pos
	if err := d.literal("null"); err != nil {
		return err
	}
	if !s.node.nullable {
		return d.failAt(start, ErrRequiredField)
	}
	s.null()
	return nil
}

func (d *jsonDecoder) textValue(s *jsonSink) *JSONError {
	if err := d.expect('"', "a text"); err != nil {
		return err
	}
	start, end, escaped, err := d.text()
	if err != nil {
		return err
	}
	raw := d.data[start:end]
	if escaped {
		// What an escape stands for is never longer than the escape.
		s.endText(len(unescape(s.room(len(raw))[:0], raw)))
		return nil
	}
	s.putText(raw)
	return nil
}

func (d *jsonDecoder) floatValue(s *jsonSink) *JSONError {
	start := d.pos
	size := 64
	if s.node.width < 8 {
		size = 32
	}
	v, err := d.float(size)
	if err != nil {
		return err
	}
	if s.node.width == 2 && float16.New(float32(v)).IsInf() {
		return d.failAt(start, errJSONRange(s.node.dt))
	}
	s.putFloat(v)
	return nil
}

func (d *jsonDecoder) boolValue(s *jsonSink, c byte) *JSONError {
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
		return d.unexpected("true or false")
	}
	s.putBool(c == 't')
	s.valid()
	return nil
}

// integerText reads a number column's value from text in base 10.
func (d *jsonDecoder) integerText(s *jsonSink) *JSONError {
	start := d.pos
	text, fault := d.string()
	if fault != nil {
		return fault
	}
	converted, err := arrays.Coerce(s.node.dt, string(text))
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
func (d *jsonDecoder) rawValue(s *jsonSink, c byte) *JSONError {
	if c == 'n' {
		return d.null(s)
	}
	start := d.pos
	if err := d.skip(); err != nil {
		return err
	}
	s.putText(d.data[start:d.pos])
	return nil
}

// decimalValue reads a number, or a text that holds one.
func (d *jsonDecoder) decimalValue(s *jsonSink, c byte) *JSONError {
	start := d.pos
	var text []byte
	if c == '"' {
		var err *JSONError
		if text, err = d.string(); err != nil {
			return err
		}
		quoted := jsonReader{data: text}
		if err := quoted.number(); err != nil || quoted.pos < len(text) {
			return d.failAt(start, errJSONNumber)
		}
	} else {
		if err := d.number(); err != nil {
			return err
		}
		text = d.data[start:d.pos]
	}
	dt := s.node.dt.(arrow.DecimalType)
	limbs, err := d.decimal(text).Scaled(dt.GetPrecision(), dt.GetScale())
	if err != nil {
		return d.failAt(start, err)
	}
	putLimbs(s.slot(), limbs)
	s.valid()
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
func (d *jsonDecoder) binaryValue(s *jsonSink) *JSONError {
	start := d.pos
	text, err := d.string()
	if err != nil {
		return err
	}
	if s.node.kind == jsonBinary {
		size, err := base64.StdEncoding.Decode(s.room(base64.StdEncoding.DecodedLen(len(text))), text)
		if err != nil {
			return d.failAt(start, errJSONBase64)
		}
		s.endText(size)
		return nil
	}
	value, cause := base64.StdEncoding.AppendDecode(nil, text)
	if cause != nil {
		return d.failAt(start, errJSONBase64)
	}
	if len(value) != s.node.width {
		return d.failAt(start, fmt.Errorf("fixed-size binary column requires %d bytes, got %d", s.node.width, len(value)))
	}
	copy(s.slot(), value)
	s.valid()
	return nil
}

// timeValue reads a date, a time of day or a time from text.
func (d *jsonDecoder) timeValue(s *jsonSink) *JSONError {
	start := d.pos
	text, fault := d.string()
	if fault != nil {
		return fault
	}
	var v int64
	var err error
	switch s.node.kind {
	case jsonDate:
		days, rest, ok := numtext.ParseDate(text)
		if !ok || len(rest) > 0 {
			err = numtext.ErrDate
		}
		v = days
		if s.node.width == 8 {
			v *= 86_400_000
		}
	case jsonClock:
		seconds, nanos, rest, ok := numtext.ParseClock(text)
		if !ok || len(rest) > 0 {
			err = numtext.ErrClock
		}
		v, _ = numtext.InUnit(seconds, nanos, s.node.unit)
	default:
		v, err = numtext.ParseTime(text, s.node.unit, s.node.zoned)
	}
	if err != nil {
		return d.failAt(start, err)
	}
	s.putInt(uint64(v))
	return nil
}

// elements reads the elements of an array and returns how many there are.
func (d *jsonDecoder) elements(s *jsonSink) (int, *JSONError) {
	if err := d.expect('[', "a list"); err != nil {
		return 0, err
	}
	if d.peek() == ']' {
		d.pos++
		return 0, nil
	}
	for count := 0; ; {
		if err := d.value(s); err != nil {
			return 0, err.within("[" + strconv.Itoa(count) + "]")
		}
		count++
		c := d.peek()
		d.pos++
		switch c {
		case ',':
		case ']':
			return count, nil
		default:
			d.pos--
			return 0, d.unexpected("a comma or the end of the list")
		}
	}
}

func (d *jsonDecoder) listValue(s *jsonSink) *JSONError {
	if _, err := d.elements(&s.children[0]); err != nil {
		return err
	}
	s.putOffset(s.count+1, s.children[0].count)
	s.valid()
	return nil
}

func (d *jsonDecoder) fixedListValue(s *jsonSink) *JSONError {
	start := d.pos
	count, err := d.elements(&s.children[0])
	if err != nil {
		return err
	}
	if count != s.node.size {
		return d.failAt(start, fmt.Errorf("fixed-size list requires %d values, got %d", s.node.size, count))
	}
	s.valid()
	return nil
}

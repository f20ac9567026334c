// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"google.golang.org/protobuf/encoding/protowire"
)

// sourceMessage is a message whose fields are columns of a batch.
type sourceMessage struct {
	fields []sourceField  // by ascending number
	taken  []*sourceField // by oneof: the member that the row has
}

// sourceField is a field and its column.
type sourceField struct {
	plan     *fieldPlan
	value    *valuePlan // of wrappers: what they wrap
	list     source     // of a list or map
	source   source     // of values; of lists, their elements
	message  *sourceMessage
	inner    byte // tag of what a wrapper wraps
	implicit bool // zero is not written
	// low, high and unsigned bound the integers that the field takes.
	low, high int64
	unsigned  bool
	// name is the last text of an enum, whose number is named.
	name  []byte
	named int32
}

// newSourceMessage binds the fields of a message to columns, which are asked for by
// the place of the field in the message.
func newSourceMessage(plan *messagePlan, column func(i int) arrow.Array) *sourceMessage {
	m := &sourceMessage{fields: make([]sourceField, len(plan.fields)), taken: make([]*sourceField, plan.oneofs)}
	for i, f := range plan.byNumber {
		m.fields[i].bind(f, column(f.index))
	}
	return m
}

// bind prepares to write a field from a column.
func (f *sourceField) bind(plan *fieldPlan, column arrow.Array) {
	f.plan, f.value, f.source = plan, &plan.value, newSource(column)
	f.implicit = !plan.nullable && plan.cardinality == singular && !plan.present
	switch plan.cardinality {
	case mapped:
		f.list = f.source
		f.message = newSourceMessage(plan.entry, f.source.values.(*array.Struct).Field)
	case repeated:
		f.list, f.source = f.source, newSource(f.source.values)
		f.bindValue(f.list.values)
	default:
		f.bindValue(column)
	}
}

// bindValue prepares to write values of a column.
func (f *sourceField) bindValue(column arrow.Array) {
	switch f.value.shape {
	case structShape:
		children := column.(*array.Struct)
		dt := children.DataType().(*arrow.StructType)
		plan := f.value.message
		f.message = newSourceMessage(plan, func(i int) arrow.Array {
			at, _ := dt.FieldIdx(plan.fields[i].name)
			return children.Field(at)
		})
	case wrapperShape:
		wrapped := f.value.message.fields[0]
		f.value, f.inner = &wrapped.value, byte(protowire.EncodeTag(wrapped.number, wrapped.value.wire))
	}
	switch f.value.storage {
	case store32, storeZigZag32:
		f.low, f.high = math.MinInt32, math.MaxInt32
	case storeUint32:
		f.low, f.high = 0, math.MaxUint32
	default:
		f.low, f.high = math.MinInt64, math.MaxInt64
		if f.value.column.ID() == arrow.UINT64 {
			f.low, f.unsigned = 0, true
		}
	}
}

// appendTo appends the fields of a row.
func (m *sourceMessage) appendTo(dst []byte, row int) ([]byte, error) {
	clear(m.taken)
	for i := range m.fields {
		f := &m.fields[i]
		var err error
		switch f.plan.cardinality {
		case repeated:
			dst, err = f.appendList(dst, row)
		case mapped:
			dst, err = f.appendMap(dst, row)
		default:
			if !f.source.isValid(row) {
				if err = f.absent(); err == nil {
					continue
				}
				break
			}
			if oneof := f.plan.oneof; oneof >= 0 {
				if other := m.taken[oneof]; other != nil {
					return nil, under(valueFault("both this member and %s of a oneof have a value", other.plan.name), f.plan.name)
				}
				m.taken[oneof] = f
			}
			dst, err = f.appendValue(dst, row)
		}
		if err != nil {
			return nil, under(err, f.plan.name)
		}
	}
	return dst, nil
}

// absent says what is wrong with a null.
func (f *sourceField) absent() error {
	switch {
	case f.plan.required:
		return valueFault("a required field is null")
	case f.plan.present:
		return valueFault("keys and values of a map must not be null")
	}
	return nil
}

func (f *sourceField) appendList(dst []byte, row int) ([]byte, error) {
	if !f.list.isValid(row) {
		return dst, nil
	}
	from, to := f.list.extent(row)
	if from == to {
		return dst, nil
	}
	start := 0
	if f.plan.packed {
		dst = append(f.plan.appendTag(dst), 0)
		start = len(dst)
	}
	for at := from; at < to; at++ {
		var err error
		switch {
		case !f.source.isValid(at):
			err = valueFault("a list in Protobuf has no nulls")
		case f.plan.packed:
			var bits uint64
			if bits, err = f.number(at); err == nil {
				dst = appendNumber(dst, f.value.wire, bits)
			}
		default:
			dst, err = f.appendValue(dst, at)
		}
		if err != nil {
			return nil, under(err, "["+strconv.Itoa(at-from)+"]")
		}
	}
	if f.plan.packed {
		dst = endBlock(dst, start)
	}
	return dst, nil
}

func (f *sourceField) appendMap(dst []byte, row int) ([]byte, error) {
	if !f.list.isValid(row) {
		return dst, nil
	}
	from, to := f.list.extent(row)
	for at := from; at < to; at++ {
		dst = append(f.plan.appendTag(dst), 0)
		start := len(dst)
		var err error
		if dst, err = f.message.appendTo(dst, at); err != nil {
			return nil, under(err, "["+strconv.Itoa(at-from)+"]")
		}
		dst = endBlock(dst, start)
	}
	return dst, nil
}

// endBlock writes the length of what begins at start into the byte before it,
// and makes room where the length has more bytes.
func endBlock(dst []byte, start int) []byte {
	n := len(dst) - start
	if n < 0x80 {
		dst[start-1] = byte(n)
		return dst
	}
	more := protowire.SizeVarint(uint64(n)) - 1
	dst = slices.Grow(dst, more)[:start+n+more]
	copy(dst[start+more:], dst[start:start+n])
	binary.PutUvarint(dst[start-1:], uint64(n))
	return dst
}

// appendValue appends one value with its tag.
func (f *sourceField) appendValue(dst []byte, row int) ([]byte, error) {
	if f.plan.value.shape != scalarShape {
		return f.appendMessage(dst, row)
	}
	if f.value.storage == storeBytes {
		text := f.source.text(row)
		if f.implicit && len(text) == 0 {
			return dst, nil
		}
		return f.appendText(f.plan.appendTag(dst), text)
	}
	bits, err := f.number(row)
	if err != nil || f.implicit && bits == 0 {
		return dst, err
	}
	return appendNumber(f.plan.appendTag(dst), f.value.wire, bits), nil
}

func (f *sourceField) appendText(dst, text []byte) ([]byte, error) {
	if f.value.utf8 && !f.source.ascii && !utf8.Valid(text) {
		return nil, valueFault("the text is not valid UTF-8")
	}
	if len(text) < 0x80 {
		dst = append(dst, byte(len(text)))
	} else {
		dst = protowire.AppendVarint(dst, uint64(len(text)))
	}
	return append(dst, text...), nil
}

func appendNumber(dst []byte, wire protowire.Type, bits uint64) []byte {
	switch wire {
	case protowire.VarintType:
		if bits < 0x80 {
			return append(dst, byte(bits))
		}
		return protowire.AppendVarint(dst, bits)
	case protowire.Fixed64Type:
		return binary.LittleEndian.AppendUint64(dst, bits)
	default:
		return binary.LittleEndian.AppendUint32(dst, uint32(bits))
	}
}

// appendMessage appends a value that is a message, with its tag.
func (f *sourceField) appendMessage(dst []byte, row int) ([]byte, error) {
	dst = f.plan.appendTag(dst)
	if f.plan.end == nil {
		dst = append(dst, 0)
	}
	start := len(dst)
	var err error
	switch f.plan.value.shape {
	case structShape:
		dst, err = f.message.appendTo(dst, row)
	case wrapperShape:
		dst, err = f.appendWrapped(dst, row)
	case timestampShape:
		dst = f.appendTimestamp(dst, row)
	default:
		dst, err = f.value.json.wire(dst, f.source.text(row))
	}
	if err != nil {
		return nil, err
	}
	if f.plan.end != nil {
		return append(dst, f.plan.end...), nil
	}
	return endBlock(dst, start), nil
}

func (f *sourceField) appendWrapped(dst []byte, row int) ([]byte, error) {
	if f.value.storage == storeBytes {
		text := f.source.text(row)
		if len(text) == 0 {
			return dst, nil
		}
		return f.appendText(append(dst, f.inner), text)
	}
	bits, err := f.number(row)
	if err != nil || bits == 0 {
		return dst, err
	}
	return appendNumber(append(dst, f.inner), f.value.wire, bits), nil
}

func (f *sourceField) appendTimestamp(dst []byte, row int) []byte {
	value := load[int64](&f.source, row)
	var seconds, rest int64 // rest is in nanoseconds
	switch f.source.unit {
	case arrow.Second:
		seconds = value
	case arrow.Millisecond:
		seconds, rest = value/1e3, value%1e3*1e6
	case arrow.Microsecond:
		seconds, rest = value/1e6, value%1e6*1e3
	default:
		seconds, rest = value/1e9, value%1e9
	}
	if rest < 0 {
		seconds, rest = seconds-1, rest+1e9
	}
	if seconds != 0 {
		dst = protowire.AppendVarint(append(dst, 1<<3|byte(protowire.VarintType)), uint64(seconds))
	}
	if rest != 0 {
		dst = protowire.AppendVarint(append(dst, 2<<3|byte(protowire.VarintType)), uint64(rest))
	}
	return dst
}

// number returns a number as it stands on the wire.
func (f *sourceField) number(row int) (uint64, error) {
	switch {
	case f.value.storage == storeBool:
		if f.source.flag(row) {
			return 1, nil
		}
		return 0, nil
	case f.value.storage == storeEnum:
		return f.enumNumber(row)
	case f.value.float:
		return f.floatBits(row)
	}
	value, large := f.source.integer(row)
	switch {
	case large && !f.unsigned:
		return 0, valueFault("the number %d is out of the range of the field", uint64(value))
	case !large && (value < f.low || value > f.high):
		return 0, valueFault("the number %d is out of the range of the field", value)
	case f.value.storage == storeZigZag32, f.value.storage == storeZigZag64:
		return protowire.EncodeZigZag(value), nil
	}
	return uint64(value), nil
}

func (f *sourceField) enumNumber(row int) (uint64, error) {
	text := f.source.text(row)
	if f.name == nil || !bytes.Equal(text, f.name) {
		number, ok := f.value.enum.number(text)
		if !ok {
			return 0, valueFault("enum %s has no value %q", f.value.enum.descriptor.FullName(), text)
		}
		f.name, f.named = text, number
	}
	return uint64(int64(f.named)), nil
}

// floatBits returns the bits of a floating-point number. A wider number is
// rounded, but not to infinity.
func (f *sourceField) floatBits(row int) (uint64, error) {
	wide := f.value.storage == store64
	switch {
	case wide && f.source.id == arrow.FLOAT64:
		return load[uint64](&f.source, row), nil
	case !wide && f.source.id == arrow.FLOAT32:
		return uint64(load[uint32](&f.source, row)), nil
	}
	value := f.source.float(row)
	if wide {
		return math.Float64bits(value), nil
	}
	narrow := float32(value)
	if math.IsInf(float64(narrow), 0) && !math.IsInf(value, 0) {
		return 0, valueFault("the number %g is out of the range of the field", value)
	}
	return uint64(math.Float32bits(narrow)), nil
}

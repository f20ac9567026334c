// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Violations lists why one schema cannot read what another one wrote. With
// strict it counts types that share an encoding and not all values.
func Violations(reader, writer *File, strict bool) []string {
	p := comparison{
		strict:   strict,
		reader:   reader,
		writer:   writer,
		messages: make(map[protoreflect.FullName]bool),
		enums:    make(map[enumPair]bool),
	}
	var found []string
	for _, message := range writer.declared() {
		p.reach(message.FullName())
	}
	// What fields refer to comes in on the way.
	byMessage := make(map[protoreflect.FullName][]string)
	for len(p.queue) > 0 {
		name := p.queue[0]
		p.queue = p.queue[1:]
		byMessage[name] = p.message(name)
	}
	for _, name := range slices.Sorted(maps.Keys(byMessage)) {
		found = append(found, byMessage[name]...)
	}
	pairs := slices.SortedFunc(maps.Keys(p.enums), func(a, b enumPair) int {
		return cmp.Or(cmp.Compare(a.writer.FullName(), b.writer.FullName()), cmp.Compare(a.reader.FullName(), b.reader.FullName()))
	})
	for _, pair := range pairs {
		found = append(found, pair.violations()...)
	}
	return found
}

// comparison is one comparison of two schemas.
type comparison struct {
	strict         bool
	reader, writer *File
	messages       map[protoreflect.FullName]bool // reached
	queue          []protoreflect.FullName        // reached and not compared yet
	enums          map[enumPair]bool
}

// reach has a message compared, once: types may refer to each other in circles.
func (p *comparison) reach(name protoreflect.FullName) {
	if !p.messages[name] {
		p.messages[name] = true
		p.queue = append(p.queue, name)
	}
}

// message compares the messages of a name.
func (p *comparison) message(name protoreflect.FullName) []string {
	m := messagePair{
		comparison: p,
		name:       name,
		reader:     p.reader.messages[name],
		writer:     p.writer.messages[name],
	}
	switch {
	case m.writer == nil:
		return nil // a type of an import that the descriptor does not have
	case m.reader == nil:
		return []string{fmt.Sprintf("message %s is absent from the reader", name)}
	}
	m.readerFields, m.writerFields = newFieldTable(p.reader.fields(m.reader)), newFieldTable(p.writer.fields(m.writer))
	m.fields()
	m.required()
	m.reserved()
	m.oneofs()
	return m.found
}

// messagePair is a message of both schemas.
type messagePair struct {
	*comparison
	name                       protoreflect.FullName
	reader, writer             protoreflect.MessageDescriptor
	readerFields, writerFields fieldTable
	found                      []string
}

func (m *messagePair) add(format string, args ...any) {
	m.found = append(m.found, string(m.name)+fmt.Sprintf(format, args...))
}

// fieldTable holds the fields of a message.
type fieldTable struct {
	all      []protoreflect.FieldDescriptor
	byNumber map[protoreflect.FieldNumber]protoreflect.FieldDescriptor
	byName   map[string]protoreflect.FieldDescriptor
}

func newFieldTable(fields []protoreflect.FieldDescriptor) fieldTable {
	t := fieldTable{
		all:      fields,
		byNumber: make(map[protoreflect.FieldNumber]protoreflect.FieldDescriptor, len(fields)),
		byName:   make(map[string]protoreflect.FieldDescriptor, len(fields)),
	}
	for _, field := range fields {
		t.byNumber[field.Number()] = field
		t.byName[fieldName(field)] = field
	}
	return t
}

// fieldName names a field within its message: extensions by their full name.
func fieldName(field protoreflect.FieldDescriptor) string {
	if field.IsExtension() {
		return "[" + string(field.FullName()) + "]"
	}
	return string(field.Name())
}

// fields compares what both have under one number, and looks for what has moved.
func (m *messagePair) fields() {
	for _, written := range m.writerFields.all {
		if read := m.readerFields.byNumber[written.Number()]; read != nil {
			m.field(read, written)
		}
		read := m.readerFields.byName[fieldName(written)]
		if read == nil || read.Number() == written.Number() ||
			m.reader.ReservedRanges().Has(written.Number()) || m.writer.ReservedRanges().Has(read.Number()) {
			continue
		}
		m.add(" field %s moved from number %d to %d", fieldName(written), written.Number(), read.Number())
	}
}

func (m *messagePair) field(read, written protoreflect.FieldDescriptor) {
	place := fmt.Sprintf(" field %d", written.Number())
	switch {
	case wireType(read.Kind()) != wireType(written.Kind()), repeated(read) != repeated(written) && wireType(read.Kind()) != lengthDelimited:
		m.add("%s changed wire type or cardinality", place)
	case m.strict && repeated(written) && !repeated(read):
		m.add("%s: reader %s keeps only the last of the writer's values", place, typeOf(read))
	case read.IsMap() && written.IsMap():
		m.value(place+" map key", read.MapKey(), written.MapKey())
		m.value(place+" map value", read.MapValue(), written.MapValue())
	default:
		m.value(place, read, written)
	}
}

// repeated reports whether a field has many values. A reader of texts, bytes or
// messages takes one for many and the last, or all parts together, for one.
// Numbers may be packed where there are many, which readers of one do not know.
func repeated(field protoreflect.FieldDescriptor) bool {
	return field.Cardinality() == protoreflect.Repeated
}

// value compares the types of single values.
func (m *messagePair) value(place string, read, written protoreflect.FieldDescriptor) {
	switch {
	case encodingOf(read.Kind()) != encodingOf(written.Kind()),
		read.IsMap() != written.IsMap(),
		read.Message() != nil && read.Message().FullName() != written.Message().FullName() && !read.IsMap():
		m.add("%s: reader %s cannot read writer %s", place, typeOf(read), typeOf(written))
		return
	case m.strict && !holds(read, written):
		m.add("%s: reader %s cannot hold every %s of the writer", place, typeOf(read), typeOf(written))
	}
	switch {
	case read.Message() != nil:
		m.reach(read.Message().FullName())
	case read.Enum() != nil && written.Enum() != nil:
		m.enums[enumPair{read.Enum(), written.Enum()}] = true
	}
}

// typeOf names a type as source does, without the leading dot.
func typeOf(field protoreflect.FieldDescriptor) string {
	if field.IsMap() {
		return fmt.Sprintf("map<%s, %s>", typeOf(field.MapKey()), typeOf(field.MapValue()))
	}
	return strings.TrimPrefix(protoTypeName(field), ".")
}

// required looks for fields without which the reader takes no message.
func (m *messagePair) required() {
	for _, read := range m.readerFields.all {
		if read.Cardinality() != protoreflect.Required {
			continue
		}
		written := m.writerFields.byNumber[read.Number()]
		switch {
		case written == nil:
			m.add(".%s is required but absent from the writer", read.Name())
		case written.Cardinality() != protoreflect.Required:
			m.add(".%s is required but optional in the writer", read.Name())
		}
	}
}

// reserved looks for what the later schema uses against the earlier one's word.
// The other way around it is how a field is removed.
func (m *messagePair) reserved() {
	if m.comparison.reader.age < m.comparison.writer.age {
		return
	}
	for _, read := range m.readerFields.all {
		if m.writer.ReservedRanges().Has(read.Number()) {
			m.add(" field %d uses a reserved number", read.Number())
		}
		if !read.IsExtension() && m.writer.ReservedNames().Has(read.Name()) {
			m.add(" field %d uses the reserved name %s", read.Number(), read.Name())
		}
	}
}

func (m *messagePair) oneofs() {
	for i := range m.reader.Oneofs().Len() {
		oneof := m.reader.Oneofs().Get(i)
		if oneof.IsSynthetic() {
			continue
		}
		// The fields of one oneof of the writer are never set together.
		sources := make(map[protoreflect.FullName]bool)
		var joined []string
		for j := range oneof.Fields().Len() {
			written := m.writerFields.byNumber[oneof.Fields().Get(j).Number()]
			if written == nil {
				continue
			}
			source := written.FullName()
			if of := realOneof(written); of != nil {
				source = of.FullName()
			}
			sources[source] = true
			joined = append(joined, fmt.Sprint(written.Number()))
		}
		if len(sources) > 1 {
			m.add(" oneof %s joins fields %s, which the writer can set together", oneof.Name(), strings.Join(joined, ", "))
		}
	}
	for i := range m.writer.Oneofs().Len() {
		oneof := m.writer.Oneofs().Get(i)
		if oneof.IsSynthetic() {
			continue
		}
		kept := ""
		var lost []string
		for j := range oneof.Fields().Len() {
			number := oneof.Fields().Get(j).Number()
			read := m.readerFields.byNumber[number]
			if read == nil {
				lost = append(lost, fmt.Sprint(number))
			} else if of := realOneof(read); of != nil {
				kept = string(of.Name())
			}
		}
		if kept != "" && len(lost) > 0 {
			m.add(" oneof %s lacks the writer's field %s", kept, strings.Join(lost, ", "))
		}
	}
}

func realOneof(field protoreflect.FieldDescriptor) protoreflect.OneofDescriptor {
	if oneof := field.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
		return oneof
	}
	return nil
}

// enumPair is an enum that is read in the place of another, or of itself.
type enumPair struct{ reader, writer protoreflect.EnumDescriptor }

func (e enumPair) violations() []string {
	name := string(e.reader.FullName())
	if e.writer.FullName() != e.reader.FullName() {
		name += ", read in the place of " + string(e.writer.FullName()) + ","
	}
	var found []string
	for i := range e.writer.Values().Len() {
		written := e.writer.Values().Get(i)
		read := e.reader.Values().ByName(written.Name())
		switch {
		case read != nil && read.Number() == written.Number():
		case read != nil && !e.reader.ReservedRanges().Has(written.Number()) && !e.writer.ReservedRanges().Has(read.Number()):
			found = append(found, fmt.Sprintf("enum %s has %s moved from number %d to %d", name, written.Name(), written.Number(), read.Number()))
		case e.reader.IsClosed() && e.reader.Values().ByNumber(written.Number()) == nil:
			found = append(found, fmt.Sprintf("enum %s is closed and lacks the writer's value %s = %d", name, written.Name(), written.Number()))
		}
	}
	return found
}

// lengthDelimited is the wire type of texts, bytes and messages.
const lengthDelimited = 2

// wireType tells how a value is framed.
func wireType(kind protoreflect.Kind) int {
	switch kind {
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return 1
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return lengthDelimited
	case protoreflect.GroupKind:
		return 3
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return 5
	default:
		return 0
	}
}

// encodingOf returns a kind that stands for all that read each other's values.
func encodingOf(kind protoreflect.Kind) protoreflect.Kind {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.BoolKind, protoreflect.EnumKind:
		return protoreflect.Int64Kind
	case protoreflect.Sint32Kind:
		return protoreflect.Sint64Kind
	case protoreflect.Sfixed32Kind:
		return protoreflect.Fixed32Kind
	case protoreflect.Sfixed64Kind:
		return protoreflect.Fixed64Kind
	case protoreflect.BytesKind:
		return protoreflect.StringKind
	}
	return kind
}

// holds reports whether every value of the writer's type is one of the reader's.
func holds(read, written protoreflect.FieldDescriptor) bool {
	if read.Kind() == written.Kind() {
		return true
	}
	switch read.Kind() {
	case protoreflect.BytesKind:
		return true
	case protoreflect.StringKind:
		return false
	case protoreflect.EnumKind:
		if read.Enum().IsClosed() {
			return false
		}
	}
	readLow, readHigh := numbersOf(read.Kind())
	low, high := numbersOf(written.Kind())
	return readLow <= low && high <= readHigh
}

// numbersOf returns the least and the greatest value of an integer kind.
func numbersOf(kind protoreflect.Kind) (low int64, high uint64) {
	switch kind {
	case protoreflect.BoolKind:
		return 0, 1
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind, protoreflect.EnumKind:
		return math.MinInt32, math.MaxInt32
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return 0, math.MaxUint32
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return math.MinInt64, math.MaxInt64
	default:
		return 0, math.MaxUint64
	}
}

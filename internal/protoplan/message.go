// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/krabka-io/krabka-streams-go/internal/columnset"
)

// action is what the decoder does with a value of a field.
type action uint8

const (
	keepNumber  action = iota // varint, fixed32 or fixed64, by the tag
	keepBytes                 // a text in a slot
	keepMessage               // a message in slots
	keepJSON                  // a message as bytes
	addNumber                 // to a list, packed or not
	addBytes
	addMessage
	addJSON
	addEntry // to a map
	pass     // a field that is not needed
)

// message holds the slots of one message of a plan.
type message struct {
	plan   *messagePlan
	fields []field
	chosen []*field // by oneof: the member that is set
	// unknown collects what the message does not declare; nil: it is dropped.
	unknown      *columnset.Column
	unknownBytes []byte
}

// field is a field of a message and the slot of its value.
type field struct {
	action  action
	shape   shape
	storage storage
	utf8    bool
	set     bool
	oneof   int
	bits    uint64 // a number as on the wire, or how many parts a JSON message has
	value   span   // a text, as a part of the body
	bytes   []byte // the parts of a JSON message
	text    []byte // memory for JSON text
	child   *message
	// column takes values: of a list, its elements; of a map, its keys.
	column *columnset.Column
	list   *columnset.Column // of a list or map
	plan   *fieldPlan
	spans  []span // of the entries of a map
	sorted bool   // the keys of the map ascend
}

// span is a part of the body.
type span struct{ start, end int }

func newMessage(plan *messagePlan) *message {
	m := &message{plan: plan, fields: make([]field, len(plan.fields))}
	for i, f := range plan.fields {
		m.fields[i] = field{
			shape: f.value.shape, storage: f.value.storage, utf8: f.value.utf8, oneof: f.oneof, plan: f, sorted: true,
		}
		m.fields[i].action = actionOf(f)
	}
	m.chosen = make([]*field, plan.oneofs)
	return m
}

func actionOf(f *fieldPlan) action {
	one := [...]action{keepNumber, keepBytes, keepMessage, keepJSON}
	if f.cardinality == repeated {
		one = [...]action{addNumber, addBytes, addMessage, addJSON}
	}
	switch {
	case f.cardinality == mapped:
		return addEntry
	case f.value.shape == jsonShape:
		return one[3]
	case f.value.shape != scalarShape:
		return one[2]
	case f.value.storage == storeBytes:
		return one[1]
	default:
		return one[0]
	}
}

// bind gives a field its column.
func (m *message) bind(i int, c *columnset.Column) {
	f := &m.fields[i]
	f.column = c
	if f.plan.cardinality != singular {
		f.list, f.column = c, c.Children()[0]
	}
	switch f.shape {
	case structShape:
		parent := f.column
		if f.plan.cardinality == mapped {
			parent = f.list
		}
		f.child = newMessage(f.plan.value.message)
		for i, column := range parent.Children() {
			f.child.bind(i, column)
		}
		f.child.finish()
	case wrapperShape, timestampShape:
		f.child = newMessage(f.plan.value.message)
	}
}

// finish leaves out oneofs of which no other member is needed.
func (m *message) finish() {
	needed := make([]int, len(m.chosen))
	for i := range m.fields {
		if f := &m.fields[i]; f.oneof >= 0 && f.action != pass {
			needed[f.oneof]++
		}
	}
	for i := range m.fields {
		if f := &m.fields[i]; f.oneof >= 0 && needed[f.oneof] == 0 {
			f.oneof = -1
		}
	}
}

// discard drops what the message has collected for a row.
func (m *message) discard() {
	for i := range m.fields {
		m.fields[i].discard()
	}
	clear(m.chosen)
	m.unknownBytes = m.unknownBytes[:0]
}

func (f *field) discard() {
	f.set = false
	switch f.action {
	case keepJSON:
		f.bytes = f.bytes[:0]
	case keepMessage, addMessage, addEntry:
		f.child.discard()
	}
	f.spans, f.sorted = f.spans[:0], true
	if f.list != nil {
		f.list.Truncate(f.list.Len()) // drops the elements of no list
	}
}

// choose makes a field the one that is set among its oneof.
func (m *message) choose(f *field) error {
	other := m.chosen[f.oneof]
	m.chosen[f.oneof] = f
	if other == nil || other == f {
		return nil
	}
	if err := other.checkJSON(); err != nil {
		return err
	}
	other.discard()
	return nil
}

// checkJSON looks at the JSON messages of a value that is given up, because they
// are read when their message ends.
func (f *field) checkJSON() error {
	if !f.set {
		return nil
	}
	switch f.action {
	case keepJSON:
		if _, err := f.plan.value.json.read(f.bytes, true); err != nil {
			return under(err, f.plan.name)
		}
	case keepMessage:
		for i := range f.child.fields {
			if err := f.child.fields[i].checkJSON(); err != nil {
				return under(err, f.plan.name)
			}
		}
	}
	return nil
}

// commit appends the message to its columns and empties its slots.
func (m *message) commit(body []byte) error {
	for i := range m.fields {
		f := &m.fields[i]
		switch f.action {
		case keepNumber:
			if !f.set {
				switch {
				case f.plan.required:
					return f.unset()
				case f.plan.nullable:
					f.column.AppendNull()
					continue
				}
				f.bits = f.plan.value.zero
			}
			f.set = false
			f.put(f.bits)
		case keepBytes:
			if !f.set {
				if f.plan.required {
					return f.unset()
				}
				f.column.AppendZero(!f.plan.nullable)
				continue
			}
			f.set = false
			f.column.AppendBytes(body[f.value.start:f.value.end])
		case keepMessage, keepJSON:
			if !f.set && !f.plan.present {
				if f.plan.required {
					return f.unset()
				}
				f.column.AppendZero(!f.plan.nullable)
				continue
			}
			f.set = false
			if err := f.commitMessage(body); err != nil {
				return under(err, f.plan.name)
			}
		case addNumber, addBytes, addMessage, addJSON:
			f.list.EndList()
		case addEntry:
			if err := f.commitMap(body); err != nil {
				return err
			}
		case pass:
		}
	}
	clear(m.chosen)
	if m.unknown != nil {
		m.commitUnknown()
	}
	return nil
}

func (f *field) unset() error {
	return under(dataFault(-1, "the required field is not set"), f.plan.name)
}

func (m *message) commitUnknown() {
	if len(m.unknownBytes) == 0 {
		m.unknown.AppendNull()
		return
	}
	m.unknown.AppendBytes(m.unknownBytes)
	m.unknownBytes = m.unknownBytes[:0]
}

// put appends a number to the column.
func (f *field) put(bits uint64) {
	switch c := f.column; f.storage {
	case store64:
		c.Append8(bits)
	case store32:
		c.Append4(uint32(bits))
	case storeUint32:
		c.Append8(uint64(uint32(bits)))
	case storeZigZag64:
		c.Append8(uint64(protowire.DecodeZigZag(bits)))
	case storeZigZag32:
		c.Append4(uint32(protowire.DecodeZigZag(bits & math.MaxUint32)))
	case storeBool:
		c.AppendBool(bits != 0)
	case storeEnum:
		name := f.plan.value.enum.name(int32(bits))
		if name == nil {
			var digits [11]byte
			name = strconv.AppendInt(digits[:0], int64(int32(bits)), 10)
		}
		c.AppendBytes(name)
	}
}

// commitMessage appends a message that is a value of the field to the column.
func (f *field) commitMessage(body []byte) error {
	switch f.shape {
	case structShape:
		err := f.child.commit(body)
		f.column.EndStruct()
		return err
	case wrapperShape:
		f.commitWrapper(body)
		return nil
	case timestampShape:
		return f.commitTimestamp()
	default:
		return f.commitJSON()
	}
}

// takeBits returns the number of a slot, 0 where it is not set, and empties it.
func (f *field) takeBits() uint64 {
	if !f.set {
		return 0
	}
	f.set = false
	return f.bits
}

func (f *field) commitWrapper(body []byte) {
	inner := &f.child.fields[0]
	inner.column = f.column
	if inner.action == keepBytes {
		text := span{}
		if inner.set {
			text = inner.value
		}
		inner.set = false
		f.column.AppendBytes(body[text.start:text.end])
		return
	}
	inner.put(inner.takeBits())
}

const microsPerSecond = 1_000_000

func (f *field) commitTimestamp() error {
	seconds := int64(f.child.fields[0].takeBits())
	micros := int64(int32(f.child.fields[1].takeBits())) / 1000
	const most = math.MaxInt64 / microsPerSecond
	at := seconds*microsPerSecond + micros
	if seconds > most || seconds < -most || (micros > 0 && at < seconds*microsPerSecond) || (micros < 0 && at > seconds*microsPerSecond) {
		return dataFault(-1, "%d seconds and %d microseconds are no timestamp that fits 64 bits of microseconds", seconds, micros)
	}
	f.column.Append8(uint64(at))
	return nil
}

// addPart adds a part of a JSON message. Where there are several, each must be in
// order by itself.
func (f *field) addPart(part []byte) error {
	json := f.plan.value.json
	switch {
	case !f.set:
		f.bits = 0
	case f.bits == 1:
		if _, err := json.read(f.bytes, true); err != nil {
			return err
		}
	}
	if f.bits++; f.bits > 1 {
		if _, err := json.read(part, true); err != nil {
			return err
		}
	}
	f.set, f.bytes = true, append(f.bytes, part...)
	return nil
}

func (f *field) commitJSON() error {
	text, err := f.plan.value.json.text(f.text[:0], f.bytes)
	f.bytes, f.text = f.bytes[:0], text[:0]
	if err != nil {
		return err
	}
	f.column.AppendBytes(text)
	return nil
}

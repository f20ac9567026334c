// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"encoding/binary"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// varint reads a varint of body at a place, and returns the place behind it, or
// an error.
func varint(body []byte, at int) (uint64, int, error) {
	if at < len(body) && body[at] < 0x80 {
		return uint64(body[at]), at + 1, nil
	}
	value, n := protowire.ConsumeVarint(body[at:])
	if n < 0 {
		return 0, 0, brokenVarint(body, at)
	}
	return value, at + n, nil
}

func brokenVarint(body []byte, at int) error {
	if len(body)-at >= binary.MaxVarintLen64 {
		return dataFault(at, "a varint has more than 64 bits")
	}
	return dataFault(at, "truncated: a varint does not end")
}

// block reads a length and returns the part of the body that it covers.
func block(body []byte, at int) (start, end int, err error) {
	length, start, err := varint(body, at)
	if err != nil {
		return 0, 0, err
	}
	if length > uint64(len(body)-start) {
		return 0, 0, dataFault(at, "truncated: length %d exceeds the %d bytes that remain", length, len(body)-start)
	}
	return start, start + int(length), nil
}

// parse reads the fields from a place to the end of body, or to the tag that ends
// a group, into the slots. It returns the place behind them. Places count from
// the start of body, which always begins with the outermost message.
func (m *message) parse(body []byte, at int, group protowire.Number) (int, error) {
	for at < len(body) {
		start := at
		tag := uint64(body[at])
		at++
		var found uint16
		if tag < 0x80 {
			found = m.plan.byTag[tag]
		} else {
			var err error
			if tag, at, err = varint(body, start); err != nil {
				return 0, err
			}
			if number := tag >> 3; number <= uint64(protowire.MaxValidNumber) {
				found = m.plan.find(protowire.Number(number))
				if found > 0 && !m.plan.fields[found-1].accepts(protowire.Type(tag&7)) {
					found = 0
				}
			}
		}
		if found == 0 {
			if protowire.Type(tag&7) == protowire.EndGroupType && group != 0 && tag>>3 == uint64(group) {
				return at, nil
			}
			var err error
			if at, err = m.other(body, start, at, tag); err != nil {
				return 0, err
			}
			continue
		}
		f := &m.fields[found-1]
		if f.oneof >= 0 && m.chosen[f.oneof] != f {
			if err := m.choose(f); err != nil {
				return 0, err
			}
		}
		switch f.action {
		case keepNumber:
			switch protowire.Type(tag & 7) {
			case protowire.VarintType:
				if at < len(body) && body[at] < 0x80 {
					f.bits = uint64(body[at])
					at++
				} else if value, n := protowire.ConsumeVarint(body[at:]); n > 0 {
					f.bits = value
					at += n
				} else {
					return 0, under(brokenVarint(body, at), f.plan.name)
				}
			case protowire.Fixed64Type:
				if len(body)-at < 8 {
					return 0, f.short(body, at, 8)
				}
				f.bits = binary.LittleEndian.Uint64(body[at:])
				at += 8
			default:
				if len(body)-at < 4 {
					return 0, f.short(body, at, 4)
				}
				f.bits = uint64(binary.LittleEndian.Uint32(body[at:]))
				at += 4
			}
			f.set = true
		case keepBytes:
			from, to, err := block(body, at)
			if err != nil {
				return 0, under(err, f.plan.name)
			}
			if f.utf8 && !utf8.Valid(body[from:to]) {
				return 0, under(dataFault(from, "the text is not valid UTF-8"), f.plan.name)
			}
			f.value, f.set, at = span{from, to}, true, to
		default:
			var err error
			if at, err = f.parse(body, at, tag); err != nil {
				return 0, under(err, f.plan.name)
			}
		}
	}
	if group != 0 {
		return 0, dataFault(at, "truncated: the group does not end")
	}
	return at, nil
}

func (f *field) short(body []byte, at, want int) error {
	return under(dataFault(at, "truncated: %d of %d bytes", len(body)-at, want), f.plan.name)
}

// other reads a field that the message does not declare, whose tag stands at
// start and its value at at.
func (m *message) other(body []byte, start, at int, tag uint64) (int, error) {
	end, err := skipValue(body, start, at, tag)
	if err == nil && m.unknown != nil {
		m.unknownBytes = append(m.unknownBytes, body[start:end]...)
	}
	return end, err
}

// skipValue returns the place behind a value.
func skipValue(body []byte, start, at int, tag uint64) (int, error) {
	number := tag >> 3
	if number < uint64(protowire.MinValidNumber) || number > uint64(protowire.MaxValidNumber) {
		return 0, dataFault(start, "invalid field number %d", number)
	}
	step := strconv.FormatUint(number, 10)
	switch wire := protowire.Type(tag & 7); wire {
	case protowire.EndGroupType:
		return 0, dataFault(start, "a group ends that has not begun")
	case protowire.BytesType:
		_, end, err := block(body, at)
		if err != nil {
			return 0, under(err, step)
		}
		return end, nil
	default:
		n := protowire.ConsumeFieldValue(protowire.Number(number), wire, body[at:])
		if n < 0 {
			return 0, under(dataFault(at, "the value is truncated or malformed"), step)
		}
		return at + n, nil
	}
}

// parse reads a value that is not kept as a number or text.
func (f *field) parse(body []byte, at int, tag uint64) (int, error) {
	wire := protowire.Type(tag & 7)
	switch f.action {
	case keepMessage:
		f.set = true
		return f.parseMessage(body, at, wire)
	case keepJSON:
		from, end, next, err := f.extent(body, at, tag)
		if err != nil {
			return 0, err
		}
		return next, f.addPart(body[from:end])
	case addNumber:
		if wire == protowire.BytesType {
			return f.addPacked(body, at)
		}
		bits, next, err := scalar(body, at, wire)
		if err == nil {
			f.put(bits)
		}
		return next, err
	case addBytes:
		from, to, err := block(body, at)
		switch {
		case err != nil:
			return 0, err
		case f.utf8 && !utf8.Valid(body[from:to]):
			return 0, f.element(dataFault(from, "the text is not valid UTF-8"))
		}
		f.column.AppendBytes(body[from:to])
		return to, nil
	case addMessage:
		next, err := f.parseMessage(body, at, wire)
		if err != nil {
			return 0, f.element(err)
		}
		place := f.column.Len()
		if err := f.commitMessage(body); err != nil {
			return 0, f.elementAt(place, err)
		}
		return next, nil
	case addJSON:
		from, end, next, err := f.extent(body, at, tag)
		if err != nil {
			return 0, err
		}
		f.bytes = append(f.bytes[:0], body[from:end]...)
		if err := f.commitJSON(); err != nil {
			return 0, f.element(err)
		}
		return next, nil
	case addEntry:
		return f.parseEntry(body, at)
	default: // pass
		return skipValue(body, at, at, tag)
	}
}

// element puts the place of the next element in front of the path of an error.
func (f *field) element(err error) error { return f.elementAt(f.column.Len(), err) }

// elementAt is element for an element that is at a place of its column.
func (f *field) elementAt(at int, err error) error {
	return under(err, "["+strconv.Itoa(at-f.list.ListStart())+"]")
}

// parseMessage reads a part of a message into the slots of the child.
func (f *field) parseMessage(body []byte, at int, wire protowire.Type) (int, error) {
	if wire == protowire.StartGroupType {
		return f.child.parse(body, at, f.plan.number)
	}
	from, to, err := block(body, at)
	if err != nil {
		return 0, err
	}
	return f.child.parse(body[:to], from, 0)
}

// extent finds the contents of a message, and the place behind it.
func (f *field) extent(body []byte, at int, tag uint64) (from, end, next int, err error) {
	if protowire.Type(tag&7) == protowire.BytesType {
		from, end, err = block(body, at)
		return from, end, end, err
	}
	contents, n := protowire.ConsumeGroup(f.plan.number, body[at:])
	if n < 0 {
		return 0, 0, 0, dataFault(at, "the group is truncated or malformed")
	}
	return at, at + len(contents), at + n, nil
}

// scalar reads a number in one of its forms.
func scalar(body []byte, at int, wire protowire.Type) (uint64, int, error) {
	switch wire {
	case protowire.VarintType:
		return varint(body, at)
	case protowire.Fixed64Type:
		if len(body)-at < 8 {
			return 0, 0, dataFault(at, "truncated: %d of 8 bytes", len(body)-at)
		}
		return binary.LittleEndian.Uint64(body[at:]), at + 8, nil
	default:
		if len(body)-at < 4 {
			return 0, 0, dataFault(at, "truncated: %d of 4 bytes", len(body)-at)
		}
		return uint64(binary.LittleEndian.Uint32(body[at:])), at + 4, nil
	}
}

// addPacked reads packed numbers into a list.
func (f *field) addPacked(body []byte, at int) (int, error) {
	at, end, err := block(body, at)
	if err != nil {
		return 0, err
	}
	body = body[:end]
	for at < end {
		var bits uint64
		if bits, at, err = scalar(body, at, f.plan.value.wire); err != nil {
			return 0, f.element(err)
		}
		f.put(bits)
	}
	return at, nil
}

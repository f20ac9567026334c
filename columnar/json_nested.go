// SPDX-License-Identifier: Apache-2.0

package columnar

import "bytes"

// mapValue reads an object as the entries of a map.
func (d *jsonDecoder) mapValue(s *jsonSink) *JSONError {
	if err := d.expect('{', "an object"); err != nil {
		return err
	}
	entries := &s.children[0]
	keys, items := &entries.children[0], &entries.children[1]
	first := entries.count
	var seen map[string]int
	for more := d.peek() != '}'; more; {
		name, err := d.mapKey(keys)
		if err != nil {
			return err
		}
		if err := d.expect(':', "a colon"); err != nil {
			return err
		}
		if err := d.value(items); err != nil {
			return err.within(string(name))
		}
		entries.valid()
		seen = s.dropEarlier(first, seen)
		switch d.peek() {
		case ',':
			d.pos++
			d.peek()
		case '}':
			more = false
		default:
			return d.unexpected("a comma or the end of the object")
		}
	}
	d.pos++
	s.putOffset(s.count+1, entries.count)
	s.valid()
	return nil
}

// dropEarlier drops the entry of the map from first on that has the last
// entry's key. Seen is an index of large maps.
func (s *jsonSink) dropEarlier(first int, seen map[string]int) map[string]int {
	keys := &s.children[0].children[0]
	last := s.children[0].count - 1
	key := keys.key(last)
	if last-first < 16 {
		for i := first; i < last; i++ {
			if string(keys.key(i)) == string(key) {
				s.drop(i)
			}
		}
		return nil
	}
	if seen == nil {
		seen = make(map[string]int)
		for i := first; i < last; i++ {
			seen[string(keys.key(i))] = i
		}
	}
	if earlier, ok := seen[string(key)]; ok {
		s.drop(earlier)
	}
	seen[string(key)] = last
	return seen
}

// drop marks an entry as replaced. Entries may be marked twice and in any order
// within a map.
func (s *jsonSink) drop(entry int) { s.dropped = append(s.dropped, entry) }

// mapKey reads the name of a member as the next key of a map, and returns it. The
// name of a key that is not text is the JSON form of the key.
func (d *jsonDecoder) mapKey(keys *jsonSink) ([]byte, *JSONError) {
	start := d.pos
	name, err := d.string()
	if err != nil {
		return nil, err
	}
	if keys.node.kind == jsonText {
		keys.putText(name)
		return keys.key(keys.count - 1), nil
	}
	name = bytes.Clone(name)
	document, end := d.data, d.pos
	d.data, d.pos = name, 0
	if err = d.value(keys); err == nil {
		err = d.end()
	}
	d.data, d.pos = document, end
	if err != nil {
		return nil, d.failAt(start, err.Cause).within(string(name))
	}
	return name, nil
}

// key returns bytes that are equal for equal keys of a map.
func (s *jsonSink) key(i int) []byte {
	switch s.node.kind {
	case jsonText:
		return s.bytes[s.offset(i):s.offset(i+1)]
	case jsonBool:
		return []byte{s.values[i>>3] >> (i & 7) & 1}
	default:
		return s.values[i*s.node.width : (i+1)*s.node.width]
	}
}

// unionValue reads a value into the first member of a union that takes it. A number
// goes to a member of integers before one of floats or decimals.
func (d *jsonDecoder) unionValue(s *jsonSink, c byte) *JSONError {
	start := d.pos
	var fault *JSONError
	for _, exact := range []bool{true, false} {
		for i := range s.children {
			child := &s.children[i]
			if takes, integer := child.node.takes(c); !takes || integer != exact {
				continue
			}
			before := child.count
			err := d.value(child)
			if err == nil {
				s.putMember(i)
				return nil
			}
			child.truncate(before)
			d.pos = start
			if fault == nil {
				fault = err.within(child.node.name)
			}
		}
	}
	if fault == nil {
		fault = d.unexpected("a value of one of the union's types")
	}
	return fault
}

// takes reports whether values of the node can begin with a character, and whether
// they are integers.
func (n *jsonNode) takes(c byte) (takes, integer bool) {
	isNumber := c == '-' || c-'0' <= 9
	switch n.kind {
	case jsonEncoded:
		return n.children[0].takes(c)
	case jsonRaw:
		return true, false
	case jsonText, jsonBinary, jsonFixedBinary, jsonDate, jsonClock, jsonTimestamp:
		return c == '"', false
	case jsonBool:
		return c == 't' || c == 'f', false
	case jsonSigned, jsonUnsigned, jsonDuration:
		return isNumber, true
	case jsonFloat, jsonDecimal:
		return isNumber, false
	case jsonList, jsonFixedList:
		return c == '[', false
	case jsonStruct, jsonMap:
		return c == '{', false
	case jsonUnion:
		for i := range n.children {
			if takes, integer = n.children[i].takes(c); takes {
				return takes, integer
			}
		}
	}
	return false, false
}

// putMember counts a value of a union, which was just written to a child. A sparse
// union has a value in every child.
func (s *jsonSink) putMember(child int) {
	s.members = append(s.members, uint8(child))
	if s.node.isSparse() {
		for i := range s.children {
			if i != child {
				s.children[i].null()
			}
		}
	}
	s.places = append(s.places, int32(s.children[child].count-1))
	s.count++
}

// nullMember adds a null to a union: in its first child that takes one.
func (s *jsonSink) nullMember() {
	child := 0
	for i := range s.children {
		if s.children[i].node.nullable {
			child = i
			break
		}
	}
	s.children[child].null()
	s.putMember(child)
}

// truncateMembers drops the values of a union from row on, and what was written of
// one that failed.
func (s *jsonSink) truncateMembers(row int) {
	if s.node.isSparse() {
		for i := range s.children {
			s.children[i].truncate(row)
		}
	} else {
		ends := make([]int, len(s.children))
		for i, member := range s.members[:row] {
			ends[member] = int(s.places[i]) + 1
		}
		for i := range s.children {
			s.children[i].truncate(ends[i])
		}
	}
	s.members, s.places = s.members[:row], s.places[:row]
}

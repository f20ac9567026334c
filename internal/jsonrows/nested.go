// SPDX-License-Identifier: Apache-2.0

package jsonrows

import "bytes"

// mapValue reads an object as the entries of a map.
func (d *Decoder) mapValue(s *Sink) *Error {
	if err := d.Expect('{', "an object"); err != nil {
		return err
	}
	entries := &s.Children[0]
	keys, items := &entries.Children[0], &entries.Children[1]
	first := entries.Count
	var seen map[string]int
	for more := d.Peek() != '}'; more; {
		name, err := d.mapKey(keys)
		if err != nil {
			return err
		}
		if err := d.Expect(':', "a colon"); err != nil {
			return err
		}
		if err := d.Value(items); err != nil {
			return err.within(string(name))
		}
		entries.Valid()
		seen = s.dropEarlier(first, seen)
		switch d.Peek() {
		case ',':
			d.Pos++
			d.Peek()
		case '}':
			more = false
		default:
			return d.Unexpected("a comma or the end of the object")
		}
	}
	d.Pos++
	s.putOffset(s.Count+1, entries.Count)
	s.Valid()
	return nil
}

// mapKey reads the name of a member as the next key of a map, and returns it. The
// name of a key that is not text is the JSON form of the key.
func (d *Decoder) mapKey(keys *Sink) ([]byte, *Error) {
	start := d.Pos
	name, err := d.Quoted()
	if err != nil {
		return nil, err
	}
	if keys.Node.Kind == textNode {
		keys.putText(name)
		return keys.key(keys.Count - 1), nil
	}
	name = bytes.Clone(name)
	document, end := d.Data, d.Pos
	d.Data, d.Pos = name, 0
	if err = d.Value(keys); err == nil {
		err = d.End()
	}
	d.Data, d.Pos = document, end
	if err != nil {
		return nil, d.failAt(start, err.Cause).within(string(name))
	}
	return name, nil
}

// unionValue reads a value into the first member of a union that takes it. A number
// goes to a member of integers before one of floats or decimals.
func (d *Decoder) unionValue(s *Sink, c byte) *Error {
	start := d.Pos
	var fault *Error
	for _, exact := range []bool{true, false} {
		for i := range s.Children {
			child := &s.Children[i]
			if takes, integer := child.Node.takes(c); !takes || integer != exact {
				continue
			}
			before := child.Count
			err := d.Value(child)
			if err == nil {
				s.putMember(i)
				return nil
			}
			child.Truncate(before)
			d.Pos = start
			if fault == nil {
				fault = err.within(child.Node.Name)
			}
		}
	}
	if fault == nil {
		fault = d.Unexpected("a value of one of the union's types")
	}
	return fault
}

// takes reports whether values of the node can begin with a character, and whether
// they are integers.
func (n *Node) takes(c byte) (takes, integer bool) {
	isNumber := c == '-' || c-'0' <= 9
	switch n.Kind {
	case encodedNode:
		return n.Children[0].takes(c)
	case rawNode:
		return true, false
	case textNode, binaryNode, fixedBinaryNode, dateNode, clockNode, timestampNode:
		return c == '"', false
	case boolNode:
		return c == 't' || c == 'f', false
	case signedNode, unsignedNode, durationNode:
		return isNumber, true
	case floatNode, decimalNode:
		return isNumber, false
	case listNode, fixedListNode:
		return c == '[', false
	case structNode, mapNode:
		return c == '{', false
	case unionNode:
		for i := range n.Children {
			if takes, integer = n.Children[i].takes(c); takes {
				return takes, integer
			}
		}
	}
	return false, false
}

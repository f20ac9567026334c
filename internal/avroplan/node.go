// SPDX-License-Identifier: Apache-2.0

package avroplan

import "math"

// Node says how one datum of a writer schema becomes a value of a reader
// schema. What stands on the wire is Wire's; what comes out is Schema's.
//
// A Node is safe for concurrent use by multiple goroutines: it is not changed
// once Resolve has returned.
type Node struct {
	// Schema is the reader's schema of the value.
	Schema *Schema

	// Wire is the kind that the writer wrote. It is Schema.Kind unless the
	// value is promoted (int to long, float or double; long to float or double;
	// float to double; string to bytes and back), or a union stands on either
	// side.
	Wire Kind

	// Choose is set where a union stands on the side of the writer, the reader
	// or both. All other members except Schema and Wire are then unset.
	Choose *Choose

	// Err is set where no datum can be read. Reading one is an error with that
	// reason. All other members except Schema and Wire are then unset.
	Err string

	// Factor converts the unit of times where the logical types differ in it: a
	// positive factor multiplies what is read, a negative one divides by its
	// amount and fails for what is no multiple. Zero leaves the value as it is.
	Factor int64

	// Symbols maps the symbol on the wire to the reader's, or to -1 for one
	// that the reader does not know.
	Symbols []int

	// Items reads the items of an array or the values of a map. ItemSize is a
	// lower bound of the bytes that each takes on the wire, for
	// [Cursor.Block], a map's keys included.
	Items    *Node
	ItemSize int

	// Steps reads the fields of a record, in the order of the wire.
	Steps []Step

	// Defaults gives the record's fields that the writer does not write.
	Defaults []Default

	// Empty is the number of the record's fields that are read from no bytes,
	// for [Cursor.Empty].
	Empty int
}

// Step reads one field of a record.
type Step struct {
	// Field is the index of the reader's field, or -1 if the reader has none
	// and the datum is passed over with [Cursor.Skip].
	Field int

	// Node reads the field. It is nil if Field is -1.
	Node *Node

	// Writer is the writer's field.
	Writer *Field
}

// Default gives a field of a record the value of its default.
type Default struct {
	// Field is the index of the reader's field.
	Field int

	// Node reads the value from Data.
	Node *Node
	Data []byte
}

// Choose picks the node that reads a datum by the union branch it belongs to.
type Choose struct {
	// Indexed tells whether the writer's side is a union: the branch stands on
	// the wire, and Branches has one element for each. Otherwise Branches has
	// one element and nothing is read.
	Indexed  bool
	Branches []Branch
}

// Branch reads a datum that belongs to one branch of the writer's union, or all
// data if the writer's side is no union.
type Branch struct {
	// Reader is the index of the branch of the reader's union that the value
	// belongs to, or -1 if the reader's side is no union or cannot read the
	// datum.
	Reader int

	// Node reads the value. It has no Choose.
	Node *Node
}

// Next reads the branch of the next datum.
func (ch *Choose) Next(c *Cursor) (Branch, *DatumError) {
	if !ch.Indexed {
		return ch.Branches[0], nil
	}
	i, err := c.Index(len(ch.Branches))
	if err != nil {
		return Branch{}, err
	}
	return ch.Branches[i], nil
}

// Plain reports whether the value of a primitive stands on the wire as it is,
// so that the method of [Cursor] for its kind reads it.
func (n *Node) Plain() bool { return n.Wire == n.Schema.Kind && n.Factor == 0 }

// ReadLong reads the value of a reader's int or long, promoted and in the
// reader's unit.
func (n *Node) ReadLong(c *Cursor) (int64, *DatumError) {
	start := c.pos
	var v int64
	if n.Wire == Int {
		i, err := c.Int()
		if err != nil {
			return 0, err
		}
		v = int64(i)
	} else {
		var err *DatumError
		if v, err = c.Long(); err != nil {
			return 0, err
		}
	}
	switch {
	case n.Factor > 0:
		if v > math.MaxInt64/n.Factor || v < math.MinInt64/n.Factor {
			c.pos = start
			return 0, c.Fail("%d exceeds a %s", v, n.Schema.Logical)
		}
		v *= n.Factor
	case n.Factor < 0:
		if v%-n.Factor != 0 {
			c.pos = start
			return 0, c.Fail("%d is no whole number of units of %s", v, n.Schema.Logical)
		}
		v /= -n.Factor
	}
	return v, nil
}

// ReadFloat reads the value of a reader's float.
func (n *Node) ReadFloat(c *Cursor) (float32, *DatumError) {
	switch n.Wire {
	case Int:
		v, err := c.Int()
		return float32(v), err
	case Long:
		v, err := c.Long()
		return float32(v), err
	}
	return c.Float()
}

// ReadDouble reads the value of a reader's double.
func (n *Node) ReadDouble(c *Cursor) (float64, *DatumError) {
	switch n.Wire {
	case Int:
		v, err := c.Int()
		return float64(v), err
	case Long:
		v, err := c.Long()
		return float64(v), err
	case Float:
		v, err := c.Float()
		return float64(v), err
	}
	return c.Double()
}

// ReadSymbol reads an enum and returns the index of the reader's symbol.
func (n *Node) ReadSymbol(c *Cursor) (int, *DatumError) {
	start := c.pos
	i, err := c.Index(len(n.Symbols))
	if err != nil {
		return 0, err
	}
	symbol := n.Symbols[i]
	if symbol < 0 {
		c.pos = start
		return 0, c.Fail("symbol %d of the writer is unknown to enum %s, which has no default", i, n.Schema.Name)
	}
	return symbol, nil
}

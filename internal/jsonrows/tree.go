// SPDX-License-Identifier: Apache-2.0

package jsonrows

// Tree is a parsed JSON value that keeps the order of members.
type Tree struct {
	Kind  TreeKind
	Text  string   // of a text or number
	Names []string // of the members of an object, each once
	Items []*Tree  // of an array or object
}

// TreeKind is the kind of a JSON value.
type TreeKind uint8

// The kinds of JSON values.
const (
	NullTree TreeKind = iota
	BoolTree
	NumberTree
	TextTree
	ArrayTree
	ObjectTree
)

// Member returns a member of an object, or nil.
func (v *Tree) Member(name string) *Tree {
	if v == nil || v.Kind != ObjectTree {
		return nil
	}
	for i, other := range v.Names {
		if other == name {
			return v.Items[i]
		}
	}
	return nil
}

// Tree parses any value. Depth is that of the containers around it.
func (r *Reader) Tree(depth int) (*Tree, *Error) {
	c := r.Peek()
	start := r.Pos
	switch c {
	case '{', '[':
		if depth == MaxDepth {
			return nil, r.fail(errDepth)
		}
		r.Pos++
		if c == '[' {
			return r.arrayValue(depth + 1)
		}
		return r.objectValue(depth + 1)
	case '"':
		text, err := r.Quoted()
		return &Tree{Kind: TextTree, Text: string(text)}, err
	case 'n':
		return &Tree{}, r.literal("null")
	}
	if err := r.skipScalar(c); err != nil {
		return nil, err
	}
	v := &Tree{Kind: NumberTree, Text: string(r.Data[start:r.Pos])}
	if c == 't' || c == 'f' {
		v.Kind = BoolTree
	}
	return v, nil
}

func (r *Reader) arrayValue(depth int) (*Tree, *Error) {
	array := &Tree{Kind: ArrayTree}
	if r.Peek() == ']' {
		r.Pos++
		return array, nil
	}
	for {
		item, err := r.Tree(depth)
		if err != nil {
			return nil, err
		}
		array.Items = append(array.Items, item)
		switch r.Peek() {
		case ',':
			r.Pos++
		case ']':
			r.Pos++
			return array, nil
		default:
			return nil, r.Unexpected("a comma or the end of the list")
		}
	}
}

func (r *Reader) objectValue(depth int) (*Tree, *Error) {
	object := &Tree{Kind: ObjectTree}
	if r.Peek() == '}' {
		r.Pos++
		return object, nil
	}
	positions := make(map[string]int)
	for {
		raw, err := r.Quoted()
		if err != nil {
			return nil, err
		}
		name := string(raw)
		if err := r.Expect(':', "a colon"); err != nil {
			return nil, err
		}
		item, err := r.Tree(depth)
		if err != nil {
			return nil, err
		}
		if at, twice := positions[name]; twice {
			object.Items[at] = item
		} else {
			positions[name] = len(object.Names)
			object.Names = append(object.Names, name)
			object.Items = append(object.Items, item)
		}
		switch r.Peek() {
		case ',':
			r.Pos++
		case '}':
			r.Pos++
			return object, nil
		default:
			return nil, r.Unexpected("a comma or the end of the object")
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package columnar

// jsonValue is a parsed JSON value that keeps the order of members.
type jsonValue struct {
	kind  jsonValueKind
	text  string       // of a text or number
	names []string     // of the members of an object, each once
	items []*jsonValue // of an array or object
}

type jsonValueKind uint8

const (
	jsonNullValue jsonValueKind = iota
	jsonBoolValue
	jsonNumberValue
	jsonTextValue
	jsonArrayValue
	jsonObjectValue
)

// member returns a member of an object, or nil.
func (v *jsonValue) member(name string) *jsonValue {
	if v == nil || v.kind != jsonObjectValue {
		return nil
	}
	for i, other := range v.names {
		if other == name {
			return v.items[i]
		}
	}
	return nil
}

// value parses any value. Depth is that of the containers around it.
func (r *jsonReader) value(depth int) (*jsonValue, *JSONError) {
	c := r.peek()
	start := r.pos
	switch c {
	case '{', '[':
		if depth == maxJSONDepth {
			return nil, r.fail(errJSONDepth)
		}
		r.pos++
		if c == '[' {
			return r.arrayValue(depth + 1)
		}
		return r.objectValue(depth + 1)
	case '"':
		text, err := r.string()
		return &jsonValue{kind: jsonTextValue, text: string(text)}, err
	case 'n':
		return &jsonValue{}, r.literal("null")
	}
	if err := r.skipScalar(c); err != nil {
		return nil, err
	}
	v := &jsonValue{kind: jsonNumberValue, text: string(r.data[start:r.pos])}
	if c == 't' || c == 'f' {
		v.kind = jsonBoolValue
	}
	return v, nil
}

func (r *jsonReader) arrayValue(depth int) (*jsonValue, *JSONError) {
	array := &jsonValue{kind: jsonArrayValue}
	if r.peek() == ']' {
		r.pos++
		return array, nil
	}
	for {
		item, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		array.items = append(array.items, item)
		switch r.peek() {
		case ',':
			r.pos++
		case ']':
			r.pos++
			return array, nil
		default:
			return nil, r.unexpected("a comma or the end of the list")
		}
	}
}

func (r *jsonReader) objectValue(depth int) (*jsonValue, *JSONError) {
	object := &jsonValue{kind: jsonObjectValue}
	if r.peek() == '}' {
		r.pos++
		return object, nil
	}
	positions := make(map[string]int)
	for {
		raw, err := r.string()
		if err != nil {
			return nil, err
		}
		name := string(raw)
		if err := r.expect(':', "a colon"); err != nil {
			return nil, err
		}
		item, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		if at, twice := positions[name]; twice {
			object.items[at] = item
		} else {
			positions[name] = len(object.names)
			object.names = append(object.names, name)
			object.items = append(object.items, item)
		}
		switch r.peek() {
		case ',':
			r.pos++
		case '}':
			r.pos++
			return object, nil
		default:
			return nil, r.unexpected("a comma or the end of the object")
		}
	}
}

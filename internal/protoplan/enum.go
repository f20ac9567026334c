// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"bytes"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// enumNames are the texts of an enum's numbers. A number without a name is its
// decimal digits.
type enumNames struct {
	descriptor protoreflect.EnumDescriptor
	low        int32
	dense      [][]byte // from low on
	sparse     map[int32][]byte
	numbers    map[string]int32
}

// denseSpan bounds the table of an enum's names.
const denseSpan = 1024

func newEnumNames(descriptor protoreflect.EnumDescriptor) *enumNames {
	e := &enumNames{descriptor: descriptor, numbers: map[string]int32{}}
	values := descriptor.Values()
	if values.Len() == 0 {
		return e
	}
	low, high := int32(values.Get(0).Number()), int32(values.Get(0).Number())
	for i := range values.Len() {
		number := int32(values.Get(i).Number())
		low, high = min(low, number), max(high, number)
		e.numbers[string(values.Get(i).Name())] = number
	}
	if span := int64(high) - int64(low) + 1; span <= denseSpan {
		e.low, e.dense = low, make([][]byte, span)
	} else {
		e.sparse = map[int32][]byte{}
	}
	for i := range values.Len() {
		number := values.Get(i).Number()
		name := []byte(values.ByNumber(number).Name()) // the first of aliases
		if e.dense != nil {
			e.dense[int32(number)-low] = name
		} else {
			e.sparse[int32(number)] = name
		}
	}
	return e
}

// name returns the name of a number, or nil.
func (e *enumNames) name(number int32) []byte {
	if at := int64(number) - int64(e.low); at >= 0 && at < int64(len(e.dense)) {
		return e.dense[at]
	}
	return e.sparse[number]
}

// few bounds the enums whose names are compared one after the other.
const few = 8

// number returns the number of a text: a name, or decimal digits.
func (e *enumNames) number(text []byte) (int32, bool) {
	if len(e.dense) <= few {
		for i, name := range e.dense {
			if len(name) > 0 && bytes.Equal(name, text) {
				return e.low + int32(i), true
			}
		}
	}
	if number, ok := e.numbers[string(text)]; ok {
		return number, true
	}
	if len(text) == 0 || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return 0, false
	}
	number, err := strconv.ParseInt(string(text), 10, 32)
	return int32(number), err == nil
}

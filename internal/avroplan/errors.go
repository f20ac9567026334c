// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"strconv"
	"strings"
)

// ParseError reports a text that is not an Avro schema.
type ParseError struct {
	// Path names the place, such as "demo.Order.price". It is empty for the
	// text as a whole.
	Path string

	// Reason says what is wrong.
	Reason string
}

// Error returns the path and the reason.
func (e *ParseError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

// Mismatch is one place where a reader schema cannot read what a writer schema
// writes.
type Mismatch struct {
	// Path names the place in the reader schema, such as "items[].price". It is
	// empty at the top.
	Path string

	// Reason says what does not match.
	Reason string
}

// String returns the path and the reason.
func (m Mismatch) String() string {
	if m.Path == "" {
		return m.Reason
	}
	return m.Path + ": " + m.Reason
}

// ResolveError reports a pair of schemas of which no datum can be read.
type ResolveError struct {
	// Mismatches lists every place that does not match, also those that only
	// some data reach.
	Mismatches []Mismatch
}

// Error returns the mismatches, separated by semicolons.
func (e *ResolveError) Error() string {
	parts := make([]string, len(e.Mismatches))
	for i, m := range e.Mismatches {
		parts[i] = m.String()
	}
	return strings.Join(parts, "; ")
}

// DatumError reports bytes that are not a datum of the writer schema, or that
// the reader schema has no value for.
type DatumError struct {
	// Offset is the position in the datum at which reading stopped, in bytes
	// from the start of the Avro body.
	Offset int

	// Reason says what is wrong there.
	Reason string

	path Path
}

// Path names the element that could not be read, such as
// "order.items[3].price". It is empty for the datum as a whole.
func (e *DatumError) Path() string { return e.path.String() }

// Error returns the path, the offset and the reason.
func (e *DatumError) Error() string {
	if path := e.Path(); path != "" {
		return "field " + path + " at byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
	}
	return "byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
}

// In puts the element into the record field of that name, and returns e.
func (e *DatumError) In(field string) *DatumError {
	e.path.In(field)
	return e
}

// At puts the element at an index of an array, and returns e.
func (e *DatumError) At(index int) *DatumError {
	e.path.At(index)
	return e
}

// Under puts the element under a key of a map, and returns e.
func (e *DatumError) Under(key string) *DatumError {
	e.path.Under(key)
	return e
}

// Path names an element inside a value. It is built from the innermost segment
// outwards. The zero value names the value as a whole.
type Path struct{ segments []string }

// In puts the element into the record field of that name.
func (p *Path) In(field string) { p.segments = append(p.segments, field) }

// At puts the element at an index of an array.
func (p *Path) At(index int) { p.segments = append(p.segments, "["+strconv.Itoa(index)+"]") }

// Under puts the element under a key of a map. Of a long key the start is shown.
func (p *Path) Under(key string) {
	more := ""
	if len(key) > maxPathKey {
		key, more = strings.ToValidUTF8(key[:maxPathKey], ""), "..."
	}
	p.segments = append(p.segments, "["+strconv.Quote(key)+more+"]")
}

// String returns the path from the outermost segment on, such as
// "order.items[3].price". Of a very long path the middle is left out.
func (p *Path) String() string { return joinPath(p.segments) }

// maxPathKey bounds how much of a key stands in a path, in bytes.
const maxPathKey = 64

// maxPathSegments bounds the path of an element in a deep recursion: the
// outermost and the innermost segments are kept.
const maxPathSegments = 32

// joinPath renders segments, which run from the innermost outwards.
func joinPath(segments []string) string {
	var b strings.Builder
	for i := len(segments) - 1; i >= 0; i-- {
		if len(segments) > maxPathSegments && i == len(segments)-1-maxPathSegments/2 {
			b.WriteString("...")
			i = maxPathSegments / 2
			continue
		}
		if c := segments[i][0]; b.Len() > 0 && c != '[' && c != '{' {
			b.WriteByte('.')
		}
		b.WriteString(segments[i])
	}
	return b.String()
}

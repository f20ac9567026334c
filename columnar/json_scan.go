// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

// maxJSONDepth is how deep objects and arrays may nest.
const maxJSONDepth = 256

// ErrRequiredField is the cause of a [JSONError] for a null or missing member
// of a column that is not nullable.
var ErrRequiredField = errors.New("required JSON field is null")

var (
	errJSONEnd       = errors.New("unexpected end of JSON")
	errJSONDepth     = fmt.Errorf("JSON is nested deeper than %d levels", maxJSONDepth)
	errJSONTrailing  = errors.New("unexpected bytes behind the JSON value")
	errJSONUTF8      = errors.New("invalid UTF-8 in JSON text")
	errJSONControl   = errors.New("unescaped control character in JSON text")
	errJSONEscape    = errors.New("invalid escape in JSON text")
	errJSONSurrogate = errors.New("unpaired surrogate in JSON text")
	errJSONNumber    = errors.New("invalid JSON number")
)

// JSONError says what is wrong with a JSON document and where.
type JSONError struct {
	Path   string // such as "lines[2].sku"; empty for the document itself
	Offset int    // in bytes
	Cause  error
}

func (e *JSONError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%v (at byte %d)", e.Cause, e.Offset)
	}
	return fmt.Sprintf("%v: %s (at byte %d)", e.Cause, e.Path, e.Offset)
}

// Unwrap returns what is wrong.
func (e *JSONError) Unwrap() error { return e.Cause }

// within puts a member or index in front of the path.
func (e *JSONError) within(step string) *JSONError {
	switch {
	case e.Path == "":
		e.Path = step
	case e.Path[0] == '[':
		e.Path = step + e.Path
	default:
		e.Path = step + "." + e.Path
	}
	return e
}

// jsonReader is a strict single-pass scanner over one document.
type jsonReader struct {
	data    []byte
	pos     int
	scratch []byte // unescaped text, valid until the next text
	digits  []byte // of the last decimal
}

func (r *jsonReader) fail(cause error) *JSONError {
	return &JSONError{Offset: min(r.pos, len(r.data)), Cause: cause}
}

func (r *jsonReader) failAt(pos int, cause error) *JSONError {
	r.pos = pos
	return r.fail(cause)
}

// unexpected reports the byte at the current position, or the end.
func (r *jsonReader) unexpected(want string) *JSONError {
	if r.pos >= len(r.data) {
		return r.fail(errJSONEnd)
	}
	return r.fail(fmt.Errorf("found %q in place of %s", r.data[r.pos], want))
}

// peek skips white space and returns the next byte, or 0 at the end.
func (r *jsonReader) peek() byte {
	for r.pos < len(r.data) {
		c := r.data[r.pos]
		if c > ' ' {
			return c
		}
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
		r.pos++
	}
	return 0
}

// expect skips white space and then the byte c.
func (r *jsonReader) expect(c byte, want string) *JSONError {
	if r.peek() != c {
		return r.unexpected(want)
	}
	r.pos++
	return nil
}

// end checks that nothing but white space follows.
func (r *jsonReader) end() *JSONError {
	if r.peek(); r.pos < len(r.data) {
		return r.fail(errJSONTrailing)
	}
	return nil
}

const (
	everyByte = 0x0101010101010101
	highBits  = 0x8080808080808080
)

// textBreak returns the high bit of each byte of w that ends a run of plain
// text: a quote, a backslash, a control character or a byte beyond ASCII.
// Bytes above the first such byte may be marked wrongly.
func textBreak(w uint64) uint64 {
	quote := w ^ everyByte*'"'
	slash := w ^ everyByte*'\\'
	return ((quote-everyByte)&^quote | (slash-everyByte)&^slash | (w-everyByte*' ')&^w | w) & highBits
}

// text scans a text whose opening quote is behind the current position. It
// returns the range of its raw bytes; escaped says that these need unescape.
func (r *jsonReader) text() (start, end int, escaped bool, err *JSONError) {
	data := r.data
	pos := r.pos
	start = pos
	for {
		if pos = plainEnd(data, pos); pos >= len(data) {
			return 0, 0, false, r.failAt(pos, errJSONEnd)
		}
		switch c := data[pos]; {
		case c == '"':
			r.pos = pos + 1
			return start, pos, escaped, nil
		case c == '\\':
			escaped = true
			_, size, cause := decodeEscape(data[pos:])
			if cause != nil {
				return 0, 0, false, r.failAt(pos, cause)
			}
			pos += size
		case c < ' ':
			return 0, 0, false, r.failAt(pos, errJSONControl)
		default:
			for pos < len(data) && data[pos] >= utf8.RuneSelf {
				c, size := utf8.DecodeRune(data[pos:])
				if c == utf8.RuneError && size == 1 {
					return 0, 0, false, r.failAt(pos, errJSONUTF8)
				}
				pos += size
			}
		}
	}
}

// decodeEscape reads the escape at the start of data, or both escapes of a
// surrogate pair.
func decodeEscape(data []byte) (c rune, size int, cause error) {
	if len(data) < 2 {
		return 0, 0, errJSONEnd
	}
	switch data[1] {
	case '"', '\\', '/':
		return rune(data[1]), 2, nil
	case 'b':
		return '\b', 2, nil
	case 'f':
		return '\f', 2, nil
	case 'n':
		return '\n', 2, nil
	case 'r':
		return '\r', 2, nil
	case 't':
		return '\t', 2, nil
	case 'u':
		unit, ok := hexUnit(data)
		if !ok {
			return 0, 0, errJSONEscape
		}
		if !utf16.IsSurrogate(unit) {
			return unit, 6, nil
		}
		low, ok := hexUnit(data[6:])
		if pair := utf16.DecodeRune(unit, low); ok && pair != utf8.RuneError {
			return pair, 12, nil
		}
		return 0, 0, errJSONSurrogate
	}
	return 0, 0, errJSONEscape
}

// hexUnit reads an escape of the form \uXXXX.
func hexUnit(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	var unit rune
	for _, c := range data[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		unit = unit<<4 | rune(c)
	}
	return unit, true
}

// unescape appends the text of raw bytes that text has scanned.
func unescape(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			start := i
			for i < len(raw) && raw[i] != '\\' {
				i++
			}
			dst = append(dst, raw[start:i]...)
			continue
		}
		c, size, _ := decodeEscape(raw[i:])
		dst = utf8.AppendRune(dst, c)
		i += size
	}
	return dst
}

// string reads a text. The result is valid until the next one.
func (r *jsonReader) string() ([]byte, *JSONError) {
	if err := r.expect('"', "a text"); err != nil {
		return nil, err
	}
	start, end, escaped, err := r.text()
	if err != nil || !escaped {
		return r.data[start:end], err
	}
	r.scratch = unescape(r.scratch[:0], r.data[start:end])
	return r.scratch, nil
}

// literal skips the rest of null, true or false.
func (r *jsonReader) literal(word string) *JSONError {
	end := r.pos + len(word)
	if end > len(r.data) || string(r.data[r.pos:end]) != word {
		return r.unexpected("a value")
	}
	r.pos = end
	return nil
}

// number skips a number.
func (r *jsonReader) number() *JSONError {
	data, pos := r.data, r.pos
	if pos < len(data) && data[pos] == '-' {
		pos++
	}
	first := pos
	pos = numtext.SkipDigits(data, pos)
	if pos == first || data[first] == '0' && pos > first+1 {
		return r.failAt(first, errJSONNumber)
	}
	if pos < len(data) && data[pos] == '.' {
		first = pos + 1
		if pos = numtext.SkipDigits(data, first); pos == first {
			return r.failAt(pos, errJSONNumber)
		}
	}
	if pos < len(data) && data[pos]|0x20 == 'e' {
		pos++
		if pos < len(data) && (data[pos] == '+' || data[pos] == '-') {
			pos++
		}
		first = pos
		if pos = numtext.SkipDigits(data, first); pos == first {
			return r.failAt(pos, errJSONNumber)
		}
	}
	r.pos = pos
	return nil
}

// skip skips any value.
func (r *jsonReader) skip() *JSONError {
	c := r.peek()
	if c == '{' || c == '[' {
		return r.skipNested()
	}
	return r.skipScalar(c)
}

func (r *jsonReader) skipScalar(c byte) *JSONError {
	switch c {
	case '"':
		r.pos++
		_, _, _, err := r.text()
		return err
	case 't':
		return r.literal("true")
	case 'f':
		return r.literal("false")
	case 'n':
		return r.literal("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return r.number()
	}
	return r.unexpected("a value")
}

// skipNested skips an object or array, without recursion.
func (r *jsonReader) skipNested() *JSONError {
	var objects [maxJSONDepth / 64]uint64 // whether the container at each depth is an object
	depth := 0
	inObject := false
	for {
		// At a value.
		c := r.peek()
		if c == '{' || c == '[' {
			if depth == maxJSONDepth {
				return r.fail(errJSONDepth)
			}
			r.pos++
			inObject = c == '{'
			mark := uint64(1) << (depth % 64)
			objects[depth/64] &^= mark
			if inObject {
				objects[depth/64] |= mark
			}
			depth++
			if r.peek() != c+2 { // neither {} nor []
				if inObject {
					if err := r.skipName(); err != nil {
						return err
					}
				}
				continue
			}
		} else if err := r.skipScalar(c); err != nil {
			return err
		}
		// Behind a value, or at the closing bracket of an empty container.
		for {
			if depth == 0 {
				return nil
			}
			c := r.peek()
			if c == ',' {
				r.pos++
				if inObject {
					if err := r.skipName(); err != nil {
						return err
					}
				}
				break
			}
			if inObject && c != '}' || !inObject && c != ']' {
				return r.unexpected("a comma or the end of the list or object")
			}
			r.pos++
			if depth--; depth > 0 {
				inObject = objects[(depth-1)/64]>>((depth-1)%64)&1 != 0
			}
		}
	}
}

// skipName skips a member's name and the colon behind it.
func (r *jsonReader) skipName() *JSONError {
	if err := r.expect('"', "a member name"); err != nil {
		return err
	}
	if _, _, _, err := r.text(); err != nil {
		return err
	}
	return r.expect(':', "a colon")
}

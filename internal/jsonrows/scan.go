// SPDX-License-Identifier: Apache-2.0

package jsonrows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

// MaxDepth is how deep objects and arrays may nest.
const MaxDepth = 256

// ErrRequiredField is the cause of an [Error] for a null or missing member
// of a column that is not nullable.
var ErrRequiredField = errors.New("required JSON field is null")

var (
	// ErrEnd says that a document is cut short.
	ErrEnd       = errors.New("unexpected end of JSON")
	errDepth     = fmt.Errorf("JSON is nested deeper than %d levels", MaxDepth)
	errTrailing  = errors.New("unexpected bytes behind the JSON value")
	errUTF8      = errors.New("invalid UTF-8 in JSON text")
	errControl   = errors.New("unescaped control character in JSON text")
	errEscape    = errors.New("invalid escape in JSON text")
	errSurrogate = errors.New("unpaired surrogate in JSON text")
	errNumber    = errors.New("invalid JSON number")
)

// Error says what is wrong with a JSON document and where.
type Error struct {
	Path   string // such as "lines[2].sku"; empty for the document itself
	Offset int    // in bytes
	Cause  error
}

func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%v (at byte %d)", e.Cause, e.Offset)
	}
	return fmt.Sprintf("%v: %s (at byte %d)", e.Cause, e.Path, e.Offset)
}

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Cause }

// InPath puts a member or index in front of the path of err, which it returns.
func InPath(err *Error, step string) *Error { return err.within(step) }

func (e *Error) within(step string) *Error {
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

// Reader is a strict single-pass scanner over one document.
type Reader struct {
	Data []byte // the document
	Pos  int    // of the next byte

	scratch []byte // unescaped text, valid until the next text
	digits  []byte // of the last decimal
}

func (r *Reader) fail(cause error) *Error {
	return &Error{Offset: min(r.Pos, len(r.Data)), Cause: cause}
}

func (r *Reader) failAt(pos int, cause error) *Error {
	r.Pos = pos
	return r.fail(cause)
}

// Unexpected reports the byte at the current position, or the end.
func (r *Reader) Unexpected(want string) *Error {
	if r.Pos >= len(r.Data) {
		return r.fail(ErrEnd)
	}
	return r.fail(fmt.Errorf("found %q in place of %s", r.Data[r.Pos], want))
}

// Peek skips white space and returns the next byte, or 0 at the end.
func (r *Reader) Peek() byte {
	for r.Pos < len(r.Data) {
		c := r.Data[r.Pos]
		if c > ' ' {
			return c
		}
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
		r.Pos++
	}
	return 0
}

// Expect skips white space and then the byte c.
func (r *Reader) Expect(c byte, want string) *Error {
	if r.Peek() != c {
		return r.Unexpected(want)
	}
	r.Pos++
	return nil
}

// End checks that nothing but white space follows.
func (r *Reader) End() *Error {
	if r.Peek(); r.Pos < len(r.Data) {
		return r.fail(errTrailing)
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

// Text scans a text whose opening quote is behind the current position. It
// returns the range of its raw bytes; escaped says that these need unescape.
func (r *Reader) text() (start, end int, escaped bool, err *Error) {
	data := r.Data
	pos := r.Pos
	start = pos
	for {
		if pos = plainEnd(data, pos); pos >= len(data) {
			return 0, 0, false, r.failAt(pos, ErrEnd)
		}
		switch c := data[pos]; {
		case c == '"':
			r.Pos = pos + 1
			return start, pos, escaped, nil
		case c == '\\':
			escaped = true
			_, size, cause := decodeEscape(data[pos:])
			if cause != nil {
				return 0, 0, false, r.failAt(pos, cause)
			}
			pos += size
		case c < ' ':
			return 0, 0, false, r.failAt(pos, errControl)
		default:
			for pos < len(data) && data[pos] >= utf8.RuneSelf {
				c, size := utf8.DecodeRune(data[pos:])
				if c == utf8.RuneError && size == 1 {
					return 0, 0, false, r.failAt(pos, errUTF8)
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
		return 0, 0, ErrEnd
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
			return 0, 0, errEscape
		}
		if !utf16.IsSurrogate(unit) {
			return unit, 6, nil
		}
		low, ok := hexUnit(data[6:])
		if pair := utf16.DecodeRune(unit, low); ok && pair != utf8.RuneError {
			return pair, 12, nil
		}
		return 0, 0, errSurrogate
	}
	return 0, 0, errEscape
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

// Quoted reads a text. The result is valid until the next one.
func (r *Reader) Quoted() ([]byte, *Error) {
	if err := r.Expect('"', "a text"); err != nil {
		return nil, err
	}
	start, end, escaped, err := r.text()
	if err != nil || !escaped {
		return r.Data[start:end], err
	}
	r.scratch = unescape(r.scratch[:0], r.Data[start:end])
	return r.scratch, nil
}

// literal skips the rest of null, true or false.
func (r *Reader) literal(word string) *Error {
	end := r.Pos + len(word)
	if end > len(r.Data) || string(r.Data[r.Pos:end]) != word {
		return r.Unexpected("a value")
	}
	r.Pos = end
	return nil
}

// number skips a number.
func (r *Reader) number() *Error {
	data, pos := r.Data, r.Pos
	if pos < len(data) && data[pos] == '-' {
		pos++
	}
	first := pos
	pos = numtext.SkipDigits(data, pos)
	if pos == first || data[first] == '0' && pos > first+1 {
		return r.failAt(first, errNumber)
	}
	if pos < len(data) && data[pos] == '.' {
		first = pos + 1
		if pos = numtext.SkipDigits(data, first); pos == first {
			return r.failAt(pos, errNumber)
		}
	}
	if pos < len(data) && data[pos]|0x20 == 'e' {
		pos++
		if pos < len(data) && (data[pos] == '+' || data[pos] == '-') {
			pos++
		}
		first = pos
		if pos = numtext.SkipDigits(data, first); pos == first {
			return r.failAt(pos, errNumber)
		}
	}
	r.Pos = pos
	return nil
}

// Skip skips any value.
func (r *Reader) Skip() *Error {
	c := r.Peek()
	if c == '{' || c == '[' {
		return r.skipNested()
	}
	return r.skipScalar(c)
}

func (r *Reader) skipScalar(c byte) *Error {
	switch c {
	case '"':
		r.Pos++
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
	return r.Unexpected("a value")
}

// skipNested skips an object or array, without recursion.
func (r *Reader) skipNested() *Error {
	var objects [MaxDepth / 64]uint64 // whether the container at each depth is an object
	depth := 0
	inObject := false
	for {
		// At a value.
		c := r.Peek()
		if c == '{' || c == '[' {
			if depth == MaxDepth {
				return r.fail(errDepth)
			}
			r.Pos++
			inObject = c == '{'
			mark := uint64(1) << (depth % 64)
			objects[depth/64] &^= mark
			if inObject {
				objects[depth/64] |= mark
			}
			depth++
			if r.Peek() != c+2 { // neither {} nor []
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
			c := r.Peek()
			if c == ',' {
				r.Pos++
				if inObject {
					if err := r.skipName(); err != nil {
						return err
					}
				}
				break
			}
			if inObject && c != '}' || !inObject && c != ']' {
				return r.Unexpected("a comma or the end of the list or object")
			}
			r.Pos++
			if depth--; depth > 0 {
				inObject = objects[(depth-1)/64]>>((depth-1)%64)&1 != 0
			}
		}
	}
}

// skipName skips a member's name and the colon behind it.
func (r *Reader) skipName() *Error {
	if err := r.Expect('"', "a member name"); err != nil {
		return err
	}
	if _, _, _, err := r.text(); err != nil {
		return err
	}
	return r.Expect(':', "a colon")
}

// plainEnd returns where a run of plain text that starts at pos ends: at a
// quote, a backslash, a control character, a byte beyond ASCII or the end.
func plainEnd(data []byte, pos int) int {
	for pos+8 <= len(data) {
		if found := textBreak(binary.LittleEndian.Uint64(data[pos:])); found != 0 {
			return pos + bits.TrailingZeros64(found)>>3
		}
		pos += 8
	}
	for pos < len(data) && data[pos] >= ' ' && data[pos] < utf8.RuneSelf && data[pos] != '"' && data[pos] != '\\' {
		pos++
	}
	return pos
}

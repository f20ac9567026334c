// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"unicode/utf16"
	"unicode/utf8"
)

// survey is what a JSON text holds that a parsed value does not show.
type survey struct {
	members  int // repeated ones included
	unpaired int // offset of a surrogate without its other half, or -1
	invalid  int // offset of the first byte that is not UTF-8, or -1
}

// surveyJSON looks at a text that is known to be JSON.
func surveyJSON(data []byte) survey {
	s := survey{unpaired: -1, invalid: -1}
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case ':':
			s.members++
		case '"':
			for i++; data[i] != '"'; i++ {
				if data[i] != '\\' {
					continue
				}
				i++
				if data[i] == 'u' && s.unpaired < 0 {
					i = s.escape(data, i)
				}
			}
		}
	}
	if !utf8.Valid(data) {
		s.invalid = validUTF8(data)
	}
	return s
}

// escape looks at the escape sequence whose u is at i, and at the one behind it
// if the two belong together. It returns the offset of the last byte.
func (s *survey) escape(data []byte, i int) int {
	first := hexRune(data[i+1:])
	if !utf16.IsSurrogate(first) {
		return i + 4
	}
	if next := data[i+5:]; len(next) > 6 && next[0] == '\\' && next[1] == 'u' &&
		utf16.DecodeRune(first, hexRune(next[2:])) != utf8.RuneError {
		return i + 10
	}
	s.unpaired = i - 1
	return i + 4
}

// hexRune reads four digits.
func hexRune[T []byte | string](digits T) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 16)
	return rune(n)
}

// validUTF8 returns how many bytes at the start of data are UTF-8.
func validUTF8(data []byte) int {
	at := 0
	for at < len(data) {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

// violation returns what is wrong with a text from which so many members were
// read, or nil.
func (s survey) violation(data []byte, members int) *Violation {
	if s.invalid < 0 && s.unpaired < 0 && s.members == members {
		return nil
	}
	w := &walk{in: json.NewDecoder(bytes.NewReader(data))}
	reaches := func(offset int) func(bool) bool {
		return func(bool) bool { return w.in.InputOffset() > int64(offset) }
	}
	var message string
	switch {
	case s.invalid >= 0:
		w.found = reaches(s.invalid)
		message = fmt.Sprintf("the text is not UTF-8 at byte %d", s.invalid)
	case s.unpaired >= 0:
		w.found = reaches(s.unpaired)
		message = fmt.Sprintf("the text has half of a surrogate pair at byte %d", s.unpaired)
	default:
		w.found = func(repeated bool) bool { return repeated }
		message = "the member is repeated"
	}
	w.value()
	return &Violation{Pointer: pointer(w.path...), Message: message}
}

// walk follows the tokens of a JSON text until it has found a place.
type walk struct {
	in    *json.Decoder
	path  []string
	found func(repeated bool) bool // asked behind each name and each value
}

func (w *walk) value() bool {
	token, err := w.in.Token()
	switch {
	case err != nil:
		return true
	case token == json.Delim('['):
		for i := 0; w.in.More(); i++ {
			if w.at(strconv.Itoa(i), false) {
				return true
			}
		}
	case token == json.Delim('{'):
		names := map[string]bool{}
		for w.in.More() {
			token, err := w.in.Token()
			name, ok := token.(string)
			if err != nil || !ok {
				return true
			}
			if w.at(name, names[name]) {
				return true
			}
			names[name] = true
		}
	default:
		return w.found(false)
	}
	_, err = w.in.Token() // the bracket that closes
	return err != nil || w.found(false)
}

// at follows the value of a member or element.
func (w *walk) at(token string, repeated bool) bool {
	w.path = append(w.path, token)
	if w.found(repeated) || w.value() {
		return true
	}
	w.path = w.path[:len(w.path)-1]
	return false
}

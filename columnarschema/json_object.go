// SPDX-License-Identifier: Apache-2.0

package columnarschema

import "encoding/json"

// appendPresent appends a JSON object without the members that are null and need
// not be there. The object is one that a [columnar.JSONCodec] has written, so it is
// known to be in order and without white space between its parts.
func appendPresent(dst, object []byte, required map[string]bool) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for at := 1; at < len(object)-1; {
		name := valueEnd(object, at)
		end := valueEnd(object, name+1) // behind the colon
		if string(object[name+1:end]) != "null" || required[memberName(object[at:name])] {
			if len(dst) > start {
				dst = append(dst, ',')
			}
			dst = append(dst, object[at:end]...)
		}
		at = end + 1 // behind the comma
	}
	return append(dst, '}')
}

// memberName returns the name of a member, which is quoted.
func memberName(quoted []byte) string {
	var name string
	if json.Unmarshal(quoted, &name) != nil {
		return ""
	}
	return name
}

// valueEnd returns the place behind a value that begins at a place.
func valueEnd(text []byte, at int) int {
	depth := 0
	for ; at < len(text); at++ {
		switch text[at] {
		case '"':
			for at++; text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return at
			}
			depth--
		case ',', ':':
			if depth == 0 {
				return at
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return at + 1
		}
	}
	return at
}

// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// ecmaPattern is a pattern of a schema for package regexp.
type ecmaPattern struct {
	*regexp.Regexp
	source string
}

// String returns the pattern as the schema has it.
func (p ecmaPattern) String() string { return p.source }

// CompilePattern compiles a pattern with package regexp. Schemas have patterns of
// ECMA-262, which writes code points and control characters in its own way.
func CompilePattern(pattern string) (jsonschema.Regexp, error) {
	compiled, err := regexp.Compile(fromECMA(pattern))
	if err != nil {
		return nil, err
	}
	return ecmaPattern{compiled, pattern}, nil
}

// ecmaEscape matches every escape sequence, and takes apart those that package
// regexp does not know.
var ecmaEscape = regexp.MustCompile(`\\(?:u([dD][89abAB][[:xdigit:]]{2})\\u([dD][c-fC-F][[:xdigit:]]{2})|u([[:xdigit:]]{4})|u\{([[:xdigit:]]+)\}|c([a-zA-Z])|[^uc])`)

func fromECMA(pattern string) string {
	if !strings.Contains(pattern, `\u`) && !strings.Contains(pattern, `\c`) {
		return pattern
	}
	return ecmaEscape.ReplaceAllStringFunc(pattern, func(escape string) string {
		parts := ecmaEscape.FindStringSubmatch(escape)
		switch {
		case parts[1] != "":
			if r := utf16.DecodeRune(hexRune(parts[1]), hexRune(parts[2])); r != utf8.RuneError {
				return fmt.Sprintf(`\x{%x}`, r)
			}
		case parts[3] != "" && !utf16.IsSurrogate(hexRune(parts[3])):
			return `\x{` + parts[3] + `}`
		case parts[4] != "":
			return `\x{` + parts[4] + `}`
		case parts[5] != "":
			return fmt.Sprintf(`\x%02x`, parts[5][0]%32)
		}
		return escape
	})
}

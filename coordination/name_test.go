// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"strings"
	"testing"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func TestNamesAreChecked(t *testing.T) {
	constructors := map[string]func(string) (string, bool, error){
		"role": func(name string) (string, bool, error) {
			r, err := coordination.NewRole(name)
			return r.String(), r == coordination.Role{}, err
		},
		"member id": func(name string) (string, bool, error) {
			m, err := coordination.NewMemberID(name)
			return m.String(), m == coordination.MemberID{}, err
		},
	}
	umlaut := "\u00f6" // two bytes
	tests := []struct {
		name, input string
		want        string // the error after the noun; empty for none
	}{
		{"one byte", "x", ""},
		{"the longest", strings.Repeat("x", 249), ""},
		{"the longest in bytes, not in letters", strings.Repeat(umlaut, 124) + "x", ""},
		{"any byte that is UTF-8", "a/b c\x00\n" + umlaut, ""},
		{"empty", "", " must not be empty"},
		{"a byte too long", strings.Repeat("x", 250), " is 250 bytes long, the limit is 249"},
		{"few letters of many bytes", strings.Repeat(umlaut, 125), " is 250 bytes long, the limit is 249"},
		{"not UTF-8", "a\xff", ` "a\xff": non-UTF-8 string`},
		{"half a letter", umlaut[:1], ` "\xc3": non-UTF-8 string`},
	}
	for noun, build := range constructors {
		for _, tt := range tests {
			got, zero, err := build(tt.input)
			if tt.want == "" {
				if err != nil || got != tt.input {
					t.Errorf("%s, %s: %q, %v; want the name", noun, tt.name, got, err)
				}
			} else if err == nil || err.Error() != "coordination: "+noun+tt.want || !zero {
				t.Errorf("%s, %s: %q, %v; want the zero value and the error %q", noun, tt.name, got, err, tt.want)
			}
		}
	}
}

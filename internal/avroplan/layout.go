// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"slices"
	"strconv"
	"strings"
)

// SameLayout reports whether a and b write every value in the same bytes and
// call its parts by the same names: they differ in defaults, aliases and
// namespaces at most.
func SameLayout(a, b *Schema) bool { return sameLayout(a, b, make(map[pair]bool)) }

func sameLayout(a, b *Schema, seen map[pair]bool) bool {
	if a == b || seen[pair{a, b}] {
		return true
	}
	if a.Kind != b.Kind || a.Logical != b.Logical || a.Precision != b.Precision || a.Scale != b.Scale {
		return false
	}
	switch a.Kind {
	case Fixed:
		return a.Size == b.Size
	case Enum:
		return slices.Equal(a.Symbols, b.Symbols)
	case Array, Map:
		return sameLayout(a.Items, b.Items, seen)
	case Union:
		return slices.EqualFunc(a.Branches, b.Branches, func(x, y *Schema) bool {
			return x.BranchName() == y.BranchName() && sameLayout(x, y, seen)
		})
	case Record:
		seen[pair{a, b}] = true
		return slices.EqualFunc(a.Fields, b.Fields, func(x, y *Field) bool {
			return x.Name == y.Name && sameLayout(x.Type, y.Type, seen)
		})
	}
	return true
}

// Layout returns a schema text that describes the same data: with full names
// and logical types, and without what only readers use, such as defaults,
// aliases and documentation.
func (s *Schema) Layout() string {
	var b strings.Builder
	s.writeLayout(&b, make(map[*Schema]bool))
	return b.String()
}

func (s *Schema) writeLayout(b *strings.Builder, seen map[*Schema]bool) {
	if s.Kind == Union {
		for i, branch := range s.Branches {
			b.WriteString(separator(i, "["))
			branch.writeLayout(b, seen)
		}
		b.WriteByte(']')
		return
	}
	if seen[s] {
		b.WriteString(`"` + s.Name + `"`)
		return
	}
	b.WriteString(`{"type":"` + s.Kind.String() + `"`)
	if s.Kind.Named() {
		seen[s] = true
		b.WriteString(`,"name":"` + s.Name + `"`)
	}
	switch s.Kind {
	case Array:
		b.WriteString(`,"items":`)
		s.Items.writeLayout(b, seen)
	case Map:
		b.WriteString(`,"values":`)
		s.Items.writeLayout(b, seen)
	case Fixed:
		b.WriteString(`,"size":` + strconv.Itoa(s.Size))
	case Enum:
		b.WriteString(`,"symbols":["` + strings.Join(s.Symbols, `","`) + `"]`)
	case Record:
		b.WriteString(`,"fields":[`)
		for i, f := range s.Fields {
			b.WriteString(separator(i, "") + `{"name":"` + f.Name + `","type":`)
			f.Type.writeLayout(b, seen)
			b.WriteByte('}')
		}
		b.WriteByte(']')
	}
	if s.Logical != NoLogical {
		b.WriteString(`,"logicalType":"` + s.Logical.String() + `"`)
	}
	if s.Logical == Decimal {
		b.WriteString(`,"precision":` + strconv.Itoa(s.Precision) + `,"scale":` + strconv.Itoa(s.Scale))
	}
	b.WriteByte('}')
}

// separator returns what stands in front of an element of a list.
func separator(index int, first string) string {
	if index == 0 {
		return first
	}
	return ","
}

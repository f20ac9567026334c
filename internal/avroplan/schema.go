// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"math"
	"strings"
)

// Kind is the Avro type of a schema.
type Kind uint8

// The Avro types. Error records are records.
const (
	Null Kind = iota
	Boolean
	Int
	Long
	Float
	Double
	Bytes
	String
	Fixed
	Enum
	Array
	Map
	Record
	Union
)

var kindNames = [...]string{
	Null: "null", Boolean: "boolean", Int: "int", Long: "long", Float: "float", Double: "double", Bytes: "bytes",
	String: "string", Fixed: "fixed", Enum: "enum", Array: "array", Map: "map", Record: "record", Union: "union",
}

// String returns the name that Avro gives the type, such as "long".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid"
}

// Named reports whether schemas of the kind have a name: record, enum and
// fixed.
func (k Kind) Named() bool { return k == Record || k == Enum || k == Fixed }

// Logical is the logical type of a schema.
type Logical uint8

// The logical types of Avro 1.12. A logical type that is unknown, or that its
// schema cannot carry, is NoLogical.
const (
	NoLogical Logical = iota
	Decimal
	BigDecimal
	UUID
	Date
	TimeMillis
	TimeMicros
	TimestampMillis
	TimestampMicros
	TimestampNanos
	LocalTimestampMillis
	LocalTimestampMicros
	LocalTimestampNanos
	Duration
)

var logicalNames = [...]string{
	NoLogical: "", Decimal: "decimal", BigDecimal: "big-decimal", UUID: "uuid", Date: "date", TimeMillis: "time-millis",
	TimeMicros: "time-micros", TimestampMillis: "timestamp-millis", TimestampMicros: "timestamp-micros",
	TimestampNanos: "timestamp-nanos", LocalTimestampMillis: "local-timestamp-millis",
	LocalTimestampMicros: "local-timestamp-micros", LocalTimestampNanos: "local-timestamp-nanos", Duration: "duration",
}

// String returns the name that Avro gives the logical type, empty for
// NoLogical.
func (l Logical) String() string {
	if int(l) < len(logicalNames) {
		return logicalNames[l]
	}
	return "invalid"
}

// Schema is one parsed Avro type. References by name are the same Schema, so a
// schema that contains itself is a cycle.
//
// A Schema is safe for concurrent use by multiple goroutines: it is not changed
// once Parse has returned.
type Schema struct {
	Kind    Kind
	Logical Logical

	// Precision and Scale belong to Decimal.
	Precision, Scale int

	// Name is the full name of a record, enum or fixed, Aliases are its full
	// names in older versions.
	Name    string
	Aliases []string

	// Fields of a record, in the order of the declaration.
	Fields []*Field

	// Symbols of an enum. EnumDefault is the index of the symbol that stands
	// for unknown ones, or -1.
	Symbols     []string
	EnumDefault int

	// Size of a fixed in bytes.
	Size int

	// Items is the schema of an array's items or of a map's values.
	Items *Schema

	// Branches of a union.
	Branches []*Schema

	// minSize is a lower bound of the encoded size, fixedSize the exact encoded
	// size of every datum or -1.
	minSize, fixedSize int
}

// Field is one field of a record.
type Field struct {
	Name    string
	Aliases []string
	Type    *Schema

	// HasDefault tells whether the field has a default. Default is its value in
	// Avro binary; a default of type null is empty.
	HasDefault bool
	Default    []byte

	// defaultValues is the number of values that the default stands for.
	defaultValues int
}

// BranchName returns the name by which a union tells the schema from its other
// branches: the full name of a named type, otherwise the name of the kind.
func (s *Schema) BranchName() string {
	if s.Kind.Named() {
		return s.Name
	}
	return s.Kind.String()
}

// Values returns the number of branches of a union that are not null.
func (s *Schema) Values() int {
	n := 0
	for _, b := range s.Branches {
		if b.Kind != Null {
			n++
		}
	}
	return n
}

// describe names the type in messages: "record demo.Order", "decimal(4,2)
// bytes", "union [null string]".
func (s *Schema) describe() string {
	switch {
	case s.Kind == Union:
		names := make([]string, len(s.Branches))
		for i, b := range s.Branches {
			names[i] = b.BranchName()
		}
		return "union [" + strings.Join(names, " ") + "]"
	case s.Kind.Named():
		return s.Kind.String() + " " + s.Name
	case s.Logical != NoLogical:
		return s.Kind.String() + " " + s.Logical.String()
	}
	return s.Kind.String()
}

func simpleName(full string) string { return full[strings.LastIndexByte(full, '.')+1:] }

func namespaceOf(full string) string {
	if i := strings.LastIndexByte(full, '.'); i >= 0 {
		return full[:i]
	}
	return ""
}

// measure sets the size bounds of s and of every schema below it. seen holds
// the schemas that are measured or being measured; one that is being measured
// counts as empty and of no fixed size, which keeps the lower bound low enough.
func (s *Schema) measure(seen map[*Schema]bool) {
	if seen[s] {
		return
	}
	seen[s] = true
	s.minSize, s.fixedSize = 0, -1
	switch s.Kind {
	case Null:
		s.fixedSize = 0
	case Boolean:
		s.minSize, s.fixedSize = 1, 1
	case Float:
		s.minSize, s.fixedSize = 4, 4
	case Double:
		s.minSize, s.fixedSize = 8, 8
	case Fixed:
		s.minSize, s.fixedSize = s.Size, s.Size
	case Int, Long, Bytes, String, Enum:
		s.minSize = 1
	case Array, Map:
		s.Items.measure(seen)
		s.minSize = 1
	case Union:
		smallest := math.MaxInt32
		for _, b := range s.Branches {
			b.measure(seen)
			smallest = min(smallest, b.minSize)
		}
		s.minSize = saturate(1 + smallest)
	case Record:
		total, exact := 0, 0
		for _, f := range s.Fields {
			f.Type.measure(seen)
			total = saturate(total + f.Type.minSize)
			if exact >= 0 && f.Type.fixedSize >= 0 {
				exact += f.Type.fixedSize
			} else {
				exact = -1
			}
		}
		s.minSize = total
		if exact >= 0 && exact <= math.MaxInt32 {
			s.fixedSize = exact
		}
	}
}

func saturate(n int) int { return min(n, math.MaxInt32) }

// named adds every named type of the graph to table. It calls clash for a name
// that the table holds for another type.
func (s *Schema) named(table map[string]*Schema, seen map[*Schema]bool, clash func(name string)) {
	if seen[s] {
		return
	}
	seen[s] = true
	if s.Kind.Named() {
		if old, ok := table[s.Name]; ok && old != s {
			clash(s.Name)
			return
		}
		table[s.Name] = s
	}
	if s.Items != nil {
		s.Items.named(table, seen, clash)
	}
	for _, b := range s.Branches {
		b.named(table, seen, clash)
	}
	for _, f := range s.Fields {
		f.Type.named(table, seen, clash)
	}
}

// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/hamba/avro/v2"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// Bounds of the columns of one schema, nested ones included. Types that are used several times are
// expanded at each use, so that a short schema could stand for very many.
const (
	maxColumns     = 10_000
	maxColumnDepth = 64
)

// maxDecimalDigits is the largest precision of an Arrow decimal, and
// maxDecimal128Digits that of the narrower of the two types in use.
const (
	maxDecimal128Digits = 38
	maxDecimalDigits    = 76
)

// ParseAvroSchema parses the JSON text of an Avro schema, in a name table of its
// own.
func ParseAvroSchema(schemaText string) (avro.Schema, error) {
	parsed, err := avro.ParseWithCache(schemaText, "", &avro.SchemaCache{})
	if err != nil {
		return nil, fmt.Errorf("invalid Avro schema: %w", err)
	}
	return parsed, nil
}

// AvroArrowSchema returns the columns of an Avro schema: one for each field of a
// record, and one named "value" for any other type. The page on columns of
// schemas lists the Arrow type of each Avro type.
func AvroArrowSchema(schema avro.Schema) (*arrow.Schema, error) {
	s, err := planSchema(schema)
	if err != nil {
		return nil, err
	}
	return avroColumns(s, false)
}

// AvroArrowField returns the column of an Avro schema. It is nullable if the
// schema is a union with null.
func AvroArrowField(name string, schema avro.Schema) (arrow.Field, error) {
	s, err := planSchema(schema)
	if err != nil {
		return arrow.Field{}, err
	}
	var t avroTranslator
	return t.field(name, s, nil)
}

// planSchema reads a schema of the hamba library, whose JSON form keeps logical
// types that the library does not know.
func planSchema(schema avro.Schema) (*avroplan.Schema, error) {
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, textPrefix.Wrap(err, "Avro schema")
	}
	s, err := avroplan.ParseWriter(string(text))
	if err != nil {
		return nil, textPrefix.Wrap(err, "invalid Avro schema")
	}
	return s, nil
}

// avroColumns returns the columns of a schema; enums are dictionaries on demand.
func avroColumns(s *avroplan.Schema, dictionary bool) (*arrow.Schema, error) {
	t := avroTranslator{dictionary: dictionary}
	if s.Kind != avroplan.Record {
		field, err := t.field("value", s, nil)
		if err != nil {
			return nil, err
		}
		return arrow.NewSchema([]arrow.Field{field}, nil), nil
	}
	fields, err := t.fields(s, nil)
	if err != nil {
		return nil, err
	}
	return arrow.NewSchema(fields, nil), nil
}

// avroTranslator translates types to columns.
type avroTranslator struct {
	dictionary bool
	open       []*avroplan.Schema // records around the place
	columns    int
}

// failure returns an error at the column that path names.
func (t *avroTranslator) failure(path []string, format string, args ...any) error {
	return fmt.Errorf("columnarschema: Avro field %q: %s", strings.Join(path, "."), fmt.Sprintf(format, args...))
}

func (t *avroTranslator) field(name string, s *avroplan.Schema, path []string) (arrow.Field, error) {
	path = append(path[:len(path):len(path)], name)
	if len(path) > maxColumnDepth {
		return arrow.Field{}, t.failure(path[:1], "columns nest deeper than %d levels", maxColumnDepth)
	}
	if t.columns++; t.columns > maxColumns {
		return arrow.Field{}, t.failure(path[:1], "the schema has more than %d columns", maxColumns)
	}
	nullable := false
	if s.Kind == avroplan.Union {
		nullable = s.Values() < len(s.Branches)
		switch s.Values() {
		case 0:
			return arrow.Field{}, t.failure(path, "a union of the null type alone has no column")
		case 1:
			s = valueBranches(s)[0]
		default:
			dt, err := t.union(s, path)
			return arrow.Field{
				Name: name, Type: dt, Nullable: nullable, Metadata: metadataOf(map[string]string{MetadataAvroUnion: "true"}),
			}, err
		}
	}
	dt, pairs, err := t.value(s, path)
	return arrow.Field{Name: name, Type: dt, Nullable: nullable, Metadata: metadataOf(pairs)}, err
}

// valueBranches returns the branches of a union that are not null.
func valueBranches(s *avroplan.Schema) []*avroplan.Schema {
	var branches []*avroplan.Schema
	for _, b := range s.Branches {
		if b.Kind != avroplan.Null {
			branches = append(branches, b)
		}
	}
	return branches
}

func (t *avroTranslator) union(s *avroplan.Schema, path []string) (arrow.DataType, error) {
	var fields []arrow.Field
	for _, b := range valueBranches(s) {
		field, err := t.field(b.BranchName(), b, path)
		if err != nil {
			return nil, err
		}
		field.Nullable = true
		fields = append(fields, field)
	}
	return arrow.StructOf(fields...), nil
}

// value returns the type and the metadata of a column for a type that is no
// union.
func (t *avroTranslator) value(s *avroplan.Schema, path []string) (arrow.DataType, map[string]string, error) {
	switch s.Kind {
	case avroplan.Record:
		return t.record(s, path)
	case avroplan.Array:
		item, err := t.field("item", s.Items, path)
		if err != nil {
			return nil, nil, err
		}
		return arrow.ListOfField(item), nil, nil
	case avroplan.Map:
		value, err := t.field("value", s.Items, path)
		if err != nil {
			return nil, nil, err
		}
		return arrow.MapOfFields(arrow.Field{Name: "key", Type: arrow.BinaryTypes.String}, value), nil, nil
	}
	if s.Logical == avroplan.Decimal {
		dt, err := t.decimal(s, path)
		return dt, nil, err
	}
	switch s.Kind {
	case avroplan.Boolean:
		return arrow.FixedWidthTypes.Boolean, nil, nil
	case avroplan.Int, avroplan.Long:
		return integerType(s), nil, nil
	case avroplan.Float:
		return arrow.PrimitiveTypes.Float32, nil, nil
	case avroplan.Double:
		return arrow.PrimitiveTypes.Float64, nil, nil
	case avroplan.String:
		return arrow.BinaryTypes.String, logicalPairs(s), nil
	case avroplan.Bytes:
		return arrow.BinaryTypes.Binary, logicalPairs(s), nil
	case avroplan.Fixed:
		pairs := map[string]string{MetadataAvroFixed: s.Name}
		for key, value := range logicalPairs(s) {
			pairs[key] = value
		}
		return &arrow.FixedSizeBinaryType{ByteWidth: s.Size}, pairs, nil
	case avroplan.Enum:
		pairs := map[string]string{MetadataAvroEnum: s.Name, MetadataAvroEnumSymbols: strings.Join(s.Symbols, ",")}
		if t.dictionary {
			return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}, pairs, nil
		}
		return arrow.BinaryTypes.String, pairs, nil
	}
	return nil, nil, t.failure(path, "the null type alone has no column")
}

// logicalPairs are the metadata of a logical type that the Arrow type does not
// tell.
func logicalPairs(s *avroplan.Schema) map[string]string {
	if s.Logical == avroplan.NoLogical {
		return nil
	}
	return map[string]string{MetadataAvroLogical: s.Logical.String()}
}

// integerTypes are the columns of logical types over int and long.
var integerTypes = map[avroplan.Logical]arrow.DataType{
	avroplan.Date:                 arrow.FixedWidthTypes.Date32,
	avroplan.TimeMillis:           arrow.FixedWidthTypes.Time32ms,
	avroplan.TimeMicros:           arrow.FixedWidthTypes.Time64us,
	avroplan.TimestampMillis:      &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"},
	avroplan.TimestampMicros:      &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
	avroplan.TimestampNanos:       &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"},
	avroplan.LocalTimestampMillis: &arrow.TimestampType{Unit: arrow.Millisecond},
	avroplan.LocalTimestampMicros: &arrow.TimestampType{Unit: arrow.Microsecond},
	avroplan.LocalTimestampNanos:  &arrow.TimestampType{Unit: arrow.Nanosecond},
}

func integerType(s *avroplan.Schema) arrow.DataType {
	if dt, ok := integerTypes[s.Logical]; ok {
		return dt
	}
	if s.Kind == avroplan.Int {
		return arrow.PrimitiveTypes.Int32
	}
	return arrow.PrimitiveTypes.Int64
}

func (t *avroTranslator) decimal(s *avroplan.Schema, path []string) (arrow.DataType, error) {
	precision, scale := int32(s.Precision), int32(s.Scale)
	switch {
	case s.Precision <= maxDecimal128Digits:
		return &arrow.Decimal128Type{Precision: precision, Scale: scale}, nil
	case s.Precision <= maxDecimalDigits:
		return &arrow.Decimal256Type{Precision: precision, Scale: scale}, nil
	}
	return nil, t.failure(path, "decimal precision %d exceeds the %d digits of an Arrow decimal", s.Precision, maxDecimalDigits)
}

// record returns the struct of a record, and JSON text for one that lies inside
// itself.
func (t *avroTranslator) record(s *avroplan.Schema, path []string) (arrow.DataType, map[string]string, error) {
	for _, around := range t.open {
		if around == s {
			return arrow.BinaryTypes.String, map[string]string{MetadataJSON: "true"}, nil
		}
	}
	fields, err := t.fields(s, path)
	if err != nil {
		return nil, nil, err
	}
	return arrow.StructOf(fields...), nil, nil
}

func (t *avroTranslator) fields(s *avroplan.Schema, path []string) ([]arrow.Field, error) {
	t.open = append(t.open, s)
	defer func() { t.open = t.open[:len(t.open)-1] }()
	fields := make([]arrow.Field, 0, len(s.Fields))
	for _, f := range s.Fields {
		field, err := t.field(f.Name, f.Type, path)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// widened returns a schema in which each column that held has too is of a type that
// takes the values of both.
func widened(schema, held *arrow.Schema) *arrow.Schema {
	if held == nil {
		return schema
	}
	fields := schema.Fields()
	for i, field := range fields {
		if at := namedcols.First(held, field.Name); at >= 0 {
			fields[i].Type = wider(field.Type, held.Field(at).Type)
			fields[i].Nullable = field.Nullable || held.Field(at).Nullable
		}
	}
	metadata := schema.Metadata()
	return arrow.NewSchema(fields, &metadata)
}

// wider returns a type that takes the values of a column and those of an earlier type
// of the column that are held. Where there is none, which is an error elsewhere, it
// is the type of the column.
func wider(dt, held arrow.DataType) arrow.DataType {
	a, b := arrays.KindOf(dt), arrays.KindOf(held)
	switch {
	case arrow.TypeEqual(dt, held) || b == arrays.AnyKind:
		return dt
	case a == arrays.AnyKind:
		return held
	case a != b:
		return dt
	}
	switch plain, former := arrays.PlainType(dt), arrays.PlainType(held); a {
	case arrays.IntKind:
		return widerInteger(plain, former)
	case arrays.TextKind:
		if plain.ID() == arrow.LARGE_STRING || former.ID() == arrow.LARGE_STRING {
			return arrow.BinaryTypes.LargeString
		}
		return arrow.BinaryTypes.String
	case arrays.BytesKind:
		if plain.ID() == arrow.LARGE_BINARY || former.ID() == arrow.LARGE_BINARY {
			return arrow.BinaryTypes.LargeBinary
		}
		return arrow.BinaryTypes.Binary
	case arrays.DecimalKind:
		return widerDecimal(plain.(arrow.DecimalType), former.(arrow.DecimalType))
	}
	return dt
}

// widerInteger returns the narrowest integer type that takes the values of both. Dates
// and times have one type, since their units are equal.
func widerInteger(a, b arrow.DataType) arrow.DataType {
	bits := func(dt arrow.DataType) (size int, signed, ok bool) {
		switch dt.ID() {
		case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64:
			return dt.(arrow.FixedWidthDataType).BitWidth(), true, true
		case arrow.UINT8, arrow.UINT16, arrow.UINT32:
			return dt.(arrow.FixedWidthDataType).BitWidth(), false, true
		}
		return 0, false, false
	}
	aSize, aSigned, ok := bits(a)
	bSize, bSigned, ok2 := bits(b)
	switch {
	case !ok || !ok2:
		return a
	case aSigned == bSigned && aSize >= bSize:
		return a
	case aSigned == bSigned:
		return b
	case aSigned && aSize > bSize:
		return a
	case bSigned && bSize > aSize:
		return b
	}
	// A sign and the bits of the unsigned type.
	switch max(aSize, bSize) {
	case 8:
		return arrow.PrimitiveTypes.Int16
	case 16:
		return arrow.PrimitiveTypes.Int32
	}
	return arrow.PrimitiveTypes.Int64
}

// widerDecimal returns a decimal type with the digits of both, before and behind the
// point, as far as 256 bits go.
func widerDecimal(a, b arrow.DecimalType) arrow.DataType {
	scale := max(a.GetScale(), b.GetScale())
	precision := min(max(a.GetPrecision()-a.GetScale(), b.GetPrecision()-b.GetScale())+scale, 76)
	bits := max(a.BitWidth(), b.BitWidth())
	switch {
	case precision > 38 || bits == 256:
		return &arrow.Decimal256Type{Precision: precision, Scale: scale}
	case precision > 18 || bits == 128:
		return &arrow.Decimal128Type{Precision: precision, Scale: scale}
	case precision > 9 || bits == 64:
		return &arrow.Decimal64Type{Precision: precision, Scale: scale}
	}
	return &arrow.Decimal32Type{Precision: precision, Scale: scale}
}

// SPDX-License-Identifier: Apache-2.0

// Package metacols names the metadata columns of batches, and renames payload
// fields that have the name of one.
//
// The packages that read or build batches of records use it. It deals with names
// and fields, and with batches of which only some have tombstones: which values the
// columns hold, and how they are built from records, is the business of package
// columnar.
package metacols

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// Names of the metadata columns, in their canonical order. Package columnar
// documents their values.
const (
	Key       = "__key"
	Timestamp = "__timestamp"
	Partition = "__partition"
	Offset    = "__offset"
	Headers   = "__headers"
	Tombstone = "__tombstone"
)

// NameKey is the metadata key under which a renamed payload field holds its
// original name.
const NameKey = "krabka.payload.name"

const payloadPrefix = "__payload_"

// Fields returns the fields of the metadata columns in their canonical order,
// with that of the tombstones last or not at all. The caller owns the slice.
func Fields(tombstones bool) []arrow.Field {
	fields := []arrow.Field{
		{Name: Key, Type: arrow.BinaryTypes.Binary, Nullable: true},
		{Name: Timestamp, Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: Partition, Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: Offset, Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: Headers, Type: arrow.BinaryTypes.Binary, Nullable: true},
	}
	if tombstones {
		fields = append(fields, TombstoneField())
	}
	return fields
}

// TombstoneField returns the field of the column that marks tombstones.
func TombstoneField() arrow.Field {
	return arrow.Field{Name: Tombstone, Type: arrow.FixedWidthTypes.Boolean, Nullable: true}
}

// IsReserved reports whether name is that of a metadata column.
func IsReserved(name string) bool {
	switch name {
	case Key, Timestamp, Partition, Offset, Headers, Tombstone:
		return true
	}
	return false
}

// Payload returns the name under which a decoded batch holds the payload field
// of that name, unless that name is taken as well (see [Escape]).
func Payload(name string) string {
	if IsReserved(name) {
		return payloadPrefix + name
	}
	return name
}

// Bare returns the name of a payload field without the prefix that [Payload]
// adds.
func Bare(name string) string { return strings.TrimPrefix(name, payloadPrefix) }

// Escape renames payload fields that are named like a metadata column, and
// notes the original name in their metadata. It returns fields itself if there
// are none.
func Escape(fields []arrow.Field) []arrow.Field {
	if !slices.ContainsFunc(fields, func(f arrow.Field) bool { return IsReserved(f.Name) }) {
		return fields
	}
	taken := make(map[string]bool, len(fields))
	for _, field := range fields {
		taken[field.Name] = true
	}
	fields = slices.Clone(fields)
	for i := range fields {
		field := &fields[i]
		if !IsReserved(field.Name) {
			continue
		}
		name := payloadPrefix + field.Name
		for taken[name] {
			name = payloadPrefix + name
		}
		taken[name] = true
		pairs := field.Metadata.ToMap()
		pairs[NameKey] = field.Name
		field.Name, field.Metadata = name, arrow.MetadataFrom(pairs)
	}
	return fields
}

// Restore returns a field as it was before [Escape].
func Restore(field arrow.Field) arrow.Field {
	if !strings.HasPrefix(field.Name, payloadPrefix) {
		return field
	}
	name, ok := field.Metadata.GetValue(NameKey)
	if !ok || !IsReserved(name) {
		return field
	}
	prefix, ok := strings.CutSuffix(field.Name, name)
	if !ok || prefix != strings.Repeat(payloadPrefix, len(prefix)/len(payloadPrefix)) {
		return field
	}
	pairs := field.Metadata.ToMap()
	delete(pairs, NameKey)
	field.Name, field.Metadata = name, arrow.Metadata{}
	if len(pairs) > 0 {
		field.Metadata = arrow.MetadataFrom(pairs)
	}
	return field
}

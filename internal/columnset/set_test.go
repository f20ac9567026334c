// SPDX-License-Identifier: Apache-2.0

package columnset

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// everything has a column of each kind, nested ones inside of others.
var everything = arrow.NewSchema([]arrow.Field{
	{Name: "long", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "int", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	{Name: "flag", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "hash", Type: &arrow.FixedSizeBinaryType{ByteWidth: 3}, Nullable: true},
	{Name: "pairs", Type: arrow.ListOf(arrow.StructOf(
		arrow.Field{Name: "a", Type: arrow.BinaryTypes.Binary, Nullable: true},
		arrow.Field{Name: "b", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true},
	)), Nullable: true},
	{Name: "counts", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), Nullable: true},
}, nil)

// appendRandom appends a random value to a column and to a builder.
func appendRandom(r *rand.Rand, c *Column, b array.Builder) {
	if r.IntN(4) == 0 {
		c.AppendNull()
		b.AppendNull()
		return
	}
	number := r.Uint64()
	switch b := b.(type) {
	case *array.Int64Builder:
		c.Append8(number)
		b.Append(int64(number))
	case *array.Int32Builder:
		c.Append4(uint32(number))
		b.Append(int32(number))
	case *array.BooleanBuilder:
		c.AppendBool(number&1 != 0)
		b.Append(number&1 != 0)
	case *array.StringBuilder:
		text := "some text"[:r.IntN(9)]
		c.AppendString(text)
		b.Append(text)
	case *array.BinaryBuilder:
		raw := binary.BigEndian.AppendUint64(nil, number)[:r.IntN(9)]
		c.AppendBytes(raw)
		b.Append(raw)
	case *array.FixedSizeBinaryBuilder:
		raw := binary.BigEndian.AppendUint64(nil, number)[:3]
		c.AppendFixed(raw)
		b.Append(raw)
	case *array.ListBuilder:
		b.Append(true)
		for range r.IntN(3) {
			appendRandom(r, c.Children()[0], b.ValueBuilder())
		}
		c.EndList()
	case *array.MapBuilder:
		b.Append(true)
		for range r.IntN(3) {
			c.Children()[0].AppendString("key")
			b.KeyBuilder().(*array.StringBuilder).Append("key")
			appendRandom(r, c.Children()[1], b.ItemBuilder())
		}
		c.EndList()
	case *array.StructBuilder:
		b.Append(true)
		for i, child := range c.Children() {
			appendRandom(r, child, b.FieldBuilder(i))
		}
		c.EndStruct()
	}
}

// appendPart appends a row of which each column may be complete, or be missing,
// as after a fault in its middle.
func appendPart(r *rand.Rand, set *Set) {
	throwaway := array.NewRecordBuilder(memory.DefaultAllocator, everything)
	defer throwaway.Release()
	for i, c := range set.Top()[:r.IntN(len(set.Top()))] {
		appendRandom(r, c, throwaway.Field(i))
	}
	if items := set.Top()[5].Children()[0]; r.IntN(2) == 0 {
		items.Children()[0].AppendBytes([]byte("of no row"))
	}
}

func TestRowsThatAreTakenBackLeaveNoTrace(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
		set := New(NewSpec(everything, nil), mem)
		for range 2 { // the second batch takes memory as the first did
			set.Begin(mem, r.IntN(20), 100)
			b := array.NewRecordBuilder(mem, everything)
			for range r.IntN(40) {
				if r.IntN(3) == 0 {
					appendPart(r, set)
					set.Rollback()
					continue
				}
				for i, c := range set.Top() {
					appendRandom(r, c, b.Field(i))
				}
				if !set.Commit() {
					t.Fatalf("seed %d: a row does not fit", seed)
				}
			}
			want := b.NewRecordBatch()
			columns := set.Finish()
			for i, column := range columns {
				if !array.Equal(want.Column(i), column) {
					t.Errorf("seed %d: column %s is\n%v\nwant\n%v", seed, everything.Field(i).Name, column, want.Column(i))
				}
				column.Release()
			}
			want.Release()
			b.Release()
		}
		set.Discard()
		mem.AssertSize(t, 0)
	}
}

func TestConstantsComeBack(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer mem.AssertSize(t, 0)
	set := New(NewSpec(arrow.NewSchema(everything.Fields()[:5], nil), nil), mem)
	set.Begin(mem, 3, 10)
	defer set.Discard()
	b := array.NewRecordBuilder(mem, everything)
	defer b.Release()
	for _, c := range set.All() {
		for r := rand.New(rand.NewPCG(1, 1)); c.Len() == c.nulls; {
			appendRandom(r, c, b.Field(c.ID))
		}
		value := c.Constant()
		c.AppendNull()
		c.AppendConstant(value)
		if again := c.Constant(); !bytes.Equal(value, again) {
			t.Errorf("column %s: the constant %x comes back as %x", c.Field.Name, value, again)
		}
	}
}

func TestRowWithoutRoomIsTakenBack(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer mem.AssertSize(t, 0)
	set := New(NewSpec(arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int32}, {Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil), nil), mem)
	set.Limit(1000)
	set.Begin(mem, 0, 0)
	add := func(n uint32, size int) bool {
		set.Top()[0].Append4(n)
		set.Top()[1].AppendBytes(make([]byte, size))
		return set.Commit()
	}
	if !add(1, 900) || add(2, 200) {
		t.Fatal("a text of 900 bytes fits into 1000, and 200 more do not")
	}
	if got := set.Overflow().Field.Name; got != "text" || set.Rows() != 1 {
		t.Errorf("%d rows, the column without room is %s", set.Rows(), got)
	}
	columns := set.Finish()
	if got := columns[0].String(); got != "[1]" || columns[1].Len() != 1 {
		t.Errorf("columns are %v", columns)
	}
	for _, column := range columns {
		column.Release()
	}
}

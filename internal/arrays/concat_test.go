// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

func TestConcatKeepsValuesOfEveryType(t *testing.T) {
	r := arrowtest.NewRand(t)
	for _, dt := range arrowtest.EveryType() {
		t.Run(dt.String(), func(t *testing.T) {
			mem := arrowtest.NewAllocator(t)
			var parts []arrow.Array
			var want []string
			for i, length := range []int{30, 1, 0, 50, 9} {
				whole := arrowtest.RandomArray(r, mem, dt, length+2*i)
				defer whole.Release()
				sliced := array.NewSlice(whole, int64(i), int64(i+length))
				defer sliced.Release()
				parts = append(parts, sliced)
				want = append(want, arrowtest.Texts(sliced)...)
			}
			// Slices of one array, the later rows first.
			again := array.NewSlice(parts[3], 20, 45)
			defer again.Release()
			earlier := array.NewSlice(parts[3], 1, 18)
			defer earlier.Release()
			parts = append(parts, again, earlier)
			want = append(append(want, arrowtest.Texts(again)...), arrowtest.Texts(earlier)...)

			joined, err := concatenated(mem, parts)
			if err != nil {
				t.Fatal(err)
			}
			defer joined.Release()
			if diff := cmp.Diff(want, arrowtest.Texts(joined)); diff != "" {
				t.Errorf("values mismatch (-want +got):\n%s", diff)
			}
			if validator, ok := joined.(interface{ ValidateFull() error }); ok {
				if err := validator.ValidateFull(); err != nil {
					t.Error(err)
				}
			}
			if !arrow.TypeEqual(joined.DataType(), dt) {
				t.Errorf("type %s, want %s", joined.DataType(), dt)
			}
		})
	}
}

func TestConcatOfNothingButEmptyPartsIsEmpty(t *testing.T) {
	for _, dt := range arrowtest.EveryType() {
		mem := arrowtest.NewAllocator(t)
		empty := array.MakeFromData(EmptyData(dt))
		joined, err := concatenated(mem, []arrow.Array{empty, empty})
		if err != nil {
			t.Fatalf("%s: %v", dt, err)
		}
		if joined.Len() != 0 {
			t.Errorf("%s: %d rows, want 0", dt, joined.Len())
		}
		joined.Release()
	}
}

func TestConcatUnifiesDictionaries(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	var parts []arrow.Array
	var want []string
	for i := range 100 {
		builder := array.NewBuilder(mem, dt).(*array.BinaryDictionaryBuilder)
		for j := range 3 {
			value := fmt.Sprint("value ", (i+j)%60)
			if err := builder.AppendString(value); err != nil {
				t.Fatal(err)
			}
			want = append(want, value)
		}
		part := builder.NewArray()
		builder.Release()
		defer part.Release()
		parts = append(parts, part)
	}
	joined, err := concatenated(mem, parts)
	if err != nil {
		t.Fatal(err)
	}
	defer joined.Release()
	if diff := cmp.Diff(want, arrowtest.Texts(joined)); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}
	if size := joined.(*array.Dictionary).Dictionary().Len(); size != 60 {
		t.Errorf("the joined dictionary has %d values, want 60", size)
	}
}

func TestConcatRefusesDictionariesBeyondTheirIndexType(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Int32}
	var parts []arrow.Array
	for i := range 2 {
		builder := array.NewBuilder(mem, dt).(*array.Int32DictionaryBuilder)
		for j := range 100 {
			if err := builder.Append(int32(100*i + j)); err != nil {
				t.Fatal(err)
			}
		}
		part := builder.NewArray()
		builder.Release()
		defer part.Release()
		parts = append(parts, part)
	}
	if joined, err := concatenated(mem, parts); err == nil || !strings.Contains(err.Error(), "128") {
		t.Errorf("joined %v with error %v, want an error that names the limit of 128 values", joined, err)
	}
}

// concatenated joins arrays with Concat.
func concatenated(mem memory.Allocator, arrays []arrow.Array) (arrow.Array, error) {
	parts := make([]arrow.ArrayData, len(arrays))
	for i, arr := range arrays {
		parts[i] = arr.Data()
	}
	data, err := Concat(mem, parts)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}

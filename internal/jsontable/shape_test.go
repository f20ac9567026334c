// SPDX-License-Identifier: Apache-2.0

package jsontable

import (
	"math/big"
	"reflect"
	"testing"
	"time"
)

type purchase struct{ Amount int }

func TestRowShapes(t *testing.T) {
	for _, test := range []struct {
		t       reflect.Type
		shape   Shape
		pointer bool
	}{
		{reflect.TypeFor[purchase](), Objects, false},
		{reflect.TypeFor[**purchase](), Objects, true},
		{reflect.TypeFor[map[string]int](), Objects, false},
		{reflect.TypeFor[any](), Mixed, false},
		{reflect.TypeFor[[2]int](), Scalars, false},
		{reflect.TypeFor[time.Time](), Scalars, false},
		{reflect.TypeFor[*big.Int](), Scalars, false},
		{reflect.TypeFor[struct{ time.Time }](), Scalars, false},
	} {
		shape, pointer := ShapeOf(test.t)
		if shape != test.shape || pointer != test.pointer {
			t.Errorf("ShapeOf(%s) = %d, %t; want %d, %t", test.t, shape, pointer, test.shape, test.pointer)
		}
	}
}

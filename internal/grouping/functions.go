// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// newAccumulator returns an accumulator without groups.
func newAccumulator(function Function, kind arrays.Kind) accumulator {
	switch {
	case function == Count:
		return &countState{}
	case function == CountValues:
		return &valueCountState{}
	case function == Avg:
		return newAverage(kind)
	case function == Sum && kind == arrays.Float64Kind:
		return &floatSumState{}
	case function == Sum && kind == arrays.DecimalKind:
		return &decimalSumState{}
	case function == Sum:
		return &intSumState{null: kind == arrays.AnyKind}
	case kind == arrays.TextKind || kind == arrays.BytesKind:
		return &byteExtremeState{valueKind: kind, function: function}
	case kind == arrays.DecimalKind:
		return &decimalExtremeState{function: function}
	default:
		return &wordExtremeState{valueKind: kind, function: function}
	}
}

// heldKind returns the kind that an accumulator holds for an input kind: sums
// of integers, whatever they are read from, are of one kind, and so are sums
// of floats.
func heldKind(function Function, input arrays.Kind) arrays.Kind {
	if function != Sum && function != Avg {
		return input
	}
	switch input {
	case arrays.UintKind, arrays.BoolKind, arrays.TextKind:
		return arrays.IntKind
	case arrays.Float32Kind:
		return arrays.Float64Kind
	default:
		return input
	}
}

// checkAggregate reports whether function accepts values of an Arrow type.
func checkAggregate(function Function, input arrow.DataType) error {
	kind := arrays.KindOf(input)
	switch {
	case function == Sum && (kind == arrays.BytesKind || kind == arrays.NestedKind):
		return fmt.Errorf("cannot sum: cannot convert %s to an integer", input)
	case (function == Min || function == Max) && kind == arrays.NestedKind:
		return fmt.Errorf("cannot compare %s with %s", input, input)
	case (function == First || function == Last) && kind == arrays.NestedKind:
		return fmt.Errorf("cannot keep the %v value of a column of type %s", function, input)
	case (function == AllTrue || function == AnyTrue) && kind != arrays.BoolKind && kind != arrays.AnyKind:
		return fmt.Errorf("%v takes Booleans, not %s", function, input)
	case function == Avg && !isNumber(input):
		return fmt.Errorf("cannot average values of type %s, which are no numbers", input)
	default:
		return nil
	}
}

// isNumber reports whether values of a type are numbers, or have no type.
func isNumber(dt arrow.DataType) bool {
	switch arrays.PlainType(dt).ID() {
	case arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return false
	}
	switch arrays.KindOf(dt) {
	case arrays.TextKind, arrays.BytesKind, arrays.BoolKind, arrays.NestedKind:
		return false
	}
	return true
}

// newAverage returns the average of values whose sums are of a kind.
func newAverage(kind arrays.Kind) accumulator {
	sum := newAccumulator(Sum, kind).(meanable)
	if kind == arrays.DecimalKind {
		return &decimalAverageState{averageState{sum: sum}}
	}
	return &averageState{sum: sum}
}

// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

// bound is an expression for batches of one schema. It is used by one
// goroutine at a time.
type bound struct {
	node   *step
	args   []*bound
	kind   arrays.Kind
	scale  int32          // of decimals
	dt     arrow.DataType // of a column or a cast; nil otherwise
	when   arrow.DataType // plain, of values that are dates or times; nil otherwise
	column int
	// metadata is that of the column, or of all columns that are chosen between.
	metadata arrow.Metadata
	// required says that the values are those of columns without nulls.
	required bool
	// convert says that the only argument is turned into kind and scale.
	convert bool
	literal *vector

	vectorScratch
}

// asTime returns b as counts of the unit of a type of its class.
func (b *bound) asTime(dt arrow.DataType) *bound {
	if arrow.TypeEqual(b.when, dt) {
		return b
	}
	return &bound{node: b.node, args: []*bound{b}, kind: arrays.IntKind, when: dt, convert: true}
}

// isTime reports whether b is a literal that has yet to get a unit.
func (b *bound) isTime() bool {
	switch b.node.value.(type) {
	case time.Time, time.Duration:
		return b.node.op == opLiteral && b.literal == nil
	default:
		return false
	}
}

func (b *bound) typeText() string {
	if b.dt != nil {
		return b.dt.String()
	}
	return b.when.String()
}

// setTime makes a literal of the time.Time or time.Duration that b is: of the type
// like if that holds it, and otherwise of the type of that class with the coarsest
// unit that does.
func (b *bound) setTime(like arrow.DataType) error {
	seconds, nanos := int64(0), int64(0)
	switch value := b.node.value.(type) {
	case time.Time:
		seconds, nanos = value.Unix(), int64(value.Nanosecond())
	case time.Duration:
		seconds, nanos = numtext.FloorDivMod(int64(value), int64(time.Second))
	}
	types := []arrow.DataType{like}
	for unit := arrow.Second; unit <= arrow.Nanosecond; unit++ {
		types = append(types, timeType(classOf(like), unit, zoneOf(like)))
	}
	for _, dt := range types {
		per := nanosOf(dt)
		var word int64
		switch {
		case per > int64(time.Second):
			days := per / int64(time.Second)
			if nanos != 0 || seconds%days != 0 {
				continue
			}
			word = seconds / days
		case nanos%per != 0:
			continue
		default:
			var err error
			if word, err = numtext.InUnit(seconds, nanos, numtext.Unit(int64(time.Second)/per)); err != nil {
				continue
			}
		}
		b.kind, b.when = arrays.IntKind, dt
		b.literal = &vector{kind: arrays.IntKind, words: []int64{word}, when: dt, one: true}
		return nil
	}
	return fmt.Errorf("%s is out of the range of %s", b.node, timeType(classOf(like), arrow.Nanosecond, zoneOf(like)))
}

// isStored reports whether b is a column of the batch.
func (b *bound) isStored() bool {
	return b.node.op == opColumn && b.literal == nil && !b.convert
}

// as returns b converted to a kind.
func (b *bound) as(kind arrays.Kind, scale int32) *bound {
	if b.kind == kind && (kind != arrays.DecimalKind || b.scale == scale) || b.kind == arrays.AnyKind {
		return b
	}
	if kind != arrays.DecimalKind {
		scale = 0
	}
	return &bound{node: b.node, args: []*bound{b}, kind: kind, scale: scale, convert: true}
}

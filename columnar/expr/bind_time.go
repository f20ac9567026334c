// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// settleTimes gives the operands of a step that are dates or times one unit where
// the step needs that, and settles which of them the step makes. Beside a number, a
// date or time is the number of its units.
func (b *bound) settleTimes(i, j int) error {
	for _, pair := range [][2]int{{i, j}, {j, i}} {
		literal, other := b.args[pair[0]], b.args[pair[1]]
		if literal.isTime() {
			if err := literal.settleTime(b.node.op, other); err != nil {
				return err
			}
		}
	}
	left, right := b.args[i], b.args[j]
	l, r := classOf(left.when), classOf(right.when)
	if left.kind == arrays.AnyKind || right.kind == arrays.AnyKind {
		if b.node.op == opIf {
			b.when = left.when
			if left.kind == arrays.AnyKind {
				b.when = right.when
			}
		}
		return nil
	}
	if l == notTime || r == notTime {
		switch {
		case l == spanClass && right.kind == arrays.IntKind && (b.node.op == opMul || b.node.op == opDiv):
			b.when = left.when
		case r == spanClass && left.kind == arrays.IntKind && b.node.op == opMul:
			b.when = right.when
		}
		return nil
	}
	switch b.node.op {
	case opIf:
		if l != r {
			return fmt.Errorf("cannot choose between a %s and a %s", l, r)
		}
		b.when = commonTimeType(left.when, right.when)
		b.args[i], b.args[j] = left.asTime(b.when), right.asTime(b.when)
	case opAdd, opSub, opMul, opDiv, opMod:
		class, ok := timeResult(b.node.op, l, r)
		if !ok {
			return fmt.Errorf("operator is not defined for a %s and a %s", l, r)
		}
		unit, zone := max(timeUnitOf(left.when), timeUnitOf(right.when)), zoneOf(left.when, right.when)
		b.args[i], b.args[j] = left.asTime(timeType(l, unit, zone)), right.asTime(timeType(r, unit, zone))
		if class != notTime {
			b.when = timeType(class, unit, zone)
		}
	default:
		if l != r {
			return fmt.Errorf("cannot compare a %s and a %s", l, r)
		}
	}
	return nil
}

// timeResult returns what an operator makes of two dates or times.
func timeResult(op operation, left, right timeClass) (result timeClass, ok bool) {
	switch {
	case op == opAdd && right == spanClass && left != clockClass:
		return left, true
	case op == opAdd && left == spanClass && right == instantClass:
		return instantClass, true
	case op == opSub && left == right:
		return spanClass, true
	case op == opSub && left == instantClass && right == spanClass:
		return instantClass, true
	case op == opMod && right == spanClass:
		return spanClass, true
	case op == opDiv && left == spanClass && right == spanClass:
		return notTime, true
	}
	return notTime, false
}

// settleTime gives a time.Time or time.Duration a type that goes with the other
// operand of a step: the type of that operand if it holds the value, and otherwise
// the coarsest that does.
func (b *bound) settleTime(op operation, other *bound) error {
	_, isInstant := b.node.value.(time.Time)
	class := classOf(other.when)
	switch {
	case class == notTime && other.dt == nil:
		return fmt.Errorf("%s has no unit to compare with", b.node)
	case isInstant && class != instantClass, class == notTime,
		!isInstant && class == instantClass && op != opAdd && op != opSub && op != opMod:
		return fmt.Errorf("%s does not compare with type %s", b.node, other.typeText())
	case !isInstant && (class == instantClass || op == opMod):
		class = spanClass
	}
	like := other.when
	if classOf(like) != class {
		like = timeType(class, timeUnitOf(like), "")
	}
	return b.setTime(like)
}

// settleCast checks that dates and times are cast to a type that can mean them.
func (b *bound) settleCast() error {
	arg, target := b.args[0], timeTypeOf(b.dt)
	b.when = target
	if target == nil {
		if arg.isTime() {
			return arg.setTime(literalTimeType(arg.node.value))
		}
		return nil
	}
	if arg.isTime() {
		if err := arg.setTime(literalTimeType(arg.node.value)); err != nil {
			return err
		}
	}
	from, to := classOf(arg.when), classOf(target)
	switch {
	case from == notTime, from == to, from == instantClass && to == clockClass, from == clockClass && to == spanClass, from == spanClass && to == clockClass:
		return nil
	}
	return fmt.Errorf("a %s is not a %s", from, to)
}

func literalTimeType(value any) arrow.DataType {
	if _, ok := value.(time.Time); ok {
		return arrow.FixedWidthTypes.Timestamp_s
	}
	return arrow.FixedWidthTypes.Duration_s
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// bindExpression finds the columns of an expression and settles the kinds of
// its steps.
func bindExpression(node *expressionNode, schema *arrow.Schema) (*boundExpression, error) {
	b := &boundExpression{node: node}
	for _, arg := range node.args {
		bound, err := bindExpression(arg, schema)
		if err != nil {
			return nil, err
		}
		b.args = append(b.args, bound)
	}
	if err := b.settle(schema); err != nil {
		var known *ColumnError
		if errors.As(err, &known) {
			return nil, err
		}
		return nil, &ColumnError{Column: node.firstColumnOf(), Row: namedcols.NoRow, Cause: fmt.Errorf("%s: %w", node, err)}
	}
	return b, nil
}

func (b *boundExpression) settle(schema *arrow.Schema) error {
	switch b.node.op {
	case opColumn:
		return b.settleColumn(schema)
	case opLiteral:
		return b.settleLiteral()
	case opAdd, opSub, opMul, opDiv, opMod:
		return b.settleArithmetic()
	case opEqual, opNotEqual, opLess, opLessOrEqual, opGreater, opGreaterOrEqual:
		if err := b.unify(0, 1); err != nil {
			return err
		}
		if b.args[0].kind == nestedKind || b.args[1].kind == nestedKind {
			return fmt.Errorf("cannot compare values that are %s", nestedKind)
		}
	case opAnd, opOr, opNot:
		if err := b.want(boolKind, b.args...); err != nil {
			return err
		}
	case opIsNull:
	case opHasPrefix, opHasSuffix, opContains:
		for _, arg := range b.args {
			if arg.kind != textKind && arg.kind != bytesKind && arg.kind != anyKind {
				return fmt.Errorf("%s is %s, not text or bytes", arg.node, arg.kind)
			}
		}
	case opIf:
		if err := b.want(boolKind, b.args[0]); err != nil {
			return err
		}
		if err := b.unify(1, 2); err != nil {
			return err
		}
		if b.args[1].kind == nestedKind || b.args[2].kind == nestedKind {
			return fmt.Errorf("cannot choose between values that are %s", nestedKind)
		}
		for _, branch := range b.args[1:] {
			if branch.kind != anyKind {
				b.kind, b.scale = branch.kind, branch.scale
			}
		}
		return nil
	case opCast:
		b.dt, b.kind = b.node.cast, computedKind(b.node.cast)
		if decimal, ok := plainType(b.dt).(arrow.DecimalType); ok {
			b.scale = decimal.GetScale()
		}
		return b.settleCast()
	case opBigEndian:
		if err := b.want(intKind, b.args[0]); err != nil && b.args[0].kind != uintKind {
			return err
		}
		b.kind = bytesKind
		return nil
	}
	b.kind = boolKind
	return nil
}

// computedKind returns the kind in which values of a type are computed.
func computedKind(dt arrow.DataType) valueKind {
	if kind := kindOf(dt); kind != float32Kind {
		return kind
	}
	return float64Kind
}

func (b *boundExpression) settleColumn(schema *arrow.Schema) error {
	column, err := namedcols.Index(schema, b.node.name)
	if err != nil && b.node.name == TombstoneColumn {
		// A batch without the column has no tombstone.
		b.kind, b.dt = boolKind, arrow.FixedWidthTypes.Boolean
		b.literal = &vector{kind: boolKind, truths: []bool{false}, one: true}
		return nil
	}
	if err != nil {
		return err
	}
	b.column, b.dt = column, schema.Field(column).Type
	b.kind, b.when = computedKind(b.dt), timeTypeOf(b.dt)
	if decimal, ok := plainType(b.dt).(arrow.DecimalType); ok {
		b.scale = decimal.GetScale()
	}
	return nil
}

func (b *boundExpression) settleLiteral() error {
	v := vector{one: true}
	word := func(kind valueKind, word int64) { v.kind, v.words = kind, []int64{word} }
	text := func(kind valueKind, text []byte) {
		v.kind, v.bytes = kind, byteValues{data: text, width: len(text)}
	}
	switch value := b.node.value.(type) {
	case nil:
		v.nulls = []bool{true}
	case bool:
		v.kind, v.truths = boolKind, []bool{value}
	case int, int8, int16, int32, int64:
		word(intKind, asInt64(value))
	case uint8:
		word(intKind, int64(value))
	case uint16:
		word(intKind, int64(value))
	case uint32:
		word(intKind, int64(value))
	case uint:
		word(unsignedKind(uint64(value)), int64(value))
	case uint64:
		word(unsignedKind(value), int64(value))
	case float32:
		word(float64Kind, int64(math.Float64bits(float64(value))))
	case float64:
		word(float64Kind, int64(math.Float64bits(value)))
	case string:
		text(textKind, []byte(value))
	case []byte:
		text(bytesKind, value)
	case *big.Rat:
		return b.setDecimal(value)
	case time.Time, time.Duration:
		// settleTimes gives it the unit of the other operand.
		b.kind = nestedKind
		return nil
	}
	b.kind, b.literal = v.kind, &v
	return nil
}

func asInt64(value any) int64 {
	switch value := value.(type) {
	case int:
		return int64(value)
	case int8:
		return int64(value)
	case int16:
		return int64(value)
	case int32:
		return int64(value)
	default:
		return value.(int64)
	}
}

func unsignedKind(value uint64) valueKind {
	if value > math.MaxInt64 {
		return uintKind
	}
	return intKind
}

func (b *boundExpression) setDecimal(value *big.Rat) error {
	var state decimalState
	rows := groupRows{}
	rows.relayout([]placeable{&state}, nil)
	rows.grow(1)
	state.remember(new([]uint64))
	if err := state.setRational(0, value); err != nil {
		return err
	}
	number, _ := state.get(0)
	b.kind, b.scale = decimalKind, state.scale
	b.literal = &vector{kind: decimalKind, scale: state.scale, one: true}
	b.literal.numbers = append(b.literal.numbers, number)
	return nil
}

// want makes sure that operands are of a kind, or null.
func (b *boundExpression) want(kind valueKind, operands ...*boundExpression) error {
	for _, operand := range operands {
		if operand.kind != kind && operand.kind != anyKind {
			return fmt.Errorf("%s is %s, not %s", operand.node, operand.kind, kind)
		}
	}
	return nil
}

func (b *boundExpression) settleArithmetic() error {
	if err := b.unify(0, 1); err != nil {
		return err
	}
	left, right := b.args[0], b.args[1]
	b.kind, b.scale = left.kind, left.scale
	if b.kind == anyKind {
		b.kind, b.scale = right.kind, right.scale
	}
	if err := b.settleOperator(left, right); err != nil {
		return err
	}
	if left.kind == anyKind || right.kind == anyKind {
		b.kind, b.scale = anyKind, 0
	}
	return nil
}

// settleOperator checks that the operator is defined for the kind of its
// operands, and sets the scale of its result.
func (b *boundExpression) settleOperator(left, right *boundExpression) error {
	switch b.kind {
	case anyKind, intKind, uintKind:
		return nil
	case float64Kind:
		if b.node.op != opMod {
			return nil
		}
	case decimalKind:
		switch b.node.op {
		case opAdd, opSub:
			return nil
		case opMul:
			b.scale = left.scale + right.scale
			return nil
		}
	}
	return fmt.Errorf("operator is not defined for values that are %s", b.kind)
}

// unify makes two operands of one kind. Signed and unsigned integers are compared
// as they are.
func (b *boundExpression) unify(i, j int) error {
	if err := b.settleTimes(i, j); err != nil {
		return err
	}
	left, right := b.args[i], b.args[j]
	kind, err := commonOperandKind(left, right)
	if err != nil {
		return err
	}
	if kind == intKind && left.kind != right.kind && left.kind != anyKind && right.kind != anyKind && b.compares() {
		return nil
	}
	scale := max(left.scale, right.scale)
	if kind == decimalKind && b.node.op == opMul {
		b.args[i], b.args[j] = left.as(kind, left.scale), right.as(kind, right.scale)
		return nil
	}
	b.args[i], b.args[j] = left.as(kind, scale), right.as(kind, scale)
	return nil
}

func (b *boundExpression) compares() bool {
	return b.node.op >= opEqual && b.node.op <= opGreaterOrEqual
}

func commonOperandKind(left, right *boundExpression) (valueKind, error) {
	a, b := left.kind, right.kind
	has := func(kind valueKind) bool { return a == kind || b == kind }
	numbers := func(kind valueKind) bool {
		return kind == intKind || kind == uintKind || kind == float64Kind || kind == decimalKind
	}
	switch {
	case a == b, b == anyKind:
		return a, nil
	case a == anyKind:
		return b, nil
	case (a == textKind || a == bytesKind) && (b == textKind || b == bytesKind):
		return bytesKind, nil
	case !numbers(a) || !numbers(b):
		return anyKind, fmt.Errorf("%s is %s and %s is %s", left.node, a, right.node, b)
	case has(decimalKind) && has(float64Kind):
		// A literal such as 0.1 stands for the decimal that it is written as.
		if left.becomesDecimal() || right.becomesDecimal() {
			return decimalKind, nil
		}
		return float64Kind, nil
	case has(decimalKind):
		return decimalKind, nil
	case has(float64Kind):
		return float64Kind, nil
	case left.isNaturalLiteral() || right.isNaturalLiteral():
		return uintKind, nil
	default:
		return intKind, nil
	}
}

// becomesDecimal makes a literal float a decimal, if it is one.
func (b *boundExpression) becomesDecimal() bool {
	if b.kind != float64Kind || b.literal == nil {
		return false
	}
	f := math.Float64frombits(uint64(b.literal.words[0]))
	value, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return ok && b.setDecimal(value) == nil
}

// isNaturalLiteral reports whether b is a literal integer that is not negative.
func (b *boundExpression) isNaturalLiteral() bool {
	return b.literal != nil && b.kind == intKind && b.literal.words[0] >= 0
}

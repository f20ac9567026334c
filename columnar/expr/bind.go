// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/decimals"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// bind finds the columns of an expression and settles the kinds of
// its steps.
func bind(node *step, schema *arrow.Schema) (*bound, error) {
	b := &bound{node: node}
	for _, arg := range node.args {
		bound, err := bind(arg, schema)
		if err != nil {
			return nil, err
		}
		b.args = append(b.args, bound)
	}
	if err := b.settle(schema); err != nil {
		var known *namedcols.Error
		if errors.As(err, &known) {
			return nil, err
		}
		return nil, &namedcols.Error{Column: node.firstColumn(), Row: namedcols.NoRow, Cause: fmt.Errorf("%s: %w", node, err)}
	}
	return b, nil
}

func (b *bound) settle(schema *arrow.Schema) error {
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
		if b.args[0].kind == arrays.NestedKind || b.args[1].kind == arrays.NestedKind {
			return fmt.Errorf("cannot compare values that are %s", arrays.NestedKind)
		}
	case opAnd, opOr, opNot:
		if err := b.want(arrays.BoolKind, b.args...); err != nil {
			return err
		}
	case opIsNull:
	case opHasPrefix, opHasSuffix, opContains:
		for _, arg := range b.args {
			if arg.kind != arrays.TextKind && arg.kind != arrays.BytesKind && arg.kind != arrays.AnyKind {
				return fmt.Errorf("%s is %s, not text or bytes", arg.node, arg.kind)
			}
		}
	case opIf:
		if err := b.want(arrays.BoolKind, b.args[0]); err != nil {
			return err
		}
		if err := b.unify(1, 2); err != nil {
			return err
		}
		if b.args[1].kind == arrays.NestedKind || b.args[2].kind == arrays.NestedKind {
			return fmt.Errorf("cannot choose between values that are %s", arrays.NestedKind)
		}
		for _, branch := range b.args[1:] {
			if branch.kind != arrays.AnyKind {
				b.kind, b.scale = branch.kind, branch.scale
			}
		}
		b.inherit(b.args[1], b.args[2])
		return nil
	case opCast:
		b.dt, b.kind = b.node.cast, computedKind(b.node.cast)
		if decimal, ok := arrays.PlainType(b.dt).(arrow.DecimalType); ok {
			b.scale = decimal.GetScale()
		}
		return b.settleCast()
	case opBigEndian:
		if err := b.want(arrays.IntKind, b.args[0]); err != nil && b.args[0].kind != arrays.UintKind {
			return err
		}
		b.kind = arrays.BytesKind
		return nil
	}
	b.kind = arrays.BoolKind
	return nil
}

// inherit gives a choice between two columns what both of them have. A branch
// that is null has no say in it.
func (b *bound) inherit(then, otherwise *bound) {
	b.required = then.required && otherwise.required
	switch {
	case then.isNullLiteral():
		b.metadata = otherwise.metadata
	case otherwise.isNullLiteral(), then.metadata.Equal(otherwise.metadata):
		b.metadata = then.metadata
	}
}

func (b *bound) isNullLiteral() bool { return b.node.op == opLiteral && b.node.value == nil }

// computedKind returns the kind in which values of a type are computed.
func computedKind(dt arrow.DataType) arrays.Kind {
	if kind := arrays.KindOf(dt); kind != arrays.Float32Kind {
		return kind
	}
	return arrays.Float64Kind
}

func (b *bound) settleColumn(schema *arrow.Schema) error {
	column, err := namedcols.Index(schema, b.node.name)
	if err != nil && b.node.name == metacols.Tombstone {
		// A batch without the column has no tombstone.
		b.kind, b.dt = arrays.BoolKind, arrow.FixedWidthTypes.Boolean
		b.literal = &vector{kind: arrays.BoolKind, truths: []bool{false}, one: true}
		return nil
	}
	if err != nil {
		return err
	}
	field := schema.Field(column)
	b.column, b.dt, b.metadata, b.required = column, field.Type, field.Metadata, !field.Nullable
	b.kind, b.when = computedKind(b.dt), timeTypeOf(b.dt)
	if decimal, ok := arrays.PlainType(b.dt).(arrow.DecimalType); ok {
		b.scale = decimal.GetScale()
	}
	return nil
}

func (b *bound) settleLiteral() error {
	v := vector{one: true}
	word := func(kind arrays.Kind, word int64) { v.kind, v.words = kind, []int64{word} }
	text := func(kind arrays.Kind, text []byte) {
		v.kind, v.bytes = kind, arrays.Bytes{Data: text, Width: len(text)}
	}
	switch value := b.node.value.(type) {
	case nil:
		v.nulls = []bool{true}
	case bool:
		v.kind, v.truths = arrays.BoolKind, []bool{value}
	case int, int8, int16, int32, int64:
		word(arrays.IntKind, asInt64(value))
	case uint8:
		word(arrays.IntKind, int64(value))
	case uint16:
		word(arrays.IntKind, int64(value))
	case uint32:
		word(arrays.IntKind, int64(value))
	case uint:
		word(unsignedKind(uint64(value)), int64(value))
	case uint64:
		word(unsignedKind(value), int64(value))
	case float32:
		word(arrays.Float64Kind, int64(math.Float64bits(float64(value))))
	case float64:
		word(arrays.Float64Kind, int64(math.Float64bits(value)))
	case string:
		text(arrays.TextKind, []byte(value))
	case []byte:
		text(arrays.BytesKind, value)
	case *big.Rat:
		return b.setDecimal(value)
	case time.Time, time.Duration:
		// settleTimes gives it the unit of the other operand.
		b.kind = arrays.NestedKind
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

func unsignedKind(value uint64) arrays.Kind {
	if value > math.MaxInt64 {
		return arrays.UintKind
	}
	return arrays.IntKind
}

func (b *bound) setDecimal(value *big.Rat) error {
	number, scale, err := decimals.FromRat(value)
	if err != nil {
		return err
	}
	b.kind, b.scale = arrays.DecimalKind, scale
	b.literal = &vector{kind: arrays.DecimalKind, scale: scale, one: true, numbers: []decimal256.Num{number}}
	return nil
}

// want makes sure that operands are of a kind, or null.
func (b *bound) want(kind arrays.Kind, operands ...*bound) error {
	for _, operand := range operands {
		if operand.kind != kind && operand.kind != arrays.AnyKind {
			return fmt.Errorf("%s is %s, not %s", operand.node, operand.kind, kind)
		}
	}
	return nil
}

func (b *bound) settleArithmetic() error {
	if err := b.unify(0, 1); err != nil {
		return err
	}
	left, right := b.args[0], b.args[1]
	b.kind, b.scale = left.kind, left.scale
	if b.kind == arrays.AnyKind {
		b.kind, b.scale = right.kind, right.scale
	}
	if err := b.settleOperator(left, right); err != nil {
		return err
	}
	if left.kind == arrays.AnyKind || right.kind == arrays.AnyKind {
		b.kind, b.scale = arrays.AnyKind, 0
	}
	return nil
}

// settleOperator checks that the operator is defined for the kind of its
// operands, and sets the scale of its result.
func (b *bound) settleOperator(left, right *bound) error {
	switch b.kind {
	case arrays.AnyKind, arrays.IntKind, arrays.UintKind:
		return nil
	case arrays.Float64Kind:
		if b.node.op != opMod {
			return nil
		}
	case arrays.DecimalKind:
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
func (b *bound) unify(i, j int) error {
	if err := b.settleTimes(i, j); err != nil {
		return err
	}
	left, right := b.args[i], b.args[j]
	kind, err := commonOperandKind(left, right)
	if err != nil {
		return err
	}
	if kind == arrays.IntKind && left.kind != right.kind && left.kind != arrays.AnyKind && right.kind != arrays.AnyKind && b.compares() {
		return nil
	}
	scale := max(left.scale, right.scale)
	if kind == arrays.DecimalKind && b.node.op == opMul {
		b.args[i], b.args[j] = left.as(kind, left.scale), right.as(kind, right.scale)
		return nil
	}
	b.args[i], b.args[j] = left.as(kind, scale), right.as(kind, scale)
	return nil
}

func (b *bound) compares() bool {
	return b.node.op >= opEqual && b.node.op <= opGreaterOrEqual
}

func commonOperandKind(left, right *bound) (arrays.Kind, error) {
	a, b := left.kind, right.kind
	has := func(kind arrays.Kind) bool { return a == kind || b == kind }
	numbers := func(kind arrays.Kind) bool {
		return kind == arrays.IntKind || kind == arrays.UintKind || kind == arrays.Float64Kind || kind == arrays.DecimalKind
	}
	switch {
	case a == b, b == arrays.AnyKind:
		return a, nil
	case a == arrays.AnyKind:
		return b, nil
	case (a == arrays.TextKind || a == arrays.BytesKind) && (b == arrays.TextKind || b == arrays.BytesKind):
		return arrays.BytesKind, nil
	case !numbers(a) || !numbers(b):
		return arrays.AnyKind, fmt.Errorf("%s is %s and %s is %s", left.node, a, right.node, b)
	case has(arrays.DecimalKind) && has(arrays.Float64Kind):
		// A literal such as 0.1 stands for the decimal that it is written as.
		if left.becomesDecimal() || right.becomesDecimal() {
			return arrays.DecimalKind, nil
		}
		return arrays.Float64Kind, nil
	case has(arrays.DecimalKind):
		return arrays.DecimalKind, nil
	case has(arrays.Float64Kind):
		return arrays.Float64Kind, nil
	case left.isNaturalLiteral() || right.isNaturalLiteral():
		return arrays.UintKind, nil
	default:
		return arrays.IntKind, nil
	}
}

// becomesDecimal makes a literal float a decimal, if it is one.
func (b *bound) becomesDecimal() bool {
	if b.kind != arrays.Float64Kind || b.literal == nil {
		return false
	}
	f := math.Float64frombits(uint64(b.literal.words[0]))
	value, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return ok && b.setDecimal(value) == nil
}

// isNaturalLiteral reports whether b is a literal integer that is not negative.
func (b *bound) isNaturalLiteral() bool {
	return b.literal != nil && b.kind == arrays.IntKind && b.literal.words[0] >= 0
}

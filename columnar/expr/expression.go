// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// Expression computes a column from the columns of a batch, for all rows at
// once. It starts at [Column] or [Literal] and grows by its methods:
//
//	expr.Column("price").Mul(908).As("dollars")
//	expr.And(expr.Column("bidder").Equal(1001), expr.Column("price").Greater(100))
//
// The operands of methods are Expressions or Go values, which stand for
// literals: integers, floats, bool, string, []byte, *[big.Rat], [time.Time],
// [time.Duration] and nil.
//
// Integers of all widths are computed in 64 bits, and a result outside of them
// is an error, as is division by zero. Signed and unsigned integers compare by
// their values. Integers mixed with floats become floats, with decimals decimals.
// Floats compare in a total order: -0 equals 0, NaN equals NaN and is greater than
// everything.
//
// Dates and timestamps are instants, in UTC where they have no zone. They compare
// exactly with each other and with a time.Time, whatever their units. An instant
// and a duration have a sum and a difference, which are instants; two instants have
// a difference, and an instant a remainder by a duration, which are durations. Times
// of day and durations compare with their like and with a time.Duration. The result
// has the finer unit of the operands, and a value that this unit does not hold is an
// error. Beside a number, a date, time or duration is the number of its units.
//
// A null operand makes the result null; And and Or give what the other operand
// decides alone. Errors of a row count only where the row matters: the second
// operand of And and Or is not looked at in rows that the first one decides, and
// the branches of If only in the rows that take them.
//
// An Expression is immutable and safe for concurrent use by multiple
// goroutines. What is wrong with it is reported where an operator is made of it
// or added to a topology, and what does not fit a batch, when the operator runs,
// by a [columnar.ColumnError] that names the column.
type Expression struct {
	node *step
	err  error
}

type operation int

const (
	opColumn operation = iota
	opLiteral
	opAdd
	opSub
	opMul
	opDiv
	opMod
	opEqual
	opNotEqual
	opLess
	opLessOrEqual
	opGreater
	opGreaterOrEqual
	opAnd
	opOr
	opNot
	opIsNull
	opHasPrefix
	opHasSuffix
	opContains
	opIf
	opCast
	opBigEndian
)

var operationTexts = map[operation]string{
	opAdd: "+", opSub: "-", opMul: "*", opDiv: "/", opMod: "%",
	opEqual: "=", opNotEqual: "<>", opLess: "<", opLessOrEqual: "<=", opGreater: ">", opGreaterOrEqual: ">=",
	opAnd: "and", opOr: "or", opNot: "not", opIsNull: "is null",
	opHasPrefix: "has prefix", opHasSuffix: "has suffix", opContains: "contains",
	opIf: "if", opCast: "cast", opBigEndian: "big endian",
}

// step is one step of an expression.
type step struct {
	op    operation
	args  []*step
	name  string         // of a column
	value any            // of a literal
	cast  arrow.DataType // of a cast
}

// Column is the column of a batch with that name, metadata columns among them.
func Column(name string) Expression {
	return Expression{node: &step{op: opColumn, name: name}}
}

// Columns returns the names of the columns that the expression is computed of, in
// ascending order. It has none where Err is not nil.
func (e Expression) Columns() []string {
	names := e.node.appendColumns(nil)
	slices.Sort(names)
	return slices.Compact(names)
}

func (n *step) appendColumns(names []string) []string {
	if n == nil {
		return names
	}
	if n.op == opColumn {
		names = append(names, n.name)
	}
	for _, arg := range n.args {
		names = arg.appendColumns(names)
	}
	return names
}

// Literal is a value that is the same in all rows.
func Literal(value any) Expression {
	switch value := value.(type) {
	case Expression:
		return value
	case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64,
		string, time.Time, time.Duration:
		return Expression{node: &step{op: opLiteral, value: value}}
	case []byte:
		return Expression{node: &step{op: opLiteral, value: slices.Clone(value)}}
	case *big.Rat:
		if value == nil {
			return Literal(nil)
		}
		return Expression{node: &step{op: opLiteral, value: new(big.Rat).Set(value)}}
	default:
		return Expression{err: fmt.Errorf("columnar: cannot use %T as a literal", value)}
	}
}

// apply makes a step of operands.
func apply(op operation, operands ...any) Expression {
	node := &step{op: op}
	for _, operand := range operands {
		e := Literal(operand)
		if err := e.Err(); err != nil {
			return Expression{err: err}
		}
		node.args = append(node.args, e.node)
	}
	return Expression{node: node}
}

// Err returns what keeps the expression from being used.
func (e Expression) Err() error {
	if e.err == nil && e.node == nil {
		return errors.New("columnar: expression is empty")
	}
	return e.err
}

// Add is the sum of e and other.
func (e Expression) Add(other any) Expression { return apply(opAdd, e, other) }

// Sub is e less other.
func (e Expression) Sub(other any) Expression { return apply(opSub, e, other) }

// Mul is the product of e and other.
func (e Expression) Mul(other any) Expression { return apply(opMul, e, other) }

// Div is e divided by other. Of integers it is cut towards zero; decimals cannot
// be divided.
func (e Expression) Div(other any) Expression { return apply(opDiv, e, other) }

// Mod is the remainder of e divided by other, both integers, with the sign of e.
func (e Expression) Mod(other any) Expression { return apply(opMod, e, other) }

// Equal reports whether e and other are equal.
func (e Expression) Equal(other any) Expression { return apply(opEqual, e, other) }

// NotEqual reports whether e and other differ.
func (e Expression) NotEqual(other any) Expression { return apply(opNotEqual, e, other) }

// Less reports whether e is less than other.
func (e Expression) Less(other any) Expression { return apply(opLess, e, other) }

// LessOrEqual reports whether e is less than other or equal to it.
func (e Expression) LessOrEqual(other any) Expression { return apply(opLessOrEqual, e, other) }

// Greater reports whether e is greater than other.
func (e Expression) Greater(other any) Expression { return apply(opGreater, e, other) }

// GreaterOrEqual reports whether e is greater than other or equal to it.
func (e Expression) GreaterOrEqual(other any) Expression { return apply(opGreaterOrEqual, e, other) }

// In reports whether e equals one of values. Without values it is false.
func (e Expression) In(values ...any) Expression {
	if len(values) == 0 {
		return Literal(false)
	}
	equal := make([]any, len(values))
	for i, value := range values {
		equal[i] = e.Equal(value)
	}
	return Or(equal...)
}

// IsNull reports whether e is null; it is never null itself.
func (e Expression) IsNull() Expression { return apply(opIsNull, e) }

// HasPrefix reports whether e, which is text or bytes, begins with prefix.
func (e Expression) HasPrefix(prefix any) Expression { return apply(opHasPrefix, e, prefix) }

// HasSuffix reports whether e, which is text or bytes, ends with suffix.
func (e Expression) HasSuffix(suffix any) Expression { return apply(opHasSuffix, e, suffix) }

// Contains reports whether part is in e; both are text or bytes.
func (e Expression) Contains(part any) Expression { return apply(opContains, e, part) }

// Cast is e as a value of an Arrow type, as arrays.AppendValue converts it. A value
// that the type does not hold is an error.
//
// A timestamp stays the same instant in every unit; as a date it is the day in UTC,
// as a time of day the time within that day, and as text RFC 3339 in UTC. A duration
// is text such as 1500ms. Numbers become dates and times, and dates and times
// numbers, as counts of the type's unit.
func (e Expression) Cast(to arrow.DataType) Expression {
	if to == nil {
		return Expression{err: errors.New("columnar: cast to no type")}
	}
	cast := apply(opCast, e)
	if cast.node != nil {
		cast.node.cast = to
	}
	return cast
}

// BigEndian is e, an integer, as eight bytes, the form in which Kafka's own
// serializer writes a long.
func (e Expression) BigEndian() Expression { return apply(opBigEndian, e) }

// And is true where all operands are true, and false where any is false.
func And(operands ...any) Expression { return fold(opAnd, true, operands) }

// Or is true where any operand is true, and false where all are false.
func Or(operands ...any) Expression { return fold(opOr, false, operands) }

func fold(op operation, empty bool, operands []any) Expression {
	if len(operands) == 0 {
		return Literal(empty)
	}
	result := Literal(operands[0])
	for _, operand := range operands[1:] {
		result = apply(op, result, operand)
	}
	return result
}

// Not is true where operand is false, and false where it is true.
func Not(operand any) Expression { return apply(opNot, operand) }

// If is then where condition is true, and otherwise elsewhere, also where
// condition is null.
func If(condition, then, otherwise any) Expression { return apply(opIf, condition, then, otherwise) }

// String returns the expression in a form for people.
func (e Expression) String() string {
	if err := e.Err(); err != nil {
		return "(" + err.Error() + ")"
	}
	return e.node.String()
}

func (n *step) String() string {
	switch text := operationTexts[n.op]; n.op {
	case opColumn:
		return n.name
	case opLiteral:
		switch value := n.value.(type) {
		case nil:
			return "null"
		case string:
			return fmt.Sprintf("%q", value)
		case *big.Rat:
			return value.RatString()
		default:
			return fmt.Sprint(value)
		}
	case opNot:
		return text + " " + n.args[0].String()
	case opIsNull:
		return n.args[0].String() + " " + text
	case opCast:
		return fmt.Sprintf("%s(%s as %s)", text, n.args[0], n.cast)
	case opIf, opBigEndian:
		args := make([]string, len(n.args))
		for i, arg := range n.args {
			args[i] = arg.String()
		}
		return text + "(" + strings.Join(args, ", ") + ")"
	default:
		return "(" + n.args[0].String() + " " + text + " " + n.args[1].String() + ")"
	}
}

// firstColumn returns the name of the first column that is read, or the text
// of the expression if none is.
func (n *step) firstColumn() string {
	if name, ok := n.findColumn(); ok {
		return name
	}
	return n.String()
}

func (n *step) findColumn() (string, bool) {
	if n.op == opColumn {
		return n.name, true
	}
	for _, arg := range n.args {
		if name, ok := arg.findColumn(); ok {
			return name, true
		}
	}
	return "", false
}

// NamedExpression is an expression with the name of the column that it makes.
type NamedExpression struct {
	Name       string
	Expression Expression
}

// As names the column that e makes.
func (e Expression) As(name string) NamedExpression {
	return NamedExpression{Name: name, Expression: e}
}

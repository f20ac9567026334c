// SPDX-License-Identifier: Apache-2.0

package columnar

import "github.com/krabka-io/krabka-streams-go/columnar/expr"

// Expression computes a column from the columns of a batch, for all rows at
// once. It starts at [Column] or [Literal] and grows by its methods:
//
//	columnar.Column("price").Mul(908).As("dollars")
//	columnar.And(columnar.Column("bidder").Equal(1001), columnar.Column("price").Greater(100))
//
// Package [expr] documents the values, the operators and their errors.
type Expression = expr.Expression

// NamedExpression is an expression with the name of the column that it makes. Its
// fields are
//
//	Name       string
//	Expression Expression
type NamedExpression = expr.NamedExpression

// Column is the column of a batch with that name, metadata columns among them.
func Column(name string) Expression { return expr.Column(name) }

// Literal is a value that is the same in all rows: an integer, a float, a bool, a
// string, a []byte, a *big.Rat, a time.Time, a time.Duration or nil.
func Literal(value any) Expression { return expr.Literal(value) }

// And is true where all operands are true, and false where any is false.
func And(operands ...any) Expression { return expr.And(operands...) }

// Or is true where any operand is true, and false where all are false.
func Or(operands ...any) Expression { return expr.Or(operands...) }

// Not is true where operand is false, and false where it is true.
func Not(operand any) Expression { return expr.Not(operand) }

// If is then where condition is true, and otherwise elsewhere, also where condition
// is null.
func If(condition, then, otherwise any) Expression { return expr.If(condition, then, otherwise) }

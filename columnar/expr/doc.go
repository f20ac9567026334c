// SPDX-License-Identifier: Apache-2.0

// Package expr holds expressions over whole columns, which package columnar offers
// under its own names: columnar.Column is [Column], and so on.
//
// An [Expression] is built from columns, literals and operators, and says nothing
// about a batch. A [Program] computes it: it finds the columns in the schema of a
// batch, settles the kinds of the steps, and runs each step over all rows. A
// processor of your own can use a Program; the operators of package columnar do.
//
// The package knows no operators, records or state.
package expr

// SPDX-License-Identifier: Apache-2.0

// Package keytable numbers the distinct keys of rows: a hash table whose keys are
// typed columns, and whose groups have a row of words each for what a caller
// keeps about them.
//
// The state of group-by and join uses it. It knows neither windows nor
// aggregates nor when rows are undone, and it holds no Arrow memory beyond a
// call: keys are copied.
package keytable

// SPDX-License-Identifier: Apache-2.0

package stream

import "github.com/krabka-io/krabka-streams-go/columnar"

// Match says which rows of two streams belong together, for [Stream.Join].
type Match struct{ join columnar.Join }

// On matches rows whose columns left and right are equal.
func On(left, right string) Match {
	return Match{columnar.Join{LeftKey: left, RightKey: right}}
}

// Prefixes puts a text before the names of the payload columns of each side. The
// default is "left_" and "right_".
func (m Match) Prefixes(left, right string) Match {
	m.join.LeftPrefix, m.join.RightPrefix = left, right
	return m
}

// MaxRows bounds the rows that are kept of each side, as
// [columnar.Join.MaxRows] does.
func (m Match) MaxRows(rows int) Match {
	m.join.MaxRows = rows
	return m
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/joining"
)

// Join says how [Topology.AddJoin] pairs the rows of two branches.
//
// A left and a right row make a pair when their keys are equal and their
// timestamps are at most Window apart. Keys compare as in [NewGroupBy], but null
// keys are equal to nothing. Each pair comes out once, when the second of its
// rows is processed: in a run, all left rows are processed first, then all right
// rows, each in order. Pairs are in the order of the row that completed them,
// then in the order in which the rows it met had come.
//
// A row is kept as long as the other side may have a partner for it: until the
// latest timestamp of the other side is more than Window past its own. So
// branches whose timestamps ascend get all their pairs, however far one runs
// ahead of the other and however rows are cut into batches. A row that comes
// out of order meets what is kept at that time. MaxRows bounds what a silent
// side makes the other keep, and [BuiltTopology.AdvanceTime] ends it.
//
// Results have the payload columns of the left row, then those of the right
// row, each with the prefix of its side, and the metadata columns of the left
// row. A row without a timestamp is an error.
type Join struct {
	// LeftKey and RightKey are the columns that are compared; they hold values of
	// the same kind. [KeyColumn] is the record key.
	LeftKey  string
	RightKey string
	// Window is the greatest distance of timestamps; parts below a millisecond
	// are cut off. With 0, timestamps are equal.
	Window time.Duration
	// LeftPrefix and RightPrefix stand before the names of payload columns; empty
	// stands for "left_" and "right_".
	LeftPrefix  string
	RightPrefix string
	// MaxRows bounds the rows that are kept of each side; 0 stands for no bound.
	// A batch that would exceed it fails with a StateLimitError.
	MaxRows int
}

// spec is the join as its room knows it.
func (j Join) spec() joining.Spec { return joining.Spec(j) }

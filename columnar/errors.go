// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"

	"github.com/krabka-io/krabka-streams-go/internal/errtext"
)

// textPrefix begins the texts of the package's errors. An error that has
// another's text in its own quotes it through the prefix.
const textPrefix errtext.Prefix = "columnar: "

// FencedError says that another member or producer has taken over: the group
// member or transactional id that reports it may never write again. It is
// terminal. State of a fenced runner is dropped, not saved.
type FencedError struct {
	ID    string // transactional id or group instance id
	Cause error
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("columnar: %q is fenced by a newer owner: %s", e.ID, textPrefix.Quote(e.Cause))
}

// Unwrap returns the client's error.
func (e *FencedError) Unwrap() error { return e.Cause }

// TransactionAbortedError says that a transaction did not take effect: none of its
// records and offsets became visible. The same records may be processed again.
type TransactionAbortedError struct {
	TransactionalID string
	Cause           error
}

func (e *TransactionAbortedError) Error() string {
	return fmt.Sprintf("columnar: transaction of %q aborted: %s", e.TransactionalID, textPrefix.Quote(e.Cause))
}

// Unwrap returns the reason of the abort.
func (e *TransactionAbortedError) Unwrap() error { return e.Cause }

// Retriable is true: the transaction's input may be processed again.
func (e *TransactionAbortedError) Retriable() bool { return true }

// CommitUnknownError says that a commit was sent and its outcome could not be
// learned. A runner then runs nothing before an abort has got through and the
// committed offsets tell: it goes on from them, recovering state that they have
// left behind, and ends where that cannot be done.
type CommitUnknownError struct {
	TransactionalID string
	Cause           error
}

func (e *CommitUnknownError) Error() string {
	return fmt.Sprintf("columnar: outcome of the commit of %q is unknown: %s", e.TransactionalID, textPrefix.Quote(e.Cause))
}

// Unwrap returns the failure that hid the outcome.
func (e *CommitUnknownError) Unwrap() error { return e.Cause }

// RebalancedError says that an operation was refused because the group moved to
// another generation. The records are processed again by their owner.
type RebalancedError struct {
	Group string
	Cause error
}

func (e *RebalancedError) Error() string {
	return fmt.Sprintf("columnar: group %q rebalanced: %s", e.Group, textPrefix.Quote(e.Cause))
}

// Unwrap returns the client's error.
func (e *RebalancedError) Unwrap() error { return e.Cause }

// Retriable is true: the owner of the partitions processes the records again.
func (e *RebalancedError) Retriable() bool { return true }

// OffsetOutOfRangeError says that a partition does not hold the offset that
// was to be read next: records were deleted before they were processed, or the
// topic is another one of the same name.
type OffsetOutOfRangeError struct {
	Partition  TopicPartition
	Offset     int64 // the offset asked for
	Start, End int64 // the offsets available; -1 where not known
	Cause      error
}

func (e *OffsetOutOfRangeError) Error() string {
	return fmt.Sprintf("columnar: %s/%d: offset %d is outside [%d, %d]: %s",
		e.Partition.Topic, e.Partition.Partition, e.Offset, e.Start, e.End, textPrefix.Quote(e.Cause))
}

// Unwrap returns the client's error.
func (e *OffsetOutOfRangeError) Unwrap() error { return e.Cause }

// TopicError says that a topic or partition cannot be read or written: it does
// not exist, was deleted or recreated, or access is denied.
type TopicError struct {
	Topic     string
	Partition int // -1 for the whole topic
	Cause     error
}

func (e *TopicError) Error() string {
	if e.Partition < 0 {
		return fmt.Sprintf("columnar: topic %q: %s", e.Topic, textPrefix.Quote(e.Cause))
	}
	return fmt.Sprintf("columnar: %s/%d: %s", e.Topic, e.Partition, textPrefix.Quote(e.Cause))
}

// Unwrap returns the client's error.
func (e *TopicError) Unwrap() error { return e.Cause }

// IsRetriable reports whether an error in err's tree has a Retriable method
// that returns true.
func IsRetriable(err error) bool {
	var retriable interface{ Retriable() bool }
	for err != nil && errors.As(err, &retriable) {
		if retriable.Retriable() {
			return true
		}
		// A wrapper that says no may still wrap a cause that says yes.
		cause, ok := retriable.(error)
		if !ok {
			return false
		}
		err = errors.Unwrap(cause)
	}
	return false
}

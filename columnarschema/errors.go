// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"errors"
	"fmt"

	"github.com/krabka-io/krabka-streams-go/internal/errtext"
)

// textPrefix begins the texts of the package's errors.
const textPrefix errtext.Prefix = "columnarschema: "

var (
	errTombstone      = errors.New("record has no value; TombstoneKeep makes it a row of nulls, TombstoneSkip leaves it out")
	errNoAllocator    = errors.New("columnarschema: allocator must not be nil")
	errBareTombstones = errors.New("columnarschema: WithoutMetadataColumns needs WithTombstones(TombstoneReject) or WithTombstones(TombstoneSkip)")
	errKeyCodec       = errors.New("columnarschema: the codec is for keys; give it to the codec of the values with WithKey")
)

// BatchTooLargeError says that the values of one column exceed what an Arrow
// batch can hold, which is 2 GiB. The first Fits records of the call fit into a
// batch and decode when they are passed alone, which a source of a topology does. The
// error is no fault of a record,
// so that no error policy drops any. Where Fits is 0 a record does not fit even
// alone, and the error is the cause of its [columnar.RecordError].
type BatchTooLargeError struct {
	Topic  string
	Column string // the first column without room; "" where that is not known
	Fits   int
}

func (e *BatchTooLargeError) Error() string {
	column := "a column"
	if e.Column != "" {
		column = fmt.Sprintf("column %q", e.Column)
	}
	return fmt.Sprintf("columnarschema: topic %q: %s exceeds the 2 GiB of one batch after %d records; decode fewer records at once", e.Topic, column, e.Fits)
}

// Retriable reports whether fewer of the same records can be read at once.
func (e *BatchTooLargeError) Retriable() bool { return e.Fits > 0 }

// SplitAt returns how many of the first records are to be decoded at once, see
// [columnar.BatchCodec].
func (e *BatchTooLargeError) SplitAt() int { return e.Fits }

// MismatchError says that the columns of a batch cannot be written under a
// schema. It lists every column that does not fit.
type MismatchError struct {
	Columns []ColumnMismatch // at least one
}

// ColumnMismatch is one column that cannot be written.
type ColumnMismatch struct {
	Column string // path of the column, such as "order.items[].price"
	Reason string
}

func (e *MismatchError) Error() string {
	text := "columnarschema: the batch does not fit the schema"
	for i, column := range e.Columns {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		text += fmt.Sprintf("%scolumn %q: %s", separator, column.Column, column.Reason)
	}
	return text
}

// ValueError says that a value of a column cannot be written under a schema.
type ValueError struct {
	Column string // path of the column, such as "order.items[].price"
	Cause  error
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("columnarschema: column %q: %s", e.Column, textPrefix.Quote(e.Cause))
}

// Unwrap returns why the value cannot be written.
func (e *ValueError) Unwrap() error { return e.Cause }

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/columnar/expr"
	"github.com/krabka-io/krabka-streams-go/internal/errtext"
	"github.com/krabka-io/krabka-streams-go/internal/jsonrows"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
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

// noPartition stands for the partition of an error that concerns none.
const noPartition = -1

// NodeError says which node of a topology failed, and on what.
type NodeError struct {
	Node      string
	Topic     string // the topic whose records were processed; empty where several were, or none
	Partition int    // the logical partition, or -1
	Cause     error
}

func (e *NodeError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "columnar: node `%s`", e.Node)
	if e.Topic != "" {
		fmt.Fprintf(&text, ", topic %q", e.Topic)
	}
	if e.Partition != noPartition {
		fmt.Fprintf(&text, ", partition %d", e.Partition)
	}
	text.WriteString(": ")
	text.WriteString(textPrefix.Quote(e.Cause))
	return text.String()
}

// Unwrap returns what went wrong in the node.
func (e *NodeError) Unwrap() error { return e.Cause }

// SnapshotMismatchError says that a snapshot does not fit the topology that is
// to be restored from it. The lists hold node names in ascending order.
type SnapshotMismatchError struct {
	Partition int
	// Unmapped are nodes that have state in the snapshot and none in the
	// topology.
	Unmapped []string
	// Uncovered are stateful nodes that the snapshot does not name.
	Uncovered []string
	// Incompatible are nodes whose state in the snapshot has another form: other
	// keys, aggregations or windows.
	Incompatible []string
}

func (e *SnapshotMismatchError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "columnar: snapshot of partition %d does not fit the topology", e.Partition)
	for _, part := range []struct {
		problem string
		nodes   []string
	}{
		{"state of unknown nodes", e.Unmapped},
		{"no state for nodes", e.Uncovered},
		{"state of another form for nodes", e.Incompatible},
	} {
		if len(part.nodes) > 0 {
			fmt.Fprintf(&text, "; %s %q", part.problem, part.nodes)
		}
	}
	return text.String()
}

func (e *SnapshotMismatchError) empty() bool {
	return len(e.Unmapped) == 0 && len(e.Uncovered) == 0 && len(e.Incompatible) == 0
}

func (e *SnapshotMismatchError) sort() {
	slices.Sort(e.Unmapped)
	slices.Sort(e.Uncovered)
	slices.Sort(e.Incompatible)
}

// ColumnError says that an operator, a codec or an expression cannot use a
// column of a batch. Its fields are
//
//	Column string // name of the column
//	Row    int    // row in the batch, or -1 where the column as a whole is meant
//	Cause  error  // what is wrong with the column; Unwrap returns it
type ColumnError = namedcols.Error

// ErrNoColumn is the error that a [ColumnError] wraps if a batch lacks the
// column.
var ErrNoColumn = namedcols.ErrMissing

// JSONError says what is wrong with a JSON document and where. Its fields are
//
//	Path   string // such as "lines[2].sku"; empty for the document itself
//	Offset int    // in bytes
//	Cause  error  // what is wrong with the document; Unwrap returns it
type JSONError = jsonrows.Error

// ErrRequiredField is the cause of a [JSONError] for a null or missing member of a
// column that is not nullable.
var ErrRequiredField = jsonrows.ErrRequiredField

// StateLimitError says that the state of an operator would grow beyond the
// limit that was set for it. Its field is
//
//	Limit int // in groups, or in rows of one side of a join
type StateLimitError = keytable.StateLimitError

// StateLayoutError says that a snapshot was taken by an operator of another
// configuration. Its fields are
//
//	Saved, Want string // layouts, in words
type StateLayoutError = keytable.StateLayoutError

// ErrSchemaMismatch is what a [SchemaMismatchError] matches.
//
//lint:ignore ST1005 Arrow is a name
var ErrSchemaMismatch = errors.New("Arrow batch schemas differ")

// SchemaMismatchError says that batches that were to be joined have different
// schemas.
type SchemaMismatchError struct {
	Index     int // position of the batch, or of the record, that differs from those before it
	Want, Got *arrow.Schema
}

func (e *SchemaMismatchError) Error() string {
	return fmt.Sprintf("columnar: %v: number %d has %s, those before it have %s",
		ErrSchemaMismatch, e.Index, fieldList(e.Got), fieldList(e.Want))
}

// Is reports whether target is [ErrSchemaMismatch].
func (e *SchemaMismatchError) Is(target error) bool { return target == ErrSchemaMismatch }

func fieldList(schema *arrow.Schema) string {
	text := []byte{'['}
	for i, field := range schema.Fields() {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(text, field.Name...)
		text = append(text, ' ')
		text = append(text, field.Type.String()...)
		if !field.Nullable {
			text = append(text, " not null"...)
		}
	}
	return string(append(text, ']'))
}

// RecordError says that a record could not be decoded.
type RecordError struct {
	Topic     string
	Partition int
	Offset    int64
	Index     int // position among the records of the Decode call
	Cause     error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("columnar: %s/%d: offset %d (record %d): %s", e.Topic, e.Partition, e.Offset, e.Index, textPrefix.Quote(e.Cause))
}

// Unwrap returns why the record could not be decoded.
func (e *RecordError) Unwrap() error { return e.Cause }

// DecodeError lists every record of a [BatchCodec.Decode] call that could not
// be decoded. The other records decode when they are passed without these.
//
// [errors.Is] and [errors.As] look into the causes of all records.
type DecodeError struct {
	Records []*RecordError // at least one, by ascending Index
}

func (e *DecodeError) Error() string {
	if len(e.Records) == 0 {
		return "columnar: records could not be decoded"
	}
	if more := len(e.Records) - 1; more > 0 {
		return fmt.Sprintf("%v (and %d more records)", e.Records[0], more)
	}
	return e.Records[0].Error()
}

// Unwrap returns the errors of the records.
func (e *DecodeError) Unwrap() []error {
	errs := make([]error, len(e.Records))
	for i, record := range e.Records {
		errs[i] = record
	}
	return errs
}

// Retriable reports whether any of the records failed for a reason that may
// pass, so that the same records may be decoded again.
func (e *DecodeError) Retriable() bool {
	for _, record := range e.Records {
		if IsRetriable(record.Cause) {
			return true
		}
	}
	return false
}

// failures collects the records of one Decode call that could not be decoded.
type failures struct {
	topic   string
	records []ConsumedRecord
	failed  []*RecordError
}

func (f *failures) add(index int, cause error) {
	record := &f.records[index]
	f.failed = append(f.failed, &RecordError{f.topic, record.Partition, record.Offset, index, cause})
}

// sorted is err for failures that were added in any order.
func (f *failures) sorted() error {
	slices.SortFunc(f.failed, func(a, b *RecordError) int { return a.Index - b.Index })
	return f.err()
}

func (f *failures) err() error {
	if len(f.failed) == 0 {
		return nil
	}
	return &DecodeError{Records: f.failed}
}

// TopologyError says that a topology cannot work with the columns of its input,
// whatever their values are: a column is missing, has a type that a node or a sink
// cannot use, or differs from the columns that it is to be joined with. The records
// are not to blame, so no [ErrorPolicy] takes them: the round fails, and
// [GroupRunner.Run] ends.
type TopologyError struct {
	Cause error // a [*NodeError], which names the node
}

func (e *TopologyError) Error() string {
	return "columnar: the topology does not fit its input, and no error policy applies: " + textPrefix.Quote(e.Cause)
}

// Unwrap returns which node failed, and why.
func (e *TopologyError) Unwrap() error { return e.Cause }

// errNoJSONSchema is a misfit, whatever the records are.
var errNoJSONSchema = errors.New("a JSON codec without a schema cannot decode")

// misfit marks the error of a node that fails for the columns of its input.
type misfit struct{ error }

func (e *misfit) Unwrap() error { return e.error }

// isMisfit reports whether a run has failed for the columns of its input.
func isMisfit(err error) bool { return errors.As(err, new(*misfit)) }

// blamesColumns reports whether an error says itself that columns do not fit. An
// error of records, and one that may pass, does not.
func blamesColumns(err error) bool {
	return !blamesRecords(err) && (errors.Is(err, ErrNoColumn) || errors.Is(err, namedcols.ErrType) ||
		errors.Is(err, ErrSchemaMismatch) || errors.Is(err, errNoJSONSchema) || errors.As(err, new(*expr.KindError)))
}

// blamesRecords reports whether an error names records, or may pass.
func blamesRecords(err error) bool {
	return IsRetriable(err) || errors.As(err, new(*DecodeError)) || errors.As(err, new(*RecordError))
}

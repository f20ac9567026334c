// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

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

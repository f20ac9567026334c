// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"

	"github.com/krabka-io/krabka-streams-go/columnar/expr"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

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

// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
)

// Function says how the values of a group become one.
type Function int

const (
	// Count counts rows, those with a null among them.
	Count Function = iota
	// Sum adds values and ignores nulls; the sum of nothing is null. Integers are
	// added exactly, and what does not fit the output type is an error. Booleans
	// count as 0 and 1, text is read as integers, dates and times count in their
	// unit.
	Sum
	// Min is the least value, nulls ignored. Text and bytes compare byte by byte,
	// false is less than true, and floats are in their total order: -0 is less
	// than 0, and NaN is greater than everything.
	Min
	// Max is the greatest value, in the order of Min.
	Max
	// CountValues counts the rows whose value is not null.
	CountValues
	// Avg is the mean of numbers, nulls ignored, as a Float64; the mean of nothing is
	// null. Sums of integers and decimals are exact, and rounded once.
	Avg
	// First is the value that came first, nulls ignored. Rows come in the order of the
	// records in their partition, whatever their event time.
	First
	// Last is the value that came last, nulls ignored.
	Last
	// AllTrue is whether no value is false, nulls ignored; of nothing it is null.
	AllTrue
	// AnyTrue is whether a value is true, nulls ignored; of nothing it is null.
	AnyTrue
	functions int = iota
)

func (f Function) isKnown() bool { return f >= Count && int(f) < functions }

// counts reports whether the function counts rows.
func (f Function) counts() bool { return f == Count || f == CountValues }

// picks reports whether the result of the function is one of the values.
func (f Function) picks() bool { return !f.counts() && f != Sum && f != Avg }

// String returns the name of the function in lower case, or the number of an
// unknown one.
func (f Function) String() string {
	if !f.isKnown() {
		return fmt.Sprintf("Function(%d)", int(f))
	}
	return [...]string{"count", "sum", "min", "max", "count_values", "avg", "first", "last", "all_true", "any_true"}[f]
}

// Aggregation is one aggregate of a group. Package columnar documents its fields.
type Aggregation struct {
	InputColumn  string
	OutputColumn string
	Function     Function
	// OutputType is the type of the result. Nil stands for Int64 for counts, for
	// Float64 for Avg, and for the type of the input column otherwise, narrow types among them: the
	// sum of an Int8 column overflows at 128.
	OutputType arrow.DataType
}

// outputField describes the result for an input column. One of the values of a column,
// such as the least, means what they mean, so it keeps the column's metadata.
func (a Aggregation) outputField(input arrow.Field) arrow.Field {
	output := arrow.Field{Name: a.OutputColumn, Type: a.outputType(input.Type), Nullable: true}
	if a.OutputType == nil && a.Function.picks() {
		output.Metadata = input.Metadata
	}
	return output
}

// outputType returns the type of the result for an input type.
func (a Aggregation) outputType(input arrow.DataType) arrow.DataType {
	switch {
	case a.OutputType != nil:
		return a.OutputType
	case a.Function.counts():
		return arrow.PrimitiveTypes.Int64
	case a.Function == Avg:
		return arrow.PrimitiveTypes.Float64
	default:
		return input
	}
}

// Emission says which groups an operator emits for an input batch.
type Emission int

const (
	// EmitTable emits all groups that are held, in the order in which they first
	// appeared. With windows these are the groups of the windows that are not
	// closed, and of those that the batch closed after adding to them.
	EmitTable Emission = iota
	// EmitChanges emits the groups that the batch added to, in the order in which
	// it first did, each with its values behind the batch.
	EmitChanges
	// EmitFinal emits the groups of the windows that the batch closed, once and
	// for good: in the order of windows, and within a window in the order in
	// which the groups first appeared.
	EmitFinal
)

// Spec is a grouping in the form in which it is computed.
type Spec struct {
	Keys         []string
	Aggregations []Aggregation
	// Windowed says that rows are put into the windows of Window.
	Windowed bool
	Window   Windowing
	// TimeColumn is the column of event time; empty stands for the record timestamp.
	TimeColumn string
	// TimeUnit is the unit of an Int64 TimeColumn; 0 stands for milliseconds.
	TimeUnit time.Duration
	// Timed says that results carry the latest event time of their group.
	Timed bool
	Emit  Emission
	// Limit bounds the groups that are held; 0 stands for no bound of its own.
	Limit int
}

// WithDefaults returns a copy, which shares no slice with s, in which fields that
// are left to their defaults are set.
func (s Spec) WithDefaults() Spec {
	s.Keys, s.Aggregations = slices.Clone(s.Keys), slices.Clone(s.Aggregations)
	if s.TimeColumn == "" {
		s.TimeColumn = metacols.Timestamp
	}
	if s.Limit == 0 {
		s.Limit = keytable.MaxGroups
	}
	return s
}

// Check reports everything that keeps the grouping from being computed.
func (s Spec) Check() []error {
	var problems []error
	if len(s.Keys) == 0 {
		problems = append(problems, errors.New("columnar: groupBy requires at least one key column"))
	}
	if len(s.Keys) >= keytable.MaxColumns {
		problems = append(problems, fmt.Errorf("columnar: groupBy of %d key columns, at most %d are possible", len(s.Keys), keytable.MaxColumns-1))
	}
	names := slices.Clone(s.Keys)
	if s.Windowed {
		names = append(names, WindowStart, WindowEnd)
	}
	for _, aggregation := range s.Aggregations {
		names = append(names, aggregation.OutputColumn)
		if !aggregation.Function.isKnown() {
			problems = append(problems, fmt.Errorf("columnar: unknown aggregate function %d", int(aggregation.Function)))
		}
		if s.Timed && aggregation.OutputColumn == metacols.Timestamp {
			problems = append(problems, fmt.Errorf("columnar: output column `%s` holds the event time of the group", metacols.Timestamp))
		}
	}
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if seen[name] {
			problems = append(problems, fmt.Errorf("columnar: output column `%s` appears twice", name))
		}
		seen[name] = true
	}
	return problems
}

// About says in a few words, for people, what the grouping does.
func (s Spec) About() string {
	text := "group by " + strings.Join(s.Keys, ", ")
	if s.Windowed {
		text += fmt.Sprintf(" in windows of %v", time.Duration(s.Window.Size)*time.Millisecond)
		if hop := s.Window.hop(); hop != s.Window.Size {
			text += fmt.Sprintf(" every %v", time.Duration(hop)*time.Millisecond)
		}
		if s.Window.Offset != 0 {
			text += fmt.Sprintf(" from %v", time.Duration(s.Window.Offset)*time.Millisecond)
		}
	}
	for i, aggregation := range s.Aggregations {
		text += [...]string{": ", ", "}[min(i, 1)] + fmt.Sprintf("%v(%s) as %s", aggregation.Function, aggregation.InputColumn, aggregation.OutputColumn)
	}
	return text
}

// showsTime reports whether results have a column of their own for the event
// time of groups: not where the event time is already a key column.
func (s Spec) showsTime() bool {
	return s.Timed && !slices.Contains(s.Keys, metacols.Timestamp)
}

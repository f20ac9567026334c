// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/grouping"
)

// AggregateFunction says how the values of a group become one. Its String method
// returns the name of the function in lower case, or the number of an unknown one.
type AggregateFunction = grouping.Function

const (
	// Count counts rows, those with a null among them.
	Count AggregateFunction = grouping.Count
	// Sum adds values and ignores nulls; the sum of nothing is null. Integers are
	// added exactly, and what does not fit the output type is an error. Booleans
	// count as 0 and 1, text is read as integers, dates and times count in their
	// unit.
	Sum AggregateFunction = grouping.Sum
	// Min is the least value, nulls ignored. Text and bytes compare byte by byte,
	// false is less than true, and floats are in their total order: -0 is less
	// than 0, and NaN is greater than everything.
	Min AggregateFunction = grouping.Min
	// Max is the greatest value, in the order of Min.
	Max AggregateFunction = grouping.Max
	// CountValues counts the rows whose value is not null.
	CountValues AggregateFunction = grouping.CountValues
	// Avg is the mean of numbers, nulls ignored, as a Float64; the mean of nothing is
	// null. Sums of integers and decimals are exact, and rounded once.
	Avg AggregateFunction = grouping.Avg
	// First is the value that came first, nulls ignored. Rows come in the order of the
	// records in their partition, whatever their event time.
	First AggregateFunction = grouping.First
	// Last is the value that came last, nulls ignored.
	Last AggregateFunction = grouping.Last
	// AllTrue is whether no value is false, nulls ignored; of nothing it is null.
	AllTrue AggregateFunction = grouping.AllTrue
	// AnyTrue is whether a value is true, nulls ignored; of nothing it is null.
	AnyTrue AggregateFunction = grouping.AnyTrue
)

// Aggregation is one aggregate of a group. Its fields are
//
//	InputColumn  string
//	OutputColumn string
//	Function     AggregateFunction
//	OutputType   arrow.DataType // nil stands for Int64 for counts, Float64 for Avg, and the type of the input column otherwise
//
// The type of the input column may be a narrow one: the sum of an Int8 column
// overflows at 128 unless OutputType is wider.
type Aggregation = grouping.Aggregation

// Emission says which groups an operator emits for an input batch.
type Emission = grouping.Emission

const (
	// EmitTable emits all groups that are held, in the order in which they first
	// appeared. With windows these are the groups of the windows that are not
	// closed, and of those that the batch closed after adding to them.
	EmitTable Emission = grouping.EmitTable
	// EmitChanges emits the groups that the batch added to, in the order in which
	// it first did, each with its values behind the batch.
	EmitChanges Emission = grouping.EmitChanges
	// EmitFinal emits the groups of the windows that the batch closed, once and
	// for good: in the order of windows, and within a window in the order in
	// which the groups first appeared.
	EmitFinal Emission = grouping.EmitFinal
)

// Names of the columns that windows add.
const (
	// WindowStartColumn holds the first millisecond of a window as Int64.
	WindowStartColumn = grouping.WindowStart
	// WindowEndColumn holds the first millisecond behind a window as Int64.
	WindowEndColumn = grouping.WindowEnd
	// StreamTimeColumn holds, in a batch of late rows, the stream time that had
	// closed the window when the row came.
	StreamTimeColumn = grouping.StreamTime
)

// Grouping is what [NewGroupBy] groups by, and how.
type Grouping struct {
	// Keys are the columns whose values make a group. There is at least one.
	Keys []string
	// Aggregations are computed for each group; none leaves the distinct keys. A
	// Count may leave its InputColumn empty.
	Aggregations []Aggregation
	// Window is the size of windows in event time; 0 stands for no windows. Parts of
	// durations below a millisecond are cut off.
	Window time.Duration
	// Hop is the distance from the start of a window to that of the next one. 0 stands
	// for Window: the windows tumble, and each row is in one of them. With a shorter
	// Hop they overlap, and a row is in each of the Window/Hop windows that hold its
	// time. Hop is not longer than Window, and not shorter than a ten-thousandth of it.
	Hop time.Duration
	// Offset moves all windows. Without it a window starts at 1970-01-01T00:00:00Z:
	// with a Window of 24h and an Offset of 6h, windows are days from six to six, UTC.
	Offset time.Duration
	// Grace is how far stream time gets past the end of a window before the
	// window is closed. The window [0s, 10s) with a grace of 5s is closed by a row
	// of 15s, and not by one of 14.999s. Rows of a closed window are late.
	Grace time.Duration
	// TimeColumn is the column of event time, which is a Timestamp, or an Int64 that
	// counts TimeUnit since the Unix epoch; empty stands for [TimestampColumn].
	TimeColumn string
	// TimeUnit is the unit of a TimeColumn of type Int64: [time.Second],
	// [time.Millisecond], [time.Microsecond] or [time.Nanosecond]. With 0 an Int64
	// counts milliseconds. A Timestamp has its own unit.
	TimeUnit time.Duration
	// Emit says what is emitted. EmitFinal needs a Window.
	Emit Emission
	// MaxGroups bounds the groups that are held; 0 stands for no bound. A batch
	// that would exceed it fails with a StateLimitError.
	MaxGroups int
}

// maxWindowsOfRow bounds the windows of one row.
const maxWindowsOfRow = 10_000

// NewGroupBy returns an operator that keeps the aggregates of each group. Its
// results have the key columns as they are in the input batch, with windows
// [WindowStartColumn] and [WindowEndColumn] as Int64, the aggregates, and the
// latest event time that went into the group as [TimestampColumn], so that
// records made of them carry that timestamp. They have no other metadata
// columns; [WithKey] gives them a record key.
//
// Null is a key like any other. Integers compare by value whatever their width
// except for Uint64, decimals compare by value, -0 equals 0 and NaN equals NaN.
//
// With windows, stream time is the latest event time so far, judged row by row:
// how rows are cut into batches has no influence on what is late. Late rows are
// dropped and counted, see [BuiltTopology.LateDropped] and
// [Topology.AddLateRows].
//
// The error lists everything that is wrong with the grouping.
func NewGroupBy(mem memory.Allocator, by Grouping) (*BuiltinOp, error) {
	spec := grouping.Spec{
		Keys: by.Keys, Aggregations: by.Aggregations, Emit: by.Emit,
		TimeColumn: by.TimeColumn, TimeUnit: by.TimeUnit, Timed: true, Limit: by.MaxGroups,
	}
	var problems []error
	complain := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("columnar: "+format, args...))
	}
	if by.Window != 0 {
		spec.Windowed = true
		spec.Window = grouping.Windowing{
			Size: by.Window.Milliseconds(), Hop: by.Hop.Milliseconds(), Offset: by.Offset.Milliseconds(), CloseAfter: by.Grace.Milliseconds(),
		}
		if by.Window < time.Millisecond {
			complain("windowSize must be at least one millisecond")
		}
		if by.Hop != 0 && (by.Hop < time.Millisecond || by.Hop > by.Window || spec.Window.Size/max(spec.Window.Hop, 1) > maxWindowsOfRow) {
			complain("a hop of %v does not do for windows of %v: it is at least one millisecond and a %dth of a window, and at most a window", by.Hop, by.Window, maxWindowsOfRow)
		}
	} else {
		if by.Emit == EmitFinal {
			complain("final emission needs a window")
		}
		if by.Grace != 0 {
			complain("grace needs a window")
		}
		if by.Hop != 0 || by.Offset != 0 {
			complain("hop and offset need a window")
		}
	}
	switch by.TimeUnit {
	case 0, time.Second, time.Millisecond, time.Microsecond, time.Nanosecond:
		if by.TimeUnit != 0 && by.TimeColumn == "" {
			complain("a time unit needs a time column: the timestamp of records is in milliseconds")
		}
	default:
		complain("time unit %v is neither a second, a millisecond, a microsecond nor a nanosecond", by.TimeUnit)
	}
	if by.Grace < 0 {
		complain("grace must not be negative")
	}
	if by.Emit < EmitTable || by.Emit > EmitFinal {
		complain("unknown emission %d", by.Emit)
	}
	if by.MaxGroups < 0 {
		complain("maximum number of groups must not be negative")
	}
	return newGroupBy(mem, spec, problems...)
}

// GroupBy returns an operator that keeps the aggregates of each group and emits
// all groups for each input batch, an empty one among them, in the order in
// which they first appeared. Results have the key columns and the aggregates
// only. What is wrong with the arguments is reported where the operator is
// used. [NewGroupBy] has more choices, emitting changed groups only among them.
func GroupBy(mem memory.Allocator, keys []string, aggregations ...Aggregation) *BuiltinOp {
	operator, err := newGroupBy(mem, grouping.Spec{Keys: keys, Aggregations: aggregations})
	if err != nil {
		return invalidOperator(err)
	}
	return operator
}

// WindowedGroupBy is [WindowedGroupByWithRetention] with a retention of
// windowSize.
func WindowedGroupBy(mem memory.Allocator, keys []string, windowSize time.Duration, aggregations ...Aggregation) (*BuiltinOp, error) {
	return WindowedGroupByWithRetention(mem, keys, windowSize, windowSize, aggregations...)
}

// WindowedGroupByWithRetention is [GroupBy] in tumbling windows of windowSize.
// Event time is [TimestampColumn]. Behind the keys, results have the bounds of
// the window, as Int64: [WindowStartColumn] and [WindowEndColumn]. A window is
// dropped when stream time, the latest event time so far, is more than
// retention past its end; rows that come later are dropped and counted, see
// [BuiltTopology.LateDropped]. Both durations are cut to milliseconds.
func WindowedGroupByWithRetention(mem memory.Allocator, keys []string, windowSize, retention time.Duration, aggregations ...Aggregation) (*BuiltinOp, error) {
	window, err := grouping.NewWindowing(windowSize, retention)
	if err != nil {
		return nil, err
	}
	return newGroupBy(mem, grouping.Spec{Keys: keys, Aggregations: aggregations, Windowed: true, Window: window})
}

func newGroupBy(mem memory.Allocator, spec grouping.Spec, problems ...error) (*BuiltinOp, error) {
	spec = spec.WithDefaults()
	if problems = append(problems, spec.Check()...); len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return newOperator(spec.About(), spec.Layout(), func() kernel { return grouping.New(mem, spec) }), nil
}

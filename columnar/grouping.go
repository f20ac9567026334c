// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/keytable"
)

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

// Grouping is what [NewGroupBy] groups by, and how.
type Grouping struct {
	// Keys are the columns whose values make a group. There is at least one.
	Keys []string
	// Aggregations are computed for each group; none leaves the distinct keys. A
	// Count may leave its InputColumn empty.
	Aggregations []Aggregation
	// Window is the size of tumbling windows in event time; 0 stands for no
	// windows. Parts below a millisecond are cut off.
	Window time.Duration
	// Grace is how far stream time gets past the end of a window before the
	// window is closed. The window [0s, 10s) with a grace of 5s is closed by a row
	// of 15s, and not by one of 14.999s. Rows of a closed window are late.
	Grace time.Duration
	// TimeColumn is the column of event time, which is Int64 in milliseconds or a
	// Timestamp; empty stands for [TimestampColumn].
	TimeColumn string
	// Emit says what is emitted. EmitFinal needs a Window.
	Emit Emission
	// MaxGroups bounds the groups that are held; 0 stands for no bound. A batch
	// that would exceed it fails with a StateLimitError.
	MaxGroups int
}

// groupSpec is a checked grouping.
type groupSpec struct {
	keys         []string
	aggregations []Aggregation
	windowed     bool
	window       windowing
	timeColumn   string
	// timed says that results carry the latest event time of their group.
	timed bool
	emit  Emission
	limit int
}

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
// The error lists everything that is wrong with grouping.
func NewGroupBy(mem memory.Allocator, grouping Grouping) (*BuiltinOp, error) {
	spec := groupSpec{
		keys: grouping.Keys, aggregations: grouping.Aggregations, emit: grouping.Emit,
		timeColumn: grouping.TimeColumn, timed: true, limit: grouping.MaxGroups,
	}
	var problems []error
	complain := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("columnar: "+format, args...))
	}
	if grouping.Window != 0 {
		spec.windowed = true
		spec.window = windowing{size: grouping.Window.Milliseconds(), closeAfter: grouping.Grace.Milliseconds()}
		if grouping.Window < time.Millisecond {
			complain("windowSize must be at least one millisecond")
		}
	} else {
		if grouping.Emit == EmitFinal {
			complain("final emission needs a window")
		}
		if grouping.Grace != 0 {
			complain("grace needs a window")
		}
	}
	if grouping.Grace < 0 {
		complain("grace must not be negative")
	}
	if grouping.Emit < EmitTable || grouping.Emit > EmitFinal {
		complain("unknown emission %d", grouping.Emit)
	}
	if grouping.MaxGroups < 0 {
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
	operator, err := newGroupBy(mem, groupSpec{keys: keys, aggregations: aggregations})
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
	window, err := newWindowing(windowSize, retention)
	if err != nil {
		return nil, err
	}
	return newGroupBy(mem, groupSpec{keys: keys, aggregations: aggregations, windowed: true, window: window})
}

func newGroupBy(mem memory.Allocator, spec groupSpec, problems ...error) (*BuiltinOp, error) {
	spec.keys, spec.aggregations = slices.Clone(spec.keys), slices.Clone(spec.aggregations)
	if spec.timeColumn == "" {
		spec.timeColumn = TimestampColumn
	}
	if spec.limit == 0 {
		spec.limit = keytable.MaxGroups
	}
	problems = append(problems, spec.check()...)
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return newOperator(spec.about(), spec.layout(), func() kernel { return newGroupKernel(mem, &spec) }), nil
}

func (s *groupSpec) check() []error {
	var problems []error
	if len(s.keys) == 0 {
		problems = append(problems, errors.New("columnar: groupBy requires at least one key column"))
	}
	if len(s.keys) >= keytable.MaxColumns {
		problems = append(problems, fmt.Errorf("columnar: groupBy of %d key columns, at most %d are possible", len(s.keys), keytable.MaxColumns-1))
	}
	names := slices.Clone(s.keys)
	if s.windowed {
		names = append(names, WindowStartColumn, WindowEndColumn)
	}
	for _, aggregation := range s.aggregations {
		names = append(names, aggregation.OutputColumn)
		if aggregation.Function < Count || aggregation.Function > Max {
			problems = append(problems, fmt.Errorf("columnar: unknown aggregate function %d", int(aggregation.Function)))
		}
		if s.timed && aggregation.OutputColumn == TimestampColumn {
			problems = append(problems, fmt.Errorf("columnar: output column `%s` holds the event time of the group", TimestampColumn))
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

// about says what the grouping does.
func (s *groupSpec) about() string {
	text := "group by " + strings.Join(s.keys, ", ")
	if s.windowed {
		text += fmt.Sprintf(" in windows of %v", time.Duration(s.window.size)*time.Millisecond)
	}
	for i, aggregation := range s.aggregations {
		text += [...]string{": ", ", "}[min(i, 1)] + fmt.Sprintf("%v(%s) as %s", aggregation.Function, aggregation.InputColumn, aggregation.OutputColumn)
	}
	return text
}

// layout identifies the form of the state. What only changes which groups are
// held or emitted is not part of it.
func (s *groupSpec) layout() string {
	var text strings.Builder
	fmt.Fprintf(&text, "groups/%d keys=%q", groupSnapshotVersion, s.keys)
	if s.windowed {
		fmt.Fprintf(&text, " window=%dms", s.window.size)
	}
	if s.timed {
		fmt.Fprintf(&text, " time=%q", s.timeColumn)
	}
	for _, aggregation := range s.aggregations {
		fmt.Fprintf(&text, " %s(%q)", aggregation.Function, aggregation.InputColumn)
	}
	return text.String()
}

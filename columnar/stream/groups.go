// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// Groups is a grouping that is not complete yet: it says by what rows are grouped,
// and [Groups.Aggregate] ends it. Its methods return a changed copy.
type Groups struct {
	stream   *Stream
	grouping columnar.Grouping
}

// GroupBy groups the rows by the values of the key columns
// ([columnar.NewGroupBy]). A group of all rows with equal keys is kept for ever
// unless a window ends it.
//
// The results are those of [columnar.EmitChanges] unless [Groups.Emit] says
// otherwise.
func (s *Stream) GroupBy(keys ...string) Groups {
	return Groups{stream: s, grouping: columnar.Grouping{Keys: keys, Emit: columnar.EmitChanges}}
}

// Tumbling groups by windows of event time too, which follow each other without
// gap and have the given size: columns [columnar.WindowStartColumn] and
// [columnar.WindowEndColumn] of the results say which.
func (g Groups) Tumbling(size time.Duration) Groups {
	g.grouping.Window = size
	return g
}

// Hopping groups by windows of the given size of which one starts every hop, as
// [columnar.Grouping.Hop] says: a row is in each window that holds its time.
func (g Groups) Hopping(size, hop time.Duration) Groups {
	g.grouping.Window, g.grouping.Hop = size, hop
	return g
}

// Offset moves the windows ([columnar.Grouping.Offset]).
func (g Groups) Offset(offset time.Duration) Groups {
	g.grouping.Offset = offset
	return g
}

// Grace is how long a window takes rows that come late, in event time.
func (g Groups) Grace(grace time.Duration) Groups {
	g.grouping.Grace = grace
	return g
}

// EventTime names the column of event time: a timestamp, or an integer in
// milliseconds since the Unix epoch. The default is the timestamp of the record.
func (g Groups) EventTime(column string) Groups {
	g.grouping.TimeColumn = column
	return g
}

// EventTimeIn is [Groups.EventTime] of a column of integers, which count unit since
// the Unix epoch ([columnar.Grouping.TimeUnit]).
func (g Groups) EventTimeIn(column string, unit time.Duration) Groups {
	g.grouping.TimeColumn, g.grouping.TimeUnit = column, unit
	return g
}

// Emit says which groups come out for each batch of rows.
func (g Groups) Emit(emission columnar.Emission) Groups {
	g.grouping.Emit = emission
	return g
}

// MaxGroups bounds the groups that are held in each partition.
func (g Groups) MaxGroups(groups int) Groups {
	g.grouping.MaxGroups = groups
	return g
}

// Aggregate computes aggregates for each group, and ends the grouping. The results
// have the key columns, the bounds of the window where there are windows, and the
// aggregates.
func (g Groups) Aggregate(aggregates ...Aggregate) *Grouped {
	b := g.stream.builder
	for _, aggregate := range aggregates {
		g.grouping.Aggregations = append(g.grouping.Aggregations, aggregate.aggregation)
	}
	operator, err := columnar.NewGroupBy(b.mem, g.grouping)
	if err != nil {
		name, ok := g.stream.step("group", g.stream)
		if ok {
			b.fail(stepError(name, err))
		}
		return &Grouped{Stream: g.stream.dead()}
	}
	return &Grouped{Stream: g.stream.operator("group", operator)}
}

// Grouped is the results of a grouping.
type Grouped struct{ *Stream }

// Late is the rows that came behind the end of their window and were left out of
// the results ([columnar.Topology.AddLateRows]).
func (g *Grouped) Late() *Stream {
	name, ok := g.step("late", g.Stream)
	if !ok {
		return g.dead()
	}
	return g.builder.add(name)(g.builder.topology.AddLateRows(name, g.node))
}

// Aggregate is one value that is computed for each group.
type Aggregate struct{ aggregation columnar.Aggregation }

// As names the column of the value. The default is the name of the function,
// followed by _ and the column that is aggregated: sum_cents. Count is count.
func (a Aggregate) As(column string) Aggregate {
	a.aggregation.OutputColumn = column
	return a
}

// Count is the number of rows.
func Count() Aggregate {
	return Aggregate{columnar.Aggregation{Function: columnar.Count, OutputColumn: "count"}}
}

// Sum is the sum of the values that are not null.
func Sum(column string) Aggregate { return aggregate(columnar.Sum, "sum_", column) }

// Min is the least value that is not null.
func Min(column string) Aggregate { return aggregate(columnar.Min, "min_", column) }

// Max is the greatest value that is not null.
func Max(column string) Aggregate { return aggregate(columnar.Max, "max_", column) }

// CountValues is the number of values that are not null.
func CountValues(column string) Aggregate { return aggregate(columnar.CountValues, "count_", column) }

// Avg is the mean of the numbers that are not null.
func Avg(column string) Aggregate { return aggregate(columnar.Avg, "avg_", column) }

// First is the value that came first and is not null.
func First(column string) Aggregate { return aggregate(columnar.First, "first_", column) }

// Last is the value that came last and is not null.
func Last(column string) Aggregate { return aggregate(columnar.Last, "last_", column) }

// AllTrue is whether no value is false.
func AllTrue(column string) Aggregate { return aggregate(columnar.AllTrue, "all_", column) }

// AnyTrue is whether a value is true.
func AnyTrue(column string) Aggregate { return aggregate(columnar.AnyTrue, "any_", column) }

func aggregate(function columnar.AggregateFunction, prefix, column string) Aggregate {
	return Aggregate{columnar.Aggregation{Function: function, InputColumn: column, OutputColumn: prefix + column}}
}

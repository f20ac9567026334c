// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// allTimeTypes are the types of dates, timestamps, times of day and durations, in
// every unit.
var allTimeTypes = []arrow.DataType{
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
	arrow.FixedWidthTypes.Timestamp_s, arrow.FixedWidthTypes.Timestamp_ms, &arrow.TimestampType{Unit: arrow.Microsecond}, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Berlin"},
	arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Time64ns,
	arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.Duration_ms, arrow.FixedWidthTypes.Duration_us, arrow.FixedWidthTypes.Duration_ns,
}

// nanosPer is the oracle's table of units.
var nanosPer = map[string]int64{
	"date32": 86400e9, "date64": 1e6,
	"timestamp[s, tz=UTC]": 1e9, "timestamp[ms, tz=UTC]": 1e6, "timestamp[us]": 1e3, "timestamp[ns, tz=Europe/Berlin]": 1,
	"time32[s]": 1e9, "time32[ms]": 1e6, "time64[us]": 1e3, "time64[ns]": 1,
	"duration[s]": 1e9, "duration[ms]": 1e6, "duration[us]": 1e3, "duration[ns]": 1,
}

func familyOf(dt arrow.DataType) string {
	name, _, _ := strings.Cut(dt.String(), "[")
	return map[string]string{"date32": "instant", "date64": "instant", "timestamp": "instant", "time32": "clock", "time64": "clock", "duration": "span"}[name]
}

// timesToTry are values to try in a column of a type.
func timesToTry(dt arrow.DataType) []int64 {
	switch {
	case familyOf(dt) == "clock":
		per := 86400e9 / nanosPer[dt.String()]
		return []int64{0, 1, 999, 1000, int64(per) - 1, int64(per) / 2}
	case dt.ID() == arrow.DATE32:
		return []int64{0, 1, -1, 19079, 106751, math.MinInt32, math.MaxInt32}
	case dt.ID() == arrow.DATE64:
		return []int64{0, 86400_000, -86400_000, 19079 * 86400_000}
	}
	unit := int64(1e9) / nanosPer[dt.String()]
	return []int64{0, 60 * unit, -unit, 1648467665 * unit, 1, -1, 1001, math.MaxInt64, math.MinInt64}
}

// timeBatch is one row of columns a and b.
func timeBatch(tb testing.TB, a arrow.DataType, x any, b arrow.DataType, y any) arrow.RecordBatch {
	tb.Helper()
	mem := newAllocator(tb)
	schema := arrowtest.Fields("a", a, "b", b)
	builder := array.NewRecordBuilder(mem, schema)
	defer builder.Release()
	for i, count := range []any{x, y} {
		if err := AppendValue(builder.Field(i), count); err != nil {
			tb.Fatal(err)
		}
	}
	batch := builder.NewRecordBatch()
	tb.Cleanup(batch.Release)
	return batch
}

// computed returns the value of an expression in the only row of a batch, and its
// type.
func computed(tb testing.TB, e Expression, batch arrow.RecordBatch) (any, arrow.DataType, error) {
	tb.Helper()
	ctx := &Context{}
	if err := Derive(newAllocator(tb), e.As("result")).Process(ctx, batch); err != nil {
		return nil, nil, err
	}
	result := ctx.Take()[0]
	defer result.Release()
	column := result.Column(int(result.NumCols()) - 1)
	return Value(column, 0), column.DataType(), nil
}

// inNanos returns a value of a time type in nanoseconds.
func inNanos(value any, dt arrow.DataType) *big.Int {
	count := reflect.ValueOf(value).Int()
	return new(big.Int).Mul(big.NewInt(count), big.NewInt(nanosPer[zoneless(dt)]))
}

// unitOf returns the unit of a time type, and -1 for a date.
func unitOf(dt arrow.DataType) arrow.TimeUnit {
	if dt, ok := dt.(arrow.TemporalWithUnit); ok {
		return dt.TimeUnit()
	}
	return -1
}

// zoneless is the name by which the oracle knows a type.
func zoneless(dt arrow.DataType) string {
	for _, known := range allTimeTypes {
		if known.ID() == dt.ID() && unitOf(known) == unitOf(dt) {
			return known.String()
		}
	}
	return dt.String()
}

// eachPair calls f with every pair of time types, and with each value of them
// beside two of the other.
func eachPair(f func(a arrow.DataType, x int64, b arrow.DataType, y int64)) {
	for _, a := range allTimeTypes {
		for _, b := range allTimeTypes {
			xs, ys := timesToTry(a), timesToTry(b)
			for i := range max(len(xs), len(ys)) {
				f(a, xs[i%len(xs)], b, ys[i%len(ys)])
				f(a, xs[i%len(xs)], b, ys[(i+1)%len(ys)])
			}
		}
	}
}

func TestTimesOfAllUnitsCompareAsWhatTheyMean(t *testing.T) {
	eachPair(func(a arrow.DataType, x int64, b arrow.DataType, y int64) {
		left, right := Column("a"), Column("b")
		less, _, err := computed(t, left.Less(right), timeBatch(t, a, x, b, y))
		if familyOf(a) != familyOf(b) {
			if err == nil || !strings.Contains(err.Error(), "cannot compare a") {
				t.Errorf("%s < %s: error = %v, want a refusal", a, b, err)
			}
			return
		}
		if err != nil {
			t.Errorf("%d %s < %d %s: %v", x, a, y, b, err)
			return
		}
		equal, _, err := computed(t, left.Equal(right), timeBatch(t, a, x, b, y))
		if err != nil {
			t.Fatal(err)
		}
		want := inNanos(x, a).Cmp(inNanos(y, b))
		if less != (want < 0) || equal != (want == 0) {
			t.Errorf("%d %s and %d %s: less %v, equal %v; they compare %d", x, a, y, b, less, equal, want)
		}
	})
}

func TestTimesOfAllUnitsAreAddedAndSubtractedAsWhatTheyMean(t *testing.T) {
	results := map[string]string{
		"instant + span": "instant", "span + instant": "instant", "span + span": "span",
		"instant - instant": "span", "instant - span": "instant", "span - span": "span", "clock - clock": "span",
	}
	eachPair(func(a arrow.DataType, x int64, b arrow.DataType, y int64) {
		for _, op := range []string{"+", "-"} {
			e, exact := Column("a").Add(Column("b")), new(big.Int).Add(inNanos(x, a), inNanos(y, b))
			if op == "-" {
				e, exact = Column("a").Sub(Column("b")), new(big.Int).Sub(inNanos(x, a), inNanos(y, b))
			}
			got, dt, err := computed(t, e, timeBatch(t, a, x, b, y))
			family, ok := results[familyOf(a)+" "+op+" "+familyOf(b)]
			where := fmt.Sprintf("%d %s %s %d %s", x, a, op, y, b)
			switch {
			case !ok:
				if err == nil || !strings.Contains(err.Error(), "operator is not defined for a ") {
					t.Errorf("%s: error = %v, want a refusal", where, err)
				}
			case err != nil:
				fine := big.NewInt(min(nanosPer[a.String()], nanosPer[b.String()], 1e9))
				limit := new(big.Int).Mul(fine, big.NewInt(math.MaxInt64))
				fits := func(v *big.Int) bool { return v.CmpAbs(limit) <= 0 }
				if !strings.Contains(err.Error(), "range") && !strings.Contains(err.Error(), "overflow") || fits(exact) && fits(inNanos(x, a)) && fits(inNanos(y, b)) {
					t.Errorf("%s: %v", where, err)
				}
			case familyOf(dt) != family:
				t.Errorf("%s is of type %s", where, dt)
			case inNanos(got, dt).Cmp(exact) != 0:
				t.Errorf("%s = %v %s; want %s ns", where, got, dt, exact)
			}
		}
	})
}

func TestTimesOfAllUnitsAreChosenBetweenAsWhatTheyMean(t *testing.T) {
	eachPair(func(a arrow.DataType, x int64, b arrow.DataType, y int64) {
		for _, first := range []bool{true, false} {
			got, dt, err := computed(t, If(first, Column("a"), Column("b")), timeBatch(t, a, x, b, y))
			want := inNanos(x, a)
			if !first {
				want = inNanos(y, b)
			}
			where := fmt.Sprintf("%v: %d %s or %d %s", first, x, a, y, b)
			switch {
			case familyOf(a) != familyOf(b):
				if err == nil || !strings.Contains(err.Error(), "cannot choose between a ") {
					t.Errorf("%s: error = %v, want a refusal", where, err)
				}
			case err != nil:
				fine := big.NewInt(min(nanosPer[a.String()], nanosPer[b.String()], 1e9))
				if limit := new(big.Int).Mul(fine, big.NewInt(math.MaxInt64)); !strings.Contains(err.Error(), "range") || want.CmpAbs(limit) <= 0 {
					t.Errorf("%s: %v", where, err)
				}
			case familyOf(dt) != familyOf(a) || inNanos(got, dt).Cmp(want) != 0:
				t.Errorf("%s: %v %s; want %s ns", where, got, dt, want)
			}
		}
	})
}

func TestTimesOfAllUnitsAreCastAsWhatTheyMean(t *testing.T) {
	day := big.NewInt(86400e9)
	allowed := []string{"instant instant", "clock clock", "span span", "instant clock", "clock span", "span clock"}
	for _, from := range allTimeTypes {
		for _, to := range allTimeTypes {
			for _, x := range timesToTry(from) {
				got, dt, err := computed(t, Column("a").Cast(to), timeBatch(t, from, x, int64Type, 0))
				where := fmt.Sprintf("%d %s as %s", x, from, to)
				if !slices.Contains(allowed, familyOf(from)+" "+familyOf(to)) {
					if err == nil || !strings.Contains(err.Error(), " is not a ") {
						t.Errorf("%s: error = %v, want a refusal", where, err)
					}
					continue
				}
				want := inNanos(x, from)
				switch {
				case to.ID() == arrow.DATE32 || to.ID() == arrow.DATE64:
					want.Sub(want, new(big.Int).Mod(want, day))
				case familyOf(from) == "instant" && familyOf(to) == "clock":
					want.Mod(want, day)
				}
				count, rest := new(big.Int).QuoRem(want, big.NewInt(nanosPer[to.String()]), new(big.Int))
				held := rest.Sign() == 0 && count.IsInt64()
				if width := to.(arrow.FixedWidthDataType).BitWidth(); width == 32 {
					held = held && count.Int64() == int64(int32(count.Int64()))
				}
				if familyOf(to) == "clock" {
					held = held && count.Sign() >= 0 && want.Cmp(day) < 0
				}
				switch {
				case held != (err == nil):
					t.Errorf("%s: error = %v; want one: %v", where, err, !held)
				case err == nil && (!arrow.TypeEqual(dt, to) || inNanos(got, to).Cmp(want) != 0):
					t.Errorf("%s = %v %s; want %s", where, got, dt, count)
				}
			}
		}
	}
}

func TestTimesAsText(t *testing.T) {
	for _, test := range []struct {
		dt    arrow.DataType
		count int64
		want  any
	}{
		{arrow.FixedWidthTypes.Timestamp_s, 1648467665, "2022-03-28T11:41:05Z"},
		{arrow.FixedWidthTypes.Timestamp_ms, -1, "1969-12-31T23:59:59.999Z"},
		{&arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Berlin"}, 1648467665000000001, "2022-03-28T11:41:05.000000001Z"},
		{arrow.FixedWidthTypes.Date32, 19079, "2022-03-28"},
		{arrow.FixedWidthTypes.Date64, 19079 * 86400_000, "2022-03-28"},
		{arrow.FixedWidthTypes.Time32ms, 61_500, "00:01:01.5"},
		{arrow.FixedWidthTypes.Time64ns, 86399_999_999_999, "23:59:59.999999999"},
		{arrow.FixedWidthTypes.Duration_ms, -1500, "-1500ms"},
	} {
		for _, as := range []arrow.DataType{textType, arrow.BinaryTypes.LargeString, &arrow.DictionaryType{IndexType: int8Type, ValueType: textType}} {
			got, _, err := computed(t, Column("a").Cast(as), timeBatch(t, test.dt, test.count, int64Type, 0))
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%d %s as %s: error %v, mismatch (-want +got):\n%s", test.count, test.dt, as, err, diff)
			}
		}
	}
	if got, _, err := computed(t, Column("a").Cast(textType), timeBatch(t, arrow.FixedWidthTypes.Timestamp_s, math.MaxInt64, int64Type, 0)); err == nil {
		t.Errorf("a time beyond the year 9999 as text = %v, want an error", got)
	}
}

func TestTimesWithLiterals(t *testing.T) {
	at := time.Date(2022, 3, 28, 11, 41, 5, 0, time.UTC)
	seconds, millis, day, clock, span := arrow.FixedWidthTypes.Timestamp_s, arrow.FixedWidthTypes.Timestamp_ms, arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Duration_s
	a := Column("a")
	for _, test := range []struct {
		dt    arrow.DataType
		count int64
		e     Expression
		want  any
		as    arrow.DataType
	}{
		{seconds, 60, a.Add(time.Minute), int64(120), seconds},
		{seconds, 60, Literal(time.Minute).Add(a), int64(120), seconds},
		{seconds, 60, a.Sub(1500 * time.Millisecond), int64(58500), millis},
		{seconds, 90, a.Sub(a.Mod(time.Minute)), int64(60), seconds},
		{seconds, at.Unix(), a.Equal(at), true, nil},
		{seconds, at.Unix(), a.Less(at.Add(1)), true, nil},
		{seconds, at.Unix(), a.Sub(at.Add(-time.Hour)), int64(3600), span},
		{seconds, at.Unix(), a.Add(time.Hour).Greater(at), true, nil},
		{millis, at.UnixMilli(), a.Cast(seconds).Equal(at), true, nil},
		{millis, 5, If(true, a, time.UnixMilli(7)), int64(5), millis},
		{millis, 5, If(false, a, time.UnixMilli(7)), int64(7), millis},
		{&arrow.TimestampType{Unit: arrow.Nanosecond}, 5, a.Less(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)), true, nil},
		{&arrow.TimestampType{Unit: arrow.Nanosecond}, math.MinInt64, a.Equal(time.Unix(0, math.MinInt64)), true, nil},
		{&arrow.TimestampType{Unit: arrow.Nanosecond}, math.MaxInt64, a.Equal(time.Unix(0, math.MaxInt64)), true, nil},
		{day, 19079, a.Equal(at), false, nil},
		{day, 19079, a.Less(at), true, nil},
		{day, 19079, a.Equal(at.Truncate(24 * time.Hour)), true, nil},
		{clock, 3600, a.Equal(time.Hour), true, nil},
		{clock, 3600, a.Sub(time.Minute), int64(3540), span},
		{span, 90, a.Greater(time.Minute), true, nil},
		{span, 90, a.Mul(2), int64(180), span},
		{span, 90, Literal(2).Mul(a), int64(180), span},
		{span, 90, a.Div(2), int64(45), span},
		{span, 90, a.Div(time.Minute), int64(1), int64Type},
		// Beside a number, a time is the number of its units.
		{seconds, 60, a.Add(5), int64(65), int64Type},
		{seconds, 60, a.Equal(60), true, nil},
		{seconds, 60, If(true, a, 5), int64(60), int64Type},
		{seconds, 60, a.Cast(int64Type), int64(60), int64Type},
		{int64Type, 60, a.Cast(seconds), int64(60), seconds},
		{int64Type, 60, Literal(at).Cast(millis), at.UnixMilli(), millis},
		{int64Type, 60, Literal(at), at.Unix(), seconds},
	} {
		got, dt, err := computed(t, test.e, timeBatch(t, test.dt, test.count, int64Type, 0))
		if test.as == nil {
			test.as = arrow.FixedWidthTypes.Boolean
		}
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil || !arrow.TypeEqual(dt, test.as) {
			t.Errorf("%s of %d %s: error %v, type %s, want %s; mismatch (-want +got):\n%s", test.e, test.count, test.dt, err, dt, test.as, diff)
		}
	}
	for _, test := range []struct {
		dt   arrow.DataType
		e    Expression
		want string
	}{
		{seconds, a.Equal(time.Second), "1s does not compare with type timestamp[s, tz=UTC]"},
		{span, a.Less(at), "does not compare with type duration[s]"},
		{seconds, a.Mul(time.Second), "does not compare with type timestamp[s, tz=UTC]"},
		{seconds, a.Cast(span), "a date or timestamp is not a duration"},
		{seconds, a.Add(a), "operator is not defined for a date or timestamp and a date or timestamp"},
	} {
		if got, _, err := computed(t, test.e, timeBatch(t, test.dt, 60, int64Type, 0)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s = %v, error %v; want %q", test.e, got, err, test.want)
		}
	}
}

func TestTimestampsOfRecordsAreInMilliseconds(t *testing.T) {
	for _, test := range []struct {
		dt    arrow.DataType
		count int64
		want  any
		fault string
	}{
		{int64Type, 1648467665, int64(1648467665), ""},
		{arrow.FixedWidthTypes.Timestamp_s, 1648467665, int64(1648467665000), ""},
		{arrow.FixedWidthTypes.Timestamp_ms, 1648467665, int64(1648467665), ""},
		{arrow.FixedWidthTypes.Timestamp_us, -1, int64(-1), ""},
		{arrow.FixedWidthTypes.Timestamp_ns, 1999999, int64(1), ""},
		{arrow.FixedWidthTypes.Timestamp_s, math.MaxInt64, nil, "out of range"},
		{arrow.FixedWidthTypes.Date32, 1, nil, "cannot be made of values that are date32"},
		{arrow.FixedWidthTypes.Time32s, 1, nil, "cannot be made of values that are time32[s]"},
		{arrow.FixedWidthTypes.Duration_ms, 1, nil, "cannot be made of values that are duration[ms]"},
	} {
		ctx := &Context{}
		err := WithTimestamp(newAllocator(t), Column("a")).Process(ctx, timeBatch(t, test.dt, test.count, int64Type, 0))
		var failure *ColumnError
		if test.fault != "" {
			if !errors.As(err, &failure) || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%d %s: error = %v, want a ColumnError with %q", test.count, test.dt, err, test.fault)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		result := ctx.Take()[0]
		got := Value(result.Column(namedcols.First(result.Schema(), TimestampColumn)), 0)
		result.Release()
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%d %s mismatch (-want +got):\n%s", test.count, test.dt, diff)
		}
	}
}

func TestIntegersWithAndWithoutSignCompare(t *testing.T) {
	signed := []int64{math.MinInt64, -1, 0, 1, math.MaxInt64}
	unsigned := []uint64{0, 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64}
	for _, i := range signed {
		for _, u := range unsigned {
			want := big.NewInt(i).Cmp(new(big.Int).SetUint64(u))
			batch := timeBatch(t, int64Type, i, uint64Type, u)
			for name, e := range map[string]Expression{
				"less": Column("a").Less(Column("b")), "equal, turned": Column("b").Equal(Column("a")),
				"less, literal": Column("a").Less(Literal(u)), "equal": Column("a").Equal(Literal(u)), "greater": Column("a").Greater(Literal(u)),
				"greater, column": Column("a").Greater(Column("b")), "not less": Column("b").LessOrEqual(Column("a")),
				"less, turned": Literal(u).Greater(Literal(i)), "greater, turned": Literal(u).Less(Literal(i)),
			} {
				got, _, err := computed(t, e, batch)
				relation, _, _ := strings.Cut(name, ",")
				holds := map[string]bool{"less": want < 0, "equal": want == 0, "greater": want > 0, "not less": want >= 0}[relation]
				if err != nil || got != holds {
					t.Errorf("%d and %d, %s: %v, error %v; want %v", i, u, name, got, err, holds)
				}
			}
		}
	}
}

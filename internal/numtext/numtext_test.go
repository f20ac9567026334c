// SPDX-License-Identifier: Apache-2.0

package numtext_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

func TestSplitDecimal(t *testing.T) {
	var scratch []byte
	for text, want := range map[string]string{
		"0": "+ e0", "-0.00": "+ e0", "12": "+12 e0", "1200": "+12 e2", "-0.0120": "-12 e-3",
		"1.5e3": "+15 e2", "1e-400": "+1 e-400", "1e99999999999": "+1 e2147483647",
	} {
		var d numtext.Decimal
		d, scratch = numtext.SplitDecimal([]byte(text), scratch)
		if got := fmt.Sprintf("%s%s e%d", map[bool]string{true: "-", false: "+"}[d.Negative], d.Digits, d.Exponent); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestParseDecimalAcceptsNumbersAlone(t *testing.T) {
	for _, text := range []string{"", "+", "-", ".", "+-1", "--1", "1e", "1e+", "1 ", " 1", "0x1", "1.2.3", "NaN", "1_000"} {
		if d, ok := numtext.ParseDecimal(text); ok {
			t.Errorf("%q was read as %+v", text, d)
		}
	}
	for text, want := range map[string]string{"+1": "1 0", ".5": "5 -1", "5.": "5 0", "007": "7 0", "1E2": "1 2"} {
		if d, ok := numtext.ParseDecimal(text); !ok || fmt.Sprintf("%s %d", d.Digits, d.Exponent) != want {
			t.Errorf("%q was read as %+v, %t; want %s", text, d, ok, want)
		}
	}
}

// TestScaledIsTheExactNumber compares random numbers with big.Rat.
func TestScaledIsTheExactNumber(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		digits := make([]byte, 1+random.IntN(70))
		for i := range digits {
			digits[i] = byte('0' + random.IntN(10))
		}
		unscaled, _ := new(big.Int).SetString(string(digits), 10)
		if random.IntN(2) == 0 {
			unscaled.Neg(unscaled)
		}
		scale := int32(random.IntN(10))
		text := new(big.Rat).SetFrac(unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)).FloatString(int(scale))
		d, ok := numtext.ParseDecimal(text)
		if !ok {
			t.Fatalf("seed %d: %s is not a number", seed, text)
		}
		limbs, err := d.Scaled(76, scale)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		got := new(big.Int)
		for i := range limbs {
			got.Lsh(got, 64).Or(got, new(big.Int).SetUint64(limbs[len(limbs)-1-i]))
		}
		if limbs[3]>>63 != 0 {
			got.Sub(got, new(big.Int).Lsh(big.NewInt(1), 256))
		}
		if got.Cmp(unscaled) != 0 {
			t.Fatalf("seed %d: %s at scale %d is %s, want %s", seed, text, scale, got, unscaled)
		}
	}
}

func TestDecimalBounds(t *testing.T) {
	parse := func(text string) numtext.Decimal {
		d, ok := numtext.ParseDecimal(text)
		if !ok {
			t.Fatalf("%s is not a number", text)
		}
		return d
	}
	if v, err := parse("18446744073709551615").Unsigned(); err != nil || v != 1<<64-1 {
		t.Errorf("largest = %d, %v", v, err)
	}
	for text, want := range map[string]string{"18446744073709551616": "number is too large", "1e30": "number is too large", "0.5": "number is not an integer"} {
		if _, err := parse(text).Unsigned(); err == nil || err.Error() != want {
			t.Errorf("%s: error = %v, want %s", text, err, want)
		}
	}
	if _, err := parse("0.5").Unsigned(); !errors.Is(err, numtext.ErrFraction) {
		t.Errorf("error of 0.5 = %v, want ErrFraction", err)
	}
	if _, err := parse("0.125").Scaled(10, 2); err == nil || err.Error() != "number does not fit scale 2" {
		t.Errorf("scale error = %v", err)
	}
	if _, err := parse("1234.5").Scaled(4, 1); err == nil || err.Error() != "number does not fit precision 4" {
		t.Errorf("precision error = %v", err)
	}
}

func TestShortFloatIsCorrectlyRounded(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	for range 5000 {
		text := strconv.FormatInt(random.Int64N(1e15), 10)
		if at := random.IntN(len(text)); at > 0 {
			text = text[:at] + "." + text[at:]
		}
		if random.IntN(2) == 0 {
			text = "-" + text
		}
		want, _ := strconv.ParseFloat(text, 64)
		if got, ok := numtext.ShortFloat([]byte(text)); ok && got != want {
			t.Fatalf("seed %d: %s is %v, want %v", seed, text, got, want)
		}
	}
	if got, ok := numtext.ShortFloat([]byte("-12.5")); !ok || got != -12.5 {
		t.Errorf("-12.5 is %v, %t", got, ok)
	}
	for _, text := range []string{"1e5", strings.Repeat("9", 16)} {
		if got, ok := numtext.ShortFloat([]byte(text)); ok {
			t.Errorf("%s is %v, want none", text, got)
		}
	}
}

func TestTimesOfEveryUnit(t *testing.T) {
	const text = "1969-12-31T23:59:58.123456789Z"
	for unit, want := range map[numtext.Unit]struct {
		units int64
		text  string
	}{
		numtext.Second:      {-2, "1969-12-31T23:59:58Z"},
		numtext.Millisecond: {-1877, "1969-12-31T23:59:58.123Z"},
		numtext.Microsecond: {-1876544, "1969-12-31T23:59:58.123456Z"},
		numtext.Nanosecond:  {-1876543211, text},
	} {
		units, err := numtext.ParseTime([]byte(text), unit, true)
		if err != nil || units != want.units {
			t.Errorf("%s: %d, %v; want %d", unit, units, err, want.units)
		}
		back, err := numtext.AppendTime(nil, units, unit)
		if err != nil || string(back) != want.text {
			t.Errorf("%s: %s, %v; want %s", unit, back, err, want.text)
		}
	}
	if got, err := numtext.ParseTime([]byte("2000-01-01t01:30:00+01:30"), numtext.Second, true); err != nil || got != 946684800 {
		t.Errorf("with a zone = %d, %v", got, err)
	}
	if got, err := numtext.ParseTime([]byte("2000-01-01 00:00:00"), numtext.Second, false); err != nil || got != 946684800 {
		t.Errorf("without a zone = %d, %v", got, err)
	}
}

func TestOutermostTimesAreReadBack(t *testing.T) {
	for _, unit := range []numtext.Unit{numtext.Second, numtext.Millisecond, numtext.Microsecond, numtext.Nanosecond} {
		for _, v := range []int64{math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1} {
			seconds, fraction := numtext.FloorDivMod(v, int64(unit))
			if got, err := numtext.InUnit(seconds, fraction*(1e9/int64(unit)), unit); got != v || err != nil {
				t.Errorf("InUnit of %d %s = %d, %v", v, unit, got, err)
			}
			text, err := numtext.AppendTime(nil, v, unit)
			if err != nil {
				continue // beyond the year 9999
			}
			if got, err := numtext.ParseTime(text, unit, true); got != v || err != nil {
				t.Errorf("ParseTime(%s) in %s = %d, %v; want %d", text, unit, got, err, v)
			}
		}
		above, below := new(big.Int).Add(big.NewInt(math.MaxInt64), big.NewInt(1)), new(big.Int).Sub(big.NewInt(math.MinInt64), big.NewInt(1))
		for _, v := range []*big.Int{above, below} {
			seconds, fraction := new(big.Int).DivMod(v, big.NewInt(int64(unit)), new(big.Int))
			if !seconds.IsInt64() {
				continue
			}
			if got, err := numtext.InUnit(seconds.Int64(), fraction.Int64()*(1e9/int64(unit)), unit); err == nil {
				t.Errorf("InUnit of %s %s = %d, want an error", v, unit, got)
			}
		}
	}
}

func TestTimesThatAreNone(t *testing.T) {
	for _, text := range []string{
		"", "2000-01-01", "2000-01-01T", "2000-02-30T00:00:00Z", "2000-01-01T24:00:00Z", "2000-01-01T00:00:00", "2000-01-01T00:00:00.Z",
		"2000-01-01T00:00:00+24:00", "2000-01-01T00:00:00+1:00", "2000-01-01T00:00:00ZZ",
	} {
		if got, err := numtext.ParseTime([]byte(text), numtext.Second, true); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
	if got, err := numtext.ParseTime([]byte("2500-01-01T00:00:00Z"), numtext.Nanosecond, true); err == nil {
		t.Errorf("the year 2500 was read as %d ns", got)
	}
	for name, write := range map[string]func() ([]byte, error){
		"time 9223372036854775807 s since the epoch has no RFC 3339 form": func() ([]byte, error) { return numtext.AppendTime(nil, 1<<63-1, numtext.Second) },
		"date 2932897 days since the epoch has no RFC 3339 form":          func() ([]byte, error) { return numtext.AppendDate(nil, 2932897) },
		"time of day 86400 s is not within a day":                         func() ([]byte, error) { return numtext.AppendClock(nil, 86400, numtext.Second) },
	} {
		if text, err := write(); err == nil || err.Error() != name {
			t.Errorf("wrote %q, %v; want the error %s", text, err, name)
		}
	}
}

func TestDatesAndClocks(t *testing.T) {
	days, rest, ok := numtext.ParseDate([]byte("1970-01-03x"))
	if diff := cmp.Diff([]any{int64(2), "x", true}, []any{days, string(rest), ok}); diff != "" {
		t.Errorf("date mismatch (-want +got):\n%s", diff)
	}
	seconds, nanos, rest, ok := numtext.ParseClock([]byte("01:02:03.0000000019x"))
	if diff := cmp.Diff([]any{int64(3723), int64(1), "x", true}, []any{seconds, nanos, string(rest), ok}); diff != "" {
		t.Errorf("time of day mismatch (-want +got):\n%s", diff)
	}
	date, _ := numtext.AppendDate(nil, -1)
	clock, _ := numtext.AppendClock(nil, 3723_500, numtext.Millisecond)
	if diff := cmp.Diff([]string{"1969-12-31", "01:02:03.5"}, []string{string(date), string(clock)}); diff != "" {
		t.Errorf("text mismatch (-want +got):\n%s", diff)
	}
}

func TestRationals(t *testing.T) {
	for _, test := range []struct {
		unscaled int64
		scale    int32
		want     string
	}{{125, 2, "1.25"}, {-125, 2, "-1.25"}, {1200, 2, "12"}, {12, -2, "1200"}, {0, 5, "0"}} {
		if got := numtext.RatText(numtext.Rat(big.NewInt(test.unscaled), test.scale)); got != test.want {
			t.Errorf("%d at scale %d is %s, want %s", test.unscaled, test.scale, got, test.want)
		}
	}
	if got, want := numtext.RatText(big.NewRat(1, 3)), "0."+strings.Repeat("3", 38); got != want {
		t.Errorf("a third is %s, want %s", got, want)
	}
}

func TestUnitOf(t *testing.T) {
	for d, want := range map[time.Duration]numtext.Unit{
		time.Second: numtext.Second, time.Millisecond: numtext.Millisecond, time.Microsecond: numtext.Microsecond, time.Nanosecond: numtext.Nanosecond,
	} {
		if got := numtext.UnitOf(d); got != want {
			t.Errorf("unit of %s = %s, want %s", d, got, want)
		}
	}
}

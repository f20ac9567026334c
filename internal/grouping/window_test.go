// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"math"
	"testing"
	"time"
)

func TestWindowBounds(t *testing.T) {
	window := must[Windowing](t)(NewWindowing(10*time.Millisecond+time.Microsecond, 15*time.Millisecond))
	for timestamp, want := range map[int64]int64{0: 0, 9: 0, 10: 10, -1: -10, -10: -10, -11: -20, math.MaxInt64 - 20: math.MaxInt64 - 27} {
		if start, ok := window.startOf(timestamp); start != want || !ok {
			t.Errorf("startOf(%d) = %d, %v, want %d", timestamp, start, ok, want)
		}
	}
	for _, timestamp := range []int64{math.MinInt64, math.MinInt64 + 7, math.MaxInt64, math.MaxInt64 - 7} {
		if start, ok := window.startOf(timestamp); ok {
			t.Errorf("startOf(%d) = %d, want no window", timestamp, start)
		}
	}
	hopping := Windowing{Size: 10, Hop: 4, Offset: 1}
	for timestamp, want := range map[int64]int64{0: -3, 1: 1, 4: 1, 5: 5, -3: -3, -4: -7} {
		if start, ok := hopping.startOf(timestamp); start != want || !ok {
			t.Errorf("hopping: startOf(%d) = %d, %v, want %d", timestamp, start, ok, want)
		}
	}
	if start, ok := hopping.startOf(math.MinInt64 + 8); ok {
		t.Errorf("hopping: the windows of a timestamp that start too early start at %d", start)
	}
	// Stream time 25 is exactly the retention past the end of window 0.
	if window.isClosed(0, 25) || !window.isClosed(0, 26) {
		t.Errorf("window 0 is closed at 25: %v, at 26: %v, want only the latter", window.isClosed(0, 25), window.isClosed(0, 26))
	}
	if window.isClosed(math.MaxInt64-17, math.MaxInt64-1) {
		t.Error("a window whose closing time is out of range is closed")
	}
}

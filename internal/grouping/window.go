// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// Names of the columns that windows add. Package columnar documents their values.
const (
	WindowStart = "__window_start"
	WindowEnd   = "__window_end"
	StreamTime  = "__stream_time"
)

// Windowing is how rows are put into windows. Windows start at multiples of Hop plus
// Offset, before the epoch as well, and a row is in each window that holds its time.
type Windowing struct {
	Size int64 // milliseconds
	// Hop is the distance of window starts, in milliseconds and at most Size; 0 stands
	// for Size, which makes the windows tumble.
	Hop    int64
	Offset int64 // milliseconds
	// CloseAfter is how far stream time gets past the end of a window before the
	// window is closed: it is closed when stream time reaches the end plus this.
	CloseAfter int64
}

// NewWindowing checks durations, whose parts below a millisecond are cut off.
// Rows are accepted as long as stream time is at most retention past the end
// of their window.
func NewWindowing(size, retention time.Duration) (Windowing, error) {
	if size < time.Millisecond {
		return Windowing{}, errors.New("columnar: windowSize must be at least one millisecond")
	}
	if retention < size {
		return Windowing{}, errors.New("columnar: retention must not be shorter than windowSize")
	}
	return Windowing{Size: size.Milliseconds(), CloseAfter: retention.Milliseconds() + 1}, nil
}

// hop returns the distance of window starts.
func (w Windowing) hop() int64 {
	if w.Hop == 0 {
		return w.Size
	}
	return w.Hop
}

// startOf returns the start of the latest window of a timestamp. ok is false if one of
// its windows reaches beyond what a timestamp can hold.
func (w Windowing) startOf(timestamp int64) (start int64, ok bool) {
	hop := w.hop()
	offset := (timestamp%hop - w.Offset%hop) % hop
	if offset < 0 {
		offset += hop
	}
	start = timestamp - offset
	return start, start <= timestamp && start >= math.MinInt64+(w.Size-1)/hop*hop && start <= math.MaxInt64-w.Size
}

// isStart reports whether a window starts at a time.
func (w Windowing) isStart(at int64) bool {
	hop := w.hop()
	return (at%hop-w.Offset%hop)%hop == 0 && at <= math.MaxInt64-w.Size
}

// closesAt returns the stream time from which on a window is closed.
func (w Windowing) closesAt(start int64) int64 {
	if end := start + w.Size; end <= math.MaxInt64-w.CloseAfter {
		return end + w.CloseAfter
	}
	return math.MaxInt64
}

// isClosed reports whether a window is closed at a stream time.
func (w Windowing) isClosed(start, streamTime int64) bool { return w.closesAt(start) <= streamTime }

// assign sets starts to the windows of timestamps, and returns the stream time
// behind the last row. Every row is judged at the stream time that it and the
// rows before it make; those whose window is closed by then are appended to
// late.
func (w Windowing) assign(starts, timestamps []int64, streamTime int64, late []int32) (int64, []int32, error) {
	starts = starts[:len(timestamps)]
	// The window of the latest row and when it closes.
	start, end, closes, known := int64(0), int64(0), int64(0), false
	for row, timestamp := range timestamps {
		if !known || timestamp < start || timestamp >= end {
			var ok bool
			if start, ok = w.startOf(timestamp); !ok {
				return streamTime, late, namedcols.AtRow(row, fmt.Errorf("the window of timestamp %d is out of range", timestamp))
			}
			end, closes, known = start+w.Size, w.closesAt(start), true
		}
		if timestamp > streamTime {
			streamTime = timestamp
		}
		if closes <= streamTime {
			late = append(late, int32(row))
		}
		starts[row] = start
	}
	return streamTime, late, nil
}

// spread appends to rows and starts each row once for each of its windows that is
// open, the earliest first, and returns the stream time behind the last row. Rows are
// judged as by assign: those whose windows are all closed are appended to late.
func (w Windowing) spread(rows []int32, starts, timestamps []int64, streamTime int64, late []int32) ([]int32, []int64, int64, []int32, error) {
	hop := w.hop()
	for row, timestamp := range timestamps {
		latest, ok := w.startOf(timestamp)
		if !ok {
			return rows, starts, streamTime, late, namedcols.AtRow(row, fmt.Errorf("the windows of timestamp %d are out of range", timestamp))
		}
		streamTime = max(streamTime, timestamp)
		known := len(rows)
		for start := latest - (w.Size-1-(timestamp-latest))/hop*hop; start <= latest; start += hop {
			if !w.isClosed(start, streamTime) {
				rows, starts = append(rows, int32(row)), append(starts, start)
			}
		}
		if len(rows) == known {
			late = append(late, int32(row))
		}
	}
	return rows, starts, streamTime, late, nil
}

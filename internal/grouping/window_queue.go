// SPDX-License-Identifier: Apache-2.0

package grouping

import "container/heap"

// openWindow is a window whose groups are still to be emitted.
type openWindow struct {
	start   int64
	groups  []uint32 // ascending
	changed bool     // since the latest commit
	removed bool
}

// openWindows finds the groups of windows that close. Changes are remembered
// since the latest commit.
type openWindows struct {
	byStart map[int64]*openWindow
	queue   windowQueue
	latest  *openWindow // that groups were added to

	changed []*openWindow // that groups were added to
	closed  []*openWindow
}

func newOpenWindows() *openWindows {
	return &openWindows{byStart: make(map[int64]*openWindow)}
}

// add notes a new group of a window.
func (o *openWindows) add(start int64, group uint32) {
	window := o.latest
	if window == nil || window.start != start || window.removed {
		if window = o.byStart[start]; window == nil {
			window = &openWindow{start: start}
			o.byStart[start] = window
			heap.Push(&o.queue, window)
		}
		o.latest = window
	}
	window.groups = append(window.groups, group)
	if !window.changed {
		window.changed = true
		o.changed = append(o.changed, window)
	}
}

// close removes the windows for which isClosed is true and appends their groups
// to groups, window by window. isClosed is true for all starts below some.
func (o *openWindows) close(groups []uint32, isClosed func(start int64) bool) []uint32 {
	for len(o.queue) > 0 {
		window := o.queue[0]
		if !window.removed {
			if !isClosed(window.start) {
				break
			}
			groups = append(groups, window.groups...)
			delete(o.byStart, window.start)
			o.closed = append(o.closed, window)
			window.removed = true
		}
		heap.Pop(&o.queue)
	}
	return groups
}

func (o *openWindows) commit() {
	for _, window := range o.changed {
		window.changed = false
	}
	clear(o.changed)
	clear(o.closed)
	o.changed, o.closed = o.changed[:0], o.closed[:0]
}

// rollback opens the windows that were closed since the latest commit, and
// removes the groups from a number on.
func (o *openWindows) rollback(groups int) {
	for _, window := range o.closed {
		window.removed = false
		o.byStart[window.start] = window
		heap.Push(&o.queue, window)
	}
	for _, window := range o.changed {
		for n := len(window.groups); n > 0 && int(window.groups[n-1]) >= groups; n-- {
			window.groups = window.groups[:n-1]
		}
		if len(window.groups) == 0 {
			// The queue drops it when it gets there.
			window.removed = true
			delete(o.byStart, window.start)
		}
	}
	o.commit()
}

// windowQueue is a heap of windows by start.
type windowQueue []*openWindow

func (q windowQueue) Len() int           { return len(q) }
func (q windowQueue) Less(i, j int) bool { return q[i].start < q[j].start }
func (q windowQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push is for package heap.
func (q *windowQueue) Push(window any) { *q = append(*q, window.(*openWindow)) }

// Pop is for package heap.
func (q *windowQueue) Pop() any {
	last := len(*q) - 1
	window := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return window
}

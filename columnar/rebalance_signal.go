// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"sync"
	"time"
)

// rebalanceSignal tells a round that a rebalance waits for its end.
type rebalanceSignal struct {
	mu      sync.Mutex    // guards what follows
	waiting chan struct{} // closed while a rebalance waits
	since   time.Time     // when it began to; zero while none does
}

func newRebalanceSignal() *rebalanceSignal {
	return &rebalanceSignal{waiting: make(chan struct{})}
}

// raise says that a rebalance waits.
func (s *rebalanceSignal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = time.Now()
		close(s.waiting)
	}
}

// lower says that nothing waits any more, and returns for how long it has.
func (s *rebalanceSignal) lower() (waited time.Duration, raised bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return 0, false
	}
	waited = time.Since(s.since)
	s.waiting, s.since = make(chan struct{}), time.Time{}
	return waited, true
}

// channel returns a channel that is closed when a rebalance waits; nil for a nil
// signal.
func (s *rebalanceSignal) channel() <-chan struct{} {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

func (s *rebalanceSignal) raised() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.since.IsZero()
}

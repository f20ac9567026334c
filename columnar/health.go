// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// stuckRound is how long a round may run, beyond its wait for records, before it is
// no sign of health any more: the rebalance time-out of a member by default.
const stuckRound = time.Minute

// pulse is what a runner tells of itself while a round runs.
type pulse struct {
	mu      sync.Mutex // guards what follows
	running time.Time  // since when a round does; zero while none does
	rounds  int
	failure error     // of the latest round
	failing time.Time // since when rounds do
	lag     map[TopicPartition]int64
	lagAt   time.Time
}

// begin notes that a round begins, which waits for records until a moment.
func (p *pulse) begin(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = until
}

// end notes how a round has ended.
func (p *pulse) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running, p.failure = time.Time{}, err
	p.rounds++
	switch {
	case err == nil:
		p.failing = time.Time{}
	case p.failing.IsZero():
		p.failing = time.Now()
	}
}

// cutShort notes that the context of a round has ended before it could ask for
// records, which tells nothing new.
func (p *pulse) cutShort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = time.Time{}
}

// noteLag keeps the latest lag that is known.
func (p *pulse) noteLag(lag map[TopicPartition]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lag, p.lagAt = maps.Clone(lag), time.Now()
}

// check returns what is wrong, or nil.
func (p *pulse) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failure != nil:
		return textPrefix.Wrap(p.failure, "rounds have failed for %v", time.Since(p.failing).Round(time.Second))
	case !p.running.IsZero() && time.Since(p.running) > stuckRound:
		return fmt.Errorf("columnar: a round has run for %v", time.Since(p.running).Round(time.Second))
	case p.rounds == 0:
		return errNoRound
	}
	return nil
}

var errNoRound = errors.New("columnar: no round has ended yet")

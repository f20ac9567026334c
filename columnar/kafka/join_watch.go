// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinWatch is a hook of the client that knows whether a JoinGroup request is
// on its way. The answer brings the next generation: offsets that are sent to
// the coordinator with the generation of before are refused then.
type joinWatch struct {
	mu       sync.Mutex
	answered chan struct{} // closed once no request is on its way
	answers  int
}

func newJoinWatch() *joinWatch {
	w := &joinWatch{answered: make(chan struct{})}
	close(w.answered)
	return w
}

// OnBrokerWrite notes that a join begins.
func (w *joinWatch) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key != kmsg.JoinGroup.Int16() || err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.answered:
		w.answered = make(chan struct{})
	default:
	}
}

// OnBrokerRead notes that a join has an answer, or will have none.
func (w *joinWatch) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key != kmsg.JoinGroup.Int16() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers++
	select {
	case <-w.answered:
	default:
		close(w.answered)
	}
}

// count returns how many joins were answered so far.
func (w *joinWatch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answers
}

// wait returns once no join is on its way, and reports whether that came before
// the end of ctx.
func (w *joinWatch) wait(ctx context.Context) bool {
	w.mu.Lock()
	answered := w.answered
	w.mu.Unlock()
	select {
	case <-answered:
		return true
	default:
	}
	select {
	case <-answered:
		return true
	case <-ctx.Done():
		return false
	}
}

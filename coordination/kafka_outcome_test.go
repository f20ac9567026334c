// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// onAnswer runs a function once an answer of one kind has arrived.
type onAnswer struct {
	mu  sync.Mutex // guards the fields below
	key kmsg.Key
	run func()
}

var _ kgo.HookBrokerRead = (*onAnswer)(nil)

// after arranges the next run.
func (o *onAnswer) after(key kmsg.Key, run func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.key, o.run = key, run
}

func (o *onAnswer) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.run != nil && kmsg.Key(key) == o.key {
		o.run()
		o.run = nil
	}
}

// verdict is what a guarded write says about its records.
type verdict int

const (
	isWritten verdict = iota
	isGone            // they are not visible and will not be
	isFenced          // the same, and the leadership has ended
	isOpen
)

func (v verdict) String() string { return [...]string{"written", "gone", "fenced", "open"}[v] }

func verdictOf(err error) verdict {
	switch {
	case err == nil:
		return isWritten
	case errors.Is(err, coordination.ErrOutcomeUnknown):
		return isOpen
	case errors.Is(err, coordination.ErrFenced):
		return isFenced
	}
	return isGone
}

// trouble is what happens at one step of a guarded write.
type trouble struct {
	name string
	code *kerr.Error // of the answers
	does func(t *testing.T, x *guarded, key kmsg.Key, cancel context.CancelFunc)
	want [3]verdict // at each step
}

// troubles are all answers that a step may have, and none.
func troubles() []trouble {
	var all []trouble
	add := func(name string, want [3]verdict, code *kerr.Error, does func(*testing.T, *guarded, kmsg.Key, context.CancelFunc)) {
		if code != nil {
			name += " " + code.Message
		}
		all = append(all, trouble{name: name, code: code, does: does, want: want})
	}
	everywhere := func(v verdict) [3]verdict { return [3]verdict{v, v, v} }
	atTheEnd := func(before, v verdict) [3]verdict { return [3]verdict{before, before, v} }
	for _, code := range []*kerr.Error{kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.ProducerFenced} {
		add("a fence,", everywhere(isFenced), code, nil)
	}
	for _, code := range []*kerr.Error{kerr.InvalidTxnState, kerr.UnknownProducerID, kerr.OutOfOrderSequenceNumber, kerr.TransactionAbortable} {
		again, lost := atTheEnd(isWritten, isOpen), atTheEnd(isGone, isOpen)
		if code == kerr.TransactionAbortable {
			again, lost = everywhere(isWritten), everywhere(isGone)
		}
		add("the own epoch,", again, code, nil)
		add("nobody tells,", lost, code, func(t *testing.T, x *guarded, key kmsg.Key, cancel context.CancelFunc) {
			x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, Err: kerr.TransactionalIDAuthorizationFailed, Count: 1})
		})
		add("the epoch of another,", everywhere(isFenced), code, func(t *testing.T, x *guarded, key kmsg.Key, cancel context.CancelFunc) {
			other := x.stage.transport(t, standardConfig(t))
			x.network.interpose(key, pinnedVersion(key), func() { mintOnly(t, other, x.l.Role(), "") })
		})
	}
	for _, code := range []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		kerr.UnknownServerError, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend} {
		add("patience ends after", atTheEnd(isGone, isOpen), code, func(t *testing.T, x *guarded, key kmsg.Key, cancel context.CancelFunc) {
			stop := func() { cancel() }
			x.retried.Store(&stop)
		})
		add("another attempt after", everywhere(isWritten), code, nil)
	}
	for _, code := range []*kerr.Error{kerr.TransactionalIDAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.InvalidRequest, kerr.UnsupportedVersion, kerr.InvalidTransactionTimeout} {
		add("a refusal,", everywhere(isGone), code, nil)
	}
	for requests := range 2 {
		losses := func(cancels bool) func(*testing.T, *guarded, kmsg.Key, context.CancelFunc) {
			return func(_ *testing.T, x *guarded, key kmsg.Key, cancel context.CancelFunc) {
				x.network.lose(key, requests, 1-requests)
				if cancels {
					x.stop.key = key
					x.stop.arm(cancel)
				}
			}
		}
		name := []string{"an answer is lost", "a request is lost"}[requests]
		add(name+", and patience with it", atTheEnd(isGone, isOpen), nil, losses(true))
		add(name, everywhere(isWritten), nil, losses(false))
	}
	add("no connection", everywhere(isGone), nil, func(_ *testing.T, x *guarded, key kmsg.Key, cancel context.CancelFunc) {
		stop := func() {
			x.network.mend()
			cancel()
		}
		x.retried.Store(&stop)
		before := map[kmsg.Key]kmsg.Key{kmsg.AddPartitionsToTxn: kmsg.Metadata, kmsg.Produce: kmsg.AddPartitionsToTxn, kmsg.EndTxn: kmsg.Produce}
		x.answered.after(before[key], x.network.cut)
	})
	return all
}

// pinnedVersion returns the version in which a step is taken.
func pinnedVersion(key kmsg.Key) int16 {
	return map[kmsg.Key]int16{kmsg.AddPartitionsToTxn: 3, kmsg.Produce: pinnedProduce, kmsg.EndTxn: pinnedEnd}[key]
}

// A guarded write says that its outcome is unknown if it is, and not if it is
// known.
func TestGuardedWriteKnowsItsOutcome(t *testing.T) {
	for step, key := range leaseSteps {
		for _, trouble := range troubles() {
			want := trouble.want[step]
			t.Run(fmt.Sprintf("%s, %s", key.Name(), trouble.name), func(t *testing.T) {
				t.Parallel()
				x := newGuarded(t, 1)
				ctx, cancel := context.WithCancel(within(t, patience))
				defer cancel()
				if trouble.code != nil {
					x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: trouble.code, Count: 1, TopLevel: key == kmsg.EndTxn})
				}
				if trouble.does != nil {
					trouble.does(t, x, key, cancel)
				}
				err := x.guard.Write(ctx, x.record(0, "record"))
				if got := verdictOf(err); got != want {
					t.Fatalf("the records are %s, want %s: %v", got, want, err)
				}
				x.retried.Store(nil)
				x.network.calm()
				if want == isFenced {
					mintOnly(t, x.stage.transport(t, standardConfig(t)), x.l.Role(), "")
				} else {
					x.write(t, x.record(0, "next"))
				}
				visible := x.visible(t, x.commands, 0)
				if found := slices.Contains(visible, "record"); want != isOpen && found != (want == isWritten) {
					t.Errorf("the records are %s, and %q is visible", want, visible)
				}
			})
		}
	}
}

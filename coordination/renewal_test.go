// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// scripted is a transport whose lease writes take as long as told, one entry
// for each write after the first, and ignore their context.
type scripted struct {
	*fake
	takes []time.Duration
}

func (s *scripted) WriteLease(ctx context.Context, at coordination.TopicPartition, token coordination.FencingToken, key, value []byte) error {
	if n := s.count("write"); n > 0 && n <= len(s.takes) {
		err := s.fake.WriteLease(context.WithoutCancel(ctx), at, token, key, value)
		<-time.After(s.takes[n-1])
		return err
	}
	return s.fake.WriteLease(ctx, at, token, key, value)
}

// The caller's renewal holds the turn past the deadline of the lease before
// it, and succeeds. The renewal of the handle that waited for the turn does
// not end the leadership for the old deadline.
func TestExpiryFollowsTheRenewalOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &scripted{fake: newFake(), takes: []time.Duration{22 * time.Second, 10 * time.Second}}
		l, err := coordination.AcquireLeadership(t.Context(), transport, role(t, "controller"), member(t, "node-1"),
			coordination.WithRenewInterval(29*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		// The lease ends at 30 s. The caller renews at 7.5 s, which is
		// acknowledged at 29.5 s and good until 37.5 s; the handle renews at
		// 29 s, gets the turn at 29.5 s and the answer at 39.5 s.
		<-time.After(7500 * time.Millisecond)
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(7 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("ended at 36.5s: %v", err)
		}
		<-l.Done()
		if got := l.Lease().Deadline - time.Now().UnixMilli(); got != 0 || !errors.Is(l.Err(), coordination.ErrLeaseExpired) {
			t.Errorf("ended %d ms before the deadline of the caller's lease: %v", got, l.Err())
		}
		<-time.After(time.Minute) // for the write that hangs
	})
}

// The clock jumps while a renewal hangs, so that the lease that the caller
// renewed is over as well when the first one is.
func TestHungRenewalEndsWithTheReplacedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newSkewedClock(0)
		transport := &scripted{fake: newFake(), takes: []time.Duration{22 * time.Second, time.Hour}}
		began := time.Now()
		l, err := coordination.AcquireLeadership(t.Context(), transport, role(t, "controller"), member(t, "node-1"),
			coordination.WithRenewInterval(29*time.Second), coordination.WithClock(clock))
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(7500 * time.Millisecond)
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.step(10 * time.Second)
		<-l.Done()
		if took := time.Since(began); took != 30*time.Second || !errors.Is(l.Err(), coordination.ErrLeaseExpired) {
			t.Errorf("ended after %v: %v, want 30s", took, l.Err())
		}
		<-time.After(2 * time.Hour) // for the write that hangs
	})
}

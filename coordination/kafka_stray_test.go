// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// The tests of this file are about requests to end a transaction that arrive
// after the request that repeats them.

const pinnedProduce = 11

// strayed is a guard of which a request to commit is on its way, while its
// transaction was committed by another one.
type strayed struct {
	*guarded
	deliver func() // the late request, once
}

func newStrayed(t *testing.T, s *stage, partitions int) *strayed {
	t.Helper()
	x := newGuardedOn(t, s, partitions)
	return x.stray(t, func() { x.write(t, x.record(0, "first")) })
}

// stray holds the commit of a write back, which takes another one then.
func (x *guarded) stray(t *testing.T, write func()) *strayed {
	t.Helper()
	deliver := x.network.hold(kmsg.EndTxn)
	write()
	return &strayed{guarded: x, deliver: sync.OnceFunc(func() {
		if err := deliver(); err != nil {
			t.Errorf("the late request: %v", err)
		}
	})}
}

// deliverSoon lets the late request arrive after the next batch, or half a
// second from now, whichever is earlier.
func (x *strayed) deliverSoon() {
	x.network.interpose(kmsg.Produce, pinnedProduce, x.deliver)
	time.AfterFunc(500*time.Millisecond, x.deliver)
}

func TestLateCommitDoesNotTearTheNextGuardedWriteApart(t *testing.T) {
	for _, tt := range []struct {
		name    string
		brokers []int // their ports
		places  []int // of the records
		want    [][]string
	}{
		{"partitions of one broker", []int{1}, []int{0, 1}, [][]string{{"first", "0"}, {"1"}}},
		{"partitions of two brokers", []int{1, 2}, []int{0, 1}, [][]string{{"first", "0"}, {"1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := virtualStage(t, kfake.NumBrokers(len(tt.brokers)), kfake.Ports(tt.brokers...))
				g := newGuardedOn(t, s, len(tt.want))
				for partition := range tt.want {
					if err := s.fake.MoveTopicPartition(g.commands, int32(partition), int32(partition%len(tt.brokers))); err != nil {
						t.Fatal(err)
					}
				}
				x := g.stray(t, func() { g.write(t, g.record(0, "first")) })
				x.checkNext(t, tt.places, tt.want)
				x.stage.stop(x.transport)
			})
		})
	}
}

// checkNext writes records of several batches while the late request is on its
// way, and checks what is visible then.
func (x *strayed) checkNext(t *testing.T, places []int, want [][]string) {
	t.Helper()
	x.deliverSoon()
	var records []coordination.GuardedRecord
	for n, place := range places {
		records = append(records, x.record(place, string(rune('0'+n))))
	}
	x.write(t, records...)
	x.deliver()
	for partition, want := range want {
		if diff := cmp.Diff(want, x.visible(t, x.commands, int32(partition))); diff != "" {
			t.Errorf("visible in partition %d (-want +got):\n%s", partition, diff)
		}
	}
	if got := x.describe(t, x.l.Role()); got != x.l.MintedToken() {
		t.Errorf("the coordinator holds %s, want %s", got, x.l.MintedToken())
	}
}

// Only a request that may still be on its way is waited for, and only by writes
// that it would tear apart.
func TestGuardedWriteWaitsOnlyForACommitThatMayArrive(t *testing.T) {
	for _, tt := range []struct {
		name             string
		requests, answer int // lost
		records          int
		waits            bool
	}{
		{"nothing was lost", 0, 0, 2, false},
		{"the answer was lost", 0, 1, 2, false},
		{"the request was lost", 1, 0, 2, true},
		{"the request was lost, one partition", 1, 0, 1, false},
		{"a request and an answer were lost", 1, 1, 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newGuardedOn(t, virtualStage(t), 2)
				x.network.lose(kmsg.EndTxn, tt.requests, tt.answer)
				x.write(t, x.record(0, "first"))
				want, records := []string{"first", "next"}, []coordination.GuardedRecord(nil)
				for place := range tt.records {
					records = append(records, x.record(place, "next"))
				}
				began := time.Now()
				x.write(t, records...)
				if took := time.Since(began); (took >= time.Second) != tt.waits || took > 3*time.Second {
					t.Errorf("the next write took %v, want a wait %v", took, tt.waits)
				}
				if diff := cmp.Diff(want, x.visible(t, x.commands, 0)); diff != "" {
					t.Errorf("visible (-want +got):\n%s", diff)
				}
				x.stage.stop(x.transport)
			})
		})
	}
}

// The longer a request has been on its way, the longer it may still be, but the
// lease comes first.
func TestWaitForALateCommitLeavesTheLeaseAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newGuardedOn(t, virtualStage(t), 2)
		const outage, bound = 6 * time.Second, 3 * time.Second
		x.network.hold(kmsg.EndTxn)
		cut := func() {
			x.retried.Store(nil)
			x.network.cut()
			time.AfterFunc(outage, x.network.mend)
		}
		x.retried.Store(&cut)
		x.write(t, x.record(0, "first"))
		records := []coordination.GuardedRecord{x.record(0, "0"), x.record(1, "1")}
		began := time.Now()
		err := x.guard.Write(within(t, bound), records...)
		var failed *coordination.KafkaError
		if !errors.As(err, &failed) || !failed.Retriable() || errors.Is(err, coordination.ErrOutcomeUnknown) {
			t.Errorf("the first write: %v, want a retriable KafkaError and no doubt", err)
		}
		if took := time.Since(began); took != bound {
			t.Errorf("it held the leadership for %v, want until its context ended", took)
		}
		x.write(t, records...)
		if took := time.Since(began); took < outage || took > outage+3*time.Second {
			t.Errorf("the second write ended %v after the late request, want %v and a little more", took, outage)
		}
		for partition, want := range [][]string{{"first", "0"}, {"1"}} {
			if diff := cmp.Diff(want, x.visible(t, x.commands, int32(partition))); diff != "" {
				t.Errorf("visible in partition %d (-want +got):\n%s", partition, diff)
			}
		}
		if err := x.l.Err(); err != nil {
			t.Errorf("the leadership ended: %v", err)
		}
		x.stage.stop(x.transport)
	})
}

func TestGuardedWriteThatALateCommitMayHaveEndedIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newStrayed(t, virtualStage(t), 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		x.network.interpose(kmsg.Produce, pinnedProduce, func() {
			x.deliver()
			cancel()
		})
		err := x.guard.Write(ctx, x.record(0, "second"))
		if !errors.Is(err, coordination.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("write: %v, want ErrOutcomeUnknown and the error of the context", err)
		}
		if diff := cmp.Diff([]string{"first", "second"}, x.visible(t, x.commands, 0)); diff != "" {
			t.Errorf("visible (-want +got):\n%s", diff)
		}
		x.stage.stop(x.transport)
	})
}

// A record that must not become visible takes its place in the log in a
// transaction that aborts. That one must not be committed by a late request.
func TestLateCommitDoesNotShowARecordThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newGuardedOn(t, virtualStage(t), 1)
		x.network.lose(kmsg.Produce, 1, 0)
		if err := x.interrupted(t, kmsg.Produce, "never"); !errors.Is(err, context.Canceled) || errors.Is(err, coordination.ErrOutcomeUnknown) {
			t.Fatalf("write: %v, want the error of the context and no doubt", err)
		}
		time.Sleep(time.Second) // the transport aborts meanwhile
		x.stray(t, func() {
			if err := x.l.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}).deliverSoon()
		x.write(t, x.record(0, "next"))
		if diff := cmp.Diff([]string{"next"}, x.visible(t, x.commands, 0)); diff != "" {
			t.Errorf("visible (-want +got):\n%s", diff)
		}
		x.stage.stop(x.transport)
	})
}

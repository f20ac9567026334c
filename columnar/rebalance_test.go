// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestErrorsOfCallbacksReachTheNextRound(t *testing.T) {
	cause := errors.New("disk is full")
	t.Run("load", func(t *testing.T) {
		store := &recordingStore{loadErr: cause}
		consumer := &scriptedConsumer{}
		consumer.add(fetch{in(3): stretch(3, 0, 2)})
		r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithStateStore(store))
		r.OnPartitionsAssigned([]TopicPartition{in(3)})
		for range 2 {
			if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, cause) {
				t.Errorf("RunOnce = %v; want %v", err, cause)
			}
		}
		if consumer.polls != 0 {
			t.Errorf("%d polls with a partition that has no state; want none", consumer.polls)
		}
		store.loadErr = nil
		store.states = map[[2]int64]map[string][]byte{{3, NoEpoch}: counted(40)}
		runOnce(t, r)
		if diff := cmp.Diff(counted(42), counts(t, r, 3)); diff != "" {
			t.Errorf("state mismatch (-want +got):\n%s", diff)
		}
	})
	t.Run("save", func(t *testing.T) {
		store := &recordingStore{saveErr: cause, failures: -1}
		r := newTestRunner(t, countingTopology(t), &scriptedConsumer{}, &recordingProducer{}, WithStateStore(store))
		r.OnPartitionsAssigned([]TopicPartition{in(3)})
		r.OnPartitionsRevoked([]TopicPartition{in(3)})
		if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, cause) {
			t.Errorf("RunOnce = %v; want %v", err, cause)
		}
		runOnce(t, r)
		r.OnPartitionsAssigned([]TopicPartition{in(4)})
		r.OnPartitionsRevoked([]TopicPartition{in(4)})
		if err := r.Close(); !errors.Is(err, cause) {
			t.Errorf("Close = %v; want %v", err, cause)
		}
	})
}

func TestPartitionThatLeavesWithoutItsStateIsNotSaved(t *testing.T) {
	store := &recordingStore{loadErr: errors.New("disk is full")}
	r := newTestRunner(t, countingTopology(t), &scriptedConsumer{}, &recordingProducer{}, WithStateStore(store))
	r.OnPartitionsAssigned([]TopicPartition{in(3)})
	r.OnPartitionsRevoked([]TopicPartition{in(3)})
	if len(store.saved) != 0 {
		t.Errorf("saves %v of state that was never loaded", store.saved)
	}
}

func TestRecordsOfPartitionsRevokedInThePollAreDropped(t *testing.T) {
	consumer := &scriptedConsumer{}
	consumer.add(fetch{in(0): stretch(0, 0, 2), in(1): stretch(1, 0, 2)})
	r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{})
	r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
	consumer.onPoll = func(context.Context) error {
		r.OnPartitionsRevoked([]TopicPartition{in(1)})
		return nil
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if r.Topology().HasPartition(1) {
		t.Error("records of a revoked partition were processed")
	}
}

func TestPartitionAssignedInThePollIsHeldAtThePendingCut(t *testing.T) {
	store := &recordingStore{states: map[[2]int64]map[string][]byte{{1, NoEpoch}: counted(10)}}
	consumer := &scriptedConsumer{}
	consumer.add(fetch{in(0): stretch(0, 0, 4), in(1): stretch(1, 10, 14)})
	r, fired := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{5: {in(0): 2, in(1): 12}})
	consumer.onPoll = func(context.Context) error {
		consumer.onPoll = nil
		r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
		return nil
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2, in(1): 12}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(counted(12), store.states[[2]int64{1, 5}]); diff != "" || len(*fired) != 1 {
		t.Errorf("barriers %v, snapshot mismatch (-want +got):\n%s", fired.epochs(), diff)
	}
}

// Whoever takes a partition away from outside the poll may have given it to another
// member by now: the round that processes it commits nothing of it.
func TestPartitionThatLeavesDuringItsRoundIsNotCommitted(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(map[bool]string{false: "revoked", true: "lost"}[lost], func(t *testing.T) {
			store := &recordingStore{}
			consumer := &scriptedConsumer{}
			consumer.add(fetch{in(0): stretch(0, 0, 2), in(1): stretch(1, 0, 3)})
			var r *GroupRunner
			producer := producerFunc(func(_ string, _ ProduceRecord, done func(error)) {
				if r.Topology().HasPartition(1) && len(consumer.commits) == 0 {
					called := make(chan struct{})
					go func() {
						defer close(called)
						if lost {
							r.OnPartitionsLost([]TopicPartition{in(1)})
						} else {
							r.OnPartitionsRevoked([]TopicPartition{in(1)})
						}
					}()
					<-called
				}
				done(nil)
			})
			r = newTestRunner(t, countingTopology(t), consumer, producer, WithStateStore(store))
			r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
			offsets, err := r.RunOnce(t.Context(), 0)
			if r.Topology().HasPartition(1) {
				t.Error("the partition is still there")
			}
			var rebalanced *RebalancedError
			if !errors.As(err, &rebalanced) || !IsRetriable(err) || len(consumer.commits) != 0 {
				t.Errorf("RunOnce = %v, %v with commits %v; want a *RebalancedError and none", offsets, err, consumer.commits)
			}
			for key, state := range store.states {
				if len(state) != 0 {
					t.Errorf("state %v of %v is saved, of records that are not committed", state, key)
				}
			}
			consumer.add(fetch{in(0): stretch(0, 0, 2)})
			if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, runOnce(t, r)); diff != "" {
				t.Errorf("offsets of the next round mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordsThatArriveWhileStateLoadsAreNotLost(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 2})
	store := NewFileStateStore(t.TempDir())
	first := c.member("first")
	a := newTestRunner(t, ledgerTopology(t), first, first, WithStateStore(store))
	var want []string
	for i := range 1000 {
		for partition := range 2 {
			for user := range 2 {
				c.fill(in(partition), fmt.Sprintf("u%d%d 1", partition, user))
			}
		}
		if i%100 == 0 {
			runOnce(t, a)
		}
	}
	second := c.member("second")
	slow := &slowStore{FileStateStore: store, during: func() {
		for partition := range 2 {
			c.fill(in(partition), "late 1")
		}
		// The other member leaves while this one loads.
		c.expire(first)
	}}
	b := newTestRunner(t, ledgerTopology(t), second, second, WithStateStore(slow))
	for range 3 {
		if slow.calls == 0 {
			if _, err := a.RunOnce(t.Context(), 0); err != nil && !IsRetriable(err) {
				t.Fatal(err)
			}
		}
		if _, err := b.RunOnce(t.Context(), 0); err != nil && !IsRetriable(err) {
			t.Fatal(err)
		}
	}
	untilDrained(t, b, c, "in")
	for partition := range 2 {
		want = append(want, fmt.Sprintf("late=%d u%d0=1000 u%d1=1000", slow.calls, partition, partition))
	}
	got := []string{ledgerState(t, b, 0), ledgerState(t, b, 1)}
	if diff := cmp.Diff(want, got); diff != "" || slow.calls == 0 {
		t.Errorf("after %d slow loads, states mismatch (-want +got):\n%s", slow.calls, diff)
	}
}

// slowStore is a store whose loads take long enough for something to happen.
type slowStore struct {
	*FileStateStore
	mu     sync.Mutex
	calls  int
	during func()
}

func (s *slowStore) LoadSnapshot(ctx context.Context, info SnapshotInfo) (map[string][]byte, error) {
	s.mu.Lock()
	s.calls++
	s.during()
	s.mu.Unlock()
	return s.FileStateStore.LoadSnapshot(ctx, info)
}

func TestTopicsThatShareStateNeedEqualPartitionCounts(t *testing.T) {
	c := clusterOf(t, map[string]int{"a": 4, "b": 8})
	m := c.member("member")
	c.fill(TopicPartition{"a", 0}, ones(1)...)
	var counts *PartitionCountError
	err := newTestRunner(t, chainTopology(t), m, m).Run(t.Context())
	if !errors.As(err, &counts) || err.Error() != "columnar: topics that are processed together have different partition counts: a 4, b 8" {
		t.Errorf("Run = %v; want a *PartitionCountError", err)
	}
	if len(c.committed) != 0 {
		t.Errorf("committed %v; want nothing", c.committed)
	}
}

func TestPartitionOwnedInPartIsRefused(t *testing.T) {
	consumer := &scriptedConsumer{}
	r := newTestRunner(t, chainTopology(t), consumer, &recordingProducer{})
	a, b := TopicPartition{"a", 2}, TopicPartition{"b", 2}
	r.OnPartitionsAssigned([]TopicPartition{a})
	consumer.add(fetch{a: rows(2, 0, "x 1")})
	_, err := r.RunOnce(t.Context(), 0)
	var partial *PartialOwnershipError
	if !errors.As(err, &partial) {
		t.Fatalf("RunOnce = %v; want a *PartialOwnershipError", err)
	}
	if diff := cmp.Diff(&PartialOwnershipError{Partition: 2, Owned: []TopicPartition{a}, Missing: []TopicPartition{b}}, partial); diff != "" {
		t.Errorf("error mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{a: 0}, consumer.sought); diff != "" {
		t.Errorf("seeks mismatch (-want +got):\n%s", diff)
	}
	r.OnPartitionsAssigned([]TopicPartition{b})
	consumer.add(fetch{a: rows(2, 0, "x 1")})
	if diff := cmp.Diff(map[TopicPartition]int64{a: 1}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	// Without state, topics need not come together.
	stateless := newTestRunner(t, through(t, "all", func() Processor { return ProcessorFunc(forwardAll) }, "a", "b"), consumer, &recordingProducer{})
	stateless.OnPartitionsAssigned([]TopicPartition{a})
	consumer.add(fetch{a: rows(2, 0, "x 1")})
	if diff := cmp.Diff(map[TopicPartition]int64{a: 1}, runOnce(t, stateless)); diff != "" {
		t.Errorf("offsets without state mismatch (-want +got):\n%s", diff)
	}
}

func TestPartitionsThatAreAddedStopARunnerWithState(t *testing.T) {
	for _, safe := range []bool{false, true} {
		c := clusterOf(t, map[string]int{"in": 2})
		m := c.member("member")
		var options []GroupRunnerOption
		if safe {
			options = append(options, WithPartitionGrowth())
		}
		r := newTestRunner(t, ledgerTopology(t), m, m, options...)
		runOnce(t, r)
		c.mu.Lock()
		c.logs[in(2)] = &fakeLog{}
		c.mu.Unlock()
		_, err := r.RunOnce(t.Context(), 0)
		var counts *PartitionCountError
		if errors.As(err, &counts) == safe {
			t.Errorf("growth declared safe %v: RunOnce = %v", safe, err)
		}
		if safe {
			continue
		}
		if want := "partition counts changed from in 2 to in 3"; !strings.Contains(err.Error(), want) {
			t.Errorf("error %q; want %q", err, want)
		}
		if _, again := r.RunOnce(t.Context(), 0); !errors.As(again, &counts) {
			t.Errorf("the next round = %v; want the same error", again)
		}
	}
}

// countsOf is a member that tells other partition counts than the cluster, or none.
type countsOf struct {
	*fakeMember
	answer func() (map[string]int, error)
}

func (c countsOf) PartitionCounts(context.Context, []string) (map[string]int, error) {
	return c.answer()
}

// Nothing of a partition that was added is processed while nobody can tell the
// counts, or while they are told from before.
func TestPartitionsThatAreAddedStopARunnerThatCannotCount(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 2})
	m := c.member("member")
	counts, failure := map[string]int{"in": 2}, error(nil)
	r := newTestRunner(t, ledgerTopology(t), countsOf{m, func() (map[string]int, error) { return counts, failure }}, m)
	c.fill(in(0), ones(2)...)
	runOnce(t, r)
	c.mu.Lock()
	c.logs[in(2)] = &fakeLog{}
	c.mu.Unlock()
	c.fill(in(2), ones(3)...)
	failure = passingError{errors.New("no leader")}
	for range 2 {
		if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, failure) || !IsRetriable(err) {
			t.Fatalf("RunOnce = %v; want %v", err, failure)
		}
	}
	failure = nil
	for range 2 {
		_, err := r.RunOnce(t.Context(), 0)
		var changed *PartitionCountError
		if !errors.As(err, &changed) || IsRetriable(err) {
			t.Fatalf("RunOnce = %v; want a lasting *PartitionCountError", err)
		}
		want := &PartitionCountError{Counts: map[string]int{"in": 3}, Before: map[string]int{"in": 2}}
		if diff := cmp.Diff(want, changed); diff != "" {
			t.Errorf("error mismatch (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, c.committed); diff != "" {
		t.Errorf("committed offsets mismatch (-want +got):\n%s", diff)
	}
}

// A topic that is new to a node with state has moved no keys.
func TestSourceTopicsMayComeAndGo(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 1, "more": 1})
	c.fill(in(0), ones(3)...)
	c.fill(TopicPartition{"more", 0}, ones(2)...)
	directory := t.TempDir()
	var got []string
	for i, topics := range [][]string{{"in"}, {"in", "more"}, {"in"}} {
		m := c.member(fmt.Sprint("member ", i))
		r := newTestRunner(t, through(t, "ledger", newLedger, topics...), m, m, WithStateStore(NewFileStateStore(directory)))
		c.fill(in(0), "ada 10")
		untilDrained(t, r, c, topics...)
		got = append(got, ledgerState(t, r, 0))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		c.expire(m)
	}
	if diff := cmp.Diff([]string{"ada=13", "ada=25", "ada=35"}, got); diff != "" {
		t.Errorf("states mismatch (-want +got):\n%s", diff)
	}
}

func TestStatsAndHooksCountRebalances(t *testing.T) {
	var seen []string
	hook := func(info RebalanceInfo) {
		seen = append(seen, fmt.Sprint(len(info.Assigned), len(info.Revoked), len(info.Lost)))
	}
	r := newTestRunner(t, countingTopology(t), &scriptedConsumer{}, &recordingProducer{}, WithHooks(Hooks{Rebalance: hook}.Join(Hooks{Rebalance: hook})))
	r.OnPartitionsAssigned([]TopicPartition{in(0), in(1), in(2)})
	r.OnPartitionsRevoked([]TopicPartition{in(0)})
	r.OnPartitionsLost([]TopicPartition{in(1), in(2)})
	stats := r.Stats()
	if got := [3]int64{stats.PartitionsAssigned, stats.PartitionsRevoked, stats.PartitionsLost}; got != [3]int64{3, 1, 2} {
		t.Errorf("assigned, revoked, lost = %v; want 3 1 2", got)
	}
	if diff := cmp.Diff([]string{"3 0 0", "3 0 0", "0 1 0", "0 1 0", "0 0 2", "0 0 2"}, seen); diff != "" {
		t.Errorf("hook calls mismatch (-want +got):\n%s", diff)
	}
}

// TestCallbacksFromAnotherGoroutineAreSafe runs rounds beside callbacks, reads
// and lag queries; the race detector watches.
func TestCallbacksFromAnotherGoroutineAreSafe(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 4})
	c.fill(in(0), ones(200)...)
	m := c.member("member")
	r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(NewFileStateStore(t.TempDir())))
	runOnce(t, r)
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			extra := TopicPartition{"elsewhere", 9}
			r.OnPartitionsAssigned([]TopicPartition{extra})
			r.OnPartitionsRevoked([]TopicPartition{extra})
			_ = r.Stats()
			_ = r.Metrics().Snapshot()
			if i%10 == 0 {
				if _, err := r.Lag(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 100 {
		if _, err := r.RunOnce(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}
	close(done)
	group.Wait()
}

func TestLagIsMeasuredToTheStableEnd(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 2})
	c.fill(in(0), ones(10)...)
	m := c.member("member")
	r := newTestRunner(t, ledgerTopology(t), m, m)
	untilDrained(t, r, c, "in")
	runOnce(t, r)
	c.fill(in(0), ones(3)...)
	c.mu.Lock()
	c.append(in(0), fakeEntry{transaction: &fakeTransaction{}})
	c.mu.Unlock()
	c.fill(in(0), ones(5)...)
	lag, err := r.Lag(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 3, in(1): 0}, lag); diff != "" {
		t.Errorf("lag mismatch (-want +got):\n%s", diff)
	}
	plain := newTestRunner(t, countingTopology(t), &scriptedConsumer{}, &recordingProducer{})
	if _, err := plain.Lag(t.Context()); err == nil || err.Error() != "columnar: the consumer cannot tell end offsets" {
		t.Errorf("Lag without end offsets = %v", err)
	}
}

func TestIdlePartitionsCommitBehindControlRecords(t *testing.T) {
	for _, transactional := range []bool{false, true} {
		c := clusterOf(t, map[string]int{"in": 1})
		c.fill(in(0), ones(4)...)
		c.mu.Lock()
		c.append(in(0), fakeEntry{control: true})
		c.mu.Unlock()
		m := c.member("member")
		r := newTestRunner(t, ledgerTopology(t), m, m)
		for range 5 {
			var err error
			if transactional {
				_, err = r.RunOnceTransactional(t.Context(), 0)
			} else {
				_, err = r.RunOnce(t.Context(), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := c.committed[in(0)]; got != 5 {
			t.Errorf("transactional %v: committed offset %d; want 5, behind the control record", transactional, got)
		}
		lag, err := r.Lag(t.Context())
		if diff := cmp.Diff(map[TopicPartition]int64{in(0): 0}, lag); diff != "" || err != nil {
			t.Errorf("transactional %v: error %v, lag mismatch (-want +got):\n%s", transactional, err, diff)
		}
	}
}

func TestPlainStoreFollowsPartitionsBetweenMembers(t *testing.T) {
	store := &recordingStore{}
	c := clusterOf(t, map[string]int{"in": 1})
	c.fill(in(0), ones(7)...)
	first := c.member("first")
	a := newTestRunner(t, ledgerTopology(t), first, first, WithStateStore(store))
	untilDrained(t, a, c, "in")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	c.expire(first)
	c.fill(in(0), ones(3)...)
	second := c.member("second")
	b := newTestRunner(t, ledgerTopology(t), second, second, WithStateStore(store))
	untilDrained(t, b, c, "in")
	if got := ledgerState(t, b, 0); got != "ada=10" {
		t.Errorf("state %q; want ada=10", got)
	}
	if keys := slices.Collect(maps.Keys(store.states)); len(keys) != 1 || keys[0] != [2]int64{0, NoEpoch} {
		t.Errorf("stored %v; want the state outside barriers", keys)
	}
}

func TestIntervalSnapshotsBoundTheReplay(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 2})
	store := NewFileStateStore(t.TempDir())
	var saved []SnapshotInfo
	m := c.member("member")
	r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store), WithSnapshotInterval(0),
		WithHooks(Hooks{Snapshot: func(info SnapshotInfo, took time.Duration, err error) {
			if err != nil || took <= 0 {
				t.Errorf("snapshot %+v took %v: %v", info, took, err)
			}
			saved = append(saved, info)
		}}))
	for range 5 {
		c.fill(in(0), ones(10)...)
		c.fill(in(1), ones(10)...)
		untilDrained(t, r, c, "in")
		runOnce(t, r)
		runOnce(t, r)
	}
	last := map[int]int64{}
	for _, info := range saved {
		last[info.Partition] = info.Positions[in(info.Partition)]
	}
	if diff := cmp.Diff(map[int]int64{0: 50, 1: 50}, last); diff != "" {
		t.Errorf("positions of the last snapshots mismatch (-want +got):\n%s", diff)
	}
	if stats := r.Stats(); stats.Snapshots != int64(len(saved)) || stats.SnapshotBytes == 0 || stats.SnapshotTime <= 0 || stats.SnapshotFailures != 0 {
		t.Errorf("stats %+v after %d snapshots", stats, len(saved))
	}
}

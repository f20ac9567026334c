// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// savingBeside makes a test runner write state beside its rounds, as a user's does.
func savingBeside(r *GroupRunner) { r.settings.beside = beside }

// waitingStore is a store whose saves wait until they are let through.
type waitingStore struct {
	*FileStateStore
	begun, let chan int64 // epochs
}

func (s *waitingStore) SaveSnapshot(ctx context.Context, info SnapshotInfo, state map[string][]byte) (SnapshotInfo, error) {
	if info.Epoch != NoEpoch {
		s.begun <- info.Epoch
		<-s.let
	}
	return s.FileStateStore.SaveSnapshot(ctx, info, state)
}

// A store that is slower than the cuts makes epochs late: rounds commit meanwhile, and
// of the states that wait the newest is kept.
func TestSlowStoreMakesEpochsLateAndNoRounds(t *testing.T) {
	store := &waitingStore{NewFileStateStore(t.TempDir()), make(chan int64, 8), make(chan int64)}
	consumer := &scriptedConsumer{}
	var skipped []string
	r, fired := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{1: {in(0): 2}, 2: {in(0): 4}, 3: {in(0): 6}},
		savingBeside, WithHooks(Hooks{CutSkipped: func(cut BarrierCut, reason error) {
			skipped = append(skipped, fmt.Sprint(cut.Epoch, " ", errors.Is(reason, errSuperseded)))
		}}))
	r.OnPartitionsAssigned([]TopicPartition{in(0)})
	consumer.add(fetch{in(0): stretch(0, 0, 10)})
	var committed []int64
	for range 4 {
		committed = append(committed, runOnce(t, r)[in(0)])
	}
	if diff := cmp.Diff([]int64{2, 4, 6, 10}, committed); diff != "" || len(*fired) != 0 || r.Stats().LastEpoch != NoEpoch {
		t.Errorf("barriers %v before a save has ended, commits mismatch (-want +got):\n%s", fired.epochs(), diff)
	}
	for _, epoch := range []int64{1, 3} {
		if got := <-store.begun; got != epoch {
			t.Errorf("save of epoch %d; want %d", got, epoch)
		}
		store.let <- epoch
		for r.Stats().LastEpoch != epoch {
			runOnce(t, r)
		}
	}
	if diff := cmp.Diff([]string{"1 [0] in/0:2", "3 [0] in/0:6"}, fired.epochs()); diff != "" {
		t.Errorf("barriers mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"2 true"}, skipped); diff != "" {
		t.Errorf("skipped cuts mismatch (-want +got):\n%s", diff)
	}
	for epoch, want := range map[int64]uint64{1: 2, 3: 6} {
		if diff := cmp.Diff(counted(want), must[map[string][]byte](t)(store.Load(0, epoch))); diff != "" {
			t.Errorf("state at epoch %d mismatch (-want +got):\n%s", epoch, diff)
		}
	}
}

// timedStore is a store whose saves between barriers take a while, and may fail.
type timedStore struct {
	*FileStateStore
	takes time.Duration
	err   error
	saves int
}

func (s *timedStore) SaveSnapshot(ctx context.Context, info SnapshotInfo, state map[string][]byte) (SnapshotInfo, error) {
	if !info.Confirmed {
		return s.FileStateStore.SaveSnapshot(ctx, info, state)
	}
	s.saves++
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return SnapshotInfo{}, ctx.Err()
	}
	if s.err != nil {
		return SnapshotInfo{}, s.err
	}
	return s.FileStateStore.SaveSnapshot(ctx, info, state)
}

// Saves that take longer than the interval stop no round, and follow each other at
// the interval; saves that fail follow each other ever more slowly, and a save that
// takes too long ends.
func TestSnapshotIntervalCountsFromTheEndOfASave(t *testing.T) {
	for _, test := range []struct {
		name            string
		takes           time.Duration
		err             error
		saves, failures int64
	}{
		{"slow", 40 * time.Second, nil, 51, 0},
		{"failing", 0, errors.New("disk is full"), 6, 6},
		{"hanging", time.Hour, nil, 5, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &timedStore{FileStateStore: NewFileStateStore(t.TempDir()), takes: test.takes, err: test.err}
				consumer := &scriptedConsumer{}
				r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithStateStore(store), savingBeside, WithSnapshotTimeout(10*time.Minute))
				r.OnPartitionsAssigned([]TopicPartition{in(0)})
				for second := range int64(3600) {
					consumer.add(fetch{in(0): stretch(0, second, second+1)})
					began := time.Now()
					runOnce(t, r)
					if took := time.Since(began); took != 0 {
						t.Fatalf("the round of second %d took %v", second, took)
					}
					wait(time.Second)
					synctest.Wait()
				}
				if int64(store.saves) != test.saves || r.Stats().SnapshotFailures != test.failures {
					t.Errorf("%d saves, %d failures; want %d, %d", store.saves, r.Stats().SnapshotFailures, test.saves, test.failures)
				}
				store.takes, store.err = 0, nil
			})
		})
	}
}

// The state at a cut can be recovered from where a journal tells the order of the
// records, also right behind the round of the barrier.
func TestInterleavedStateRecoversFromTheStateAtACut(t *testing.T) {
	for _, saving := range []GroupRunnerOption{savingAtOnce, savingBeside} {
		c := clusterOf(t, map[string]int{"a": 1, "b": 1})
		store := NewFileStateStore(t.TempDir())
		a, b := TopicPartition{"a", 0}, TopicPartition{"b", 0}
		var recovered []RecoveryInfo
		run := func(id string) (*GroupRunner, *fakeMember) {
			m := c.member(id)
			return newTestRunner(t, chainTopology(t), m, m, saving, WithStateStore(store), WithBarrierGroup("audit", newReader(t, c.member("cuts of "+id), 1)),
				WithHooks(Hooks{Recovery: func(info RecoveryInfo) { recovered = append(recovered, info) }})), m
		}
		r, m := run("first")
		fill := func(names ...string) {
			for _, name := range names {
				c.fill(a, "a"+name+" 0")
				c.fill(b, "b"+name+" 0")
			}
		}
		fill("1", "2", "3")
		untilDrained(t, r, c, "a", "b")
		fill("4", "5")
		c.cut("audit", 1, "a", "b")
		for r.Stats().Barriers == 0 {
			runOnce(t, r)
		}
		fill("6", "7")
		untilDrained(t, r, c, "a", "b")
		want := must[map[string][]byte](t)(r.Topology().SnapshotPartition(0))
		c.expire(m)
		recovered = nil
		s, _ := run("second")
		for len(recovered) == 0 {
			runOnce(t, s)
		}
		if diff := cmp.Diff(want, must[map[string][]byte](t)(s.Topology().SnapshotPartition(0))); diff != "" {
			t.Errorf("state mismatch (-want +got):\n%s", diff)
		}
		if recovered[0].Snapshot == nil || recovered[0].Snapshot.Epoch != 1 {
			t.Errorf("recovered from %+v; want the state of epoch 1", recovered[0].Snapshot)
		}
	}
}

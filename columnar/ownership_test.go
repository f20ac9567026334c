// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

// publish writes the manifest of a cut at offsets that have no markers.
func (c *fakeCluster) publish(tb testing.TB, epoch int64, offsets map[TopicPartition]int64) {
	tb.Helper()
	key, value, err := EncodeBarrierCut(BarrierCut{Group: "audit", Epoch: epoch, Offsets: offsets})
	if err != nil {
		tb.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.append(barrierTP(0), fakeEntry{record: ConsumedRecord{Key: key, Value: value}})
}

// A partition that is paused at a cut when another member takes it is read again
// when it comes back.
func TestPauseEndsWithTheAssignment(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 2})
	store := NewFileStateStore(t.TempDir())
	m := c.member("member")
	r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store), WithHeldBytes(1),
		WithBarrierGroup("audit", newReader(t, c.member("cuts"), 1)))
	c.fill(in(1), ones(6)...)
	c.publish(t, 1, map[TopicPartition]int64{in(0): 5, in(1): 2})
	for range 10 {
		runOnce(t, r)
	}
	if !m.paused[in(1)] {
		t.Fatal("the partition that waits for the cut is not paused")
	}
	other := c.member("other")
	s := newTestRunner(t, ledgerTopology(t), other, other, WithStateStore(store))
	for range 3 {
		_, err := r.RunOnce(t.Context(), 0)
		if err == nil {
			_, err = s.RunOnce(t.Context(), 0)
		}
		if err != nil && !IsRetriable(err) {
			t.Fatal(err)
		}
	}
	if len(m.paused) != 0 {
		t.Errorf("paused are %v; want nothing that has left the member", m.paused)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c.expire(other)
	c.fill(in(0), ones(6)...)
	c.fill(in(1), ones(12)...)
	for range 100 {
		if _, err := r.RunOnce(t.Context(), 0); err != nil && !IsRetriable(err) {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 6, in(1): 18}, c.committed); diff != "" {
		t.Errorf("committed offsets mismatch (-want +got):\n%s", diff)
	}
}

// committedConsumer is a [positionedConsumer] that is a [CommittedReader].
type committedConsumer struct {
	positionedConsumer
	committed map[TopicPartition]int64
}

func (c *committedConsumer) Committed(context.Context, []TopicPartition) (map[TopicPartition]int64, error) {
	return maps.Clone(c.committed), nil
}

// A partition that arrives under a pending cut and is beyond it takes no part in
// it: the state of its former owner at that epoch stays, and so does the commit.
func TestPartitionThatArrivesBeyondThePendingCutTakesNoPart(t *testing.T) {
	for _, seams := range []string{"no", "positions", "all"} {
		t.Run(seams, func(t *testing.T) {
			consumer := &committedConsumer{committed: map[TopicPartition]int64{in(1): 40}}
			consumer.at = map[TopicPartition]int64{}
			consumer.add(fetch{in(0): stretch(0, 0, 2)})
			var user Consumer = consumer
			var store StateStore = &recordingStore{states: map[[2]int64]map[string][]byte{{1, NoEpoch}: counted(40), {1, 5}: counted(10)}}
			switch seams {
			case "no":
				user = &consumer.scriptedConsumer
			case "positions":
				user = &consumer.positionedConsumer
			case "all":
				files := NewFileStateStore(t.TempDir())
				generation := claim(t, files, 1)
				for _, saved := range [][2]int64{{5, 10}, {NoEpoch, 40}} {
					epoch, offset := saved[0], saved[1]
					info := SnapshotInfo{Partition: 1, Epoch: epoch, Generation: generation, Confirmed: true, Positions: map[TopicPartition]int64{in(1): offset}}
					if _, err := files.SaveSnapshot(t.Context(), info, counted(uint64(offset))); err != nil {
						t.Fatal(err)
					}
				}
				store = files
			}
			r, fired := aligning(t, user, store, map[int64]map[TopicPartition]int64{5: {in(0): 4, in(1): 10}})
			r.OnPartitionsAssigned([]TopicPartition{in(0)})
			runOnce(t, r)
			consumer.at[in(1)] = 40
			r.OnPartitionsAssigned([]TopicPartition{in(1)})
			consumer.add(fetch{in(1): stretch(1, 40, 45)}, fetch{in(0): stretch(0, 2, 6)})
			for range 3 {
				runOnce(t, r)
			}
			saved := must[map[string][]byte](t)(store.Load(1, 5))
			if diff := cmp.Diff(counted(10), saved); diff != "" {
				t.Errorf("state of partition 1 at epoch 5 mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"5 [0] in/0:4"}, fired.epochs()); diff != "" {
				t.Errorf("barriers mismatch (-want +got):\n%s", diff)
			}
			last := map[TopicPartition]int64{}
			for _, commit := range consumer.commits {
				for tp, offset := range commit {
					if offset < last[tp] {
						t.Errorf("commit of %v went from %d to %d", tp, last[tp], offset)
					}
					last[tp] = offset
				}
			}
			if diff := cmp.Diff(map[TopicPartition]int64{in(0): 6, in(1): 45}, last); diff != "" {
				t.Errorf("commits mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// A restore before the assignment is for the assignment that follows it: what
// another member has worked on since is not taken back.
func TestRestoreIsForTheAssignmentThatFollows(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 2})
	store := NewFileStateStore(t.TempDir())
	options := func(cuts string) []GroupRunnerOption {
		return []GroupRunnerOption{WithStateStore(store), WithBarrierGroup("audit", newReader(t, c.member(cuts), 1))}
	}
	first := c.member("first")
	a := newTestRunner(t, ledgerTopology(t), first, first, options("cuts of first")...)
	for partition := range 2 {
		c.fill(in(partition), ones(5)...)
	}
	c.cut("audit", 1, "in")
	for a.Stats().Barriers == 0 {
		runOnce(t, a)
	}
	second := c.member("second")
	b := newTestRunner(t, ledgerTopology(t), second, second, options("cuts of second")...)
	if _, err := b.RestoreToEpoch(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	rounds := func(runners ...*GroupRunner) {
		for range 30 {
			for _, r := range runners {
				if _, err := r.RunOnce(t.Context(), 0); err != nil && !IsRetriable(err) {
					t.Fatal(err)
				}
			}
		}
	}
	rounds(a, b)
	c.fill(in(0), ones(100)...)
	rounds(a, b)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	c.expire(first)
	rounds(b)
	if got := ledgerState(t, b, 0); got != "ada=105" || c.rewinds != 0 {
		t.Errorf("state %q after %d rewinds; want ada=105 and none", got, c.rewinds)
	}
	if got := slices.Index(c.values("out"), "ada 105"); got < 0 {
		t.Error("the last total is not produced")
	}
	if got := len(c.values("out")); got != 110 {
		t.Errorf("%d outputs for 110 records", got)
	}
}

// A restore is out of date where the group has committed since.
func TestRestoreIsOutOfDateBehindANewerCommit(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 1})
	store := NewFileStateStore(t.TempDir())
	options := func(cuts string) []GroupRunnerOption {
		return []GroupRunnerOption{WithStateStore(store), WithBarrierGroup("audit", newReader(t, c.member(cuts), 1))}
	}
	first := c.member("first")
	a := newTestRunner(t, ledgerTopology(t), first, first, options("cuts of first")...)
	c.fill(in(0), ones(5)...)
	c.cut("audit", 1, "in")
	for a.Stats().Barriers == 0 {
		runOnce(t, a)
	}
	second := c.member("second")
	b := newTestRunner(t, ledgerTopology(t), second, second, options("cuts of second")...)
	if _, err := b.RestoreToEpoch(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	c.fill(in(0), ones(20)...)
	untilDrained(t, a, c, "in")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	c.expire(first)
	for range 30 {
		runOnce(t, b)
	}
	if got := ledgerState(t, b, 0); got != "ada=25" || c.rewinds != 0 {
		t.Errorf("state %q after %d rewinds; want ada=25 and none", got, c.rewinds)
	}
}

// refusingStore is a store that does not take snapshots for a reason.
type refusingStore struct {
	*FileStateStore
	reason error
}

func (s *refusingStore) SaveSnapshot(ctx context.Context, info SnapshotInfo, state map[string][]byte) (SnapshotInfo, error) {
	if s.reason != nil {
		return SnapshotInfo{}, s.reason
	}
	return s.FileStateStore.SaveSnapshot(ctx, info, state)
}

// State that cannot be saved at a revoke is reported: its next owner repeats the
// history, and the member goes on.
func TestStateThatCannotBeSavedAtARevokeEndsNothing(t *testing.T) {
	for _, reason := range []error{errors.New("disk is full"), &StaleOwnerError{Partition: 1, Generation: 1, Current: 2}} {
		c := clusterOf(t, map[string]int{"in": 2})
		c.fill(in(0), ones(5)...)
		c.fill(in(1), ones(5)...)
		files := NewFileStateStore(t.TempDir())
		store := &refusingStore{FileStateStore: files}
		var reported []error
		m := c.member("member")
		r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store),
			WithHooks(Hooks{Error: func(err error) { reported = append(reported, err) }}))
		untilDrained(t, r, c, "in")
		store.reason = reason
		r.OnPartitionsRevoked([]TopicPartition{in(1)})
		runOnce(t, r)
		if len(reported) != 1 || !errors.Is(reported[0], reason) || !strings.Contains(reported[0].Error(), "partition 1") {
			t.Errorf("reported %v; want %v of partition 1", reported, reason)
		}
		if got := r.Stats().SnapshotFailures; got != 1 {
			t.Errorf("%d failed snapshots counted; want 1", got)
		}
		store.reason = nil
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		c.expire(m)
		next := c.member("next")
		s := newTestRunner(t, ledgerTopology(t), next, next, WithStateStore(files))
		for range 10 {
			runOnce(t, s)
		}
		if got := ledgerState(t, s, 1); got != "ada=5" {
			t.Errorf("state of the next owner %q; want ada=5", got)
		}
	}
}

// fetchingConsumer is a [positionedConsumer] like a real client: a partition that was
// paused is not in the fetch that waits at the broker, for as long as that waits.
type fetchingConsumer struct {
	positionedConsumer
	queue  map[TopicPartition][]ConsumedRecord
	paused map[TopicPartition]bool
	from   map[TopicPartition]time.Time // when fetching begins again
}

func (c *fetchingConsumer) Pause(partitions []TopicPartition) {
	for _, tp := range partitions {
		c.paused[tp] = true
	}
}

func (c *fetchingConsumer) Resume(partitions []TopicPartition) {
	for _, tp := range partitions {
		delete(c.paused, tp)
		c.from[tp] = time.Now().Add(5 * time.Second)
	}
}

func (c *fetchingConsumer) Poll(_ context.Context, timeout time.Duration) (map[TopicPartition][]ConsumedRecord, error) {
	fetched := fetch{}
	for tp, records := range c.queue {
		if !c.paused[tp] && !time.Now().Before(c.from[tp]) && len(records) > 0 {
			fetched[tp] = records
		}
	}
	for tp := range fetched {
		delete(c.queue, tp)
	}
	if len(fetched) == 0 {
		wait(timeout)
	}
	return fetched, nil
}

// What waits behind a cut runs at once when the barrier has fired, also where
// another partition is silent and a fetch waits at the broker.
func TestRecordsBehindABarrierRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consumer := &fetchingConsumer{paused: map[TopicPartition]bool{}, from: map[TopicPartition]time.Time{},
			queue: map[TopicPartition][]ConsumedRecord{in(0): stretch(0, 0, 4)}}
		r, fired := aligning(t, consumer, &recordingStore{}, map[int64]map[TopicPartition]int64{5: {in(0): 2, in(1): 1}})
		r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
		runOnce(t, r)
		consumer.queue[in(0)] = stretch(0, 4, 239)
		runOnce(t, r)
		consumer.queue[in(1)] = stretch(1, 0, 1)
		runOnce(t, r)
		if len(*fired) != 1 {
			t.Fatalf("barriers %v; want one", fired.epochs())
		}
		began := time.Now()
		offsets, err := r.RunOnce(t.Context(), 250*time.Millisecond)
		if diff := cmp.Diff(map[TopicPartition]int64{in(0): 239}, offsets); diff != "" || err != nil || time.Since(began) != 0 {
			t.Errorf("error %v after %v, offsets mismatch (-want +got):\n%s", err, time.Since(began), diff)
		}
	})
}

// A topic that joins a partition under a pending cut that does not name it keeps
// the partition out of that cut.
func TestTopicThatThePendingCutDoesNotNameKeepsItsPartitionOut(t *testing.T) {
	store := NewFileStateStore(t.TempDir())
	a, b := TopicPartition{"a", 0}, TopicPartition{"b", 0}
	consumer := &positionedConsumer{at: map[TopicPartition]int64{b: 7}}
	consumer.add(fetch{a: stretch(0, 0, 2)})
	var fired barriers
	codec := ledgerCodec{amountCodec{memory.DefaultAllocator}}
	topology := NewTopology(memory.DefaultAllocator)
	source := must[Node](t)(topology.AddSource("counted", []string{"a"}, codec))
	counted := must[Node](t)(topology.AddProcessor("counter", func() Processor { return &counter{} }, source))
	passed := must[Node](t)(topology.AddSource("passed", []string{"b"}, codec))
	must[Node](t)(topology.AddSink("sink", "out", codec, counted))
	must[Node](t)(topology.AddSink("second sink", "out", codec, passed))
	r := newTestRunner(t, topology, consumer, &recordingProducer{}, WithStateStore(store), WithBarrierListener(fired.add),
		WithBarrierGroup("audit", cutsOf(t, map[int64]map[TopicPartition]int64{1: {a: 4}})))
	r.OnPartitionsAssigned([]TopicPartition{a})
	runOnce(t, r)
	r.OnPartitionsAssigned([]TopicPartition{b})
	consumer.add(fetch{a: stretch(0, 2, 6)}, fetch{})
	for range 3 {
		runOnce(t, r)
	}
	infos, err := store.Snapshots(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if info.Epoch == 1 {
			t.Errorf("snapshot at %s of a cut that does not name b/0", formatOffsets(info.Positions))
		}
	}
	if len(fired) != 0 {
		t.Errorf("barriers %v; want none", fired.epochs())
	}
	if diff := cmp.Diff(map[TopicPartition]int64{a: 6}, maps.Clone(consumer.commits[len(consumer.commits)-1])); diff != "" {
		t.Errorf("last commit mismatch (-want +got):\n%s", diff)
	}
}

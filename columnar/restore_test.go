// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRestoreLoadsAndSeeks(t *testing.T) {
	for name, restore := range map[string]func(*GroupRunner) (*BarrierCut, error){
		"to an epoch":   func(r *GroupRunner) (*BarrierCut, error) { return r.RestoreToEpoch(t.Context(), 5) },
		"to the latest": func(r *GroupRunner) (*BarrierCut, error) { return r.RestoreToLatestCut(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			store := &recordingStore{states: map[[2]int64]map[string][]byte{{0, 5}: counted(2)}}
			consumer := &scriptedConsumer{}
			r, fired := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{5: {in(0): 2}})
			cut, err := restore(r)
			if err != nil {
				t.Fatal(err)
			}
			want := &BarrierCut{Group: "audit", Epoch: 5, TriggeredAt: 50, CompletedAt: 51, Offsets: map[TopicPartition]int64{in(0): 2}}
			if diff := cmp.Diff(want, cut); diff != "" {
				t.Errorf("cut mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, consumer.sought); diff != "" {
				t.Errorf("seeks mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(counted(2), counts(t, r, 0)); diff != "" {
				t.Errorf("state mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([][2]int64{{0, 5}}, store.loaded); diff != "" {
				t.Errorf("loads mismatch (-want +got):\n%s", diff)
			}
			cut.Offsets[in(0)] = 99
			consumer.add(fetch{in(0): stretch(0, 3, 5)})
			if diff := cmp.Diff(map[TopicPartition]int64{in(0): 5}, runOnce(t, r)); diff != "" || len(*fired) != 0 {
				t.Errorf("barriers %v, offsets behind the restore mismatch (-want +got):\n%s", fired.epochs(), diff)
			}
		})
	}
}

func TestRestoreWithoutACompleteCut(t *testing.T) {
	r, _ := aligning(t, &scriptedConsumer{}, &recordingStore{}, map[int64]map[TopicPartition]int64{5: nil})
	_, err := r.RestoreToEpoch(t.Context(), 5)
	var missing *MissingCutError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "no complete cut at epoch 5") {
		t.Errorf("RestoreToEpoch = %v", err)
	}
	if _, err := r.RestoreToLatestCut(t.Context()); !errors.As(err, &missing) || !strings.Contains(err.Error(), "has no complete cut") {
		t.Errorf("RestoreToLatestCut = %v", err)
	}
	plain := newTestRunner(t, countingTopology(t), &scriptedConsumer{}, &recordingProducer{})
	if _, err := plain.RestoreToEpoch(t.Context(), 5); err == nil || !strings.Contains(err.Error(), "restoring to a cut requires a barrier group") {
		t.Errorf("RestoreToEpoch without a barrier group = %v", err)
	}
	if _, err := plain.RestoreToLatestCut(t.Context()); err == nil || !strings.Contains(err.Error(), "requires a barrier group") {
		t.Errorf("RestoreToLatestCut without a barrier group = %v", err)
	}
}

func TestRestoreToAMissingSnapshotChangesNothing(t *testing.T) {
	cuts := map[int64]map[TopicPartition]int64{
		4: {in(0): 1, in(1): 1}, 5: {in(0): 2, in(1): 2}, 6: {in(0): 3, in(1): 3},
	}
	t.Run("plain store", func(t *testing.T) {
		store := &recordingStore{states: map[[2]int64]map[string][]byte{
			{0, 4}: counted(1), {1, 4}: counted(1), {0, 5}: counted(2),
			{0, NoEpoch}: counted(7), {1, NoEpoch}: counted(8),
		}}
		consumer := &scriptedConsumer{}
		r, _ := aligning(t, consumer, store, cuts)
		r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
		_, err := r.RestoreToEpoch(t.Context(), 5)
		var missing *MissingSnapshotError
		if !errors.As(err, &missing) {
			t.Fatalf("RestoreToEpoch = %v; want a *MissingSnapshotError", err)
		}
		if diff := cmp.Diff(&MissingSnapshotError{Epoch: 5, Partitions: []int{1}, Available: []int64{4}}, missing); diff != "" {
			t.Errorf("error mismatch (-want +got):\n%s", diff)
		}
		if want := "columnar: no snapshot of partitions [1] at epoch 5; stored for all partitions are epochs [4]"; err.Error() != want {
			t.Errorf("error %q; want %q", err, want)
		}
		if _, err := r.RestoreToEpoch(t.Context(), 9); err == nil || !strings.Contains(err.Error(), "no complete cut at epoch 9; complete are [4 5 6]") {
			t.Errorf("RestoreToEpoch(9) = %v", err)
		}
		if len(consumer.sought) != 0 || len(consumer.commits) != 0 {
			t.Errorf("seeks %v, commits %v; want none", consumer.sought, consumer.commits)
		}
		for partition, want := range []uint64{7, 8} {
			if diff := cmp.Diff(counted(want), counts(t, r, partition)); diff != "" {
				t.Errorf("state of partition %d mismatch (-want +got):\n%s", partition, diff)
			}
		}
		// The newest epoch that every partition has is what the latest means.
		cut, err := r.RestoreToLatestCut(t.Context())
		if err != nil || cut.Epoch != 4 {
			t.Errorf("RestoreToLatestCut = %v, %v; want epoch 4", cut, err)
		}
		if diff := cmp.Diff([]map[TopicPartition]int64{cuts[4]}, consumer.commits); diff != "" {
			t.Errorf("commits mismatch (-want +got):\n%s", diff)
		}
	})
	t.Run("store with positions", func(t *testing.T) {
		store := NewFileStateStore(t.TempDir())
		save := func(partition int, epoch int64) {
			info := SnapshotInfo{Partition: partition, Epoch: epoch, Group: "audit", Confirmed: true, Positions: map[TopicPartition]int64{in(partition): cuts[epoch][in(partition)]}}
			if _, err := store.SaveSnapshot(t.Context(), info, counted(uint64(epoch))); err != nil {
				t.Fatal(err)
			}
		}
		for _, saved := range [][2]int64{{0, 4}, {1, 4}, {0, 5}, {1, 5}, {0, 6}} {
			save(int(saved[0]), saved[1])
		}
		r, _ := aligning(t, &scriptedConsumer{}, store, cuts)
		_, err := r.RestoreToEpoch(t.Context(), 6)
		var missing *MissingSnapshotError
		if !errors.As(err, &missing) {
			t.Fatalf("RestoreToEpoch = %v; want a *MissingSnapshotError", err)
		}
		if diff := cmp.Diff(&MissingSnapshotError{Epoch: 6, Partitions: []int{1}, Available: []int64{4, 5}}, missing); diff != "" {
			t.Errorf("error mismatch (-want +got):\n%s", diff)
		}
		if r.Topology().HasPartition(0) {
			t.Error("the refused restore has left state")
		}
		cut, err := r.RestoreToLatestCut(t.Context())
		if err != nil || cut.Epoch != 5 {
			t.Errorf("RestoreToLatestCut = %v, %v; want epoch 5", cut, err)
		}
	})
	t.Run("nothing stored", func(t *testing.T) {
		r, _ := aligning(t, &scriptedConsumer{}, &recordingStore{}, cuts)
		_, err := r.RestoreToLatestCut(t.Context())
		var missing *MissingSnapshotError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), "no complete cut has a snapshot of every partition") {
			t.Errorf("RestoreToLatestCut = %v; want a *MissingSnapshotError", err)
		}
	})
}

func TestRestoreBeforeTheAssignmentHoldsAfterIt(t *testing.T) {
	for _, positioned := range []bool{false, true} {
		var store StateStore
		if positioned {
			files := NewFileStateStore(t.TempDir())
			generation := claim(t, files, 0)
			for _, info := range []SnapshotInfo{
				{Epoch: 5, Group: "audit", Positions: map[TopicPartition]int64{in(0): 2}},
				{Epoch: NoEpoch, Positions: map[TopicPartition]int64{in(0): 90}},
			} {
				info.Generation, info.Confirmed = generation, true
				if _, err := files.SaveSnapshot(t.Context(), info, counted(uint64(info.Positions[in(0)]))); err != nil {
					t.Fatal(err)
				}
			}
			store = files
		} else {
			store = &recordingStore{states: map[[2]int64]map[string][]byte{{0, 5}: counted(2), {0, NoEpoch}: counted(90)}}
		}
		consumer := &scriptedConsumer{}
		r, _ := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{5: {in(0): 2}})
		if _, err := r.RestoreToEpoch(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		consumer.sought = nil
		r.OnPartitionsAssigned([]TopicPartition{in(0)})
		if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, consumer.sought); diff != "" {
			t.Errorf("positioned %v: seeks at the assignment mismatch (-want +got):\n%s", positioned, diff)
		}
		consumer.add(fetch{in(0): stretch(0, 3, 5)})
		runOnce(t, r)
		if diff := cmp.Diff(counted(4), counts(t, r, 0)); diff != "" {
			t.Errorf("positioned %v: state mismatch (-want +got):\n%s", positioned, diff)
		}
		if diff := cmp.Diff([]map[TopicPartition]int64{{in(0): 2}, {in(0): 5}}, consumer.commits); diff != "" {
			t.Errorf("positioned %v: commits mismatch (-want +got):\n%s", positioned, diff)
		}
	}
}

func TestRestoreToLatestIgnoresWhatWasNeverCommitted(t *testing.T) {
	// The process dies between the barrier and its commit.
	c := clusterOf(t, map[string]int{"in": 1})
	directory := t.TempDir()
	options := func() []GroupRunnerOption {
		return []GroupRunnerOption{WithStateStore(NewFileStateStore(directory)), WithBarrierGroup("audit", newReader(t, c.member("cuts"), 1))}
	}
	m := c.member("member")
	r := newTestRunner(t, ledgerTopology(t), m, m, options()...)
	c.fill(in(0), ones(10)...)
	first := c.cut("audit", 1, "in")
	for r.Stats().Barriers == 0 {
		if _, err := r.RunOnceTransactional(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	c.fill(in(0), ones(10)...)
	c.cut("audit", 2, "in")
	m.step = func(op string) error {
		if op == "send offsets" && r.alignment.pending != nil && m.positions[in(0)] >= 22 {
			m.step = func(string) error { return errKilled }
			return errKilled
		}
		return nil
	}
	for range 100 {
		if _, err := r.RunOnceTransactional(t.Context(), 0); err != nil {
			break
		}
	}
	infos, err := NewFileStateStore(directory).Snapshots(t.Context(), 0)
	if err != nil || infos[0].Epoch != 1 {
		t.Fatalf("newest snapshot %+v, %v; want the one of epoch 1", infos[0], err)
	}
	c.expire(m)
	m = c.member("member")
	r = newTestRunner(t, ledgerTopology(t), m, m, options()...)
	cut, err := r.RestoreToLatestCut(t.Context())
	if err != nil || cut.Epoch != 1 {
		t.Fatalf("RestoreToLatestCut = %v, %v; want epoch 1", cut, err)
	}
	if diff := cmp.Diff(first, cut.Offsets); diff != "" {
		t.Errorf("cut mismatch (-want +got):\n%s", diff)
	}
	if got := ledgerState(t, r, 0); got != "ada=10" {
		t.Errorf("state %q; want ada=10", got)
	}
}

func TestRestoreToLatestNeedsEveryPartition(t *testing.T) {
	// Of two members, one has stored epoch 7 and the other only epoch 6.
	c := clusterOf(t, map[string]int{"in": 4})
	store := NewFileStateStore(t.TempDir())
	cuts := map[int64]map[TopicPartition]int64{}
	for epoch := int64(6); epoch <= 7; epoch++ {
		for partition := range 4 {
			c.fill(in(partition), ones(5)...)
		}
		cuts[epoch] = c.cut("audit", epoch, "in")
	}
	for partition := range 4 {
		generation := claim(t, store, partition)
		for epoch := int64(6); epoch <= 7-int64(partition/2); epoch++ {
			info := SnapshotInfo{
				Partition: partition, Epoch: epoch, Group: "audit", Generation: generation, Confirmed: true,
				Positions: map[TopicPartition]int64{in(partition): cuts[epoch][in(partition)]}, Layout: map[string]string{"ledger": processorLayout},
			}
			state := map[string][]byte{"ledger": []byte(c.foldBelow(in(partition), cuts[epoch][in(partition)]))}
			if _, err := store.SaveSnapshot(t.Context(), info, state); err != nil {
				t.Fatal(err)
			}
			c.committed[in(partition)] = cuts[epoch][in(partition)]
		}
	}
	m := c.member("member")
	r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store), WithBarrierGroup("audit", newReader(t, c.member("cuts"), 1)))
	m.maxPoll = 1
	runOnce(t, r)
	cut, err := r.RestoreToLatestCut(t.Context())
	if err != nil || cut.Epoch != 6 {
		t.Fatalf("RestoreToLatestCut = %v, %v; want epoch 6", cut, err)
	}
	for partition := range 4 {
		if got := ledgerState(t, r, partition); got != "ada=5" {
			t.Errorf("state of partition %d %q; want ada=5", partition, got)
		}
	}
	committed := maps.Clone(c.committed)
	maps.DeleteFunc(committed, func(tp TopicPartition, _ int64) bool { return tp.Topic != "in" })
	if diff := cmp.Diff(cuts[6], committed); diff != "" {
		t.Errorf("committed offsets mismatch (-want +got):\n%s", diff)
	}
	_, err = r.RestoreToEpoch(t.Context(), 7)
	var missing *MissingSnapshotError
	if !errors.As(err, &missing) {
		t.Fatalf("RestoreToEpoch(7) = %v; want a *MissingSnapshotError", err)
	}
	if diff := cmp.Diff([]int{2, 3}, missing.Partitions); diff != "" {
		t.Errorf("partitions without epoch 7 mismatch (-want +got):\n%s", diff)
	}
}

func TestRestoreThatCannotCommitStandsAtTheCut(t *testing.T) {
	cause := errors.New("coordinator is away")
	store := &recordingStore{states: map[[2]int64]map[string][]byte{{0, 5}: counted(2)}}
	consumer := &scriptedConsumer{failWith: map[string]error{"CommitOffsets": cause}}
	r, _ := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{5: {in(0): 2}})
	r.OnPartitionsAssigned([]TopicPartition{in(0)})
	if _, err := r.RestoreToEpoch(t.Context(), 5); !errors.Is(err, cause) {
		t.Errorf("RestoreToEpoch = %v; want %v", err, cause)
	}
	if diff := cmp.Diff(counted(2), counts(t, r, 0)); diff != "" {
		t.Errorf("state mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, consumer.sought); diff != "" {
		t.Errorf("seeks mismatch (-want +got):\n%s", diff)
	}
}

func TestRestoreAfterCloseIsRefused(t *testing.T) {
	r, _ := aligning(t, &scriptedConsumer{}, &recordingStore{}, map[int64]map[TopicPartition]int64{5: {in(0): 2}})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.RestoreToEpoch(t.Context(), 5); !errors.Is(err, ErrRunnerClosed) {
		t.Errorf("RestoreToEpoch = %v; want %v", err, ErrRunnerClosed)
	}
}

// When one partition cannot be restored, none has been: state, positions and
// commits are what they were.
func TestRestoreThatFailsForOnePartitionChangesNone(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 2})
	store := NewFileStateStore(t.TempDir())
	for partition := range 2 {
		c.fill(in(partition), ones(3)...)
	}
	cut := c.cut("audit", 5, "in")
	for partition, state := range []string{"ada=3", "no ledger"} {
		info := SnapshotInfo{
			Partition: partition, Epoch: 5, Group: "audit", Generation: claim(t, store, partition), Confirmed: true,
			Positions: map[TopicPartition]int64{in(partition): cut[in(partition)]}, Layout: map[string]string{"ledger": processorLayout},
		}
		if _, err := store.SaveSnapshot(t.Context(), info, map[string][]byte{"ledger": []byte(state)}); err != nil {
			t.Fatal(err)
		}
	}
	for partition := range 2 {
		c.fill(in(partition), ones(7)...)
	}
	m := c.member("member")
	r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store), WithMissingState(MissingStateRebuild),
		WithBarrierGroup("audit", newReader(t, c.member("cuts"), 1)), WithUncoveredState())
	m.maxPoll = 2
	runOnce(t, r)
	before := maps.Clone(c.committed)
	if _, err := r.RestoreToEpoch(t.Context(), 5); err == nil || !strings.Contains(err.Error(), `ledger line "no"`) {
		t.Fatalf("RestoreToEpoch = %v; want the error of partition 1", err)
	}
	if diff := cmp.Diff(before, c.committed); diff != "" {
		t.Errorf("committed offsets mismatch (-want +got):\n%s", diff)
	}
	untilDrained(t, r, c, "in")
	for partition := range 2 {
		if got := ledgerState(t, r, partition); got != "ada=10" {
			t.Errorf("state of partition %d %q; want ada=10", partition, got)
		}
	}
}

// A group that was deleted and made anew takes its epochs again: the snapshot of
// the first life is not that of the cut of the second.
func TestRestoreRefusesTheSnapshotOfAnEarlierGroup(t *testing.T) {
	store := NewFileStateStore(t.TempDir())
	info := SnapshotInfo{Epoch: 2, Group: "audit", Generation: claim(t, store, 0), Confirmed: true, Positions: map[TopicPartition]int64{in(0): 3}}
	if _, err := store.SaveSnapshot(t.Context(), info, counted(3)); err != nil {
		t.Fatal(err)
	}
	r, _ := aligning(t, &scriptedConsumer{}, store, map[int64]map[TopicPartition]int64{2: {in(0): 9}})
	_, err := r.RestoreToEpoch(t.Context(), 2)
	var missing *MissingSnapshotError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "the stored snapshot stands at in/0:3, and the cut is at offset 9 of in/0") {
		t.Errorf("RestoreToEpoch = %v; want a *MissingSnapshotError that says why", err)
	}
	if _, err := r.RestoreToLatestCut(t.Context()); !errors.As(err, &missing) {
		t.Errorf("RestoreToLatestCut = %v; want a *MissingSnapshotError", err)
	}
}

// The snapshot of a barrier whose round did not commit is refused before the
// assignment as it is behind it.
func TestRestoreRefusesABarrierThatDidNotCommit(t *testing.T) {
	for _, assigned := range []bool{false, true} {
		c := clusterOf(t, map[string]int{"in": 1})
		directory := t.TempDir()
		options := func() []GroupRunnerOption {
			return []GroupRunnerOption{WithStateStore(NewFileStateStore(directory)), WithBarrierGroup("audit", newReader(t, c.member("cuts"), 1))}
		}
		m := c.member("member")
		r := newTestRunner(t, ledgerTopology(t), m, m, options()...)
		c.fill(in(0), ones(5)...)
		untilDrained(t, r, c, "in")
		c.fill(in(0), ones(5)...)
		cut := c.cut("audit", 6, "in")
		m.maxPoll = 100
		m.step = func(op string) error {
			if op == "send offsets" {
				m.step = func(string) error { return errKilled }
				return errKilled
			}
			return nil
		}
		if _, err := r.RunOnceTransactional(t.Context(), 0); !errors.Is(err, errKilled) {
			t.Fatalf("RunOnceTransactional = %v", err)
		}
		// A writer that saves ahead of the commit leaves this.
		infos, err := NewFileStateStore(directory).Snapshots(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		info := infos[0]
		info.Epoch, info.Group, info.Confirmed, info.Positions = 6, "audit", false, cut
		if _, err := NewFileStateStore(directory).SaveSnapshot(t.Context(), info, map[string][]byte{"ledger": []byte("ada=10")}); err != nil {
			t.Fatal(err)
		}
		c.expire(m)
		next := c.member("member")
		s := newTestRunner(t, ledgerTopology(t), next, next, options()...)
		if assigned {
			next.maxPoll = 1
			runOnce(t, s)
		}
		_, err = s.RestoreToEpoch(t.Context(), 6)
		if !errors.As(err, new(*MissingSnapshotError)) {
			t.Errorf("assigned %v: RestoreToEpoch = %v; want a *MissingSnapshotError", assigned, err)
		}
		for !c.drained("in") {
			if _, err := s.RunOnceTransactional(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(c.values("out")); got != 10 {
			t.Errorf("assigned %v: %d outputs for 10 records", assigned, got)
		}
	}
}

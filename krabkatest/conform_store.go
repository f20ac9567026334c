// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// CheckStateStore checks that a store keeps what a runner saves. open opens a store on
// the same place each time, and returns what closes it; a case uses partitions of
// its own and may open two stores at once. It returns nil or the joined [*CaseError]
// values. ctx bounds the suite.
func CheckStateStore(ctx context.Context, open func() (columnar.StateStore, func() error, error)) error {
	return runStoreCases(ctx, "CheckStateStore", open, []storeCase[columnar.StateStore]{
		{"what was never saved is an empty map", storeMissing},
		{"what was saved is loaded, also by another process", storeRoundTrip},
		{"a save replaces that of its partition and epoch alone", storeReplaces},
		{"neither side keeps the other's maps", storeCopies},
		{"partitions are saved at once", storeConcurrent},
	})
}

// CheckSnapshotStore checks that a store tells what its snapshots stand for and keeps
// owners apart, and, where it is a [columnar.JournalStore], that it keeps rounds. The
// arguments are those of [CheckStateStore], whose cases it runs too.
func CheckSnapshotStore(ctx context.Context, open func() (columnar.SnapshotStore, func() error, error)) error {
	return errors.Join(
		CheckStateStore(ctx, func() (columnar.StateStore, func() error, error) { return open() }),
		runStoreCases(ctx, "CheckSnapshotStore", open, []storeCase[columnar.SnapshotStore]{
			{"a snapshot comes back with what it stands for", snapshotInfos},
			{"generations rise with each claim", snapshotClaims},
			{"an owner that was replaced changes nothing", snapshotOwners},
			{"snapshots are listed by sequence, the newest first", snapshotOrder},
			{"a confirmed snapshot stays until a newer one is confirmed", snapshotConfirmed},
			{"what was abandoned is not recovered from", snapshotAbandoned},
			{"partitions are saved at once, in order", snapshotConcurrent},
			{"a journal has the rounds behind a snapshot", journalRounds},
		}))
}

type storeCase[S any] struct {
	name string
	run  func(s *storeChecks[S]) error
}

// storeChecks is one run of a case of a store.
type storeChecks[S any] struct {
	*checks
	partition int
	openStore func() (S, func() error, error)
}

func (s *storeChecks[S]) open() (S, error) {
	store, close, err := s.openStore()
	if err == nil {
		s.closers = append(s.closers, close)
	}
	return store, err
}

func runStoreCases[S any](ctx context.Context, suite string, open func() (S, func() error, error), cases []storeCase[S]) error {
	list := make([]conformanceCase, len(cases))
	for i, c := range cases {
		list[i] = conformanceCase{c.name, func(s *checks) error {
			return c.run(&storeChecks[S]{s, 10*i + map[string]int{"CheckSnapshotStore": 1000}[suite], open})
		}}
	}
	return runCases(ctx, suite, Clients{}, list)
}

// stateOf is a state that tells one save from another.
func stateOf(value string) map[string][]byte {
	return map[string][]byte{"node": []byte(value), "empty": {}, "n\u00e4me/with:odd runes": []byte("x\x00y")}
}

func sameState(a, b map[string][]byte) bool {
	return maps.EqualFunc(a, b, func(x, y []byte) bool { return string(x) == string(y) })
}

func storeMissing(s *storeChecks[columnar.StateStore]) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	for _, epoch := range []int64{columnar.NoEpoch, 0, 7} {
		if state, err := store.Load(s.partition, epoch); err != nil || state == nil || len(state) > 0 {
			s.errorf("Load at epoch %d = %v, %v; want an empty map", epoch, state, err)
		}
	}
	return nil
}

func storeRoundTrip(s *storeChecks[columnar.StateStore]) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	saved := map[int64]map[string][]byte{columnar.NoEpoch: stateOf("plain"), 0: stateOf("zero"), 1 << 40: stateOf("late"), 3: {}}
	for epoch, state := range saved {
		if err := store.Save(s.partition, epoch, state); err != nil {
			return err
		}
	}
	other, err := s.open()
	if err != nil {
		return err
	}
	for epoch, want := range saved {
		for name, from := range map[string]columnar.StateStore{"this process": store, "another": other} {
			if got, err := from.Load(s.partition, epoch); err != nil || !sameState(got, want) {
				s.errorf("Load at epoch %d by %s = %q, %v; want %q", epoch, name, got, err, want)
			}
		}
	}
	return nil
}

func storeReplaces(s *storeChecks[columnar.StateStore]) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	type place struct {
		partition int
		epoch     int64
	}
	places := []place{{s.partition, columnar.NoEpoch}, {s.partition, 1}, {s.partition, 11}, {s.partition + 1, 1}}
	for _, at := range places {
		if err := store.Save(at.partition, at.epoch, stateOf(fmt.Sprint(at))); err != nil {
			return err
		}
	}
	if err := store.Save(s.partition, 1, map[string][]byte{"other": []byte("new")}); err != nil {
		return err
	}
	for _, at := range places {
		want := stateOf(fmt.Sprint(at))
		if at == places[1] {
			want = map[string][]byte{"other": []byte("new")}
		}
		if got, err := store.Load(at.partition, at.epoch); err != nil || !sameState(got, want) {
			s.errorf("Load of partition %d at epoch %d = %q, %v; want %q", at.partition, at.epoch, got, err, want)
		}
	}
	return nil
}

func storeCopies(s *storeChecks[columnar.StateStore]) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	state := stateOf("kept")
	if err := store.Save(s.partition, 1, state); err != nil {
		return err
	}
	state["node"][0] = 'X'
	delete(state, "empty")
	for range 2 {
		got, err := store.Load(s.partition, 1)
		if err != nil || !sameState(got, stateOf("kept")) {
			s.errorf("Load = %q, %v; want what was saved", got, err)
		}
		if len(got["node"]) > 0 {
			got["node"][0] = 'Y'
		}
		clear(got)
	}
	return nil
}

func storeConcurrent(s *storeChecks[columnar.StateStore]) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	var saving sync.WaitGroup
	var failed [4]error
	for i := range failed {
		saving.Go(func() {
			for n := range 5 {
				if err := store.Save(s.partition+i, 1, stateOf(fmt.Sprint(i, n))); err != nil {
					failed[i] = err
				}
			}
		})
	}
	saving.Wait()
	for i := range failed {
		if got, err := store.Load(s.partition+i, 1); err != nil || !sameState(got, stateOf(fmt.Sprint(i, 4))) {
			s.errorf("Load of partition %d = %q, %v; want the last save", s.partition+i, got, err)
		}
	}
	return errors.Join(failed[:]...)
}

// owner opens a store and claims the partition of the case.
func owner(s *storeChecks[columnar.SnapshotStore]) (columnar.SnapshotStore, columnar.SnapshotInfo, error) {
	store, err := s.open()
	if err != nil {
		return nil, columnar.SnapshotInfo{}, err
	}
	generation, err := store.Claim(s.ctx, s.partition)
	return store, columnar.SnapshotInfo{Partition: s.partition, Epoch: columnar.NoEpoch, Generation: generation}, err
}

// saveAt saves a state at an epoch and confirms it if asked to.
func saveAt(s *storeChecks[columnar.SnapshotStore], store columnar.SnapshotStore, info columnar.SnapshotInfo, epoch int64, value string, confirm bool) (columnar.SnapshotInfo, error) {
	info.Epoch = epoch
	saved, err := store.SaveSnapshot(s.ctx, info, stateOf(value))
	if err == nil && confirm {
		err = store.ConfirmSnapshot(s.ctx, saved)
	}
	return saved, err
}

func snapshotInfos(s *storeChecks[columnar.SnapshotStore]) error {
	store, info, err := owner(s)
	if err != nil {
		return err
	}
	info.Epoch, info.Group, info.Round = 7, "audit", 4
	info.Positions = map[columnar.TopicPartition]int64{{Topic: "in", Partition: s.partition}: 12, {Topic: "other", Partition: s.partition}: 0}
	info.PartitionCounts, info.Layout = map[string]int{"in": 4}, map[string]string{"node": "v1"}
	info.TakenAt = time.UnixMilli(1724500000042)
	saved, err := store.SaveSnapshot(s.ctx, info, stateOf("v"))
	if err != nil {
		return err
	}
	if saved.Sequence < 1 {
		s.errorf("the sequence of the first snapshot is %d, want one from 1 on", saved.Sequence)
	}
	info.Sequence = saved.Sequence
	other, err := s.open()
	if err != nil {
		return err
	}
	listed, err := other.Snapshots(s.ctx, s.partition)
	if err != nil || len(listed) != 1 {
		return errors.Join(err, fmt.Errorf("%d snapshots are listed, want 1", len(listed)))
	}
	for name, got := range map[string]columnar.SnapshotInfo{"saved": saved, "listed": listed[0]} {
		if got.Partition != info.Partition || got.Epoch != info.Epoch || got.Group != info.Group || got.Round != info.Round ||
			got.Sequence != info.Sequence || got.Generation != info.Generation || !got.TakenAt.Equal(info.TakenAt) ||
			!maps.Equal(got.Positions, info.Positions) || !maps.Equal(got.PartitionCounts, info.PartitionCounts) ||
			!maps.Equal(got.Layout, info.Layout) || got.Confirmed || got.Abandoned || got.Damage != nil {
			s.errorf("the %s info is %+v, want %+v", name, got, info)
		}
	}
	state, err := other.LoadSnapshot(s.ctx, listed[0])
	if err != nil || !sameState(state, stateOf("v")) {
		s.errorf("LoadSnapshot = %q, %v; want what was saved", state, err)
	}
	missing := listed[0]
	missing.Sequence += 5
	if state, err := other.LoadSnapshot(s.ctx, missing); err == nil {
		s.errorf("LoadSnapshot of a sequence that does not exist = %q, want an error", state)
	}
	return nil
}

func snapshotClaims(s *storeChecks[columnar.SnapshotStore]) error {
	last := int64(0)
	for range 3 {
		_, info, err := owner(s)
		if err != nil {
			return err
		}
		if info.Generation <= last {
			s.errorf("generation %d follows %d", info.Generation, last)
		}
		last = info.Generation
	}
	return nil
}

func snapshotOwners(s *storeChecks[columnar.SnapshotStore]) error {
	old, before, err := owner(s)
	if err != nil {
		return err
	}
	saved, err := saveAt(s, old, before, columnar.NoEpoch, "before", false)
	if err != nil {
		return err
	}
	newer, info, err := owner(s)
	if err != nil {
		return err
	}
	if _, err := saveAt(s, newer, info, columnar.NoEpoch, "newer", true); err != nil {
		return err
	}
	refused := func(what string, err error) {
		var stale *columnar.StaleOwnerError
		if !errors.As(err, &stale) || stale.Partition != s.partition || stale.Generation != before.Generation || stale.Current != info.Generation {
			s.errorf("%s of the owner before = %v, want a StaleOwnerError of generation %d against %d", what, err, before.Generation, info.Generation)
		}
	}
	_, err = saveAt(s, old, before, columnar.NoEpoch, "stale", false)
	refused("a save", err)
	_, err = saveAt(s, old, before, 5, "stale", false)
	refused("a save at a barrier", err)
	refused("a confirmation", old.ConfirmSnapshot(s.ctx, saved))
	refused("an abandonment", old.Abandon(s.ctx, s.partition, before.Generation, 0))
	if journal, ok := old.(columnar.JournalStore); ok {
		refused("a round", journal.AppendRound(s.ctx, s.partition, before.Generation, []byte("r")))
	}
	if got, err := newer.Load(s.partition, columnar.NoEpoch); err != nil || !sameState(got, stateOf("newer")) {
		s.errorf("the state is %q, %v; want that of the newer owner", got, err)
	}
	if got, err := newer.Load(s.partition, 5); err != nil || len(got) > 0 {
		s.errorf("the state at the refused epoch is %q, %v", got, err)
	}
	return nil
}

func snapshotOrder(s *storeChecks[columnar.SnapshotStore]) error {
	store, info, err := owner(s)
	if err != nil {
		return err
	}
	var want []int64
	for _, epoch := range []int64{3, 1, columnar.NoEpoch, 2} {
		saved, err := saveAt(s, store, info, epoch, fmt.Sprint(epoch), true)
		if err != nil {
			return err
		}
		if len(want) > 0 && saved.Sequence <= want[0] {
			s.errorf("sequence %d follows %d", saved.Sequence, want[0])
		}
		want = append([]int64{saved.Sequence}, want...)
	}
	listed, err := store.Snapshots(s.ctx, s.partition)
	var got []int64
	for _, one := range listed {
		got = append(got, one.Sequence)
	}
	if len(got) == 0 || got[0] != want[0] || !slices.IsSortedFunc(got, func(a, b int64) int { return int(b - a) }) {
		s.errorf("the sequences are listed as %v, want %v or the first of them", got, want)
	}
	return err
}

func snapshotConfirmed(s *storeChecks[columnar.SnapshotStore]) error {
	store, info, err := owner(s)
	if err != nil {
		return err
	}
	sure, err := saveAt(s, store, info, columnar.NoEpoch, "sure", true)
	if err != nil {
		return err
	}
	doubtful, err := saveAt(s, store, info, columnar.NoEpoch, "doubtful", false)
	if err != nil {
		return err
	}
	listed, err := store.Snapshots(s.ctx, s.partition)
	if err != nil {
		return err
	}
	confirmed := map[int64]bool{}
	for _, one := range listed {
		confirmed[one.Sequence] = one.Confirmed
	}
	if want := map[int64]bool{sure.Sequence: true, doubtful.Sequence: false}; !maps.Equal(confirmed, want) {
		s.errorf("the sequences with their confirmation are %v, want %v", confirmed, want)
	}
	if state, err := store.LoadSnapshot(s.ctx, sure); err != nil || !sameState(state, stateOf("sure")) {
		s.errorf("LoadSnapshot of the confirmed one = %q, %v", state, err)
	}
	return nil
}

func snapshotAbandoned(s *storeChecks[columnar.SnapshotStore]) error {
	store, info, err := owner(s)
	if err != nil {
		return err
	}
	kept, err := saveAt(s, store, info, 1, "kept", true)
	if err != nil {
		return err
	}
	if _, err = saveAt(s, store, info, 2, "abandoned", true); err != nil {
		return err
	}
	if _, err = saveAt(s, store, info, 3, "doubtful", false); err != nil {
		return err
	}
	if err := store.Abandon(s.ctx, s.partition, info.Generation, kept.Sequence); err != nil {
		return err
	}
	listed, err := store.Snapshots(s.ctx, s.partition)
	for _, one := range listed {
		if one.Abandoned != (one.Sequence > kept.Sequence) {
			s.errorf("the snapshot at epoch %d has Abandoned %v", one.Epoch, one.Abandoned)
		}
	}
	if !slices.ContainsFunc(listed, func(one columnar.SnapshotInfo) bool { return one.Sequence == kept.Sequence }) {
		s.errorf("the snapshot before the abandoned ones is gone")
	}
	return err
}

func snapshotConcurrent(s *storeChecks[columnar.SnapshotStore]) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	var saving sync.WaitGroup
	var failed [4]error
	for i := range failed {
		saving.Go(func() {
			failed[i] = func() error {
				generation, err := store.Claim(s.ctx, s.partition+i)
				for n := int64(0); n < 5 && err == nil; n++ {
					info := columnar.SnapshotInfo{Partition: s.partition + i, Epoch: columnar.NoEpoch, Generation: generation, Round: n}
					if info, err = store.SaveSnapshot(s.ctx, info, stateOf(fmt.Sprint(i, n))); err == nil {
						err = store.ConfirmSnapshot(s.ctx, info)
					}
				}
				return err
			}()
		})
	}
	saving.Wait()
	for i := range failed {
		listed, err := store.Snapshots(s.ctx, s.partition+i)
		if err != nil || len(listed) == 0 || listed[0].Round != 4 {
			s.errorf("the snapshots of partition %d are %+v, %v; want the last first", s.partition+i, listed, err)
			continue
		}
		if state, err := store.LoadSnapshot(s.ctx, listed[0]); err != nil || !sameState(state, stateOf(fmt.Sprint(i, 4))) {
			s.errorf("the state of partition %d is %q, %v", s.partition+i, state, err)
		}
	}
	return errors.Join(failed[:]...)
}

func journalRounds(s *storeChecks[columnar.SnapshotStore]) error {
	store, info, err := owner(s)
	journal, ok := store.(columnar.JournalStore)
	if err != nil || !ok {
		return err
	}
	add := func(journal columnar.JournalStore, generation int64, rounds ...string) error {
		for _, round := range rounds {
			if err := journal.AppendRound(s.ctx, s.partition, generation, []byte(round)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(journal, info.Generation, "before"); err != nil {
		return err
	}
	saved, err := saveAt(s, store, info, columnar.NoEpoch, "v", true)
	if err != nil {
		return err
	}
	if err := add(journal, info.Generation, "a", "b"); err != nil {
		return err
	}
	next, later, err := owner(s)
	if err != nil {
		return err
	}
	if err := add(next.(columnar.JournalStore), later.Generation, "c"); err != nil {
		return err
	}
	rounds, err := next.(columnar.JournalStore).Rounds(s.ctx, s.partition, saved.Sequence)
	var got []string
	for _, round := range rounds {
		if string(round) != "before" {
			got = append(got, string(round))
		}
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
		s.errorf("the rounds behind the snapshot are %q, want %q", got, want)
	}
	return err
}

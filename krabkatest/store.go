// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// StateStore keeps state in memory, as a disk does that outlives the processes of a
// test: every [StateStore.Open] is the store of one process. It keeps everything that
// was saved. It is safe for concurrent use by multiple goroutines.
type StateStore struct {
	mu         sync.Mutex // guards what follows
	partitions map[int]*storedPartition
	opened     int
	faults     faults
	delay      func() time.Duration
}

// storedPartition is what a store has of a logical partition.
type storedPartition struct {
	generation int64
	sequence   int64
	snapshots  []StoredSnapshot // in the order of their sequence
	rounds     []storedRound
}

// StoredSnapshot is one snapshot that a [StateStore] holds.
type StoredSnapshot struct {
	Info  columnar.SnapshotInfo
	State map[string][]byte
}

type storedRound struct {
	behind int64 // sequence of the latest snapshot when the round was appended
	round  []byte
}

// NewStateStore returns an empty store.
func NewStateStore() *StateStore { return &StateStore{partitions: map[int]*storedPartition{}} }

// Intercept makes the store ask intercept before each call takes effect and after it,
// and fail the call with the error that intercept returns; see [Broker.Intercept].
func (s *StateStore) Intercept(intercept func(Call) error) { s.faults.set(intercept) }

// FailNext makes the next call of a method fail with fault before it takes effect.
func (s *StateStore) FailNext(method string, fault error) { s.faults.queue(method, false, fault) }

// LoseNextAnswer makes the next call of a method take effect and fail with fault.
func (s *StateStore) LoseNextAnswer(method string, fault error) { s.faults.queue(method, true, fault) }

// Stored returns the snapshots of a partition, the newest first, whatever fails on
// demand.
func (s *StateStore) Stored(partition int) []StoredSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.partitions[partition]
	if p == nil {
		return nil
	}
	stored := make([]StoredSnapshot, 0, len(p.snapshots))
	for _, snapshot := range slices.Backward(p.snapshots) {
		stored = append(stored, StoredSnapshot{cloneInfo(snapshot.Info), cloneState(snapshot.State)})
	}
	return stored
}

// ClearFaults ends all ordered failures.
func (s *StateStore) ClearFaults() { s.faults.clear() }

// Slow makes each save and round take so long as delay returns, or until the context
// of the call ends. nil ends it.
func (s *StateStore) Slow(delay func() time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = delay
}

// Open returns the store as one process has it. process may be nil.
func (s *StateStore) Open(process *Process) *OpenStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	return &OpenStore{store: s, name: fmt.Sprintf("store %d", s.opened), process: process}
}

// OpenStore is a [StateStore] as one process has it: a [columnar.JournalStore].
type OpenStore struct {
	store   *StateStore
	name    string
	process *Process
}

var _ columnar.JournalStore = (*OpenStore)(nil)

// call runs a call: effect runs with the mutex of the store. A call that writes may
// be slow.
func (o *OpenStore) call(ctx context.Context, method string, partition int, writes bool, effect func(*storedPartition) error) error {
	ask := func(answer bool) error {
		if err := o.process.step(); err != nil {
			return err
		}
		return o.store.faults.of(Call{Client: o.name, Method: method, Answer: answer})
	}
	if err := cmp.Or(ctx.Err(), ask(false)); err != nil {
		return err
	}
	if writes {
		if err := o.wait(ctx); err != nil {
			return err
		}
	}
	o.store.mu.Lock()
	p := o.store.partitions[partition]
	if p == nil {
		p = &storedPartition{}
		o.store.partitions[partition] = p
	}
	err := effect(p)
	o.store.mu.Unlock()
	if err != nil {
		return err
	}
	return ask(true)
}

// wait lets pass the time that a slow store takes.
func (o *OpenStore) wait(ctx context.Context) error {
	o.store.mu.Lock()
	delay := o.store.delay
	o.store.mu.Unlock()
	if delay == nil {
		return nil
	}
	timer := time.NewTimer(delay())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if o.process.gone() {
		return ErrCrashed
	}
	return ctx.Err()
}

// Load returns the latest state that was saved for a partition and epoch.
func (o *OpenStore) Load(partition int, epoch int64) (map[string][]byte, error) {
	state := map[string][]byte{}
	err := o.call(context.Background(), "Load", partition, false, func(p *storedPartition) error {
		if at := p.latest(epoch); at >= 0 {
			state = cloneState(p.snapshots[at].State)
		}
		return nil
	})
	return state, err
}

// Save replaces the state of a partition and epoch.
func (o *OpenStore) Save(partition int, epoch int64, snapshot map[string][]byte) error {
	return o.call(context.Background(), "Save", partition, true, func(p *storedPartition) error {
		p.add(columnar.SnapshotInfo{Partition: partition, Epoch: epoch}, snapshot)
		return nil
	})
}

// Claim takes the next generation of a partition.
func (o *OpenStore) Claim(ctx context.Context, partition int) (generation int64, err error) {
	err = o.call(ctx, "Claim", partition, false, func(p *storedPartition) error {
		p.generation++
		generation = p.generation
		return nil
	})
	return generation, err
}

// SaveSnapshot stores a snapshot under the next sequence. One of an epoch takes the
// place of the one before.
func (o *OpenStore) SaveSnapshot(ctx context.Context, info columnar.SnapshotInfo, state map[string][]byte) (columnar.SnapshotInfo, error) {
	err := o.call(ctx, "SaveSnapshot", info.Partition, true, func(p *storedPartition) error {
		if err := p.owned(info.Partition, info.Generation); err != nil {
			return err
		}
		info = p.add(info, state)
		return nil
	})
	if err != nil {
		return columnar.SnapshotInfo{}, err
	}
	return info, nil
}

// Snapshots lists the snapshots of a partition, the highest sequence first.
func (o *OpenStore) Snapshots(ctx context.Context, partition int) ([]columnar.SnapshotInfo, error) {
	var infos []columnar.SnapshotInfo
	err := o.call(ctx, "Snapshots", partition, false, func(p *storedPartition) error {
		for _, snapshot := range slices.Backward(p.snapshots) {
			infos = append(infos, cloneInfo(snapshot.Info))
		}
		return nil
	})
	return infos, err
}

// LoadSnapshot returns the state of a listed snapshot. One that was replaced is a
// [*columnar.DamagedSnapshotError].
func (o *OpenStore) LoadSnapshot(ctx context.Context, info columnar.SnapshotInfo) (map[string][]byte, error) {
	var state map[string][]byte
	err := o.call(ctx, "LoadSnapshot", info.Partition, false, func(p *storedPartition) error {
		at := p.find(info)
		if at < 0 {
			return &columnar.DamagedSnapshotError{Partition: info.Partition, Epoch: info.Epoch, Name: o.name, Cause: fmt.Errorf("no snapshot has sequence %d", info.Sequence)}
		}
		state = cloneState(p.snapshots[at].State)
		return nil
	})
	return state, err
}

// ConfirmSnapshot marks a snapshot confirmed.
func (o *OpenStore) ConfirmSnapshot(ctx context.Context, info columnar.SnapshotInfo) error {
	return o.call(ctx, "ConfirmSnapshot", info.Partition, true, func(p *storedPartition) error {
		if err := p.owned(info.Partition, info.Generation); err != nil {
			return err
		}
		if at := p.find(info); at >= 0 {
			p.snapshots[at].Info.Confirmed = true
		}
		return nil
	})
}

// Abandon marks the snapshots above a sequence abandoned and deletes those that are
// not confirmed.
func (o *OpenStore) Abandon(ctx context.Context, partition int, generation, sequence int64) error {
	return o.call(ctx, "Abandon", partition, true, func(p *storedPartition) error {
		if err := p.owned(partition, generation); err != nil {
			return err
		}
		p.snapshots = slices.DeleteFunc(p.snapshots, func(s StoredSnapshot) bool { return s.Info.Sequence > sequence && !s.Info.Confirmed })
		for i := range p.snapshots {
			p.snapshots[i].Info.Abandoned = p.snapshots[i].Info.Abandoned || p.snapshots[i].Info.Sequence > sequence
		}
		return nil
	})
}

// AppendRound adds a round to the journal of a partition.
func (o *OpenStore) AppendRound(ctx context.Context, partition int, generation int64, round []byte) error {
	return o.call(ctx, "AppendRound", partition, true, func(p *storedPartition) error {
		if err := p.owned(partition, generation); err != nil {
			return err
		}
		p.rounds = append(p.rounds, storedRound{p.sequence, bytes.Clone(round)})
		return nil
	})
}

// Rounds returns the rounds that were appended behind the snapshot of a sequence.
func (o *OpenStore) Rounds(ctx context.Context, partition int, sequence int64) ([][]byte, error) {
	var rounds [][]byte
	err := o.call(ctx, "Rounds", partition, false, func(p *storedPartition) error {
		for _, r := range p.rounds {
			if r.behind >= sequence {
				rounds = append(rounds, bytes.Clone(r.round))
			}
		}
		return nil
	})
	return rounds, err
}

func (p *storedPartition) owned(partition int, generation int64) error {
	if generation != p.generation {
		return &columnar.StaleOwnerError{Partition: partition, Generation: generation, Current: p.generation}
	}
	return nil
}

// add stores a snapshot. Outside barriers the one before stays, until a newer one is
// confirmed.
func (p *storedPartition) add(info columnar.SnapshotInfo, state map[string][]byte) columnar.SnapshotInfo {
	p.sequence++
	info.Sequence, info.Bytes = p.sequence, 0
	for _, value := range state {
		info.Bytes += int64(len(value))
	}
	p.snapshots = slices.DeleteFunc(p.snapshots, func(s StoredSnapshot) bool {
		return s.Info.Epoch == info.Epoch && info.Epoch != columnar.NoEpoch
	})
	p.snapshots = append(p.snapshots, StoredSnapshot{cloneInfo(info), cloneState(state)})
	return info
}

// latest returns the place of the newest snapshot of an epoch; -1 for none.
func (p *storedPartition) latest(epoch int64) int {
	for i, s := range slices.Backward(p.snapshots) {
		if s.Info.Epoch == epoch {
			return i
		}
	}
	return -1
}

func (p *storedPartition) find(info columnar.SnapshotInfo) int {
	return slices.IndexFunc(p.snapshots, func(s StoredSnapshot) bool { return s.Info.Sequence == info.Sequence })
}

func cloneState(state map[string][]byte) map[string][]byte {
	cloned := make(map[string][]byte, len(state))
	for name, value := range state {
		cloned[name] = append([]byte{}, value...)
	}
	return cloned
}

func cloneInfo(info columnar.SnapshotInfo) columnar.SnapshotInfo {
	info.Positions, info.PartitionCounts, info.Layout = maps.Clone(info.Positions), maps.Clone(info.PartitionCounts), maps.Clone(info.Layout)
	return info
}

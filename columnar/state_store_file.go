// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/statefile"
)

// defaultRetainedEpochs is how many barrier snapshots of a partition a
// [FileStateStore] keeps.
const defaultRetainedEpochs = 100

// FileStateStore keeps snapshots and round journals as files in one directory.
//
// The state of a partition lies in partition-<n>.snapshot, and that of a barrier
// in partition-<n>-epoch-<e>.snapshot, in the container that all implementations
// of the library share. A file of the same name with .meta behind it tells what
// the state stands for and holds its checksum. Files and directory are synced
// before a save returns, and a save that a crash cuts short leaves the snapshot
// before it in place.
//
// One directory belongs to one consumer group, since its files are named by partition
// alone; its first member puts the group's name there. The members of the group that
// run on one machine share it: each partition belongs to the member that claimed it
// last. A member that goes by the name of a living one is refused, see [MemberStore]. A
// FileStateStore is safe for concurrent use by multiple goroutines.
type FileStateStore struct {
	directory string
	files     statefile.FileSystem
	retained  int

	mu         sync.Mutex // guards what follows
	partitions map[int]*statefile.Partition
}

var (
	_ JournalStore = (*FileStateStore)(nil)
	_ MemberStore  = (*FileStateStore)(nil)
)

// FileStateStoreOption configures a [FileStateStore].
type FileStateStoreOption func(*FileStateStore)

// WithStateGroup keeps the files in a directory named group below the store's,
// so that several consumer groups can use one directory. The characters outside
// A-Z, a-z, 0-9, dot, underscore and hyphen become underscores in the name.
func WithStateGroup(group string) FileStateStoreOption {
	return func(s *FileStateStore) {
		s.directory = filepath.Join(s.directory, directoryName(group))
	}
}

// WithRetainedEpochs sets how many barrier snapshots of a partition are kept.
// The default is 100; less than 1 is an error. The newest
// confirmed one is always kept.
func WithRetainedEpochs(epochs int) FileStateStoreOption {
	return func(s *FileStateStore) { s.retained = epochs }
}

// NewFileStateStore returns a store in directory, which is made at the first
// save.
func NewFileStateStore(directory string) *FileStateStore {
	return &FileStateStore{
		directory:  directory,
		files:      statefile.OS{},
		retained:   defaultRetainedEpochs,
		partitions: map[int]*statefile.Partition{},
	}
}

// OpenFileStateStore returns a store in directory with options. It makes the
// directory.
func OpenFileStateStore(directory string, options ...FileStateStoreOption) (*FileStateStore, error) {
	s := NewFileStateStore(directory)
	var errs []error
	if directory == "" {
		errs = append(errs, errors.New("columnar: a file state store needs a directory"))
	}
	for i, option := range options {
		if option == nil {
			errs = append(errs, fmt.Errorf("columnar: file state store option %d is nil", i))
			continue
		}
		option(s)
	}
	if s.retained < 1 {
		errs = append(errs, fmt.Errorf("columnar: %d retained epochs; at least one is needed", s.retained))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := s.makeDirectory(); err != nil {
		return nil, err
	}
	return s, nil
}

// Close closes the files of the store. The store holds no unsaved data, and may be
// used again.
func (s *FileStateStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range s.partitions {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Load returns the state saved for partition and epoch, and an empty map when
// there is none. Bytes that are not those that were saved are an error.
func (s *FileStateStore) Load(partition int, epoch int64) (map[string][]byte, error) {
	state := map[string][]byte{}
	err := s.exclusive(context.Background(), partition, func(p *statefile.Partition) error {
		loaded, err := p.Load(epoch, 0)
		if loaded != nil {
			state = loaded
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot load partition %d state: %w", partition, err)
	}
	return state, nil
}

// Save replaces what is stored for partition and epoch. A runner saves with
// [FileStateStore.SaveSnapshot] instead: it cannot recover from a snapshot
// without positions.
func (s *FileStateStore) Save(partition int, epoch int64, snapshot map[string][]byte) error {
	info := SnapshotInfo{Partition: partition, Epoch: epoch, TakenAt: time.Now()}
	err := s.exclusive(context.Background(), partition, func(p *statefile.Partition) error {
		if err := p.Scan(); err != nil {
			return err
		}
		_, err := p.Save(storedSnapshot(info), snapshot)
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot save partition %d state: %w", partition, err)
	}
	return nil
}

// Claim makes the caller the owner of partition: see [SnapshotStore]. It removes
// what saves that a crash cut short have left.
func (s *FileStateStore) Claim(ctx context.Context, partition int) (int64, error) {
	if err := s.makeDirectory(); err != nil {
		return 0, err
	}
	var generation int64
	err := s.exclusive(ctx, partition, func(p *statefile.Partition) error {
		if err := p.RemoveTemporaries(); err != nil {
			return err
		}
		var err error
		generation, err = p.Claim()
		return err
	})
	if err != nil {
		return 0, textPrefix.Wrap(err, "claiming state of partition %d", partition)
	}
	return generation, nil
}

// SaveSnapshot stores a snapshot durably: see [SnapshotStore].
func (s *FileStateStore) SaveSnapshot(ctx context.Context, info SnapshotInfo, state map[string][]byte) (SnapshotInfo, error) {
	var saved SnapshotInfo
	err := s.exclusive(ctx, info.Partition, func(p *statefile.Partition) error {
		if err := p.Own(info.Generation); err != nil {
			return err
		}
		stored, err := p.Save(storedSnapshot(info), state)
		if err != nil {
			return err
		}
		saved = info
		if saved.Sequence, saved.Bytes = stored.Sequence, stored.Bytes; !saved.Confirmed {
			return nil
		}
		return p.TrimJournal()
	})
	if err != nil {
		return SnapshotInfo{}, fmt.Errorf("cannot save partition %d state: %w", info.Partition, err)
	}
	return saved, nil
}

// Snapshots lists the snapshots of partition: see [SnapshotStore].
func (s *FileStateStore) Snapshots(ctx context.Context, partition int) ([]SnapshotInfo, error) {
	var infos []SnapshotInfo
	err := s.exclusive(ctx, partition, func(p *statefile.Partition) error {
		if err := p.Scan(); err != nil {
			return err
		}
		for _, stored := range p.Snapshots() {
			infos = append(infos, snapshotInfo(stored))
		}
		return nil
	})
	if err != nil {
		return nil, textPrefix.Wrap(err, "listing state of partition %d", partition)
	}
	return infos, nil
}

// LoadSnapshot returns the state of a listed snapshot: see [SnapshotStore].
func (s *FileStateStore) LoadSnapshot(ctx context.Context, info SnapshotInfo) (map[string][]byte, error) {
	var state map[string][]byte
	err := s.exclusive(ctx, info.Partition, func(p *statefile.Partition) error {
		var err error
		if err = info.Damage; err != nil {
			return err
		}
		state, err = p.Load(info.Epoch, info.Sequence)
		if state == nil && err == nil {
			err = &statefile.DamageError{Epoch: info.Epoch, Name: p.Container(info.Epoch), Cause: fs.ErrNotExist}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot load partition %d state: %w", info.Partition, err)
	}
	return state, nil
}

// ConfirmSnapshot marks a snapshot confirmed and deletes the barrier snapshots
// that retention does not keep: see [SnapshotStore].
func (s *FileStateStore) ConfirmSnapshot(ctx context.Context, info SnapshotInfo) error {
	err := s.exclusive(ctx, info.Partition, func(p *statefile.Partition) error {
		if err := p.Own(info.Generation); err != nil {
			return err
		}
		if err := p.Confirm(info.Epoch, info.Sequence); err != nil {
			return err
		}
		return p.Retain(s.retained)
	})
	if err != nil {
		return textPrefix.Wrap(err, "confirming state of partition %d at epoch %d", info.Partition, info.Epoch)
	}
	return nil
}

// Abandon makes newer snapshots unusable for recovery: see [SnapshotStore].
func (s *FileStateStore) Abandon(ctx context.Context, partition int, generation, sequence int64) error {
	err := s.exclusive(ctx, partition, func(p *statefile.Partition) error {
		if err := p.Own(generation); err != nil {
			return err
		}
		return p.Abandon(sequence)
	})
	if err != nil {
		return textPrefix.Wrap(err, "abandoning state of partition %d", partition)
	}
	return nil
}

// AppendRound adds a round to the journal: see [JournalStore].
func (s *FileStateStore) AppendRound(ctx context.Context, partition int, generation int64, round []byte) error {
	err := s.exclusive(ctx, partition, func(p *statefile.Partition) error {
		if err := p.Own(generation); err != nil {
			return err
		}
		return p.AppendRound(generation, round)
	})
	if err != nil {
		return textPrefix.Wrap(err, "writing the journal of partition %d", partition)
	}
	return nil
}

// Rounds returns the journal since a snapshot: see [JournalStore].
func (s *FileStateStore) Rounds(ctx context.Context, partition int, sequence int64) ([][]byte, error) {
	var rounds [][]byte
	err := s.exclusive(ctx, partition, func(p *statefile.Partition) error {
		var err error
		rounds, err = p.Rounds(sequence)
		return err
	})
	if err != nil {
		return nil, textPrefix.Wrap(err, "reading the journal of partition %d", partition)
	}
	return rounds, nil
}

func (s *FileStateStore) makeDirectory() error {
	if err := s.files.MakeDirectory(s.directory); err != nil {
		return textPrefix.Wrap(err, "state directory")
	}
	return nil
}

// ClaimMember locks a file for each name: see [MemberStore].
func (s *FileStateStore) ClaimMember(ctx context.Context, group string, names []string) (io.Closer, error) {
	if err := s.makeDirectory(); err != nil {
		return nil, err
	}
	claim, err := statefile.ClaimMember(ctx, s.files, s.directory, group, names)
	var used *statefile.MemberInUseError
	var other *statefile.OtherGroupError
	switch {
	case errors.As(err, &used):
		return nil, &MemberInUseError{Name: used.Name, Store: s.directory}
	case errors.As(err, &other):
		return nil, &StateGroupError{Group: group, Owner: other.Owner, Store: s.directory}
	case err != nil:
		return nil, textPrefix.Wrap(err, "claiming the state directory %s", s.directory)
	}
	return claim, nil
}

// exclusive runs f while neither this process nor another uses the files of
// partition.
func (s *FileStateStore) exclusive(ctx context.Context, partition int, f func(*statefile.Partition) error) error {
	if partition < 0 {
		return fmt.Errorf("partition number %d is negative", partition)
	}
	s.mu.Lock()
	p := s.partitions[partition]
	if p == nil {
		p = statefile.NewPartition(s.files, s.directory, partition)
		s.partitions[partition] = p
	}
	s.mu.Unlock()
	return storeError(partition, p.Exclusive(ctx, func() error { return f(p) }))
}

// storeError adds the partition to what statefile says about one of its files.
func storeError(partition int, err error) error {
	var stale *statefile.StaleOwnerError
	var damaged *statefile.DamageError
	switch {
	case errors.As(err, &stale):
		return &StaleOwnerError{Partition: partition, Generation: stale.Generation, Current: stale.Current}
	case errors.As(err, &damaged):
		return &DamagedSnapshotError{Partition: partition, Epoch: damaged.Epoch, Name: damaged.Name, Cause: damaged.Cause}
	}
	return err
}

// storedSnapshot is info as a sidecar holds it.
func storedSnapshot(info SnapshotInfo) statefile.Snapshot {
	stored := statefile.Snapshot{
		Partition: info.Partition, Epoch: info.Epoch, Group: info.Group,
		Sequence: info.Sequence, Generation: info.Generation, Round: info.Round,
		PartitionCounts: maps.Clone(info.PartitionCounts), Layout: maps.Clone(info.Layout),
		TakenAt: info.TakenAt.UnixMilli(), Confirmed: info.Confirmed, Abandoned: info.Abandoned,
	}
	for _, tp := range slices.SortedFunc(maps.Keys(info.Positions), compareTopicPartitions) {
		stored.Positions = append(stored.Positions, statefile.Position{Topic: tp.Topic, Partition: tp.Partition, Offset: info.Positions[tp]})
	}
	return stored
}

// snapshotInfo is the description that a sidecar holds.
func snapshotInfo(stored statefile.Snapshot) SnapshotInfo {
	info := SnapshotInfo{
		Partition: stored.Partition, Epoch: stored.Epoch, Group: stored.Group,
		Sequence: stored.Sequence, Generation: stored.Generation, Round: stored.Round,
		PartitionCounts: maps.Clone(stored.PartitionCounts), Layout: maps.Clone(stored.Layout),
		TakenAt: time.UnixMilli(stored.TakenAt), Bytes: stored.Bytes,
		Confirmed: stored.Confirmed, Abandoned: stored.Abandoned,
		Damage: storeError(stored.Partition, stored.Damage),
	}
	if len(stored.Positions) > 0 {
		info.Positions = make(map[TopicPartition]int64, len(stored.Positions))
		for _, position := range stored.Positions {
			info.Positions[TopicPartition{position.Topic, position.Partition}] = position.Offset
		}
	}
	return info
}

// directoryName maps a group's name to one path element.
func directoryName(group string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, group)
	if strings.Trim(name, ".") == "" {
		return "_" + name
	}
	return name
}

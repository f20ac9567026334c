// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"fmt"
	"io"
	"time"
)

// NoEpoch is the epoch of a snapshot that no barrier took.
const NoEpoch int64 = -1

// StateStore keeps the state of logical partitions: one map of node name to
// bytes for each partition and epoch. A logical partition is a partition number,
// shared by all topics of a topology.
//
// A store that is a [SnapshotStore] too lets a runner recover exactly after a
// crash; one that is not holds what a runner saves when it gives partitions up
// and at barriers. Beside the nodes, what is saved outside barriers has an entry of
// the runner's own, which says at which committed offsets the state stands: after a
// crash it is refused with a [*MissingStateError]. A runner calls a store from
// several goroutines, for different partitions.
type StateStore interface {
	// Load returns what was saved, and an empty map when nothing was. The caller
	// owns the map.
	Load(partition int, epoch int64) (map[string][]byte, error)
	// Save replaces what the store holds for partition and epoch. When it
	// returns nil the snapshot survives a crash. It does not keep the map.
	Save(partition int, epoch int64, snapshot map[string][]byte) error
}

// NoStateStore returns a store that loads nothing and saves nothing.
func NoStateStore() StateStore { return noStateStore{} }

type noStateStore struct{}

func (noStateStore) Load(int, int64) (map[string][]byte, error) {
	return map[string][]byte{}, nil
}

func (noStateStore) Save(int, int64, map[string][]byte) error { return nil }

// SnapshotInfo describes a stored snapshot without its state.
type SnapshotInfo struct {
	Partition int    // logical partition
	Epoch     int64  // NoEpoch outside barriers
	Group     string // barrier group; empty outside barriers

	// Sequence orders the snapshots of a partition: a later one has a higher
	// sequence. The store sets it, from 1.
	Sequence int64
	// Generation is the claim under which the snapshot was saved.
	Generation int64
	// Round is the number of journal rounds that the state contains.
	Round int64

	// Positions are the offsets behind the records that the state contains. A
	// snapshot without positions cannot be recovered from.
	Positions map[TopicPartition]int64
	// PartitionCounts are the partition counts of the source topics, where known.
	PartitionCounts map[string]int
	// Layout identifies the configuration of each stateful node.
	Layout map[string]string

	TakenAt time.Time
	Bytes   int64 // encoded size of the state

	// Confirmed says that the offsets of Positions were committed. A barrier
	// snapshot is saved before its commit and confirmed after it.
	Confirmed bool
	// Abandoned says that the runner went back behind the snapshot. Recovery
	// does not use it; a restore to its epoch may.
	Abandoned bool
	// Damage says why the snapshot cannot be loaded; nil when nothing is known
	// to be wrong with it.
	Damage error
}

// SnapshotStore is a [StateStore] that knows what each snapshot stands for. A
// runner finds it by type assertion, and writes the state of several partitions at
// once, beside its rounds: a SnapshotStore is safe for concurrent use by multiple
// goroutines.
type SnapshotStore interface {
	StateStore
	// Claim makes the caller the owner of a partition and returns its
	// generation, which is above every generation before. From then on, saves
	// under an older generation are refused.
	Claim(ctx context.Context, partition int) (generation int64, err error)
	// SaveSnapshot stores state under info's partition and epoch, sets the
	// sequence, and returns the stored info. The snapshot that it replaces stays
	// loadable until the new one is complete. A generation below the claimed one
	// is a [*StaleOwnerError]. It does not keep info or state.
	SaveSnapshot(ctx context.Context, info SnapshotInfo, state map[string][]byte) (SnapshotInfo, error)
	// Snapshots lists what is stored for a partition, the highest sequence
	// first. Snapshots known to be damaged are listed with their Damage.
	Snapshots(ctx context.Context, partition int) ([]SnapshotInfo, error)
	// LoadSnapshot returns the state of a listed snapshot. Bytes that are not
	// those that were saved are a [*DamagedSnapshotError]. The caller owns the
	// map.
	LoadSnapshot(ctx context.Context, info SnapshotInfo) (map[string][]byte, error)
	// ConfirmSnapshot marks a saved snapshot confirmed, and may delete the
	// oldest ones that retention does not keep. The generation in info is the
	// caller's: one below the claimed one is a [*StaleOwnerError].
	ConfirmSnapshot(ctx context.Context, info SnapshotInfo) error
	// Abandon makes every snapshot of a partition with a higher sequence
	// unusable for recovery. Unconfirmed ones may be deleted.
	Abandon(ctx context.Context, partition int, generation, sequence int64) error
}

// MemberStore is a [StateStore] that keeps processes apart which go by the same name.
type MemberStore interface {
	StateStore
	// ClaimMember makes the caller the only one that goes by each name, until the
	// closer is closed or the process ends. It is a [*MemberInUseError] where somebody
	// else does, in this process or another, and a [*StateGroupError] where the store
	// holds the state of another group. After an error nothing is claimed.
	ClaimMember(ctx context.Context, group string, names []string) (io.Closer, error)
}

// MemberInUseError says that another runner goes by the name of this one: joining
// would have ended it.
type MemberInUseError struct {
	Name  string
	Store string // where the claim is
}

func (e *MemberInUseError) Error() string {
	return fmt.Sprintf("columnar: another runner goes by the %s, with its state in %s: end that one, or give this one names of its own", e.Name, e.Store)
}

// StateGroupError says that a store holds the state of another consumer group.
type StateGroupError struct {
	Group string // that was to use the store
	Owner string // whose state the store holds
	Store string
}

func (e *StateGroupError) Error() string {
	return fmt.Sprintf("columnar: the state in %s is that of group %q: give group %q a store of its own, as WithStateGroup does", e.Store, e.Owner, e.Group)
}

// JournalStore is a [SnapshotStore] that keeps a journal of rounds beside the
// snapshots, for topologies whose state depends on how the records of several
// topics interleave. A runner finds it by type assertion.
type JournalStore interface {
	SnapshotStore
	// AppendRound adds one encoded round. When it returns nil the round survives
	// a crash. A generation below the claimed one is a [*StaleOwnerError]. It
	// does not keep round.
	AppendRound(ctx context.Context, partition int, generation int64, round []byte) error
	// Rounds returns the rounds appended after the snapshot of sequence was
	// saved, in order. Rounds that may lie before that snapshot can come first. A
	// round whose append did not complete is left out.
	Rounds(ctx context.Context, partition int, sequence int64) ([][]byte, error)
}

// StaleOwnerError says that a save was refused because another owner has
// claimed the partition since.
type StaleOwnerError struct {
	Partition  int
	Generation int64 // of the refused save
	Current    int64 // of the present owner
}

func (e *StaleOwnerError) Error() string {
	return fmt.Sprintf("columnar: state of partition %d belongs to generation %d; a save of generation %d is refused",
		e.Partition, e.Current, e.Generation)
}

// DamagedSnapshotError says that a stored snapshot, or what is stored beside
// it, is not what was saved.
type DamagedSnapshotError struct {
	Partition int
	Epoch     int64
	Name      string // file or key
	Cause     error
}

func (e *DamagedSnapshotError) Error() string {
	if e.Epoch == NoEpoch {
		return fmt.Sprintf("columnar: snapshot of partition %d is damaged: %s: %s", e.Partition, e.Name, textPrefix.Quote(e.Cause))
	}
	return fmt.Sprintf("columnar: snapshot of partition %d at epoch %d is damaged: %s: %s", e.Partition, e.Epoch, e.Name, textPrefix.Quote(e.Cause))
}

// Unwrap returns what is wrong with the snapshot.
func (e *DamagedSnapshotError) Unwrap() error { return e.Cause }

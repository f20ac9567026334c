// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// DefaultRetainedSnapshots is how many barrier snapshots of a partition a
// [StateStore] keeps.
const DefaultRetainedSnapshots = 10

// WithRetainedSnapshots sets how many barrier snapshots of a partition a
// [StateStore] keeps. The default is [DefaultRetainedSnapshots]. The newest
// confirmed one is always kept.
func WithRetainedSnapshots(epochs int) kgo.Opt {
	return newOption("WithRetainedSnapshots", forStore, func(s *settings) error {
		if epochs < 1 {
			return &OptionError{Option: "WithRetainedSnapshots", Have: epochs, Want: "at least 1"}
		}
		s.retainedSnapshots = epochs
		return nil
	})
}

// StateStore keeps snapshots and round journals in a compacted topic, so that
// state follows its partition from one process to another. It is a
// [columnar.JournalStore].
//
// State is cut into records of 512 KiB at most, and a manifest behind them makes
// a snapshot complete. What belongs to one logical partition lies in one
// partition of the topic, its number modulo the topic's partition count, which
// must not change. The order of that log decides between owners: what an owner
// writes behind the claim of a newer one counts for nobody, and the owner is
// told by a [columnar.StaleOwnerError].
//
// One topic belongs to the members of one consumer group. A store reads the
// partitions that it is asked about once from their start, and from then on what
// is new. A StateStore is safe for concurrent use by multiple goroutines. The
// zero value is not usable.
type StateStore struct {
	*connection         // produces
	reader      *Reader // follows the log
	loader      *Reader // fetches what was stored
	topic       string

	turn       chan struct{} // holds a token while a call uses what follows
	partitions int           // of the topic; 0 until known
	indexes    map[int]*stateIndex

	loading chan struct{} // holds a token while a call uses the loader
}

var _ columnar.JournalStore = (*StateStore)(nil)

// NewStateStore returns a store in topic, which [StateStore.EnsureTopic] makes.
// It does not talk to a broker yet. The caller closes it.
//
// Options of a producer and of a reader that the adapter owns may not be
// changed, as in [NewProducer] and [NewReader]: an [OptionError] names each.
func NewStateStore(topic string, opts ...kgo.Opt) (*StateStore, error) {
	if topic == "" {
		return nil, errors.New("kafka: a state store needs a topic")
	}
	own, callers, err := splitOptions(opts, forStore)
	if err != nil {
		return nil, err
	}
	reader, err := NewReader(callers...)
	if err != nil {
		return nil, err
	}
	loader, err := NewReader(callers...)
	if err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	c, err := connect(forProducer, callers, append(producing(), owned{name: "TransactionalID", want: ""}),
		[]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0)}, kgo.NewClient)
	if err != nil {
		return nil, errors.Join(err, reader.Close(), loader.Close())
	}
	c.settings = own
	return &StateStore{
		connection: c,
		reader:     reader,
		loader:     loader,
		topic:      topic,
		turn:       make(chan struct{}, 1),
		indexes:    map[int]*stateIndex{},
		loading:    make(chan struct{}, 1),
	}, nil
}

// EnsureTopic creates the topic, compacted and with a number of partitions, or
// checks that the existing one is compacted: otherwise the error is a
// [TopicConfigError].
func (s *StateStore) EnsureTopic(ctx context.Context, partitions int) error {
	return s.ensureCompacted(ctx, s.topic, partitions)
}

// Close ends the clients. It must not be called while another call runs.
func (s *StateStore) Close() error {
	s.client.Close()
	s.cancel()
	return errors.Join(s.reader.Close(), s.loader.Close())
}

// Load returns the newest state saved for partition and epoch, and an empty map
// when there is none. It is bounded by [WithCallTimeout].
func (s *StateStore) Load(partition int, epoch int64) (map[string][]byte, error) {
	ctx, cancel := s.bounded()
	defer cancel()
	infos, err := s.Snapshots(ctx, partition)
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if info.Epoch == epoch {
			return s.LoadSnapshot(ctx, info)
		}
	}
	return map[string][]byte{}, nil
}

// Save replaces what is stored for partition and epoch, as the present owner. It
// is bounded by [WithCallTimeout]. A runner saves with
// [StateStore.SaveSnapshot] instead: it cannot recover from a snapshot without
// positions.
func (s *StateStore) Save(partition int, epoch int64, snapshot map[string][]byte) error {
	ctx, cancel := s.bounded()
	defer cancel()
	info := columnar.SnapshotInfo{Partition: partition, Epoch: epoch, TakenAt: time.Now()}
	if err := s.current(ctx, partition, func(x *stateIndex) { info.Generation = x.generation }); err != nil {
		return err
	}
	_, err := s.SaveSnapshot(ctx, info, snapshot)
	return err
}

// Claim makes the caller the owner of partition: see [columnar.SnapshotStore].
// It deletes what owners before left unfinished.
func (s *StateStore) Claim(ctx context.Context, partition int) (int64, error) {
	for {
		key := stateKey{kind: stateClaim, partition: int32(partition)}
		if err := s.current(ctx, partition, func(x *stateIndex) { key.writer = x.generation + 1 }); err != nil {
			return 0, err
		}
		offset, err := s.write(ctx, key, []byte{1})
		if err != nil {
			return 0, err
		}
		var accepted bool
		var before, claims []stateKey
		err = s.behind(ctx, partition, offset, func(x *stateIndex) {
			accepted = x.claims[key.writer] == offset
			before, claims = x.garbage(key.writer)
		})
		if err != nil {
			return 0, err
		}
		if !accepted {
			continue // another owner was faster
		}
		for i := range claims {
			claims[i].partition = int32(partition)
		}
		if err := s.remove(ctx, partition, before); err != nil {
			return 0, err
		}
		if err := s.remove(ctx, partition, claims); err != nil {
			return 0, err
		}
		return key.writer, nil
	}
}

// SaveSnapshot stores a snapshot: see [columnar.SnapshotStore].
func (s *StateStore) SaveSnapshot(ctx context.Context, info columnar.SnapshotInfo, state map[string][]byte) (columnar.SnapshotInfo, error) {
	if info.Epoch < columnar.NoEpoch {
		return columnar.SnapshotInfo{}, fmt.Errorf("kafka: save partition %d: epoch %d is negative", info.Partition, info.Epoch)
	}
	key := stateKey{kind: stateManifest, partition: int32(info.Partition), writer: info.Generation, generation: info.Generation}
	err := s.known(ctx, info.Partition, info.Generation, func(x *stateIndex) {
		x.sequence++ // so that saves at the same time do not share a number
		key.sequence = x.sequence
	})
	if err != nil {
		return columnar.SnapshotInfo{}, err
	}
	snapshot := newStateSnapshot(info, state)
	if snapshot.First, snapshot.Last, err = s.writeChunks(ctx, key, snapshot.Nodes, state); err != nil {
		return columnar.SnapshotInfo{}, err
	}
	value, err := json.Marshal(snapshot)
	if err != nil {
		return columnar.SnapshotInfo{}, textPrefix.Wrap(err, "save partition %d", info.Partition)
	}
	offset, err := s.write(ctx, key, value)
	if err != nil {
		return columnar.SnapshotInfo{}, err
	}
	var drop []stateKey
	err = s.owned(ctx, info.Partition, info.Generation, offset, func(x *stateIndex) {
		for _, old := range x.superseded(info.Epoch) {
			drop = append(drop, x.keys(old)...)
		}
	})
	if err != nil {
		return columnar.SnapshotInfo{}, err
	}
	if err := s.remove(ctx, info.Partition, drop); err != nil {
		return columnar.SnapshotInfo{}, err
	}
	return snapshot.info(key), nil
}

// writeChunks stores the state of nodes and returns the offsets of the first and
// the last record.
func (s *StateStore) writeChunks(ctx context.Context, key stateKey, nodes []stateNode, state map[string][]byte) (first, last int64, err error) {
	var records []*kgo.Record
	for i, node := range nodes {
		for index, chunk := range slices.Collect(slices.Chunk(state[node.Name], stateChunkBytes)) {
			records = append(records, s.record(key.chunk(i, int64(index)), chunk))
		}
	}
	if len(records) == 0 {
		return 0, -1, nil
	}
	if err := s.produce(ctx, records); err != nil {
		return 0, 0, err
	}
	first, last = records[0].Offset, records[0].Offset
	for _, r := range records {
		first, last = min(first, r.Offset), max(last, r.Offset)
	}
	return first, last, nil
}

// Snapshots lists the snapshots of partition: see [columnar.SnapshotStore].
func (s *StateStore) Snapshots(ctx context.Context, partition int) ([]columnar.SnapshotInfo, error) {
	var infos []columnar.SnapshotInfo
	err := s.current(ctx, partition, func(x *stateIndex) {
		for _, stored := range x.newestFirst() {
			info := stored.describe()
			if stored.damage != nil {
				info.Damage = s.damaged(info, stored.damage)
			}
			infos = append(infos, info)
		}
	})
	return infos, err
}

func (s *StateStore) damaged(info columnar.SnapshotInfo, cause error) error {
	return &columnar.DamagedSnapshotError{
		Partition: info.Partition, Epoch: info.Epoch,
		Name:  fmt.Sprintf("%s generation %d sequence %d", s.topic, info.Generation, info.Sequence),
		Cause: cause,
	}
}

// LoadSnapshot returns the state of a listed snapshot: see
// [columnar.SnapshotStore].
func (s *StateStore) LoadSnapshot(ctx context.Context, info columnar.SnapshotInfo) (map[string][]byte, error) {
	var stored *storedSnapshot
	err := s.current(ctx, info.Partition, func(x *stateIndex) {
		if found := x.snapshots[snapshotID{info.Generation, info.Sequence}]; found != nil {
			copied := *found
			stored = &copied
		}
	})
	switch {
	case err != nil:
		return nil, err
	case stored == nil:
		return nil, s.damaged(info, errors.New("it is not there any more"))
	case stored.damage != nil:
		return nil, s.damaged(info, stored.damage)
	}
	state := make(map[string][]byte, len(stored.Nodes))
	next := make([]int64, len(stored.Nodes)) // chunk that each node waits for
	for _, node := range stored.Nodes {
		state[node.Name] = []byte{}
	}
	var problem error
	if stored.Last >= stored.First {
		err = s.fetch(ctx, info.Partition, stored.First, stored.Last, func(key stateKey, value []byte, _ int64) {
			if key.kind != stateChunk || key.generation != info.Generation || key.sequence != info.Sequence || key.partition != int32(info.Partition) {
				return
			}
			if key.node >= int64(len(stored.Nodes)) || key.index != next[key.node] {
				problem = fmt.Errorf("chunk %d of node %d is out of place", key.index, key.node)
				return
			}
			next[key.node]++
			node := stored.Nodes[key.node]
			if int64(len(state[node.Name])+len(value)) > node.Bytes {
				problem = fmt.Errorf("state of node %.100q is longer than what was saved", node.Name)
				return
			}
			state[node.Name] = append(state[node.Name], value...)
		})
	}
	if err != nil {
		return nil, err
	}
	for _, node := range stored.Nodes {
		if problem == nil && (int64(len(state[node.Name])) != node.Bytes || crc32.Checksum(state[node.Name], castagnoli) != node.Checksum) {
			problem = fmt.Errorf("state of node %.100q is not what was saved", node.Name)
		}
	}
	if problem != nil {
		return nil, s.damaged(info, problem)
	}
	return state, nil
}

// ConfirmSnapshot marks a snapshot confirmed and deletes what retention does not
// keep: see [columnar.SnapshotStore].
func (s *StateStore) ConfirmSnapshot(ctx context.Context, info columnar.SnapshotInfo) error {
	var id snapshotID
	err := s.known(ctx, info.Partition, info.Generation, func(x *stateIndex) {
		for _, stored := range x.newestFirst() {
			if stored.key.sequence == info.Sequence {
				id = snapshotID{stored.key.generation, stored.key.sequence}
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if id.sequence == 0 {
		return s.damaged(info, fmt.Errorf("no snapshot of sequence %d", info.Sequence))
	}
	offset, err := s.write(ctx, s.mark(stateConfirm, info.Partition, info.Generation, id), []byte{1})
	if err != nil {
		return err
	}
	var drop []stateKey
	err = s.owned(ctx, info.Partition, info.Generation, offset, func(x *stateIndex) {
		for _, old := range append(x.expired(s.settings.retainedSnapshots), x.superseded(columnar.NoEpoch)...) {
			drop = append(drop, x.keys(old)...)
		}
		drop = append(drop, x.outdatedRounds()...)
	})
	if err != nil {
		return err
	}
	return s.remove(ctx, info.Partition, drop)
}

// mark returns the key of a record about a snapshot, which nobody writes twice.
func (s *StateStore) mark(kind stateKind, partition int, writer int64, id snapshotID) stateKey {
	var unique [8]byte
	rand.Read(unique[:])
	return stateKey{
		kind: kind, partition: int32(partition), writer: writer, generation: id.generation, sequence: id.sequence,
		index: int64(binary.BigEndian.Uint64(unique[:]) >> 1),
	}
}

// Abandon makes newer snapshots unusable for recovery: see
// [columnar.SnapshotStore].
func (s *StateStore) Abandon(ctx context.Context, partition int, generation, sequence int64) error {
	var records []*kgo.Record
	var drop []stateKey
	err := s.known(ctx, partition, generation, func(x *stateIndex) {
		for _, stored := range x.newestFirst() {
			switch {
			case stored.key.sequence <= sequence || stored.abandoned:
			case stored.Epoch == columnar.NoEpoch || !stored.confirmed:
				drop = append(drop, x.keys(stored)...)
			default:
				id := snapshotID{stored.key.generation, stored.key.sequence}
				records = append(records, s.record(s.mark(stateAbandon, partition, generation, id), []byte{1}))
			}
		}
	})
	if err != nil {
		return err
	}
	if len(records) > 0 {
		if err := s.produce(ctx, records); err != nil {
			return err
		}
		if err := s.owned(ctx, partition, generation, records[len(records)-1].Offset, func(*stateIndex) {}); err != nil {
			return err
		}
	}
	return s.remove(ctx, partition, drop)
}

// AppendRound adds a round to the journal: see [columnar.JournalStore].
func (s *StateStore) AppendRound(ctx context.Context, partition int, generation int64, round []byte) error {
	if len(round) > maxStateRound {
		return fmt.Errorf("kafka: journal of partition %d: a round of %d bytes is more than %d", partition, len(round), maxStateRound)
	}
	key := stateKey{kind: stateRound, partition: int32(partition), writer: generation}
	err := s.known(ctx, partition, generation, func(x *stateIndex) {
		x.round++
		key.sequence = x.round
	})
	if err != nil {
		return err
	}
	// An empty value would be a deletion.
	offset, err := s.write(ctx, key, append([]byte{1}, round...))
	if err != nil {
		return err
	}
	return s.owned(ctx, partition, generation, offset, func(*stateIndex) {})
}

// Rounds returns the journal since a snapshot: see [columnar.JournalStore].
func (s *StateStore) Rounds(ctx context.Context, partition int, sequence int64) ([][]byte, error) {
	wanted := map[int64]stateKey{} // by offset
	err := s.current(ctx, partition, func(x *stateIndex) {
		for _, r := range x.rounds {
			if r.sequence >= sequence {
				wanted[r.offset] = r.key
			}
		}
	})
	if err != nil || len(wanted) == 0 {
		return nil, err
	}
	offsets := slices.Sorted(maps.Keys(wanted))
	var rounds [][]byte
	err = s.fetch(ctx, partition, offsets[0], offsets[len(offsets)-1], func(key stateKey, value []byte, offset int64) {
		if wanted[offset] == key && len(value) > 0 {
			rounds = append(rounds, bytes.Clone(value[1:]))
		}
	})
	if err == nil && len(rounds) != len(wanted) {
		err = fmt.Errorf("kafka: journal of partition %d in %s: %d rounds of %d are there", partition, s.topic, len(rounds), len(wanted))
	}
	return rounds, err
}

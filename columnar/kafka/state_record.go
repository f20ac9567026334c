// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// stateKind tells the records of a state topic apart. No two writers ever write
// the same key, so that compaction never removes a record in favour of one that
// came too late to count.
type stateKind uint16

const (
	stateClaim    stateKind = 0 // an owner takes a partition
	stateChunk    stateKind = 1 // a part of a node's state
	stateManifest stateKind = 2 // a snapshot is complete
	stateRound    stateKind = 3 // a round of the journal
	stateConfirm  stateKind = 4 // the offsets of a snapshot are committed
	stateAbandon  stateKind = 5 // recovery must not use a snapshot
)

const (
	stateVersion  = 0
	stateKeyBytes = 48
	// stateChunkBytes is how much state one record carries: well below what
	// brokers accept by default.
	stateChunkBytes = 512 << 10
	// maxStateRound bounds one round of the journal.
	maxStateRound = 900 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stateKey is the key of a record: version 0 and kind, 16 bits each, then the
// logical partition in 32 bits and five numbers of 64 bits.
type stateKey struct {
	kind       stateKind
	partition  int32
	writer     int64 // generation of the owner that wrote the record
	generation int64 // of the snapshot that it is about
	sequence   int64 // of the snapshot; of a round, its number
	node       int64 // of a chunk
	index      int64 // of a chunk; of a mark, something unique
}

func (k stateKey) encode() []byte {
	b := make([]byte, 0, stateKeyBytes)
	b = binary.BigEndian.AppendUint16(b, stateVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(k.kind))
	b = binary.BigEndian.AppendUint32(b, uint32(k.partition))
	for _, n := range []int64{k.writer, k.generation, k.sequence, k.node, k.index} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// decodeStateKey reads a key. It accepts what encode writes and nothing else.
func decodeStateKey(b []byte) (stateKey, error) {
	if len(b) != stateKeyBytes {
		return stateKey{}, fmt.Errorf("state key of %d bytes", len(b))
	}
	if v := binary.BigEndian.Uint16(b); v != stateVersion {
		return stateKey{}, fmt.Errorf("unsupported state key version %d", v)
	}
	k := stateKey{kind: stateKind(binary.BigEndian.Uint16(b[2:])), partition: int32(binary.BigEndian.Uint32(b[4:]))}
	if k.kind > stateAbandon {
		return stateKey{}, fmt.Errorf("unknown state record kind %d", k.kind)
	}
	numbers := b[8:]
	for _, n := range []*int64{&k.writer, &k.generation, &k.sequence, &k.node, &k.index} {
		*n = int64(binary.BigEndian.Uint64(numbers))
		numbers = numbers[8:]
	}
	if k.partition < 0 || k.writer < 0 || k.generation < 0 || k.sequence < 0 || k.node < 0 || k.index < 0 {
		return stateKey{}, fmt.Errorf("negative number in state key")
	}
	return k, nil
}

// stateSnapshot is the value of a manifest.
type stateSnapshot struct {
	Epoch           int64             `json:"epoch"`
	Group           string            `json:"group,omitempty"`
	Round           int64             `json:"round"`
	Positions       []statePosition   `json:"positions,omitempty"`
	PartitionCounts map[string]int    `json:"partitionCounts,omitempty"`
	Layout          map[string]string `json:"layout,omitempty"`
	TakenAt         int64             `json:"takenAt"` // milliseconds since the Unix epoch
	Confirmed       bool              `json:"confirmed,omitempty"`
	Nodes           []stateNode       `json:"nodes,omitempty"`
	First           int64             `json:"first"` // offset of the first chunk
	Last            int64             `json:"last"`  // offset of the last chunk; below First when there is none
}

type statePosition struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
}

type stateNode struct {
	Name     string `json:"name"`
	Bytes    int64  `json:"bytes"`
	Chunks   int64  `json:"chunks"`
	Checksum uint32 `json:"crc32c"`
}

func newStateSnapshot(info columnar.SnapshotInfo, state map[string][]byte) stateSnapshot {
	s := stateSnapshot{
		Epoch: info.Epoch, Group: info.Group, Round: info.Round, TakenAt: info.TakenAt.UnixMilli(), Confirmed: info.Confirmed,
		PartitionCounts: info.PartitionCounts, Layout: info.Layout, Last: -1,
	}
	for _, tp := range slices.SortedFunc(maps.Keys(info.Positions), comparePartitions) {
		s.Positions = append(s.Positions, statePosition{tp.Topic, tp.Partition, info.Positions[tp]})
	}
	for _, name := range slices.Sorted(maps.Keys(state)) {
		s.Nodes = append(s.Nodes, stateNode{
			Name:     name,
			Bytes:    int64(len(state[name])),
			Chunks:   int64((len(state[name]) + stateChunkBytes - 1) / stateChunkBytes),
			Checksum: crc32.Checksum(state[name], castagnoli),
		})
	}
	return s
}

// decodeStateSnapshot reads a manifest and refuses numbers that cannot be.
func decodeStateSnapshot(value []byte) (stateSnapshot, error) {
	var s stateSnapshot
	if err := json.Unmarshal(value, &s); err != nil {
		return stateSnapshot{}, fmt.Errorf("manifest: %w", err)
	}
	if s.Epoch < columnar.NoEpoch || s.First < 0 || s.Last < -1 {
		return stateSnapshot{}, fmt.Errorf("manifest with epoch %d, offsets %d to %d", s.Epoch, s.First, s.Last)
	}
	chunks := int64(0)
	for _, n := range s.Nodes {
		if n.Bytes < 0 || n.Chunks != n.Bytes/stateChunkBytes+min(1, n.Bytes%stateChunkBytes) {
			return stateSnapshot{}, fmt.Errorf("manifest with %d bytes in %d chunks of node %.100q", n.Bytes, n.Chunks, n.Name)
		}
		chunks += n.Chunks
	}
	// Each chunk has an offset of its own between the two.
	if chunks > s.Last-s.First+1 && chunks > 0 {
		return stateSnapshot{}, fmt.Errorf("manifest with %d chunks at offsets %d to %d", chunks, s.First, s.Last)
	}
	return s, nil
}

func (s stateSnapshot) info(key stateKey) columnar.SnapshotInfo {
	info := columnar.SnapshotInfo{
		Partition: int(key.partition), Epoch: s.Epoch, Group: s.Group,
		Sequence: key.sequence, Generation: key.generation, Round: s.Round,
		PartitionCounts: maps.Clone(s.PartitionCounts), Layout: maps.Clone(s.Layout),
		TakenAt: time.UnixMilli(s.TakenAt), Confirmed: s.Confirmed,
	}
	for _, n := range s.Nodes {
		info.Bytes += n.Bytes
	}
	if len(s.Positions) > 0 {
		info.Positions = make(map[columnar.TopicPartition]int64, len(s.Positions))
		for _, p := range s.Positions {
			info.Positions[columnar.TopicPartition{Topic: p.Topic, Partition: p.Partition}] = p.Offset
		}
	}
	return info
}

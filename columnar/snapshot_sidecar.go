// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"
)

const sidecarVersion = 1

// castagnoli is the table of CRC-32C, which current processors compute in
// hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sidecarEntry is what a sidecar says about one container. A sidecar is written
// before the container that it announces, so it also keeps the entries of the
// containers that may still be in place; each container is told from the others
// by its length and checksum.
type sidecarEntry struct {
	Partition  int    `json:"partition"`
	Epoch      int64  `json:"epoch"`
	Group      string `json:"group,omitempty"`
	Sequence   int64  `json:"sequence"`
	Generation int64  `json:"generation"`
	Round      int64  `json:"round"`

	Positions       []sidecarPosition `json:"positions,omitempty"`
	PartitionCounts map[string]int    `json:"partitionCounts,omitempty"`
	Layout          map[string]string `json:"layout,omitempty"`

	TakenAt   int64  `json:"takenAt"` // milliseconds since the Unix epoch
	Bytes     int64  `json:"bytes"`
	Checksum  uint32 `json:"crc32c"`
	Confirmed bool   `json:"confirmed,omitempty"`
	Abandoned bool   `json:"abandoned,omitempty"`
}

type sidecarPosition struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
}

type sidecarFile struct {
	Version   int            `json:"version"`
	Snapshots []sidecarEntry `json:"snapshots"`
}

func newSidecarEntry(info SnapshotInfo, checksum uint32) sidecarEntry {
	entry := sidecarEntry{
		Partition: info.Partition, Epoch: info.Epoch, Group: info.Group,
		Sequence: info.Sequence, Generation: info.Generation, Round: info.Round,
		PartitionCounts: maps.Clone(info.PartitionCounts), Layout: maps.Clone(info.Layout),
		TakenAt: info.TakenAt.UnixMilli(), Bytes: info.Bytes, Checksum: checksum,
		Confirmed: info.Confirmed, Abandoned: info.Abandoned,
	}
	for _, tp := range slices.SortedFunc(maps.Keys(info.Positions), compareTopicPartitions) {
		entry.Positions = append(entry.Positions, sidecarPosition{tp.Topic, tp.Partition, info.Positions[tp]})
	}
	return entry
}

func (e sidecarEntry) info() SnapshotInfo {
	info := SnapshotInfo{
		Partition: e.Partition, Epoch: e.Epoch, Group: e.Group,
		Sequence: e.Sequence, Generation: e.Generation, Round: e.Round,
		PartitionCounts: maps.Clone(e.PartitionCounts), Layout: maps.Clone(e.Layout),
		TakenAt: time.UnixMilli(e.TakenAt), Bytes: e.Bytes,
		Confirmed: e.Confirmed, Abandoned: e.Abandoned,
	}
	if len(e.Positions) > 0 {
		info.Positions = make(map[TopicPartition]int64, len(e.Positions))
		for _, position := range e.Positions {
			info.Positions[TopicPartition{position.Topic, position.Partition}] = position.Offset
		}
	}
	return info
}

func encodeSidecar(entries []sidecarEntry) ([]byte, error) {
	body, err := json.Marshal(sidecarFile{Version: sidecarVersion, Snapshots: entries})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(body, "\ncrc32c %08x\n", crc32.Checksum(body, castagnoli)), nil
}

// decodeSidecar reads a sidecar: one line of JSON and one with its checksum.
func decodeSidecar(data []byte) ([]sidecarEntry, error) {
	body, trailer, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return nil, errors.New("sidecar is truncated")
	}
	if want := fmt.Appendf(nil, "crc32c %08x\n", crc32.Checksum(body, castagnoli)); !bytes.Equal(trailer, want) {
		return nil, errors.New("sidecar does not match its checksum")
	}
	var file sidecarFile
	if err := json.Unmarshal(body, &file); err != nil {
		return nil, fmt.Errorf("sidecar cannot be read: %w", err)
	}
	if file.Version != sidecarVersion {
		return nil, fmt.Errorf("unsupported sidecar version %d", file.Version)
	}
	for _, entry := range file.Snapshots {
		if entry.Sequence < 1 || entry.Bytes < containerHeader || entry.Epoch < NoEpoch {
			return nil, fmt.Errorf("sidecar entry of sequence %d is not valid", entry.Sequence)
		}
	}
	return file.Snapshots, nil
}

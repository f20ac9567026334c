// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

const sidecarVersion = 1

// NoEpoch is the epoch of a snapshot that no barrier took.
const NoEpoch int64 = -1

// castagnoli is the table of CRC-32C, which current processors compute in
// hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot describes a stored container, as its sidecar does. A sidecar is
// written before the container that it announces, so it also keeps the entries of
// the containers that may still be in place; each container is told from the
// others by its length and checksum.
type Snapshot struct {
	Partition  int    `json:"partition"`
	Epoch      int64  `json:"epoch"` // NoEpoch outside barriers
	Group      string `json:"group,omitempty"`
	Sequence   int64  `json:"sequence"` // from 1; 0 for a container without a sidecar
	Generation int64  `json:"generation"`
	Round      int64  `json:"round"`

	Positions       []Position        `json:"positions,omitempty"`
	PartitionCounts map[string]int    `json:"partitionCounts,omitempty"`
	Layout          map[string]string `json:"layout,omitempty"`

	TakenAt   int64  `json:"takenAt"` // milliseconds since the Unix epoch
	Bytes     int64  `json:"bytes"`   // set by Save
	Checksum  uint32 `json:"crc32c"`  // set by Save
	Confirmed bool   `json:"confirmed,omitempty"`
	Abandoned bool   `json:"abandoned,omitempty"`

	// Damage says why the container cannot be loaded, or is nil.
	Damage error `json:"-"`
}

// Position is the offset behind the records of one partition of a topic that a
// state contains.
type Position struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
}

type sidecarFile struct {
	Version   int        `json:"version"`
	Snapshots []Snapshot `json:"snapshots"`
}

func encodeSidecar(entries []Snapshot) ([]byte, error) {
	body, err := json.Marshal(sidecarFile{Version: sidecarVersion, Snapshots: entries})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(body, "\ncrc32c %08x\n", crc32.Checksum(body, castagnoli)), nil
}

// decodeSidecar reads a sidecar: one line of JSON and one with its checksum.
func decodeSidecar(data []byte) ([]Snapshot, error) {
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

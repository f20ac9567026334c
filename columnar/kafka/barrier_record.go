// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// Kinds of records of the barrier state topic. All keys have one shape: version
// 0, kind, group, epoch.
const (
	barrierGroupKind int16 = 0 // a group with its last epoch; the key's epoch is -1
	barrierCutKind   int16 = 2 // a cut manifest

	barrierGroupEpoch int64 = -1
	noInterval        int64 = -1 // of a group whose cuts are taken on demand
)

// barrierGroup is the definition of a barrier group as the topic holds it.
type barrierGroup struct {
	topics    []string
	interval  time.Duration // zero for cuts on demand
	retained  int32
	lastEpoch int64
}

// checkBarrierString refuses what the layout cannot hold.
func checkBarrierString(what, s string) error {
	if s == "" || len(s) > math.MaxInt16 || !utf8.ValidString(s) {
		return fmt.Errorf("kafka: %s %.40q is empty, not UTF-8 or longer than %d bytes", what, s, math.MaxInt16)
	}
	return nil
}

func appendBarrierString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// encodeBarrierKey returns the key of a record. group is checked by the caller.
func encodeBarrierKey(kind int16, group string, epoch int64) []byte {
	b := binary.BigEndian.AppendUint16(nil, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(kind))
	b = appendBarrierString(b, group)
	return binary.BigEndian.AppendUint64(b, uint64(epoch))
}

// encodeBarrierCut returns the manifest of a cut.
func encodeBarrierCut(cut columnar.BarrierCut) []byte {
	b := binary.BigEndian.AppendUint16(nil, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(cut.TriggeredAt))
	b = binary.BigEndian.AppendUint64(b, uint64(cut.CompletedAt))
	b = append(b, byte(cut.Status))

	partitions := slices.SortedFunc(maps.Keys(cut.Offsets), comparePartitions)
	topics := map[string]uint32{}
	for _, tp := range partitions {
		topics[tp.Topic]++
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for i, tp := range partitions {
		if i == 0 || partitions[i-1].Topic != tp.Topic {
			b = appendBarrierString(b, tp.Topic)
			b = binary.BigEndian.AppendUint32(b, topics[tp.Topic])
		}
		b = binary.BigEndian.AppendUint32(b, uint32(tp.Partition))
		b = binary.BigEndian.AppendUint64(b, uint64(cut.Offsets[tp]))
	}

	b = binary.BigEndian.AppendUint32(b, uint32(len(cut.Missing)))
	for _, tp := range slices.SortedFunc(slices.Values(cut.Missing), comparePartitions) {
		b = appendBarrierString(b, tp.Topic)
		b = binary.BigEndian.AppendUint32(b, uint32(tp.Partition))
	}
	return b
}

// encodeBarrierGroup returns the definition of a group.
func encodeBarrierGroup(group barrierGroup) []byte {
	interval := noInterval
	if group.interval > 0 {
		interval = group.interval.Milliseconds()
	}
	b := binary.BigEndian.AppendUint16(nil, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(group.topics)))
	for _, topic := range group.topics {
		b = appendBarrierString(b, topic)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(interval))
	b = binary.BigEndian.AppendUint32(b, uint32(group.retained))
	return binary.BigEndian.AppendUint64(b, uint64(group.lastEpoch))
}

// epochHistory is what the topic says about the epochs of one group.
type epochHistory struct {
	groupKey  []byte
	keyPrefix []byte // of cut keys, without the epoch
	last      int64  // highest epoch of any record
	cuts      map[int64]bool
}

func newEpochHistory(group string) *epochHistory {
	cut := encodeBarrierKey(barrierCutKind, group, 0)
	return &epochHistory{
		groupKey:  encodeBarrierKey(barrierGroupKind, group, barrierGroupEpoch),
		keyPrefix: cut[:len(cut)-8],
		last:      0,
		cuts:      map[int64]bool{},
	}
}

// take folds one record of the topic. Records of other groups and kinds are
// passed over, and so are values that it does not understand: their epochs are
// in the keys.
func (h *epochHistory) take(key, value []byte) {
	const lastEpochBytes = 8
	switch {
	case bytes.Equal(key, h.groupKey):
		if len(value) >= lastEpochBytes {
			h.last = max(h.last, int64(binary.BigEndian.Uint64(value[len(value)-lastEpochBytes:])))
		}
	case len(key) == len(h.keyPrefix)+8 && bytes.HasPrefix(key, h.keyPrefix):
		epoch := int64(binary.BigEndian.Uint64(key[len(h.keyPrefix):]))
		h.last = max(h.last, epoch)
		if len(value) == 0 {
			delete(h.cuts, epoch)
		} else {
			h.cuts[epoch] = true
		}
	}
}

// outdated returns the epochs that retention drops once epoch is published.
func (h *epochHistory) outdated(epoch int64, retained int32) []int64 {
	var drop []int64
	for old := range h.cuts {
		if old <= epoch-int64(retained) {
			drop = append(drop, old)
		}
	}
	slices.Sort(drop)
	return drop
}

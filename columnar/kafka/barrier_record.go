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
	barrierStartKind int16 = 1 // the announcement of a cut, an injection start
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

// barrierStart is the announcement of a cut.
type barrierStart struct {
	term      int32 // of a broker's coordinator; 0 for another publisher
	triggered int64 // milliseconds since the Unix epoch
	counts    map[string]int
}

// encodeBarrierStart returns the announcement of a cut, its topics in ascending
// order.
func encodeBarrierStart(start barrierStart) []byte {
	b := binary.BigEndian.AppendUint16(nil, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(start.term))
	b = binary.BigEndian.AppendUint64(b, uint64(start.triggered))
	b = binary.BigEndian.AppendUint32(b, uint32(len(start.counts)))
	for _, topic := range slices.Sorted(maps.Keys(start.counts)) {
		b = appendBarrierString(b, topic)
		b = binary.BigEndian.AppendUint32(b, uint32(start.counts[topic]))
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
	groupKey []byte
	prefixes map[int16][]byte // of keys with an epoch, by kind
	last     int64            // highest epoch of any record
	cuts     map[int64]bool
	starts   map[int64]bool
}

func newEpochHistory(group string) *epochHistory {
	h := &epochHistory{
		groupKey: encodeBarrierKey(barrierGroupKind, group, barrierGroupEpoch),
		prefixes: map[int16][]byte{},
		cuts:     map[int64]bool{},
		starts:   map[int64]bool{},
	}
	for _, kind := range []int16{barrierStartKind, barrierCutKind} {
		key := encodeBarrierKey(kind, group, 0)
		h.prefixes[kind] = key[:len(key)-epochBytes]
	}
	return h
}

// epochBytes is the length of an epoch at the end of a key or of a group definition.
const epochBytes = 8

// take folds one record of the topic. Records of other groups are passed over,
// and so are values that it does not understand: their epochs are in the keys.
func (h *epochHistory) take(key, value []byte) {
	if bytes.Equal(key, h.groupKey) {
		if len(value) >= epochBytes {
			h.last = max(h.last, int64(binary.BigEndian.Uint64(value[len(value)-epochBytes:])))
		}
		return
	}
	for kind, epochs := range map[int16]map[int64]bool{barrierStartKind: h.starts, barrierCutKind: h.cuts} {
		prefix := h.prefixes[kind]
		if len(key) != len(prefix)+epochBytes || !bytes.HasPrefix(key, prefix) {
			continue
		}
		// The epoch of a start without a cut is not taken again: whoever has seen the
		// start may have given up waiting for it.
		epoch := int64(binary.BigEndian.Uint64(key[len(prefix):]))
		h.last = max(h.last, epoch)
		if len(value) == 0 {
			delete(epochs, epoch)
		} else {
			epochs[epoch] = true
		}
	}
}

// outdated returns the epochs of the cuts that retention drops once epoch is
// published.
func (h *epochHistory) outdated(epoch int64, retained int32) []int64 {
	return upTo(h.cuts, epoch-int64(retained))
}

// answered returns the epochs of the starts that nobody waits for once epoch is
// published.
func (h *epochHistory) answered(epoch int64) []int64 { return upTo(h.starts, epoch) }

// upTo returns the epochs up to last, ascending.
func upTo(epochs map[int64]bool, last int64) []int64 {
	var found []int64
	for epoch := range epochs {
		if epoch <= last {
			found = append(found, epoch)
		}
	}
	slices.Sort(found)
	return found
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/krabka-io/krabka-streams-go/internal/barrierlog"
)

// BarrierStateTopic is the compacted topic on which cuts are published.
const BarrierStateTopic = "__barrier_state"

// CutStatus tells whether every partition of a barrier group took the marker
// of an epoch.
type CutStatus int8

const (
	// CutComplete is the status of a cut with a marker in every partition.
	CutComplete CutStatus = 0
	// CutPartial is the status of a cut that some partitions missed. No runner
	// aligns on it.
	CutPartial CutStatus = 1
)

// String returns "complete", "partial", or the number of an unknown status.
func (s CutStatus) String() string {
	switch s {
	case CutComplete:
		return "complete"
	case CutPartial:
		return "partial"
	}
	return "CutStatus(" + strconv.Itoa(int(s)) + ")"
}

// BarrierCut is the manifest of one epoch of a barrier group: where the
// epoch's marker lies in each partition. "Before the cut" is every record with
// an offset below the marker's.
type BarrierCut struct {
	Group       string
	Epoch       int64
	TriggeredAt int64 // milliseconds since the Unix epoch
	CompletedAt int64 // milliseconds since the Unix epoch
	Status      CutStatus
	Offsets     map[TopicPartition]int64 // the marker's offset in each partition
	Missing     []TopicPartition         // partitions without a marker; nil when there are none
}

// Complete reports whether every partition of the group has a marker.
func (c BarrierCut) Complete() bool { return c.Status == CutComplete }

// Offset returns the marker's offset in partition, and false when the cut does
// not name the partition.
func (c BarrierCut) Offset(partition TopicPartition) (int64, bool) {
	offset, ok := c.Offsets[partition]
	return offset, ok
}

// clone returns a copy that shares no memory with c.
func (c BarrierCut) clone() BarrierCut {
	c.Offsets = maps.Clone(c.Offsets)
	c.Missing = slices.Clone(c.Missing)
	return c
}

// BarrierFormatError says that a record of the barrier state topic cannot be
// decoded. Its field is
//
//	Part string // "key" or "cut value"
type BarrierFormatError = barrierlog.FormatError

// DecodeBarrierCut decodes one record of the barrier state topic. It returns
// nil without an error for a record that is not a cut, and for the tombstone of
// a cut. Malformed bytes return a [*BarrierFormatError]. It reads neither the
// value of another kind of record nor keeps key or value.
func DecodeBarrierCut(key, value []byte) (*BarrierCut, error) {
	parsed, err := barrierlog.DecodeKey(key)
	if err != nil {
		return nil, err
	}
	if parsed.Kind != barrierlog.KindCut || len(value) == 0 {
		return nil, nil
	}
	cut, _, err := decodeCutValue(parsed, value)
	return cut, err
}

// EncodeBarrierCut returns the key and the value that publish cut on the
// barrier state topic, topics and partitions in ascending order. It returns an
// error for a cut that no reader would align on: a negative epoch, offset or
// partition, a complete cut with missing partitions, a partial one without, or
// a name that does not fit.
func EncodeBarrierCut(cut BarrierCut) (key, value []byte, err error) {
	if err := checkCut(&cut); err != nil {
		return nil, nil, textPrefix.Wrap(err, "cannot encode cut %d of group %q", cut.Epoch, cut.Group)
	}
	encoded := barrierlog.Cut{TriggeredAt: cut.TriggeredAt, CompletedAt: cut.CompletedAt, Status: int8(cut.Status)}
	for _, tp := range slices.SortedFunc(maps.Keys(cut.Offsets), compareTopicPartitions) {
		encoded.Markers = append(encoded.Markers, barrierlog.Marker{Partition: barrierlog.Partition(tp), Offset: cut.Offsets[tp]})
	}
	for _, tp := range cut.Missing {
		encoded.Missing = append(encoded.Missing, barrierlog.Partition(tp))
	}
	key, value, err = barrierlog.Encode(cut.Group, cut.Epoch, encoded)
	if err != nil {
		return nil, nil, textPrefix.Wrap(err, "cannot encode cut %d of group %q", cut.Epoch, cut.Group)
	}
	return key, value, nil
}

// checkCut returns why a cut cannot be aligned on, or nil. Decoding accepts
// such cuts because the format does.
func checkCut(cut *BarrierCut) error {
	if cut.Epoch < 0 {
		return fmt.Errorf("negative epoch %d", cut.Epoch)
	}
	for tp, offset := range cut.Offsets {
		if tp.Partition < 0 || offset < 0 {
			return fmt.Errorf("negative partition or offset in %s/%d at %d", tp.Topic, tp.Partition, offset)
		}
	}
	for _, tp := range cut.Missing {
		if tp.Partition < 0 {
			return fmt.Errorf("negative partition in missing %s/%d", tp.Topic, tp.Partition)
		}
		if _, ok := cut.Offsets[tp]; ok {
			return fmt.Errorf("%s/%d has an offset and is missing", tp.Topic, tp.Partition)
		}
	}
	switch {
	case cut.Status != CutComplete && cut.Status != CutPartial:
		return fmt.Errorf("unknown status %v", cut.Status)
	case cut.Complete() && len(cut.Missing) > 0:
		return fmt.Errorf("complete with %d missing partitions", len(cut.Missing))
	case !cut.Complete() && len(cut.Missing) == 0:
		return fmt.Errorf("partial without a missing partition")
	case cut.Complete() && len(cut.Offsets) == 0:
		return fmt.Errorf("complete without a partition")
	}
	return nil
}

// decodeCutValue decodes the value of a cut. A duplicate partition, which the
// returned map cannot show, is the second result.
func decodeCutValue(key barrierlog.Key, value []byte) (cut *BarrierCut, duplicate *TopicPartition, err error) {
	decoded, err := barrierlog.DecodeCut(value)
	if err != nil {
		return nil, nil, err
	}
	cut = &BarrierCut{
		Group: key.Group, Epoch: key.Epoch, Status: CutStatus(decoded.Status),
		TriggeredAt: decoded.TriggeredAt, CompletedAt: decoded.CompletedAt,
		Offsets: make(map[TopicPartition]int64, len(decoded.Markers)),
	}
	for _, marker := range decoded.Markers {
		tp := TopicPartition(marker.Partition)
		if _, ok := cut.Offsets[tp]; ok {
			duplicate = &tp
		}
		cut.Offsets[tp] = marker.Offset
	}
	for _, missing := range decoded.Missing {
		cut.Missing = append(cut.Missing, TopicPartition(missing))
	}
	return cut, duplicate, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func compareTopicPartitions(a, b TopicPartition) int {
	if a.Topic != b.Topic {
		if a.Topic < b.Topic {
			return -1
		}
		return 1
	}
	return a.Partition - b.Partition
}

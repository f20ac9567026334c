// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
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
// decoded.
type BarrierFormatError struct {
	Part    string // "key" or "cut value"
	message string
}

func (e *BarrierFormatError) Error() string { return e.message }

const (
	barrierKeyPart   = "key"
	barrierValuePart = "cut value"

	barrierFormatVersion = 0

	barrierKindGroup = 0
	barrierKindStart = 1
	barrierKindCut   = 2

	// groupEpoch is the epoch in the key of a group definition.
	groupEpoch = -1
)

// DecodeBarrierCut decodes one record of the barrier state topic. It returns
// nil without an error for a record that is not a cut, and for the tombstone of
// a cut. Malformed bytes return a [*BarrierFormatError]. It reads neither the
// value of another kind of record nor keeps key or value.
func DecodeBarrierCut(key, value []byte) (*BarrierCut, error) {
	parsed, err := decodeBarrierKey(key)
	if err != nil {
		return nil, err
	}
	if parsed.kind != barrierKindCut || len(value) == 0 {
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
	var k barrierWriter
	k.int16(barrierFormatVersion)
	k.int16(barrierKindCut)
	k.string(cut.Group)
	k.int64(cut.Epoch)

	var v barrierWriter
	v.int16(barrierFormatVersion)
	v.int64(cut.TriggeredAt)
	v.int64(cut.CompletedAt)
	v.bytes = append(v.bytes, byte(cut.Status))
	partitions := slices.SortedFunc(maps.Keys(cut.Offsets), compareTopicPartitions)
	topics := 0
	for i, tp := range partitions {
		if i == 0 || partitions[i-1].Topic != tp.Topic {
			topics++
		}
	}
	v.int32(topics)
	for i := 0; i < len(partitions); {
		topic := partitions[i].Topic
		end := i
		for end < len(partitions) && partitions[end].Topic == topic {
			end++
		}
		v.string(topic)
		v.int32(end - i)
		for ; i < end; i++ {
			v.int32(partitions[i].Partition)
			v.int64(cut.Offsets[partitions[i]])
		}
	}
	v.int32(len(cut.Missing))
	for _, tp := range cut.Missing {
		v.string(tp.Topic)
		v.int32(tp.Partition)
	}
	if err := firstError(k.err, v.err); err != nil {
		return nil, nil, textPrefix.Wrap(err, "cannot encode cut %d of group %q", cut.Epoch, cut.Group)
	}
	return k.bytes, v.bytes, nil
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

// barrierKey is a decoded key of the barrier state topic.
type barrierKey struct {
	kind  int16
	group string
	epoch int64
}

func decodeBarrierKey(key []byte) (barrierKey, error) {
	in := barrierReader{rest: key, part: barrierKeyPart, noun: "barrier state key"}
	in.version()
	parsed := barrierKey{kind: in.int16()}
	parsed.group = in.string()
	parsed.epoch = in.int64()
	in.end()
	if in.err != nil {
		return barrierKey{}, in.err
	}
	return parsed, nil
}

// decodeCutValue decodes the value of a cut. A duplicate partition, which the
// returned map cannot show, is the second result.
func decodeCutValue(key barrierKey, value []byte) (cut *BarrierCut, duplicate *TopicPartition, err error) {
	in := barrierReader{rest: value, part: barrierValuePart, noun: "barrier state cut value"}
	in.version()
	cut = &BarrierCut{
		Group: key.group, Epoch: key.epoch,
		TriggeredAt: in.int64(), CompletedAt: in.int64(),
		Offsets: map[TopicPartition]int64{},
	}
	cut.Status = CutStatus(in.int8())
	if in.err == nil && cut.Status != CutComplete && cut.Status != CutPartial {
		in.fail("unknown barrier cut status %d", int8(cut.Status))
	}
	for topics := in.count(); topics > 0 && in.err == nil; topics-- {
		topic := in.string()
		for partitions := in.count(); partitions > 0 && in.err == nil; partitions-- {
			tp := TopicPartition{Topic: topic, Partition: int(in.int32())}
			offset := in.int64()
			if in.err != nil {
				break
			}
			if _, ok := cut.Offsets[tp]; ok {
				duplicate = &tp
			}
			cut.Offsets[tp] = offset
		}
	}
	for missing := in.count(); missing > 0 && in.err == nil; missing-- {
		cut.Missing = append(cut.Missing, TopicPartition{Topic: in.string(), Partition: int(in.int32())})
	}
	in.end()
	if in.err != nil {
		return nil, nil, in.err
	}
	return cut, duplicate, nil
}

// decodeGroupLastEpoch returns the last epoch of a group definition, and false
// for a value in another format.
func decodeGroupLastEpoch(value []byte) (int64, bool) {
	in := barrierReader{rest: value, part: barrierValuePart, noun: "barrier state group value"}
	in.version()
	for topics := in.count(); topics > 0 && in.err == nil; topics-- {
		in.string()
	}
	in.int64() // interval
	in.int32() // retained cuts
	lastEpoch := in.int64()
	in.end()
	return lastEpoch, in.err == nil
}

// barrierReader reads the big-endian fields of a key or value and keeps the
// first error. Reads after an error return zero.
type barrierReader struct {
	rest []byte
	part string
	noun string
	err  error
}

func (r *barrierReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &BarrierFormatError{Part: r.part, message: fmt.Sprintf(format, args...)}
	}
}

func (r *barrierReader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if len(r.rest) < n {
		r.fail("truncated %s", r.noun)
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *barrierReader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *barrierReader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *barrierReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *barrierReader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *barrierReader) version() {
	if version := r.int16(); r.err == nil && version != barrierFormatVersion {
		r.fail("unsupported %s version %d", r.noun, version)
	}
}

func (r *barrierReader) string() string {
	length := r.int16()
	if r.err == nil && length < 0 {
		r.fail("negative string length %d in %s", length, r.noun)
	}
	if r.err != nil {
		return ""
	}
	text := r.take(int(length))
	if !utf8.Valid(text) {
		r.fail("non-UTF-8 string in %s", r.noun)
		return ""
	}
	return string(text)
}

// count reads an array length. Nothing is allocated from it: the elements are
// read one by one and end at the first that is not there.
func (r *barrierReader) count() int32 {
	count := r.int32()
	if r.err == nil && count < 0 {
		r.fail("negative array length %d in %s", count, r.noun)
	}
	if r.err != nil {
		return 0
	}
	return count
}

func (r *barrierReader) end() {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("trailing bytes in %s", r.noun)
	}
}

// barrierWriter appends big-endian fields and keeps the first error.
type barrierWriter struct {
	bytes []byte
	err   error
}

func (w *barrierWriter) int16(value int) {
	w.bytes = binary.BigEndian.AppendUint16(w.bytes, uint16(value))
}

func (w *barrierWriter) int32(value int) {
	if value > math.MaxInt32 {
		w.err = firstError(w.err, fmt.Errorf("%d does not fit into 32 bits", value))
	}
	w.bytes = binary.BigEndian.AppendUint32(w.bytes, uint32(value))
}

func (w *barrierWriter) int64(value int64) {
	w.bytes = binary.BigEndian.AppendUint64(w.bytes, uint64(value))
}

func (w *barrierWriter) string(text string) {
	if len(text) > math.MaxInt16 || !utf8.ValidString(text) {
		w.err = firstError(w.err, fmt.Errorf("name %.40q is longer than %d bytes or not UTF-8", text, math.MaxInt16))
	}
	w.int16(len(text))
	w.bytes = append(w.bytes, text...)
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

// SPDX-License-Identifier: Apache-2.0

// Package barrierlog is the form of the records of the barrier state topic: their keys,
// the cuts, and what a group definition says of its epochs.
//
// It knows bytes alone. Which cuts a runner can align on, and what follows from the
// records of a group together, is the business of package columnar. Fields are
// big-endian; every count and length is compared with the bytes that are there.
package barrierlog

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

const (
	keyPart   = "key"
	valuePart = "cut value"

	formatVersion = 0
)

// Kinds of keys.
const (
	KindGroup = 0
	KindStart = 1
	KindCut   = 2
)

// NoEpoch is the epoch in the key of a group definition.
const NoEpoch = -1

// Status of cuts.
const (
	StatusComplete = 0
	StatusPartial  = 1
)

// Key is the key of a record of the barrier state topic.
type Key struct {
	Kind  int16
	Group string
	Epoch int64
}

// Partition is a partition of a topic.
type Partition struct {
	Topic     string
	Partition int
}

// Marker is the place of the marker of an epoch in a partition.
type Marker struct {
	Partition
	Offset int64
}

// Cut is the value of a cut.
type Cut struct {
	TriggeredAt, CompletedAt int64 // milliseconds since the Unix epoch
	Status                   int8
	Markers                  []Marker
	Missing                  []Partition // without a marker
}

// FormatError says that a record of the barrier state topic cannot be
// decoded.
type FormatError struct {
	Part    string // "key" or "cut value"
	message string
}

func (e *FormatError) Error() string { return e.message }

// DecodeKey decodes a key. Malformed bytes are a [*FormatError].
func DecodeKey(key []byte) (Key, error) {
	in := reader{rest: key, part: keyPart, noun: "barrier state key"}
	in.version()
	parsed := Key{Kind: in.int16()}
	parsed.Group = in.string()
	parsed.Epoch = in.int64()
	in.end()
	if in.err != nil {
		return Key{}, in.err
	}
	return parsed, nil
}

// DecodeCut decodes the value of a cut, in which a partition may have several markers.
// Malformed bytes are a [*FormatError].
func DecodeCut(value []byte) (Cut, error) {
	in := reader{rest: value, part: valuePart, noun: "barrier state cut value"}
	in.version()
	cut := Cut{TriggeredAt: in.int64(), CompletedAt: in.int64(), Status: in.int8()}
	if in.err == nil && cut.Status != StatusComplete && cut.Status != StatusPartial {
		in.fail("unknown barrier cut status %d", cut.Status)
	}
	for topics := in.count(); topics > 0 && in.err == nil; topics-- {
		topic := in.string()
		for partitions := in.count(); partitions > 0 && in.err == nil; partitions-- {
			cut.Markers = append(cut.Markers, Marker{Partition{topic, int(in.int32())}, in.int64()})
		}
	}
	for missing := in.count(); missing > 0 && in.err == nil; missing-- {
		cut.Missing = append(cut.Missing, Partition{in.string(), int(in.int32())})
	}
	in.end()
	if in.err != nil {
		return Cut{}, in.err
	}
	return cut, nil
}

// LastEpoch returns the last epoch of a group definition, and false
// for a value in another format.
func LastEpoch(value []byte) (int64, bool) {
	in := reader{rest: value, part: valuePart, noun: "barrier state group value"}
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

// Encode returns the key and the value of a cut, whose markers are ascending by topic
// and partition. A name or a partition that does not fit its field is an error.
func Encode(group string, epoch int64, cut Cut) (key, value []byte, err error) {
	var k writer
	k.int16(formatVersion)
	k.int16(KindCut)
	k.string(group)
	k.int64(epoch)

	var v writer
	v.int16(formatVersion)
	v.int64(cut.TriggeredAt)
	v.int64(cut.CompletedAt)
	v.bytes = append(v.bytes, byte(cut.Status))
	topics := 0
	for i, marker := range cut.Markers {
		if i == 0 || cut.Markers[i-1].Topic != marker.Topic {
			topics++
		}
	}
	v.int32(topics)
	for rest := cut.Markers; len(rest) > 0; {
		count := 1
		for count < len(rest) && rest[count].Topic == rest[0].Topic {
			count++
		}
		v.string(rest[0].Topic)
		v.int32(count)
		for _, marker := range rest[:count] {
			v.int32(marker.Partition.Partition)
			v.int64(marker.Offset)
		}
		rest = rest[count:]
	}
	v.int32(len(cut.Missing))
	for _, missing := range cut.Missing {
		v.string(missing.Topic)
		v.int32(missing.Partition)
	}
	if err := cmp.Or(k.err, v.err); err != nil {
		return nil, nil, err
	}
	return k.bytes, v.bytes, nil
}

// reader reads the big-endian fields of a key or value and keeps the
// first error. Reads after an error return zero.
type reader struct {
	rest []byte
	part string
	noun string
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &FormatError{Part: r.part, message: fmt.Sprintf(format, args...)}
	}
}

func (r *reader) take(n int) []byte {
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

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) version() {
	if version := r.int16(); r.err == nil && version != formatVersion {
		r.fail("unsupported %s version %d", r.noun, version)
	}
}

func (r *reader) string() string {
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
func (r *reader) count() int32 {
	count := r.int32()
	if r.err == nil && count < 0 {
		r.fail("negative array length %d in %s", count, r.noun)
	}
	if r.err != nil {
		return 0
	}
	return count
}

func (r *reader) end() {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("trailing bytes in %s", r.noun)
	}
}

// writer appends big-endian fields and keeps the first error.
type writer struct {
	bytes []byte
	err   error
}

func (w *writer) int16(value int) {
	w.bytes = binary.BigEndian.AppendUint16(w.bytes, uint16(value))
}

func (w *writer) int32(value int) {
	if value > math.MaxInt32 {
		w.err = cmp.Or(w.err, fmt.Errorf("%d does not fit into 32 bits", value))
	}
	w.bytes = binary.BigEndian.AppendUint32(w.bytes, uint32(value))
}

func (w *writer) int64(value int64) {
	w.bytes = binary.BigEndian.AppendUint64(w.bytes, uint64(value))
}

func (w *writer) string(text string) {
	if len(text) > math.MaxInt16 || !utf8.ValidString(text) {
		w.err = cmp.Or(w.err, fmt.Errorf("name %.40q is longer than %d bytes or not UTF-8", text, math.MaxInt16))
	}
	w.int16(len(text))
	w.bytes = append(w.bytes, text...)
}

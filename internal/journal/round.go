// SPDX-License-Identifier: Apache-2.0

// Package journal is the form in which rounds are kept between snapshots: the offsets
// that a round moved a logical partition by, and the records that did not count.
//
// A round has an entry where its offsets alone do not tell what it did: it interleaves
// topics, leaves records out, or advances time. [Round.Encode] makes an entry, and
// [Decode] reads those of a partition. To a store, entries are bytes.
package journal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

const version = 1

const (
	flagTransactional = 1 << iota
	flagAdvance
)

// Round is what one round did to the state of a logical partition.
type Round struct {
	// Number counts the journaled rounds of the partition. A round that failed is
	// followed by one of the same number that takes its place.
	Number int64
	// Transactional says that the outputs became visible together with the
	// offsets.
	Transactional bool
	// Ranges are the offsets of the round for every topic of the partition, in
	// topic order, empty ones included.
	Ranges []Range
	// Excluded are the offsets of records in ranges that did not change the state
	// because the error policy took them.
	Excluded []Range
	// Advance is the stream time that the partition moved to behind the ranges.
	Advance *int64
}

// Range is the offsets from start up to, not including, end.
type Range struct {
	Topic      string
	Start, End int64
}

// Excludes reports whether the error policy took a record.
func (r *Round) Excludes(topic string, offset int64) bool {
	return slices.ContainsFunc(r.Excluded, func(e Range) bool {
		return e.Topic == topic && offset >= e.Start && offset < e.End
	})
}

// Encode returns the round as an entry of the journal.
func (r *Round) Encode() []byte {
	flags := byte(0)
	if r.Transactional {
		flags |= flagTransactional
	}
	if r.Advance != nil {
		flags |= flagAdvance
	}
	data := []byte{version, flags}
	data = binary.AppendUvarint(data, uint64(r.Number))
	for _, ranges := range [][]Range{r.Ranges, r.Excluded} {
		data = binary.AppendUvarint(data, uint64(len(ranges)))
		for _, one := range ranges {
			data = binary.AppendUvarint(data, uint64(len(one.Topic)))
			data = append(data, one.Topic...)
			data = binary.AppendUvarint(data, uint64(one.Start))
			data = binary.AppendUvarint(data, uint64(one.End-one.Start))
		}
	}
	if r.Advance != nil {
		data = binary.AppendVarint(data, *r.Advance)
	}
	return data
}

var errTruncated = errors.New("journal round is truncated")

func decodeRound(data []byte) (*Round, error) {
	if len(data) < 2 {
		return nil, errTruncated
	}
	if data[0] != version {
		return nil, fmt.Errorf("unsupported journal round version %d", data[0])
	}
	flags := data[1]
	in := varintReader{rest: data[2:]}
	round := &Round{Number: in.number(), Transactional: flags&flagTransactional != 0}
	for _, ranges := range []*[]Range{&round.Ranges, &round.Excluded} {
		for count := in.number(); count > 0 && in.err == nil; count-- {
			one := Range{Topic: in.text(), Start: in.number()}
			length := in.number()
			if length > math.MaxInt64-one.Start {
				in.fail(errors.New("journal round has offsets that overflow"))
			}
			one.End = one.Start + length
			*ranges = append(*ranges, one)
		}
	}
	if flags&flagAdvance != 0 {
		advance := in.signed()
		round.Advance = &advance
	}
	if in.err == nil && len(in.rest) > 0 {
		in.fail(errors.New("trailing bytes in journal round"))
	}
	if in.err != nil {
		return nil, in.err
	}
	return round, nil
}

// varintReader reads varints and keeps the first error.
type varintReader struct {
	rest []byte
	err  error
}

func (r *varintReader) fail(err error) { r.err = cmp.Or(r.err, err) }

// Number reads an unsigned number that fits an int64.
func (r *varintReader) number() int64 {
	if r.err != nil {
		return 0
	}
	value, n := binary.Uvarint(r.rest)
	if n <= 0 || value > math.MaxInt64 {
		r.fail(errTruncated)
		return 0
	}
	r.rest = r.rest[n:]
	return int64(value)
}

func (r *varintReader) signed() int64 {
	if r.err != nil {
		return 0
	}
	value, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail(errTruncated)
		return 0
	}
	r.rest = r.rest[n:]
	return value
}

func (r *varintReader) text() string {
	length := r.number()
	if r.err != nil || length > int64(len(r.rest)) {
		r.fail(errTruncated)
		return ""
	}
	text := string(r.rest[:length])
	r.rest = r.rest[length:]
	return text
}

// Decode returns the rounds behind the first number, each at its place: a
// round takes the place of an earlier one of its number and of all behind that.
func Decode(encoded [][]byte, first int64) ([]*Round, error) {
	var rounds []*Round
	for i, data := range encoded {
		round, err := decodeRound(data)
		if err != nil {
			return nil, fmt.Errorf("round %d of the journal: %w", i, err)
		}
		at := round.Number - first
		if at < 0 {
			continue
		}
		if at > int64(len(rounds)) {
			return nil, fmt.Errorf("the journal has round %d and not round %d", round.Number, first+int64(len(rounds)))
		}
		rounds = append(rounds[:at], round)
	}
	return rounds, nil
}

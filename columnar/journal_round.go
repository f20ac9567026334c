// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

const journalRoundVersion = 1

const (
	journalTransactional = 1 << iota
	journalAdvance
)

// journalRound is what one round did to the state of a logical partition.
type journalRound struct {
	// number counts the journaled rounds of the partition. A round that failed is
	// followed by one of the same number that takes its place.
	number int64
	// transactional says that the outputs became visible together with the
	// offsets.
	transactional bool
	// ranges are the offsets of the round for every topic of the partition, in
	// topic order, empty ones included.
	ranges []offsetRange
	// excluded are the offsets of records in ranges that did not change the state
	// because the error policy took them.
	excluded []offsetRange
	// advance is the stream time that the partition moved to behind the ranges.
	advance *int64
}

// offsetRange is the offsets from start up to, not including, end.
type offsetRange struct {
	topic      string
	start, end int64
}

// excludes reports whether the error policy took a record.
func (r *journalRound) excludes(topic string, offset int64) bool {
	return slices.ContainsFunc(r.excluded, func(e offsetRange) bool {
		return e.topic == topic && offset >= e.start && offset < e.end
	})
}

func (r *journalRound) encode() []byte {
	flags := byte(0)
	if r.transactional {
		flags |= journalTransactional
	}
	if r.advance != nil {
		flags |= journalAdvance
	}
	data := []byte{journalRoundVersion, flags}
	data = binary.AppendUvarint(data, uint64(r.number))
	for _, ranges := range [][]offsetRange{r.ranges, r.excluded} {
		data = binary.AppendUvarint(data, uint64(len(ranges)))
		for _, one := range ranges {
			data = binary.AppendUvarint(data, uint64(len(one.topic)))
			data = append(data, one.topic...)
			data = binary.AppendUvarint(data, uint64(one.start))
			data = binary.AppendUvarint(data, uint64(one.end-one.start))
		}
	}
	if r.advance != nil {
		data = binary.AppendVarint(data, *r.advance)
	}
	return data
}

var errJournalRoundTruncated = errors.New("journal round is truncated")

func decodeJournalRound(data []byte) (*journalRound, error) {
	if len(data) < 2 {
		return nil, errJournalRoundTruncated
	}
	if data[0] != journalRoundVersion {
		return nil, fmt.Errorf("unsupported journal round version %d", data[0])
	}
	flags := data[1]
	in := varintReader{rest: data[2:]}
	round := &journalRound{number: in.number(), transactional: flags&journalTransactional != 0}
	for _, ranges := range []*[]offsetRange{&round.ranges, &round.excluded} {
		for count := in.number(); count > 0 && in.err == nil; count-- {
			one := offsetRange{topic: in.text(), start: in.number()}
			length := in.number()
			if length > math.MaxInt64-one.start {
				in.fail(errors.New("journal round has offsets that overflow"))
			}
			one.end = one.start + length
			*ranges = append(*ranges, one)
		}
	}
	if flags&journalAdvance != 0 {
		advance := in.signed()
		round.advance = &advance
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

func (r *varintReader) fail(err error) { r.err = firstError(r.err, err) }

// number reads an unsigned number that fits an int64.
func (r *varintReader) number() int64 {
	if r.err != nil {
		return 0
	}
	value, n := binary.Uvarint(r.rest)
	if n <= 0 || value > math.MaxInt64 {
		r.fail(errJournalRoundTruncated)
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
		r.fail(errJournalRoundTruncated)
		return 0
	}
	r.rest = r.rest[n:]
	return value
}

func (r *varintReader) text() string {
	length := r.number()
	if r.err != nil || length > int64(len(r.rest)) {
		r.fail(errJournalRoundTruncated)
		return ""
	}
	text := string(r.rest[:length])
	r.rest = r.rest[length:]
	return text
}

// decodeJournal returns the rounds behind the first number, each at its place: a
// round takes the place of an earlier one of its number and of all behind that.
func decodeJournal(encoded [][]byte, first int64) ([]*journalRound, error) {
	var rounds []*journalRound
	for i, data := range encoded {
		round, err := decodeJournalRound(data)
		if err != nil {
			return nil, fmt.Errorf("round %d of the journal: %w", i, err)
		}
		at := round.number - first
		if at < 0 {
			continue
		}
		if at > int64(len(rounds)) {
			return nil, fmt.Errorf("the journal has round %d and not round %d", round.number, first+int64(len(rounds)))
		}
		rounds = append(rounds[:at], round)
	}
	return rounds, nil
}

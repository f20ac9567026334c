// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

const (
	journalMagic = "krabkaJ1"

	// journalFrame is the size of a frame's header: the length of the round, the
	// checksum of the length, and the checksum of the round.
	journalFrame = 12
	// maxJournalRound bounds one round in bytes.
	maxJournalRound = 1 << 30
)

// journalSegment is one file of a journal: the rounds that one owner appended
// while a snapshot was the newest.
type journalSegment struct {
	sequence   int64 // of that snapshot
	generation int64
	part       int64 // counts the files of one owner and snapshot
}

func (s journalSegment) compare(other journalSegment) int {
	return cmp.Or(cmp.Compare(s.sequence, other.sequence), cmp.Compare(s.generation, other.generation), cmp.Compare(s.part, other.part))
}

// journalFile is the open end of a journal.
type journalFile struct {
	segments []journalSegment // of the directory
	current  journalSegment
	file     durableFile // nil until the first append
}

func (p *partitionFiles) segmentName(s journalSegment) string {
	return fmt.Sprintf("%s-%d-%d-%d%s", p.prefix(), s.sequence, s.generation, s.part, journalSuffix)
}

// segments finds the journal files of the partition among the names in the
// directory, in order.
func (p *partitionFiles) segments(names []string) []journalSegment {
	var segments []journalSegment
	for _, name := range names {
		numbers, ok := strings.CutPrefix(name, p.prefix()+"-")
		if !ok {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(numbers, journalSuffix), "-")
		if len(fields) != 3 {
			continue
		}
		sequence, err1 := strconv.ParseInt(fields[0], 10, 64)
		generation, err2 := strconv.ParseInt(fields[1], 10, 64)
		part, err3 := strconv.ParseInt(fields[2], 10, 64)
		segment := journalSegment{sequence, generation, part}
		if firstError(err1, err2, err3) == nil && p.segmentName(segment) == name {
			segments = append(segments, segment)
		}
	}
	slices.SortFunc(segments, journalSegment.compare)
	return segments
}

// appendRound writes and syncs one frame. After a failure the next round goes to
// a file of its own, so that a frame cut short is always the last of its file.
func (p *partitionFiles) appendRound(generation int64, round []byte) error {
	if len(round) > maxJournalRound {
		return fmt.Errorf("a round of %d bytes is more than a journal holds", len(round))
	}
	if p.journal.file != nil && p.journal.current.sequence != p.sequence {
		if err := p.closeJournal(); err != nil {
			return err
		}
	}
	frame := make([]byte, 0, len(journalMagic)+journalFrame+len(round))
	created := p.journal.file == nil
	if created {
		if err := p.openSegment(generation); err != nil {
			return err
		}
		frame = append(frame, journalMagic...)
	}
	header := len(frame)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(round)))
	frame = binary.BigEndian.AppendUint32(frame, crc32.Checksum(frame[header:], castagnoli))
	frame = binary.BigEndian.AppendUint32(frame, crc32.Checksum(round, castagnoli))
	frame = append(frame, round...)
	_, err := p.journal.file.Write(frame)
	if err == nil {
		err = p.journal.file.Sync()
	}
	if err == nil && created {
		err = p.files.SyncDirectory(p.directory)
	}
	if err != nil {
		return errors.Join(err, p.closeJournal())
	}
	return nil
}

// openSegment makes the file for the rounds behind the newest snapshot.
func (p *partitionFiles) openSegment(generation int64) error {
	segment := journalSegment{sequence: p.sequence, generation: generation}
	for slices.Contains(p.journal.segments, segment) {
		segment.part++
	}
	file, err := p.files.Create(p.path(p.segmentName(segment)))
	if err != nil {
		return err
	}
	p.journal.file, p.journal.current = file, segment
	p.journal.segments = append(p.journal.segments, segment)
	return nil
}

func (p *partitionFiles) closeJournal() error {
	if p.journal.file == nil {
		return nil
	}
	file := p.journal.file
	p.journal.file = nil
	return file.Close()
}

// rounds reads the segments since a snapshot.
func (p *partitionFiles) rounds(sequence int64) ([][]byte, error) {
	names, err := p.files.Names(p.directory)
	if err != nil {
		return nil, err
	}
	var rounds [][]byte
	for _, segment := range p.segments(names) {
		if segment.sequence < sequence {
			continue
		}
		name := p.segmentName(segment)
		data, err := p.files.Read(p.path(name))
		if err != nil {
			return nil, err
		}
		read, err := readJournal(data)
		if err != nil {
			return nil, p.damage(NoEpoch, name, err)
		}
		rounds = append(rounds, read...)
	}
	return rounds, nil
}

// readJournal reads the frames of one file. Its end may hold a frame whose append
// did not complete: cut short, of a last round that does not match its checksum,
// or zeros. The rounds alias data.
func readJournal(data []byte) ([][]byte, error) {
	if len(data) < len(journalMagic) || allZero(data) {
		return nil, nil
	}
	if string(data[:len(journalMagic)]) != journalMagic {
		return nil, errors.New("the file is not a round journal")
	}
	data = data[len(journalMagic):]
	var rounds [][]byte
	for len(data) >= journalFrame && !allZero(data) {
		length := uint64(binary.BigEndian.Uint32(data))
		if crc32.Checksum(data[:4], castagnoli) != binary.BigEndian.Uint32(data[4:]) {
			return nil, fmt.Errorf("the length of round %d does not match its checksum", len(rounds))
		}
		if length > uint64(len(data)-journalFrame) {
			break
		}
		end := journalFrame + int(length)
		round := data[journalFrame:end:end]
		checksum := binary.BigEndian.Uint32(data[8:])
		data = data[end:]
		if crc32.Checksum(round, castagnoli) != checksum {
			if !allZero(data) {
				return nil, fmt.Errorf("round %d does not match its checksum", len(rounds))
			}
			break
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

func allZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// dropSegments deletes the segments that drop selects.
func (p *partitionFiles) dropSegments(drop func(journalSegment) bool) error {
	kept := p.journal.segments[:0:0]
	for i, segment := range p.journal.segments {
		if !drop(segment) {
			kept = append(kept, segment)
			continue
		}
		if p.journal.file != nil && segment == p.journal.current {
			if err := p.closeJournal(); err != nil {
				return err
			}
		}
		if err := ignoreMissing(p.files.Remove(p.path(p.segmentName(segment)))); err != nil {
			p.journal.segments = append(kept, p.journal.segments[i:]...)
			return err
		}
	}
	dropped := len(kept) < len(p.journal.segments)
	p.journal.segments = kept
	if dropped {
		return p.files.SyncDirectory(p.directory)
	}
	return nil
}

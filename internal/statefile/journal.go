// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// JournalMagic begins each file of a journal.
	JournalMagic = "krabkaJ1"

	journalSuffix = ".journal"

	// JournalFrame is the size of a frame's header: the length of the round, the
	// checksum of the length, and the checksum of the round.
	JournalFrame = 12
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

// journal is the round journal of a partition.
type journal struct {
	files     FileSystem
	directory string
	prefix    string // of the names of its files

	segments []journalSegment // of the directory, as of the last scan
	current  journalSegment
	file     File // open end; nil until the first append
}

func (j *journal) path(name string) string { return filepath.Join(j.directory, name) }

func (j *journal) name(s journalSegment) string {
	return fmt.Sprintf("%s-%d-%d-%d%s", j.prefix, s.sequence, s.generation, s.part, journalSuffix)
}

// find finds the journal files of the partition among the names in the
// directory, in order.
func (j *journal) find(names []string) []journalSegment {
	var segments []journalSegment
	for _, name := range names {
		numbers, ok := strings.CutPrefix(name, j.prefix+"-")
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
		if cmp.Or(err1, err2, err3) == nil && j.name(segment) == name {
			segments = append(segments, segment)
		}
	}
	slices.SortFunc(segments, journalSegment.compare)
	return segments
}

// append writes and syncs one frame behind the snapshot of sequence. After a
// failure the next round goes to a file of its own, so that a frame cut short is
// always the last of its file.
func (j *journal) append(sequence, generation int64, round []byte) error {
	if len(round) > maxJournalRound {
		return fmt.Errorf("a round of %d bytes is more than a journal holds", len(round))
	}
	if j.file != nil && j.current.sequence != sequence {
		if err := j.close(); err != nil {
			return err
		}
	}
	frame := make([]byte, 0, len(JournalMagic)+JournalFrame+len(round))
	created := j.file == nil
	if created {
		if err := j.open(sequence, generation); err != nil {
			return err
		}
		frame = append(frame, JournalMagic...)
	}
	header := len(frame)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(round)))
	frame = binary.BigEndian.AppendUint32(frame, crc32.Checksum(frame[header:], castagnoli))
	frame = binary.BigEndian.AppendUint32(frame, crc32.Checksum(round, castagnoli))
	frame = append(frame, round...)
	_, err := j.file.Write(frame)
	if err == nil {
		err = j.file.Sync()
	}
	if err == nil && created {
		err = j.files.SyncDirectory(j.directory)
	}
	if err != nil {
		return errors.Join(err, j.close())
	}
	return nil
}

// open makes the file for the rounds behind the snapshot of sequence.
func (j *journal) open(sequence, generation int64) error {
	segment := journalSegment{sequence: sequence, generation: generation}
	for slices.Contains(j.segments, segment) {
		segment.part++
	}
	file, err := j.files.Create(j.path(j.name(segment)))
	if err != nil {
		return err
	}
	j.file, j.current = file, segment
	j.segments = append(j.segments, segment)
	return nil
}

// sync makes the files of the last scan durable.
func (j *journal) sync() error {
	for _, segment := range j.segments {
		if err := j.files.Sync(j.path(j.name(segment))); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	file := j.file
	j.file = nil
	return file.Close()
}

// rounds reads the segments since the snapshot of sequence.
func (j *journal) rounds(sequence int64) ([][]byte, error) {
	names, err := j.files.Names(j.directory)
	if err != nil {
		return nil, err
	}
	var rounds [][]byte
	for _, segment := range j.find(names) {
		if segment.sequence < sequence {
			continue
		}
		name := j.name(segment)
		data, err := j.files.Read(j.path(name))
		if err != nil {
			return nil, err
		}
		read, err := readJournal(data)
		if err != nil {
			return nil, damage(NoEpoch, name, err)
		}
		rounds = append(rounds, read...)
	}
	return rounds, nil
}

// readJournal reads the frames of one file. Its end may hold a frame whose append
// did not complete: cut short, of a last round that does not match its checksum,
// or zeros. The rounds alias data.
func readJournal(data []byte) ([][]byte, error) {
	if len(data) < len(JournalMagic) || allZero(data) {
		return nil, nil
	}
	if string(data[:len(JournalMagic)]) != JournalMagic {
		return nil, errors.New("the file is not a round journal")
	}
	data = data[len(JournalMagic):]
	var rounds [][]byte
	for len(data) >= JournalFrame && !allZero(data) {
		length := uint64(binary.BigEndian.Uint32(data))
		if crc32.Checksum(data[:4], castagnoli) != binary.BigEndian.Uint32(data[4:]) {
			return nil, fmt.Errorf("the length of round %d does not match its checksum", len(rounds))
		}
		if length > uint64(len(data)-JournalFrame) {
			break
		}
		end := JournalFrame + int(length)
		round := data[JournalFrame:end:end]
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

// drop deletes the segments that outdated selects.
func (j *journal) drop(outdated func(journalSegment) bool) error {
	kept := j.segments[:0:0]
	for i, segment := range j.segments {
		if !outdated(segment) {
			kept = append(kept, segment)
			continue
		}
		if j.file != nil && segment == j.current {
			if err := j.close(); err != nil {
				return err
			}
		}
		if err := ignoreMissing(j.files.Remove(j.path(j.name(segment)))); err != nil {
			j.segments = append(kept, j.segments[i:]...)
			return err
		}
	}
	dropped := len(kept) < len(j.segments)
	j.segments = kept
	if dropped {
		return j.files.SyncDirectory(j.directory)
	}
	return nil
}

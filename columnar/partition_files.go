// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	snapshotSuffix  = ".snapshot"
	sidecarSuffix   = ".meta"
	temporarySuffix = ".tmp"
	journalSuffix   = ".journal"
)

// partitionFiles are the files of one logical partition in a state directory.
// The holder of turn may use it.
type partitionFiles struct {
	turn      chan struct{}
	files     fileSystem
	directory string
	partition int

	generation int64 // of the last claim through this store; 0 for none
	sequence   int64 // highest sequence of any snapshot
	temporary  int   // number of the next temporary file

	slots map[string]snapshotSlot // by container name, as of the last scan or save

	journal journalFile
}

// snapshotSlot is one container and what its sidecar says about it. A container
// without a sidecar, as other implementations write it, has the zero entry.
type snapshotSlot struct {
	sidecarEntry
	damage error
}

func newPartitionFiles(files fileSystem, directory string, partition int) *partitionFiles {
	return &partitionFiles{
		turn: make(chan struct{}, 1), files: files, directory: directory, partition: partition,
		slots: map[string]snapshotSlot{},
	}
}

func (p *partitionFiles) prefix() string { return "partition-" + strconv.Itoa(p.partition) }

func (p *partitionFiles) path(name string) string { return filepath.Join(p.directory, name) }

// container is the name of the file with the state of an epoch.
func (p *partitionFiles) container(epoch int64) string {
	if epoch == NoEpoch {
		return p.prefix() + snapshotSuffix
	}
	return p.prefix() + "-epoch-" + strconv.FormatInt(epoch, 10) + snapshotSuffix
}

// previous is the name of the container that the latest save outside a barrier
// replaced.
func (p *partitionFiles) previous() string { return p.prefix() + "-previous" + snapshotSuffix }

// containers are the names of the files that can hold a snapshot of epoch, the
// newest first.
func (p *partitionFiles) containers(epoch int64) []string {
	if epoch == NoEpoch {
		return []string{p.container(epoch), p.previous()}
	}
	return []string{p.container(epoch)}
}

// lock waits for the files' lock, which other stores and processes take too.
func (p *partitionFiles) lock(ctx context.Context) (io.Closer, error) {
	path := p.path(p.prefix() + ".lock")
	for {
		lock, err := p.files.TryLock(path)
		if errors.Is(err, fs.ErrNotExist) {
			if err := p.files.MakeDirectory(p.directory); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil || lock != nil {
			return lock, err
		}
		select {
		case <-time.After(lockRetry):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// own fails unless generation is that of the present owner. It brings the view
// of the files up to date where the owner's store is another one.
func (p *partitionFiles) own(generation int64) error {
	current, err := p.owner()
	if err != nil {
		return err
	}
	if generation != current {
		return &StaleOwnerError{Partition: p.partition, Generation: generation, Current: current}
	}
	if p.generation == current {
		return nil
	}
	p.generation = current
	return p.scan()
}

// owner reads the present generation; 0 when nobody has claimed the partition.
func (p *partitionFiles) owner() (int64, error) {
	name := p.prefix() + ".owner"
	data, err := p.files.Read(p.path(name))
	if err != nil {
		return 0, ignoreMissing(err)
	}
	generation, err := strconv.ParseInt(strings.TrimSuffix(string(data), "\n"), 10, 64)
	if err != nil || generation < 1 {
		return 0, &DamagedSnapshotError{Partition: p.partition, Epoch: NoEpoch, Name: name, Cause: fmt.Errorf("not a generation: %.40q", data)}
	}
	return generation, nil
}

// claim takes the next generation. Every snapshot carries the generation that
// saved it, so that a lost owner file does not start over.
func (p *partitionFiles) claim() (int64, error) {
	current, err := p.owner()
	var damaged *DamagedSnapshotError
	if err != nil && !errors.As(err, &damaged) {
		return 0, err
	}
	if err := p.scan(); err != nil {
		return 0, err
	}
	for _, slot := range p.slots {
		current = max(current, slot.Generation)
	}
	current++
	if err := p.replace(p.prefix()+".owner", fmt.Appendf(nil, "%d\n", current)); err != nil {
		return 0, err
	}
	if err := p.closeJournal(); err != nil {
		return 0, err
	}
	p.generation = current
	return current, p.files.SyncDirectory(p.directory)
}

// scan reads the sidecars of the partition and finds the entry that each
// container answers for.
func (p *partitionFiles) scan() error {
	names, err := p.files.Names(p.directory)
	if err != nil {
		return err
	}
	clear(p.slots)
	for _, name := range names {
		container := strings.TrimSuffix(name, sidecarSuffix)
		epoch, ok := p.epochOf(container)
		if _, seen := p.slots[container]; !ok || seen {
			continue
		}
		if err := p.scanSlot(container, epoch); err != nil {
			return err
		}
	}
	p.journal.segments = p.segments(names)
	for _, segment := range p.journal.segments {
		p.sequence = max(p.sequence, segment.sequence)
	}
	return nil
}

// epochOf returns the epoch of a container of this partition.
func (p *partitionFiles) epochOf(name string) (int64, bool) {
	if name == p.container(NoEpoch) || name == p.previous() {
		return NoEpoch, true
	}
	digits, ok := strings.CutPrefix(name, p.prefix()+"-epoch-")
	if !ok {
		return 0, false
	}
	epoch, err := strconv.ParseInt(strings.TrimSuffix(digits, snapshotSuffix), 10, 64)
	return epoch, err == nil && epoch >= 0 && p.container(epoch) == name
}

// scanSlot takes one container into view. A sidecar alone is what a save that
// was cut short announced, or what is left of a removed snapshot.
func (p *partitionFiles) scanSlot(name string, epoch int64) error {
	size, err := p.files.Size(p.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		delete(p.slots, name)
		return nil
	}
	if err != nil {
		return err
	}
	entry, err := p.match(name, epoch, size)
	var damaged *DamagedSnapshotError
	if err != nil && !errors.As(err, &damaged) {
		return err
	}
	p.slots[name] = snapshotSlot{sidecarEntry: entry, damage: err}
	p.sequence = max(p.sequence, entry.Sequence)
	return nil
}

// match finds the entry that a container answers for, by length, and by
// checksum where several have that length.
func (p *partitionFiles) match(name string, epoch, size int64) (sidecarEntry, error) {
	unknown := sidecarEntry{Partition: p.partition, Epoch: epoch, Bytes: size}
	entries, announced, err := p.readSidecar(name, epoch)
	if err != nil || !announced {
		return unknown, err
	}
	fitting := slices.DeleteFunc(entries, func(e sidecarEntry) bool { return e.Bytes != size })
	if len(fitting) > 1 {
		data, err := p.files.Read(p.path(name))
		if err != nil {
			return unknown, err
		}
		fitting = slices.DeleteFunc(fitting, func(e sidecarEntry) bool { return !e.holds(data) })
	}
	if len(fitting) == 0 {
		return unknown, p.damage(epoch, name, errors.New("the bytes are not those that the sidecar announces"))
	}
	return slices.MaxFunc(fitting, func(a, b sidecarEntry) int { return cmp.Compare(a.Sequence, b.Sequence) }), nil
}

func (p *partitionFiles) damage(epoch int64, name string, cause error) error {
	return &DamagedSnapshotError{Partition: p.partition, Epoch: epoch, Name: name, Cause: cause}
}

// readSidecar returns what the sidecar of a container announces, and whether
// there is a sidecar.
func (p *partitionFiles) readSidecar(container string, epoch int64) (entries []sidecarEntry, announced bool, err error) {
	name := container + sidecarSuffix
	data, err := p.files.Read(p.path(name))
	if err != nil {
		return nil, false, ignoreMissing(err)
	}
	if entries, err = decodeSidecar(data); err != nil {
		return nil, true, p.damage(epoch, name, err)
	}
	for _, entry := range entries {
		if entry.Partition != p.partition || entry.Epoch != epoch {
			return nil, true, p.damage(epoch, name, fmt.Errorf("it is that of partition %d at epoch %d", entry.Partition, entry.Epoch))
		}
	}
	return entries, true, nil
}

// infos lists the snapshots, the highest sequence first. Those whose sequence is
// not known come last.
func (p *partitionFiles) infos() []SnapshotInfo {
	var infos []SnapshotInfo
	for _, slot := range p.slots {
		info := slot.info()
		info.Damage = slot.damage
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b SnapshotInfo) int {
		return cmp.Or(cmp.Compare(b.Sequence, a.Sequence), cmp.Compare(b.Epoch, a.Epoch))
	})
	return infos
}

// load returns the state of one epoch, nil where there is none: that of a
// sequence, or with sequence 0 what is there. A container without a sidecar is
// loaded as it is.
func (p *partitionFiles) load(epoch, sequence int64) (map[string][]byte, error) {
	var failure error
	for _, name := range p.containers(epoch) {
		data, err := p.files.Read(p.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		state, found, err := p.read(name, epoch, sequence, data)
		if found {
			return state, nil
		}
		if failure = firstError(failure, err); sequence == 0 {
			break
		}
	}
	return nil, failure
}

// read decodes a container if its sidecar announces it under sequence.
func (p *partitionFiles) read(name string, epoch, sequence int64, data []byte) (state map[string][]byte, found bool, err error) {
	entries, announced, err := p.readSidecar(name, epoch)
	if err != nil {
		return nil, false, err
	}
	at := slices.IndexFunc(entries, func(e sidecarEntry) bool { return e.holds(data) })
	state, err = readContainer(data)
	switch {
	case err != nil:
		return nil, false, p.damage(epoch, name, err)
	case at < 0 && announced:
		return nil, false, p.damage(epoch, name, errors.New("the bytes do not match the checksum in the sidecar"))
	case sequence != 0 && (at < 0 || entries[at].Sequence != sequence):
		return nil, false, p.damage(epoch, name, fmt.Errorf("it is not the snapshot of sequence %d", sequence))
	}
	return state, true, nil
}

// holds reports whether data is the container that the entry announces.
func (e sidecarEntry) holds(data []byte) bool {
	return e.Bytes == int64(len(data)) && e.Checksum == crc32.Checksum(data, castagnoli)
}

// save writes a snapshot: the container beside its place, then the sidecars that
// announce it together with what is in place, then the container into its place.
// At each moment, what is in place is announced.
func (p *partitionFiles) save(info SnapshotInfo, state map[string][]byte) (SnapshotInfo, error) {
	if info.Epoch < NoEpoch {
		return SnapshotInfo{}, fmt.Errorf("epoch %d is negative", info.Epoch)
	}
	for _, name := range p.containers(info.Epoch) {
		if err := p.scanSlot(name, info.Epoch); err != nil {
			return SnapshotInfo{}, err
		}
	}
	temporary := p.temporaryName()
	written, err := p.writeTemporary(temporary, func(w io.Writer) error {
		_, err := writeContainer(w, state)
		return err
	})
	if err != nil {
		return SnapshotInfo{}, err
	}
	info.Sequence, info.Bytes = p.sequence+1, written.bytes
	if err := p.place(temporary, newSidecarEntry(info, written.checksum.Sum32())); err != nil {
		return SnapshotInfo{}, errors.Join(err, ignoreMissing(p.files.Remove(p.path(temporary))))
	}
	return info, nil
}

// place puts a written container where the snapshots of its epoch lie. Outside
// barriers, the one that it replaces moves to the previous place.
func (p *partitionFiles) place(temporary string, entry sidecarEntry) error {
	target := p.container(entry.Epoch)
	present, replaces := p.slots[target]
	replaces = replaces && present.Sequence > 0
	announced := []sidecarEntry{entry}
	if replaces {
		announced = append(announced, present.sidecarEntry)
	}
	if err := p.writeSidecar(target, announced); err != nil {
		return err
	}
	moves := replaces && entry.Epoch == NoEpoch
	if moves {
		announced = announced[1:]
		if older, ok := p.slots[p.previous()]; ok && older.Sequence > 0 {
			announced = append(announced, older.sidecarEntry)
		}
		if err := p.writeSidecar(p.previous(), announced); err != nil {
			return err
		}
	}
	if err := p.files.SyncDirectory(p.directory); err != nil {
		return err
	}
	if moves {
		if err := p.files.Rename(p.path(target), p.path(p.previous())); err != nil {
			return err
		}
	}
	if err := p.files.Rename(p.path(temporary), p.path(target)); err != nil {
		return err
	}
	if err := p.files.SyncDirectory(p.directory); err != nil {
		return err
	}
	if moves {
		p.slots[p.previous()] = present
	}
	p.slots[target] = snapshotSlot{sidecarEntry: entry}
	p.sequence = entry.Sequence
	return nil
}

func (p *partitionFiles) writeSidecar(container string, entries []sidecarEntry) error {
	data, err := encodeSidecar(entries)
	if err != nil {
		return err
	}
	return p.replace(container+sidecarSuffix, data)
}

// replace puts data into a file by way of a temporary one. The directory is the
// caller's to sync.
func (p *partitionFiles) replace(name string, data []byte) error {
	temporary := p.temporaryName()
	_, err := p.writeTemporary(temporary, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	if err := p.files.Rename(p.path(temporary), p.path(name)); err != nil {
		p.files.Remove(p.path(temporary))
		return err
	}
	return nil
}

func (p *partitionFiles) temporaryName() string {
	p.temporary++
	return fmt.Sprintf("%s-%d-%d%s", p.prefix(), time.Now().UnixNano(), p.temporary, temporarySuffix)
}

// measured counts and checksums what is written through it.
type measured struct {
	io.Writer
	bytes    int64
	checksum hash.Hash32
}

func (m *measured) Write(data []byte) (int, error) {
	n, err := m.Writer.Write(data)
	m.bytes += int64(n)
	m.checksum.Write(data[:n])
	return n, err
}

// writeTemporary writes and syncs a new file, and removes it where that fails.
func (p *partitionFiles) writeTemporary(name string, write func(io.Writer) error) (*measured, error) {
	file, err := p.files.Create(p.path(name))
	if err != nil {
		return nil, err
	}
	written := &measured{Writer: file, checksum: crc32.New(castagnoli)}
	buffered := bufio.NewWriterSize(written, 1<<16)
	err = firstError(write(buffered), buffered.Flush())
	if err == nil {
		err = file.Sync()
	}
	if err = firstError(err, file.Close()); err != nil {
		p.files.Remove(p.path(name))
		return nil, err
	}
	return written, nil
}

// removeTemporaries deletes the temporary files of the partition. Nobody writes
// one without the lock that the caller holds.
func (p *partitionFiles) removeTemporaries() error {
	names, err := p.files.Names(p.directory)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, p.prefix()+"-") && strings.HasSuffix(name, temporarySuffix) {
			if err := ignoreMissing(p.files.Remove(p.path(name))); err != nil {
				return err
			}
		}
	}
	return nil
}

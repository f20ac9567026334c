// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
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

	// lockRetry is the pause between attempts at a lock that another process
	// holds.
	lockRetry = 5 * time.Millisecond
)

// Partition is the files of one logical partition in a state directory. Its
// methods are called inside [Partition.Exclusive], except Close and Container.
type Partition struct {
	turn      chan struct{}
	files     FileSystem
	directory string
	partition int

	generation int64 // of the last claim through this store; 0 for none
	sequence   int64 // highest sequence of any snapshot
	temporary  int   // number of the next temporary file

	slots map[string]Snapshot // by container name, as of the last scan or save

	journal journal
}

// NewPartition returns the files of a partition in directory. Several instances
// may exist for the same files, in this process and in others.
func NewPartition(files FileSystem, directory string, partition int) *Partition {
	return &Partition{
		turn: make(chan struct{}, 1), files: files, directory: directory, partition: partition,
		slots:   map[string]Snapshot{},
		journal: journal{files: files, directory: directory, prefix: prefix(partition)},
	}
}

// prefix begins the names of the files of a partition.
func prefix(partition int) string { return "partition-" + strconv.Itoa(partition) }

func (p *Partition) prefix() string { return prefix(p.partition) }

func (p *Partition) path(name string) string { return filepath.Join(p.directory, name) }

// Container is the name of the file with the state of an epoch.
func (p *Partition) Container(epoch int64) string {
	if epoch == NoEpoch {
		return p.prefix() + snapshotSuffix
	}
	return p.prefix() + "-epoch-" + strconv.FormatInt(epoch, 10) + snapshotSuffix
}

// previous is the name of the container that the latest save outside a barrier
// replaced.
func (p *Partition) previous() string { return p.prefix() + "-previous" + snapshotSuffix }

// containers are the names of the files that can hold a snapshot of epoch, the
// newest first.
func (p *Partition) containers(epoch int64) []string {
	if epoch == NoEpoch {
		return []string{p.Container(epoch), p.previous()}
	}
	return []string{p.Container(epoch)}
}

// Exclusive runs f while neither this process nor another uses the files. It
// waits for its turn until ctx ends.
func (p *Partition) Exclusive(ctx context.Context, f func() error) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.turn }()
	lock, err := p.lock(ctx)
	if err != nil {
		return err
	}
	return cmp.Or(f(), lock.Close())
}

// Close closes the open end of the journal. The partition may be used again.
func (p *Partition) Close() error {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	return p.journal.close()
}

// lock waits for the files' lock, which other stores and processes take too.
func (p *Partition) lock(ctx context.Context) (io.Closer, error) {
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

// Own fails unless generation is that of the present owner. It brings the view
// of the files up to date where the owner's store is another one.
func (p *Partition) Own(generation int64) error {
	current, err := p.owner()
	if err != nil {
		return err
	}
	if generation != current {
		return &StaleOwnerError{Generation: generation, Current: current}
	}
	if p.generation == current {
		return nil
	}
	p.generation = current
	return p.Scan()
}

// owner reads the present generation; 0 when nobody has claimed the partition.
func (p *Partition) owner() (int64, error) {
	name := p.prefix() + ".owner"
	data, err := p.files.Read(p.path(name))
	if err != nil {
		return 0, ignoreMissing(err)
	}
	generation, err := strconv.ParseInt(strings.TrimSuffix(string(data), "\n"), 10, 64)
	if err != nil || generation < 1 {
		return 0, damage(NoEpoch, name, fmt.Errorf("not a generation: %.40q", data))
	}
	return generation, nil
}

// Claim takes the next generation. Every snapshot carries the generation that
// saved it, so that a lost owner file does not start over.
func (p *Partition) Claim() (int64, error) {
	current, err := p.owner()
	var damaged *DamageError
	if err != nil && !errors.As(err, &damaged) {
		return 0, err
	}
	if err := p.Scan(); err != nil {
		return 0, err
	}
	for _, slot := range p.slots {
		current = max(current, slot.Generation)
	}
	current++
	if err := p.replace(p.prefix()+".owner", fmt.Appendf(nil, "%d\n", current)); err != nil {
		return 0, err
	}
	if err := p.journal.close(); err != nil {
		return 0, err
	}
	// An owner that died may have left rounds that it had not synced. The new owner
	// goes on behind them, so they must outlive what it appends.
	if err := p.journal.sync(); err != nil {
		return 0, err
	}
	p.generation = current
	return current, p.files.SyncDirectory(p.directory)
}

// Scan reads the sidecars of the partition and finds the entry that each
// container answers for.
func (p *Partition) Scan() error {
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
	p.journal.segments = p.journal.find(names)
	for _, segment := range p.journal.segments {
		p.sequence = max(p.sequence, segment.sequence)
	}
	return nil
}

// epochOf returns the epoch of a container of this partition.
func (p *Partition) epochOf(name string) (int64, bool) {
	if name == p.Container(NoEpoch) || name == p.previous() {
		return NoEpoch, true
	}
	digits, ok := strings.CutPrefix(name, p.prefix()+"-epoch-")
	if !ok {
		return 0, false
	}
	epoch, err := strconv.ParseInt(strings.TrimSuffix(digits, snapshotSuffix), 10, 64)
	return epoch, err == nil && epoch >= 0 && p.Container(epoch) == name
}

// scanSlot takes one container into view. A sidecar alone is what a save that
// was cut short announced, or what is left of a removed snapshot.
func (p *Partition) scanSlot(name string, epoch int64) error {
	size, err := p.files.Size(p.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		delete(p.slots, name)
		return nil
	}
	if err != nil {
		return err
	}
	entry, err := p.match(name, epoch, size)
	var damaged *DamageError
	if err != nil && !errors.As(err, &damaged) {
		return err
	}
	entry.Damage = err
	p.slots[name] = entry
	p.sequence = max(p.sequence, entry.Sequence)
	return nil
}

// match finds the entry that a container answers for, by length, and by
// checksum where several have that length.
func (p *Partition) match(name string, epoch, size int64) (Snapshot, error) {
	unknown := Snapshot{Partition: p.partition, Epoch: epoch, Bytes: size}
	entries, announced, err := p.readSidecar(name, epoch)
	if err != nil || !announced {
		return unknown, err
	}
	fitting := slices.DeleteFunc(entries, func(e Snapshot) bool { return e.Bytes != size })
	if len(fitting) > 1 {
		data, err := p.files.Read(p.path(name))
		if err != nil {
			return unknown, err
		}
		fitting = slices.DeleteFunc(fitting, func(e Snapshot) bool { return !e.holds(data) })
	}
	if len(fitting) == 0 {
		return unknown, damage(epoch, name, errors.New("the bytes are not those that the sidecar announces"))
	}
	return slices.MaxFunc(fitting, func(a, b Snapshot) int { return cmp.Compare(a.Sequence, b.Sequence) }), nil
}

// readSidecar returns what the sidecar of a container announces, and whether
// there is a sidecar.
func (p *Partition) readSidecar(container string, epoch int64) (entries []Snapshot, announced bool, err error) {
	name := container + sidecarSuffix
	data, err := p.files.Read(p.path(name))
	if err != nil {
		return nil, false, ignoreMissing(err)
	}
	if entries, err = decodeSidecar(data); err != nil {
		return nil, true, damage(epoch, name, err)
	}
	for _, entry := range entries {
		if entry.Partition != p.partition || entry.Epoch != epoch {
			return nil, true, damage(epoch, name, fmt.Errorf("it is that of partition %d at epoch %d", entry.Partition, entry.Epoch))
		}
	}
	return entries, true, nil
}

// Snapshots lists the snapshots, the highest sequence first. Those whose sequence is
// not known come last.
func (p *Partition) Snapshots() []Snapshot {
	return slices.SortedFunc(maps.Values(p.slots), func(a, b Snapshot) int {
		return cmp.Or(cmp.Compare(b.Sequence, a.Sequence), cmp.Compare(b.Epoch, a.Epoch))
	})
}

// Load returns the state of one epoch, nil where there is none: that of a
// sequence, or with sequence 0 what is there. A container without a sidecar is
// loaded as it is.
func (p *Partition) Load(epoch, sequence int64) (map[string][]byte, error) {
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
		if failure = cmp.Or(failure, err); sequence == 0 {
			break
		}
	}
	return nil, failure
}

// read decodes a container if its sidecar announces it under sequence.
func (p *Partition) read(name string, epoch, sequence int64, data []byte) (state map[string][]byte, found bool, err error) {
	entries, announced, err := p.readSidecar(name, epoch)
	if err != nil {
		return nil, false, err
	}
	at := slices.IndexFunc(entries, func(e Snapshot) bool { return e.holds(data) })
	state, err = readContainer(data)
	switch {
	case err != nil:
		return nil, false, damage(epoch, name, err)
	case at < 0 && announced:
		return nil, false, damage(epoch, name, errors.New("the bytes do not match the checksum in the sidecar"))
	case sequence != 0 && (at < 0 || entries[at].Sequence != sequence):
		return nil, false, damage(epoch, name, fmt.Errorf("it is not the snapshot of sequence %d", sequence))
	}
	return state, true, nil
}

// holds reports whether data is the container that the entry announces.
func (e Snapshot) holds(data []byte) bool {
	return e.Bytes == int64(len(data)) && e.Checksum == crc32.Checksum(data, castagnoli)
}

// Save writes a snapshot: the container beside its place, then the sidecars that
// announce it together with what is in place, then the container into its place.
// At each moment, what is in place is announced.
func (p *Partition) Save(snapshot Snapshot, state map[string][]byte) (Snapshot, error) {
	if snapshot.Epoch < NoEpoch {
		return Snapshot{}, fmt.Errorf("epoch %d is negative", snapshot.Epoch)
	}
	for _, name := range p.containers(snapshot.Epoch) {
		if err := p.scanSlot(name, snapshot.Epoch); err != nil {
			return Snapshot{}, err
		}
	}
	temporary := p.temporaryName()
	written, err := writeSynced(p.files, p.path(temporary), func(w io.Writer) error {
		_, err := writeContainer(w, state)
		return err
	})
	if err != nil {
		return Snapshot{}, err
	}
	snapshot.Sequence, snapshot.Bytes, snapshot.Checksum = p.sequence+1, written.bytes, written.checksum.Sum32()
	if err := p.place(temporary, snapshot); err != nil {
		return Snapshot{}, errors.Join(err, ignoreMissing(p.files.Remove(p.path(temporary))))
	}
	return snapshot, nil
}

// place puts a written container where the snapshots of its epoch lie. Outside
// barriers, the one that it replaces moves to the previous place.
func (p *Partition) place(temporary string, entry Snapshot) error {
	target := p.Container(entry.Epoch)
	present, replaces := p.slots[target]
	replaces = replaces && present.Sequence > 0
	announced := []Snapshot{entry}
	if replaces {
		announced = append(announced, present)
	}
	if err := p.writeSidecar(target, announced); err != nil {
		return err
	}
	moves := replaces && entry.Epoch == NoEpoch
	if moves {
		announced = announced[1:]
		if older, ok := p.slots[p.previous()]; ok && older.Sequence > 0 {
			announced = append(announced, older)
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
	p.slots[target] = entry
	p.sequence = entry.Sequence
	return nil
}

func (p *Partition) writeSidecar(container string, entries []Snapshot) error {
	data, err := encodeSidecar(entries)
	if err != nil {
		return err
	}
	return p.replace(container+sidecarSuffix, data)
}

// replace puts data into a file by way of a temporary one. The directory is the
// caller's to sync.
func (p *Partition) replace(name string, data []byte) error {
	temporary := p.temporaryName()
	_, err := writeSynced(p.files, p.path(temporary), func(w io.Writer) error {
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

func (p *Partition) temporaryName() string {
	p.temporary++
	return fmt.Sprintf("%s-%d-%d%s", p.prefix(), time.Now().UnixNano(), p.temporary, temporarySuffix)
}

// AppendRound adds a round to the journal of the owner of generation, durably.
func (p *Partition) AppendRound(generation int64, round []byte) error {
	return p.journal.append(p.sequence, generation, round)
}

// Rounds returns the rounds that were appended since the snapshot of sequence was
// saved, in order. Rounds that lie before it can come first. The end of a file may
// lack a round whose append did not complete.
func (p *Partition) Rounds(sequence int64) ([][]byte, error) { return p.journal.rounds(sequence) }

// RemoveTemporaries deletes the temporary files of the partition. Nobody writes
// one without the lock that the caller holds.
func (p *Partition) RemoveTemporaries() error {
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

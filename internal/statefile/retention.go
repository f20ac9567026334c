// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Confirm marks the snapshot of a sequence confirmed.
func (p *Partition) Confirm(epoch, sequence int64) error {
	for _, name := range p.containers(epoch) {
		slot, ok := p.slots[name]
		if !ok || slot.Sequence != sequence {
			continue
		}
		slot.Confirmed = true
		return p.rewrite(name, slot)
	}
	return damage(epoch, p.Container(epoch), fmt.Errorf("no snapshot of sequence %d", sequence))
}

// rewrite replaces the sidecar of a container.
func (p *Partition) rewrite(name string, slot Snapshot) error {
	if err := p.writeSidecar(name, []Snapshot{slot}); err != nil {
		return err
	}
	p.slots[name] = slot
	return p.files.SyncDirectory(p.directory)
}

// remove deletes a container and its sidecar.
func (p *Partition) remove(name string) error {
	if err := ignoreMissing(p.files.Remove(p.path(name))); err != nil {
		return err
	}
	if err := ignoreMissing(p.files.Remove(p.path(name + sidecarSuffix))); err != nil {
		return err
	}
	delete(p.slots, name)
	return nil
}

// Abandon makes the snapshots above sequence unusable for recovery. What a
// restore to an epoch may still ask for stays.
func (p *Partition) Abandon(sequence int64) error {
	for name, slot := range p.slots {
		if slot.Sequence <= sequence || slot.Abandoned {
			continue
		}
		if slot.Epoch == NoEpoch || !slot.Confirmed {
			if err := p.remove(name); err != nil {
				return err
			}
			continue
		}
		slot.Abandoned = true
		if err := p.rewrite(name, slot); err != nil {
			return err
		}
	}
	return p.files.SyncDirectory(p.directory)
}

// Retain deletes the oldest barrier snapshots beyond a number of epochs, except
// the newest confirmed one, and the journal that no snapshot needs.
func (p *Partition) Retain(epochs int) error {
	var slots []Snapshot
	confirmed := int64(0)
	for _, slot := range p.slots {
		if slot.Epoch != NoEpoch && slot.Sequence > 0 {
			slots = append(slots, slot)
			if slot.Confirmed {
				confirmed = max(confirmed, slot.Sequence)
			}
		}
	}
	slices.SortFunc(slots, func(a, b Snapshot) int { return cmp.Compare(b.Sequence, a.Sequence) })
	for _, slot := range slots[min(epochs, len(slots)):] {
		if slot.Sequence == confirmed {
			continue
		}
		if err := p.remove(p.Container(slot.Epoch)); err != nil {
			return err
		}
	}
	return p.TrimJournal()
}

// TrimJournal deletes the segments that lie before every snapshot that recovery
// could start from.
func (p *Partition) TrimJournal() error {
	oldest := int64(math.MaxInt64)
	for _, slot := range p.slots {
		if slot.Sequence > 0 && !slot.Abandoned {
			oldest = min(oldest, slot.Sequence)
		}
	}
	return p.journal.drop(func(segment journalSegment) bool { return segment.sequence < oldest })
}

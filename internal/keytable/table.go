// SPDX-License-Identifier: Apache-2.0

package keytable

import (
	"fmt"
	"math"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// MaxGroups is the number of groups that a table can number.
const MaxGroups = math.MaxUint32 - 1

// Table numbers the distinct keys of rows in the order in which they
// appear. It is a hash table with open addressing whose slots hold half a hash
// and the number of a group; the keys lie in the rows of the groups.
type Table struct {
	Rows   Rows
	Keys   []Column
	Groups int
	limit  int

	slots []uint64 // hash<<32 | group+1, or 0

	// Scratch of lookup.
	tags    []uint32
	entries []uint64
	hashes  []uint64
}

// New returns an empty table that refuses more than limit groups. Its
// key columns are set by the caller.
func New(limit int) Table { return Table{slots: make([]uint64, minSlots), limit: limit} }

const minSlots = 16

// ChunkRows is the number of rows that are taken through all steps together, so
// that the groups they touch stay in the processor's cache.
const ChunkRows = 1024

// Lookup sets ids to the groups of the rows from first on that the key columns
// have loaded, and adds a group for each new key. On an error some may have
// been added.
//
// It first reads a slot for each row, which the processor can do for many rows
// at once, and then compares keys.
func (t *Table) Lookup(ids []uint32, first int) error {
	tags, entries := arrays.Resized(&t.tags, len(ids)), arrays.Resized(&t.entries, len(ids))
	if a, ok := t.wordKey(0); ok && len(t.Keys) == 1 {
		return t.lookupWord(ids, first, tags, entries, a)
	} else if b, bothWords := t.wordKey(1); ok && bothWords && len(t.Keys) == 2 {
		return t.lookupWords(ids, first, tags, entries, a, b)
	}
	hashes := arrays.Resized(&t.hashes, len(ids))
	clear(hashes)
	for _, key := range t.Keys {
		key.mix(hashes, first)
	}
	mask := uint32(len(t.slots) - 1)
	for i, hash := range hashes {
		tags[i], entries[i] = uint32(hash), t.slots[uint32(hash)&mask]
	}
	for i, entry := range entries {
		row := first + i
		if group := uint32(entry) - 1; entry != 0 && uint32(entry>>32) == tags[i] && t.hasKey(group, row) {
			ids[i] = group
			continue
		}
		slot, group := t.find(tags[i], func(group uint32) bool { return t.hasKey(group, row) })
		if group == None {
			var err error
			if group, err = t.add(tags[i], slot); err != nil {
				return err
			}
			for _, key := range t.Keys {
				key.set(group, row)
			}
		}
		ids[i] = group
	}
	return nil
}

// wordKey returns a key column if it is one of words and no key is null.
func (t *Table) wordKey(i int) (*WordColumn, bool) {
	if i >= len(t.Keys) {
		return nil, false
	}
	words, ok := t.Keys[i].(*WordColumn)
	return words, ok && words.plain()
}

// lookupWord is lookup for one key column of words.
func (t *Table) lookupWord(ids []uint32, first int, tags []uint32, entries []uint64, key *WordColumn) error {
	batch := key.batch[first : first+len(ids)]
	mask, stride := uint32(len(t.slots)-1), t.Rows.Stride
	for i, word := range batch {
		tag := uint32(mixWord(0, word))
		tags[i], entries[i] = tag, t.slots[tag&mask]
	}
	words := t.Rows.Words
	for i, word := range batch {
		entry, tag := entries[i], tags[i]
		if group := uint32(entry) - 1; entry != 0 && uint32(entry>>32) == tag && words[int(group)*stride+headerWords] == uint64(word) {
			ids[i] = group
			continue
		}
		slot, group := t.find(tag, func(group uint32) bool { return t.Rows.Words[int(group)*stride+headerWords] == uint64(word) })
		if group == None {
			var err error
			if group, err = t.add(tag, slot); err != nil {
				return err
			}
			words = t.Rows.Words
			words[int(group)*stride+headerWords] = uint64(word)
		}
		ids[i] = group
	}
	return nil
}

// lookupWords is lookup for two key columns of words.
func (t *Table) lookupWords(ids []uint32, first int, tags []uint32, entries []uint64, a, b *WordColumn) error {
	one, two := a.batch[first:first+len(ids)], b.batch[first:first+len(ids)]
	mask, stride := uint32(len(t.slots)-1), t.Rows.Stride
	for i, word := range one {
		tag := uint32(mixWord(mixWord(0, word), two[i]))
		tags[i], entries[i] = tag, t.slots[tag&mask]
	}
	words := t.Rows.Words
	for i, word := range one {
		entry, tag, second := entries[i], tags[i], two[i]
		if group := uint32(entry) - 1; entry != 0 && uint32(entry>>32) == tag &&
			words[int(group)*stride+headerWords] == uint64(word) && words[int(group)*stride+headerWords+1] == uint64(second) {
			ids[i] = group
			continue
		}
		slot, group := t.find(tag, func(group uint32) bool {
			return t.Rows.Words[int(group)*stride+headerWords] == uint64(word) && t.Rows.Words[int(group)*stride+headerWords+1] == uint64(second)
		})
		if group == None {
			var err error
			if group, err = t.add(tag, slot); err != nil {
				return err
			}
			words = t.Rows.Words
			words[int(group)*stride+headerWords], words[int(group)*stride+headerWords+1] = uint64(word), uint64(second)
		}
		ids[i] = group
	}
	return nil
}

func (t *Table) hasKey(group uint32, row int) bool {
	for _, key := range t.Keys {
		if !key.equal(group, row) {
			return false
		}
	}
	return true
}

// None is no number of a group.
const None = math.MaxUint32

// find returns the group with that half hash for which isKey is true, or the
// slot that a new group would take.
func (t *Table) find(tag uint32, isKey func(group uint32) bool) (slot, group uint32) {
	mask := uint32(len(t.slots) - 1)
	for slot = tag & mask; ; slot = (slot + 1) & mask {
		entry := t.slots[slot]
		if entry == 0 {
			return slot, None
		}
		if group := uint32(entry) - 1; uint32(entry>>32) == tag && isKey(group) {
			return slot, group
		}
	}
}

// add adds a group whose key is absent, with a row of zeros. slot is where find
// ended.
func (t *Table) add(tag, slot uint32) (uint32, error) {
	if t.Groups >= t.limit {
		return 0, &StateLimitError{Limit: t.limit}
	}
	if (t.Groups+1)*3 > len(t.slots)*2 {
		t.rehash(len(t.slots) * 2)
		slot, _ = t.find(tag, func(uint32) bool { return false })
	}
	group := uint32(t.Groups)
	t.slots[slot] = uint64(tag)<<32 | uint64(group+1)
	t.Groups++
	t.Rows.add()
	return group, nil
}

// tagsOf returns the half hashes of all groups.
func (t *Table) tagsOf() []uint32 {
	tags := make([]uint32, t.Groups)
	for _, entry := range t.slots {
		if entry != 0 {
			tags[uint32(entry)-1] = uint32(entry >> 32)
		}
	}
	return tags
}

// rehash moves the groups to another number of slots. Groups enter in the order
// of their numbers, so that removing the latest first leaves no gaps.
func (t *Table) rehash(slots int) {
	tags := t.tagsOf()
	t.slots = make([]uint64, slots)
	for group, tag := range tags {
		slot, _ := t.find(tag, func(uint32) bool { return false })
		t.slots[slot] = uint64(tag)<<32 | uint64(group+1)
	}
}

// tagOf returns the half hash of a group.
func (t *Table) tagOf(group uint32) uint32 {
	return uint32(t.groupHashes(group, 1)[0])
}

// groupHashes returns the hashes of groups from first on. They are valid until
// the next call.
func (t *Table) groupHashes(first uint32, groups int) []uint64 {
	hashes := arrays.Resized(&t.hashes, groups)
	clear(hashes)
	for _, key := range t.Keys {
		key.mixGroups(hashes, first)
	}
	return hashes
}

// Truncate removes all groups from a number on.
func (t *Table) Truncate(groups int) {
	for group := t.Groups - 1; group >= groups; group-- {
		slot, _ := t.find(t.tagOf(uint32(group)), func(other uint32) bool { return other == uint32(group) })
		t.slots[slot] = 0
	}
	for _, key := range t.Keys {
		key.truncate(groups)
	}
	t.Rows.truncate(groups)
	t.Groups = groups
}

// Keep removes all groups but the given ones, which are ascending and are
// numbered anew in their order.
func (t *Table) Keep(groups []uint32) {
	tags := Kept(t.tagsOf(), groups)
	t.Rows.keep(groups)
	t.Groups = len(groups)
	for _, key := range t.Keys {
		key.compact(t.Groups)
	}
	t.slots = make([]uint64, slotsFor(t.Groups))
	for group, tag := range tags {
		slot, _ := t.find(tag, func(uint32) bool { return false })
		t.slots[slot] = uint64(tag)<<32 | uint64(group+1)
	}
}

// Kept returns the items at the given positions, in memory of their own.
func Kept[T any](items []T, at []uint32) []T {
	out := make([]T, len(at), len(at)+len(at)/4)
	for i, position := range at {
		out[i] = items[position]
	}
	return out
}

// slotsFor returns how many slots hold that many groups with room to grow.
func slotsFor(groups int) int {
	slots := minSlots
	for groups*2 > slots {
		slots *= 2
	}
	return slots
}

// Index enters groups whose rows and keys are there. Equal keys are an error.
//
// As lookup does, it first reads a slot for each of many groups.
func (t *Table) Index(groups int) error {
	t.slots, t.Groups = make([]uint64, slotsFor(groups)), 0
	mask := uint32(len(t.slots) - 1)
	for first := 0; first < groups; first += ChunkRows {
		hashes := t.groupHashes(uint32(first), min(ChunkRows, groups-first))
		entries := arrays.Resized(&t.entries, len(hashes))
		for i, hash := range hashes {
			entries[i] = t.slots[uint32(hash)&mask]
		}
		for i, hash := range hashes {
			tag, group := uint32(hash), uint32(first+i)
			slot := tag & mask
			for entry := t.slots[slot]; entry != 0; entry = t.slots[slot] {
				if other := uint32(entry) - 1; uint32(entry>>32) == tag && t.sameKey(other, group) {
					return fmt.Errorf("groups %d and %d have the same key", other, group)
				}
				slot = (slot + 1) & mask
			}
			t.slots[slot] = uint64(tag)<<32 | uint64(group+1)
			t.Groups++
		}
	}
	return nil
}

func (t *Table) sameKey(a, b uint32) bool {
	for _, key := range t.Keys {
		if !key.equalGroups(a, b) {
			return false
		}
	}
	return true
}

// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"cmp"
	"math"
	"slices"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// stateIndex is what a state topic says about one logical partition, folded in
// the order of the log. Whoever reads the log comes to the same index: a record
// of an owner counts if no newer owner's claim comes before it.
type stateIndex struct {
	generation int64           // of the present owner; 0 before the first claim
	claims     map[int64]int64 // accepted: generation to offset
	sequence   int64           // highest of any snapshot
	round      int64           // highest number of any round
	snapshots  map[snapshotID]*storedSnapshot
	pieces     map[snapshotID][]stateKey // chunks of snapshots without a manifest
	rounds     []storedRound
	marks      map[snapshotID][]stateKey // records about snapshots that go when those go
	refused    []stateKey                // records that came too late
}

type snapshotID struct{ generation, sequence int64 }

type storedSnapshot struct {
	stateSnapshot
	key       stateKey
	confirmed bool
	abandoned bool
	damage    error
}

type storedRound struct {
	key      stateKey
	offset   int64
	sequence int64 // of the newest snapshot before it
}

func newStateIndex() *stateIndex {
	return &stateIndex{
		claims:    map[int64]int64{},
		snapshots: map[snapshotID]*storedSnapshot{},
		pieces:    map[snapshotID][]stateKey{},
		marks:     map[snapshotID][]stateKey{},
	}
}

// take folds one record.
func (x *stateIndex) take(key stateKey, value []byte, offset int64) {
	if len(value) == 0 {
		x.remove(key)
		return
	}
	id := snapshotID{key.generation, key.sequence}
	if key.kind == stateClaim {
		if key.writer > x.generation {
			x.generation = key.writer
			x.claims[key.writer] = offset
		} else {
			x.refused = append(x.refused, key)
		}
		return
	}
	switch key.kind {
	case stateManifest:
		x.sequence = max(x.sequence, key.sequence)
	case stateRound:
		x.round = max(x.round, key.sequence)
	case stateConfirm:
		// A fact, whoever states it: the offsets were committed.
		if s := x.snapshots[id]; s != nil {
			s.confirmed = true
		}
		x.marks[id] = append(x.marks[id], key)
		return
	case stateChunk:
		x.pieces[id] = append(x.pieces[id], key)
		return
	}
	if key.writer < x.generation {
		x.refused = append(x.refused, key)
		return
	}
	switch key.kind {
	case stateManifest:
		s := &storedSnapshot{key: key}
		s.stateSnapshot, s.damage = decodeStateSnapshot(value)
		s.confirmed = s.Confirmed
		x.snapshots[id] = s
		delete(x.pieces, id)
	case stateAbandon:
		if s := x.snapshots[id]; s != nil {
			s.abandoned = true
		}
		x.marks[id] = append(x.marks[id], key)
	case stateRound:
		x.rounds = append(x.rounds, storedRound{key: key, offset: offset, sequence: x.sequence})
	}
}

// remove folds a deletion.
func (x *stateIndex) remove(key stateKey) {
	id := snapshotID{key.generation, key.sequence}
	same := func(k stateKey) bool { return k == key }
	switch key.kind {
	case stateClaim:
		delete(x.claims, key.writer)
	case stateManifest:
		delete(x.snapshots, id)
	case stateChunk:
		if x.pieces[id] = slices.DeleteFunc(x.pieces[id], same); len(x.pieces[id]) == 0 {
			delete(x.pieces, id)
		}
	case stateRound:
		x.rounds = slices.DeleteFunc(x.rounds, func(r storedRound) bool { return r.key == key })
	case stateConfirm, stateAbandon:
		if x.marks[id] = slices.DeleteFunc(x.marks[id], same); len(x.marks[id]) == 0 {
			delete(x.marks, id)
		}
	}
	x.refused = slices.DeleteFunc(x.refused, same)
}

// newestFirst returns the snapshots, the highest sequence first.
func (x *stateIndex) newestFirst() []*storedSnapshot {
	var list []*storedSnapshot
	for _, s := range x.snapshots {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *storedSnapshot) int {
		return cmp.Or(cmp.Compare(b.key.sequence, a.key.sequence), cmp.Compare(b.key.generation, a.key.generation))
	})
	return list
}

func (s *storedSnapshot) describe() columnar.SnapshotInfo {
	info := s.info(s.key)
	info.Confirmed, info.Abandoned, info.Damage = s.confirmed, s.abandoned, s.damage
	return info
}

// keys returns the keys of everything that makes up a snapshot, the manifest
// first: without it nothing else counts.
func (x *stateIndex) keys(s *storedSnapshot) []stateKey {
	keys := []stateKey{s.key}
	for node, n := range s.Nodes {
		for chunk := range n.Chunks {
			keys = append(keys, s.key.chunk(node, chunk))
		}
	}
	return append(keys, x.marks[snapshotID{s.key.generation, s.key.sequence}]...)
}

// chunk returns the key of a chunk of the snapshot that k is the manifest of.
func (k stateKey) chunk(node int, index int64) stateKey {
	k.kind, k.node, k.index = stateChunk, int64(node), index
	return k
}

// superseded returns the snapshots that nobody needs beside the others of their
// epoch: outside barriers, those older than the newest confirmed one; of a
// barrier, all but the newest.
func (x *stateIndex) superseded(epoch int64) []*storedSnapshot {
	var drop []*storedSnapshot
	seen, confirmed := false, false
	for _, s := range x.newestFirst() {
		if s.Epoch != epoch || s.damage != nil {
			continue
		}
		keep := !seen || epoch == columnar.NoEpoch && !confirmed
		seen = true
		confirmed = confirmed || s.confirmed
		if !keep {
			drop = append(drop, s)
		}
	}
	return drop
}

// expired returns the barrier snapshots beyond a number of epochs, except the
// newest confirmed one.
func (x *stateIndex) expired(retained int) []*storedSnapshot {
	var drop []*storedSnapshot
	epochs, confirmed := 0, false
	for _, s := range x.newestFirst() {
		if s.Epoch == columnar.NoEpoch {
			continue
		}
		epochs++
		newest := s.confirmed && !confirmed
		confirmed = confirmed || s.confirmed
		if epochs > retained && !newest {
			drop = append(drop, s)
		}
	}
	return drop
}

// outdatedRounds returns the rounds before every snapshot that recovery could
// start from.
func (x *stateIndex) outdatedRounds() []stateKey {
	oldest := int64(math.MaxInt64)
	for _, s := range x.snapshots {
		if !s.abandoned {
			oldest = min(oldest, s.key.sequence)
		}
	}
	if oldest == math.MaxInt64 {
		return nil
	}
	var keys []stateKey
	for _, r := range x.rounds {
		if r.sequence < oldest {
			keys = append(keys, r.key)
		}
	}
	return keys
}

// garbage returns what an owner deletes when it takes the partition: what was
// refused, pieces of saves that did not complete, and last the claims before its
// own. A claim must outlive what it refuses.
func (x *stateIndex) garbage(own int64) (before, claims []stateKey) {
	before = slices.Clone(x.refused)
	for _, pieces := range x.pieces {
		before = append(before, pieces...)
	}
	for id, marks := range x.marks {
		if x.snapshots[id] == nil {
			before = append(before, marks...)
		}
	}
	for generation := range x.claims {
		if generation < own {
			claims = append(claims, stateKey{kind: stateClaim, writer: generation})
		}
	}
	return before, claims
}

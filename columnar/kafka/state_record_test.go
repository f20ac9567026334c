// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

func TestStateKeyLayout(t *testing.T) {
	key := stateKey{kind: stateChunk, partition: 3, writer: 4, generation: 5, sequence: 6, node: 7, index: 8}
	want := "00000001" + "00000003" + "0000000000000004" + "0000000000000005" + "0000000000000006" + "0000000000000007" + "0000000000000008"
	if diff := cmp.Diff(want, hex.EncodeToString(key.encode())); diff != "" {
		t.Errorf("key mismatch (-want +got):\n%s", diff)
	}
	got, err := decodeStateKey(key.encode())
	if err != nil || got != key {
		t.Errorf("decodeStateKey = %+v, %v; want %+v", got, err, key)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"short":    func(b []byte) []byte { return b[:len(b)-1] },
		"long":     func(b []byte) []byte { return append(b, 0) },
		"version":  func(b []byte) []byte { b[1] = 1; return b },
		"kind":     func(b []byte) []byte { b[3] = 9; return b },
		"negative": func(b []byte) []byte { b[8] = 0x80; return b },
	} {
		if got, err := decodeStateKey(damage(key.encode())); err == nil {
			t.Errorf("%s: decodeStateKey = %+v, want an error", name, got)
		}
	}
}

func TestStateSnapshotRoundTrip(t *testing.T) {
	info := columnar.SnapshotInfo{
		Partition: 3, Epoch: 7, Group: "g", Sequence: 9, Generation: 2, Round: 5,
		Positions:       map[columnar.TopicPartition]int64{at("b", 3): 10, at("a", 3): 20},
		PartitionCounts: map[string]int{"a": 4}, Layout: map[string]string{"count": "v1"},
		TakenAt: time.UnixMilli(1724500000042), Bytes: 3, Confirmed: true,
	}
	snapshot := newStateSnapshot(info, map[string][]byte{"count": []byte("abc"), "empty": {}})
	snapshot.First, snapshot.Last = 4, 4
	value, err := json.Marshal(snapshot)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	got, err := decodeStateSnapshot(value)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if diff := cmp.Diff(info, got.info(stateKey{partition: 3, generation: 2, sequence: 9})); diff != "" {
		t.Errorf("info mismatch (-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{
		"no JSON":            `{`,
		"epoch":              `{"epoch":-2}`,
		"negative size":      `{"nodes":[{"name":"a","bytes":-1,"chunks":0}],"first":0,"last":9}`,
		"too many chunks":    `{"nodes":[{"name":"a","bytes":1,"chunks":9}],"first":0,"last":9}`,
		"chunks for nothing": `{"nodes":[{"name":"a","bytes":0,"chunks":1}],"first":0,"last":9}`,
		"no room":            `{"nodes":[{"name":"a","bytes":1,"chunks":1},{"name":"b","bytes":1,"chunks":1}],"first":4,"last":4}`,
		"offsets":            `{"first":-1,"last":3}`,
	} {
		if got, err := decodeStateSnapshot([]byte(text)); err == nil {
			t.Errorf("%s: decodeStateSnapshot = %+v, want an error", name, got)
		}
	}
}

// logEntry is one record of a state log.
type logEntry struct {
	key   stateKey
	value []byte
}

// compact keeps the last record of each key below an offset, as the cleaner of
// a broker does, and drops deletions there.
func compact(log map[int64]logEntry, below int64) map[int64]logEntry {
	last := map[stateKey]int64{}
	for offset, e := range log {
		if offset < below {
			last[e.key] = max(last[e.key], offset)
		}
	}
	kept := map[int64]logEntry{}
	for offset, e := range log {
		if offset >= below || offset == last[e.key] && len(e.value) > 0 {
			kept[offset] = e
		}
	}
	return kept
}

// view is what a reader of the log would use.
func (x *stateIndex) view() string {
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d\n", x.generation)
	for _, s := range x.newestFirst() {
		fmt.Fprintf(&b, "snapshot %+v\n", s.describe())
	}
	for _, r := range x.rounds {
		fmt.Fprintf(&b, "round %d of %d\n", r.key.sequence, r.key.writer)
	}
	return b.String()
}

// Owners come and go, and those that are gone go on writing. A reader of the log
// must see the same before and after compaction.
func TestStateIndexOutlivesCompaction(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for run := range 200 {
		log := map[int64]logEntry{}
		live := newStateIndex()
		next := int64(0)
		write := func(key stateKey, value string) int64 {
			log[next] = logEntry{key, []byte(value)}
			live.take(key, []byte(value), next)
			next++
			return next - 1
		}
		owners := []int64{0}
		manifest := func(epoch int64) string {
			return fmt.Sprintf(`{"epoch":%d,"nodes":[{"name":"n","bytes":1,"chunks":1}],"first":%d,"last":%d}`, epoch, next-1, next-1)
		}
		for step := range 60 {
			writer := owners[random.IntN(len(owners))] // also one that is gone
			switch random.IntN(8) {
			case 0:
				generation := live.generation + 1
				offset := write(stateKey{kind: stateClaim, writer: generation}, "x")
				if live.claims[generation] != offset {
					t.Fatalf("run %d: claim %d was not accepted", run, generation)
				}
				before, claims := live.garbage(generation)
				for _, key := range append(before, claims...) {
					write(key, "")
				}
				owners = append(owners, generation)
			case 1, 2:
				key := stateKey{kind: stateManifest, writer: writer, generation: writer, sequence: live.sequence + 1}
				write(key.chunk(0, 0), "c")
				if random.IntN(4) > 0 { // or the writer crashes
					write(key, manifest(int64(random.IntN(3)-1)))
				}
			case 3:
				write(stateKey{kind: stateRound, writer: writer, sequence: live.round + 1}, "r")
			default:
				list := live.newestFirst()
				if len(list) == 0 {
					continue
				}
				s := list[random.IntN(len(list))]
				switch random.IntN(3) {
				case 0:
					write(stateKey{kind: stateConfirm, writer: writer, generation: s.key.generation, sequence: s.key.sequence, index: int64(step)}, "x")
				case 1:
					write(stateKey{kind: stateAbandon, writer: writer, generation: s.key.generation, sequence: s.key.sequence, index: int64(step)}, "x")
				case 2:
					if writer != live.generation {
						continue // deletions are the owner's
					}
					var drop []stateKey
					for _, old := range append(live.superseded(s.Epoch), live.expired(1)...) {
						drop = append(drop, live.keys(old)...)
					}
					for _, key := range append(drop, live.outdatedRounds()...) {
						write(key, "")
					}
				}
			}
			if random.IntN(10) == 0 {
				log = compact(log, random.Int64N(next+1))
			}
		}
		for _, below := range []int64{0, next / 2, next} {
			read := newStateIndex()
			compacted := compact(log, below)
			for _, offset := range slices.Sorted(maps.Keys(compacted)) {
				read.take(compacted[offset].key, compacted[offset].value, offset)
			}
			if diff := cmp.Diff(live.view(), read.view()); diff != "" {
				t.Fatalf("run %d: index of the log compacted below %d of %d mismatch (-live +read):\n%s", run, below, next, diff)
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/statefile"
)

// cluster is a [fakeCluster] with single-partition outputs and fixed fetches.
func clusterOf(tb testing.TB, partitions map[string]int) *fakeCluster {
	tb.Helper()
	partitions["out"], partitions["dlq"], partitions[BarrierStateTopic] = 1, 1, 1
	return newFakeCluster(1, partitions)
}

// fill appends plain records, without anything that readers do not see.
func (c *fakeCluster) fill(tp TopicPartition, values ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, value := range values {
		c.append(tp, fakeEntry{record: ConsumedRecord{Value: []byte(value)}})
	}
}

// ones is n records "ada 1".
func ones(n int) []string { return slices.Repeat([]string{"ada 1"}, n) }

// untilDrained runs rounds until the group has committed every record.
func untilDrained(tb testing.TB, r *GroupRunner, c *fakeCluster, topics ...string) {
	tb.Helper()
	for range 1000 {
		if c.drained(topics...) {
			return
		}
		runOnce(tb, r)
	}
	tb.Fatalf("not drained: committed %v", c.committed)
}

func ledgerState(tb testing.TB, r *GroupRunner, partition int) string {
	tb.Helper()
	return string(must[map[string][]byte](tb)(r.Topology().SnapshotPartition(partition))["ledger"])
}

func TestStateThatStaysBehindIsMissed(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 1})
	c.fill(in(0), ones(500)...)
	first := c.member("first")
	a := newTestRunner(t, ledgerTopology(t), first, first, WithStateStore(NewFileStateStore(t.TempDir())))
	untilDrained(t, a, c, "in")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	c.expire(first)
	c.fill(in(0), ones(500)...)

	second := c.member("second")
	b := newTestRunner(t, ledgerTopology(t), second, second, WithStateStore(NewFileStateStore(t.TempDir())))
	for range 3 {
		_, err := b.RunOnce(t.Context(), 0)
		var missing *MissingStateError
		if !errors.As(err, &missing) || missing.Partition != 0 || missing.Committed[in(0)] != 500 {
			t.Fatalf("RunOnce = %v; want a *MissingStateError at offset 500 of partition 0", err)
		}
		if want := "columnar: committed offset in/0:500 but no state for partition 0"; err.Error() != want && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error %q; want %q", err, want)
		}
	}
	if got := c.committed[in(0)]; got != 500 {
		t.Errorf("committed offset %d; want 500 untouched", got)
	}
}

// Offsets that were set back to the start, with a store that is ahead of them or
// with a new one: history begins anew.
func TestInputIsProcessedAgainFromTheStart(t *testing.T) {
	for _, trimmed := range []int64{0, 4} {
		for _, keepStore := range []bool{true, false} {
			c := clusterOf(t, map[string]int{"in": 1})
			c.fill(in(0), ones(10)...)
			directory := t.TempDir()
			for i, policy := range []MissingStatePolicy{MissingStateFail, MissingStateRebuildAvailable} {
				m := c.member(fmt.Sprint("member ", i))
				r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(NewFileStateStore(directory)), WithMissingState(policy))
				untilDrained(t, r, c, "in")
				want := fmt.Sprint("ada=", 10-int64(i)*trimmed)
				if got := ledgerState(t, r, 0); got != want {
					t.Errorf("log from %d, store kept %v: state %s; want %s", trimmed, keepStore, got, want)
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				c.expire(m)
				c.trim(in(0), trimmed)
				c.committed[in(0)] = trimmed
				if !keepStore {
					directory = t.TempDir()
				}
			}
		}
	}
}

func TestMissingStatePolicies(t *testing.T) {
	tests := []struct {
		name    string
		policy  MissingStatePolicy
		trimmed int64
		store   func(t *testing.T) StateStore
		want    string
		cause   string
	}{
		{"empty", MissingStateEmpty, 0, nil, "ada=5", ""},
		{"rebuild", MissingStateRebuild, 0, nil, "ada=25", ""},
		{"rebuild of a trimmed log", MissingStateRebuild, 7, nil, "", "the log of in/0 starts at offset 7"},
		{"rebuild of what is left", MissingStateRebuildAvailable, 7, nil, "ada=18", ""},
		{"rebuild without a store", MissingStateRebuild, 0, func(*testing.T) StateStore { return NoStateStore() }, "ada=25", ""},
		{"fail without a store", MissingStateFail, 0, func(*testing.T) StateStore { return NoStateStore() }, "", "committed offset in/0:20 but no state"},
		{"empty without a store", MissingStateEmpty, 0, func(*testing.T) StateStore { return NoStateStore() }, "ada=5", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := clusterOf(t, map[string]int{"in": 1})
			c.fill(in(0), ones(25)...)
			c.committed[in(0)] = 20
			c.trim(in(0), test.trimmed)
			store := StateStore(NewFileStateStore(t.TempDir()))
			if test.store != nil {
				store = test.store(t)
			}
			m := c.member("member")
			r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store), WithMissingState(test.policy))
			if test.cause != "" {
				_, err := r.RunOnce(t.Context(), 0)
				var missing *MissingStateError
				if !errors.As(err, &missing) || !strings.Contains(err.Error(), test.cause) {
					t.Errorf("RunOnce = %v; want a *MissingStateError with %q", err, test.cause)
				}
				return
			}
			untilDrained(t, r, c, "in")
			if got := ledgerState(t, r, 0); got != test.want {
				t.Errorf("state %q; want %q", got, test.want)
			}
			if got := len(c.values("out")); got != 5 {
				t.Errorf("%d outputs; want those of the 5 uncommitted records", got)
			}
		})
	}
}

func TestStateAheadOfTheGroupIsRefused(t *testing.T) {
	tests := []struct {
		name    string
		commits bool // earlier commits than the last are there
		want    string
	}{
		{"offsets set back", true, "columnar: committed offset in/0:0 but no state for partition 0; the store has a snapshot at in/0:20, a snapshot at in/0:10"},
		{"offsets forgotten", false, "columnar: no committed offset but no state for partition 0; the store has a snapshot at in/0:20, a snapshot at in/0:10"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := clusterOf(t, map[string]int{"in": 1})
			store := NewFileStateStore(t.TempDir())
			m := c.member("member")
			r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store), WithSnapshotInterval(0))
			for range 2 {
				c.fill(in(0), ones(10)...)
				m.maxPoll = 1000
				untilDrained(t, r, c, "in")
			}
			c.expire(m)
			if c.committed[in(0)] = 0; !test.commits {
				delete(c.committed, in(0))
			}
			m = c.member("member")
			r = newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store))
			_, err := r.RunOnce(t.Context(), 0)
			var missing *MissingStateError
			if !errors.As(err, &missing) || missing.Error() != test.want {
				t.Errorf("RunOnce = %v; want %q", err, test.want)
			}
		})
	}
}

func TestDeletedHistoryIsMissed(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 1})
	c.fill(in(0), ones(20)...)
	store := NewFileStateStore(t.TempDir())
	m := c.member("member")
	r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store))
	untilDrained(t, r, c, "in")
	c.expire(m) // killed: the snapshot stands at offset 0
	c.trim(in(0), 10)
	m = c.member("member")
	r = newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store))
	_, err := r.RunOnce(t.Context(), 0)
	var missing *MissingStateError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "records of in/0 from offset 0 were deleted: the log starts at 10") {
		t.Errorf("RunOnce = %v; want a *MissingStateError that says what was deleted", err)
	}
}

func TestFormerOwnerCannotOverwriteState(t *testing.T) {
	for _, barrier := range []bool{false, true} {
		c := clusterOf(t, map[string]int{"in": 1})
		directory := t.TempDir()
		options := func() []GroupRunnerOption {
			return []GroupRunnerOption{WithStateStore(NewFileStateStore(directory)), WithBarrierGroup("audit", newReader(t, c.member("cuts"), 1))}
		}
		c.fill(in(0), ones(100)...)
		frozen := c.member("frozen")
		var reported []error
		a := newTestRunner(t, ledgerTopology(t), frozen, frozen, append(options(),
			WithHooks(Hooks{Error: func(err error) { reported = append(reported, err) }}))...)
		untilDrained(t, a, c, "in")
		c.expire(frozen)
		c.fill(in(0), ones(50)...)
		owner := c.member("owner")
		b := newTestRunner(t, ledgerTopology(t), owner, owner, options()...)
		untilDrained(t, b, c, "in")
		if barrier {
			c.cut("audit", 1, "in")
			for b.Stats().Barriers == 0 {
				runOnce(t, b)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		c.expire(owner)

		// The former owner comes back and gives up what it thinks it has.
		a.OnPartitionsRevoked([]TopicPartition{in(0)})
		var stale *StaleOwnerError
		if err := a.Close(); err != nil || len(reported) != 1 || !errors.As(reported[0], &stale) || stale.Partition != 0 {
			t.Errorf("barrier %v: Close of the former owner = %v, reported %v; want nil and a *StaleOwnerError", barrier, err, reported)
		}
		third := c.member("third")
		r := newTestRunner(t, ledgerTopology(t), third, third, options()...)
		runOnce(t, r)
		if got := ledgerState(t, r, 0); got != "ada=150" {
			t.Errorf("barrier %v: state %q; want that of offset 150", barrier, got)
		}
	}
}

func TestDamagedSnapshotIsPassedOverForAnOlderOne(t *testing.T) {
	damages := map[string]func(t *testing.T, path string){
		"flipped byte": func(t *testing.T, path string) {
			rewriteFile(t, path, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		},
		"emptied": func(t *testing.T, path string) { rewriteFile(t, path, func([]byte) []byte { return nil }) },
		"damaged sidecar": func(t *testing.T, path string) {
			rewriteFile(t, path+".meta", func([]byte) []byte { return []byte("{") })
		},
		"of another": func(t *testing.T, path string) {
			rewriteFile(t, path, func([]byte) []byte { return unhex(t, "0000000100000000") })
		},
		"temporary beside": func(t *testing.T, path string) {
			rewriteFile(t, path[:len(path)-len(".snapshot")]+"-9-9.tmp", func([]byte) []byte { return []byte("x") })
		},
	}
	for name, damage := range damages {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " strict ", strict), func(t *testing.T) {
				c := clusterOf(t, map[string]int{"in": 1})
				directory := t.TempDir()
				var reported []error
				options := func() []GroupRunnerOption {
					all := []GroupRunnerOption{
						WithStateStore(NewFileStateStore(directory)), WithBarrierGroup("audit", newReader(t, c.member("cuts"), 1)),
						WithHooks(Hooks{Damage: func(err error) { reported = append(reported, err) }}),
					}
					if strict {
						all = append(all, WithStrictSnapshots())
					}
					return all
				}
				m := c.member("member")
				r := newTestRunner(t, ledgerTopology(t), m, m, options()...)
				for epoch := int64(5); epoch <= 7; epoch++ {
					c.fill(in(0), ones(10)...)
					c.cut("audit", epoch, "in")
					for r.Stats().Barriers < epoch-4 {
						runOnce(t, r)
					}
				}
				c.fill(in(0), ones(10)...)
				untilDrained(t, r, c, "in")
				c.expire(m)
				damage(t, filepath.Join(directory, "partition-0-epoch-7.snapshot"))
				harmless := name == "temporary beside"

				m = c.member("member")
				r = newTestRunner(t, ledgerTopology(t), m, m, options()...)
				_, err := r.RunOnce(t.Context(), 0)
				var damaged *DamagedSnapshotError
				if strict && !harmless {
					if !errors.As(err, &damaged) {
						t.Errorf("RunOnce = %v; want a *DamagedSnapshotError", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				for range 3 {
					runOnce(t, r)
				}
				if got := ledgerState(t, r, 0); got != "ada=40" {
					t.Errorf("state %q; want ada=40", got)
				}
				if got := len(reported) > 0 && errors.As(reported[0], &damaged) && damaged.Epoch == 7 && r.Stats().DamagedSnapshots > 0; got == harmless {
					t.Errorf("reported %v; damage is harmless: %v", reported, harmless)
				}
				if harmless {
					return
				}
				if _, err := r.RestoreToEpoch(t.Context(), 7); !errors.As(err, &damaged) {
					t.Errorf("RestoreToEpoch(7) = %v; want a *DamagedSnapshotError", err)
				}
				cut, err := r.RestoreToLatestCut(t.Context())
				if err != nil || cut.Epoch != 6 {
					t.Errorf("RestoreToLatestCut = %v, %v; want epoch 6", cut, err)
				}
				if got := ledgerState(t, r, 0); got != "ada=20" {
					t.Errorf("state of epoch 6 %q; want ada=20", got)
				}
			})
		}
	}
}

func rewriteFile(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRestoredStateHasToFitTheTopology(t *testing.T) {
	renamed := func(tb testing.TB) *Topology { return through(tb, "ledger2", newLedger, "in") }
	stateless := func(tb testing.TB) *Topology {
		return through(tb, "ledger", func() Processor {
			return ProcessorFunc(forwardAll)
		}, "in")
	}
	more := func(tb testing.TB) *Topology {
		topology := NewTopology(memory.DefaultAllocator)
		codec := ledgerCodec{amountCodec{memory.DefaultAllocator}}
		source := must[Node](tb)(topology.AddSource("source", []string{"in"}, codec))
		first := must[Node](tb)(topology.AddProcessor("ledger", newLedger, source))
		second := must[Node](tb)(topology.AddProcessor("counter", func() Processor { return &counter{} }, first))
		must[Node](tb)(topology.AddSink("sink", "out", codec, second))
		return topology
	}
	tests := []struct {
		name     string
		topology func(testing.TB) *Topology
		options  []GroupRunnerOption
		want     *SnapshotMismatchError
	}{
		{"renamed node", renamed, nil, &SnapshotMismatchError{Unmapped: []string{"ledger"}, Uncovered: []string{"ledger2"}}},
		{"renamed node, unmapped allowed", renamed, []GroupRunnerOption{WithUnmappedState()}, &SnapshotMismatchError{Uncovered: []string{"ledger2"}}},
		{"renamed node, both allowed", renamed, []GroupRunnerOption{WithUnmappedState(), WithUncoveredState()}, nil},
		{"another node", more, nil, &SnapshotMismatchError{Uncovered: []string{"counter"}}},
		{"another node allowed", more, []GroupRunnerOption{WithUncoveredState()}, nil},
		{"no state", stateless, nil, nil},
		{"the same", ledgerTopology, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := clusterOf(t, map[string]int{"in": 1})
			c.fill(in(0), ones(5)...)
			store := NewFileStateStore(t.TempDir())
			m := c.member("member")
			r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store))
			untilDrained(t, r, c, "in")
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			c.expire(m)
			m = c.member("member")
			r = newTestRunner(t, test.topology(t), m, m, append(test.options, WithStateStore(store))...)
			_, err := r.RunOnce(t.Context(), 0)
			var mismatch *SnapshotMismatchError
			if errors.As(err, &mismatch) != (test.want != nil) {
				t.Fatalf("RunOnce = %v; want %v", err, test.want)
			}
			if test.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(test.want, mismatch); diff != "" {
				t.Errorf("mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecoveryHookTellsWhatWasReplayed(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 1})
	c.fill(in(0), ones(30)...)
	store := NewFileStateStore(t.TempDir())
	m := c.member("member")
	r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store), WithSnapshotInterval(time.Hour))
	untilDrained(t, r, c, "in")
	c.expire(m)
	var recovered []RecoveryInfo
	m = c.member("member")
	r = newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store),
		WithHooks(Hooks{Recovery: func(info RecoveryInfo) { recovered = append(recovered, info) }}))
	for len(recovered) == 0 {
		if diff := cmp.Diff(map[TopicPartition]int64{}, runOnce(t, r)); diff != "" {
			t.Errorf("a replaying round committed (-want +got):\n%s", diff)
		}
	}
	info := recovered[0]
	if info.Partition != 0 || info.Replayed != 30 || info.Snapshot == nil || info.Snapshot.Positions[in(0)] != 0 || info.Committed[in(0)] != 30 {
		t.Errorf("recovery %+v; want 30 records replayed from offset 0", info)
	}
	if stats := r.Stats(); stats.Recoveries != 1 || stats.RecordsReplayed != 30 || ledgerState(t, r, 0) != "ada=30" || len(c.values("out")) != 30 {
		t.Errorf("%d recoveries, %d records replayed, state %q, %d outputs; want 1, 30, ada=30, 30", stats.Recoveries, stats.RecordsReplayed, ledgerState(t, r, 0), len(c.values("out")))
	}
}

func TestSkippedRecordsStaySkippedInAReplay(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 1})
	c.fill(in(0), "ada 1", "ada -1", "ada 2", "!", "ada 4")
	store := NewFileStateStore(t.TempDir())
	m := c.member("member")
	r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store), WithErrorPolicy(DeadLetterPolicy("dlq")), WithPoisonIsolation())
	untilDrained(t, r, c, "in")
	c.expire(m)
	letters := c.values("dlq")
	if diff := cmp.Diff([]string{"ada -1", "!"}, letters); diff != "" {
		t.Errorf("dead letters mismatch (-want +got):\n%s", diff)
	}
	// The next process would not fail on the negative amount: the journal says
	// that it was taken out.
	lenient := func(tb testing.TB) *Topology {
		return through(tb, "ledger", func() Processor {
			return &lenientLedger{ledger{mem: memory.DefaultAllocator, totals: map[string]int64{}}}
		}, "in")
	}
	m = c.member("member")
	r = newTestRunner(t, lenient(t), m, m, WithStateStore(store))
	for range 10 {
		runOnce(t, r)
	}
	if got := ledgerState(t, r, 0); got != "ada=7" {
		t.Errorf("state %q; want ada=7", got)
	}
	if got := len(c.values("dlq")); got != 2 {
		t.Errorf("%d dead letters; want 2", got)
	}
}

func TestDamagedJournalIsAnError(t *testing.T) {
	c := clusterOf(t, map[string]int{"a": 1, "b": 1})
	directory := t.TempDir()
	m := c.member("member")
	r := newTestRunner(t, chainTopology(t), m, m, WithStateStore(NewFileStateStore(directory)))
	for i := range 5 {
		c.fill(TopicPartition{"a", 0}, fmt.Sprintf("a0.%d 0", i))
		c.fill(TopicPartition{"b", 0}, fmt.Sprintf("b0.%d 0", i))
		untilDrained(t, r, c, "a", "b")
	}
	c.expire(m)
	journals, err := filepath.Glob(filepath.Join(directory, "*.journal"))
	if err != nil || len(journals) == 0 {
		t.Fatalf("journals %v, %v", journals, err)
	}
	for _, journal := range journals {
		rewriteFile(t, journal, func(data []byte) []byte {
			data[len(statefile.JournalMagic)+statefile.JournalFrame] ^= 1
			return append(data, data[len(statefile.JournalMagic):]...)
		})
	}
	m = c.member("member")
	r = newTestRunner(t, chainTopology(t), m, m, WithStateStore(NewFileStateStore(directory)))
	_, err = r.RunOnce(t.Context(), 0)
	var missing *MissingStateError
	var replay *ReplayError
	if !errors.As(err, &missing) || !errors.As(err, &replay) || !strings.Contains(err.Error(), "does not match its checksum") {
		t.Errorf("RunOnce = %v; want a *MissingStateError because of the journal", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// foldBelow is the ledger of a partition's visible records below an offset.
func (c *fakeCluster) foldBelow(tp TopicPartition, end int64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &ledger{totals: map[string]int64{}}
	for _, entry := range c.logs[tp].entries[:end] {
		if entry.visible() {
			user, amount, _ := strings.Cut(string(entry.record.Value), " ")
			n, err := strconv.ParseInt(amount, 10, 64)
			if err != nil {
				panic(err)
			}
			l.totals[user] += n
		}
	}
	text, _ := l.Snapshot()
	return string(text)
}

// withCuts makes the processes of a world align on the group "audit".
func withCuts(w *world) []GroupRunnerOption {
	reader, err := NewCutReader(w.cluster.member("cut reader"), 1)
	if err != nil {
		w.tb.Fatal(err)
	}
	return []GroupRunnerOption{WithBarrierGroup("audit", reader)}
}

func TestBarrierSnapshotsAreTheStateAtTheCut(t *testing.T) {
	eachMode(t, func(t *testing.T, seed uint64, transactional bool) {
		w := newWorld(t, seed, transactional, map[string]int{"in": 3}, ledgerTopology)
		w.options = withCuts
		l := newLoad(w)
		cuts := map[int64]map[TopicPartition]int64{}
		publish := func() {
			epoch := int64(len(cuts) + 1)
			cuts[epoch] = w.cluster.cut("audit", epoch, "in")
		}
		for range 8 {
			l.produce("in", 3, 1+w.rand.IntN(30))
			p := w.start("member", 200)
			for range 40 {
				if p.round(); w.dead {
					break
				}
				switch w.rand.IntN(6) {
				case 0:
					publish()
				case 1:
					l.produce("in", 3, w.rand.IntN(20))
				}
			}
			p.bury()
		}
		publish()
		p := w.start("member", 0)
		p.drain("in")
		for range 2*len(cuts) + 10 {
			p.round()
		}
		l.check()
		newest, taken := int64(0), 0
		for partition := range 3 {
			infos, err := inMemory(w.files).Snapshots(t.Context(), partition)
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range infos {
				if info.Epoch == NoEpoch {
					continue
				}
				state, err := inMemory(w.files).LoadSnapshot(t.Context(), info)
				if err != nil {
					t.Fatalf("%s: %v", w.name, err)
				}
				cut := cuts[info.Epoch][in(partition)]
				if want := w.cluster.foldBelow(in(partition), cut); string(state["ledger"]) != want {
					t.Fatalf("%s: partition %d at epoch %d, cut at %d: state %q; want %q", w.name, partition, info.Epoch, cut, state["ledger"], want)
				}
				newest, taken = max(newest, info.Epoch), taken+1
			}
		}
		if newest != int64(len(cuts)) || taken < 3 {
			t.Fatalf("%s: newest epoch taken is %d of %d, %d snapshots in all", w.name, newest, len(cuts), taken)
		}
	})
}

func TestRestoreGoesBackToAnyEpoch(t *testing.T) {
	eachMode(t, func(t *testing.T, seed uint64, transactional bool) {
		w := newWorld(t, seed, transactional, map[string]int{"in": 3}, ledgerTopology)
		w.options = withCuts
		l := newLoad(w)
		cuts := map[int64]map[TopicPartition]int64{}
		p := w.start("member", 0)
		for epoch := int64(1); epoch <= 5; epoch++ {
			l.produce("in", 3, w.rand.IntN(30))
			cuts[epoch] = w.cluster.cut("audit", epoch, "in")
			for p.runner.Stats().Barriers < epoch {
				p.round()
			}
		}
		l.produce("in", 3, 20)
		p.drain("in")
		l.check()
		epoch := int64(1 + w.rand.IntN(5))
		latest := w.rand.IntN(2) == 0
		var cut *BarrierCut
		var err error
		if latest {
			epoch = 5
			cut, err = p.runner.RestoreToLatestCut(t.Context())
		} else {
			cut, err = p.runner.RestoreToEpoch(t.Context(), epoch)
		}
		if err != nil {
			t.Fatalf("%s: restore to %d: %v", w.name, epoch, err)
		}
		if diff := cmp.Diff(cuts[epoch], cut.Offsets); diff != "" {
			t.Fatalf("%s: cut mismatch (-want +got):\n%s", w.name, diff)
		}
		for partition := range 3 {
			want := w.cluster.foldBelow(in(partition), cuts[epoch][in(partition)])
			state := must[map[string][]byte](t)(p.runner.Topology().SnapshotPartition(partition))
			if string(state["ledger"]) != want {
				t.Fatalf("%s: partition %d after the restore to %d: %q; want %q", w.name, partition, epoch, state["ledger"], want)
			}
			if got := w.cluster.committed[in(partition)]; got != cuts[epoch][in(partition)] {
				t.Fatalf("%s: committed offset %d after the restore; want the cut at %d", w.name, got, cuts[epoch][in(partition)])
			}
		}
		// What lies behind the cut is produced again, and the state comes out the
		// same, also when the process dies on the way.
		before := len(w.cluster.values("out"))
		for range w.rand.IntN(4) {
			p.round()
		}
		if w.rand.IntN(2) == 0 {
			p.bury()
			p = w.start("member", 0)
		}
		l.produce("in", 3, 10)
		p.drain("in")
		for partition := range 3 {
			want := w.cluster.foldBelow(in(partition), int64(len(w.cluster.logs[in(partition)].entries)))
			state := must[map[string][]byte](t)(p.runner.Topology().SnapshotPartition(partition))
			if string(state["ledger"]) != want {
				t.Fatalf("%s: partition %d at the end: %q; want %q", w.name, partition, state["ledger"], want)
			}
		}
		if again := w.cluster.values("out")[before:]; transactional {
			want := 0
			for partition := range 3 {
				tp := in(partition)
				for _, entry := range w.cluster.logs[tp].entries[cuts[epoch][tp]:] {
					if entry.visible() {
						want++
					}
				}
			}
			if len(again) != want {
				t.Fatalf("%s: %d outputs behind the restored cut; want %d", w.name, len(again), want)
			}
		}
	})
}

// chainLink is a processor whose state depends on the order of all records: a
// hash over everything so far, which it passes on with each record.
type chainLink struct{ hash int64 }

func linkOf(hash int64, record string) int64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", hash, record)
	return int64(h.Sum64() >> 1)
}

func (c *chainLink) Process(ctx *Context, batch arrow.RecordBatch) error {
	users := batch.Column(0).(*array.String)
	out, hashes := array.NewStringBuilder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	defer out.Release()
	defer hashes.Release()
	for row := range int(batch.NumRows()) {
		c.hash = linkOf(c.hash, users.Value(row))
		out.Append(users.Value(row))
		hashes.Append(c.hash)
	}
	columns := []arrow.Array{out.NewArray(), hashes.NewArray()}
	defer arrays.Release(columns)
	ctx.Forward(array.NewRecordBatch(amountSchema, columns, batch.NumRows()))
	return nil
}

func (c *chainLink) Snapshot() ([]byte, error) { return strconv.AppendInt(nil, c.hash, 10), nil }

func (c *chainLink) Restore(snapshot []byte) (err error) {
	c.hash, err = strconv.ParseInt(string(snapshot), 10, 64)
	return err
}

func chainTopology(tb testing.TB) *Topology {
	return through(tb, "chain", func() Processor { return &chainLink{} }, "a", "b")
}

func TestInterleavedHistoryIsRepeatedExactly(t *testing.T) {
	eachMode(t, func(t *testing.T, seed uint64, transactional bool) {
		w := newWorld(t, seed, transactional, map[string]int{"a": 2, "b": 2}, chainTopology)
		w.options = func(w *world) []GroupRunnerOption {
			if seed%2 == 0 {
				return nil
			}
			return append(withCuts(w), WithErrorPolicy(SkipPolicy()))
		}
		produced := map[TopicPartition][]string{}
		produce := func(records int) {
			for range records {
				tp := TopicPartition{[]string{"a", "b"}[w.rand.IntN(2)], w.rand.IntN(2)}
				record := fmt.Sprintf("%s%d.%d", tp.Topic, tp.Partition, len(produced[tp]))
				produced[tp] = append(produced[tp], record)
				w.cluster.produce(tp, record+" 0")
				if seed%2 == 1 && w.rand.IntN(8) == 0 {
					w.cluster.produce(tp, "!")
				}
			}
		}
		epoch := int64(0)
		for range 10 {
			produce(w.rand.IntN(40))
			p := w.start("member", 200)
			for range 30 {
				if p.round(); w.dead {
					break
				}
				switch w.rand.IntN(6) {
				case 0:
					produce(w.rand.IntN(10))
				case 1:
					epoch++
					w.cluster.cut("audit", epoch, "a", "b")
				}
			}
			p.bury()
		}
		p := w.start("member", 0)
		p.drain("a", "b")
		checkChains(t, w, produced)
	})
}

// checkChains follows the hashes of the outputs of each logical partition. In
// transactions, every record comes exactly once and each hash follows from the
// one before. Otherwise a record may be repeated, and a hash then follows from
// one that was there before.
func checkChains(t *testing.T, w *world, produced map[TopicPartition][]string) {
	t.Helper()
	reached := map[string]map[int64]bool{"0": {0: true}, "1": {0: true}}
	last := map[string]int64{}
	seen := map[TopicPartition][]string{}
	for i, value := range w.cluster.values("out") {
		record, text, _ := strings.Cut(value, " ")
		hash, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		partition := record[1:2]
		number, _ := strconv.Atoi(partition)
		tp := TopicPartition{record[:1], number}
		if w.transactional {
			if want := linkOf(last[partition], record); hash != want {
				t.Fatalf("%s: output %d, %s: hash %d does not follow from the history of partition %s", w.name, i, record, hash, partition)
			}
		} else if !slices.ContainsFunc(slices.Collect(maps.Keys(reached[partition])), func(from int64) bool { return linkOf(from, record) == hash }) {
			t.Fatalf("%s: output %d, %s: hash %d follows from no state of partition %s", w.name, i, record, hash, partition)
		}
		last[partition] = hash
		reached[partition][hash] = true
		if w.transactional || !slices.Contains(seen[tp], record) {
			seen[tp] = append(seen[tp], record)
		}
	}
	if diff := cmp.Diff(produced, seen); diff != "" {
		t.Fatalf("%s: processed records mismatch (-want +got):\n%s", w.name, diff)
	}
}

// pairTopology joins "a" and "b" on the user and counts each user's pairs.
func pairTopology(tb testing.TB) *Topology {
	mem := memory.DefaultAllocator
	codec := wideCodec{amountCodec{mem}}
	topology := NewTopology(mem)
	left := must[Node](tb)(topology.AddSource("left", []string{"a"}, codec))
	right := must[Node](tb)(topology.AddSource("right", []string{"b"}, codec))
	joined := must[Node](tb)(topology.AddJoin("join", byUser(time.Hour), left, right))
	group := must[*BuiltinOp](tb)(NewGroupBy(mem, Grouping{
		Keys: []string{"left_user"}, Emit: EmitChanges,
		Aggregations: []Aggregation{{InputColumn: "left_amount", OutputColumn: "pairs", Function: Count}, {InputColumn: "right_amount", OutputColumn: "sum", Function: Sum}},
	}))
	counted := must[Node](tb)(topology.AddOperator("count", group, joined))
	must[Node](tb)(topology.AddSink("sink", "out", codec, counted))
	return topology
}

func TestJoinsAndGroupsAreExactAfterCrashes(t *testing.T) {
	eachMode(t, func(t *testing.T, seed uint64, transactional bool) {
		w := newWorld(t, seed, transactional, map[string]int{"a": 2, "b": 2}, pairTopology)
		lefts, rights, sums := map[string]int64{}, map[string]int64{}, map[string]int64{}
		produce := func(records int) {
			for range records {
				partition := w.rand.IntN(2)
				user := fmt.Sprintf("u%d-%d", partition, w.rand.IntN(4))
				amount := int64(w.rand.IntN(9))
				if w.rand.IntN(2) == 0 {
					lefts[user]++
					w.cluster.produce(TopicPartition{"a", partition}, fmt.Sprintf("%s %d", user, amount))
				} else {
					rights[user]++
					sums[user] += amount
					w.cluster.produce(TopicPartition{"b", partition}, fmt.Sprintf("%s %d", user, amount))
				}
			}
		}
		for range 8 {
			produce(w.rand.IntN(40))
			p := w.start("member", 200)
			for range 20 {
				if p.round(); w.dead {
					break
				}
				if w.rand.IntN(5) == 0 {
					produce(w.rand.IntN(10))
				}
			}
			p.bury()
		}
		p := w.start("member", 0)
		p.drain("a", "b")
		want, got := map[string]string{}, map[string]string{}
		for user := range lefts {
			if pairs := lefts[user] * rights[user]; pairs > 0 {
				want[user] = fmt.Sprintf("%d %d", pairs, lefts[user]*sums[user])
			}
		}
		for _, value := range w.cluster.values("out") {
			user, counts, _ := strings.Cut(value, " ")
			got[user] = counts
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: last counts mismatch (-want +got):\n%s", w.name, diff)
		}
	})
}

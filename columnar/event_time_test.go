// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// pot collects amounts until time is advanced to a multiple of ten, and then
// passes the sum on and starts over.
type pot struct{ sum int64 }

var errPot = errors.New("pot is stuck")

func (p *pot) Process(_ *Context, batch arrow.RecordBatch) error {
	for row := range int(batch.NumRows()) {
		p.sum += batch.Column(1).(*array.Int64).Value(row)
	}
	return nil
}

func (p *pot) AdvanceTime(ctx *Context, timestamp int64) error {
	if timestamp < 0 {
		return errPot
	}
	names, sums := array.NewStringBuilder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	defer names.Release()
	defer sums.Release()
	names.Append(fmt.Sprintf("p%d", ctx.Partition()))
	sums.Append(p.sum)
	columns := []arrow.Array{names.NewArray(), sums.NewArray()}
	defer arrays.Release(columns)
	ctx.Forward(array.NewRecordBatch(amountSchema, columns, 1))
	p.sum = 0
	return nil
}

func (p *pot) Snapshot() ([]byte, error) { return strconv.AppendInt(nil, p.sum, 10), nil }

func (p *pot) Restore(snapshot []byte) (err error) {
	p.sum, err = strconv.ParseInt(string(snapshot), 10, 64)
	return err
}

func potTopology(tb testing.TB) *Topology {
	return through(tb, "pot", func() Processor { return &pot{} }, "in")
}

func TestAdvanceOfTimeSurvivesACrash(t *testing.T) {
	for _, transactional := range []bool{false, true} {
		c := clusterOf(t, map[string]int{"in": 2})
		store := NewFileStateStore(t.TempDir())
		run := func(r *GroupRunner) {
			t.Helper()
			var err error
			if transactional {
				_, err = r.RunOnceTransactional(t.Context(), 0)
			} else {
				_, err = r.RunOnce(t.Context(), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		drain := func(r *GroupRunner) {
			t.Helper()
			for !c.drained("in") || len(r.partitions) < 2 || !r.partitions[0].live() || !r.partitions[1].live() {
				run(r)
			}
		}
		m := c.member("member")
		r := newTestRunner(t, potTopology(t), m, m, WithStateStore(store))
		c.fill(in(0), "a 1", "a 2")
		c.fill(in(1), "a 40")
		drain(r)
		if err := r.AdvanceTime(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		c.fill(in(0), "a 5")
		drain(r)
		c.expire(m) // killed; the only snapshots are those of the beginning
		m = c.member("member")
		r = newTestRunner(t, potTopology(t), m, m, WithStateStore(store))
		drain(r)
		if err := r.AdvanceTime(t.Context(), 20); err != nil {
			t.Fatal(err)
		}
		got := c.values("out")
		slices.Sort(got)
		if diff := cmp.Diff([]string{"p0 3", "p0 5", "p1 0", "p1 40"}, got); diff != "" {
			t.Errorf("transactional %v: outputs mismatch (-want +got):\n%s", transactional, diff)
		}
		err := r.AdvanceTime(t.Context(), -1)
		if !errors.Is(err, errPot) {
			t.Errorf("transactional %v: AdvanceTime(-1) = %v; want %v", transactional, err, errPot)
		}
		c.fill(in(0), "a 7")
		drain(r)
		if err := r.AdvanceTime(t.Context(), 30); err != nil {
			t.Fatal(err)
		}
		if got := c.values("out"); !slices.Contains(got, "p0 7") {
			t.Errorf("transactional %v: outputs %v after a failed advance; want p0 7 among them", transactional, got)
		}
	}
}

// potted returns by partition what the pots passed on, without those that were
// empty.
func potted(c *fakeCluster) map[string][]int64 {
	sums := map[string][]int64{}
	for _, value := range c.values("out") {
		partition, text, _ := strings.Cut(value, " ")
		if sum, err := strconv.ParseInt(text, 10, 64); err == nil && sum != 0 {
			sums[partition] = append(sums[partition], sum)
		}
	}
	return sums
}

// kindsOfAdvance are the ways in which rounds commit and advances send.
var kindsOfAdvance = []struct {
	name                 string
	transactional, plain bool
}{
	{"transactions", true, false},
	{"transactions for advances alone", false, false},
	{"no transactions", false, true},
}

// Each thing that an advance does is its last, in turn.
func TestAdvanceOfTimeIsMadeOnceWhereverItCrashes(t *testing.T) {
	for _, kind := range kindsOfAdvance {
		t.Run(kind.name, func(t *testing.T) {
			for crashAt := 1; ; crashAt++ {
				w := newWorld(t, 1, kind.transactional, map[string]int{"in": 2}, potTopology)
				w.plain = kind.plain
				w.cluster.produce(in(0), "a 1", "a 2")
				w.cluster.produce(in(1), "a 40")
				p := w.start("member", 0)
				p.drain("in")
				p.settle(2)
				w.crashAt = w.steps + crashAt
				err := p.runner.AdvanceTime(t.Context(), 10)
				crashed := w.dead
				if (err != nil) != crashed && crashed {
					// The last step was one that an advance can do without.
					t.Logf("crash at step %d: the advance took place", crashAt)
				}
				p.bury()
				w.crashAt = 0
				p = w.start("member", 0)
				w.cluster.produce(in(0), "a 5")
				p.drain("in")
				p.settle(2)
				if err := p.runner.AdvanceTime(t.Context(), 20); err != nil {
					t.Fatalf("crash at step %d: AdvanceTime behind it: %v", crashAt, err)
				}
				got := potted(w.cluster)
				once := map[string][]int64{"p0": {3, 5}, "p1": {40}}
				undone := map[string][]int64{"p0": {8}, "p1": {40}}
				if d1, d2 := cmp.Diff(once, got), cmp.Diff(undone, got); d1 != "" && d2 != "" && !kind.plain {
					t.Errorf("crash at step %d: outputs mismatch (-want +got):\n%s", crashAt, d1)
				}
				for partition, total := range map[string]int64{"p0": 8, "p1": 40} {
					sum := int64(0)
					for _, one := range got[partition] {
						sum += one
					}
					if sum < total {
						t.Errorf("crash at step %d: outputs of %s are %v; want %d in all", crashAt, partition, got[partition], total)
					}
				}
				if !crashed {
					if crashAt < 5 {
						t.Errorf("an advance has %d steps; too few to be true", crashAt)
					}
					return
				}
			}
		})
	}
}

func TestAdvancesOfTimeAreExactAfterCrashesAnywhere(t *testing.T) {
	for _, kind := range kindsOfAdvance {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			for seed := range *seeds {
				w := newWorld(t, seed, kind.transactional, map[string]int{"in": 3}, potTopology)
				w.plain = kind.plain
				want := map[string]int64{}
				produce := func() {
					for range w.rand.IntN(10) {
						partition, amount := w.rand.IntN(3), int64(1+w.rand.IntN(99))
						want[fmt.Sprintf("p%d", partition)] += amount
						w.cluster.produce(in(partition), fmt.Sprintf("u %d", amount))
					}
				}
				for range 15 {
					p := w.start("member", 150)
					for range 30 {
						produce()
						if p.round(); w.dead {
							break
						}
						if w.rand.IntN(3) > 0 {
							continue
						}
						if err := p.runner.AdvanceTime(t.Context(), int64(w.steps)); err != nil && !w.dead {
							t.Fatalf("%s: AdvanceTime: %v", w.name, err)
						}
						if w.dead {
							break
						}
					}
					p.bury()
				}
				p := w.start("member", 0)
				p.drain("in")
				p.settle(3)
				if err := p.runner.AdvanceTime(t.Context(), int64(w.steps)); err != nil {
					t.Fatalf("%s: AdvanceTime: %v", w.name, err)
				}
				passed := potted(w.cluster)
				for _, partition := range []string{"p0", "p1", "p2"} {
					sum := int64(0)
					for _, one := range passed[partition] {
						sum += one
					}
					if sum != want[partition] && (!kind.plain || sum < want[partition]) {
						t.Fatalf("%s: pots of %s passed on %d; want %d", w.name, partition, sum, want[partition])
					}
				}
				if w.cluster.rewinds > 0 {
					t.Fatalf("%s: commits went backwards %d times", w.name, w.cluster.rewinds)
				}
			}
		})
	}
}

// The outcome of an advance's commit is not known: it is found out as that of any
// other round.
func TestAdvanceOfTimeWithAnUnknownOutcomeIsMadeOnce(t *testing.T) {
	unknown := &CommitUnknownError{TransactionalID: "member", Cause: errors.New("answer lost")}
	for _, stateful := range []bool{true, false} {
		for _, lands := range []landing{landsNever, landsAtOnce, landsLate} {
			for aborts := range 3 {
				for reads := range 3 {
					t.Run(fmt.Sprintf("with state %v/%s/%d aborts and %d reads fail", stateful, lands, aborts, reads), func(t *testing.T) {
						c := clusterOf(t, map[string]int{"in": 1})
						c.fill(in(0), "a 1", "a 2")
						m := c.member("member")
						m.maxPoll = 1000
						topology := potTopology
						if !stateful {
							topology = statelessPots
						}
						r := newTestRunner(t, topology(t), m, m, WithStateStore(NewFileStateStore(t.TempDir())))
						round := func() error {
							_, err := r.RunOnceTransactional(t.Context(), 0)
							return err
						}
						for !c.drained("in") {
							if err := round(); err != nil {
								t.Fatal(err)
							}
						}
						doubtful(m, lands, unknown, aborts, reads)
						advance := func() error { return r.AdvanceTime(t.Context(), 10) }
						failed := 0
						// A caller tries until an advance succeeds; rounds come between.
						for err := advance(); err != nil; err = advance() {
							if failed++; !errors.Is(err, unknown) || !r.mayRetry(err) || failed > 20 {
								t.Fatalf("AdvanceTime = %v, may be retried %v; want a passing error with %v", err, r.mayRetry(err), unknown)
							}
							if err := round(); err != nil && !errors.Is(err, unknown) {
								t.Fatal(err)
							}
						}
						if stateful {
							if diff := cmp.Diff(map[string][]int64{"p0": {3}}, potted(c)); diff != "" {
								t.Errorf("outputs mismatch (-want +got):\n%s", diff)
							}
						} else if failed == 0 && lands == landsAtOnce && len(c.values("out")) != 1 {
							t.Errorf("outputs %v; want one", c.values("out"))
						}
						if lands == landsAtOnce && aborts+reads == 0 && failed > 0 {
							t.Errorf("%d advances failed; want none: the commit took effect", failed)
						}
						if got := r.Stats().CommitsUnknown; got != 1 {
							t.Errorf("%d unknown commits counted; want 1", got)
						}
					})
				}
			}
		}
	}
}

func statelessPots(tb testing.TB) *Topology {
	return through(tb, "pot", func() Processor { return statelessPot{} }, "in")
}

// Two advances without state commit the same offsets. The note of the first does
// not stand for the second.
func TestAdvanceOfTimeIsNotTakenForTheOneBefore(t *testing.T) {
	unknown := &CommitUnknownError{TransactionalID: "member", Cause: errors.New("request lost")}
	c := clusterOf(t, map[string]int{"in": 1})
	c.fill(in(0), "a 1")
	m := c.member("member")
	r := newTestRunner(t, statelessPots(t), m, m)
	untilDrained(t, r, c, "in")
	if err := r.AdvanceTime(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	doubtful(m, landsNever, unknown, 0, 0)
	if err := r.AdvanceTime(t.Context(), 20); !errors.Is(err, unknown) || !r.mayRetry(err) {
		t.Errorf("AdvanceTime without effect = %v; want a passing error with %v", err, unknown)
	}
	if err := r.AdvanceTime(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	if got := c.values("out"); len(got) != 2 {
		t.Errorf("outputs %v; want one of each advance", got)
	}
}

// withoutNotes hides that a producer keeps notes.
type withoutNotes struct{ TransactionalProducer }

// No offset moves with an advance, so without notes nobody can tell later whether
// it took effect. To make it again would be to send it twice.
func TestUnknownAdvanceOfTimeWithoutNotesEndsTheRunner(t *testing.T) {
	unknown := &CommitUnknownError{TransactionalID: "member", Cause: errors.New("answer lost")}
	c := clusterOf(t, map[string]int{"in": 1})
	c.fill(in(0), "a 1")
	m := c.member("member")
	r := newTestRunner(t, statelessPots(t), m, withoutNotes{m})
	untilDrained(t, r, c, "in")
	doubtful(m, landsAtOnce, unknown, 0, 0)
	for range 2 {
		if err := r.AdvanceTime(t.Context(), 10); !errors.Is(err, unknown) || r.mayRetry(err) {
			t.Errorf("AdvanceTime = %v; want a lasting error with %v", err, unknown)
		}
	}
	if got := c.values("out"); len(got) != 1 {
		t.Errorf("outputs %v; want the one that took effect", got)
	}
}

// statelessPot passes on one row at each advance.
type statelessPot struct{}

func (statelessPot) Process(*Context, arrow.RecordBatch) error { return nil }

func (statelessPot) AdvanceTime(ctx *Context, timestamp int64) error {
	return (&pot{sum: timestamp}).AdvanceTime(ctx, timestamp)
}

func TestAdvanceOfTimePassesNoRecordThatWaits(t *testing.T) {
	consumer := &scriptedConsumer{}
	producer := &recordingProducer{}
	reader := cutsOf(t, map[int64]map[TopicPartition]int64{1: {in(0): 2, in(1): 2}})
	r := newTestRunner(t, potTopology(t), consumer, producer, WithBarrierGroup("audit", reader))
	r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
	consumer.add(fetch{in(0): rows(0, 0, "a 1", "a 2", "a 4"), in(1): rows(1, 0, "a 10")})
	runOnce(t, r)
	advance := func() []string {
		t.Helper()
		if err := r.AdvanceTime(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		return producer.values("out")
	}
	if diff := cmp.Diff([]string{"p1 10"}, advance()); diff != "" {
		t.Errorf("outputs while a record of partition 0 waits mismatch (-want +got):\n%s", diff)
	}
	consumer.add(fetch{in(1): rows(1, 1, "a 20")})
	runOnce(t, r)
	runOnce(t, r)
	if diff := cmp.Diff([]string{"p0 7", "p1 20"}, advance()); diff != "" {
		t.Errorf("outputs behind the barrier mismatch (-want +got):\n%s", diff)
	}
}

// An advance commits the offsets that stand, so a member that has lost its
// partitions cannot send what their windows held.
func TestAdvanceOfTimeOfAMemberThatWasReplacedIsRefused(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 1})
	c.fill(in(0), "a 1", "a 2")
	m := c.member("member")
	r := newTestRunner(t, potTopology(t), m, m, WithStateStore(NewFileStateStore(t.TempDir())))
	for !c.drained("in") {
		if _, err := r.RunOnceTransactional(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	c.expire(m)
	var rebalanced *RebalancedError
	if err := r.AdvanceTime(t.Context(), 10); !errors.As(err, &rebalanced) {
		t.Errorf("AdvanceTime = %v; want a RebalancedError", err)
	}
	if got := potted(c); len(got) > 0 {
		t.Errorf("outputs %v; want none", got)
	}
}

// An advance is in the journal and was aborted, and then a round without
// transactions commits an offset that holds no record. The commit does not make
// the advance one that took place.
func TestAbortedAdvanceOfTimeIsNotTakenForCommitted(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 1})
	c.fill(in(0), "a 1", "a 2")
	files := t.TempDir()
	m := c.member("member")
	r := newTestRunner(t, potTopology(t), m, m, WithStateStore(NewFileStateStore(files)))
	untilDrained(t, r, c, "in")
	m.step = func(op string) error {
		if op == "commit" {
			return errInjected
		}
		return nil
	}
	if err := r.AdvanceTime(t.Context(), 10); !errors.Is(err, errInjected) {
		t.Fatalf("AdvanceTime = %v; want %v", err, errInjected)
	}
	m.step = func(string) error { return nil }
	c.append(in(0), fakeEntry{control: true})
	for range 3 {
		runOnce(t, r)
	}
	c.expire(m) // killed
	m = c.member("member")
	r = newTestRunner(t, potTopology(t), m, m, WithStateStore(NewFileStateStore(files)))
	c.fill(in(0), "a 4")
	untilDrained(t, r, c, "in")
	runOnce(t, r)
	if err := r.AdvanceTime(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]int64{"p0": {7}}, potted(c)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

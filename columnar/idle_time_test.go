// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

// fillTimed appends records made of texts such as "5 ada 7": timestamp and
// value.
func (c *fakeCluster) fillTimed(tp TopicPartition, records ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, record := range timed(tp.Partition, records...) {
		c.append(tp, fakeEntry{record: record})
	}
}

// totalOfWindows counts rows per user in windows of 10 s, and adds up the counts
// of closed windows: state behind state.
func totalOfWindows(tb testing.TB) *Topology {
	tb.Helper()
	mem := memory.DefaultAllocator
	topology := countInWindows(tb, mem, EmitFinal)
	windows := topology.nodes[1]
	if windows.name != "windows" {
		tb.Fatalf("node 1 is %s", windows.name)
	}
	total := must[*BuiltinOp](tb)(NewGroupBy(mem, Grouping{
		Keys: []string{"user"}, Emit: EmitChanges,
		Aggregations: []Aggregation{{InputColumn: "n", OutputColumn: "total", Function: Sum}},
	}))
	totals := must[Node](tb)(topology.AddOperator("totals", total, Node{topology: topology, index: 1}))
	must[Node](tb)(topology.AddSink("totals-sink", "totals", wideCodec{amountCodec{mem}}, totals))
	return topology
}

// oneRound runs one round.
func oneRound(tb testing.TB, r *GroupRunner, transactional bool) {
	tb.Helper()
	var err error
	if transactional {
		_, err = r.RunOnceTransactional(tb.Context(), 0)
	} else {
		_, err = r.RunOnce(tb.Context(), 0)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// letPass runs a round a second for some time.
func letPass(tb testing.TB, seconds int, transactional bool, runners ...*GroupRunner) {
	tb.Helper()
	for range seconds {
		for _, r := range runners {
			oneRound(tb, r, transactional)
		}
		wait(time.Second)
	}
}

func TestSilentPartitionEmitsItsLastWindowOnce(t *testing.T) {
	for _, transactional := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := clusterOf(t, map[string]int{"in": 2, "late": 1})
			m := c.member("m")
			r := newTestRunner(t, countInWindows(t, memory.DefaultAllocator, EmitFinal), m, m,
				WithStateStore(NewFileStateStore(t.TempDir())), WithIdleTimeout(5*time.Second))
			expect := func(when string, want ...string) {
				t.Helper()
				if diff := cmp.Diff(want, slices.Concat(c.values("out"), c.values("late"))); diff != "" {
					t.Errorf("transactional %v: outputs %s mismatch (-want +got):\n%s", transactional, when, diff)
				}
			}
			c.fillTimed(in(0), "1000 a 1", "2000 a 1", "3000 a 1", "8000 a 1", "9000 a 1")
			letPass(t, 6, transactional, r)
			expect("before the timeout")
			letPass(t, 60, transactional, r)
			first := "a 0 10000 5"
			expect("of a minute of silence", first)
			commits := r.Stats().Rounds
			letPass(t, 60, transactional, r)
			expect("of two minutes", first)
			if now := r.Stats().Rounds; now != commits {
				t.Errorf("%d rounds were committed in silence with nothing to close", now-commits)
			}
			// What comes behind the advance is late in a closed window, and on time
			// in others.
			c.fillTimed(in(0), "9500 a 7", "300000 a 1")
			letPass(t, 1, transactional, r)
			late := fmt.Sprintf("a 7 0 10000 %d", r.Topology().streamTime(0))
			if !strings.HasPrefix(late, "a 7 0 10000 3") {
				t.Errorf("the late row is %s; want a stream time of the later row", late)
			}
			letPass(t, 60, transactional, r)
			got := c.values("late")
			if len(got) != 1 || !strings.HasPrefix(got[0], "a 7 0 10000 ") {
				t.Errorf("late rows = %q; want the one of 9500", got)
			}
			if diff := cmp.Diff([]string{first, "a 300000 310000 1"}, c.values("out")); diff != "" {
				t.Errorf("outputs at the end mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutAnIdleTimeoutSilenceClosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clusterOf(t, map[string]int{"in": 1, "late": 1})
		m := c.member("m")
		r := newTestRunner(t, countInWindows(t, memory.DefaultAllocator, EmitFinal), m, m, WithStateStore(NewFileStateStore(t.TempDir())))
		c.fillTimed(in(0), "1000 a 1")
		letPass(t, 100, true, r)
		if got := c.values("out"); len(got) != 0 {
			t.Errorf("outputs = %q; want none", got)
		}
	})
}

// TestIdleTimeSurvivesACrashAnywhere kills a process at each of its steps, from
// the first record to the second window that silence closes.
func TestIdleTimeSurvivesACrashAnywhere(t *testing.T) {
	crashed := true
	for at := 1; crashed; at++ {
		synctest.Test(t, func(t *testing.T) { crashed = crashInSilence(t, at) })
		if at > 500 {
			t.Fatal("the process never gets through")
		}
	}
}

func crashInSilence(t *testing.T, at int) (crashed bool) {
	w := newWorld(t, uint64(at), true, map[string]int{"in": 2, "late": 1, "totals": 1}, totalOfWindows)
	w.name = fmt.Sprintf("crash at step %d", at)
	w.options = func(*world) []GroupRunnerOption { return []GroupRunnerOption{WithIdleTimeout(3 * time.Second)} }
	p := w.start("m", 0)
	w.crashAt = w.steps + at
	until := func(what string, done func() bool) {
		t.Helper()
		for range 200 {
			if done() {
				return
			}
			p.round()
			if w.dead {
				p.bury()
				p, crashed = w.start("m", 0), true
			}
			wait(time.Second)
		}
		t.Fatalf("%s: never %s; outputs %q", w.name, what, w.cluster.values("out"))
	}
	w.cluster.fillTimed(in(0), "1000 a 1", "2000 a 1", "9000 a 1")
	until("closes the first window", func() bool { return len(w.cluster.values("out")) > 0 })
	w.cluster.fillTimed(in(0), "5000 a 1", "100000 a 1", "101000 b 1")
	until("closes the second window", func() bool { return len(w.cluster.values("out")) > 1 })
	rounds := 0
	until("", func() bool { rounds++; return rounds > 20 })
	got := map[string][]string{}
	for _, topic := range []string{"out", "totals"} {
		got[topic] = w.cluster.values(topic)
	}
	want := map[string][]string{
		"out":    {"a 0 10000 3", "a 100000 110000 1", "b 100000 110000 1"},
		"totals": {"a 3", "a 4", "b 1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: outputs mismatch (-want +got):\n%s", w.name, diff)
	}
	if late := w.cluster.values("late"); len(late) != 1 || !strings.HasPrefix(late[0], "a 1 0 10000 ") {
		t.Errorf("%s: late rows = %q; want the one of 5000", w.name, late)
	}
	return crashed
}

func TestIdlePartitionMovesToAnotherMember(t *testing.T) {
	for _, transactional := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := clusterOf(t, map[string]int{"in": 2, "late": 1})
			directory := t.TempDir()
			start := func(id string) (*fakeMember, *GroupRunner) {
				m := c.member(id)
				return m, newTestRunner(t, countInWindows(t, memory.DefaultAllocator, EmitFinal), m, m,
					WithStateStore(must[*FileStateStore](t)(OpenFileStateStore(directory))), WithIdleTimeout(5*time.Second))
			}
			_, a := start("a")
			c.fillTimed(in(1), "1000 a 1", "9000 a 1")
			letPass(t, 3, transactional, a)
			other, b := start("b")
			letPass(t, 3, transactional, a, b)
			if got := c.values("out"); len(got) != 0 {
				t.Errorf("outputs = %q, before the partition was idle with its new owner", got)
			}
			letPass(t, 10, transactional, a, b)
			want := []string{"a 0 10000 2"}
			if diff := cmp.Diff(want, c.values("out")); diff != "" {
				t.Errorf("outputs of the new owner mismatch (-want +got):\n%s", diff)
			}
			c.expire(other) // killed
			letPass(t, 60, transactional, a)
			if diff := cmp.Diff(want, c.values("out")); diff != "" {
				t.Errorf("outputs behind its death mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLostAnswerToTheCommitOfAnIdleRound(t *testing.T) {
	errLost := errors.New("the answer is lost")
	for _, happened := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := clusterOf(t, map[string]int{"in": 1, "late": 1})
			m := c.member("m")
			r := newTestRunner(t, countInWindows(t, memory.DefaultAllocator, EmitFinal), m, m,
				WithStateStore(NewFileStateStore(t.TempDir())), WithIdleTimeout(3*time.Second))
			c.fillTimed(in(0), "1000 a 1", "9000 a 1")
			letPass(t, 4, true, r)
			failures := 0
			fail := func(op string) error {
				if op != "commit" || failures > 0 {
					return nil
				}
				failures++
				return errLost
			}
			if happened {
				m.after = fail
			} else {
				m.step = fail
			}
			_, err := r.RunOnceTransactional(t.Context(), 0)
			if (err == nil) != happened || failures != 1 {
				t.Errorf("happened %v: round = %v with %d lost answers", happened, err, failures)
			}
			letPass(t, 30, true, r)
			if diff := cmp.Diff([]string{"a 0 10000 2"}, c.values("out")); diff != "" {
				t.Errorf("happened %v: outputs mismatch (-want +got):\n%s", happened, diff)
			}
		})
	}
}

func TestPartitionThatIsBehindIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errUnreachable := errors.New("unreachable")
		consumer := &rangedConsumer{ends: map[TopicPartition]int64{in(0): 3}}
		consumer.at = map[TopicPartition]int64{in(0): 0}
		consumer.fetches = []fetch{{in(0): timed(0, "1000 a 1", "9000 a 1")}}
		producer := &recordingProducer{}
		var reported []error
		r := newTestRunner(t, countInWindows(t, memory.DefaultAllocator, EmitFinal), consumer, producer,
			WithIdleTimeout(5*time.Second), WithHooks(Hooks{Error: func(err error) { reported = append(reported, err) }}))
		r.OnPartitionsAssigned([]TopicPartition{in(0)})
		runOnce(t, r)
		consumer.at[in(0)] = 2
		letPass(t, 60, false, r)
		if len(producer.sent) != 0 || len(reported) != 0 {
			t.Errorf("sent %v, reported %v; want nothing while a record is on its way", producer.sent, reported)
		}
		consumer.failWith = map[string]error{"EndOffsets": errUnreachable}
		letPass(t, 10, false, r)
		if len(producer.sent) != 0 || !errors.Is(errors.Join(reported...), errUnreachable) {
			t.Errorf("sent %v, reported %v; want nothing and %v while nobody can tell", producer.sent, reported, errUnreachable)
		}
		consumer.failWith, consumer.ends[in(0)] = nil, 2
		letPass(t, 10, false, r)
		if diff := cmp.Diff([]string{"out:a 0 10000 2"}, produced(producer.sent)); diff != "" {
			t.Errorf("outputs at the end of the partition mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestPartitionThatWaitsForACutIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consumer := &scriptedConsumer{fetches: []fetch{{in(0): timed(0, "1000 a 1", "9000 a 1", "9500 a 1")}}}
		producer := &recordingProducer{}
		r := newTestRunner(t, countInWindows(t, memory.DefaultAllocator, EmitFinal), consumer, producer, WithIdleTimeout(5*time.Second),
			WithBarrierGroup("audit", cutsOf(t, map[int64]map[TopicPartition]int64{5: {in(0): 2, in(1): 1}})))
		r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
		letPass(t, 60, false, r)
		if len(producer.sent) != 0 {
			t.Errorf("sent %q; want nothing before the cut", produced(producer.sent))
		}
		consumer.add(fetch{in(1): timed(1, "9000 b 1")})
		letPass(t, 60, false, r)
		got := produced(producer.sent)
		slices.Sort(got)
		if diff := cmp.Diff([]string{"out:a 0 10000 3", "out:b 0 10000 1"}, got); diff != "" {
			t.Errorf("outputs behind the cut mismatch (-want +got):\n%s", diff)
		}
	})
}

// TestIdleProcessorIsCalledOnceInTheTimeout has no windows, so record timestamps
// are the time.
func TestIdleProcessorIsCalledOnceInTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clusterOf(t, map[string]int{"in": 1})
		m := c.member("m")
		store := NewFileStateStore(t.TempDir())
		r := newTestRunner(t, potTopology(t), m, m, WithStateStore(store), WithIdleTimeout(4*time.Second))
		letPass(t, 20, true, r)
		if got := c.values("out"); len(got) != 0 {
			t.Errorf("outputs before the first record = %q; want none", got)
		}
		c.fillTimed(in(0), "1000 a 1", "500 a 2")
		letPass(t, 8, true, r)
		c.fillTimed(in(0), "1500 a 40")
		letPass(t, 3, true, r)
		c.expire(m) // killed
		m = c.member("m")
		r = newTestRunner(t, potTopology(t), m, m, WithStateStore(store), WithIdleTimeout(4*time.Second))
		letPass(t, 8, true, r)
		if diff := cmp.Diff([]string{"p0 3", "p0 40"}, c.values("out")); diff != "" {
			t.Errorf("outputs mismatch (-want +got):\n%s", diff)
		}
		letPass(t, 8, true, r)
		if diff := cmp.Diff([]string{"p0 3", "p0 40", "p0 0", "p0 0"}, c.values("out")); diff != "" {
			t.Errorf("outputs of eight more seconds mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestIdleTimeoutMustNotBeNegative(t *testing.T) {
	_, err := NewGroupRunner(countingTopology(t), &scriptedConsumer{}, &recordingProducer{}, WithIdleTimeout(-time.Second))
	if err == nil || err.Error() != "idle timeout -1s is negative" {
		t.Errorf("NewGroupRunner = %v; want a negative idle timeout", err)
	}
}

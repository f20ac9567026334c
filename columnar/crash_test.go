// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/statefile/crashfs"
)

// process is one member of the group with its runner, until it is killed.
type process struct {
	world  *world
	member *fakeMember
	runner *GroupRunner
	files  *crashfs.FileSystem
}

// world is a cluster, state that outlives processes, and the number of the step
// at which the present process dies.
type world struct {
	tb            testing.TB
	name          string
	rand          *rand.Rand
	cluster       *fakeCluster
	files         *crashfs.FileSystem
	transactional bool
	topology      func(testing.TB) *Topology
	options       func(*world) []GroupRunnerOption
	plain         bool // the producer knows no transactions

	steps, crashAt int
	dead           bool
}

func newWorld(tb testing.TB, seed uint64, transactional bool, partitions map[string]int, topology func(testing.TB) *Topology) *world {
	partitions["out"], partitions["dlq"], partitions[BarrierStateTopic] = 1, 1, 1
	w := &world{
		tb: tb, name: fmt.Sprintf("seed %d, transactional %v", seed, transactional), rand: rand.New(rand.NewPCG(seed, 3)),
		cluster: newFakeCluster(seed, partitions), files: crashfs.New(seed), transactional: transactional, topology: topology,
		options: func(*world) []GroupRunnerOption { return nil },
	}
	w.files.Before = func(op, path string) error { return w.step(op + " " + path) }
	return w
}

// step counts one thing that a process does, and kills it when its time has
// come.
func (w *world) step(string) error {
	w.steps++
	if w.dead || w.steps == w.crashAt {
		w.dead, w.files.Dead = true, true
		return errKilled
	}
	return nil
}

// start starts a process that dies within some steps, or not at all.
func (w *world) start(id string, within int) *process {
	w.dead, w.crashAt = false, 0
	if within > 0 {
		w.crashAt = w.steps + 1 + w.rand.IntN(within)
	}
	p := &process{world: w, member: w.cluster.member(id), files: w.files}
	p.member.step, p.member.after = w.step, w.step
	store := inMemory(w.files)
	options := append([]GroupRunnerOption{
		WithStateStore(store), WithParallelism(1 + w.rand.IntN(3)),
		WithSnapshotInterval(time.Duration(w.rand.IntN(2)) * time.Hour), w.savesLater,
		WithBackoff(time.Nanosecond, time.Second),
	}, w.options(w)...)
	producer := Producer(p.member)
	if w.plain {
		producer = struct{ Producer }{p.member}
	}
	runner, err := NewGroupRunner(w.topology(w.tb), p.member, producer, options...)
	if err != nil {
		w.tb.Fatalf("%s: %v", w.name, err)
	}
	p.runner = runner
	return p
}

// savesLater makes a runner write state at some later point of its process, which
// may be behind the end of it.
func (w *world) savesLater(r *GroupRunner) {
	r.settings.snapshotTimeout = 0
	r.settings.beside = func(work func()) func(context.Context) bool {
		finished := false
		return func(ctx context.Context) bool {
			if !finished && (ctx.Err() == nil || w.rand.IntN(4) == 0) {
				work()
				finished = true
			}
			return finished
		}
	}
}

// round runs one round, which may fail only in the ways that are allowed.
func (p *process) round(allowed ...error) {
	p.world.tb.Helper()
	run := p.runner.RunOnce
	if p.world.transactional {
		run = p.runner.RunOnceTransactional
	}
	_, err := run(p.world.tb.Context(), 0)
	if err == nil || p.world.dead {
		return
	}
	for _, one := range allowed {
		if errors.Is(err, one) {
			return
		}
	}
	var rebalanced *RebalancedError
	if errors.As(err, &rebalanced) {
		return
	}
	p.world.tb.Fatalf("%s: round: %v", p.world.name, err)
}

// bury ends a killed process: the group notices, and the next process finds what
// a machine finds that lost power, or a process that was killed.
func (p *process) bury() {
	p.world.cluster.expire(p.member)
	p.world.files.Restart(p.world.rand.IntN(2) == 0)
	p.world.dead, p.world.crashAt = false, 0
}

// drain runs rounds until the group has committed everything.
func (p *process) drain(topics ...string) {
	p.world.tb.Helper()
	for range 2000 {
		if p.world.cluster.drained(topics...) {
			return
		}
		p.round()
	}
	p.world.tb.Fatalf("%s: not drained: committed %v", p.world.name, p.world.cluster.committed)
}

// settle runs rounds until so many partitions have recovered and nothing of them
// waits: before that, an advance of time leaves a partition out.
func (p *process) settle(partitions int) {
	p.world.tb.Helper()
	for range 2000 {
		settled := 0
		for _, partition := range p.runner.ordered() {
			if partition.live() && !partition.waits() {
				settled++
			}
		}
		if settled == partitions {
			return
		}
		p.round()
	}
	p.world.tb.Fatalf("%s: not settled", p.world.name)
}

// load produces records of a few users, each at home in one partition, and
// returns by user the totals that must come out, in order.
type load struct {
	world  *world
	totals map[string]int64
	want   map[string][]string
}

func newLoad(w *world) *load {
	return &load{world: w, totals: map[string]int64{}, want: map[string][]string{}}
}

func (l *load) produce(topic string, partitions, records int) {
	for range records {
		partition := l.world.rand.IntN(partitions)
		user := fmt.Sprintf("u%d-%d", partition, l.world.rand.IntN(3))
		amount := int64(1 + l.world.rand.IntN(9))
		l.totals[user] += amount
		l.want[user] = append(l.want[user], fmt.Sprintf("%s %d", user, l.totals[user]))
		l.world.cluster.produce(TopicPartition{topic, partition}, fmt.Sprintf("%s %d", user, amount))
	}
}

// check compares what was produced with what had to be: exactly once, or at
// least once with no total that never was.
func (l *load) check() {
	l.world.tb.Helper()
	got := map[string][]string{}
	for _, value := range l.world.cluster.values("out") {
		user, _, _ := strings.Cut(value, " ")
		got[user] = append(got[user], value)
	}
	if l.world.transactional {
		if diff := cmp.Diff(l.want, got); diff != "" {
			l.world.tb.Fatalf("%s: committed outputs mismatch (-want +got):\n%s", l.world.name, diff)
		}
		return
	}
	for user, want := range l.want {
		for _, value := range got[user] {
			if !slices.Contains(want, value) {
				l.world.tb.Fatalf("%s: output %q never was a total: %v", l.world.name, value, want)
			}
		}
		for _, value := range want {
			if !slices.Contains(got[user], value) {
				l.world.tb.Fatalf("%s: total %q was lost: %v", l.world.name, value, got[user])
			}
		}
	}
}

// seeds is how many random histories each test goes through.
var seeds = flag.Uint64("seeds", 3, "random histories a test")

// eachMode runs a test for many seeds, with and without transactions.
func eachMode(t *testing.T, test func(t *testing.T, seed uint64, transactional bool)) {
	for _, transactional := range []bool{true, false} {
		t.Run(map[bool]string{true: "exactly once", false: "at least once"}[transactional], func(t *testing.T) {
			t.Parallel()
			for seed := range *seeds {
				test(t, seed, transactional)
			}
		})
	}
}

func TestStateIsExactAfterCrashesAnywhere(t *testing.T) {
	eachMode(t, func(t *testing.T, seed uint64, transactional bool) {
		w := newWorld(t, seed, transactional, map[string]int{"in": 3}, ledgerTopology)
		l := newLoad(w)
		for range 12 {
			l.produce("in", 3, 1+w.rand.IntN(40))
			p := w.start("member", 120)
			for range 30 {
				if p.round(); w.dead {
					break
				}
				if w.rand.IntN(4) == 0 {
					l.produce("in", 3, w.rand.IntN(10))
				}
			}
			if w.dead || w.rand.IntN(3) > 0 {
				p.bury()
			} else if err := p.runner.Close(); err != nil && !w.dead {
				t.Fatalf("%s: Close: %v", w.name, err)
			} else {
				p.bury()
			}
		}
		p := w.start("member", 0)
		p.drain("in")
		l.check()
		if w.cluster.rewinds > 0 {
			t.Fatalf("%s: commits went backwards %d times", w.name, w.cluster.rewinds)
		}
		if err := p.runner.Close(); err != nil {
			t.Fatalf("%s: Close: %v", w.name, err)
		}
	})
}

// errInjected is a failure that passes.
var errInjected = errors.New("injected failure")

func TestFailuresAnywhereAreTakenBack(t *testing.T) {
	eachMode(t, func(t *testing.T, seed uint64, transactional bool) {
		w := newWorld(t, seed, transactional, map[string]int{"in": 3}, ledgerTopology)
		l := newLoad(w)
		p := w.start("member", 0)
		failing := false
		fail := func(op string) error {
			if !failing || w.rand.IntN(25) > 0 {
				return nil
			}
			if op == "commit" {
				return &CommitUnknownError{TransactionalID: "member", Cause: errInjected}
			}
			return errInjected
		}
		p.member.step, p.member.after = fail, fail
		w.files.Before = func(op, _ string) error { return fail(op) }
		for range 60 {
			l.produce("in", 3, w.rand.IntN(20))
			failing = true
			p.round(errInjected)
			failing = false
		}
		p.drain("in")
		l.check()
		if stats := p.runner.Stats(); stats.RoundsFailed == 0 || stats.Rounds == 0 {
			t.Fatalf("%s: %d rounds failed, %d succeeded; want some of both", w.name, stats.RoundsFailed, stats.Rounds)
		}
	})
}

func TestPartitionsMoveBetweenMembers(t *testing.T) {
	eachMode(t, func(t *testing.T, seed uint64, transactional bool) {
		w := newWorld(t, seed, transactional, map[string]int{"in": 4}, ledgerTopology)
		l := newLoad(w)
		var processes []*process
		started := 0
		for range 150 {
			l.produce("in", 4, w.rand.IntN(8))
			switch action := w.rand.IntN(30); {
			case action == 0 && len(processes) < 3 || len(processes) == 0:
				started++
				processes = append(processes, w.start(fmt.Sprint("member-", started), 0))
				continue
			case action == 1:
				// A member leaves in order: its partitions go to the others.
				at := w.rand.IntN(len(processes))
				leaver := processes[at]
				if err := leaver.runner.Close(); err != nil {
					t.Fatalf("%s: Close: %v", w.name, err)
				}
				w.cluster.expire(leaver.member)
				processes = slices.Delete(processes, at, at+1)
				continue
			case action == 2:
				// A member is gone without a word.
				at := w.rand.IntN(len(processes))
				w.cluster.expire(processes[at].member)
				processes = slices.Delete(processes, at, at+1)
				continue
			case action == 3:
				// A member is thrown out and does not know: it goes on with what it has.
				w.cluster.expire(processes[w.rand.IntN(len(processes))].member)
				continue
			}
			processes[w.rand.IntN(len(processes))].stale()
		}
		for range 3000 {
			if w.cluster.drained("in") {
				break
			}
			for _, p := range processes {
				p.stale()
			}
			if len(processes) == 0 {
				processes = append(processes, w.start("last", 0))
			}
		}
		if !w.cluster.drained("in") {
			t.Fatalf("%s: not drained: committed %v", w.name, w.cluster.committed)
		}
		l.check()
	})
}

// Partitions of two topics that share state move between members, in order and
// without: their history is one, and goes on where it was.
func TestInterleavedPartitionsMoveBetweenMembers(t *testing.T) {
	eachMode(t, func(t *testing.T, seed uint64, transactional bool) {
		w := newWorld(t, seed, transactional, map[string]int{"a": 2, "b": 2}, chainTopology)
		produced := map[TopicPartition][]string{}
		produce := func(records int) {
			for range records {
				tp := TopicPartition{[]string{"a", "b"}[w.rand.IntN(2)], w.rand.IntN(2)}
				record := fmt.Sprintf("%s%d.%d", tp.Topic, tp.Partition, len(produced[tp]))
				produced[tp] = append(produced[tp], record)
				w.cluster.produce(tp, record+" 0")
			}
		}
		var processes []*process
		for started := range 12 {
			produce(w.rand.IntN(20))
			processes = append(processes, w.start(fmt.Sprint("member-", started), 0))
			for range 20 {
				for _, p := range processes {
					p.stale()
				}
				produce(w.rand.IntN(3))
			}
			if len(processes) < 2 {
				continue
			}
			leaver := processes[0]
			if processes = processes[1:]; w.rand.IntN(2) == 0 {
				if err := leaver.runner.Close(); err != nil {
					t.Fatalf("%s: Close: %v", w.name, err)
				}
			}
			w.cluster.expire(leaver.member)
		}
		for range 1000 {
			for _, p := range processes {
				p.stale()
			}
		}
		if !w.cluster.drained("a", "b") {
			t.Fatalf("%s: not drained: committed %v", w.name, w.cluster.committed)
		}
		checkChains(t, w, produced)
	})
}

// stale runs a round of a member that may be one that was thrown out: its saves
// may be refused.
func (p *process) stale() {
	p.world.tb.Helper()
	run := p.runner.RunOnce
	if p.world.transactional {
		run = p.runner.RunOnceTransactional
	}
	_, err := run(p.world.tb.Context(), 0)
	var stale *StaleOwnerError
	var rebalanced *RebalancedError
	if err != nil && !errors.As(err, &stale) && !errors.As(err, &rebalanced) {
		p.world.tb.Fatalf("%s: round of %s: %v", p.world.name, p.member.id, err)
	}
}

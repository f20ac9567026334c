// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/krabkatest"
)

var (
	simSeeds = flag.Uint64("sim.seeds", 25, "histories of the simulation")
	simFirst = flag.Uint64("sim.first", 1, "the seed of the first history")
	simFor   = flag.Duration("sim.for", 10*time.Minute, "no history begins later than that")
	simSeed  = flag.Uint64("sim.seed", 0, "the one history to run, with its story")
)

// TestSimulatedRunners runs members of a group through histories of crashes,
// rebalances, failures, cuts and restores in virtual time, one a seed.
func TestSimulatedRunners(t *testing.T) {
	if *simSeed > 0 {
		synctest.Test(t, func(t *testing.T) { simulate(t, *simSeed, true) })
		return
	}
	const lanes = 2
	began := time.Now()
	var running sync.WaitGroup
	for lane := range uint64(lanes) {
		running.Go(func() {
			for n := lane; n < *simSeeds && !t.Failed() && time.Since(began) < *simFor; n += lanes {
				seed := *simFirst + n
				t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { simulate(t, seed, false) })
				})
			}
		})
	}
	running.Wait()
}

func simulate(t *testing.T, seed uint64, tell bool) {
	w := newSimWorld(seed)
	defer func() {
		for len(w.members) > 0 {
			w.members[0].end()
		}
		if tell || len(w.failed) > 0 {
			story := w.story
			if !tell {
				story = story[max(0, len(story)-30):]
			}
			t.Logf("seed %d:\n%s", seed, strings.Join(story, "\n"))
		}
		for _, wrong := range w.failed {
			t.Errorf("seed %d: %s", seed, wrong)
		}
	}()
	for _, phase := range []func(*simWorld){(*simWorld).trouble, (*simWorld).drain, (*simWorld).stall, (*simWorld).steady, (*simWorld).drain} {
		if phase(w); len(w.failed) > 0 {
			return
		}
	}
}

// simFaults are the calls that fail now and then.
var simFaults = []string{
	"Poll", "Seek", "Send", "SendOffsets", "BeginTransaction", "CommitTransaction", "AbortTransaction", "CommitOffsets", "Committed",
	"StartOffsets", "CommittedNotes",
}

var simStoreFaults = []string{"Claim", "SaveSnapshot", "Snapshots", "LoadSnapshot", "ConfirmSnapshot", "Abandon", "AppendRound", "Rounds"}

// trouble is the part of a history in which everything goes wrong.
func (w *simWorld) trouble() {
	for range 40 + w.rand.IntN(60) {
		if len(w.members) == 0 {
			w.start(fmt.Sprint("m", w.rand.IntN(4)))
			continue
		}
		m := w.members[w.rand.IntN(len(w.members))]
		switch action := w.rand.IntN(100); {
		case action < 55:
			m.round(time.Duration(w.rand.IntN(3)) * 20 * time.Millisecond)
		case action < 70:
			w.produce(w.rand.IntN(len(w.inputs)), 1+w.rand.IntN(12))
		case action < 77:
			w.publish(w.rand.IntN(2) == 0, time.Duration(w.rand.IntN(3))*70*time.Millisecond)
		case action < 80:
			if len(w.members) < 4 {
				w.startNew()
			}
		case action < 82:
			m.end()
		case action < 84:
			m.crash()
		case action < 86:
			m.process.CrashAfter(1 + w.rand.IntN(60))
		case action < 87:
			w.note("%s is thrown out", m.name)
			m.Expire()
		case action < 92:
			w.disturb()
		case action < 93:
			w.slow()
		case action < 96:
			time.Sleep(time.Duration(w.rand.IntN(3000)) * time.Millisecond)
		case action < 97:
			if len(w.inputs) < 6 && w.rand.IntN(2) == 0 {
				w.grow(len(w.inputs) + 1)
				w.note("in has %d partitions", len(w.inputs))
			}
		case action < 99:
			if w.epoch > 0 {
				m.restore(max(1, w.epoch-int64(w.rand.IntN(3))))
			}
		default:
			w.remake()
		}
		synctest.Wait()
		if w.check(); len(w.failed) > 0 {
			return
		}
	}
}

// startNew starts a member under a name that nobody uses now.
func (w *simWorld) startNew() {
	for n := range 5 {
		name := fmt.Sprint("m", n)
		used := false
		for _, m := range w.members {
			used = used || m.name == name
		}
		if !used {
			w.start(name)
			return
		}
	}
}

// disturb makes a call fail, before it takes effect or behind it.
func (w *simWorld) disturb() {
	if w.rand.IntN(3) == 0 {
		method := simStoreFaults[w.rand.IntN(len(simStoreFaults))]
		w.note("the next %s fails", method)
		fault := &krabkatest.FaultError{Call: krabkatest.Call{Client: "store", Method: method}}
		if w.rand.IntN(3) == 0 {
			w.store.LoseNextAnswer(method, fault)
		} else {
			w.store.FailNext(method, fault)
		}
		return
	}
	method := simFaults[w.rand.IntN(len(simFaults))]
	w.note("the next %s fails", method)
	w.faults = append(w.faults, krabkatest.Call{Method: method, Answer: w.rand.IntN(2) == 0})
}

// slow makes the store slow, or quick again.
func (w *simWorld) slow() {
	if w.rand.IntN(2) == 0 {
		w.store.Slow(nil)
		return
	}
	delay := time.Duration(w.rand.IntN(500)) * time.Millisecond
	w.note("saves take %v", delay)
	w.store.Slow(func() time.Duration { return delay })
}

// drain ends all trouble, and lets the members work off everything.
func (w *simWorld) drain() {
	w.store.Slow(nil)
	w.faults = nil
	w.store.ClearFaults()
	for _, m := range w.members {
		m.process.CrashAfter(0)
	}
	for range 1500 {
		if len(w.members) == 0 {
			w.startNew()
		}
		if w.broker.Unread("group", "in") == 0 {
			break
		}
		for _, m := range append([]*simMember(nil), w.members...) {
			m.round(100 * time.Millisecond)
		}
		if w.check(); len(w.failed) > 0 {
			return
		}
	}
	time.Sleep(time.Minute) // what a crashed process left open is aborted by then
	w.check()
	if n := w.broker.Unread("group", "in"); n > 0 {
		w.fail("%d records are still to be committed: %v of %v", n, w.broker.Committed("group"), w.ends())
		return
	}
	for partition, in := range w.inputs {
		if got := len(w.seen[partition]); got != len(in.offsets) {
			w.fail("%d of %d records of partition %d have an output", got, len(in.offsets), partition)
		}
	}
}

func (w *simWorld) ends() []int64 {
	ends := make([]int64, len(w.inputs))
	for partition := range ends {
		_, _, ends[partition] = w.broker.Offsets("in", partition)
	}
	return ends
}

// together runs a round of every member at once, with polls that wait, while during
// happens.
func (w *simWorld) together(wait time.Duration, during func()) {
	members := append([]*simMember(nil), w.members...)
	errs, offsets := make([]error, len(members)), make([]map[columnar.TopicPartition]int64, len(members))
	var running sync.WaitGroup
	for i, m := range members {
		run := m.runner.RunOnce
		if w.transactional {
			run = m.runner.RunOnceTransactional
		}
		running.Go(func() { offsets[i], errs[i] = run(context.Background(), wait) })
	}
	synctest.Wait()
	during()
	running.Wait()
	synctest.Wait()
	for i, m := range members {
		m.tell(offsets[i], errs[i])
	}
}

// stall is a time in which one partition gives nothing, behind an open transaction of
// somebody else, and cuts go on: the other partitions must not wait for it for long.
func (w *simWorld) stall() {
	if len(w.inputs) < 2 || w.seed%4 != 0 {
		return
	}
	end, err := w.broker.OpenTransaction("in", 0, columnar.ProduceRecord{Value: []byte("p0 hidden")})
	if err != nil {
		w.fail("open transaction: %v", err)
		return
	}
	w.note("partition 0 stalls")
	for range 60 {
		w.publish(true, 0)
		for partition := 1; partition < len(w.inputs); partition++ {
			w.produce(partition, 1)
		}
		for range 5 {
			w.together(180*time.Millisecond, func() {})
		}
		if w.check(); len(w.failed) > 0 {
			return
		}
	}
	for partition := 1; partition < len(w.inputs); partition++ {
		if behind := len(w.inputs[partition].offsets) - len(w.seen[partition]); behind > 4*int(simDeadline/time.Second) {
			w.fail("partition %d is %d records behind, one a second, because partition 0 stalls", partition, behind)
		}
	}
	end(false)
	w.settle()
}

// settle lets the members come to rest: every wait of theirs passes.
func (w *simWorld) settle() {
	for range 20 {
		time.Sleep(10 * simDeadline)
		w.together(100*time.Millisecond, func() {})
	}
}

// steady is a service without lag: every announced cut has to close at every member
// that owns something.
func (w *simWorld) steady() {
	w.settle()
	if w.drain(); len(w.failed) > 0 {
		return
	}
	for w.epoch < w.highestEpoch {
		w.publish(true, 0)
		w.together(100*time.Millisecond, func() {})
	}
	for range 3 {
		epoch := w.epoch + 1
		w.together(50*time.Millisecond, func() {
			w.broker.AnnounceCut("audit", epoch)
			for partition := range w.inputs {
				w.produce(partition, 1)
			}
		})
		w.together(50*time.Millisecond, func() {
			for partition := range w.inputs {
				w.produce(partition, 2)
			}
		})
		w.publish(false, 0)
		for range 30 {
			w.together(20*time.Millisecond, func() {})
		}
		if w.check(); len(w.failed) > 0 {
			return
		}
		for _, m := range w.members {
			if len(m.owned) > 0 && !m.closed[epoch] {
				w.fail("cut %d has not closed at %s, which owns %v", epoch, m.name, m.owned)
			}
		}
	}
}

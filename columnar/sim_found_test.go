// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/krabkatest"
)

// The histories that the simulation has found, each as short as it can be.
func TestFoundHistories(t *testing.T) {
	for name, run := range map[string]func(*simWorld){
		"a commit of unknown outcome beside a replay":           unknownCommitBesideReplay,
		"a crash behind the first commit of an empty partition": crashBehindFirstBarrier,
		"a failed poll between a restore and the assignment":    failedPollBeforeAssignment,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSimWorld(1)
				w.broker, w.transactional, w.inputs = krabkatest.NewBroker(), true, nil
				w.broker.Intercept(w.intercept)
				w.grow(2)
				w.broker.CreateTopic("out", 2)
				w.broker.CreateTopic(columnar.BarrierStateTopic, 1)
				run(w)
				w.drain()
				for len(w.members) > 0 {
					w.members[0].end()
				}
				for _, wrong := range w.failed {
					t.Errorf("%s\n%s", wrong, w.told())
				}
			})
		})
	}
}

// The abort that settles the commit takes the consumer to the committed offsets; the
// partition that replays has records to read before them.
func unknownCommitBesideReplay(w *simWorld) {
	w.start("m0")
	w.produce(1, 30)
	w.members[0].round(0)
	w.members[0].crash()
	w.start("m1")
	m := w.members[0]
	m.BoundPolls(4)
	w.produce(0, 1)
	w.faults = []krabkatest.Call{{Method: "CommitTransaction", Answer: true}}
	m.round(0)
	if len(w.faults) > 0 {
		w.fail("no commit has failed")
	}
	w.produce(1, 1)
}

// The barrier commits the offset of its marker; the state at the cut is written beside
// the rounds, and the process is gone before that.
func crashBehindFirstBarrier(w *simWorld) {
	w.start("m0")
	m := w.members[0]
	m.round(0)
	w.store.Slow(func() time.Duration { return time.Hour })
	w.store.Intercept(func(call krabkatest.Call) error {
		if call.Method == "SaveSnapshot" && len(w.broker.Committed("group")) == 0 {
			w.store.Slow(nil) // what comes before the commit is waited for
		} else {
			w.store.Slow(func() time.Duration { return time.Hour })
		}
		return nil
	})
	w.publish(false, 0)
	for range 3 {
		m.round(0)
	}
	if len(w.broker.Committed("group")) != 2 {
		w.fail("the barrier has committed %v", w.broker.Committed("group"))
	}
	m.process.Crash()
	w.store.Intercept(nil)
	w.store.Slow(nil)
	m.end()
	w.start("m1")
	w.members[0].round(0)
}

// A restore before the assignment is sought when the partition comes, and no round
// before has to.
func failedPollBeforeAssignment(w *simWorld) {
	w.start("m0")
	owner := w.members[0]
	owner.round(0)
	w.produce(0, 2)
	w.publish(false, 0)
	for range 3 {
		owner.round(0)
	}
	w.start("m1")
	m := w.members[1]
	m.restore(1)
	w.faults = []krabkatest.Call{{Method: "Poll"}}
	m.round(0)
	m.round(0)
	if len(w.faults) > 0 {
		w.fail("no poll has failed")
	}
}

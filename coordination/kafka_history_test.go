// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// step is one operation of a history: a mint, or a guarded write under a token.
type step struct {
	mint  bool
	token coordination.FencingToken // written under; of a mint, the one it returned
	burnt int                       // of a mint whose answer was lost, a number of its own
	value string
}

// newest is the state of a role: the epoch that may write.
type newest struct {
	token coordination.FencingToken
	burnt int
}

// answer is what an operation came to.
type answer int

const (
	accepted answer = iota
	refused
	open // the outcome is not known
)

// guardModel is a role whose newest epoch may write, and no other.
var guardModel = porcupine.Model{
	Init: func() any { return newest{token: coordination.NoEpoch} },
	Step: func(state, input, output any) (bool, any) {
		now, s := state.(newest), input.(step)
		holds := now == newest{token: s.token}
		switch {
		case s.mint:
			return !holds, newest{s.token, s.burnt}
		case output.(answer) == accepted:
			return holds, now
		case output.(answer) == refused:
			return !holds, now
		}
		return true, now
	},
	DescribeOperation: func(input, output any) string {
		if s := input.(step); s.mint {
			return "mint " + s.token.String()
		}
		return fmt.Sprintf("write %s under %s: %d", input.(step).value, input.(step).token, output)
	},
}

// history records operations of several members.
type history struct {
	began time.Time

	mu  sync.Mutex // guards the fields below
	ops []porcupine.Operation
}

func (h *history) record(member int, s step, called time.Time, result answer) {
	finished := time.Since(h.began).Nanoseconds()
	if result == open {
		finished = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.burnt != 0 {
		s.burnt = 1 + len(h.ops)
	}
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: member, Input: s, Call: called.Sub(h.began).Nanoseconds(), Output: result, Return: finished,
	})
}

// rivals lets members take a role from each other and write under it, and
// checks what came of it.
func rivals(t *testing.T, s *stage, members, terms int, disturb func(random *rand.Rand, network *lossy)) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r, topic := role(t, unique("role")), unique("commands")
	s.create(t, topic, 1)
	h := &history{began: time.Now()}
	var group sync.WaitGroup
	for m := range members {
		network := newLossy()
		requests := 0 // of the last mint
		transport := network.over(s).transport(t, standardConfig(t), func(options *coordination.KafkaOptions) {
			options.Hooks.Minted = func(_ coordination.Role, _ coordination.FencingToken, n int) { requests = n }
		})
		random := rand.New(rand.NewPCG(seed, uint64(m)))
		group.Go(func() {
			for term := range terms {
				called := time.Now()
				minted, err := transport.AcquireEpoch(within(t, patience), r)
				if err != nil {
					t.Errorf("member %d: mint: %v", m, err)
					return
				}
				h.record(m, step{mint: true, token: minted}, called, accepted)
				for range requests - 1 {
					h.record(m, step{mint: true, token: coordination.NoEpoch, burnt: 1}, called, open)
				}
				for n := range 1 + random.IntN(4) {
					if disturb != nil {
						disturb(random, network)
					}
					write := step{token: minted, value: fmt.Sprintf("%d.%d.%d", m, term, n)}
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					if random.IntN(6) == 0 {
						cancel()
						ctx, cancel = context.WithTimeout(t.Context(), time.Duration(random.IntN(20))*time.Millisecond)
					}
					called := time.Now()
					err := transport.WriteRecords(ctx, r, minted, []coordination.GuardedRecord{{Topic: topic, Value: []byte(write.value)}})
					cancel()
					result := outcomeOf(err)
					if result == open || err == nil || errors.Is(err, coordination.ErrFenced) {
						h.record(m, write, called, result)
					}
					if result == refused && errors.Is(err, coordination.ErrFenced) {
						break
					}
				}
			}
		})
	}
	group.Wait()
	h.check(t)
	h.compare(t, s.visible(t, topic, 0))
}

func outcomeOf(err error) answer {
	switch {
	case err == nil:
		return accepted
	case errors.Is(err, coordination.ErrOutcomeUnknown):
		return open
	}
	return refused
}

// check looks for an order of the operations that explains what the members
// saw.
func (h *history) check(t *testing.T) {
	t.Helper()
	if result := porcupine.CheckOperationsTimeout(guardModel, h.ops, time.Minute); result != porcupine.Ok {
		t.Errorf("the history of %d operations is not linearizable: %s", len(h.ops), result)
		for _, op := range h.ops {
			t.Logf("%d: [%d, %d] %s", op.ClientId, op.Call, op.Return, guardModel.DescribeOperation(op.Input, op.Output))
		}
	}
}

// compare holds the log against the history: every accepted record once, no
// refused one, and the terms in the order of their mints.
func (h *history) compare(t *testing.T, log []string) {
	t.Helper()
	writes := make(map[string]porcupine.Operation)
	for _, op := range h.ops {
		if s := op.Input.(step); !s.mint {
			writes[s.value] = op
		}
	}
	last := coordination.NoEpoch
	seen := make(map[string]bool)
	for _, value := range log {
		op, recorded := writes[value]
		if seen[value] || !recorded || op.Output == refused {
			t.Errorf("record %s: seen before %v, recorded %v, outcome %v", value, seen[value], recorded, op.Output)
			continue
		}
		seen[value] = true
		under := op.Input.(step).token
		if last.Supersedes(under) {
			t.Errorf("record %s under %s follows one under %s", value, under, last)
		}
		last = under
	}
	for value, op := range writes {
		if op.Output == accepted && !seen[value] {
			t.Errorf("record %s was accepted and is not there", value)
		}
	}
	if len(log) == 0 {
		t.Error("nothing was written")
	}
}

func TestGuardedWritesOfRivalsAreLinearizable(t *testing.T) {
	t.Run("calm", func(t *testing.T) { rivals(t, fakeStage(t), 4, 12, nil) })
	t.Run("lossy", func(t *testing.T) {
		rivals(t, fakeStage(t), 3, 12, func(random *rand.Rand, network *lossy) {
			key := []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.EndTxn}[random.IntN(3)]
			network.lose(key, random.IntN(2), random.IntN(2))
		})
	})
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// step is one operation of a history: a mint, or a guarded write under a token.
type step struct {
	mint  bool
	token coordination.FencingToken // written under; of a mint, the one it returned, or NoEpoch if nobody knows it
	value string
}

// newest is the state of a role: the epoch that may write.
type newest struct {
	token coordination.FencingToken
	burnt bool // a mint that nobody knows the token of followed
}

// answer is what an operation came to.
type answer int

const (
	accepted answer = iota
	refused
	open   // the outcome is not known
	failed // for another reason than a fence
)

// guardModel is a role whose newest epoch may write, and no other. Mints
// return growing tokens.
var guardModel = porcupine.Model{
	Init: func() any { return newest{token: coordination.NoEpoch} },
	Step: func(state, input, output any) (bool, any) {
		now, s := state.(newest), input.(step)
		holds := now == newest{token: s.token}
		switch {
		case s.mint && s.token == coordination.NoEpoch:
			return true, newest{now.token, true}
		case s.mint:
			return s.token.Supersedes(now.token), newest{token: s.token}
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

// elapsed returns the time of an event.
func (h *history) elapsed() int64 { return time.Since(h.began).Nanoseconds() }

// record adds an operation that was called at a time and has returned, unless
// its outcome is open.
func (h *history) record(member int, s step, called int64, result answer) {
	finished := h.elapsed()
	if result == open {
		finished = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: member, Input: s, Call: called, Output: result, Return: finished})
}

// check looks for an order of the operations that explains what the members
// saw.
func (h *history) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if result := porcupine.CheckOperationsTimeout(guardModel, h.ops, time.Minute); result != porcupine.Ok {
		text := fmt.Sprintf("the history of %d operations is not linearizable: %s", len(h.ops), result)
		for _, op := range h.ops {
			text += fmt.Sprintf("\n%d: [%d, %d] %s", op.ClientId, op.Call, op.Return, guardModel.DescribeOperation(op.Input, op.Output))
		}
		return errors.New(text)
	}
	return nil
}

// compare holds the log against the history: every accepted record is there
// once and no refused one, terms follow each other in the order of their
// tokens, and a record that was accepted before the write of another began is
// before it.
func (h *history) compare(log []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	writes := make(map[string]porcupine.Operation)
	for _, op := range h.ops {
		if s := op.Input.(step); !s.mint {
			writes[s.value] = op
		}
	}
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	last, latest := coordination.NoEpoch, int64(0)
	seen := make(map[string]bool)
	for _, value := range log {
		op, recorded := writes[value]
		if seen[value] || !recorded || op.Output == refused || op.Output == failed {
			wrong("record %s: seen before %v, recorded %v, outcome %v", value, seen[value], recorded, op.Output)
			continue
		}
		seen[value] = true
		under := op.Input.(step).token
		if last.Supersedes(under) {
			wrong("record %s under %s follows one under %s", value, under, last)
		}
		if op.Return < latest {
			wrong("record %s was accepted before the write of a record ahead of it began", value)
		}
		last, latest = under, max(latest, op.Call)
	}
	for value, op := range writes {
		if op.Output == accepted && !seen[value] {
			wrong("record %s was accepted and is not there", value)
		}
	}
	return errors.Join(problems...)
}

// contestant does what a rival does, in this process or in another one. An
// error says that nobody knows what came of the order.
type contestant interface {
	do(rivalOrder) (rivalAnswer, error)
	close()
}

// contest is a role that rivals take from each other and write under.
type contest struct {
	rivals, terms int
	lease         time.Duration
	election      bool // they elect a leader, instead of minting whenever they like
	start         func(t *testing.T, s *stage, random *rand.Rand, config rivalConfig) contestant
}

// unknownMints is how many mints a rival may have made whose answer is lost.
const unknownMints = 3

// run lets the rivals compete, and checks what came of it.
func (c contest) run(t *testing.T, s *stage) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	config := rivalConfig{Brokers: s.brokers, Role: unique("role"), Commands: unique("commands"), Lease: c.lease}
	s.create(t, config.Commands, 1)
	if c.election {
		config.Topic = s.compacted(t, 1)
	}
	h := &history{began: time.Now()}
	var group sync.WaitGroup
	for m := range c.rivals {
		config.Member = fmt.Sprint("node-", m)
		random := rand.New(rand.NewPCG(seed, uint64(m)))
		x := c.start(t, s, random, config)
		t.Cleanup(x.close)
		group.Go(func() {
			for term := range c.terms {
				if err := c.term(h, m, term, x, random); err != nil {
					t.Errorf("rival %d, term %d: %v", m, term, err)
					return
				}
				if random.IntN(2) == 0 { // leave a turn to the others
					<-time.After(time.Duration(random.IntN(30)) * time.Millisecond)
				}
			}
		})
	}
	group.Wait()
	// One more ends what the others left open, and nobody disturbs it.
	config.Topic, config.Member = "", "node-last"
	last := startHere(false)(t, s, rand.New(rand.NewPCG(seed, 0)), config)
	t.Cleanup(last.close)
	if err := (contest{lease: c.lease}).term(h, c.rivals, 0, last, rand.New(rand.NewPCG(seed, 0))); err != nil {
		t.Errorf("the last rival: %v", err)
	}
	if err := h.check(); err != nil {
		t.Error(err)
	}
	log := s.visible(t, config.Commands, 0)
	if err := h.compare(log); err != nil {
		t.Error(err)
	}
	outcomes := make(map[answer]int)
	for _, op := range h.ops {
		if !op.Input.(step).mint {
			outcomes[op.Output.(answer)]++
		}
	}
	t.Logf("%d operations, %d records; writes accepted %d, refused %d, open %d, failed %d",
		len(h.ops), len(log), outcomes[accepted], outcomes[refused], outcomes[open], outcomes[failed])
	if len(log) == 0 {
		t.Error("nothing was written")
	}
}

// term takes the role and writes under it until a write is refused.
func (c contest) term(h *history, m, term int, x contestant, random *rand.Rand) error {
	called := h.elapsed()
	a, err := x.do(rivalOrder{Do: takeRole, Timeout: patience})
	unknown := a.Mints - 1
	switch {
	case err != nil:
		unknown = unknownMints
	case a.Outcome != accepted && c.election:
		unknown = a.Mints + 1 // it was too slow for the lease
	case a.Outcome != accepted:
		return errors.New(a.Error)
	}
	for range unknown {
		h.record(m, step{mint: true, token: coordination.NoEpoch}, called, open)
	}
	if err != nil || a.Outcome != accepted {
		return nil
	}
	token, err := coordination.ParseFencingToken(a.Token)
	if err != nil {
		return err
	}
	h.record(m, step{mint: true, token: token}, called, accepted)
	began := time.Now()
	for n := range 1 + random.IntN(4) {
		write := step{token: token, value: fmt.Sprintf("%d.%d.%d", m, term, n)}
		order := rivalOrder{Do: writeValue, Value: write.value, Timeout: patience}
		if c.rivals > 0 && random.IntN(6) == 0 {
			order.Timeout = time.Duration(random.IntN(20)) * time.Millisecond
		}
		called := h.elapsed()
		a, err := x.do(order)
		if err != nil {
			h.record(m, write, called, open)
			return nil
		}
		h.record(m, write, called, a.Outcome)
		if a.Fenced && time.Since(began) >= c.lease {
			// The coordinator may have ended a transaction at its timeout, and
			// moved the epoch for that.
			h.record(m, step{mint: true, token: coordination.NoEpoch}, called, open)
		}
		if a.Fenced {
			return nil
		}
	}
	if c.election {
		if _, err := x.do(rivalOrder{Do: resignRole, Timeout: patience}); err != nil {
			return nil
		}
	}
	return nil
}

// startHere starts a rival in this process, whose network may lose things.
func startHere(losses bool) func(*testing.T, *stage, *rand.Rand, rivalConfig) contestant {
	return func(t *testing.T, s *stage, random *rand.Rand, config rivalConfig) contestant {
		network := newLossy()
		x, err := newRival(config, coordination.KafkaOptions{ClientOptions: network.over(s).opts})
		if err != nil {
			t.Fatal(err)
		}
		if losses {
			return &troubled{rival: x, network: network, random: random}
		}
		return x
	}
}

// troubled is a rival whose network loses a request or an answer now and then.
type troubled struct {
	*rival
	network *lossy
	random  *rand.Rand
}

func (x *troubled) do(order rivalOrder) (rivalAnswer, error) {
	if order.Do == writeValue {
		x.network.lose(leaseSteps[x.random.IntN(len(leaseSteps))], x.random.IntN(2), x.random.IntN(2))
	}
	return x.rival.do(order)
}

// contestsHere lets rivals of this process compete.
func contestsHere(t *testing.T, s *stage) {
	for name, losses := range map[string]bool{"calm": false, "lossy": true} {
		t.Run(name, func(t *testing.T) {
			contest{rivals: 3, terms: 12, lease: 30 * time.Second, start: startHere(losses)}.run(t, s)
		})
	}
}

func TestGuardedWritesOfRivalsAreLinearizable(t *testing.T) { contestsHere(t, fakeStage(t)) }

// A checker that accepts everything would prove nothing.
func TestImpossibleHistoriesAreRejected(t *testing.T) {
	first, second := token(t, 7, 1), token(t, 7, 2)
	// at makes an operation of a rival between two instants.
	at := func(call, end int64, s step, result answer) porcupine.Operation {
		return porcupine.Operation{ClientId: int(call), Input: s, Call: call, Output: result, Return: end}
	}
	mint := func(call, end int64, minted coordination.FencingToken) porcupine.Operation {
		return at(call, end, step{mint: true, token: minted}, accepted)
	}
	write := func(call, end int64, under coordination.FencingToken, value string, result answer) porcupine.Operation {
		return at(call, end, step{token: under, value: value}, result)
	}
	const never = math.MaxInt64
	tests := []struct {
		name         string
		ops          []porcupine.Operation
		log          []string
		linearizable bool
		fits         bool // the log
	}{
		{"one term after the other", []porcupine.Operation{
			mint(0, 1, first), write(2, 3, first, "a", accepted), mint(4, 5, second), write(6, 7, second, "b", accepted), write(8, 9, first, "c", refused),
		}, []string{"a", "b"}, true, true},
		{"a write beside a mint", []porcupine.Operation{
			mint(0, 1, first), mint(2, 9, second), write(3, 4, first, "a", accepted), write(5, 6, first, "b", refused),
		}, []string{"a"}, true, true},
		{"an open write that took place", []porcupine.Operation{
			mint(0, 1, first), write(2, never, first, "a", open), mint(3, 4, second), write(5, 6, second, "b", accepted),
		}, []string{"a", "b"}, true, true},
		{"a write after a lost mint", []porcupine.Operation{
			mint(0, 1, first), at(2, never, step{mint: true, token: coordination.NoEpoch}, open), write(3, 4, first, "a", refused),
		}, nil, true, true},
		{"a deposed holder is accepted", []porcupine.Operation{
			mint(0, 1, first), mint(2, 3, second), write(4, 5, first, "late", accepted),
		}, []string{"late"}, false, true},
		{"a deposed holder is accepted between writes of its successor", []porcupine.Operation{
			mint(0, 1, first), mint(2, 9, second), write(10, 11, second, "b", accepted), write(10, 12, first, "late", accepted), write(13, 14, second, "c", accepted),
		}, []string{"b", "late", "c"}, false, false},
		{"the only holder is refused", []porcupine.Operation{
			mint(0, 1, first), write(2, 3, first, "a", refused),
		}, nil, false, true},
		{"a holder is accepted after it was refused", []porcupine.Operation{
			mint(0, 1, first), mint(2, 20, second), write(3, 4, first, "a", refused), write(5, 6, first, "b", accepted),
		}, []string{"b"}, false, true},
		{"two members get one token", []porcupine.Operation{
			mint(0, 1, first), mint(2, 3, first),
		}, nil, false, true},
		{"a later mint gets the older token", []porcupine.Operation{
			mint(0, 1, second), mint(2, 3, first),
		}, nil, false, true},
		{"a refused record is there", []porcupine.Operation{
			mint(0, 1, first), mint(2, 3, second), write(4, 5, first, "late", refused),
		}, []string{"late"}, true, false},
		{"an accepted record is not there", []porcupine.Operation{
			mint(0, 1, first), write(2, 3, first, "a", accepted),
		}, nil, true, false},
		{"a record is there twice", []porcupine.Operation{
			mint(0, 1, first), write(2, 3, first, "a", accepted),
		}, []string{"a", "a"}, true, false},
		{"records are in another order than their writes", []porcupine.Operation{
			mint(0, 1, first), write(2, 3, first, "a", accepted), write(4, 5, first, "b", accepted),
		}, []string{"b", "a"}, true, false},
	}
	for _, tt := range tests {
		h := &history{ops: tt.ops}
		if err := h.check(); (err == nil) != tt.linearizable {
			t.Errorf("%s: check: %v, want linearizable %v", tt.name, err, tt.linearizable)
		}
		if err := h.compare(tt.log); (err == nil) != tt.fits {
			t.Errorf("%s: compare: %v, want a log that fits %v", tt.name, err, tt.fits)
		}
	}
}

// The same for the register of the simulation, which is read as well.
func TestImpossibleHistoriesOfARegisterAreRejected(t *testing.T) {
	r := role(t, "controller")
	at := func(when int64, kind simOpKind, mint int, value string, outcome simOutcome) porcupine.Operation {
		return porcupine.Operation{Input: simInput{role: r, kind: kind, mint: mint, value: value}, Call: when, Output: outcome, Return: when + 1}
	}
	tests := []struct {
		name string
		ops  []porcupine.Operation
		want bool
	}{
		{"written and read", []porcupine.Operation{
			at(0, simOpMint, 1, "", 0), at(2, simOpWrite, 1, "a", simWritten), at(4, simOpRead, 0, "a", 0), at(6, simOpMint, 2, "", 0), at(8, simOpWrite, 1, "b", simRefused),
		}, true},
		{"a deposed holder writes", []porcupine.Operation{
			at(0, simOpMint, 1, "", 0), at(2, simOpMint, 2, "", 0), at(4, simOpWrite, 1, "late", simWritten),
		}, false},
		{"a refused write is read", []porcupine.Operation{
			at(0, simOpMint, 1, "", 0), at(2, simOpMint, 2, "", 0), at(4, simOpWrite, 1, "late", simRefused), at(6, simOpRead, 0, "late", 0),
		}, false},
		{"an acknowledged write is not read", []porcupine.Operation{
			at(0, simOpMint, 1, "", 0), at(2, simOpWrite, 1, "a", simWritten), at(4, simOpRead, 0, "", 0),
		}, false},
		{"the holder is refused", []porcupine.Operation{
			at(0, simOpMint, 1, "", 0), at(2, simOpWrite, 1, "a", simRefused),
		}, false},
	}
	for _, tt := range tests {
		if got := porcupine.CheckOperations(simModel, tt.ops); got != tt.want {
			t.Errorf("%s: linearizable %v, want %v", tt.name, got, tt.want)
		}
	}
}

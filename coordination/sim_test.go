// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

var (
	simSeeds  = flag.Int("sim.seeds", 10_000, "number of simulated elections")
	simSeed   = flag.Uint64("sim.seed", 0, "simulate this election alone and print what happens")
	simSteady = flag.Bool("sim.steady", false, "simulate elections without faults")
)

// The timings of all simulated elections.
const (
	simLease   = 6 * time.Second
	simRenew   = 2 * time.Second
	simStagger = time.Second
	simPoll    = time.Second
	simFaulty  = 20 * time.Second // how long faults happen
)

// simStops is the note after which all members stop at one instant, and so in
// no order.
const simStops = "all members stop"

// simFaults are the chances that something happens to one request.
type simFaults struct {
	network float64 // it is lost, slow, unheard or refused for the moment
	givesUp float64 // the client stops retrying
}

// simWorld is one simulated election in its bubble.
type simWorld struct {
	seed    uint64
	traced  bool
	begin   time.Time
	plan    *rand.Rand
	cluster *simCluster
	check   *simChecker
	roles   []coordination.Role
	at      coordination.TopicPartition
	chances simFaults
	calm    atomic.Bool // the faults are over
	foreign bool        // another program leaves a transaction open, longer than any lease
	over    chan struct{}

	mu        sync.Mutex // guards the fields below
	processes []*simProcess
	guards    map[coordination.Role]*coordination.DeviceGuard
	highest   map[coordination.Role]coordination.FencingToken // of a device that compares tokens
	members   sync.WaitGroup
	stop      context.CancelFunc
	running   context.Context
}

func (w *simWorld) now() time.Duration { return time.Since(w.begin) }

func (w *simWorld) faults() simFaults {
	if w.calm.Load() {
		return simFaults{}
	}
	return w.chances
}

// simResult is what came out of one seed.
type simResult struct {
	problems []string
	regress  int            // stale commands that a device took that compares tokens alone
	met      map[string]int // how often something of note happened
	trace    []string
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64, traced bool) (result simResult) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimWorld(t, seed, traced)
		w.live(t)
		w.check.mu.Lock()
		defer w.check.mu.Unlock()
		result = simResult{w.check.problems, w.check.regress, w.check.met, w.check.trace}
	})
	return result
}

func newSimWorld(t *testing.T, seed uint64, traced bool) *simWorld {
	w := &simWorld{
		seed: seed, traced: traced, begin: time.Now(),
		plan:    rand.New(rand.NewPCG(seed, 0x5eed)),
		at:      coordination.TopicPartition{Topic: coordination.StateTopic},
		over:    make(chan struct{}),
		guards:  make(map[coordination.Role]*coordination.DeviceGuard),
		highest: make(map[coordination.Role]coordination.FencingToken),
	}
	w.running, w.stop = context.WithCancel(context.Background())
	w.check = newSimChecker(w)
	traits := simTraits{
		bumps:       w.plan.IntN(3) == 0,
		maxEpoch:    32766,
		extraBump:   w.plan.IntN(2) == 0,
		markerDelay: time.Duration(w.plan.IntN(50_000_000)),
		abortScan:   time.Second,
	}
	if w.plan.IntN(2) == 0 {
		traits.maxEpoch = int16(1 + w.plan.IntN(8))
	}
	if w.plan.IntN(4) == 0 {
		traits.loading = time.Duration(w.plan.Int64N(int64(2 * simLease)))
	}
	w.cluster = newSimCluster(traits, w.check)
	w.roles = []coordination.Role{role(t, "controller")}
	for n := w.plan.IntN(12); n < 3 && len(w.roles) < 3; n += 2 {
		w.roles = append(w.roles, role(t, []string{"dispatcher", "compactor"}[len(w.roles)-1]))
	}
	for _, r := range w.roles {
		w.guards[r] = deviceGuard(t, new(memoryStore))
		w.highest[r] = coordination.NoEpoch
	}
	w.foreign = seed%8 == 3
	// One seed in eight has no faults at all.
	if w.plan.IntN(8) == 0 || *simSteady {
		w.calm.Store(true)
	} else {
		w.chances = simFaults{network: 0.3 * w.plan.Float64(), givesUp: 0.1 * w.plan.Float64()}
	}
	return w
}

// live runs the election: a time with faults, a time without, the end.
func (w *simWorld) live(t *testing.T) {
	var watching sync.WaitGroup
	watching.Go(w.check.look)
	watching.Go(w.audit)
	steady := w.calm.Load()
	for i := range 2 + min(w.plan.IntN(4), w.plan.IntN(6)) + w.plan.IntN(2) {
		w.start(t, fmt.Sprintf("p%d", i), member(t, fmt.Sprintf("node-%d", i)))
	}
	if w.foreign {
		begins, other := upTo(simFaulty, seedShare(w.seed, 1)), role(t, "foreign")
		time.AfterFunc(begins, func() {
			w.check.note("another program leaves a transaction open")
			w.pin(other, 10*simLease)
		})
	}
	for w.now() < simFaulty {
		<-time.After(time.Duration(1 + w.plan.Int64N(int64(3*time.Second))))
		w.cluster.compact(w.at)
		if !steady {
			w.disturb(t)
		}
	}
	w.calm.Store(true)
	w.cluster.restart(0)
	candidates, skewed := 0, 0
	for _, p := range w.all() {
		p.resume()
		p.isolate(0)
		if running, _ := p.state(); running {
			candidates++
			if p.offset.Load() != 0 {
				skewed = 1
			}
		}
	}
	// A member takes the first lease it sees for expired if the clocks say so.
	mints := candidates * (2 + skewed)
	w.settle(mints*len(w.roles), steady)

	w.check.note(simStops)
	w.stop()
	w.members.Wait()
	synctest.Wait()
	w.check.inspect()
	w.check.linearizable()
	for _, p := range w.all() {
		w.check.registrations(p, p.id, p.registers)
	}
	close(w.over)
	watching.Wait()
	// What is under way arrives, and every goroutine ends: the bubble reports
	// one that does not.
	<-time.After(time.Minute)
}

func (w *simWorld) all() []*simProcess {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.processes)
}

// start runs a process with one member for every role.
func (w *simWorld) start(t *testing.T, name string, id coordination.MemberID) {
	p := newSimProcess(w, name, id)
	w.mu.Lock()
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	if !w.calm.Load() && w.plan.IntN(3) == 0 {
		p.step(time.Duration(w.plan.Int64N(int64(4*simLease))) - 2*simLease)
	}
	for _, r := range w.roles {
		m := newSimMember(w, p, r)
		w.members.Go(func() {
			done := make(chan struct{})
			go func() {
				defer close(done)
				m.live()
			}()
			select {
			case <-done:
			case <-p.died:
			}
		})
	}
}

// disturb makes one fault happen.
func (w *simWorld) disturb(t *testing.T) {
	var alive []*simProcess
	for _, p := range w.all() {
		if running, _ := p.state(); running {
			alive = append(alive, p)
		}
	}
	if len(alive) == 0 {
		return
	}
	if w.cluster.traits.maxEpoch < 10 && w.plan.IntN(2) == 0 {
		w.cluster.move() // so that producer ids rotate to smaller ones
	}
	p := alive[w.plan.IntN(len(alive))]
	r := w.roles[w.plan.IntN(len(w.roles))]
	extent := time.Duration(w.plan.Int64N(int64(2 * simLease)))
	switch fault := w.plan.IntN(13); fault {
	case 0, 1:
		extent *= time.Duration(1 + fault)
		w.check.note("%s is paused for %v", p.name, extent)
		if extent > simLease && w.check.holds(p) {
			w.check.meet(metPause)
		}
		p.pause()
		time.AfterFunc(extent, p.resume)
	case 2:
		w.check.note("%s dies", p.name)
		p.kill()
		id, what := p.id, metRestart
		if w.plan.IntN(2) == 0 {
			id, what = member(t, id.String()+"-new"), metReplacement
		}
		w.check.meet(what)
		w.start(t, p.name+"'", id)
	case 3:
		w.check.note("%s is cut off for %v", p.name, extent)
		w.check.meet(metCut)
		p.isolate(w.now() + extent)
	case 4, 5:
		if fault == 5 {
			extent = time.Duration(w.plan.Int64N(int64(2 * time.Hour)))
		}
		by := extent - []time.Duration{simLease, time.Hour}[fault-4]
		w.check.note("the clock of %s steps by %v", p.name, by)
		if by < 0 {
			w.check.meet(metClockBack)
		} else {
			w.check.meet(metClockAhead)
		}
		p.step(by)
	case 6:
		w.check.note("the coordinator moves")
		w.check.meet(metCoordinator)
		w.cluster.move()
	case 7:
		w.check.note("an operator removes %s from %s", p.id, r)
		if w.check.holds(p) {
			w.check.meet(metRemovedHolder)
		}
		w.check.deregistered(p.id)
		w.cluster.appendPlain(w.at, coordination.EncodeKey(coordination.RegistrationKey(r, p.id)), nil)
	case 8:
		w.check.note("a transaction of another role stays open for %v", extent/2)
		w.check.meet(metOpenOther)
		w.pin(role(t, "other"), extent/2)
	case 9:
		w.check.note("the brokers restart, for %v", extent/3)
		w.check.meet(metBrokers)
		w.cluster.restart(w.now() + extent/3)
	case 10:
		w.check.note("an operator mints an epoch of %s", r)
		w.check.meet(metOperator)
		if _, _, err := w.cluster.mint(r, simLease); err != nil {
			w.check.note("which is refused")
		}
	case 11:
		w.check.note("the id of %s expires", r)
		w.cluster.forget(r)
	case 12:
		w.check.note("the brokers are upgraded")
		w.check.meet(metUpgrade)
		w.cluster.upgrade()
	}
}

// seedShare returns a number in [0, 1) that no other choice of a seed depends
// on.
func seedShare(seed, choice uint64) float64 { return rand.New(rand.NewPCG(seed, choice)).Float64() }

// pin leaves a transaction open on the coordination partition.
func (w *simWorld) pin(other coordination.Role, extent time.Duration) {
	token, _, err := w.cluster.mint(other, extent)
	if err != nil {
		return // the one before still completes
	}
	if err := w.cluster.add(other, token, w.at); err != nil {
		return
	}
	if _, err := w.cluster.produce(other, token, w.at, 1, coordination.EncodeKey(coordination.LeaseKey(other)), nil); err != nil {
		w.check.wrong(invHarness, "the other role: %v", err)
	}
}

// settle waits until every role has a holder that keeps it for the length of a
// lease. It does not take longer than the rules say, nor more mints.
func (w *simWorld) settle(limit int, steady bool) {
	roster := len(w.all())
	bound := simLease + time.Duration(roster)*simStagger + 2*simPoll + w.cluster.traits.abortScan
	bound += simLease // a transaction of another role that is still open
	bound += simLease // a call that hangs, or the pause of a runner after a failure
	bound += simLease // and the time to show that the holder stays
	began, mints := w.now(), w.check.mintsSoFar()
	for since := began; w.now() < since+simLease; {
		<-time.After(250 * time.Millisecond)
		if !w.check.led() || w.check.mintsSoFar() != mints {
			since, mints = w.now(), w.check.mintsSoFar()
		}
		if w.now() > began+bound {
			w.check.wrong(invLiveness, "no lasting leader %v after the last fault", bound)
			return
		}
	}
	if quiet := w.check.mintsSince(began); quiet > limit {
		w.check.wrong(invLiveness, "%d mints after the last fault, at most %d are due", quiet, limit)
	}
	if late := w.check.mintsSince(w.cluster.traits.loading + 5*time.Second); steady && late > 0 {
		w.check.wrong(invCalm, "%d mints beside a holder that renews", late)
	}
}

// audit watches from outside: it reads the guarded register, and it asks the
// coordinator about tokens.
func (w *simWorld) audit() {
	p := newSimProcess(w, "auditor", coordination.MemberID{})
	random := rand.New(rand.NewPCG(w.seed, 0xa0d17))
	for {
		select {
		case <-time.After(time.Duration(100+random.IntN(1000)) * time.Millisecond):
		case <-w.over:
			return
		}
		for _, r := range w.roles {
			records, complete := w.cluster.read(simRegisterOf(r))
			if complete {
				value := ""
				if len(records) > 0 {
					value = string(records[len(records)-1].Value)
				}
				w.check.read(r, value)
			}
		}
		_, _ = p.ReadPartition(w.running, w.at) // the checker looks at what it returns
		h := w.check.anyHandle(random)
		if h == nil {
			continue
		}
		token, from := h.Token(), w.now()
		status, err := coordination.DescribeLeadership(w.running, p, h.Role())
		if err == nil && status.Authoritative(token) {
			w.check.described(h.Role(), token, from, w.now())
		}
	}
}

func simRegisterOf(r coordination.Role) coordination.TopicPartition {
	return coordination.TopicPartition{Topic: "commands-" + r.String()}
}

func TestSimulatedElections(t *testing.T) {
	if *simSeed != 0 {
		result := simulate(t, *simSeed, true)
		t.Log("\n" + strings.Join(result.trace, "\n"))
		for _, problem := range result.problems {
			t.Error(problem)
		}
		return
	}
	seeds := int64(*simSeeds)
	if raceEnabled {
		seeds /= 100
	}
	if testing.Short() {
		seeds /= 20
	}
	// A machine that is busy runs as many as it can.
	enough := time.Now().Add(24 * time.Hour)
	if deadline, ok := t.Deadline(); ok {
		enough = time.Now().Add(time.Until(deadline) / 2)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var next, run, regress atomic.Int64
	var all sync.WaitGroup
	var mu sync.Mutex // guards met
	met := make(map[string]int)
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for seed := next.Add(1); seed <= seeds && !t.Failed() && time.Now().Before(enough); seed = next.Add(1) {
				result := simulate(t, uint64(seed), false)
				run.Add(1)
				regress.Add(int64(result.regress))
				mu.Lock()
				for what, times := range result.met {
					met[what] += times
				}
				mu.Unlock()
				if len(result.problems) > 0 {
					t.Errorf("seed %d (go test -run '^TestSimulatedElections$' -sim.seed %[1]d):\n%s", seed, strings.Join(result.problems, "\n"))
				}
			}
		})
	}
	all.Wait()
	// The harness bites: a device that compares tokens takes stale commands.
	if regress.Load() == 0 && run.Load() >= 5000 {
		t.Error("no device that compares tokens was misled, so the simulation rotates no producer id to a smaller one")
	}
	if run.Load() >= simEnough && !*simSteady {
		for _, what := range simMet {
			if met[what] == 0 {
				t.Errorf("in %d elections it never happened that %s", run.Load(), what)
			}
		}
	}
	t.Logf("%d of %d elections, %d stale commands taken by devices that compare tokens", run.Load(), seeds, regress.Load())
}

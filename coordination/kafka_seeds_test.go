// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

var stackSeeds = flag.Int("stack.seeds", 40, "number of elections with the whole stack in a bubble")

// The timings of the elections with the whole stack.
const (
	stackLease  = 6 * time.Second
	stackRenew  = 2 * time.Second
	stackFaulty = time.Minute // how long faults happen
)

// crowd are members of one role, each with a transport and a network of its
// own, on one fake cluster in one bubble.
type crowd struct {
	*stage
	random     *rand.Rand
	role       coordination.Role
	topic      string
	commands   string
	networks   []*lossy
	transports []*coordination.KafkaTransport
	outsider   *coordination.KafkaTransport // of nobody that competes

	mu     sync.Mutex // guards the fields below
	terms  []*coordination.Leadership
	writes map[string]answer
}

// join starts a member.
func (c *crowd) join(ctx context.Context, t *testing.T, all *sync.WaitGroup, n int) {
	network := newLossy()
	lease := leaseConfig(t, stackLease, stackRenew, time.Second)
	transport := network.over(c.stage).transport(t, lease)
	c.networks, c.transports = append(c.networks, network), append(c.transports, transport)
	id, random := member(t, fmt.Sprintf("node-%d", n)), rand.New(rand.NewPCG(c.random.Uint64(), 1))
	callbacks := coordination.Callbacks{OnAcquired: func(ctx context.Context, l *coordination.Leadership) error {
		c.work(ctx, t, l, random)
		return nil
	}}
	all.Go(func() {
		for ctx.Err() == nil {
			// An error of Run is that of a resignation without an answer.
			err := coordination.Run(ctx, transport, c.role, id, callbacks, coordination.WithTopic(c.topic),
				coordination.WithPartitions(1), coordination.WithLeaseConfig(lease))
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", id, err)
			}
			pauseFor(ctx, random, time.Second)
		}
	})
}

// work writes numbered commands until the term is over, and resigns at times.
func (c *crowd) work(ctx context.Context, t *testing.T, l *coordination.Leadership, random *rand.Rand) {
	guard, err := l.Guard()
	if err != nil {
		t.Error(err)
		return
	}
	c.mu.Lock()
	c.terms = append(c.terms, l)
	c.mu.Unlock()
	for n := 0; ctx.Err() == nil; n++ {
		pauseFor(ctx, random, 800*time.Millisecond)
		if random.IntN(40) == 0 {
			return
		}
		value := fmt.Sprintf("%d/%d", l.Sequence(), n)
		call, cancel := ctx, context.CancelFunc(func() {})
		if random.IntN(8) == 0 {
			call, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(int(100*time.Millisecond))))
		}
		err := guard.Write(call, coordination.GuardedRecord{Topic: c.commands, Value: []byte(value)})
		cancel()
		if errors.Is(err, coordination.ErrFenced) && l.Err() == nil {
			t.Errorf("a fenced write leaves its leadership alive: %v", err)
		}
		c.mu.Lock()
		c.writes[value] = commandOutcome(err)
		c.mu.Unlock()
	}
}

func commandOutcome(err error) answer {
	switch {
	case err == nil:
		return accepted
	case errors.Is(err, coordination.ErrOutcomeUnknown):
		return open
	}
	return refused
}

func pauseFor(ctx context.Context, random *rand.Rand, most time.Duration) {
	timer := time.NewTimer(time.Duration(1 + random.Int64N(int64(most))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// disturb makes one fault happen.
func (c *crowd) disturb(t *testing.T) {
	network := c.networks[c.random.IntN(len(c.networks))]
	keys := []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.EndTxn, kmsg.InitProducerID, kmsg.Fetch, kmsg.DescribeTransactions, kmsg.FindCoordinator}
	switch c.random.IntN(9) {
	case 0, 1, 2:
		network.lose(keys[c.random.IntN(len(keys))], c.random.IntN(3), c.random.IntN(3))
	case 3:
		network.cut()
		time.AfterFunc(time.Duration(c.random.Int64N(int64(2*stackLease))), network.mend)
	case 4:
		c.fake.ShufflePartitionLeaders()
	case 5:
		c.fake.RehashCoordinators()
	case 6:
		c.fake.Compact()
	case 7:
		key := keys[c.random.IntN(3)]
		codes := []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.UnknownServerError}
		if key == kmsg.Produce {
			codes = []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut}
		}
		c.fake.Fault(kfake.Fault{
			Keys: []kmsg.Key{key}, Err: codes[c.random.IntN(len(codes))], Count: 1 + c.random.IntN(4), TopLevel: key == kmsg.EndTxn,
		})
	case 8: // somebody takes the role and does nothing with it
		mintOnly(t, c.outsider, c.role, c.topic)
	}
}

// holders returns the terms that go on.
func (c *crowd) holders() []*coordination.Leadership {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.terms), func(l *coordination.Leadership) bool { return l.Err() != nil })
}

// settle waits for one holder that stays for the length of a lease.
func (c *crowd) settle(t *testing.T) {
	bound := 4*stackLease + time.Duration(len(c.transports))*time.Second
	began, since := time.Now(), time.Now()
	var holder *coordination.Leadership
	for time.Since(since) < stackLease {
		time.Sleep(100 * time.Millisecond)
		if now := c.holders(); len(now) != 1 || now[0] != holder {
			since, holder = time.Now(), nil
			if len(now) == 1 {
				holder = now[0]
			}
		}
		if time.Since(began) > bound {
			t.Errorf("no lasting leader %v after the last fault", bound)
			return
		}
	}
	if got := c.describe(t, c.role); got != holder.Token() {
		t.Errorf("the coordinator holds %s, the leader %s", got, holder.Token())
	}
}

// check holds what is in the logs against what the members saw.
func (c *crowd) check(t *testing.T) {
	slices.SortFunc(c.terms, func(x, y *coordination.Leadership) int { return cmp.Compare(x.Sequence(), y.Sequence()) })
	for i, l := range c.terms {
		if i > 0 && c.terms[i-1].Sequence() == l.Sequence() {
			t.Errorf("two terms with sequence %d", l.Sequence())
		}
		if i > 0 && !l.MintedToken().Supersedes(c.terms[i-1].Token()) {
			t.Errorf("token %s of sequence %d follows token %s", l.MintedToken(), l.Sequence(), c.terms[i-1].Token())
		}
		select {
		case <-l.Done():
			if l.Err() == nil {
				t.Errorf("term %d is done without a reason", l.Sequence())
			}
		default:
			t.Errorf("term %d goes on after the end of its member", l.Sequence())
		}
	}
	last, seen := int64(-1), make(map[string]bool)
	for _, value := range c.visible(t, c.commands, 0) {
		var sequence, n int64
		if _, err := fmt.Sscanf(value, "%d/%d", &sequence, &n); err != nil {
			t.Fatal(err)
		}
		if sequence < last {
			t.Errorf("command %s commits behind one of term %d", value, last)
		}
		last = sequence
		if seen[value] || c.writes[value] == refused {
			t.Errorf("command %s: there before %t, refused %t", value, seen[value], c.writes[value] == refused)
		}
		seen[value] = true
	}
	for value, result := range c.writes {
		if result == accepted && !seen[value] {
			t.Errorf("command %s was accepted and is not there", value)
		}
	}
	if len(seen) == 0 {
		t.Error("nothing was written")
	}
}

// compareReads checks that what a transport read bit by bit is what another
// one reads at once.
func (c *crowd) compareReads(t *testing.T) {
	fold := func(transport *coordination.KafkaTransport) string {
		state, err := coordination.DescribeRoleState(within(t, patience), transport, c.role, coordination.WithTopic(c.topic), coordination.WithPartitions(1))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(names(state), " ")
		if state.Lease != nil {
			text += fmt.Sprintf(", lease %x", coordination.EncodeLease(*state.Lease))
		}
		return text
	}
	fresh := c.transport(t, leaseConfig(t, stackLease, stackRenew, time.Second))
	want := fold(fresh)
	for n, transport := range c.transports {
		if got := fold(transport); got != want {
			t.Errorf("node-%d reads %s, a fresh reader %s", n, got, want)
		}
	}
	c.transports = append(c.transports, fresh)
}

// stackElection runs one seed, and counts its terms and what became of its
// writes.
func stackElection(t *testing.T, seed uint64, met map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{
			stage: virtualStage(t, kfake.Ports(9092, 9093, 9094)), random: rand.New(rand.NewPCG(seed, 0x57ac)),
			role: role(t, "controller"), commands: unique("commands"), writes: make(map[string]answer),
		}
		c.topic = c.compacted(t, 1)
		c.create(t, c.commands, 1)
		c.outsider = c.transport(t, leaseConfig(t, stackLease, stackRenew, time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for n := range 2 + c.random.IntN(3) {
			c.join(ctx, t, &all, n)
		}
		for began := time.Now(); time.Since(began) < stackFaulty; {
			time.Sleep(time.Duration(1 + c.random.Int64N(int64(4*time.Second))))
			c.disturb(t)
		}
		for _, network := range c.networks {
			network.mend()
			network.calm()
		}
		time.Sleep(2 * stackLease) // the last cut ends
		for _, network := range c.networks {
			network.mend()
		}
		c.settle(t)
		cancel()
		all.Wait()
		c.check(t)
		c.compareReads(t)
		met["terms"] += len(c.terms)
		for _, l := range c.terms {
			met[endOf(l.Err())]++
		}
		for _, result := range c.writes {
			met[[]string{accepted: "accepted writes", refused: "refused writes", open: "open writes"}[result]]++
		}
		c.stop(append(c.transports, c.outsider)...)
	})
}

// Members, transports, clients, network and cluster on fake time, with faults
// that a seed decides on.
func TestElectionsWithTheWholeStack(t *testing.T) {
	seeds := *stackSeeds
	if raceEnabled {
		seeds /= 10
	}
	met := make(map[string]int)
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) { stackElection(t, seed+1, met) })
	}
	for _, what := range []string{"terms", metFenced, metExpired, metResigned, "accepted writes", "refused writes", "open writes"} {
		if met[what] == 0 && seeds >= 40 {
			t.Errorf("in %d elections there are no %s", seeds, what)
		}
	}
	t.Logf("%d elections: %v", seeds, met)
}

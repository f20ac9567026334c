// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// The tests of this file are about mints that wait, and that are not due any
// more when their time comes.

// asked is what a transport is seen to do around a mint: the names of the
// requests that it sends for it, and its questions whether the mint is still
// due. A client asks for metadata when it likes.
type asked struct {
	mu     sync.Mutex // guards the fields below
	events []string
	agree  int // questions that are answered with yes
}

const (
	asksWhether = "is it due?"
	sendsMint   = "InitProducerID"
)

var errLate = errors.New("not due any more")

var _ kgo.HookBrokerWrite = (*asked)(nil)

func (a *asked) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if kmsg.Key(key) == kmsg.Metadata {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, kmsg.NameForKey(key))
}

// still answers whether a mint is due.
func (a *asked) still(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, asksWhether)
	if a.agree == 0 {
		return errLate
	}
	a.agree--
	return nil
}

// check expects a number of requests to mint, each right after a question, and
// a question without one if the last answer was no.
func (a *asked) check(t *testing.T, mints int, refused bool) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	questions, requests := 0, 0
	for i, event := range a.events {
		switch event {
		case asksWhether:
			questions++
		case sendsMint:
			requests++
			if a.events[i-1] != asksWhether {
				t.Errorf("a request to mint follows %s: %q", a.events[i-1], a.events)
			}
		}
	}
	want := []int{mints, mints}
	if refused {
		want[0]++
	}
	if diff := cmp.Diff(want, []int{questions, requests}); diff != "" {
		t.Errorf("questions and requests to mint mismatch (-want +got):\n%s\n%q", diff, a.events)
	}
}

// Whatever made a mint wait, the transport asks right before each request
// whether it is still due, and sends none after it is not.
func TestMintAsksRightBeforeEachRequest(t *testing.T) {
	tests := map[string]func(s *stage, network *lossy){
		"a coordinator that loads": func(s *stage, _ *lossy) {
			s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.CoordinatorLoadInProgress, Count: 3, TopLevel: true})
		},
		"a coordinator that moved": func(s *stage, _ *lossy) {
			s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.NotCoordinator, Count: 3, TopLevel: true})
		},
		"a transaction that ends": func(s *stage, _ *lossy) {
			s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.ConcurrentTransactions, Count: 3, TopLevel: true})
		},
		"requests that are lost": func(_ *stage, network *lossy) { network.lose(kmsg.InitProducerID, 3, 0) },
		"answers that are lost":  func(_ *stage, network *lossy) { network.lose(kmsg.InitProducerID, 0, 3) },
	}
	for name, trouble := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, network, a := fakeStage(t), newLossy(), &asked{agree: 3}
			trouble(s, network)
			transport := network.over(s).transport(t, standardConfig(t), reporting(a))
			r := role(t, "controller")
			minted, err := transport.AcquireEpochWhile(within(t, patience), r, a.still)
			if minted != coordination.NoEpoch || err != errLate {
				t.Errorf("a mint that is not due any more: %s, %v; want the error that says so", minted, err)
			}
			a.check(t, 3, true)
			a.agree = 1
			if _, err := transport.AcquireEpochWhile(within(t, patience), r, a.still); err != nil {
				t.Error(err)
			}
			a.check(t, 4, true)
		})
	}
}

func TestMintAsksNothingWhileItWaitsForItsTurn(t *testing.T) {
	s, network := fakeStage(t), newLossy()
	transport, r := network.over(s).transport(t, standardConfig(t)), role(t, "controller")
	fault := s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.CoordinatorLoadInProgress, Count: -1, TopLevel: true})
	first := make(chan error, 1)
	go func() {
		_, err := transport.AcquireEpoch(within(t, patience), r)
		first <- err
	}()
	if err := fault.Wait(within(t, patience), 1); err != nil {
		t.Fatal(err)
	}
	second, question := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		_, err := transport.AcquireEpochWhile(within(t, patience), r, func(context.Context) error {
			question <- struct{}{}
			return errLate
		})
		second <- err
	}()
	if err := fault.Wait(within(t, patience), 4); err != nil {
		t.Fatal(err)
	}
	select {
	case <-question:
		t.Error("a mint was asked about before its turn")
	default:
	}
	fault.Remove()
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-second; err != errLate {
		t.Errorf("the mint that waited: %v, want the error that says that it is late", err)
	}
	if got := s.describe(t, r).ProducerEpoch(); got != 0 {
		t.Errorf("the coordinator holds epoch %d, want 0 of the only mint", got)
	}
}

// The coordinator of a new cluster is not ready at first, and all candidates
// wait for it. Once it is, one of them leads, and no other deposes it.
func TestCandidatesOfANewClusterElectOneLeader(t *testing.T) {
	for name, shared := range map[string]bool{"over one transport": true, "over a transport each": false} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { newCluster(t, shared) }) })
	}
}

func newCluster(t *testing.T, shared bool) {
	const candidates = 7
	s := virtualStage(t)
	topic, r := s.compacted(t, 1), role(t, "controller")
	fault := s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.CoordinatorLoadInProgress, Count: -1, TopLevel: true})
	if shared { // the first lease takes its time, in which the others are to wait
		s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.AddPartitionsToTxn}, Err: kerr.ConcurrentTransactions, Count: 4})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var leaders []string
	var running sync.WaitGroup
	var all []*coordination.KafkaTransport
	for n := range candidates {
		if n == 0 || !shared {
			all = append(all, s.transport(t, coordination.DefaultLeaseConfig()))
		}
		name, transport := fmt.Sprint("node-", n), all[len(all)-1]
		running.Go(func() {
			err := coordination.Run(ctx, transport, r, member(t, name), coordination.Callbacks{
				OnAcquired: func(ctx context.Context, _ *coordination.Leadership) error {
					mu.Lock()
					leaders = append(leaders, name)
					mu.Unlock()
					<-ctx.Done()
					return nil
				},
			}, coordination.WithTopic(topic), coordination.WithPartitions(1))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	time.Sleep(candidates * coordination.DefaultChallengeStagger) // it is the turn of all of them
	fault.Remove()
	time.Sleep(time.Second)
	mu.Lock()
	if len(leaders) == 0 {
		t.Error("nobody leads a second after the coordinator was ready")
	}
	mu.Unlock()
	time.Sleep(time.Minute)
	mu.Lock()
	if len(leaders) != 1 {
		t.Errorf("%q led, want one of them", leaders)
	}
	mu.Unlock()
	if got := s.describe(t, r).ProducerEpoch(); got != 0 {
		t.Errorf("the coordinator holds epoch %d, want 0 of the only mint", got)
	}
	cancel()
	running.Wait()
	s.stop(all...)
}

// A coordinator that minted nothing is asked again before long.
func TestMintGoesOnSoonAfterTheCoordinatorIsReady(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions} {
		t.Run(code.Message, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := virtualStage(t)
				transport := s.transport(t, standardConfig(t))
				fault := s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: code, Count: -1, TopLevel: true})
				ready := make(chan time.Time, 1)
				time.AfterFunc(time.Minute, func() {
					fault.Remove()
					ready <- time.Now()
				})
				if _, err := transport.AcquireEpoch(t.Context(), role(t, "controller")); err != nil {
					t.Fatal(err)
				}
				if late := time.Since(<-ready); late > time.Second {
					t.Errorf("the mint went on %v after the coordinator was ready, want a second at most", late)
				}
				s.stop(transport)
			})
		})
	}
}

// A read that fails while a mint is held back ends the acquisition with its own
// error, which says whether another attempt helps.
func TestFailedLookBeforeAMintIsItsOwnError(t *testing.T) {
	s := fakeStage(t)
	topic, r := s.compacted(t, 1), role(t, "controller")
	transport := s.transport(t, standardConfig(t))
	s.fake.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		answer := kmsg.NewPtrInitProducerIDResponse()
		answer.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		return answer, nil, true
	})
	_, err := coordination.AcquireLeadership(within(t, patience), transport, r, member(t, "node-1"), coordination.WithTopic(topic), coordination.WithPartitions(1))
	var denied *coordination.AuthorizationError
	var failed *coordination.KafkaError
	if !errors.As(err, &denied) || errors.As(err, &failed) {
		t.Errorf("acquisition: %v, want the AuthorizationError of the read alone", err)
	}
}

// A member looks at the role again before a mint that waited, also over a
// transport that tells of the wait and nothing else.
func TestMintThatIsNotDueAnyMoreIsNoFence(t *testing.T) {
	f := newFixture(t, 30000)
	f.register(f.at, f.role, member(t, "node-1"), 100)
	f.register(f.at, f.role, member(t, "node-2"), 200)
	f.grant(f.at, f.role, member(t, "node-1"), 0, 30000)
	held := &heldBack{full: newFull(), at: f.at, holder: member(t, "node-1")}
	held.fake = f.fake
	var mu sync.Mutex
	var events []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting := f.competeOn(ctx, t, held, "node-2", coordination.WithObserver(coordination.Observer{
		Called: func(event coordination.CallEvent) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, string(event.Operation))
		},
		BackedOff: func(coordination.BackoffEvent) { t.Error("a mint that was not due counts as a fence") },
	}))
	if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if slices.Contains(events, string(coordination.OperationMint)) || len(events) != 3 {
		t.Errorf("calls %q, want three reads and no mint", events)
	}
	mu.Unlock()
	if f.count("mint") != 0 {
		t.Errorf("%d mints, want none", f.count("mint"))
	}
	cancel()
	receive(t, waiting)
}

// heldBack is a transport whose mints wait until the holder has renewed.
type heldBack struct {
	*full
	at     coordination.TopicPartition
	holder coordination.MemberID
}

func (h *heldBack) AcquireEpochWhile(ctx context.Context, role coordination.Role, still func(context.Context) error) (coordination.FencingToken, error) {
	h.put(h.at, coordination.EncodeKey(coordination.LeaseKey(role)), coordination.EncodeLease(coordination.Lease{
		Member: h.holder, Token: h.epochs[role], GrantedAt: 30000, Deadline: 60000,
	}))
	if err := still(ctx); err != nil {
		return coordination.NoEpoch, fmt.Errorf("held back: %w", err)
	}
	return h.AcquireEpoch(ctx, role)
}

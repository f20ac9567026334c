// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// The version of the request that ends a transaction of a lease.
const pinnedEnd = 4

// advance moves the epoch of a role on at the coordinator, as a client does
// that recovers its producer. The fake does so without a look at who asks.
func (s *stage) advance(tb testing.TB, client *kgo.Client, r coordination.Role) {
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{r.String()}
	states, err := describe.RequestWith(context.Background(), client)
	if err != nil {
		tb.Errorf("advance: %v", err)
		return
	}
	id := r.String()
	ask := kmsg.NewPtrInitProducerIDRequest()
	ask.TransactionalID = &id
	ask.TransactionTimeoutMillis = 60_000
	ask.ProducerID, ask.ProducerEpoch = states.TransactionStates[0].ProducerID, states.TransactionStates[0].ProducerEpoch
	answer, err := ask.RequestWith(context.Background(), client)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if err != nil {
		tb.Errorf("advance: %v", err)
	}
}

// advancing makes a cluster move the epoch with every transaction, whatever
// the version of the request, and without telling.
func advancing(t *testing.T, r coordination.Role, opts ...kfake.Opt) (*stage, *lossy) {
	t.Helper()
	plain, network := fakeStage(t, opts...), newLossy()
	client := plain.client(t)
	network.interpose(kmsg.EndTxn, pinnedEnd, func() { plain.advance(t, client, r) })
	return network.over(plain), network
}

func TestKafkaTransportTracksAnEpochThatMoves(t *testing.T) {
	t.Run("by a mint", func(t *testing.T) {
		r := role(t, "controller")
		s, _ := advancing(t, r)
		tracks(t, s, r, 2)
	})
	t.Run("by the end of a transaction", func(t *testing.T) {
		tracks(t, movingBrokers{}.under(fakeStage(t)), role(t, "controller"), 2)
	})
	t.Run("and the marker shows it", func(t *testing.T) {
		tracks(t, movingBrokers{marked: true}.under(fakeStage(t)), role(t, "controller"), 1)
	})
}

// tracks lets a transport follow the epoch of a role that moves with every
// transaction. It finds that out at the price of some mints.
func tracks(t *testing.T, s *stage, r coordination.Role, mints int) {
	topic := s.compacted(t, 1)
	s.ready(t, r)
	var requests wire
	var mu sync.Mutex
	var told []string
	transport := s.transport(t, standardConfig(t), reporting(&requests), func(options *coordination.KafkaOptions) {
		options.Hooks.Tracking = func(role coordination.Role, _ coordination.FencingToken) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, role.String())
		}
	})
	l := acquire(t, transport, r, "node-1", topic)
	guard, err := l.Guard()
	if err != nil {
		t.Fatal(err)
	}
	minted := l.MintedToken()
	tokens := []coordination.FencingToken{minted, l.Token()}
	for n := range 5 {
		if n%2 == 0 {
			err = l.Renew(within(t, patience))
		} else {
			err = guard.Write(within(t, patience), coordination.GuardedRecord{Topic: topic, Key: []byte("command"), Value: []byte(fmt.Sprint(n))})
		}
		if err != nil {
			t.Fatalf("write %d: %v", n, err)
		}
		tokens = append(tokens, l.Token())
		status, err := coordination.DescribeLeadership(within(t, patience), transport, r)
		if err != nil {
			t.Fatal(err)
		}
		if !status.Authoritative(l.Token()) || l.MintedToken() != minted {
			t.Errorf("after write %d: token %s, minted %s, the coordinator holds %s", n, l.Token(), l.MintedToken(), status.Token)
		}
	}
	if !slices.IsSortedFunc(tokens, coordination.FencingToken.Compare) || len(slices.Compact(slices.Clone(tokens))) != len(tokens) {
		t.Errorf("tokens %v, want them to grow strictly", tokens)
	}
	if got := requests.of(kmsg.InitProducerID); got != mints {
		t.Errorf("%d InitProducerId requests, want %d", got, mints)
	}
	if got := transport.Mode(); got != coordination.EpochModeTracking {
		t.Errorf("mode = %s, want %s", got, coordination.EpochModeTracking)
	}
	mu.Lock()
	if diff := cmp.Diff([]string{r.String()}, told); diff != "" {
		t.Errorf("roles that the hook was told mismatch (-want +got):\n%s", diff)
	}
	mu.Unlock()
	// Any token of the term will do for a write, and another mint ends it.
	if err := transport.WriteLease(within(t, patience), at(topic, 0), minted, []byte("lease"), []byte("by the minted token")); err != nil {
		t.Errorf("write under the minted token: %v", err)
	}
	if _, err := s.transport(t, standardConfig(t)).AcquireEpoch(within(t, patience), r); err != nil {
		t.Fatal(err)
	}
	if err := guard.Write(within(t, patience), coordination.GuardedRecord{Topic: topic, Key: []byte("command"), Value: []byte("late")}); !errors.Is(err, coordination.ErrFenced) {
		t.Errorf("late write: %v, want ErrFenced", err)
	}
}

func TestKafkaTransportStartsNewTermsInTheModeItFound(t *testing.T) {
	r := role(t, "controller")
	s, network := advancing(t, r)
	topic := s.compacted(t, 1)
	transport := s.transport(t, standardConfig(t))
	first := acquire(t, transport, r, "node-1", topic)
	if err := first.Resign(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	network.interpose(kmsg.EndTxn, pinnedEnd, func() { t.Error("a transaction of the second term ended in the pinned version") })
	second := acquire(t, transport, r, "node-1", topic)
	if got := s.describe(t, r); got != second.Token() {
		t.Errorf("the coordinator holds %s, want %s", got, second.Token())
	}
}

func TestKafkaTransportFollowsALostAnswerOnlyOnEvidence(t *testing.T) {
	tests := []struct {
		name    string
		arrives bool
		other   func(t *testing.T, other *coordination.KafkaTransport, r coordination.Role, topic string)
		tells   bool // the coordinator answers the next commit with the pair it holds, whoever asks
		fenced  bool
	}{
		{name: "the answer was lost", arrives: true},
		{name: "the request was lost and the pair of another member is the answer", fenced: true, other: mintOnly, tells: true},
		{name: "the request was lost"},
		{name: "the request was lost and another member minted", fenced: true, other: mintOnly},
		{name: "the request was lost and another member leads", fenced: true, other: mintAndWrite},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := role(t, "controller")
			s, network := advancing(t, r)
			topic := s.compacted(t, 1)
			stop := &cancelOn{key: kmsg.EndTxn}
			transport := s.transport(t, standardConfig(t), func(options *coordination.KafkaOptions) {
				options.ClientOptions = append(options.ClientOptions[:len(options.ClientOptions):len(options.ClientOptions)], kgo.WithHooks(stop))
			})
			minted := tracked(t, transport, r, topic)
			if err := transport.WriteLease(within(t, patience), at(topic, 0), minted, []byte("lease"), []byte("first")); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(within(t, patience))
			stop.arm(cancel)
			if tt.arrives {
				network.lose(kmsg.EndTxn, 0, 1)
			} else {
				network.lose(kmsg.EndTxn, 1, 0)
			}
			if err := transport.WriteLease(ctx, at(topic, 0), minted, []byte("lease"), []byte("second")); !errors.Is(err, context.Canceled) {
				t.Fatalf("a cancelled write: %v", err)
			}
			if tt.other != nil {
				tt.other(t, s.transport(t, standardConfig(t)), r, topic)
			}
			if tt.tells {
				pair := s.describe(t, r)
				s.fake.ControlKey(int16(kmsg.EndTxn), func(ask kmsg.Request) (kmsg.Response, error, bool) {
					answer := ask.ResponseKind().(*kmsg.EndTxnResponse)
					answer.ProducerID, answer.ProducerEpoch = pair.ProducerID(), pair.ProducerEpoch()
					return answer, nil, true
				})
			}
			err := transport.WriteLease(within(t, patience), at(topic, 0), minted, []byte("lease"), []byte("third"))
			if errors.Is(err, coordination.ErrFenced) != tt.fenced || !tt.fenced && err != nil {
				t.Fatalf("the next write: %v, want fenced %v", err, tt.fenced)
			}
			if tt.fenced {
				return
			}
			if diff := cmp.Diff([]string{"probe", "first", "second", "third"}, s.visible(t, topic, 0)); diff != "" {
				t.Errorf("committed leases mismatch (-want +got):\n%s", diff)
			}
			if current, known := transport.CurrentToken(r, minted); !known || current != s.describe(t, r) {
				t.Errorf("current token %s, %v; the coordinator holds %s", current, known, s.describe(t, r))
			}
		})
	}
}

// A coordinator may take the commit of a member whose transaction a mint aborted
// for a repeated one of the new member, and answer it with that one's epoch. Both
// would write under it.
func TestKafkaTransportTakesNoSuccessorsEpochForItsOwn(t *testing.T) {
	plain, network, r := fakeStage(t), newLossy(), role(t, "controller")
	client := plain.client(t)
	network.interpose(kmsg.EndTxn, pinnedEnd, func() { plain.advance(t, client, r) })
	topic := plain.compacted(t, 1)
	transport, other := network.over(plain).transport(t, standardConfig(t)), plain.transport(t, standardConfig(t))
	minted := tracked(t, transport, r, topic)
	var once sync.Once
	network.interpose(kmsg.Produce, pinnedProduce, func() { once.Do(func() { mintAndWrite(t, other, r, topic) }) })
	err := transport.WriteRecords(within(t, patience), r, minted, []coordination.GuardedRecord{{Topic: topic, Key: []byte("lease"), Value: []byte("late")}})
	if !errors.Is(err, coordination.ErrFenced) || errors.Is(err, coordination.ErrOutcomeUnknown) {
		t.Errorf("the write that a mint aborted: %v, want ErrFenced alone", err)
	}
	if current, known := transport.CurrentToken(r, minted); known {
		t.Errorf("the deposed member goes on under %s, the coordinator holds %s", current, plain.describe(t, r))
	}
	if diff := cmp.Diff([]string{"probe", "of another"}, plain.visible(t, topic, 0)); diff != "" {
		t.Errorf("committed leases mismatch (-want +got):\n%s", diff)
	}
}

// tracked mints an epoch over a transport that knows that the epoch moves. It
// gives a term up to find that out.
func tracked(t *testing.T, transport *coordination.KafkaTransport, r coordination.Role, topic string) coordination.FencingToken {
	t.Helper()
	probe, err := transport.AcquireEpoch(within(t, patience), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := transport.WriteLease(within(t, patience), at(topic, 0), probe, []byte("lease"), []byte("probe")); err != nil {
		t.Fatal(err)
	}
	if current, known := transport.CurrentToken(r, probe); known || transport.Mode() != coordination.EpochModeTracking {
		t.Fatalf("the term goes on under %s, %v, in mode %s", current, known, transport.Mode())
	}
	minted, err := transport.AcquireEpoch(within(t, patience), r)
	if err != nil {
		t.Fatal(err)
	}
	return minted
}

func mintOnly(t *testing.T, other *coordination.KafkaTransport, r coordination.Role, _ string) {
	if _, err := other.AcquireEpoch(within(t, patience), r); err != nil {
		t.Error(err)
	}
}

func mintAndWrite(t *testing.T, other *coordination.KafkaTransport, r coordination.Role, topic string) {
	minted, err := other.AcquireEpoch(within(t, patience), r)
	if err == nil {
		err = other.WriteLease(within(t, patience), at(topic, 0), minted, []byte("lease"), []byte("of another"))
	}
	if err != nil {
		t.Error(err)
	}
}

// A mint of another member right after the first transaction looks like an
// epoch that moved with it.
func TestKafkaTransportTellsAMintFromAMovingEpoch(t *testing.T) {
	s, network := fakeStage(t), newLossy()
	topic, r := s.compacted(t, 1), role(t, "controller")
	other := s.transport(t, standardConfig(t))
	transport := network.over(s).transport(t, standardConfig(t))
	minted, err := transport.AcquireEpoch(within(t, patience), r)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	network.interpose(kmsg.EndTxn, pinnedEnd, func() { once.Do(func() { mintAndWrite(t, other, r, topic) }) })
	over := transport.Superseded(r, minted)
	if err := transport.WriteLease(within(t, patience), at(topic, 0), minted, []byte("lease"), []byte("first")); err != nil {
		t.Fatalf("the first write is committed, and yet: %v", err)
	}
	select {
	case <-over:
	default:
		t.Error("the token is not known to be superseded")
	}
	if err := transport.WriteLease(within(t, patience), at(topic, 0), minted, []byte("lease"), []byte("late")); !errors.Is(err, coordination.ErrFenced) {
		t.Errorf("the next write: %v, want ErrFenced", err)
	}
	if got := transport.Mode(); got == coordination.EpochModeTracking {
		t.Error("the transport follows the epoch of another member")
	}
	if diff := cmp.Diff([]string{"first", "of another"}, s.visible(t, topic, 0)); diff != "" {
		t.Errorf("committed leases mismatch (-want +got):\n%s", diff)
	}
}

// Another member that mints right after the first transaction and does nothing
// yet leaves no trace, and the coordinator of some clusters tells no state that
// does. Both members would hold one pair.
func TestKafkaTransportTakesNoEpochOnSilence(t *testing.T) {
	silentRival(t, fakeStage(t))
	t.Run("of a member", func(t *testing.T) { silentRivalOfAMember(t, fakeStage(t)) })
}

// silentRival mints between the commit of the first transaction of a term and
// the answer to it.
func silentRival(t *testing.T, s *stage) {
	topic, r, network := s.compacted(t, 1), role(t, unique("role")), newLossy()
	s.ready(t, r)
	other, transport := s.transport(t, standardConfig(t)), network.over(s).transport(t, standardConfig(t))
	minted, err := transport.AcquireEpoch(within(t, patience), r)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	theirs := coordination.NoEpoch
	network.interpose(kmsg.EndTxn, pinnedEnd, func() {
		once.Do(func() {
			if theirs, err = other.AcquireEpoch(within(t, patience), r); err != nil {
				t.Error(err)
			}
		})
	})
	if err := transport.WriteLease(within(t, patience), at(topic, 0), minted, []byte("lease"), []byte("first")); err != nil {
		t.Fatalf("the first write is committed, and yet: %v", err)
	}
	if current, known := transport.CurrentToken(r, minted); known {
		t.Errorf("the first member goes on under %s, another one minted %s", current, theirs)
	}
	if err := transport.WriteLease(within(t, patience), at(topic, 0), minted, []byte("lease"), []byte("late")); !errors.Is(err, coordination.ErrFenced) {
		t.Errorf("the next write: %v, want ErrFenced", err)
	}
	if err := other.WriteLease(within(t, patience), at(topic, 0), theirs, []byte("lease"), []byte("of another")); err != nil {
		t.Errorf("the write of the member that minted last: %v", err)
	}
	if diff := cmp.Diff([]string{"first", "of another"}, s.visible(t, topic, 0)); diff != "" {
		t.Errorf("committed leases mismatch (-want +got):\n%s", diff)
	}
	// Whatever the transport thinks of the brokers now, it takes the role again.
	l := acquire(t, transport, r, "node-1", s.compacted(t, 1))
	if err := l.Renew(within(t, patience)); err != nil {
		t.Error(err)
	}
	if got := s.describe(t, r); got != l.Token() {
		t.Errorf("the coordinator holds %s, want %s", got, l.Token())
	}
}

// silentRivalOfAMember does the same to an acquisition, which hands out no
// leadership that is over.
func silentRivalOfAMember(t *testing.T, s *stage) {
	topic, r, network := s.compacted(t, 1), role(t, unique("role")), newLossy()
	other := s.transport(t, standardConfig(t))
	var once sync.Once
	network.interpose(kmsg.EndTxn, pinnedEnd, func() { once.Do(func() { mintOnly(t, other, r, topic) }) })
	var ends atomic.Int32
	l := acquire(t, network.over(s).transport(t, standardConfig(t)), r, "node-1", topic, coordination.WithObserver(coordination.Observer{
		Ended: func(*coordination.Leadership, error) { ends.Add(1) },
	}))
	if err := l.Renew(within(t, patience)); err != nil {
		t.Errorf("renewal: %v", err)
	}
	if got := ends.Load(); got != 0 {
		t.Errorf("%d leaderships ended, want none", got)
	}
	if got := l.MintedToken().ProducerEpoch(); got != 2 {
		t.Errorf("the leadership began with epoch %d, want 2, after the own first mint and the other's", got)
	}
}

func TestKafkaTransportGivesAHalfDoneTransactionUpWhereTheEpochMoves(t *testing.T) {
	r := role(t, "controller")
	s, network := advancing(t, r)
	topic, commands := s.compacted(t, 1), unique("commands")
	s.create(t, commands, 2, "max.message.bytes", "2000")
	l := acquire(t, s.transport(t, standardConfig(t)), r, "node-1", topic)
	guard, err := l.Guard()
	if err != nil {
		t.Fatal(err)
	}
	network.interpose(kmsg.EndTxn, pinnedEnd+1, func() { t.Error("the transaction that failed halfway was ended") })
	err = guard.Write(within(t, patience),
		coordination.GuardedRecord{Topic: commands, Value: []byte("never")},
		coordination.GuardedRecord{Topic: commands, Partition: 1, Value: make([]byte, 4000)})
	if !errors.Is(err, coordination.ErrFenced) || !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("a write that fails halfway: %v, want ErrFenced and MESSAGE_TOO_LARGE", err)
	}
	network.interpose(kmsg.EndTxn, pinnedEnd+1, func() {})
	next := acquire(t, s.transport(t, standardConfig(t)), r, "node-1", topic)
	if err := next.Renew(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{}, s.visible(t, commands, 0)); diff != "" {
		t.Errorf("visible commands mismatch (-want +got):\n%s", diff)
	}
}

// The brokers begin to advance the epoch under a leadership, whatever the version
// of its requests. It ends at its own next write, and the member leads again.
func TestKafkaTransportOutlivesAnEpochThatBeginsToMove(t *testing.T) {
	r := role(t, "controller")
	plain, network := fakeStage(t), newLossy()
	topic, transport := plain.compacted(t, 1), network.over(plain).transport(t, standardConfig(t))
	first := acquire(t, transport, r, "node-1", topic)
	if err := first.Renew(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if got := transport.Mode(); got != coordination.EpochModeStable {
		t.Errorf("mode = %s, want %s", got, coordination.EpochModeStable)
	}
	client := plain.client(t)
	network.interpose(kmsg.EndTxn, pinnedEnd, func() { plain.advance(t, client, r) })
	if err := first.Renew(within(t, patience)); err != nil {
		t.Errorf("the renewal whose own transaction moved the epoch: %v", err)
	}
	if err := first.Renew(within(t, patience)); !errors.Is(err, coordination.ErrFenced) {
		t.Errorf("the renewal after that: %v, want ErrFenced", err)
	}
	second := acquire(t, transport, r, "node-1", topic)
	for n := range 3 {
		if err := second.Renew(within(t, patience)); err != nil {
			t.Fatalf("renewal %d of the next leadership: %v", n, err)
		}
		if got := plain.describe(t, r); got != second.Token() {
			t.Errorf("after renewal %d: token %s, the coordinator holds %s", n, second.Token(), got)
		}
	}
	if got := transport.Mode(); got != coordination.EpochModeTracking {
		t.Errorf("mode = %s, want %s", got, coordination.EpochModeTracking)
	}
}

// protocol sets the level of the transaction protocol of a fake cluster.
func (s *stage) protocol(t *testing.T, level int16) {
	t.Helper()
	update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	update.Feature, update.MaxVersionLevel, update.UpgradeType = "transaction.version", level, 2
	ask := kmsg.NewPtrUpdateFeaturesRequest()
	ask.FeatureUpdates = append(ask.FeatureUpdates, update)
	answer, err := ask.RequestWith(within(t, patience), s.client(t))
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if err != nil {
		t.Fatalf("set the transaction protocol to %d: %v", level, err)
	}
}

// A coordinator below the protocol with moving epochs fails to log a request
// that asks it to move one, and is stuck with the role.
func TestKafkaTransportEndsNoTransactionInAVersionThatBrokersCannotLog(t *testing.T) {
	for _, level := range []int16{0, 1} {
		t.Run(fmt.Sprint("level ", level), func(t *testing.T) {
			s, network := fakeStage(t), newLossy()
			topic, r := s.compacted(t, 1), role(t, "controller")
			other, transport := s.transport(t, standardConfig(t)), network.over(s).transport(t, standardConfig(t))
			// Here the epoch moves, and the transport finds that out.
			var once sync.Once
			network.interpose(kmsg.EndTxn, pinnedEnd, func() { once.Do(func() { mintOnly(t, other, r, topic) }) })
			acquire(t, transport, r, "node-1", topic)
			if got := transport.Mode(); got != coordination.EpochModeTracking {
				t.Fatalf("mode = %s, want %s", got, coordination.EpochModeTracking)
			}
			// Here it does not.
			s.protocol(t, level)
			network.interpose(kmsg.EndTxn, pinnedEnd+1, func() { t.Error("a transaction ended in version 5") })
			stable := func() {
				t.Helper()
				if got := transport.Mode(); got != coordination.EpochModeStable {
					t.Errorf("mode = %s, want %s", got, coordination.EpochModeStable)
				}
			}
			l := acquire(t, transport, r, "node-1", topic)
			if err := l.Renew(within(t, patience)); err != nil {
				t.Errorf("renewal: %v", err)
			}
			stable()
			network.interpose(kmsg.EndTxn, pinnedEnd, func() { mintOnly(t, other, r, topic) })
			minted, err := transport.AcquireEpoch(within(t, patience), r)
			if err != nil {
				t.Fatal(err)
			}
			key := coordination.EncodeKey(coordination.LeaseKey(r))
			if err := transport.WriteLease(within(t, patience), at(topic, 0), minted, key, nil); err != nil {
				t.Fatal(err)
			}
			if current, known := transport.CurrentToken(r, minted); known {
				t.Errorf("the term goes on under %s, which another member minted", current)
			}
			stable()
		})
	}
}

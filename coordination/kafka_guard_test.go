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
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// guarded is a leadership with a guard, a topic for its records, and a network
// that fails on demand.
type guarded struct {
	*stage
	network   *lossy
	stop      *cancelOn
	answered  *onAnswer
	retried   atomic.Pointer[func()] // called before a request is sent again
	transport *coordination.KafkaTransport
	l         *coordination.Leadership
	guard     *coordination.GuardedWriter
	commands  string
}

func newGuarded(t *testing.T, partitions int, opts ...kfake.Opt) *guarded {
	t.Helper()
	return newGuardedOn(t, fakeStage(t, opts...), partitions)
}

func newGuardedOn(t *testing.T, s *stage, partitions int) *guarded {
	t.Helper()
	x := &guarded{stage: s, network: newLossy(), stop: &cancelOn{}, answered: &onAnswer{}, commands: unique("commands")}
	x.create(t, x.commands, partitions)
	x.transport = x.network.over(x.stage).transport(t, standardConfig(t), func(options *coordination.KafkaOptions) {
		options.ClientOptions = append(options.ClientOptions, kgo.WithHooks(x.stop, x.answered))
		options.Hooks.Retried = func(string, error) {
			if retried := x.retried.Load(); retried != nil {
				(*retried)()
			}
		}
	})
	x.l = acquire(t, x.transport, role(t, unique("role")), "node-1", x.compacted(t, 1))
	var err error
	if x.guard, err = x.l.Guard(); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *guarded) record(partition int, value string) coordination.GuardedRecord {
	return coordination.GuardedRecord{Topic: x.commands, Partition: partition, Value: []byte(value)}
}

func (x *guarded) write(t *testing.T, records ...coordination.GuardedRecord) {
	t.Helper()
	if err := x.guard.Write(within(t, patience), records...); err != nil {
		t.Fatal(err)
	}
}

// pinnedClient returns a client that ends transactions in the pinned version.
func (x *guarded) pinnedClient(t *testing.T) *kgo.Client {
	t.Helper()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.EndTxn), pinnedEnd)
	return x.client(t, kgo.MaxVersions(versions))
}

// end commits the open transaction of a leadership past its transport.
func (x *guarded) end(t *testing.T, client *kgo.Client) {
	ask := kmsg.NewPtrEndTxnRequest()
	ask.TransactionalID = x.l.Role().String()
	ask.ProducerID, ask.ProducerEpoch = x.l.Token().ProducerID(), x.l.Token().ProducerEpoch()
	ask.Commit = true
	answer, err := ask.RequestWith(context.Background(), client)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if err != nil {
		t.Errorf("commit: %v", err)
	}
}

// interrupted writes one record with a context that ends when a request of one
// kind is sent.
func (x *guarded) interrupted(t *testing.T, key kmsg.Key, value string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t, patience))
	defer cancel()
	x.stop.key = key
	x.stop.arm(cancel)
	return x.guard.Write(ctx, x.record(0, value))
}

func TestGuardedWriteWithoutAnAnswerToItsCommitIsOpen(t *testing.T) {
	for _, arrives := range []bool{false, true} {
		t.Run(fmt.Sprintf("the commit arrives %v", arrives), func(t *testing.T) {
			t.Parallel()
			x := newGuarded(t, 1)
			if arrives {
				x.network.lose(kmsg.EndTxn, 0, 1)
			} else {
				x.network.lose(kmsg.EndTxn, 1, 0)
			}
			err := x.interrupted(t, kmsg.EndTxn, "open")
			var unknown *coordination.OutcomeUnknownError
			if !errors.As(err, &unknown) || !errors.Is(err, context.Canceled) || errors.Is(err, coordination.ErrFenced) {
				t.Fatalf("write: %v, want an OutcomeUnknownError with the error of the context", err)
			}
			if unknown.Role != x.l.Role() || unknown.Token != x.l.Token() {
				t.Errorf("the error names role %s and token %s, want %s and %s", unknown.Role, unknown.Token, x.l.Role(), x.l.Token())
			}
			// The transport goes on to commit, and the next write comes after it.
			if diff := cmp.Diff([]string{"open"}, x.visible(t, x.commands, 0)); diff != "" {
				t.Errorf("visible before the next write (-want +got):\n%s", diff)
			}
			x.write(t, x.record(0, "next"))
			if diff := cmp.Diff([]string{"open", "next"}, x.visible(t, x.commands, 0)); diff != "" {
				t.Errorf("visible after it (-want +got):\n%s", diff)
			}
			if err := x.l.Renew(within(t, patience)); err != nil {
				t.Errorf("renewal: %v", err)
			}
		})
	}
}

// A request to commit that is still under way would commit the next
// transaction halfway, so that one does not begin before the coordinator is
// done with the last.
func TestGuardedWriteWaitsUntilALostCommitIsOver(t *testing.T) {
	x := newGuarded(t, 1)
	x.network.lose(kmsg.EndTxn, 1, 0)
	if err := x.interrupted(t, kmsg.EndTxn, "open"); !errors.Is(err, coordination.ErrOutcomeUnknown) {
		t.Fatalf("write: %v, want ErrOutcomeUnknown", err)
	}
	x.visible(t, x.commands, 0) // the transport commits in the background
	var asked, early atomic.Int32
	x.fake.ControlKey(int16(kmsg.DescribeTransactions), func(ask kmsg.Request) (kmsg.Response, error, bool) {
		x.fake.KeepControl()
		if asked.Add(1) > 2 {
			return nil, nil, false
		}
		state := kmsg.NewDescribeTransactionsResponseTransactionState()
		state.TransactionalID, state.State = x.l.Role().String(), "PrepareCommit"
		state.ProducerID, state.ProducerEpoch = x.l.Token().ProducerID(), x.l.Token().ProducerEpoch()
		answer := ask.ResponseKind().(*kmsg.DescribeTransactionsResponse)
		answer.TransactionStates = append(answer.TransactionStates, state)
		return answer, nil, true
	})
	x.fake.ControlKey(int16(kmsg.AddPartitionsToTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		x.fake.KeepControl()
		if asked.Load() < 3 {
			early.Add(1)
		}
		return nil, nil, false
	})
	x.write(t, x.record(0, "next"))
	if early.Load() != 0 {
		t.Error("the next transaction began before the coordinator was done with the last")
	}
	if diff := cmp.Diff([]string{"open", "next"}, x.visible(t, x.commands, 0)); diff != "" {
		t.Errorf("visible (-want +got):\n%s", diff)
	}
}

func TestGuardedWriteThatIsFencedAfterALostCommitIsBoth(t *testing.T) {
	x := newGuarded(t, 1)
	other := x.stage.transport(t, standardConfig(t))
	x.network.lose(kmsg.EndTxn, 1, 0)
	// The second attempt finds another member in charge.
	x.network.interpose(kmsg.Produce, 11, func() { mintOnly(t, other, x.l.Role(), "") })
	err := x.guard.Write(within(t, patience), x.record(0, "lost"))
	if !errors.Is(err, coordination.ErrFenced) || !errors.Is(err, coordination.ErrOutcomeUnknown) {
		t.Errorf("write: %v, want ErrFenced and ErrOutcomeUnknown", err)
	}
	select {
	case <-x.l.Done():
	default:
		t.Error("the leadership goes on after a fence")
	}
	if diff := cmp.Diff([]string{}, x.visible(t, x.commands, 0)); diff != "" {
		t.Errorf("visible (-want +got):\n%s", diff)
	}
}

func TestGuardedWriteThatIsCancelledHalfwayIsGone(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.Produce} {
		for _, arrives := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s arrives %v", key.Name(), arrives), func(t *testing.T) {
				t.Parallel()
				x := newGuarded(t, 1)
				x.write(t, x.record(0, "before"))
				if arrives {
					x.network.lose(key, 0, 1)
				} else {
					x.network.lose(key, 1, 0)
				}
				err := x.interrupted(t, key, "never")
				if !errors.Is(err, context.Canceled) || errors.Is(err, coordination.ErrOutcomeUnknown) {
					t.Fatalf("write: %v, want the error of the context and no doubt", err)
				}
				for n := range 3 {
					if err := x.l.Renew(within(t, patience)); err != nil {
						t.Fatal(err)
					}
					x.write(t, x.record(0, fmt.Sprint("after ", n)))
				}
				if diff := cmp.Diff([]string{"before", "after 0", "after 1", "after 2"}, x.visible(t, x.commands, 0)); diff != "" {
					t.Errorf("visible (-want +got):\n%s", diff)
				}
				if got := x.describe(t, x.l.Role()); got != x.l.MintedToken() {
					t.Errorf("the coordinator holds %s, want %s", got, x.l.MintedToken())
				}
			})
		}
	}
}

func TestGuardedWriteThatIsDisownedAfterItsFirstRecordIsOpen(t *testing.T) {
	x := newGuarded(t, 2)
	x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: x.commands, Partitions: []int32{1}, Err: kerr.InvalidTxnState, Count: 1})
	err := x.guard.Write(within(t, patience), x.record(0, "first"), x.record(1, "second"))
	if !errors.Is(err, coordination.ErrOutcomeUnknown) || errors.Is(err, coordination.ErrFenced) || !errors.Is(err, kerr.InvalidTxnState) {
		t.Fatalf("write: %v, want ErrOutcomeUnknown with the answer of the broker", err)
	}
	x.write(t, x.record(0, "third"), x.record(1, "fourth"))
	got := [][]string{x.visible(t, x.commands, 0), x.visible(t, x.commands, 1)}
	if diff := cmp.Diff([][]string{{"third"}, {"fourth"}}, got); diff != "" {
		t.Errorf("visible (-want +got):\n%s", diff)
	}
}

// Brokers ask to abort a transaction that is not there any more, because
// somebody committed what it had written so far.
func TestGuardedWriteThatIsToBeAbortedAfterItWasCommittedIsOpen(t *testing.T) {
	x := newGuarded(t, 2)
	client := x.pinnedClient(t)
	x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: x.commands, Partitions: []int32{1}, Err: kerr.TransactionAbortable, Count: 1})
	var once sync.Once
	x.network.interpose(kmsg.Produce, pinnedProduce, func() { once.Do(func() { x.end(t, client) }) })
	err := x.guard.Write(within(t, patience), x.record(0, "first"), x.record(1, "second"))
	if !errors.Is(err, coordination.ErrOutcomeUnknown) || !errors.Is(err, kerr.TransactionAbortable) {
		t.Fatalf("write: %v, want ErrOutcomeUnknown with the answer of the broker", err)
	}
	x.write(t, x.record(0, "third"), x.record(1, "fourth"))
	got := [][]string{x.visible(t, x.commands, 0), x.visible(t, x.commands, 1)}
	if diff := cmp.Diff([][]string{{"first", "third"}, {"fourth"}}, got); diff != "" {
		t.Errorf("visible (-want +got):\n%s", diff)
	}
}

func TestGuardedWriteStartsAnewWhenNothingWasTaken(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.InvalidTxnState, kerr.TransactionAbortable, kerr.UnknownProducerID} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			x := newGuarded(t, 1)
			x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: x.commands, Err: code, Count: 1})
			x.write(t, x.record(0, "one"))
			if diff := cmp.Diff([]string{"one"}, x.visible(t, x.commands, 0)); diff != "" {
				t.Errorf("visible (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGuardedWriteToADeadPartitionDoesNotCostTheRole(t *testing.T) {
	x := newGuarded(t, 1)
	fault := x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: x.commands, Err: kerr.NotEnoughReplicas, Count: -1})
	ctx, cancel := context.WithCancel(within(t, patience))
	result := make(chan error, 1)
	go func() { result <- x.guard.Write(ctx, x.record(0, "never")) }()
	if err := fault.Wait(within(t, patience), 2); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) || errors.Is(err, coordination.ErrOutcomeUnknown) {
		t.Errorf("write: %v, want the error of the context and no doubt", err)
	}
	if err := x.l.Renew(within(t, patience)); err != nil {
		t.Errorf("renewal while the partition is dead: %v", err)
	}
	fault.Remove()
	x.write(t, x.record(0, "alive"))
	if diff := cmp.Diff([]string{"alive"}, x.visible(t, x.commands, 0)); diff != "" {
		t.Errorf("visible (-want +got):\n%s", diff)
	}
}

func TestGuardedWritesAndRenewalsTakeTurns(t *testing.T) {
	x := newGuarded(t, 2)
	const writers, each = 4, 15
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := range each {
				record := x.record(w%2, fmt.Sprintf("%d.%02d", w, n))
				if err := x.guard.Write(within(t, patience), record); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		for range each {
			if err := x.l.Renew(within(t, patience)); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
	byWriter := map[byte][]string{}
	for partition := range int32(2) {
		for _, value := range x.visible(t, x.commands, partition) {
			byWriter[value[0]] = append(byWriter[value[0]], value)
		}
	}
	for w := range writers {
		values := byWriter['0'+byte(w)]
		if len(values) != each || !slices.IsSorted(values) {
			t.Errorf("records of writer %d: %q, want %d in order", w, values, each)
		}
	}
}

func TestGuardedRecordsArriveAsTheyAre(t *testing.T) {
	x := newGuarded(t, 1)
	stamp := time.UnixMilli(1_700_000_000_123)
	want := []coordination.GuardedRecord{
		{Topic: x.commands, Key: []byte("key"), Value: []byte("value"), Timestamp: stamp, Headers: []coordination.GuardedHeader{
			{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte{}}, {Key: "b"},
		}},
		{Topic: x.commands, Key: nil, Value: []byte{}, Timestamp: stamp.Add(-time.Hour)},
		{Topic: x.commands, Key: []byte{}, Value: nil, Timestamp: stamp.Add(time.Hour)},
	}
	x.write(t, want...)
	client := x.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{x.commands: {0: kgo.NewOffset().AtStart()}}))
	var got []coordination.GuardedRecord
	for len(got) < len(want) {
		fetches := client.PollFetches(within(t, patience))
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			guarded := coordination.GuardedRecord{Topic: record.Topic, Partition: int(record.Partition), Key: record.Key, Value: record.Value, Timestamp: record.Timestamp}
			for _, header := range record.Headers {
				guarded.Headers = append(guarded.Headers, coordination.GuardedHeader{Key: header.Key, Value: header.Value})
			}
			got = append(got, guarded)
		})
	}
	if diff := cmp.Diff(want, got); diff != "" { // nil and empty differ
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
}

func TestGuardedWriteOfAnotherRoleIsRefused(t *testing.T) {
	x := newGuarded(t, 1)
	transport := x.stage.transport(t, standardConfig(t))
	minted, err := transport.AcquireEpoch(within(t, patience), role(t, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	if err := transport.WriteRecords(within(t, patience), role(t, "other"), minted, []coordination.GuardedRecord{x.record(0, "never")}); err == nil || errors.Is(err, coordination.ErrFenced) {
		t.Errorf("write for another role: %v, want an error that is no fence", err)
	}
	if err := transport.WriteRecords(within(t, patience), role(t, "mine"), minted, nil); err != nil {
		t.Errorf("no records: %v", err)
	}
	if diff := cmp.Diff([]string{}, x.visible(t, x.commands, 0)); diff != "" {
		t.Errorf("visible (-want +got):\n%s", diff)
	}
}

// A guarded topic that takes no records, and no other topic, costs a writer its
// writes and not the role.
func TestGuardedTopicWithoutReplicasCostsNoLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newGuardedOn(t, virtualStage(t), 1)
		fault := x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: x.commands, Err: kerr.NotEnoughReplicas, Count: 1 << 30})
		began := time.Now()
		for time.Since(began) < 10*time.Minute {
			err := x.guard.Write(context.Background(), x.record(0, "never"))
			if !errors.Is(err, kerr.NotEnoughReplicas) || errors.Is(err, coordination.ErrOutcomeUnknown) {
				t.Fatalf("write: %v, want NOT_ENOUGH_REPLICAS and no doubt", err)
			}
		}
		if err := x.l.Err(); err != nil {
			t.Errorf("the leadership ended: %v", err)
		}
		fault.Remove()
		x.write(t, x.record(0, "next"))
		if diff := cmp.Diff([]string{"next"}, x.visible(t, x.commands, 0)); diff != "" {
			t.Errorf("visible (-want +got):\n%s", diff)
		}
		x.stage.stop(x.transport)
	})
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// The tests of this file are about answers that ask for another attempt
// although the request took effect.

func TestGuardedWriteWhoseCommitIsLoggedAndPutOffIsOpen(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			x := newGuarded(t, 1)
			client := x.pinnedClient(t)
			x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: code, Count: 1, TopLevel: true})
			ctx, cancel := context.WithCancel(within(t, patience))
			defer cancel()
			var once sync.Once
			x.network.interpose(kmsg.EndTxn, pinnedEnd, func() { once.Do(func() { x.end(t, client) }) })
			stop := func() { cancel() }
			x.retried.Store(&stop)
			err := x.guard.Write(ctx, x.record(0, "logged"))
			if !errors.Is(err, coordination.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
				t.Errorf("write: %v, want ErrOutcomeUnknown and the error of the context", err)
			}
			x.write(t, x.record(0, "next"))
			if diff := cmp.Diff([]string{"logged", "next"}, x.visible(t, x.commands, 0)); diff != "" {
				t.Errorf("visible (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAppendThatLostItsLeaderIsOpen(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.KafkaStorageError} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			s := fakeStage(t)
			topic := s.compacted(t, 1)
			ctx, cancel := context.WithCancel(within(t, patience))
			defer cancel()
			transport := s.transport(t, standardConfig(t), func(options *coordination.KafkaOptions) {
				options.Hooks.Retried = func(string, error) { cancel() }
			})
			s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: code, Count: 1})
			err := transport.Append(ctx, at(topic, 0), []byte("k"), []byte("v"))
			if !errors.Is(err, coordination.ErrOutcomeUnknown) || !errors.Is(err, code) || !errors.Is(err, context.Canceled) {
				t.Errorf("append: %v, want ErrOutcomeUnknown, %s and the error of the context", err, code.Message)
			}
		})
	}
}

// refuse answers the second request to produce to a topic with a code for each
// partition. The first one takes effect.
func (x *guarded) refuse(codes ...*kerr.Error) {
	var asked atomic.Int32
	x.fake.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		x.fake.KeepControl()
		ask := r.(*kmsg.ProduceRequest)
		if ask.Topics[0].Topic != x.commands || asked.Add(1) != 2 {
			return nil, nil, false
		}
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = x.commands
		for i, code := range codes {
			partition := kmsg.NewProduceResponseTopicPartition()
			partition.Partition, partition.ErrorCode = int32(i), code.Code
			topic.Partitions = append(topic.Partitions, partition)
		}
		answer := ask.ResponseKind().(*kmsg.ProduceResponse)
		answer.Topics = append(answer.Topics, topic)
		return answer, nil, true
	})
}

func TestGuardedRecordsOfAnAbortedTransactionAreWrittenAnew(t *testing.T) {
	x := newGuarded(t, 2)
	x.write(t, x.record(0, "before"), x.record(1, "before"))
	x.network.lose(kmsg.Produce, 0, 1)
	x.refuse(kerr.NotEnoughReplicasAfterAppend, kerr.TransactionAbortable)
	x.write(t, x.record(0, "zero"), x.record(1, "one"))
	x.write(t, x.record(0, "after"), x.record(1, "after"))
	got := [][]string{x.visible(t, x.commands, 0), x.visible(t, x.commands, 1)}
	if diff := cmp.Diff([][]string{{"before", "zero", "after"}, {"before", "one", "after"}}, got); diff != "" {
		t.Errorf("visible (-want +got):\n%s", diff)
	}
}

func TestMintThatAnotherOneOvertookIsAFence(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.ProducerFenced} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			s := fakeStage(t)
			r, topic := role(t, "controller"), s.compacted(t, 1)
			transport := s.transport(t, standardConfig(t))
			fault := s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: code, Count: 2, TopLevel: true})
			if _, err := transport.AcquireEpoch(within(t, patience), r); !errors.Is(err, coordination.ErrFenced) || !errors.Is(err, code) {
				t.Errorf("mint: %v, want ErrFenced and %s", err, code.Message)
			}
			l := acquire(t, transport, r, "node-1", topic)
			if got := fault.Hits(); got != 2 || l.Err() != nil {
				t.Errorf("%d faults took place, want 2; the leadership: %v", got, l.Err())
			}
		})
	}
}

func TestArbitrationOfATroubledCoordinatorMayBeRepeated(t *testing.T) {
	for _, test := range []struct {
		code      *kerr.Error
		retriable bool
	}{{kerr.CoordinatorLoadInProgress, true}, {kerr.TransactionalIDAuthorizationFailed, false}} {
		t.Run(test.code.Message, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := virtualStage(t)
				transport, r, topic := s.transport(t, standardConfig(t)), role(t, "controller"), s.compacted(t, 1)
				ctx := within(t, patience)
				minted, err := transport.AcquireEpoch(ctx, r)
				if err != nil {
					t.Fatal(err)
				}
				s.fake.Fault(
					kfake.Fault{Keys: []kmsg.Key{kmsg.AddPartitionsToTxn}, Err: kerr.InvalidTxnState, Count: -1},
					kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, Err: test.code, Count: -1},
				)
				err = transport.WriteLease(ctx, at(topic, 0), minted, []byte("k"), []byte("v"))
				var failed *coordination.KafkaError
				if !errors.As(err, &failed) || failed.Operation != "AddPartitionsToTxn" || !errors.Is(err, kerr.InvalidTxnState) || !errors.Is(err, test.code) {
					t.Fatalf("write: %v, want a KafkaError of AddPartitionsToTxn with both answers", err)
				}
				if failed.Retriable() != test.retriable {
					t.Errorf("the error is retriable %v, want %v", failed.Retriable(), test.retriable)
				}
				s.stop(transport)
			})
		})
	}
}

func TestBoundOnAnotherClockIsADeadline(t *testing.T) {
	x := newTerm(t)
	ctx, cancel := context.WithCancelCause(within(t, patience))
	defer cancel(nil)
	fault := x.fake.Fault(kfake.Fault{Keys: leaseSteps[:1], Err: kerr.CoordinatorNotAvailable, Count: -1})
	result := make(chan error, 1)
	go func() { result <- x.try(ctx, "second") }()
	if err := fault.Wait(within(t, patience), 1); err != nil {
		t.Fatal(err)
	}
	cancel(context.DeadlineExceeded)
	err := <-result
	var failed *coordination.KafkaError
	if !errors.As(err, &failed) || !failed.Retriable() || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("write: %v, want a retriable KafkaError that is a deadline", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// contextualTransactions is a [recordingTransactions] whose calls take a context.
type contextualTransactions struct {
	recordingTransactions
	contexts []error // of the calls
}

func (p *contextualTransactions) SendOffsetsContext(ctx context.Context, offsets map[TopicPartition]int64, metadata any) error {
	p.contexts = append(p.contexts, ctx.Err())
	return p.SendOffsets(offsets, metadata)
}

func (p *contextualTransactions) CommitTransactionContext(ctx context.Context) error {
	p.contexts = append(p.contexts, ctx.Err())
	return p.CommitTransaction()
}

func (p *contextualTransactions) AbortTransactionContext(ctx context.Context) error {
	p.contexts = append(p.contexts, ctx.Err())
	return p.AbortTransaction()
}

func TestEmptyRoundsLeaveTheirTransactionForTheNext(t *testing.T) {
	consumer := &scriptedConsumer{}
	consumer.add(fetch{}, fetch{}, fetch{in(0): stretch(0, 0, 2)}, fetch{})
	producer := &recordingTransactions{}
	r := newTestRunner(t, countingTopology(t), consumer, producer)
	var offsets []map[TopicPartition]int64
	for range 4 {
		round, err := r.RunOnceTransactional(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		offsets = append(offsets, round)
	}
	if diff := cmp.Diff([]map[TopicPartition]int64{{}, {}, {in(0): 2}, {}}, offsets); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"begin", "send-offsets", "commit", "begin"}, producer.events); diff != "" {
		t.Errorf("events mismatch (-want +got):\n%s", diff)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if last := producer.events[len(producer.events)-1]; last != "abort" {
		t.Errorf("last event %q; want the unused transaction aborted", last)
	}
}

func TestTransactionThatCannotBeginEndsTheRound(t *testing.T) {
	cause := errors.New("coordinator is away")
	consumer := &scriptedConsumer{}
	producer := &recordingTransactions{failWith: map[string]error{"begin": cause}}
	r := newTestRunner(t, countingTopology(t), consumer, producer)
	if _, err := r.RunOnceTransactional(t.Context(), 0); !errors.Is(err, cause) {
		t.Errorf("RunOnceTransactional = %v; want %v", err, cause)
	}
	if diff := cmp.Diff([]string{"begin"}, producer.events); diff != "" || consumer.polls != 0 {
		t.Errorf("%d polls, events mismatch (-want +got):\n%s", consumer.polls, diff)
	}
}

func TestFailedTransactionalRoundIsAbortedAndComesAgain(t *testing.T) {
	cause := errors.New("refused")
	for _, failing := range []string{"poll", "process", "send", "send-offsets", "commit", "commit aborted"} {
		t.Run(failing, func(t *testing.T) {
			consumer := &scriptedConsumer{}
			consumer.add(fetch{in(0): rows(0, 204, "ada 1", "ada 2"), in(1): rows(1, 7, "bob 5")})
			producer := &recordingTransactions{failWith: map[string]error{}}
			switch failing {
			case "poll":
				consumer.pollErrs = []error{cause}
			case "process":
				consumer.fetches[0][in(0)][1].Value = []byte("?")
				cause = errSchemaPending
			case "send":
				producer.sendErr = cause
			case "commit aborted":
				producer.failWith["commit"] = &TransactionAbortedError{TransactionalID: "id", Cause: cause}
			default:
				producer.failWith[failing] = cause
			}
			r := newTestRunner(t, ledgerTopology(t), consumer, producer)
			_, err := r.RunOnceTransactional(t.Context(), 0)
			if !errors.Is(err, cause) {
				t.Errorf("RunOnceTransactional = %v; want %v", err, cause)
			}
			if last := producer.events[len(producer.events)-1]; last != "abort" {
				t.Errorf("events %v; want an abort at the end", producer.events)
			}
			if failing != "poll" {
				if diff := cmp.Diff(map[TopicPartition]int64{in(0): 204, in(1): 7}, consumer.sought); diff != "" {
					t.Errorf("seeks mismatch (-want +got):\n%s", diff)
				}
			}
			if r.Topology().HasPartition(0) || r.Topology().HasPartition(1) {
				t.Error("the failed round has left state")
			}
			// The same records come again, and succeed.
			producer.failWith, producer.sendErr, producer.sent, producer.events = nil, nil, nil, nil
			if failing != "poll" {
				consumer.add(fetch{in(0): rows(0, 204, "ada 1", "ada 2"), in(1): rows(1, 7, "bob 5")})
			}
			offsets, err := r.RunOnceTransactional(t.Context(), 0)
			if diff := cmp.Diff(map[TopicPartition]int64{in(0): 206, in(1): 8}, offsets); diff != "" || err != nil {
				t.Errorf("error %v, offsets of the next round mismatch (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff([]string{"ada 1", "ada 3", "bob 5"}, producer.values("out")); diff != "" {
				t.Errorf("outputs of the next round mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"begin", "send-offsets", "commit"}, producer.events); diff != "" {
				t.Errorf("events of the next round mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFencedRunnerIsDone(t *testing.T) {
	fenced := &FencedError{ID: "id", Cause: errors.New("newer epoch")}
	for _, failing := range []string{"begin", "send", "send-offsets", "commit", "poll"} {
		t.Run(failing, func(t *testing.T) {
			store := &recordingStore{}
			consumer := &scriptedConsumer{}
			consumer.add(fetch{in(0): stretch(0, 0, 2)}, fetch{in(0): stretch(0, 2, 4)})
			producer := &recordingTransactions{failWith: map[string]error{}}
			r := newTestRunner(t, countingTopology(t), consumer, producer, WithStateStore(store))
			r.OnPartitionsAssigned([]TopicPartition{in(0)})
			if _, err := r.RunOnceTransactional(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			switch failing {
			case "send":
				producer.sendErr = fenced
			case "poll":
				consumer.pollErrs = []error{fenced}
			default:
				producer.failWith[failing] = fenced
			}
			for range 3 {
				_, err := r.RunOnceTransactional(t.Context(), 0)
				var got *FencedError
				if !errors.As(err, &got) || got != fenced {
					t.Errorf("RunOnceTransactional = %v; want %v", err, fenced)
				}
			}
			polls := consumer.polls
			if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, fenced) || consumer.polls != polls {
				t.Errorf("RunOnce = %v; want %v without a poll", err, fenced)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if len(store.saved) != 0 || r.Topology().HasPartition(0) {
				t.Errorf("saves %v, state kept %v; want neither", store.saved, r.Topology().HasPartition(0))
			}
		})
	}
}

func TestSeekThatFailsIsTriedBeforeTheNextPoll(t *testing.T) {
	cause, seek := errors.New("commit refused"), errors.New("not assigned")
	consumer := &scriptedConsumer{failWith: map[string]error{"CommitOffsets": cause, "Seek": seek}}
	consumer.add(fetch{in(0): rows(0, 5, "ada 1")}, fetch{in(0): rows(0, 5, "ada 1")})
	r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{})
	if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, cause) {
		t.Errorf("RunOnce = %v; want %v", err, cause)
	}
	if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, seek) || consumer.polls != 1 || !strings.Contains(err.Error(), "seeking in/0 to 5") {
		t.Errorf("RunOnce = %v after %d polls; want %v before another", err, consumer.polls, seek)
	}
	consumer.failWith = nil
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 6}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
}

// unreversible is a ledger that cannot be taken back.
type unreversible struct{ ledger }

var errUnreversible = errors.New("cannot go back")

func (u *unreversible) Restore([]byte) error { return errUnreversible }

func TestRollbackThatFailsEndsTheRunner(t *testing.T) {
	cause := errors.New("commit refused")
	consumer := &scriptedConsumer{}
	consumer.add(fetch{in(0): rows(0, 0, "ada 1")}, fetch{in(0): rows(0, 1, "ada 1")})
	topology := through(t, "ledger", func() Processor {
		return &unreversible{*newLedger().(*ledger)}
	}, "in")
	r := newTestRunner(t, topology, consumer, &recordingProducer{})
	runOnce(t, r)
	consumer.failWith = map[string]error{"CommitOffsets": cause}
	for range 2 {
		_, err := r.RunOnce(t.Context(), 0)
		var rollback *RollbackError
		if !errors.As(err, &rollback) || !errors.Is(err, cause) || !errors.Is(err, errUnreversible) {
			t.Errorf("RunOnce = %v; want a *RollbackError with %v and %v", err, cause, errUnreversible)
		}
	}
	if consumer.polls != 2 {
		t.Errorf("%d polls; want none behind the failed rollback", consumer.polls)
	}
}

func TestCancelledRoundHasNotHappened(t *testing.T) {
	for _, transactional := range []bool{false, true} {
		consumer := &scriptedConsumer{}
		consumer.add(fetch{in(0): rows(0, 0, "ada 1")}, fetch{in(0): rows(0, 0, "ada 1")})
		producer := &contextualTransactions{}
		r := newTestRunner(t, ledgerTopology(t), consumer, producer)
		run := r.RunOnce
		if transactional {
			run = r.RunOnceTransactional
		}
		ctx, cancel := context.WithCancel(t.Context())
		consumer.onPoll = func(context.Context) error { cancel(); return nil }
		if _, err := run(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("transactional %v: cancelled in the poll: %v", transactional, err)
		}
		if diff := cmp.Diff(map[TopicPartition]int64{in(0): 0}, consumer.sought); diff != "" || len(producer.sent) != 0 || r.Topology().HasPartition(0) {
			t.Errorf("transactional %v: outputs %v, seeks mismatch (-want +got):\n%s", transactional, producer.sent, diff)
		}
		polls := consumer.polls
		if _, err := run(ctx, 0); !errors.Is(err, context.Canceled) || consumer.polls != polls {
			t.Errorf("transactional %v: cancelled before: %v", transactional, err)
		}
		for _, err := range producer.contexts {
			if err != nil {
				t.Errorf("transactional %v: an abort ran with an ended context", transactional)
			}
		}
		offsets, err := run(t.Context(), 0)
		if diff := cmp.Diff(map[TopicPartition]int64{in(0): 1}, offsets); diff != "" || err != nil {
			t.Errorf("transactional %v: error %v, offsets of a later round mismatch (-want +got):\n%s", transactional, err, diff)
		}
	}
}

func TestAcknowledgementsThatDoNotComeEndWithTheContext(t *testing.T) {
	consumer := &scriptedConsumer{}
	consumer.add(fetch{in(0): rows(0, 0, "ada 1")})
	ctx, cancel := context.WithCancel(t.Context())
	producer := producerFunc(func(string, ProduceRecord, func(error)) { cancel() })
	r := newTestRunner(t, ledgerTopology(t), consumer, producer, WithMaxInFlight(1))
	if _, err := r.RunOnce(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("RunOnce = %v; want %v", err, context.Canceled)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 0}, consumer.sought); diff != "" || len(consumer.commits) != 0 {
		t.Errorf("commits %v, seeks mismatch (-want +got):\n%s", consumer.commits, diff)
	}
}

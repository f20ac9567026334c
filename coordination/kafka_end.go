// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// end ends the transaction. When it fails without a definite answer to a
// commit, the term remembers it, and the next transaction settles it first.
func (x *transaction) end(ctx context.Context, commit bool) error {
	const operation = "EndTxn"
	asked := x.term.ending // what an earlier request may have done
	unknown := asked == endingCommit
	arrived := false
	var next FencingToken
	err := x.persist(ctx, x.request(operation), func(ctx context.Context) error {
		var err error
		if arrived, err = x.arrived(ctx); err != nil {
			return err
		}
		pair := x.term.pair()
		ask := kmsg.NewPtrEndTxnRequest()
		ask.TransactionalID = x.term.role.name
		ask.ProducerID, ask.ProducerEpoch = pair.producerID, pair.producerEpoch
		ask.Commit = commit
		client := x.clients.pinned
		if x.term.tracking {
			client = x.clients.plain
		}
		var sent time.Time
		code, err := x.coordinated(ctx, client, x.term.role, func(to kmsg.Requestor) (int16, error) {
			sent = time.Now()
			answer, err := ask.RequestWith(ctx, to)
			if err != nil {
				return 0, err
			}
			next = FencingToken{producerID: answer.ProducerID, producerEpoch: answer.ProducerEpoch}
			return answer.ErrorCode, nil
		})
		if err != nil {
			if !sent.IsZero() && !unsent(err) {
				x.term.strays.add(sent)
				unknown = unknown || commit
			}
			return err
		}
		err = x.judge(ctx, operation, code)
		switch reactTo(code) {
		case reactRetry:
			unknown = unknown || commit // coordinators answer so also after they logged it
		case reactArbitrate:
			var again *restart
			if !errors.As(err, &again) && !errors.Is(err, ErrFenced) && code != kerr.TransactionAbortable.Code {
				unknown = unknown || commit // nobody tells what became of the transaction
			}
		}
		return err
	})
	if err != nil {
		return x.notEnded(unknown, err)
	}
	x.term.strays.settle(arrived)
	x.term.ending = endingNone
	if x.term.tracking {
		return x.follow(ctx, next, unknown)
	}
	return nil
}

// notEnded records what a failed end leaves behind.
func (x *transaction) notEnded(unknown bool, err error) error {
	var again *restart
	disowned := errors.As(err, &again)
	if disowned {
		// The coordinator has no open transaction of this epoch.
		x.term.strays.settle(false)
		if x.term.ending != endingAbort {
			x.term.ending = endingNone
		}
		// What it asks to abort, it did not commit.
		unknown = unknown || again.answer != kerr.TransactionAbortable
	} else if unknown {
		x.term.ending = endingCommit
		x.term.suspect = true
	}
	switch {
	case !unknown:
		return err
	case disowned && x.guarded:
		return x.inDoubt(x.request(again.operation).failed(again.answer))
	}
	return x.inDoubt(err)
}

// settle brings the term to a state in which no transaction is open that must
// end in a certain way.
func (x *transaction) settle(ctx context.Context) error {
	switch x.term.ending {
	case endingCommit:
		if err := x.finish(ctx, true); err != nil {
			return err
		}
	case endingAbort:
		if x.term.tracking {
			return x.abandon()
		}
		if err := x.finish(ctx, false); err != nil {
			return err
		}
	}
	if x.guarded && x.term.suspect {
		return x.quiet(ctx)
	}
	return nil
}

// finish ends a transaction of an earlier call. Its records are none of the
// ones of this transaction.
func (x *transaction) finish(ctx context.Context, commit bool) error {
	earlier := &transaction{KafkaTransport: x.KafkaTransport, term: x.term}
	err := earlier.end(ctx, commit)
	var again *restart
	if errors.As(err, &again) {
		x.term.ending = endingNone
		return nil
	}
	return err
}

// abandon gives the term up, because a transaction of it must not commit, and
// a request to abort is not safe with brokers that advance the epoch: they may
// answer it with the epoch of a successor. The next mint aborts it, or its
// timeout.
func (x *transaction) abandon() error {
	x.terms.end(x.term)
	return x.request("EndTxn").failed(fmt.Errorf("%w: token %s was given up, because a transaction under it failed halfway", ErrFenced, x.term.pair()))
}

// quiet waits until the coordinator has completed the last transaction of the
// term. A request to end it that is still under way would end the next one.
func (x *transaction) quiet(ctx context.Context) error {
	request := x.request("DescribeTransactions")
	return x.persist(ctx, request, func(ctx context.Context) error {
		state, err := x.describe(ctx, x.term.role)
		switch {
		case err != nil:
			return err
		case state.pair != x.term.pair():
			x.terms.end(x.term)
			return fencedError(fmt.Errorf("the coordinator holds token %s", state.pair))
		case !state.completed():
			return &transientError{err: kerr.ConcurrentTransactions}
		}
		x.term.suspect = false
		return nil
	})
}

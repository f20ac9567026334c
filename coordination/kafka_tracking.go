// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A coordinator that advances the epoch with a transaction and one on which
// another member minted look alike: both hold the next pair. To adopt a pair
// that another member minted would be to lead beside it under one token, so the
// transport adopts a pair on proof alone: the answer to its own commit, or the
// marker in the log that ended its transaction under the next epoch. That
// nobody else shows up is no proof.

// follows reports whether a coordinator can reach a pair from another one at
// the end of a transaction.
func follows(pair, before FencingToken) bool {
	if pair.producerID == before.producerID {
		return pair.producerEpoch == before.producerEpoch+1
	}
	return before.producerEpoch >= lastEpoch && pair.producerEpoch == 0
}

// follow moves the term on to the pair that the coordinator answered a commit
// with. Unless the answer is proof by itself, it counts only if the log shows
// that the commit is the one of this term.
func (x *transaction) follow(ctx context.Context, next FencingToken, repeated bool) error {
	current := x.term.pair()
	if next.producerID < 0 || next == current {
		return nil
	}
	if !follows(next, current) {
		return x.inDoubt(x.fenced("EndTxn", kerr.ProducerFenced.Code))
	}
	if repeated || !x.answersOwn(ctx) {
		trace, err := x.trace(ctx, next)
		if err != nil {
			x.term.ending = endingCommit
			return x.inDoubt(err)
		}
		if trace.marker != markerCommit || trace.later {
			fenced := x.fenced("EndTxn", kerr.ProducerFenced.Code)
			if trace.marker == markerAbort {
				return fenced
			}
			return x.inDoubt(fenced)
		}
	}
	x.adopt(next)
	return nil
}

// answersOwn reports whether the first answer to a commit is about the
// transaction that it was sent for. Some coordinators answer a member whose
// transaction a mint has aborted as if it repeated the commit of the new member,
// with that one's pair. Apache Kafka does not (TransactionCoordinator.endTransaction
// looks at the state and at the version of the last commit), and is known by the
// states that it tells.
func (x *transaction) answersOwn(ctx context.Context) bool {
	if !x.tellsStates() {
		// Right after a commit there is a state to tell. Failing that, the log shows.
		_, _, _ = x.look(ctx, x.term.role)
	}
	return x.tellsStates()
}

// adopt makes a pair the one of the term. Sequence numbers start again, and
// what was sent under the old epoch cannot arrive any more.
func (x *transaction) adopt(pair FencingToken) {
	x.terms.adopt(x.term, pair)
	clear(x.term.sequences)
	clear(x.term.unsettled)
}

// detect finds out, after the first transaction of a term, whether the
// coordinator advanced the epoch although the request asked for no such thing.
// An error says that it could not find out, or that the term is over: without
// proof that its own transaction moved the epoch, another member may hold it.
func (x *transaction) detect(ctx context.Context) error {
	x.term.undecided = true
	state, err := x.describe(ctx, x.term.role)
	if err != nil {
		return err
	}
	current := x.term.pair()
	if state.pair == current {
		x.decide(false)
		return nil
	}
	if follows(state.pair, current) && state.state != stateOngoing {
		trace, err := x.trace(ctx, state.pair)
		switch {
		case err != nil:
			return err
		case trace.marker != markerCommit || trace.later: // another member minted
		case trace.epoch > current.producerEpoch:
			x.adopt(state.pair)
			x.decide(true)
			return nil
		case x.term.moves && (state.state != stateEmpty || !x.tellsStates()):
			x.expectTracking(x.term)
		}
	}
	x.terms.end(x.term)
	return x.request("DescribeTransactions").failed(fencedError(fmt.Errorf("the coordinator holds token %s and not %s", state.pair, current)))
}

func (x *transaction) decide(tracking bool) {
	x.term.undecided, x.term.decided, x.term.tracking = false, true, tracking
	if tracking {
		x.tracks(x.term)
		return
	}
	x.found(EpochModeStable)
}

// tellsStates reports whether the coordinator was seen to tell a completed
// transaction from none. It calls one empty after a mint alone then.
func (t *KafkaTransport) tellsStates() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states
}

// marker is how a transaction ended in a partition.
type marker int

const (
	markerNone marker = iota
	markerAbort
	markerCommit
)

// trace is what a partition says about the last transaction of a term.
type trace struct {
	marker marker
	epoch  int16 // of the marker
	later  bool  // a record of the next pair follows
}

// trace reads the partition of the last batch of the term from that batch on,
// until it finds the end of its transaction.
func (x *transaction) trace(ctx context.Context, next FencingToken) (trace, error) {
	request := x.request("Fetch")
	var found trace
	err := x.persist(ctx, request, func(ctx context.Context) error {
		found = trace{}
		end, err := x.offset(ctx, x.term.last.at, timestampLatest)
		if err != nil {
			return err
		}
		from := max(x.term.last.offset, 0)
		for {
			part, err := x.fetch(ctx, x.term.last.at, from, fetchOptions{end: end})
			if err != nil {
				return err
			}
			for _, record := range part.records {
				if record.Offset > x.term.last.offset {
					found.add(record, x.term.pair(), next)
				}
			}
			if part.next <= from || part.next >= part.high {
				break
			}
			from = part.next
		}
		if found.marker == markerNone {
			return &transientError{err: kerr.ConcurrentTransactions} // markers are written after the answer
		}
		return nil
	})
	return found, err
}

func (f *trace) add(record *kgo.Record, pair, next FencingToken) {
	own := record.ProducerID == pair.producerID
	switch {
	case !record.Attrs.IsControl():
		f.later = f.later || own && record.ProducerEpoch > pair.producerEpoch ||
			record.ProducerID == next.producerID && record.ProducerEpoch >= next.producerEpoch
	case own && f.marker == markerNone:
		if f.marker = markerOf(record); f.marker != markerNone {
			f.epoch = record.ProducerEpoch
		}
	}
}

// markerOf returns what a control record says about a transaction.
func markerOf(record *kgo.Record) marker {
	if len(record.Key) < 4 {
		return markerNone
	}
	switch kmsg.ControlRecordKeyType(binary.BigEndian.Uint16(record.Key[2:])) {
	case kmsg.ControlRecordKeyTypeCommit:
		return markerCommit
	case kmsg.ControlRecordKeyTypeAbort:
		return markerAbort
	}
	return markerNone
}

// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A coordinator that advances the epoch with a transaction and one on which
// another member minted look alike: both hold the next pair. To adopt a pair
// that another member minted would be to take the role without a mint, so the
// transport adopts one only on evidence, most of it from the log: the marker
// that ended its transaction, and that no record of the next epoch follows.

const (
	// observeTime is how long a coordinator is watched that gives no evidence
	// but its pair.
	observeTime = 300 * time.Millisecond

	observeInterval = 25 * time.Millisecond
)

// follows reports whether a coordinator can reach a pair from another one at
// the end of a transaction.
func follows(pair, before FencingToken) bool {
	if pair.producerID == before.producerID {
		return pair.producerEpoch == before.producerEpoch+1
	}
	return before.producerEpoch >= lastEpoch && pair.producerEpoch == 0
}

// follow moves the term on to the pair that the coordinator answered a commit
// with. An answer to a request that was sent before without an answer counts
// only if the log shows that the commit is the one of this term.
func (x *transaction) follow(ctx context.Context, next FencingToken, repeated bool) error {
	current := x.term.pair()
	if next.producerID < 0 || next == current {
		return nil
	}
	if !follows(next, current) {
		return x.fenced("EndTxn", kerr.ProducerFenced.Code)
	}
	if repeated {
		trace, err := x.trace(ctx, next)
		if err != nil {
			x.term.ending = endingCommit
			if x.guarded {
				return x.unknownOutcome(err)
			}
			return err
		}
		if trace.marker != markerCommit || trace.later {
			return x.fenced("EndTxn", kerr.ProducerFenced.Code)
		}
	}
	x.adopt(next)
	return nil
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
// An error says that it could not find out.
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
	evidence := evidenceAgainst
	if follows(state.pair, current) && state.state != stateOngoing {
		if evidence, err = x.weigh(ctx, state); err != nil {
			return err
		}
	}
	if evidence == evidenceAgainst {
		x.terms.end(x.term)
		return x.request("DescribeTransactions").failed(fencedError(fmt.Errorf("the coordinator holds token %s and not %s", state.pair, current)))
	}
	x.adopt(state.pair)
	x.decide(true)
	if evidence == evidenceOfSilence {
		return x.step(ctx)
	}
	return nil
}

// step moves the epoch on with an empty transaction. Whoever minted the adopted
// pair without a trace is fenced from then on.
func (x *transaction) step(ctx context.Context) error {
	if err := x.add(ctx, []TopicPartition{x.term.last.at}); err != nil {
		return err
	}
	return x.end(ctx, true)
}

func (x *transaction) decide(tracking bool) {
	x.term.undecided, x.term.decided, x.term.tracking = false, true, tracking
	mode := EpochModeStable
	if tracking {
		mode = EpochModeTracking
	}
	x.setMode(mode, x.term)
}

// evidence tells who led the coordinator from the pair of a term to the next.
type evidence int

const (
	evidenceAgainst   evidence = iota // another member minted
	evidenceOfOwn                     // the end of the term's own transaction
	evidenceOfSilence                 // nobody else showed up
)

// weigh looks for evidence that the end of the term's own transaction led to
// the state.
func (x *transaction) weigh(ctx context.Context, state epochState) (evidence, error) {
	trace, err := x.trace(ctx, state.pair)
	switch {
	case err != nil:
		return evidenceAgainst, err
	case trace.marker != markerCommit || trace.later:
		return evidenceAgainst, nil
	case trace.epoch > x.term.pair().producerEpoch:
		return evidenceOfOwn, nil // the coordinator ended the transaction under the next epoch
	case state.state != stateEmpty:
		return evidenceOfOwn, nil // a mint would have left it empty
	case x.tellsStates():
		return evidenceAgainst, nil
	}
	// The coordinator calls every id without an open transaction empty. If
	// another member minted, it writes at once.
	for began := time.Now(); time.Since(began) < observeTime; {
		if !pause(ctx, observeInterval) {
			return evidenceAgainst, x.request("DescribeTransactions").failed(ended(ctx, nil))
		}
		again, err := x.describe(ctx, x.term.role)
		if err != nil {
			return evidenceAgainst, err
		}
		if trace, err = x.trace(ctx, state.pair); err != nil {
			return evidenceAgainst, err
		}
		if again != state || trace.later {
			return evidenceAgainst, nil
		}
	}
	return evidenceOfSilence, nil
}

// tellsStates reports whether the coordinator was seen to tell a completed
// transaction from none.
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
		from := max(x.term.last.offset, 0)
		for {
			part, err := x.fetch(ctx, x.term.last.at, from, fetchOptions{})
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
	case own && f.marker == markerNone && len(record.Key) >= 4:
		f.marker, f.epoch = markerAbort, record.ProducerEpoch
		if kmsg.ControlRecordKeyType(binary.BigEndian.Uint16(record.Key[2:])) == kmsg.ControlRecordKeyTypeCommit {
			f.marker = markerCommit
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// settle finds out what became of a commit whose answer is lost. Initialising
// the transactional id anew ends whatever is still open, so that the committed
// offsets cannot change any more when they are read.
func (t *TransactionalMember) settle(ctx context.Context, cause error) error {
	if err := t.reinitialise(ctx); err != nil {
		if errors.As(err, new(*columnar.FencedError)) {
			return t.txn.note(err)
		}
		return t.unknown(errors.Join(cause, err))
	}
	return t.decide(ctx, cause, false)
}

// reinitialise makes the client end what it cannot account for.
func (t *TransactionalMember) reinitialise(ctx context.Context) error {
	doing := fmt.Sprintf("initialise transactional id %q", t.transactionalID)
	if err := t.endOngoing(ctx); err != nil {
		return t.typed(doing, err)
	}
	if _, err := t.session.End(ctx, kgo.TryAbort); err != nil {
		return t.typed(doing, err)
	}
	// The client reports a failed initialisation only when asked for the id.
	if _, _, err := t.client.ProducerID(ctx); err != nil {
		return t.typed(doing, err)
	}
	return nil
}

// endOngoing aborts what may be open where the first version of the protocol is
// in force: initialising the id over an open transaction makes brokers fence the
// member itself there.
func (t *TransactionalMember) endOngoing(ctx context.Context) error {
	if t.txn.implicit {
		return nil
	}
	req := &endFirstProtocol{}
	req.TransactionalID = t.transactionalID
	req.ProducerID, req.ProducerEpoch = t.txn.producerID, t.txn.producerEpoch
	for {
		err := t.requestCoordinator(ctx, req)
		switch {
		case err == nil, errors.Is(err, kerr.InvalidTxnState):
			return nil // aborted now, or ended before
		case !kerr.IsRetriable(err) && !errors.Is(err, kerr.ConcurrentTransactions), !sleep(ctx, retryPause):
			return err
		}
	}
}

// endFirstProtocol is the request that ends a transaction in the version that
// the first protocol uses.
type endFirstProtocol struct{ kmsg.EndTxnRequest }

// MaxVersion keeps the client from negotiating a version of the second protocol.
func (*endFirstProtocol) MaxVersion() int16 { return 4 }

func (t *TransactionalMember) requestCoordinator(ctx context.Context, req *endFirstProtocol) error {
	coordinator := t.admin.FindTxnCoordinators(ctx, t.transactionalID)[t.transactionalID]
	if coordinator.Err != nil {
		return coordinator.Err
	}
	resp, err := t.client.Broker(int(coordinator.NodeID)).Request(ctx, req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.EndTxnResponse).ErrorCode)
}

// decide looks whether the offsets of the transaction are committed. They carry
// a mark that no other transaction has, because another member may have
// committed the same numbers. aborted means that the client says that it did not
// send the commit; it can be wrong, but where nothing speaks against it, it
// counts.
func (t *TransactionalMember) decide(ctx context.Context, cause error, aborted bool) error {
	offsets := t.txn.offsets
	committed, err := t.stableOffsets(ctx, slices.Collect(maps.Keys(offsets)))
	if err != nil {
		return t.unknown(errors.Join(cause, err))
	}
	kept := len(offsets) > 0
	before := t.bases(offsets)
	for tp := range offsets {
		now, ok := committed[tp]
		if ok && now.metadata == t.txn.inscription(tp) {
			t.noteCommitted(offsets)
			t.resume()
			return nil
		}
		if !ok {
			now.offset = unknown
		}
		kept = kept && now.offset == before[tp]
	}
	if aborted || kept || len(offsets) == 0 && !t.txn.sent.Load() {
		t.rewind()
		return &columnar.TransactionAbortedError{TransactionalID: t.transactionalID, Cause: cause}
	}
	if len(offsets) > 0 {
		cause = fmt.Errorf("another member has committed since: %w", cause)
	}
	return t.unknown(cause)
}

// bases returns what was committed before the transaction.
func (t *TransactionalMember) bases(offsets map[columnar.TopicPartition]int64) map[columnar.TopicPartition]int64 {
	before := make(map[columnar.TopicPartition]int64, len(offsets))
	t.mu.Lock()
	defer t.mu.Unlock()
	for tp := range offsets {
		before[tp] = unknown
		if p, ok := t.partitions[tp]; ok {
			before[tp] = p.committed
		}
	}
	return before
}

// unknown gives up on finding out. Nothing goes on before an abort has ended
// what may still be open, so that nobody takes offsets for final that can move.
func (t *TransactionalMember) unknown(cause error) error {
	err := &columnar.CommitUnknownError{TransactionalID: t.transactionalID, Cause: cause}
	t.txn.mu.Lock()
	defer t.txn.mu.Unlock()
	t.txn.doubt = err
	return err
}

// heal ends what an earlier call left open, and learns what is committed.
func (t *TransactionalMember) heal(ctx context.Context) error {
	if err := t.reinitialise(ctx); err != nil {
		return t.txn.note(err)
	}
	t.mu.Lock()
	assigned := slices.Collect(maps.Keys(t.partitions))
	t.mu.Unlock()
	committed, err := t.Committed(ctx, assigned)
	if err != nil {
		return err
	}
	t.noteCommitted(committed)
	t.txn.mu.Lock()
	defer t.txn.mu.Unlock()
	t.txn.unended, t.txn.doubt = false, nil
	return nil
}

// rewind takes positions back to the committed offsets.
func (t *TransactionalMember) rewind() {
	t.setAll(func(p *partition) int64 { return p.base() })
}

// resume makes the client fetch on from the positions.
func (t *TransactionalMember) resume() {
	t.setAll(func(p *partition) int64 { return p.position })
}

func (t *TransactionalMember) setAll(target func(*partition) int64) {
	offsets := map[columnar.TopicPartition]int64{}
	t.mu.Lock()
	for tp, p := range t.partitions {
		if offset := target(p); offset != unknown {
			p.position = offset
			offsets[tp] = offset
		}
	}
	t.mu.Unlock()
	t.client.SetOffsets(epochOffsets(offsets))
}

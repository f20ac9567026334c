// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// WriteRecords writes the records in one transaction of the role under the
// token, and commits it; see [TermTransport]. [Leadership.Guard] is the way to
// call it.
//
// Records of one partition keep their order and go out in one batch, whose size
// the brokers bound by message.max.bytes; a longer one is a [*TopicError] with
// MESSAGE_TOO_LARGE. A partition with fewer replicas in sync than its topic wants
// is refused before the transaction begins. When a batch cannot be written, the
// transaction is aborted and nothing becomes visible. When ctx ends before that is
// known to have happened, the transport goes on in the background, for the
// duration of the lease at most.
//
// After a commit that had to be asked for twice, the first request may still
// arrive, and would commit what a later transaction has written by then. While
// it may, records for more than one partition are held back. A context that
// ends meanwhile makes that a retriable error.
//
// Where the brokers advance the epoch with every transaction, a transaction
// that failed halfway cannot be aborted safely; the token is given up then,
// and the error matches [ErrFenced].
func (t *KafkaTransport) WriteRecords(ctx context.Context, role Role, token FencingToken, records []GuardedRecord) error {
	call, leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	x, pass, err := t.begin(call, "WriteRecords", token)
	if err != nil {
		return err
	}
	handedOn := false
	defer func() {
		if !handedOn {
			pass()
		}
	}()
	if x.term.role != role {
		return fmt.Errorf("kafka: token %s was minted for role %q, not for role %q", token, x.term.role, role)
	}
	if len(records) == 0 {
		return nil
	}
	x.guarded, x.batches = true, batches(records)
	if err := x.fits(); err != nil {
		return err
	}
	if err := x.locate(call); err != nil {
		return err
	}
	err = x.commit(call)
	x.forgetRecords()
	if err == nil {
		x.decideOnce(call)
		return nil
	}
	if x.risky && (x.written || x.unclear) && !errors.Is(err, ErrOutcomeUnknown) {
		err = x.inDoubt(err)
	}
	if !x.term.superseded() && x.leaveNothing() {
		if call.Err() == nil {
			x.cleanUp(call)
		} else {
			handedOn = true
			t.calls.Add(1)
			go func() {
				defer t.calls.Done()
				defer pass()
				clean, cancel := context.WithTimeout(t.life, t.lease.duration)
				defer cancel()
				x.cleanUp(clean)
			}()
		}
		if x.term.superseded() {
			return fmt.Errorf("%w: %w", ErrFenced, err)
		}
	}
	return err
}

// fits checks that the batches fit into a request. Brokers cut the connection
// of one that they find too long, again and again.
func (x *transaction) fits() error {
	total := 0
	for _, batch := range x.batches {
		if total += batch.size(); total > x.clients.longest {
			return &TopicError{Topic: batch.at.Topic, Partition: batch.at.Partition,
				Err: fmt.Errorf("%w: records of about %d bytes, the limit of the client is %d", kerr.MessageTooLarge, total, x.clients.longest)}
		}
	}
	return nil
}

// locate checks that every partition exists and takes records, before the
// transaction begins.
func (x *transaction) locate(ctx context.Context) error {
	for _, at := range x.partitions() {
		err := x.persist(ctx, x.request("Metadata"), func(ctx context.Context) error { return x.takesRecords(ctx, at) })
		if err != nil {
			return err
		}
	}
	return nil
}

// inSyncMemory is how old the knowledge may be that a partition takes records.
const inSyncMemory = time.Second

// takesRecords refuses a partition that has fewer replicas in sync than its topic
// wants. A transaction is over when each of its partitions has taken a marker, and
// until then the coordinator lets the role neither renew its lease nor be taken.
func (t *KafkaTransport) takesRecords(ctx context.Context, at TopicPartition) error {
	route, partition, err := t.leader(ctx, at)
	if err == nil && time.Since(route.asked) > inSyncMemory {
		t.forgetTopic(at.Topic)
		_, partition, err = t.leader(ctx, at)
	}
	if err != nil || partition.inSync >= partition.replicas {
		return err
	}
	found, err := kadm.NewClient(t.clients.plain).DescribeTopicConfigs(ctx, at.Topic)
	if err != nil || len(found) == 0 {
		return nil // the brokers do not tell
	}
	if want, _ := strconv.Atoi(settingsOf(found[0])[settingInSync]); partition.inSync < want {
		t.forgetTopic(at.Topic)
		return &transientError{err: &TopicError{Topic: at.Topic, Partition: at.Partition, Err: kerr.NotEnoughReplicas}}
	}
	return nil
}

// leaveNothing marks what a failed write left behind as never to become
// visible, unless a request to commit it was sent. It reports whether there is
// something to settle.
func (x *transaction) leaveNothing() bool {
	if x.term.ending == endingCommit || !x.sent {
		return x.term.ending != endingNone
	}
	for _, left := range x.term.unsettled {
		left.discard = left.discard || slices.Contains(x.batches, left)
	}
	x.term.ending = endingAbort
	return true
}

// cleanUp ends the open transaction. What it cannot do, the next write does.
func (x *transaction) cleanUp(ctx context.Context) {
	settle := &transaction{KafkaTransport: x.KafkaTransport, term: x.term}
	if err := settle.settle(ctx); err != nil {
		x.logger.Warn("a transaction of the role is still open", logRole, x.term.role.name, logError, err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// transaction writes batches in one transaction of a term. Whoever runs one
// has the turn of the term.
//
// Every step may be sent again after a lost answer: adding a partition twice is
// adding it once, a batch is recognised by its sequence number, and a commit of
// what is committed succeeds.
type transaction struct {
	*KafkaTransport
	term    *kafkaTerm
	batches []*kafkaBatch
	guarded bool
	sent    bool // a batch of this transaction was sent
	written bool // a batch of this transaction was acknowledged
	unclear bool // a batch of this transaction may have been appended
	risky   bool // a request to end an earlier transaction may have ended this one
}

// restart says that the coordinator disowned the transaction and not the
// epoch, so that the transaction begins anew.
type restart struct {
	operation string
	answer    *kerr.Error
}

func (e *restart) Error() string { return e.operation + ": " + e.answer.Error() }
func (e *restart) Unwrap() error { return e.answer }

func (x *transaction) request(operation string) request {
	return request{operation: operation, subject: roleSubject(x.term.role)}
}

// commit runs the transaction until it is committed or failed.
func (x *transaction) commit(ctx context.Context) error {
	disordered := false
	for n := 1; ; n++ {
		err := x.attempt(ctx)
		var again *restart
		if !errors.As(err, &again) {
			if err == nil {
				x.term.wrote()
			}
			return err
		}
		request := x.request(again.operation)
		aborts := x.term.ending == endingAbort
		if x.guarded {
			if err := x.final(ctx, again); err != nil {
				return err
			}
		}
		if again.answer == kerr.OutOfOrderSequenceNumber {
			if disordered {
				return request.failed(again.answer)
			}
			disordered = true
		}
		if aborts {
			x.restore()
			x.written, x.unclear = false, false
		}
		if hook := x.options.Hooks.Retried; hook != nil {
			hook(again.operation, again.answer)
		}
		if !pause(ctx, quickPace.wait(n)) {
			return request.failed(ended(ctx, &transientError{err: again.answer}))
		}
	}
}

// final returns the error of a guarded write that does not begin anew after the
// answer, or nil.
func (x *transaction) final(ctx context.Context, again *restart) error {
	failed := x.request(again.operation).failed(again.answer)
	aborts, taken := x.term.ending == endingAbort, x.written || x.unclear
	disowned := !aborts && again.answer == kerr.InvalidTxnState // somebody ended the transaction
	switch {
	case taken && (x.risky || disowned):
		return x.inDoubt(failed)
	case taken && aborts:
		return x.undo(ctx, failed)
	case x.written:
		return failed // to write the batch once more in the open transaction is to write it twice
	}
	return nil
}

// undo aborts the transaction, which failed. Brokers ask for that also when
// there is no transaction any more, so only an abort that succeeds tells that
// nobody committed it.
func (x *transaction) undo(ctx context.Context, failed error) error {
	earlier := &transaction{KafkaTransport: x.KafkaTransport, term: x.term}
	err := earlier.end(ctx, false)
	var again *restart
	if errors.As(err, &again) {
		x.term.ending = endingNone
		return x.inDoubt(failed)
	}
	return err
}

// restore replaces every batch that may be in the log of a transaction that is
// going to be aborted. Sent again under the same sequence number, such a batch
// would be acknowledged as a duplicate of records that never become visible.
func (x *transaction) restore() {
	for i, batch := range x.batches {
		if batch.bytes == nil || batch.acked {
			continue
		}
		x.batches[i] = newBatch(batch.at, batch.records...)
		batch.discard, batch.records = true, nil
	}
}

func (x *transaction) attempt(ctx context.Context) error {
	if x.term.undecided {
		if err := x.detect(ctx); err != nil {
			return err
		}
	}
	if err := x.settle(ctx); err != nil {
		return err
	}
	if len(x.batches) > 1 {
		if err := x.outlast(ctx); err != nil {
			return err
		}
	}
	x.risky = x.risky || x.exposed()
	partitions := x.partitions()
	for _, at := range partitions {
		if left := x.term.unsettled[at]; left != nil && left.discard {
			if err := x.flush(ctx, left); err != nil {
				return err
			}
		}
	}
	queue := make(map[TopicPartition][]*kafkaBatch)
	for _, at := range partitions {
		if left := x.term.unsettled[at]; left != nil && !slices.Contains(x.batches, left) {
			queue[at] = append(queue[at], left)
		}
	}
	for _, batch := range x.batches {
		if batch.acked || batch.producer != x.term.pair() {
			batch.reopen()
		}
		queue[batch.at] = append(queue[batch.at], batch)
	}
	if err := x.add(ctx, partitions); err != nil {
		return err
	}
	if err := x.produce(ctx, partitions, queue); err != nil {
		return err
	}
	return x.end(ctx, true)
}

// partitions returns the partitions of the batches, in order.
func (x *transaction) partitions() []TopicPartition {
	var all []TopicPartition
	for _, batch := range x.batches {
		if !slices.Contains(all, batch.at) {
			all = append(all, batch.at)
		}
	}
	return all
}

// flush makes sure that a batch which must not become visible has its place in
// the log, in a transaction that aborts. Its sequence number is free after
// that.
func (x *transaction) flush(ctx context.Context, left *kafkaBatch) error {
	at := []TopicPartition{left.at}
	if err := x.outlast(ctx); err != nil {
		return err
	}
	if err := x.add(ctx, at); err != nil {
		return err
	}
	x.term.ending = endingAbort
	if err := x.produce(ctx, at, map[TopicPartition][]*kafkaBatch{left.at: {left}}); err != nil {
		return err
	}
	return x.settle(ctx)
}

// add adds partitions to the transaction. The coordinator checks the epoch.
func (x *transaction) add(ctx context.Context, partitions []TopicPartition) error {
	pair := x.term.pair()
	ask := kmsg.NewPtrAddPartitionsToTxnRequest()
	ask.TransactionalID = x.term.role.name
	ask.ProducerID, ask.ProducerEpoch = pair.producerID, pair.producerEpoch
	for _, at := range partitions {
		i := slices.IndexFunc(ask.Topics, func(topic kmsg.AddPartitionsToTxnRequestTopic) bool { return topic.Topic == at.Topic })
		if i < 0 {
			topic := kmsg.NewAddPartitionsToTxnRequestTopic()
			topic.Topic = at.Topic
			ask.Topics = append(ask.Topics, topic)
			i = len(ask.Topics) - 1
		}
		ask.Topics[i].Partitions = append(ask.Topics[i].Partitions, int32(at.Partition))
	}
	const operation = "AddPartitionsToTxn"
	return x.persist(ctx, x.request(operation), func(ctx context.Context) error {
		var refused TopicPartition
		code, err := x.coordinated(ctx, x.clients.pinned, x.term.role, func(to kmsg.Requestor) (int16, error) {
			answer, err := ask.RequestWith(ctx, to)
			if err != nil {
				return 0, err
			}
			var code int16
			refused, code = refusedPartition(answer)
			return code, nil
		})
		if err != nil {
			return err
		}
		switch code {
		case kerr.TopicAuthorizationFailed.Code:
			return topicDenied(refused.Topic, "WRITE", code)
		case kerr.UnknownTopicOrPartition.Code:
			return missingTopic(refused.Topic, refused.Partition, code)
		}
		return x.judge(ctx, operation, code)
	})
}

// judge returns the error of an answer of the coordinator, or nil.
func (x *transaction) judge(ctx context.Context, operation string, code int16) error {
	switch reactTo(code) {
	case reactFenced:
		return x.fenced(operation, code)
	case reactArbitrate:
		return x.arbitrate(ctx, operation, code)
	}
	return roleAnswer(x.term.role, "WRITE", code)
}

// refusedPartition returns the partition that kept a transaction from being
// extended, and why. The others are only said not to have been attempted.
func refusedPartition(answer *kmsg.AddPartitionsToTxnResponse) (TopicPartition, int16) {
	at, code := TopicPartition{}, answer.ErrorCode
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			if partition.ErrorCode != 0 && (code == 0 || code == kerr.OperationNotAttempted.Code) {
				at, code = TopicPartition{Topic: topic.Topic, Partition: int(partition.Partition)}, partition.ErrorCode
			}
		}
	}
	return at, code
}

// produce sends the batches of the queue until all are acknowledged, those of
// one partition in order.
func (x *transaction) produce(ctx context.Context, partitions []TopicPartition, queue map[TopicPartition][]*kafkaBatch) error {
	return x.persist(ctx, x.request("Produce"), func(ctx context.Context) error {
		for {
			leaders := make(map[int32][]*kafkaBatch)
			ids := make(topicIDs)
			for _, at := range partitions {
				if len(queue[at]) == 0 {
					continue
				}
				route, partition, err := x.leader(ctx, at)
				if err != nil {
					return err
				}
				ids[at.Topic] = route.id
				leaders[partition.leader] = append(leaders[partition.leader], queue[at][0])
			}
			if len(leaders) == 0 {
				return nil
			}
			for leader, heads := range leaders {
				if err := x.send(ctx, leader, heads, ids, queue); err != nil {
					return err
				}
			}
		}
	})
}

// send sends batches for different partitions to their leader. It takes what
// is acknowledged off the queue.
func (x *transaction) send(ctx context.Context, leader int32, heads []*kafkaBatch, ids topicIDs, queue map[TopicPartition][]*kafkaBatch) error {
	for _, batch := range heads {
		if batch.bytes == nil {
			batch.seal(x.term.pair(), x.term.sequences[batch.at], time.Now().UnixMilli())
		}
		x.term.unsettled[batch.at] = batch
	}
	x.sent = true
	answers, err := x.post(ctx, x.clients.pinned, &x.term.role.name, leader, heads, ids)
	for _, batch := range heads {
		x.unclear = x.unclear || batch.unknown && slices.Contains(x.batches, batch)
	}
	if err != nil {
		return err
	}
	var failed error
	for i, batch := range heads {
		if err := x.acknowledge(ctx, batch, answers[i], queue); err != nil && (failed == nil || isTransient(failed)) {
			failed = err
		}
	}
	return failed
}

func isTransient(err error) bool {
	_, transient := err.(*transientError)
	return transient
}

// acknowledge takes the answer for one batch.
func (x *transaction) acknowledge(ctx context.Context, batch *kafkaBatch, answer kmsg.ProduceResponseTopicPartition, queue map[TopicPartition][]*kafkaBatch) error {
	const operation = "Produce"
	at, code := batch.at, answer.ErrorCode
	react := reactTo(code)
	if (react == reactDenied || react == reactRefuse) && !batch.unknown {
		delete(x.term.unsettled, at)
	}
	switch react {
	case reactDone:
		batch.acked, batch.offset = true, answer.BaseOffset
		x.written = x.written || slices.Contains(x.batches, batch)
		x.term.sequences[at] = batch.after(x.term.sequences[at])
		x.term.last = written{at: at, offset: answer.BaseOffset}
		delete(x.term.unsettled, at)
		queue[at] = queue[at][1:]
		return nil
	case reactFenced, reactArbitrate:
		return x.judge(ctx, operation, code)
	}
	if code == kerr.TransactionalIDAuthorizationFailed.Code {
		return idDenied(x.term.role, "WRITE", code)
	}
	return x.produced(at, code)
}

// fenced ends the term, because a broker rejected its epoch.
func (x *transaction) fenced(operation string, code int16) error {
	x.terms.end(x.term)
	return x.request(operation).failed(fencedError(fmt.Errorf("token %s: %w", x.term.pair(), kerr.ErrorForCode(code))))
}

// arbitrate asks the coordinator whether the epoch of the term holds, after an
// answer that leaves it open. It returns a restart if it does, and the answer
// when the coordinator does not tell.
func (x *transaction) arbitrate(ctx context.Context, operation string, code int16) error {
	answer := kerr.ErrorForCode(code).(*kerr.Error)
	state, err := x.describe(ctx, x.term.role)
	switch {
	case err != nil:
		untold := fmt.Errorf("%w, and the coordinator does not tell why: %w", answer, err)
		var failed *KafkaError
		if errors.As(err, &failed) && failed.Retriable() {
			return x.request(operation).failed(&transientError{err: untold})
		}
		return x.request(operation).failed(untold)
	case state.pair != x.term.pair():
		return x.fenced(operation, code)
	}
	if answer == kerr.TransactionAbortable && !x.term.tracking {
		x.term.ending = endingAbort
	}
	return &restart{operation: operation, answer: answer}
}

// inDoubt wraps the error of a guarded write that may be committed. To a lease
// it is one like any other.
func (x *transaction) inDoubt(err error) error {
	if !x.guarded {
		return err
	}
	return &OutcomeUnknownError{Role: x.term.role, Token: x.term.pair(), Err: err}
}

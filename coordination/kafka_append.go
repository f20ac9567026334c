// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"fmt"
	"time"
)

// Append implements [Registrar]. It takes no producer id: a record whose answer is
// lost is sent again, and may be in the log twice, which is the same to a reader
// of the newest record of each key.
//
// When ctx ends while the record is on its way, the error matches
// [ErrOutcomeUnknown] and the error of ctx: the record may still arrive, and a
// registration that arrives late puts the member at the tail of the roster.
func (t *KafkaTransport) Append(ctx context.Context, partition TopicPartition, key, value []byte) error {
	if err := checkStateRecord(partition, key); err != nil {
		return err
	}
	call, leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if len(value) == 0 {
		value = nil
	}
	batch := newBatch(partition, GuardedRecord{Key: key, Value: value})
	batch.seal(NoEpoch, -1, time.Now().UnixMilli())
	request := request{operation: "Produce", subject: partition.String()}
	err = t.persist(call, request, func(ctx context.Context) error { return t.appendOnce(ctx, batch) })
	if failed, ok := err.(*KafkaError); ok && batch.unknown {
		failed.Err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, failed.Err)
	}
	return err
}

func (t *KafkaTransport) appendOnce(ctx context.Context, batch *kafkaBatch) error {
	at := batch.at
	route, leader, err := t.leader(ctx, at)
	if err != nil {
		return err
	}
	if err := t.checkCount(at.Topic, len(route.partitions)); err != nil {
		return err
	}
	answers, err := t.post(ctx, t.clients.plain, nil, leader.leader, []*kafkaBatch{batch}, topicIDs{at.Topic: route.id})
	if err != nil {
		return err
	}
	return t.produced(at, answers[0].ErrorCode)
}

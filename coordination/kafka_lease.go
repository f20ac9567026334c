// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
)

// WriteLease implements [LeaseWriter] in three round trips: one adds the
// partition, and there the coordinator checks the epoch, one produces and one
// commits. The first write of a token takes one more, to find out the
// [KafkaTransport.Mode]. Any token that the leadership had since its mint is
// accepted. When ctx ends, the transaction may be open, committed or on its way;
// the next write under the token goes on from there, and the last record wins.
func (t *KafkaTransport) WriteLease(ctx context.Context, partition TopicPartition, token FencingToken, key, value []byte) error {
	_, err := t.WriteLeaseAt(ctx, partition, token, key, value)
	return err
}

// WriteLeaseAt is [KafkaTransport.WriteLease] and returns the offset of the
// committed record, or -1 when the broker did not tell.
func (t *KafkaTransport) WriteLeaseAt(ctx context.Context, partition TopicPartition, token FencingToken, key, value []byte) (int64, error) {
	if err := checkStateRecord(partition, key); err != nil {
		return -1, err
	}
	call, leave, err := t.enter(ctx)
	if err != nil {
		return -1, err
	}
	defer leave()
	x, pass, err := t.begin(call, "WriteLease", token)
	if err != nil {
		return -1, err
	}
	defer pass()
	if len(value) == 0 {
		value = nil
	}
	x.batches = []*kafkaBatch{newBatch(partition, GuardedRecord{
		Topic: partition.Topic, Partition: partition.Partition, Key: key, Value: value,
	})}
	defer x.forgetRecords()
	if err := x.commit(call); err != nil {
		return -1, err
	}
	x.decideOnce(call)
	return x.batches[0].offset, nil
}

// begin waits for the turn of a token and returns a transaction under it.
func (t *KafkaTransport) begin(ctx context.Context, operation string, token FencingToken) (x *transaction, pass func(), err error) {
	request := request{operation: operation, subject: "token " + token.String()}
	term, err := t.terms.find(token)
	if err != nil {
		return nil, nil, request.failed(err)
	}
	pass, err = term.take(ctx)
	if err != nil {
		return nil, nil, request.failed(err)
	}
	if term.superseded() {
		pass()
		return nil, nil, request.failed(errSuperseded(token))
	}
	return &transaction{KafkaTransport: t, term: term}, pass, nil
}

// decideOnce finds out, after the first transaction of a term, what the
// brokers do with the epoch. A failure to find out does not make the committed
// write one; the next write tries again before it starts.
func (x *transaction) decideOnce(ctx context.Context) {
	if x.term.decided {
		return
	}
	if err := x.detect(ctx); err != nil {
		x.logger.Debug("could not tell what the brokers do with the epoch", logRole, x.term.role.name, logError, err)
	}
}

// forgetRecords drops what belongs to the caller. Batches that are to be sent
// again have their bytes.
func (x *transaction) forgetRecords() {
	for _, batch := range x.batches {
		batch.records = nil
	}
}

// checkStateRecord checks what every record of the coordination topic needs.
func checkStateRecord(partition TopicPartition, key []byte) error {
	switch {
	case partition.Topic == "":
		return errors.New("kafka: the topic must not be empty")
	case len(key) == 0:
		return errors.New("kafka: a record of a compacted topic needs a key")
	}
	return nil
}

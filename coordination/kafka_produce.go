// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicIDs are the ids of topics by name.
type topicIDs map[string][16]byte

// post sends batches for different partitions to their leader, once, and
// returns an answer for each. It marks the batches whose fate is not known.
func (t *KafkaTransport) post(ctx context.Context, client *kgo.Client, transactionID *string, leader int32, batches []*kafkaBatch, ids topicIDs) ([]kmsg.ProduceResponseTopicPartition, error) {
	ask := kmsg.NewPtrProduceRequest()
	ask.TransactionID = transactionID
	ask.Acks = -1
	ask.TimeoutMillis = int32(answerTime(t.lease) / time.Millisecond)
	for _, batch := range batches {
		i := slices.IndexFunc(ask.Topics, func(topic kmsg.ProduceRequestTopic) bool { return topic.Topic == batch.at.Topic })
		if i < 0 {
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic, topic.TopicID = batch.at.Topic, ids[batch.at.Topic]
			ask.Topics = append(ask.Topics, topic)
			i = len(ask.Topics) - 1
		}
		partition := kmsg.NewProduceRequestTopicPartition()
		partition.Partition = int32(batch.at.Partition)
		partition.Records = batch.bytes
		ask.Topics[i].Partitions = append(ask.Topics[i].Partitions, partition)
	}
	answer, err := ask.RequestWith(ctx, client.Broker(int(leader)))
	if err != nil {
		for _, batch := range batches {
			batch.unknown = true
			t.forgetTopic(batch.at.Topic)
		}
		client.ForceMetadataRefresh()
		return nil, connectionError(ctx, err)
	}
	answers := make([]kmsg.ProduceResponseTopicPartition, len(batches))
	for i, batch := range batches {
		answers[i] = producedPartition(answer, batch.at, ids[batch.at.Topic])
		if mayHaveHappened(answers[i].ErrorCode) {
			batch.unknown = true
		}
	}
	return answers, nil
}

// producedPartition finds the answer for a partition. Newer answers name the
// topic by its id.
func producedPartition(answer *kmsg.ProduceResponse, at TopicPartition, id [16]byte) kmsg.ProduceResponseTopicPartition {
	for _, topic := range answer.Topics {
		if topic.Topic != at.Topic && (topic.Topic != "" || topic.TopicID != id) {
			continue
		}
		for _, partition := range topic.Partitions {
			if int(partition.Partition) == at.Partition {
				return partition
			}
		}
	}
	missing := kmsg.NewProduceResponseTopicPartition()
	missing.ErrorCode = kerr.UnknownServerError.Code
	return missing
}

// produced returns the error of an answer about a batch, or nil.
func (t *KafkaTransport) produced(at TopicPartition, code int16) error {
	err := topicAnswer(at.Topic, at.Partition, "WRITE", code)
	if isTransient(err) {
		t.forgetTopic(at.Topic)
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"time"
)

// round is one round in progress.
type round struct {
	poll     context.Context // bounds the poll
	ctx      context.Context // bounds everything else
	timeout  time.Duration
	producer TransactionalProducer // nil for at-least-once
	started  time.Time
	attempt  func(*round) error // what the round does between its begin and its end
	advance  *int64             // the stream time to move to, instead of a poll
	only     *logicalPartition  // that moves to it; nil for all

	metadata any  // identifies the generation that polled
	polled   int  // records
	asked    bool // the consumer was polled
	work     []*partitionWork
	outputs  []ProducedToTopic
	firing   *firing
	unknown  error                     // of a commit that may have taken effect
	aborted  bool                      // the transaction was
	offsets  map[TopicPartition]int64  // to be committed
	notes    map[TopicPartition]string // kept beside them
}

// partitionWork is what a round processes of one logical partition.
type partitionWork struct {
	*logicalPartition
	input map[string][]ConsumedRecord
	outcome
	journaled bool // the round is in the partition's journal
	metrics   MetricsSnapshot
}

// firing is a barrier that fires in a round.
type firing struct {
	cut        BarrierCut
	partitions []*logicalPartition
	aligned    []*topicProgress
	copies     []*saving // of partitions, where the store knows positions
}

// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// at returns the partition of the topic that holds a logical partition. The
// caller holds the turn.
func (s *StateStore) at(ctx context.Context, partition int) (columnar.TopicPartition, error) {
	if partition < 0 {
		return columnar.TopicPartition{}, fmt.Errorf("kafka: state of partition %d: the number is negative", partition)
	}
	if s.partitions == 0 {
		counts, err := s.PartitionCounts(ctx, []string{s.topic})
		if err != nil {
			return columnar.TopicPartition{}, err
		}
		s.partitions = counts[s.topic]
	}
	return columnar.TopicPartition{Topic: s.topic, Partition: partition % s.partitions}, nil
}

// index returns what is known of a logical partition. The caller holds the turn.
func (s *StateStore) index(partition int) *stateIndex {
	x := s.indexes[partition]
	if x == nil {
		x = newStateIndex()
		s.indexes[partition] = x
	}
	return x
}

// take folds a record of the log. Records that are not of this format are
// nobody's.
func (s *StateStore) take(record columnar.ConsumedRecord) {
	if key, err := decodeStateKey(record.Key); err == nil {
		s.index(int(key.partition)).take(key, record.Value, record.Offset)
	}
}

// exclusively runs use while no other call uses indexes and reader.
func (s *StateStore) exclusively(ctx context.Context, use func() error) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	return use()
}

// current reads the log to its end and shows the index of a partition.
func (s *StateStore) current(ctx context.Context, partition int, show func(*stateIndex)) error {
	return s.exclusively(ctx, func() error {
		tp, err := s.at(ctx, partition)
		if err != nil {
			return err
		}
		if err := s.reader.readToEnd(ctx, []columnar.TopicPartition{tp}, s.take); err != nil {
			return err
		}
		show(s.index(partition))
		return nil
	})
}

// known shows the index of a partition as far as it was read. A partition that
// was never asked about is read first.
func (s *StateStore) known(ctx context.Context, partition int, generation int64, show func(*stateIndex)) error {
	var stale error
	check := func(x *stateIndex) {
		if stale = x.stale(partition, generation); stale == nil {
			show(x)
		}
	}
	first := false
	err := s.exclusively(ctx, func() error {
		if first = s.indexes[partition] == nil; !first {
			check(s.indexes[partition])
		}
		return nil
	})
	if first && err == nil {
		err = s.current(ctx, partition, check)
	}
	if err == nil {
		err = stale
	}
	return err
}

// behind reads the log beyond an offset that was written, and shows the index.
func (s *StateStore) behind(ctx context.Context, partition int, offset int64, show func(*stateIndex)) error {
	return s.exclusively(ctx, func() error {
		tp, err := s.at(ctx, partition)
		if err != nil {
			return err
		}
		if err := s.reader.readBeyond(ctx, map[columnar.TopicPartition]int64{tp: offset + 1}, s.take); err != nil {
			return err
		}
		show(s.index(partition))
		return nil
	})
}

// owned is behind for a record that counts only for the present owner.
func (s *StateStore) owned(ctx context.Context, partition int, generation, offset int64, show func(*stateIndex)) error {
	var stale error
	err := s.behind(ctx, partition, offset, func(x *stateIndex) {
		if stale = x.stale(partition, generation); stale == nil {
			show(x)
		}
	})
	if err == nil {
		err = stale
	}
	return err
}

// stale returns an error if generation has been followed by another.
func (x *stateIndex) stale(partition int, generation int64) error {
	if generation >= x.generation {
		return nil
	}
	return &columnar.StaleOwnerError{Partition: partition, Generation: generation, Current: x.generation}
}

func (s *StateStore) record(key stateKey, value []byte) *kgo.Record {
	return &kgo.Record{Topic: s.topic, Key: key.encode(), Value: value, Partition: key.partition}
}

// write stores one record and returns its offset.
func (s *StateStore) write(ctx context.Context, key stateKey, value []byte) (int64, error) {
	record := s.record(key, value)
	if err := s.produce(ctx, []*kgo.Record{record}); err != nil {
		return 0, err
	}
	return record.Offset, nil
}

// remove deletes records, in order.
func (s *StateStore) remove(ctx context.Context, partition int, keys []stateKey) error {
	if len(keys) == 0 {
		return nil
	}
	records := make([]*kgo.Record, len(keys))
	for i, key := range keys {
		records[i] = s.record(key, nil)
	}
	if err := s.produce(ctx, records); err != nil {
		return err
	}
	return s.behind(ctx, partition, records[len(records)-1].Offset, func(*stateIndex) {})
}

// produce stores records of one logical partition, in order. The partition of
// each is the logical one when produce is called.
func (s *StateStore) produce(ctx context.Context, records []*kgo.Record) error {
	err := s.exclusively(ctx, func() error {
		for _, r := range records {
			tp, err := s.at(ctx, int(r.Partition))
			if err != nil {
				return err
			}
			r.Partition = int32(tp.Partition)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, result := range s.client.ProduceSync(ctx, records...) {
		if result.Err != nil {
			return s.sendError(result.Record, result.Err)
		}
	}
	return nil
}

// fetch reads the records from one offset to another.
func (s *StateStore) fetch(ctx context.Context, partition int, first, last int64, take func(stateKey, []byte, int64)) error {
	var tp columnar.TopicPartition
	err := s.exclusively(ctx, func() (err error) {
		tp, err = s.at(ctx, partition)
		return err
	})
	if err != nil {
		return err
	}
	select {
	case s.loading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.loading }()
	if err := s.loader.Assign([]columnar.TopicPartition{tp}); err != nil {
		return err
	}
	if err := s.loader.Seek(tp, first); err != nil {
		return err
	}
	return s.loader.readBeyond(ctx, map[columnar.TopicPartition]int64{tp: last + 1}, func(record columnar.ConsumedRecord) {
		if key, err := decodeStateKey(record.Key); err == nil && record.Offset <= last {
			take(key, record.Value, record.Offset)
		}
	})
}

// readBeyond reads assigned partitions until their positions reach ends. The
// error of a context that ends before is a [columnar.IncompleteReadError] too.
func (r *Reader) readBeyond(ctx context.Context, ends map[columnar.TopicPartition]int64, take func(columnar.ConsumedRecord)) error {
	r.await(ends)
	for left := r.behind(ends); left != nil; left = r.behind(ends) {
		records, err := r.Poll(ctx, cutPollTimeout)
		if isContext(err) {
			return fmt.Errorf("%w: %w", left, err)
		}
		if err != nil {
			return err
		}
		for _, tp := range sortedKeys(records) {
			for _, record := range records[tp] {
				take(record)
			}
		}
	}
	return nil
}

func sortedKeys[V any](m map[columnar.TopicPartition]V) []columnar.TopicPartition {
	partitions := make([]columnar.TopicPartition, 0, len(m))
	for tp := range maps.Keys(m) {
		partitions = append(partitions, tp)
	}
	sortPartitions(partitions)
	return partitions
}

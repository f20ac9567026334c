// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/krabkatest"
)

func init() {
	suite = append(suite, []suiteTest{
		{"members pass the suite of consumers", conforms(krabkatest.CheckConsumer)},
		{"members pass the suite of positions", conforms(krabkatest.CheckPositionReader)},
		{"producers pass their suite", conforms(krabkatest.CheckProducer)},
		{"transactional members pass their suite", conforms(krabkatest.CheckTransactionalProducer)},
		{"state topics pass the suite of snapshots", testStateTopicConforms},
	}...)
}

func conforms(check func(context.Context, krabkatest.Clients) error) func(*testing.T, cluster) {
	return func(t *testing.T, c cluster) {
		if err := check(t.Context(), c.conformance(t)); err != nil {
			t.Error(err)
		}
	}
}

// conformance is the adapter and the cluster as the suites of krabkatest need them.
func (c cluster) conformance(t *testing.T) krabkatest.Clients {
	manual := c.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	admin := kadm.NewClient(manual)
	return krabkatest.Clients{
		NewTopic: func(_ context.Context, partitions int) (string, error) { return c.topic(t, partitions), nil },
		NewGroup: func() string { return unique("group") },
		Produce: func(ctx context.Context, topic string, partition int, records ...columnar.ProduceRecord) error {
			for _, record := range records {
				sent := &kgo.Record{Topic: topic, Partition: int32(partition), Key: record.Key, Value: record.Value}
				if record.Timestamp > 0 {
					sent.Timestamp = time.UnixMilli(record.Timestamp)
				}
				for _, h := range record.Headers {
					sent.Headers = append(sent.Headers, kgo.RecordHeader(h))
				}
				if err := manual.ProduceSync(ctx, sent).FirstErr(); err != nil {
					return err
				}
			}
			return nil
		},
		Read: func(ctx context.Context, topic string, partition int) ([]columnar.ConsumedRecord, error) {
			return c.readRecords(ctx, t, at(topic, partition))
		},
		DeleteRecords: func(ctx context.Context, topic string, partition int, before int64) error {
			offset := kadm.Offset{Topic: topic, Partition: int32(partition), At: before}
			answer, err := admin.DeleteRecords(ctx, kadm.Offsets{topic: {int32(partition): offset}})
			return errors.Join(err, answer.Error())
		},
		NewMember: func(group string) (columnar.Consumer, func() error, error) {
			m, err := kafka.NewMember(group, c.opts(brisk()...)...)
			if err != nil {
				return nil, nil, err
			}
			return m, m.Close, nil
		},
		NewReader: func() (columnar.Consumer, func() error, error) {
			r, err := kafka.NewReader(c.opts()...)
			if err != nil {
				return nil, nil, err
			}
			return r, r.Close, nil
		},
		NewProducer: func() (columnar.Producer, func() error, error) {
			p, err := kafka.NewProducer(c.opts()...)
			if err != nil {
				return nil, nil, err
			}
			return p, p.Close, nil
		},
		NewTransactional: func(group, id string) (columnar.Consumer, columnar.TransactionalProducer, func() error, error) {
			m, err := kafka.NewTransactionalMember(group, id, c.opts(brisk()...)...)
			if err != nil {
				return nil, nil, nil, err
			}
			return m, m, m.Close, nil
		},
	}
}

// readRecords reads a partition up to its last stable offset with a reader of its own.
func (c cluster) readRecords(ctx context.Context, t *testing.T, tp columnar.TopicPartition) ([]columnar.ConsumedRecord, error) {
	r, err := kafka.NewReader(c.opts()...)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	one := []columnar.TopicPartition{tp}
	ends, err := r.EndOffsets(ctx, one)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(r.Assign(one), r.Seek(tp, 0)); err != nil {
		return nil, err
	}
	var records []columnar.ConsumedRecord
	for {
		positions, err := r.Positions(ctx, one)
		if err != nil || positions[tp] >= ends[tp] {
			return records, err
		}
		fetched, err := r.Poll(ctx, 50*time.Millisecond)
		if err != nil {
			return nil, err
		}
		records = append(records, fetched[tp]...)
	}
}

func testStateTopicConforms(t *testing.T, c cluster) {
	topic := unique("state")
	err := krabkatest.CheckSnapshotStore(t.Context(), func() (columnar.SnapshotStore, func() error, error) {
		s, err := kafka.NewStateStore(topic, c.opts()...)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, s.EnsureTopic(t.Context(), 2)
	})
	if err != nil {
		t.Error(err)
	}
}

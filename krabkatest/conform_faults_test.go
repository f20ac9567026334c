// SPDX-License-Identifier: Apache-2.0

package krabkatest_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/krabkatest"
)

type (
	partitions = []columnar.TopicPartition
	offsets    = map[columnar.TopicPartition]int64
	fetched    = map[columnar.TopicPartition][]columnar.ConsumedRecord
)

// bent is a member with a fault: a function that is set stands in for a method.
type bent struct {
	*krabkatest.TransactionalMember
	poll        func(ctx context.Context, timeout time.Duration) (fetched, error)
	seek        func(tp columnar.TopicPartition, offset int64) error
	commit      func(ctx context.Context, offsets offsets) error
	subscribe   func(topics []string, listener columnar.RebalanceListener) error
	positions   func(asked partitions) (offsets, error)
	pause       func(partitions)
	wake        func()
	bound       func(int)
	notify      func(func())
	stable      func(partitions) offsets
	counts      func([]string) (map[string]int, error)
	send        func(topic string, record columnar.ProduceRecord, done func(error))
	sendOffsets func(offsets offsets, notes map[columnar.TopicPartition]string, metadata any) error
	end         func(commit bool) error
	begin       func() error
}

func (b *bent) Poll(ctx context.Context, timeout time.Duration) (fetched, error) {
	if b.poll != nil {
		return b.poll(ctx, timeout)
	}
	return b.TransactionalMember.Poll(ctx, timeout)
}

func (b *bent) Seek(tp columnar.TopicPartition, offset int64) error {
	if b.seek != nil {
		return b.seek(tp, offset)
	}
	return b.TransactionalMember.Seek(tp, offset)
}

func (b *bent) CommitOffsets(ctx context.Context, o offsets) error {
	if b.commit != nil {
		return b.commit(ctx, o)
	}
	return b.TransactionalMember.CommitOffsets(ctx, o)
}

func (b *bent) Subscribe(topics []string, listener columnar.RebalanceListener) error {
	if b.subscribe != nil {
		return b.subscribe(topics, listener)
	}
	return b.TransactionalMember.Subscribe(topics, listener)
}

func (b *bent) Positions(ctx context.Context, asked partitions) (offsets, error) {
	if b.positions != nil {
		return b.positions(asked)
	}
	return b.TransactionalMember.Positions(ctx, asked)
}

func (b *bent) Pause(p partitions) {
	if b.pause != nil {
		b.pause(p)
		return
	}
	b.TransactionalMember.Pause(p)
}

func (b *bent) WakePoll() {
	if b.wake != nil {
		b.wake()
		return
	}
	b.TransactionalMember.WakePoll()
}

func (b *bent) BoundPolls(n int) {
	if b.bound != nil {
		b.bound(n)
		return
	}
	b.TransactionalMember.BoundPolls(n)
}

func (b *bent) NotifyRebalance(f func()) {
	if b.notify != nil {
		b.notify(f)
		return
	}
	b.TransactionalMember.NotifyRebalance(f)
}

func (b *bent) StableEnds(p partitions) offsets {
	if b.stable != nil {
		return b.stable(p)
	}
	return b.TransactionalMember.StableEnds(p)
}

func (b *bent) PartitionCounts(ctx context.Context, topics []string) (map[string]int, error) {
	if b.counts != nil {
		return b.counts(topics)
	}
	return b.TransactionalMember.PartitionCounts(ctx, topics)
}

func (b *bent) Send(topic string, record columnar.ProduceRecord, done func(error)) {
	if b.send != nil {
		b.send(topic, record, done)
		return
	}
	b.TransactionalMember.Send(topic, record, done)
}

func (b *bent) SendOffsets(o offsets, metadata any) error {
	return b.SendOffsetsNoted(context.Background(), o, nil, metadata)
}

func (b *bent) SendOffsetsNoted(ctx context.Context, o offsets, notes map[columnar.TopicPartition]string, metadata any) error {
	if b.sendOffsets != nil {
		return b.sendOffsets(o, notes, metadata)
	}
	return b.TransactionalMember.SendOffsetsNoted(ctx, o, notes, metadata)
}

func (b *bent) BeginTransaction() error {
	if b.begin != nil {
		return b.begin()
	}
	return b.TransactionalMember.BeginTransaction()
}

func (b *bent) CommitTransaction() error {
	if b.end != nil {
		return b.end(true)
	}
	return b.TransactionalMember.CommitTransaction()
}

func (b *bent) AbortTransaction() error {
	if b.end != nil {
		return b.end(false)
	}
	return b.TransactionalMember.AbortTransaction()
}

// each changes the records of each poll.
func (b *bent) each(change func(tp columnar.TopicPartition, records []columnar.ConsumedRecord) []columnar.ConsumedRecord) {
	b.poll = func(ctx context.Context, timeout time.Duration) (fetched, error) {
		records, err := b.TransactionalMember.Poll(ctx, timeout)
		for tp := range records {
			records[tp] = change(tp, records[tp])
		}
		return records, err
	}
}

// bentListener changes what a listener hears.
type bentListener struct {
	columnar.RebalanceListener
	assigned, revoked func(partitions)
}

func (l bentListener) OnPartitionsAssigned(p partitions) {
	if l.assigned != nil {
		l.assigned(p)
		return
	}
	l.RebalanceListener.OnPartitionsAssigned(p)
}

func (l bentListener) OnPartitionsRevoked(p partitions) {
	if l.revoked != nil {
		l.revoked(p)
		return
	}
	l.RebalanceListener.OnPartitionsRevoked(p)
}

// hears makes the member's listener one that change makes.
func (b *bent) hears(change func(listener columnar.RebalanceListener) columnar.RebalanceListener) {
	b.subscribe = func(topics []string, listener columnar.RebalanceListener) error {
		return b.TransactionalMember.Subscribe(topics, change(listener))
	}
}

// The table names for each fault of an implementation the suite and the case that
// catches it.
func TestSuitesCatchFaults(t *testing.T) {
	tests := []struct {
		fault string
		suite string
		by    string
		bend  func(b *bent, broker *krabkatest.Broker)
	}{
		{"null values become empty", "CheckConsumer", "records come in offset order, and what is nil stays nil", func(b *bent, _ *krabkatest.Broker) {
			b.each(func(_ columnar.TopicPartition, records []columnar.ConsumedRecord) []columnar.ConsumedRecord {
				for i := range records {
					records[i].Value = append([]byte{}, records[i].Value...)
				}
				return records
			})
		}},
		{"records come in another order", "CheckConsumer", "a seek moves the next record", func(b *bent, _ *krabkatest.Broker) {
			b.each(func(_ columnar.TopicPartition, records []columnar.ConsumedRecord) []columnar.ConsumedRecord {
				slices.Reverse(records)
				return records
			})
		}},
		{"an elapsed timeout is an error", "CheckConsumer", "a poll without records returns none and no error", func(b *bent, _ *krabkatest.Broker) {
			b.poll = func(ctx context.Context, timeout time.Duration) (fetched, error) {
				records, err := b.TransactionalMember.Poll(ctx, timeout)
				if err == nil && len(records) == 0 && timeout < 2*time.Millisecond {
					err = context.DeadlineExceeded
				}
				return records, err
			}
		}},
		{"a poll does not hear of its context", "CheckConsumer", "a poll ends with its context", func(b *bent, _ *krabkatest.Broker) {
			b.poll = func(ctx context.Context, timeout time.Duration) (fetched, error) {
				return b.TransactionalMember.Poll(context.WithoutCancel(ctx), timeout)
			}
		}},
		{"callbacks come outside of polls", "CheckConsumer", "each partition has one owner, told inside Poll", func(b *bent, _ *krabkatest.Broker) {
			b.subscribe = func(topics []string, listener columnar.RebalanceListener) error {
				if err := b.TransactionalMember.Subscribe(topics, listener); err != nil {
					return err
				}
				_, err := b.TransactionalMember.Poll(t.Context(), 0)
				return err
			}
		}},
		{"partitions are taken away without a word", "CheckConsumer", "each partition has one owner, told inside Poll", func(b *bent, _ *krabkatest.Broker) {
			b.hears(func(listener columnar.RebalanceListener) columnar.RebalanceListener {
				return bentListener{RebalanceListener: listener, revoked: func(partitions) {}}
			})
		}},
		{"a seek does nothing", "CheckConsumer", "a seek moves the next record", func(b *bent, _ *krabkatest.Broker) {
			b.seek = func(columnar.TopicPartition, int64) error { return nil }
		}},
		{"a seek in the callback is lost", "CheckConsumer", "a seek in the callback of the assignment counts", func(b *bent, _ *krabkatest.Broker) {
			inside := false
			b.hears(func(listener columnar.RebalanceListener) columnar.RebalanceListener {
				return bentListener{RebalanceListener: listener, assigned: func(p partitions) {
					inside = true
					listener.OnPartitionsAssigned(p)
					inside = false
				}}
			})
			b.seek = func(tp columnar.TopicPartition, offset int64) error {
				if inside {
					return nil
				}
				return b.TransactionalMember.Seek(tp, offset)
			}
		}},
		{"a seek of a strange partition succeeds", "CheckConsumer", "a seek of a partition that is not assigned is an error", func(b *bent, _ *krabkatest.Broker) {
			b.seek = func(tp columnar.TopicPartition, offset int64) error {
				// The error is what the fault swallows.
				_ = b.TransactionalMember.Seek(tp, offset)
				return nil
			}
		}},
		{"commits are not made", "CheckConsumer", "a commit outlives the member", func(b *bent, _ *krabkatest.Broker) {
			b.commit = func(context.Context, offsets) error { return nil }
		}},
		{"commits in the callback are refused", "CheckConsumer", "a commit in the callback of a revocation counts", func(b *bent, _ *krabkatest.Broker) {
			b.hears(func(listener columnar.RebalanceListener) columnar.RebalanceListener {
				return bentListener{RebalanceListener: listener, revoked: func(p partitions) {
					b.commit = func(context.Context, offsets) error { return errors.New("rebalance in progress") }
					listener.OnPartitionsRevoked(p)
					b.commit = nil
				}}
			})
		}},
		{"refused commits are not told", "CheckConsumer", "a commit of a partition of somebody else is an error", func(b *bent, _ *krabkatest.Broker) {
			b.commit = func(ctx context.Context, o offsets) error {
				// The error is what the fault swallows.
				_ = b.TransactionalMember.CommitOffsets(ctx, o)
				return nil
			}
		}},
		{"an offset out of range starts over in silence", "CheckConsumer", "an offset that was deleted is an error with the range", func(b *bent, broker *krabkatest.Broker) {
			b.poll = func(ctx context.Context, timeout time.Duration) (fetched, error) {
				records, err := b.TransactionalMember.Poll(ctx, timeout)
				if outside := new(columnar.OffsetOutOfRangeError); errors.As(err, &outside) {
					return fetched{}, b.TransactionalMember.Seek(outside.Partition, outside.Start)
				}
				return records, err
			}
		}},
		{"a paused partition goes on", "CheckConsumer", "a pause keeps the place", func(b *bent, _ *krabkatest.Broker) {
			b.pause = func(partitions) {}
		}},
		{"a woken poll sleeps on", "CheckConsumer", "a poll that waits can be woken", func(b *bent, _ *krabkatest.Broker) {
			b.wake = func() {}
		}},
		{"a bound is not kept", "CheckConsumer", "a bounded poll returns no more", func(b *bent, _ *krabkatest.Broker) {
			b.bound = func(int) {}
		}},
		{"nobody is told of a rebalance", "CheckConsumer", "a rebalance that waits is told", func(b *bent, _ *krabkatest.Broker) {
			b.notify = func(func()) {}
		}},
		{"the stable end is that of the first record", "CheckConsumer", "the stable end is behind the records", func(b *bent, _ *krabkatest.Broker) {
			b.stable = func(p partitions) offsets { return offsets{p[0]: 1} }
		}},
		{"a missing topic has no partitions", "CheckConsumer", "a topic that does not exist has no partition count", func(b *bent, broker *krabkatest.Broker) {
			b.counts = func(topics []string) (map[string]int, error) {
				return map[string]int{topics[0]: broker.Partitions(topics[0])}, nil
			}
		}},
		{"the position is that of the last record", "CheckPositionReader", "the position is behind what was delivered, and not ahead of it", func(b *bent, _ *krabkatest.Broker) {
			b.positions = func(asked partitions) (offsets, error) {
				at, err := b.TransactionalMember.Positions(t.Context(), asked)
				for tp, offset := range at {
					at[tp] = max(0, offset-1)
				}
				return at, err
			}
		}},
		{"the position is known with the first record", "CheckPositionReader", "the position of an empty partition is known, and of a strange one not", func(b *bent, _ *krabkatest.Broker) {
			b.positions = func(asked partitions) (offsets, error) {
				at, err := b.TransactionalMember.Positions(t.Context(), asked)
				maps.DeleteFunc(at, func(_ columnar.TopicPartition, offset int64) bool { return offset == 0 })
				return at, err
			}
		}},
		{"the position follows delivered records alone", "CheckPositionReader", "the position passes what is never delivered", func(b *bent, _ *krabkatest.Broker) {
			delivered := offsets{}
			b.each(func(tp columnar.TopicPartition, records []columnar.ConsumedRecord) []columnar.ConsumedRecord {
				delivered[tp] = records[len(records)-1].Offset + 1
				return records
			})
			b.positions = func(partitions) (offsets, error) { return maps.Clone(delivered), nil }
		}},
		{"a seek leaves the position", "CheckPositionReader", "the position is that of a seek", func(b *bent, _ *krabkatest.Broker) {
			highest := offsets{}
			b.positions = func(asked partitions) (offsets, error) {
				at, err := b.TransactionalMember.Positions(t.Context(), asked)
				for tp, offset := range at {
					highest[tp] = max(highest[tp], offset)
					at[tp] = highest[tp]
				}
				return at, err
			}
		}},
		{"null values are sent as empty ones", "CheckProducer", "what was acknowledged is there, as it was sent", func(b *bent, broker *krabkatest.Broker) {
			p := broker.NewProducer(nil)
			b.send = func(topic string, record columnar.ProduceRecord, done func(error)) {
				record.Value = append([]byte{}, record.Value...)
				p.Send(topic, record, done)
			}
		}},
		{"done is called twice", "CheckProducer", "done is called once for each record, also of concurrent sends", func(b *bent, broker *krabkatest.Broker) {
			p := broker.NewProducer(nil)
			b.send = func(topic string, record columnar.ProduceRecord, done func(error)) {
				p.Send(topic, record, func(err error) {
					done(err)
					if len(record.Key) == 1 && record.Key[0] == 0 {
						done(err)
					}
				})
			}
		}},
		{"a record is lost", "CheckProducer", "records of one key keep their order", func(b *bent, broker *krabkatest.Broker) {
			p := broker.NewProducer(nil)
			b.send = func(topic string, record columnar.ProduceRecord, done func(error)) {
				if string(record.Value) == "40" {
					done(nil)
					return
				}
				p.Send(topic, record, done)
			}
		}},
		{"records leave before the commit", "CheckTransactionalProducer", "records and offsets become visible together", func(b *bent, broker *krabkatest.Broker) {
			b.send = broker.NewProducer(nil).Send
		}},
		{"offsets are committed at once", "CheckTransactionalProducer", "an aborted transaction has not happened", func(b *bent, _ *krabkatest.Broker) {
			b.sendOffsets = func(o offsets, _ map[columnar.TopicPartition]string, _ any) error {
				return b.TransactionalMember.CommitOffsets(t.Context(), o)
			}
		}},
		{"a transaction without records is dropped", "CheckTransactionalProducer", "a transaction may hold offsets alone, or nothing", func(b *bent, _ *krabkatest.Broker) {
			sent := false
			b.send = func(topic string, record columnar.ProduceRecord, done func(error)) {
				sent = true
				b.TransactionalMember.Send(topic, record, done)
			}
			b.end = func(commit bool) error {
				if commit && sent {
					sent = false
					return b.TransactionalMember.CommitTransaction()
				}
				return b.TransactionalMember.AbortTransaction()
			}
		}},
		{"an abort without a transaction fails", "CheckTransactionalProducer", "an abort without a transaction does nothing", func(b *bent, _ *krabkatest.Broker) {
			open := false
			b.begin = func() error {
				open = true
				return b.TransactionalMember.BeginTransaction()
			}
			b.end = func(commit bool) error {
				if !open {
					return errors.New("invalid state")
				}
				open = false
				if commit {
					return b.TransactionalMember.CommitTransaction()
				}
				return b.TransactionalMember.AbortTransaction()
			}
		}},
		{"the next transaction meets the markers of the last", "CheckTransactionalProducer", "transactions follow each other at once", func(b *bent, _ *krabkatest.Broker) {
			count := 0
			b.end = func(commit bool) error {
				if count++; commit && count > 5 {
					return errors.Join(b.TransactionalMember.AbortTransaction(), &columnar.TransactionAbortedError{TransactionalID: "id", Cause: errors.New("CONCURRENT_TRANSACTIONS")})
				}
				if commit {
					return b.TransactionalMember.CommitTransaction()
				}
				return b.TransactionalMember.AbortTransaction()
			}
		}},
		{"a fenced commit is a failure like others", "CheckTransactionalProducer", "a newer owner of the id fences the older one", func(b *bent, _ *krabkatest.Broker) {
			b.send = func(topic string, record columnar.ProduceRecord, done func(error)) {
				b.TransactionalMember.Send(topic, record, func(err error) { done(plain(err)) })
			}
			b.end = func(commit bool) error {
				if commit {
					return plain(b.TransactionalMember.CommitTransaction())
				}
				return plain(b.TransactionalMember.AbortTransaction())
			}
		}},
		{"offsets are sent without a look at their owner", "CheckTransactionalProducer", "offsets of another member are refused", func(b *bent, broker *krabkatest.Broker) {
			b.sendOffsets = func(o offsets, notes map[columnar.TopicPartition]string, metadata any) error {
				err := b.TransactionalMember.SendOffsetsNoted(t.Context(), o, notes, metadata)
				if errors.As(err, new(*columnar.RebalancedError)) {
					return nil
				}
				return err
			}
		}},
		{"a generation that has passed is not looked at", "CheckTransactionalProducer", "offsets of a generation that has passed are refused", func(b *bent, _ *krabkatest.Broker) {
			b.sendOffsets = func(o offsets, notes map[columnar.TopicPartition]string, metadata any) error {
				err := b.TransactionalMember.SendOffsetsNoted(t.Context(), o, notes, metadata)
				if errors.As(err, new(*columnar.RebalancedError)) {
					return nil
				}
				return err
			}
		}},
		{"notes are dropped", "CheckTransactionalProducer", "a note stays beside its offset until the next commit", func(b *bent, _ *krabkatest.Broker) {
			b.sendOffsets = func(o offsets, _ map[columnar.TopicPartition]string, metadata any) error {
				return b.TransactionalMember.SendOffsetsNoted(t.Context(), o, nil, metadata)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broker := krabkatest.NewBroker()
				clients := krabkatest.BrokerClients(broker)
				clients.CaseTime = 3 * time.Second
				build := func(group, id string) *bent {
					b := &bent{TransactionalMember: broker.NewTransactionalMember(group, id)}
					tt.bend(b, broker)
					return b
				}
				ids := clients.NewGroup
				clients.NewMember = func(group string) (columnar.Consumer, func() error, error) {
					b := build(group, ids())
					return b, b.Close, nil
				}
				clients.NewTransactional = func(group, id string) (columnar.Consumer, columnar.TransactionalProducer, func() error, error) {
					b := build(group, id)
					return b, b, b.Close, nil
				}
				clients.NewProducer = func() (columnar.Producer, func() error, error) {
					b := build("producers", ids())
					return b, b.Close, nil
				}
				if caught := casesOf(suites[tt.suite](within(t), clients)); !slices.Contains(caught, tt.by) {
					t.Errorf("the fault is caught by %q, want %q", caught, tt.by)
				}
			})
		})
	}
	t.Run("a pause outlives the assignment", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			caught := casesOf(krabkatest.CheckConsumer(within(t), krabkatest.BrokerClients(krabkatest.NewBroker(krabkatest.WithPausesThatOutlive()))))
			want(t, "cases that catch it", []string{"a pause ends with the assignment"}, caught)
		})
	})
}

// plain is an error without its type.
func plain(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

// casesOf returns the names of the cases that a suite's error names.
func casesOf(err error) []string {
	var names []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			names = append(names, casesOf(one)...)
		}
		return names
	}
	if failed := new(krabkatest.CaseError); errors.As(err, &failed) {
		names = append(names, failed.Case)
	}
	return names
}

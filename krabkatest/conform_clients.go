// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// BrokerClients returns the clients of a broker, for the suites.
func BrokerClients(b *Broker) Clients {
	names := 0
	name := func(kind string) string {
		names++
		return fmt.Sprintf("%s-%d", kind, names)
	}
	return Clients{
		NewTopic: func(_ context.Context, partitions int) (string, error) {
			topic := name("topic")
			b.CreateTopic(topic, partitions)
			return topic, nil
		},
		NewGroup: func() string { return name("group") },
		Produce: func(_ context.Context, topic string, partition int, records ...columnar.ProduceRecord) error {
			_, err := b.Produce(topic, partition, records...)
			return err
		},
		Read: func(_ context.Context, topic string, partition int) ([]columnar.ConsumedRecord, error) {
			return b.Records(topic, partition), nil
		},
		DeleteRecords: func(_ context.Context, topic string, partition int, before int64) error {
			return b.DeleteRecords(topic, partition, before)
		},
		NewMember: func(group string) (columnar.Consumer, func() error, error) {
			m := b.NewMember(group)
			return m, m.Close, nil
		},
		NewReader: func() (columnar.Consumer, func() error, error) {
			r := b.NewReader(nil)
			return r, r.Close, nil
		},
		NewProducer: func() (columnar.Producer, func() error, error) {
			return b.NewProducer(nil), func() error { return nil }, nil
		},
		NewTransactional: func(group, id string) (columnar.Consumer, columnar.TransactionalProducer, func() error, error) {
			m := b.NewTransactionalMember(group, id)
			return m, m, m.Close, nil
		},
	}
}

// observed is a consumer under test with the listener that follows it.
type observed struct {
	columnar.Consumer
	close   func() error
	polling bool // a Poll is in progress
	owned   map[columnar.TopicPartition]bool
	wrong   []string // what the callbacks must not do
	on      func(event string, partitions []columnar.TopicPartition)
	values  map[columnar.TopicPartition][]string
}

func (o *observed) note(event string, partitions []columnar.TopicPartition) {
	if !o.polling {
		o.wrong = append(o.wrong, event+" outside a Poll")
	}
	for _, tp := range partitions {
		if o.owned[tp] == (event == "assigned") {
			o.wrong = append(o.wrong, fmt.Sprintf("%s/%d is %s and owned is %v", tp.Topic, tp.Partition, event, o.owned[tp]))
		}
	}
	if o.on != nil {
		o.on(event, partitions)
	}
	for _, tp := range partitions {
		o.owned[tp] = event == "assigned"
		if event != "assigned" {
			delete(o.owned, tp)
		}
	}
}

func (o *observed) OnPartitionsAssigned(p []columnar.TopicPartition) { o.note("assigned", p) }
func (o *observed) OnPartitionsRevoked(p []columnar.TopicPartition)  { o.note("revoked", p) }
func (o *observed) OnPartitionsLost(p []columnar.TopicPartition)     { o.note("lost", p) }

func (s *checks) observe(consumer columnar.Consumer, close func() error) *observed {
	s.closers = append(s.closers, close)
	return &observed{Consumer: consumer, close: close, owned: map[columnar.TopicPartition]bool{}, values: map[columnar.TopicPartition][]string{}}
}

// member returns a member under test that has subscribed.
func (s *checks) member(group string, topics ...string) (*observed, error) {
	consumer, close, err := s.clients.NewMember(group)
	if err != nil {
		return nil, err
	}
	o := s.observe(consumer, close)
	return o, o.Subscribe(topics, o)
}

// transactional returns a transactional member under test that has subscribed.
func (s *checks) transactional(group, id, topic string) (*observed, columnar.TransactionalProducer, error) {
	consumer, producer, close, err := s.clients.NewTransactional(group, id)
	if err != nil {
		return nil, nil, err
	}
	o := s.observe(consumer, close)
	return o, producer, o.Subscribe([]string{topic}, o)
}

// pollWait is how long the polls of the suites wait.
const pollWait = 50 * time.Millisecond

// poll polls once, checks what comes and keeps the values.
func (o *observed) poll(ctx context.Context) error {
	o.polling = true
	records, err := o.Poll(ctx, pollWait)
	o.polling = false
	if err != nil {
		return fmt.Errorf("poll: %w", err)
	}
	for tp, batch := range records {
		last := int64(-1)
		for _, record := range batch {
			if record.Partition != tp.Partition || record.Offset <= last {
				o.wrong = append(o.wrong, fmt.Sprintf("record of partition %d at offset %d under %s/%d behind offset %d", record.Partition, record.Offset, tp.Topic, tp.Partition, last))
			}
			last = record.Offset
			o.values[tp] = append(o.values[tp], string(record.Value))
		}
	}
	return nil
}

// until polls consumers in turn until done.
func (s *checks) until(what string, done func() bool, consumers ...*observed) error {
	for !done() {
		for _, o := range consumers {
			if err := o.poll(s.ctx); err != nil {
				return fmt.Errorf("waiting for %s: %w", what, err)
			}
			for _, wrong := range o.wrong {
				s.errorf("%s", wrong)
			}
			o.wrong = nil
		}
		if err := s.ctx.Err(); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
	return nil
}

// receive polls a consumer until it has so many values of a partition, returns and
// forgets them.
func (s *checks) receive(o *observed, tp columnar.TopicPartition, n int) ([]string, error) {
	err := s.until(fmt.Sprintf("%d records of %s/%d", n, tp.Topic, tp.Partition), func() bool { return len(o.values[tp]) >= n }, o)
	values := o.values[tp]
	delete(o.values, tp)
	return values, err
}

// expect receives values and compares them.
func (s *checks) expect(o *observed, tp columnar.TopicPartition, want ...string) error {
	got, err := s.receive(o, tp, len(want))
	if err == nil && !slices.Equal(got, want) {
		s.errorf("records of %s/%d are %q, want %q", tp.Topic, tp.Partition, got, want)
	}
	return err
}

// settle polls members until each of so many partitions of a topic has an owner and
// each member has one.
func (s *checks) settle(partitions int, members ...*observed) error {
	return s.until("an owner of every partition", func() bool {
		owners := map[columnar.TopicPartition]int{}
		idle := false
		for _, m := range members {
			idle = idle || len(m.owned) == 0
			for tp := range m.owned {
				owners[tp]++
			}
		}
		for tp, n := range owners {
			if n > 1 {
				s.errorf("%d members own %s/%d", n, tp.Topic, tp.Partition)
			}
		}
		return len(owners) == partitions && !idle
	}, members...)
}

// produce appends values to a partition.
func (s *checks) produce(topic string, partition int, values ...string) error {
	records := make([]columnar.ProduceRecord, len(values))
	for i, value := range values {
		records[i] = columnar.ProduceRecord{Key: []byte("k"), Value: []byte(value), Timestamp: int64(1000 + i)}
	}
	return s.clients.Produce(s.ctx, topic, partition, records...)
}

// expectOutput reads a topic's partition until it has the values, and says so when it
// gets others: the markers of a transaction may come some time after its end.
func (s *checks) expectOutput(topic, want string) error {
	var got string
	for range 100 {
		records, err := s.clients.Read(s.ctx, topic, 0)
		if err != nil {
			return err
		}
		values := make([]string, len(records))
		for i, record := range records {
			values[i] = string(record.Value)
		}
		if got = strings.Join(values, " "); got == want {
			return nil
		}
		timer := time.NewTimer(pollWait)
		select {
		case <-timer.C:
		case <-s.ctx.Done():
		}
		timer.Stop()
	}
	s.errorf("the records of %s are %q, want %q", topic, got, want)
	return nil
}

// topic creates a topic with values in its partition 0.
func (s *checks) topic(partitions int, values ...string) (string, columnar.TopicPartition, error) {
	topic, err := s.clients.NewTopic(s.ctx, partitions)
	if err == nil && len(values) > 0 {
		err = s.produce(topic, 0, values...)
	}
	return topic, columnar.TopicPartition{Topic: topic, Partition: 0}, err
}

// sendAll sends values to a topic and waits for their acknowledgements.
func (s *checks) sendAll(p columnar.Producer, topic string, values ...string) error {
	done := make(chan error, 2*len(values))
	for _, value := range values {
		p.Send(topic, columnar.ProduceRecord{Key: []byte("k"), Value: []byte(value), Timestamp: 1}, func(err error) { done <- err })
	}
	var errs []error
	for range values {
		select {
		case err := <-done:
			errs = append(errs, err)
		case <-s.ctx.Done():
			return fmt.Errorf("waiting for acknowledgements: %w", s.ctx.Err())
		}
	}
	return errors.Join(errs...)
}

// sorted returns the partitions of a set in order.
func sorted(set map[columnar.TopicPartition]bool) []columnar.TopicPartition {
	return slices.SortedFunc(maps.Keys(set), comparePartitions)
}

// pollRaw polls once and returns what comes.
func (o *observed) pollRaw(ctx context.Context) (map[columnar.TopicPartition][]columnar.ConsumedRecord, error) {
	o.polling = true
	defer func() { o.polling = false }()
	return o.Poll(ctx, pollWait)
}

// divide makes a second member take a partition from a first one that owns all, and
// returns the second and what moved.
func (s *checks) divide(group, topic string, first *observed, partitions int) (*observed, columnar.TopicPartition, error) {
	if err := s.settle(partitions, first); err != nil {
		return nil, columnar.TopicPartition{}, err
	}
	second, err := s.member(group, topic)
	if err == nil {
		err = s.settle(partitions, first, second)
	}
	if err != nil {
		return nil, columnar.TopicPartition{}, err
	}
	return second, sorted(second.owned)[0], nil
}

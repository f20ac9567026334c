// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// CheckConsumer checks that members of a group and readers do what a runner relies on
// a [columnar.Consumer] to do, with the optional seams that they have. It returns nil
// or the joined [*CaseError] values. ctx bounds the suite: what does not happen
// before it ends is a failure. It needs NewTopic, NewGroup, Produce, DeleteRecords,
// NewMember and NewReader.
func CheckConsumer(ctx context.Context, clients Clients) error {
	return runCases(ctx, "CheckConsumer", clients, []conformanceCase{
		{"records come in offset order, and what is nil stays nil", consumerRecords},
		{"a poll without records returns none and no error", consumerEmptyPoll},
		{"a poll ends with its context", consumerContext},
		{"each partition has one owner, told inside Poll", consumerOwners},
		{"a seek moves the next record", consumerSeeks},
		{"a seek in the callback of the assignment counts", consumerSeeksInCallback},
		{"a seek of a partition that is not assigned is an error", consumerSeeksElsewhere},
		{"a commit outlives the member", consumerCommits},
		{"a commit in the callback of a revocation counts", consumerCommitsInCallback},
		{"a commit of a partition of somebody else is an error", consumerCommitsElsewhere},
		{"an offset that was deleted is an error with the range", consumerOutOfRange},
		{"a pause keeps the place", consumerPauses},
		{"a pause ends with the assignment", consumerPauseEnds},
		{"a poll that waits can be woken", consumerWakes},
		{"a bounded poll returns no more", consumerBounds},
		{"a rebalance that waits is told", consumerNotifies},
		{"the stable end is behind the records", consumerStableEnds},
		{"a topic that does not exist has no partition count", consumerCounts},
		{"an assignment replaces the one before", consumerAssigns},
	})
}

func consumerRecords(s *checks) error {
	topic, tp, err := s.topic(1)
	if err != nil {
		return err
	}
	want := []columnar.ProduceRecord{
		{Key: []byte("k"), Value: []byte("v"), Timestamp: 1000, Headers: []columnar.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "b", Value: []byte{}}}},
		{Key: nil, Value: []byte("nil key"), Timestamp: 1001},
		{Key: []byte{}, Value: []byte("empty key"), Timestamp: 1002},
		{Key: []byte("tombstone"), Value: nil, Timestamp: 1003},
		{Key: []byte("empty value"), Value: []byte{}, Timestamp: 1004},
	}
	if err := s.clients.Produce(s.ctx, topic, 0, want...); err != nil {
		return err
	}
	m, err := s.member(s.clients.NewGroup(), topic)
	if err != nil {
		return err
	}
	var got []columnar.ConsumedRecord
	for len(got) < len(want) {
		records, err := m.pollRaw(s.ctx)
		if err != nil {
			return err
		}
		got = append(got, records[tp]...)
	}
	for i, record := range got {
		if i < len(want) && !sameRecord(want[i], record) {
			s.errorf("record %d is %+v, want %+v", i, record, want[i])
		}
	}
	return nil
}

// sameRecord compares records, telling nil from empty.
func sameRecord(want columnar.ProduceRecord, got columnar.ConsumedRecord) bool {
	same := func(a, b []byte) bool { return string(a) == string(b) && (a == nil) == (b == nil) }
	return same(want.Key, got.Key) && same(want.Value, got.Value) && want.Timestamp == got.Timestamp &&
		slices.EqualFunc(want.Headers, got.Headers, func(a, b columnar.RecordHeader) bool { return a.Key == b.Key && same(a.Value, b.Value) })
}

func consumerEmptyPoll(s *checks) error {
	topic, tp, err := s.topic(1)
	if err != nil {
		return err
	}
	m, err := s.member(s.clients.NewGroup(), topic)
	if err == nil {
		err = s.settle(1, m)
	}
	for _, timeout := range []time.Duration{0, time.Millisecond} {
		if err != nil {
			return err
		}
		var records map[columnar.TopicPartition][]columnar.ConsumedRecord
		if records, err = m.Poll(s.ctx, timeout); len(records[tp]) > 0 {
			s.errorf("a poll of %v returned %v", timeout, records)
		}
	}
	return err
}

func consumerContext(s *checks) error {
	topic, _, err := s.topic(1)
	if err != nil {
		return err
	}
	m, err := s.member(s.clients.NewGroup(), topic)
	if err == nil {
		err = s.settle(1, m)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	stop := time.AfterFunc(pollWait, cancel)
	defer stop.Stop()
	defer cancel()
	deadline, ok := s.ctx.Deadline()
	wait := time.Hour
	if ok {
		wait = 2 * time.Until(deadline)
	}
	if _, err := m.Poll(ctx, wait); !errors.Is(err, context.Canceled) || s.ctx.Err() != nil {
		s.errorf("a poll whose context was cancelled returned %v, want context.Canceled", err)
	}
	return nil
}

func consumerOwners(s *checks) error {
	topic, _, err := s.topic(4)
	if err != nil {
		return err
	}
	group := s.clients.NewGroup()
	first, err := s.member(group, topic)
	if err == nil {
		err = s.settle(4, first)
	}
	if err != nil {
		return err
	}
	second, err := s.member(group, topic)
	if err == nil {
		err = s.settle(4, first, second)
	}
	if err != nil {
		return err
	}
	for partition := range 4 {
		if err := s.produce(topic, partition, "x"); err != nil {
			return err
		}
	}
	if err := s.until("a record of every partition", func() bool { return len(first.values)+len(second.values) >= 4 }, first, second); err != nil {
		return err
	}
	for _, m := range []*observed{first, second} {
		for tp := range m.values {
			if !m.owned[tp] {
				s.errorf("a member got a record of %s/%d and owns %v", tp.Topic, tp.Partition, sorted(m.owned))
			}
		}
	}
	if err := second.close(); err != nil {
		return err
	}
	return s.settle(4, first)
}

func consumerSeeks(s *checks) error {
	topic, tp, err := s.topic(1, "a", "b", "c", "d")
	if err != nil {
		return err
	}
	m, err := s.member(s.clients.NewGroup(), topic)
	if err != nil {
		return err
	}
	if err := s.expect(m, tp, "a", "b", "c", "d"); err != nil {
		return err
	}
	for _, offset := range []int64{1, 3, 0} {
		if err := m.Seek(tp, offset); err != nil {
			return err
		}
		if err := s.expect(m, tp, []string{"a", "b", "c", "d"}[offset:]...); err != nil {
			return err
		}
	}
	return nil
}

func consumerSeeksInCallback(s *checks) error {
	topic, tp, err := s.topic(1, "a", "b", "c")
	if err != nil {
		return err
	}
	m, err := s.member(s.clients.NewGroup(), topic)
	if err != nil {
		return err
	}
	m.on = func(event string, _ []columnar.TopicPartition) {
		if event == "assigned" {
			if err := m.Seek(tp, 1); err != nil {
				s.errorf("seek: %v", err)
			}
		}
	}
	return s.expect(m, tp, "b", "c")
}

func consumerSeeksElsewhere(s *checks) error {
	topic, _, err := s.topic(1)
	if err != nil {
		return err
	}
	m, err := s.member(s.clients.NewGroup(), topic)
	if err == nil {
		err = s.settle(1, m)
	}
	if err == nil && m.Seek(columnar.TopicPartition{Topic: topic, Partition: 7}, 0) == nil {
		s.errorf("the seek succeeded")
	}
	return err
}

func consumerCommits(s *checks) error {
	topic, tp, err := s.topic(1, "a", "b", "c")
	if err != nil {
		return err
	}
	group := s.clients.NewGroup()
	m, err := s.member(group, topic)
	if err == nil {
		err = s.expect(m, tp, "a", "b", "c")
	}
	if err == nil {
		err = m.CommitOffsets(s.ctx, map[columnar.TopicPartition]int64{tp: 2})
	}
	if err == nil {
		err = m.close()
	}
	if err != nil {
		return err
	}
	next, err := s.member(group, topic)
	if err != nil {
		return err
	}
	if reader, ok := next.Consumer.(columnar.CommittedReader); ok {
		if err := s.settle(1, next); err != nil {
			return err
		}
		committed, err := reader.Committed(s.ctx, []columnar.TopicPartition{tp, {Topic: topic, Partition: 9}})
		if err != nil || len(committed) != 1 || committed[tp] != 2 {
			s.errorf("Committed = %v, %v; want 2 of %s/0 alone", committed, err, topic)
		}
	}
	return s.expect(next, tp, "c")
}

func consumerCommitsInCallback(s *checks) error {
	topic, _, err := s.topic(2)
	if err != nil {
		return err
	}
	for partition := range 2 {
		if err := s.produce(topic, partition, "a", "b"); err != nil {
			return err
		}
	}
	group := s.clients.NewGroup()
	first, err := s.member(group, topic)
	if err != nil {
		return err
	}
	first.on = func(event string, partitions []columnar.TopicPartition) {
		offsets := map[columnar.TopicPartition]int64{}
		for _, tp := range partitions {
			offsets[tp] = 1
		}
		if event == "revoked" {
			if err := first.CommitOffsets(s.ctx, offsets); err != nil {
				s.errorf("commit: %v", err)
			}
		}
	}
	second, moved, err := s.divide(group, topic, first, 2)
	if err != nil {
		return err
	}
	return s.expect(second, moved, "b")
}

func consumerCommitsElsewhere(s *checks) error {
	topic, _, err := s.topic(2)
	if err != nil {
		return err
	}
	group := s.clients.NewGroup()
	first, err := s.member(group, topic)
	if err != nil {
		return err
	}
	_, moved, err := s.divide(group, topic, first, 2)
	if err == nil && first.CommitOffsets(s.ctx, map[columnar.TopicPartition]int64{moved: 1}) == nil {
		s.errorf("the commit succeeded")
	}
	return err
}

func consumerOutOfRange(s *checks) error {
	topic, tp, err := s.topic(1, "a", "b", "c")
	if err != nil {
		return err
	}
	m, err := s.member(s.clients.NewGroup(), topic)
	if err == nil {
		err = s.expect(m, tp, "a", "b", "c")
	}
	if err == nil {
		err = s.clients.DeleteRecords(s.ctx, topic, 0, 2)
	}
	if err == nil {
		err = m.Seek(tp, 1)
	}
	if err != nil {
		return err
	}
	err = s.until("an error", func() bool { return false }, m)
	var outside *columnar.OffsetOutOfRangeError
	if !errors.As(err, &outside) || outside.Partition != tp || outside.Offset != 1 || outside.Start != 2 || outside.End != 3 {
		s.errorf("the poll returned %v, want an OffsetOutOfRangeError of offset 1 outside [2, 3]", err)
	}
	return nil
}

func consumerAssigns(s *checks) error {
	topic, tp, err := s.topic(2, "a", "b")
	if err != nil {
		return err
	}
	other := columnar.TopicPartition{Topic: topic, Partition: 1}
	if err := s.produce(topic, 1, "c", "d"); err != nil {
		return err
	}
	consumer, close, err := s.clients.NewReader()
	if err != nil {
		return err
	}
	r := s.observe(consumer, close)
	take := func(assigned columnar.TopicPartition, offset int64, want ...string) error {
		if err := r.Assign([]columnar.TopicPartition{assigned}); err != nil {
			return err
		}
		if err := r.Seek(assigned, offset); err != nil {
			return err
		}
		return s.expect(r, assigned, want...)
	}
	if err := errors.Join(take(tp, 1, "b"), take(other, 0, "c", "d")); err != nil {
		return err
	}
	if r.Seek(tp, 0) == nil {
		s.errorf("a partition of the assignment before can be sought")
	}
	if err := s.produce(topic, 0, "late"); err != nil {
		return err
	}
	if err := s.produce(topic, 1, "e"); err != nil {
		return err
	}
	if err := s.expect(r, other, "e"); err != nil {
		return err
	}
	if len(r.values[tp]) > 0 {
		s.errorf("a partition of the assignment before delivered %q", r.values[tp])
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"fmt"
	"strings"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

func consumerPauses(s *checks) error {
	topic, tp, err := s.topic(2)
	if err != nil {
		return err
	}
	other := columnar.TopicPartition{Topic: topic, Partition: 1}
	m, err := s.member(s.clients.NewGroup(), topic)
	if err == nil {
		err = s.settle(2, m)
	}
	pauser, ok := m.Consumer.(columnar.Pauser)
	if err != nil || !ok {
		return err
	}
	pauser.Pause([]columnar.TopicPartition{tp})
	for partition := range 2 {
		if err := s.produce(topic, partition, "a", "b"); err != nil {
			return err
		}
	}
	if err := s.expect(m, other, "a", "b"); err != nil {
		return err
	}
	if got := m.values[tp]; len(got) > 0 {
		s.errorf("the paused partition delivered %q", got)
	}
	pauser.Resume([]columnar.TopicPartition{tp})
	return s.expect(m, tp, "a", "b")
}

func consumerPauseEnds(s *checks) error {
	topic, _, err := s.topic(2)
	if err != nil {
		return err
	}
	group := s.clients.NewGroup()
	first, err := s.member(group, topic)
	if err != nil {
		return err
	}
	pauser, ok := first.Consumer.(columnar.Pauser)
	if !ok {
		return nil
	}
	if err := s.settle(2, first); err != nil {
		return err
	}
	pauser.Pause(sorted(first.owned))
	second, moved, err := s.divide(group, topic, first, 2)
	if err != nil {
		return err
	}
	if err := second.close(); err != nil {
		return err
	}
	if err := s.settle(2, first); err != nil {
		return err
	}
	if err := s.produce(topic, moved.Partition, "x"); err != nil {
		return err
	}
	return s.expect(first, moved, "x")
}

func consumerWakes(s *checks) error {
	topic, _, err := s.topic(1)
	if err != nil {
		return err
	}
	m, err := s.member(s.clients.NewGroup(), topic)
	if err == nil {
		err = s.settle(1, m)
	}
	waker, ok := m.Consumer.(columnar.PollWaker)
	if err != nil || !ok {
		return err
	}
	for range 2 {
		waker.WakePoll() // before the poll, which then does not wait
		if _, err := m.Poll(s.ctx, time.Hour); err != nil {
			return err
		}
	}
	wake := time.AfterFunc(pollWait, waker.WakePoll)
	defer wake.Stop()
	_, err = m.Poll(s.ctx, time.Hour)
	return err
}

func consumerBounds(s *checks) error {
	topic, tp, err := s.topic(1, "a", "b", "c", "d", "e")
	if err != nil {
		return err
	}
	m, err := s.member(s.clients.NewGroup(), topic)
	bounder, ok := m.Consumer.(columnar.PollBounder)
	if err != nil || !ok {
		return err
	}
	bounder.BoundPolls(2)
	var got []string
	for len(got) < 5 {
		records, err := m.pollRaw(s.ctx)
		if err != nil {
			return err
		}
		if n := len(records[tp]); n > 2 {
			s.errorf("a poll of 2 records returned %d", n)
		}
		for _, record := range records[tp] {
			got = append(got, string(record.Value))
		}
	}
	if all := strings.Join(got, ""); all != "abcde" {
		s.errorf("the records are %q", all)
	}
	return nil
}

func consumerNotifies(s *checks) error {
	topic, _, err := s.topic(2)
	if err != nil {
		return err
	}
	group := s.clients.NewGroup()
	first, err := s.member(group, topic)
	if err == nil {
		err = s.settle(2, first)
	}
	notifier, ok := first.Consumer.(columnar.RebalanceNotifier)
	if err != nil || !ok {
		return err
	}
	pending := make(chan struct{}, 1)
	notifier.NotifyRebalance(func() {
		select {
		case pending <- struct{}{}:
		default:
		}
	})
	second, err := s.member(group, topic)
	if err != nil {
		return err
	}
	for {
		if err := second.poll(s.ctx); err != nil {
			return fmt.Errorf("waiting for the call: %w", err)
		}
		select {
		case <-pending:
			return s.settle(2, first, second)
		case <-s.ctx.Done():
			return s.ctx.Err()
		default:
		}
	}
}

func consumerStableEnds(s *checks) error {
	topic, tp, err := s.topic(2, "a", "b", "c")
	if err != nil {
		return err
	}
	m, err := s.member(s.clients.NewGroup(), topic)
	ends, ok := m.Consumer.(columnar.StableEndReader)
	if err != nil || !ok {
		return err
	}
	if err := s.expect(m, tp, "a", "b", "c"); err != nil {
		return err
	}
	got := ends.StableEnds([]columnar.TopicPartition{tp, {Topic: topic, Partition: 1}})
	if len(got) != 1 || got[tp] < 3 {
		s.errorf("StableEnds = %v, want at least 3 of %s/0 alone", got, topic)
	}
	return nil
}

func consumerCounts(s *checks) error {
	topic, _, err := s.topic(3)
	if err != nil {
		return err
	}
	m, err := s.member(s.clients.NewGroup(), topic)
	counter, ok := m.Consumer.(columnar.PartitionCounter)
	if err != nil || !ok {
		return err
	}
	if counts, err := counter.PartitionCounts(s.ctx, []string{topic}); err != nil || counts[topic] != 3 {
		s.errorf("PartitionCounts = %v, %v; want 3", counts, err)
	}
	missing := topic + "-missing"
	if _, err := counter.PartitionCounts(s.ctx, []string{missing}); err == nil || !strings.Contains(err.Error(), missing) {
		s.errorf("PartitionCounts of a topic that does not exist returned %v, want an error that names it", err)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

//go:build integration

package coordination_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// logBytes returns the size of the only partition of a topic.
func (s *stage) logBytes(t *testing.T, topic string) int64 {
	t.Helper()
	ask := kmsg.NewPtrDescribeLogDirsRequest()
	asked := kmsg.NewDescribeLogDirsRequestTopic()
	asked.Topic, asked.Partitions = topic, []int32{0}
	ask.Topics = append(ask.Topics, asked)
	answer, err := ask.RequestWith(within(t, patience), s.client(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range answer.Dirs {
		for _, found := range dir.Topics {
			if found.Topic == topic && len(found.Partitions) == 1 {
				return found.Partitions[0].Size
			}
		}
	}
	t.Fatalf("no broker tells the size of %s", topic)
	return 0
}

// A renewal costs little, for the log and for the standbys that follow it,
// whatever the log holds.
func TestRenewalCostsLittleOnKafka(t *testing.T) {
	s := sharedStage(t)
	topic, r := s.compacted(t, 1), role(t, "controller-of-the-"+unique("cluster"))
	l := acquire(t, s.transport(t, standardConfig(t)), r, "node-1.example.org", topic)
	renew := func(times int) {
		t.Helper()
		for range times {
			if err := l.Renew(within(t, patience)); err != nil {
				t.Fatal(err)
			}
		}
		s.settled(t, topic, 0)
	}
	var requests wire
	polled := 0
	standby := s.transport(t, standardConfig(t), reporting(&requests), func(options *coordination.KafkaOptions) {
		options.Hooks.Fetched = func(_ coordination.TopicPartition, _, bytes int) { polled += bytes }
	})
	// poll returns the bytes and the requests of one look at the log.
	poll := func() (bytes, sent int) {
		t.Helper()
		polled, sent = 0, requests.all()
		if _, err := standby.ReadPartition(within(t, patience), at(topic, 0)); err != nil {
			t.Fatal(err)
		}
		return polled, requests.all() - sent
	}
	const renewals = 10
	s.settled(t, topic, 0)
	before := s.logBytes(t, topic)
	renew(renewals)
	perRenewal := (s.logBytes(t, topic) - before) / renewals
	if perRenewal > 300 || perRenewal < 100 {
		t.Errorf("a renewal takes %d bytes of log, want 100 to 300", perRenewal)
	}
	poll()
	for _, length := range []int{1, 50, 100} { // of the log between two polls
		renew(length)
		poll()
		renew(1)
		bytes, sent := poll()
		if int64(bytes) != perRenewal || sent != 1 {
			t.Errorf("a poll after one renewal takes %d bytes and %d requests, want %d bytes and 1 request", bytes, sent, perRenewal)
		}
		if bytes, sent = poll(); bytes != 0 || sent != 1 {
			t.Errorf("a poll after none takes %d bytes and %d requests, want 0 bytes and 1 request", bytes, sent)
		}
	}
	t.Logf("%d bytes of log a renewal", perRenewal)
}

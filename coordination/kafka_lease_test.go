// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func TestKafkaTransportKeepsOneTokenForATerm(t *testing.T) {
	s := fakeStage(t)
	topic := s.compacted(t, 1)
	var requests wire
	transport := s.transport(t, standardConfig(t), counting(&requests))
	ctx := within(t, patience)
	controller := role(t, "controller")

	l, err := coordination.AcquireLeadership(ctx, transport, controller, member(t, "node-1"),
		coordination.WithTopic(topic), coordination.WithPartitions(1))
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, l)
	minted := l.Token()
	for n := range 5 {
		if err := l.Renew(ctx); err != nil {
			t.Fatalf("renewal %d: %v", n, err)
		}
		status, err := coordination.DescribeLeadership(ctx, transport, controller)
		if err != nil {
			t.Fatal(err)
		}
		if l.Token() != minted || !status.Authoritative(l.Token()) {
			t.Errorf("after renewal %d: token %s, minted %s, the coordinator holds %s", n, l.Token(), minted, status.Token)
		}
	}
	if got := requests.of(kmsg.InitProducerID); got != 1 {
		t.Errorf("%d InitProducerId requests, want 1", got)
	}
	if got := transport.Mode(); got != coordination.EpochModeStable {
		t.Errorf("mode = %s, want %s", got, coordination.EpochModeStable)
	}
}

func TestKafkaTransportFencesTheFirstMinter(t *testing.T) {
	s := fakeStage(t)
	topic := s.compacted(t, 1)
	first, second := s.transport(t, standardConfig(t)), s.transport(t, standardConfig(t))
	ctx := within(t, patience)
	controller := role(t, "controller")
	key := coordination.EncodeKey(coordination.LeaseKey(controller))

	old, err := first.AcquireEpoch(ctx, controller)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.WriteLease(ctx, at(topic, 0), old, key, []byte("first")); err != nil {
		t.Fatal(err)
	}
	fresh, err := second.AcquireEpoch(ctx, controller)
	if err != nil {
		t.Fatal(err)
	}
	if !fresh.Supersedes(old) {
		t.Errorf("token %s does not supersede %s", fresh, old)
	}
	if err := second.WriteLease(ctx, at(topic, 0), fresh, key, []byte("second")); err != nil {
		t.Fatal(err)
	}
	if err := first.WriteLease(ctx, at(topic, 0), old, key, []byte("late")); !errors.Is(err, coordination.ErrFenced) {
		t.Errorf("late write: %v, want ErrFenced", err)
	}
	records, err := second.ReadPartition(ctx, at(topic, 0))
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, record := range records {
		values = append(values, string(record.Value))
	}
	if diff := cmp.Diff([]string{"first", "second"}, values); diff != "" {
		t.Errorf("committed leases mismatch (-want +got):\n%s", diff)
	}
}

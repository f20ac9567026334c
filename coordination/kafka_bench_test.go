// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// BenchmarkRenewal renews a lease. The twin commits the same record with the
// client's own transactional producer, which takes an epoch with every
// transaction and, by itself, when an answer is lost.
func BenchmarkRenewal(b *testing.B) {
	b.Run("leadership", func(b *testing.B) {
		s := distantStage(b)
		var requests wire
		transport := s.transport(b, standardConfig(b), reporting(&requests))
		l, err := coordination.AcquireLeadership(b.Context(), transport, role(b, "controller"), member(b, "node-1"),
			coordination.WithTopic(s.compacted(b, 1)), coordination.WithPartitions(1))
		if err != nil {
			b.Fatal(err)
		}
		release(b, l)
		before := requests.all()
		b.ReportAllocs()
		for b.Loop() {
			if err := l.Renew(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(requests.all()-before)/float64(b.N), "requests/op")
	})
	b.Run("naive", func(b *testing.B) {
		s := distantStage(b)
		topic := s.compacted(b, 1)
		var requests wire
		client := s.client(b, kgo.TransactionalID("controller"), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0), kgo.WithHooks(&requests))
		r := role(b, "controller")
		key := coordination.EncodeKey(coordination.LeaseKey(r))
		value := coordination.EncodeLease(standardConfig(b).Grant(member(b, "node-1"), token(b, 4242, 7), 1_700_000_000_000))
		transact := func() {
			if err := client.BeginTransaction(); err != nil {
				b.Fatal(err)
			}
			if err := client.ProduceSync(b.Context(), &kgo.Record{Key: key, Value: value}).FirstErr(); err != nil {
				b.Fatal(err)
			}
			if err := client.EndTransaction(b.Context(), kgo.TryCommit); err != nil {
				b.Fatal(err)
			}
		}
		transact()
		before := requests.all()
		b.ReportAllocs()
		for b.Loop() {
			transact()
		}
		b.ReportMetric(float64(requests.all()-before)/float64(b.N), "requests/op")
	})
}

// BenchmarkPoll reads a partition in which nothing happened since the last
// read, as a standby does every poll interval. The twin reads it from the
// start with a new client.
func BenchmarkPoll(b *testing.B) {
	for _, records := range []int{100, 10_000} {
		s := distantStage(b)
		topic := s.compacted(b, 1)
		fill := s.client(b, kgo.DefaultProduceTopic(topic))
		key := coordination.EncodeKey(coordination.LeaseKey(role(b, "controller")))
		value := coordination.EncodeLease(standardConfig(b).Grant(member(b, "node-1"), token(b, 4242, 7), 1_700_000_000_000))
		for n := range records {
			fill.Produce(b.Context(), &kgo.Record{Key: key, Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					b.Errorf("record %d: %v", n, err)
				}
			})
		}
		if err := fill.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("log=%d/transport", records), func(b *testing.B) {
			transport := s.transport(b, standardConfig(b))
			poll := func() {
				got, err := transport.ReadPartition(b.Context(), at(topic, 0))
				if err != nil || len(got) == 0 || got[len(got)-1].Offset != int64(records)-1 {
					b.Fatalf("read %d records, %v", len(got), err)
				}
			}
			poll()
			b.ReportAllocs()
			for b.Loop() {
				poll()
			}
		})
		b.Run(fmt.Sprintf("log=%d/naive", records), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				client := s.client(b, kgo.FetchIsolationLevel(kgo.ReadCommitted()),
					kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
				for got := 0; got < records; {
					fetches := client.PollFetches(b.Context())
					if err := fetches.Err(); err != nil {
						b.Fatal(err)
					}
					got += fetches.NumRecords()
				}
				client.Close()
			}
		})
	}
}

// BenchmarkRoles measures what a role costs the process that holds it.
func BenchmarkRoles(b *testing.B) {
	s := distantStage(b)
	var cost footprint
	for b.Loop() {
		cost = holdRoles(b, s, 1000)
	}
	b.ReportMetric(float64(cost.bytes), "B/role")
	b.ReportMetric(float64(cost.goroutines), "goroutines/role")
}

// BenchmarkEvaluate decides what a standby in a roster does next.
func BenchmarkEvaluate(b *testing.B) {
	for _, members := range []int{3, 100} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			state := coordination.RoleState{Lease: &coordination.Lease{Member: member(b, "node-0"), Token: token(b, 4242, 7), GrantedAt: 0, Deadline: 30_000}}
			for n := range members {
				state.Roster = append(state.Roster, coordination.RosterEntry{Member: member(b, fmt.Sprint("node-", n)), Offset: int64(n)})
			}
			last, config := state.Roster[members-1].Member, standardConfig(b)
			b.ReportAllocs()
			for b.Loop() {
				if got := coordination.Evaluate(state, last, 1000, config); got.Action != coordination.ActionWait {
					b.Fatalf("decision %+v, want to wait", got)
				}
			}
		})
	}
}

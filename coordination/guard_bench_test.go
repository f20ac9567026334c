// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// Twins on one fake cluster: a write through the guard of a leadership, and
// one in a transaction of a client that nobody fences on behalf of a role.
func BenchmarkGuardedWrite(b *testing.B) {
	s := fakeStage(b)
	commands := unique("commands")
	s.create(b, commands, 1)
	for _, size := range []int{1, 100} {
		value := []byte("a command of a few dozen bytes, as they are")
		b.Run(fmt.Sprintf("records=%d/guarded", size), func(b *testing.B) {
			lease := leaseConfig(b, time.Minute, 20*time.Second, time.Second)
			l, err := coordination.AcquireLeadership(b.Context(), s.transport(b, lease), role(b, unique("role")), member(b, "node-1"),
				coordination.WithTopic(s.compacted(b, 1)), coordination.WithPartitions(1), coordination.WithLeaseConfig(lease))
			if err != nil {
				b.Fatal(err)
			}
			release(b, l)
			guard, err := l.Guard()
			if err != nil {
				b.Fatal(err)
			}
			records := make([]coordination.GuardedRecord, size)
			for i := range records {
				records[i] = coordination.GuardedRecord{Topic: commands, Value: value}
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := guard.Write(b.Context(), records...); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("records=%d/plain", size), func(b *testing.B) {
			client := s.client(b, kgo.TransactionalID(unique("plain")), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			records := make([]*kgo.Record, size)
			b.ReportAllocs()
			for b.Loop() {
				for i := range records {
					records[i] = &kgo.Record{Topic: commands, Value: value}
				}
				if err := client.BeginTransaction(); err != nil {
					b.Fatal(err)
				}
				if err := client.ProduceSync(b.Context(), records...).FirstErr(); err != nil {
					b.Fatal(err)
				}
				if err := client.EndTransaction(b.Context(), kgo.TryCommit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

func init() {
	suite = append(suite, suiteTest{"transactional rounds with the client's defaults are short", testShortRounds})
}

// longestRound is how long a transactional round without lag may take.
const longestRound = 500 * time.Millisecond

// defaultMetadataAge is how long the client waits for metadata by default.
const defaultMetadataAge = 5 * time.Second

// testShortRounds commits transactions with records one after the other. A
// transaction that follows a commit closely meets the markers of that commit.
func testShortRounds(t *testing.T, c cluster) {
	const rounds = 150
	in, out := c.topic(t, 1), c.topic(t, 8)
	m, err := kafka.NewTransactionalMember(unique("group"), unique("id"), c.opts()...)
	if err != nil {
		t.Fatalf("new member: %v", err)
	}
	closing(t, m)
	if err := m.Subscribe([]string{in}, nil); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	c.produce(t, in, 0, slices.Repeat([]string{"a"}, rounds)...)
	pollUntil(t, m, records(rounds))
	var long []time.Duration
	for n := range rounds {
		begun := time.Now()
		var values []string
		for i := range 16 {
			values = append(values, fmt.Sprint(n, "-", i))
		}
		if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): int64(n + 1)}, values...); err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		if took := time.Since(begun); n > 0 && took > longestRound {
			long = append(long, took)
		}
	}
	// A machine that is busy with much else may hold some rounds up for a moment, but
	// not for as long as the client waits for metadata by default, and not most.
	if len(long) > rounds/10 || len(long) > 0 && slices.Max(long) >= defaultMetadataAge {
		t.Errorf("%d of %d rounds took longer than %v: %v", len(long), rounds, longestRound, long)
	}
}

// The broker refuses the first records of each transaction for a while, because it
// still writes the markers of the transaction before.
func TestRecordsAreSentAgainSoonAfterMarkersHeldThemUp(t *testing.T) {
	c := newFake(t)
	in, out := c.topic(t, 1), c.topic(t, 1)
	m, err := kafka.NewTransactionalMember(unique("group"), unique("id"), c.opts()...)
	if err != nil {
		t.Fatalf("new member: %v", err)
	}
	closing(t, m)
	if err := m.Subscribe([]string{in}, nil); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	c.produce(t, in, 0, "a", "b", "c")
	pollUntil(t, m, records(3))
	for n := range 3 {
		fault := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.ConcurrentTransactions, Count: 2})
		begun := time.Now()
		if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): int64(n + 1)}, "x"); err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		if took := time.Since(begun); took >= defaultMetadataAge {
			t.Errorf("round %d took %v, as long as the client waits for metadata by default", n, took)
		}
		if hits := fault.Hits(); hits != 2 {
			t.Errorf("round %d: the records were refused %d times, want 2", n, hits)
		}
	}
}

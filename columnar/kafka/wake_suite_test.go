// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

func init() {
	suite = append(suite, []suiteTest{
		{"wake ends a poll that waits, or keeps the next from waiting", testWake},
		{"stable ends come with the records", testStableEnds},
	}...)
}

func testWake(t *testing.T, c cluster) {
	in := c.topic(t, 1)
	var k tracker
	m := c.member(t, unique("group"), &k, []string{in})
	pollAll(t, func() bool { return len(k.owned) == 1 }, m)
	r := c.reader(t)
	if err := r.Assign([]columnar.TopicPartition{at(in, 0)}); err != nil {
		t.Fatalf("assign: %v", err)
	}
	for name, consumer := range map[string]interface {
		columnar.Consumer
		columnar.PollWaker
	}{"member": m, "reader": r} {
		consumer.WakePoll()
		for _, when := range []string{"before", "during"} {
			begun := time.Now()
			polled := make(chan error, 1)
			go func() {
				records, err := consumer.Poll(within(t), patience)
				if len(records) > 0 {
					t.Errorf("a poll of the %s without records returned %v", name, records)
				}
				polled <- err
			}()
			if when == "during" {
				// Whether the poll waits already makes no difference.
				consumer.WakePoll()
			}
			if err := <-polled; err != nil {
				t.Errorf("poll of the %s with a wake %s it = %v, want no error", name, when, err)
			}
			if took := time.Since(begun); took > patience/2 {
				t.Errorf("poll of the %s with a wake %s it took %v", name, when, took)
			}
		}
	}
	c.produce(t, in, 0, "a")
	want := map[columnar.TopicPartition][]string{at(in, 0): {"a"}}
	if diff := cmp.Diff(want, pollUntil(t, m, records(1))); diff != "" {
		t.Errorf("records of the member after the wakes mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, pollUntil(t, r, records(1))); diff != "" {
		t.Errorf("records of the reader after the wakes mismatch (-want +got):\n%s", diff)
	}
}

// A fetch tells the stable end of its moment, which lies below an open transaction.
func testStableEnds(t *testing.T, c cluster) {
	in := c.topic(t, 1)
	c.produceTransaction(t, kgo.TryCommit, in, 0, "a", "b")
	c.openTransaction(t, in)
	r := c.reader(t)
	all := []columnar.TopicPartition{at(in, 0), at(in, 1)}
	if err := r.Assign(all[:1]); err != nil {
		t.Fatalf("assign: %v", err)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{}, r.StableEnds(all)); diff != "" {
		t.Errorf("stable ends before a fetch mismatch (-want +got):\n%s", diff)
	}
	pollUntil(t, r, records(2))
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 3}, r.StableEnds(all)); diff != "" {
		t.Errorf("stable ends mismatch (-want +got):\n%s", diff)
	}
}

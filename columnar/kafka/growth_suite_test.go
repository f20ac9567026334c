// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

func init() {
	runnerSuite = append(runnerSuite, suiteTest{"one topic of a join that gets a partition ends its runner", testJoinedTopicGrows})
}

// pairing is a join of orders with payments, exactly once.
type pairing struct {
	cluster
	orders, payments, out string
	group, dir            string
	member                *kafka.TransactionalMember // the latest
	next                  int64
	want                  map[int64]int
}

// pairs makes an order and its payment in a partition.
func (j *pairing) pairs(t testing.TB, partition int32, n int) {
	t.Helper()
	var orders, payments []string
	for range n {
		j.next++
		orders = append(orders, fmt.Sprintf(`{"order":%d}`, j.next))
		payments = append(payments, fmt.Sprintf(`{"order":%d}`, j.next))
		j.want[j.next] = 1
	}
	j.produce(t, j.orders, partition, orders...)
	j.produce(t, j.payments, partition, payments...)
}

func (j *pairing) topology(t testing.TB) *columnar.Topology {
	t.Helper()
	mem := memory.DefaultAllocator
	read, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{{Name: "order", Type: arrow.PrimitiveTypes.Int64}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	topology := columnar.NewTopology(mem)
	left, err := topology.AddSource("orders", []string{j.orders}, read)
	if err != nil {
		t.Fatal(err)
	}
	right, err := topology.AddSource("payments", []string{j.payments}, read)
	if err != nil {
		t.Fatal(err)
	}
	paid, err := topology.AddJoin("paid", columnar.Join{LeftKey: "order", RightKey: "order", Window: time.Hour, RightPrefix: "payment_"}, left, right)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.AddSink("out", j.out, read, paid); err != nil {
		t.Fatal(err)
	}
	return topology
}

// start starts a member in the place of the one before. Its runner may be refused.
func (j *pairing) start(t testing.TB, options ...columnar.GroupRunnerOption) (*columnar.GroupRunner, error) {
	t.Helper()
	m, err := kafka.NewTransactionalMember(j.group, j.group+"-0", j.opts(kgo.MetadataMaxAge(500*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, m)
	if j.member != nil {
		if err := j.member.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	j.member = m
	options = append(options, columnar.WithStateStore(columnar.NewFileStateStore(j.dir)))
	r, err := columnar.NewGroupRunner(j.topology(t), m, m, options...)
	if err == nil {
		t.Cleanup(func() { _ = r.Close() }) // an error of a runner that has ended is the test's to look at
	}
	return r, err
}

// paired counts the results of each order.
func (j *pairing) paired(t testing.TB) map[int64]int {
	t.Helper()
	paired := map[int64]int{}
	for _, value := range j.values(t, j.out) {
		var row struct {
			Order int64 `json:"left_order"`
		}
		if err := json.Unmarshal([]byte(value), &row); err != nil {
			t.Fatalf("result %s: %v", value, err)
		}
		paired[row.Order]++
	}
	return paired
}

// rounds runs rounds until every order has a result.
func (j *pairing) rounds(t testing.TB, r *columnar.GroupRunner) {
	t.Helper()
	ctx := within(t)
	for !maps.Equal(j.want, j.paired(t)) {
		if _, err := r.RunOnceTransactional(ctx, 200*time.Millisecond); err != nil && !columnar.IsRetriable(err) {
			t.Fatalf("round: %v", err)
		}
		if ctx.Err() != nil {
			t.Fatalf("results are %v after %v, want %v", j.paired(t), patience, j.want)
		}
	}
}

// First one topic of a join gets a partition, then the other, and then somebody says
// that the keys have stayed where they were.
func testJoinedTopicGrows(t *testing.T, c cluster) {
	j := &pairing{
		cluster: c, orders: c.topic(t, 2), payments: c.topic(t, 2), out: c.topic(t, 1), group: unique("pairing"), dir: t.TempDir(),
		want: map[int64]int{},
	}
	counts := func(orders, payments int) map[string]int {
		return map[string]int{j.orders: orders, j.payments: payments}
	}
	differ := func(what string, want *columnar.PartitionCountError, err error) {
		t.Helper()
		var changed *columnar.PartitionCountError
		if !errors.As(err, &changed) || columnar.IsRetriable(err) {
			t.Fatalf("%s = %v; want a lasting PartitionCountError", what, err)
		}
		if diff := cmp.Diff(want, changed); diff != "" {
			t.Errorf("%s: error mismatch (-want +got):\n%s", what, diff)
		}
	}
	grow := func(topic string) {
		t.Helper()
		if _, err := c.admin(t).CreatePartitions(t.Context(), 1, topic); err != nil {
			t.Fatalf("create partitions: %v", err)
		}
		ctx := within(t)
		for { // a broker learns of them a little later
			listed, err := c.admin(t).ListEndOffsets(ctx, topic)
			if err == nil && listed.Error() == nil && len(listed[topic]) == 3 {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("the partition of %s is not there: %v, %v", topic, err, listed.Error())
			}
		}
	}
	j.pairs(t, 0, 5)
	j.pairs(t, 1, 5)
	r, err := j.start(t)
	if err != nil {
		t.Fatal(err)
	}
	j.rounds(t, r)
	committed := c.committed(t, j.group, j.orders)

	grow(j.orders)
	differ("Run", &columnar.PartitionCountError{Counts: counts(3, 2), Before: counts(2, 2)}, r.Run(within(t)))
	j.pairs(t, 0, 3)
	if r, err = j.start(t); err != nil {
		t.Fatal(err)
	}
	var unequal *kafka.UnequalPartitionsError
	if err := r.Run(within(t)); !errors.As(err, &unequal) || !cmp.Equal(unequal.Counts, counts(3, 2)) {
		t.Errorf("Run with one topic larger = %v; want an UnequalPartitionsError of 3 and 2", err)
	}
	if diff := cmp.Diff(committed, c.committed(t, j.group, j.orders)); diff != "" {
		t.Errorf("committed offsets mismatch (-want +got):\n%s", diff)
	}

	grow(j.payments)
	if r, err = j.start(t); err != nil {
		t.Fatal(err)
	}
	differ("Run with both topics larger", &columnar.PartitionCountError{Counts: counts(3, 3), Before: counts(2, 2)}, r.Run(within(t)))
	j.pairs(t, 2, 4)
	if r, err = j.start(t, columnar.WithPartitionGrowth()); err != nil {
		t.Fatal(err)
	}
	j.rounds(t, r)
}

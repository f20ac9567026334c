// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// suiteTest is a test that must pass on any cluster, fake or real.
type suiteTest struct {
	name string
	run  func(*testing.T, cluster)
}

var suite = []suiteTest{
	{"member commits what it processed and goes on from there", testMemberCommits},
	{"transaction commits records and offsets together", testTransactionCommits},
	{"aborted transaction shows nothing and is read again", testTransactionAborts},
	{"transaction without records commits its offsets", testTransactionWithoutRecords},
	{"back to back transactions without records all commit", testTransactionsBackToBack},
	{"second member with the transactional id fences the first", testFencing},
	{"positions pass control records and aborted data", testPositions},
	{"reader ends at a control record", testReaderEnds},
	{"reader seeks back and forth", testReaderSeeks},
	{"cuts are published and numbered from the log", testCutsArePublished},
	{"open transaction bounds a cut", testOpenTransactionBoundsCut},
	{"deposed publisher is fenced", testDeposedPublisherIsFenced},
	{"cuts beyond the retained are deleted", testRetainedCuts},
	{"publisher leads before it publishes", testPublisherLeads},
	{"publishers run under an election", testPublisherRuns},
	{"late leader publishes nothing", testLateLeaderPublishesNothing},
	{"one publisher of three publishes", testOnePublisherOfThree},
	{"barrier topic must be compacted", testBarrierTopicIsChecked},
}

// runnerSuite is more of the suite: what a runner does whatever the version of
// the transaction protocol.
var runnerSuite []suiteTest

func TestOnFakeCluster(t *testing.T) {
	for _, tt := range slices.Concat(suite, runnerSuite) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, newFake(t))
		})
	}
}

func testMemberCommits(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a", "b", "c")
	m := c.member(t, group, nil, []string{in})
	got := pollUntil(t, m, records(3))
	if diff := cmp.Diff(map[columnar.TopicPartition][]string{at(in, 0): {"a", "b", "c"}}, got); diff != "" {
		t.Fatalf("polled mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]error{nil, nil}, sendAll(t, m, out, "x", "y")); diff != "" {
		t.Fatalf("outcomes mismatch (-want +got):\n%s", diff)
	}
	if err := m.CommitOffsets(within(t), map[columnar.TopicPartition]int64{at(in, 0): 2}); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 2}, c.committed(t, group, in)); diff != "" {
		t.Errorf("committed mismatch (-want +got):\n%s", diff)
	}
	committed, err := m.Committed(within(t), []columnar.TopicPartition{at(in, 0), at(out, 0)})
	if err != nil {
		t.Fatalf("committed: %v", err)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 2}, committed); diff != "" {
		t.Errorf("Committed mismatch (-want +got):\n%s", diff)
	}
	if err := m.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	next := c.member(t, group, nil, []string{in})
	if diff := cmp.Diff(map[columnar.TopicPartition][]string{at(in, 0): {"c"}}, pollUntil(t, next, records(1))); diff != "" {
		t.Errorf("second member mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x", "y"}, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func testTransactionCommits(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a", "b", "c")
	m := c.transactional(t, group, unique("id"), nil, []string{in})
	pollUntil(t, m, records(3))
	if err := m.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	if diff := cmp.Diff([]error{nil}, sendAll(t, m, out, "x")); diff != "" {
		t.Fatalf("outcomes mismatch (-want +got):\n%s", diff)
	}
	if got := c.committed(t, group, in); len(got) != 0 {
		t.Errorf("committed before the commit: %v", got)
	}
	// Fewer than were polled: what is held back is not committed.
	if err := m.SendOffsets(map[columnar.TopicPartition]int64{at(in, 0): 2}, m.GroupMetadata()); err != nil {
		t.Fatalf("send offsets: %v", err)
	}
	if err := m.CommitTransaction(); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 2}, c.committed(t, group, in)); diff != "" {
		t.Errorf("committed mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x"}, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
	positions, err := m.Positions(t.Context(), []columnar.TopicPartition{at(in, 0)})
	if err != nil || positions[at(in, 0)] != 3 {
		t.Errorf("positions = %v, %v; want the held record's end 3", positions, err)
	}
}

func testTransactionAborts(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a", "b", "c", "d")
	m := c.transactional(t, group, unique("id"), nil, []string{in})
	m.BoundPolls(2)
	for _, end := range []string{"abort", "commit", "abort", "abort", "commit"} {
		pollUntil(t, m, records(2))
		if err := m.BeginTransaction(); err != nil {
			t.Fatalf("begin: %v", err)
		}
		positions, err := m.Positions(t.Context(), []columnar.TopicPartition{at(in, 0)})
		if err != nil {
			t.Fatalf("positions: %v", err)
		}
		if diff := cmp.Diff([]error{nil}, sendAll(t, m, out, "x")); diff != "" {
			t.Fatalf("outcomes mismatch (-want +got):\n%s", diff)
		}
		if end == "abort" {
			if err := m.AbortTransaction(); err != nil {
				t.Fatalf("abort: %v", err)
			}
			continue
		}
		if err := m.SendOffsets(positions, m.GroupMetadata()); err != nil {
			t.Fatalf("send offsets: %v", err)
		}
		if err := m.CommitTransaction(); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 4}, c.committed(t, group, in)); diff != "" {
		t.Errorf("committed mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x", "x"}, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func testTransactionWithoutRecords(t *testing.T, c cluster) {
	in, group := c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a", "b")
	m := c.transactional(t, group, unique("id"), nil, []string{in})
	pollUntil(t, m, records(2))
	if err := m.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	if err := m.SendOffsets(map[columnar.TopicPartition]int64{at(in, 0): 2}, m.GroupMetadata()); err != nil {
		t.Fatalf("send offsets: %v", err)
	}
	if err := m.CommitTransaction(); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 2}, c.committed(t, group, in)); diff != "" {
		t.Errorf("committed mismatch (-want +got):\n%s", diff)
	}
}

func testTransactionsBackToBack(t *testing.T, c cluster) {
	const rounds = 12
	in, group := c.topic(t, 1), unique("group")
	var values []string
	for range rounds {
		values = append(values, "a")
	}
	c.produce(t, in, 0, values...)
	m := c.transactional(t, group, unique("id"), nil, []string{in})
	pollUntil(t, m, records(rounds))
	for offset := int64(1); offset <= rounds; offset++ {
		if err := m.BeginTransaction(); err != nil {
			t.Fatalf("begin: %v", err)
		}
		if err := m.SendOffsets(map[columnar.TopicPartition]int64{at(in, 0): offset}, m.GroupMetadata()); err != nil {
			t.Fatalf("send offsets: %v", err)
		}
		if err := m.CommitTransaction(); err != nil {
			t.Fatalf("commit %d: %v", offset, err)
		}
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): rounds}, c.committed(t, group, in)); diff != "" {
		t.Errorf("committed mismatch (-want +got):\n%s", diff)
	}
}

func testFencing(t *testing.T, c cluster) {
	in, out, group, id := c.topic(t, 1), c.topic(t, 1), unique("group"), unique("id")
	c.produce(t, in, 0, "a")
	first := c.transactional(t, group, id, nil, []string{in})
	pollUntil(t, first, records(1))
	if err := first.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	if diff := cmp.Diff([]error{nil}, sendAll(t, first, out, "old")); diff != "" {
		t.Fatalf("outcomes mismatch (-want +got):\n%s", diff)
	}
	second := c.transactional(t, group, id, nil, []string{in})
	if err := first.SendOffsets(map[columnar.TopicPartition]int64{at(in, 0): 1}, first.GroupMetadata()); err != nil {
		t.Fatalf("send offsets: %v", err)
	}
	var fenced *columnar.FencedError
	if err := first.CommitTransaction(); !errors.As(err, &fenced) || fenced.ID != id {
		t.Fatalf("commit of the fenced member = %v, want a FencedError of %q", err, id)
	}
	if err := first.BeginTransaction(); !errors.As(err, &fenced) {
		t.Errorf("begin of the fenced member = %v, want a FencedError", err)
	}
	if _, err := first.Poll(within(t), time.Second); !errors.As(err, &fenced) {
		t.Errorf("poll of the fenced member = %v, want a FencedError", err)
	}
	if err := first.Close(); err != nil {
		t.Errorf("close of the fenced member: %v", err)
	}
	pollUntil(t, second, records(1))
	if err := second.BeginTransaction(); err != nil {
		t.Fatalf("begin of the second member: %v", err)
	}
	if diff := cmp.Diff([]error{nil}, sendAll(t, second, out, "new")); diff != "" {
		t.Fatalf("outcomes mismatch (-want +got):\n%s", diff)
	}
	if err := second.SendOffsets(map[columnar.TopicPartition]int64{at(in, 0): 1}, second.GroupMetadata()); err != nil {
		t.Fatalf("send offsets: %v", err)
	}
	if err := second.CommitTransaction(); err != nil {
		t.Fatalf("commit of the second member: %v", err)
	}
	if diff := cmp.Diff([]string{"new"}, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func testPositions(t *testing.T, c cluster) {
	in, group := c.topic(t, 2), unique("group")
	c.produceTransaction(t, kgo.TryCommit, in, 0, "a", "b") // 0 1, marker 2
	c.produceTransaction(t, kgo.TryAbort, in, 0, "x")       // 3, marker 4
	c.produceTransaction(t, kgo.TryAbort, in, 1, "x", "y")  // 0 1, marker 2
	m := c.member(t, group, nil, []string{in})
	both := []columnar.TopicPartition{at(in, 0), at(in, 1)}
	want := map[columnar.TopicPartition]int64{at(in, 0): 5, at(in, 1): 3}
	positions := map[columnar.TopicPartition]int64{}
	got := pollUntil(t, m, func(map[columnar.TopicPartition][]string) bool {
		var err error
		if positions, err = m.Positions(t.Context(), both); err != nil {
			t.Fatalf("positions: %v", err)
		}
		return positions[at(in, 0)] >= 5 && positions[at(in, 1)] >= 3
	})
	if diff := cmp.Diff(want, positions); diff != "" {
		t.Errorf("positions mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition][]string{at(in, 0): {"a", "b"}}, got); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
	ends, err := m.EndOffsets(within(t), both)
	if err != nil {
		t.Fatalf("end offsets: %v", err)
	}
	if diff := cmp.Diff(want, ends); diff != "" {
		t.Errorf("end offsets mismatch (-want +got):\n%s", diff)
	}
}

func testReaderEnds(t *testing.T, c cluster) {
	in := c.topic(t, 1)
	c.produceTransaction(t, kgo.TryCommit, in, 0, "a", "b")
	c.produceTransaction(t, kgo.TryAbort, in, 0, "x")
	r := c.reader(t)
	if diff := cmp.Diff([]string{"a", "b"}, readToEnd(t, r, at(in, 0))); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
	positions, err := r.Positions(t.Context(), []columnar.TopicPartition{at(in, 0)})
	if err != nil {
		t.Fatalf("positions: %v", err)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 5}, positions); diff != "" {
		t.Errorf("positions mismatch (-want +got):\n%s", diff)
	}
}

type positionedReader interface {
	columnar.Consumer
	columnar.PositionReader
	columnar.OffsetRangeReader
}

// readToEnd reads one partition from its start up to the end that it had when
// the call began.
func readToEnd(t testing.TB, r positionedReader, tp columnar.TopicPartition) []string {
	t.Helper()
	partitions := []columnar.TopicPartition{tp}
	if err := r.Assign(partitions); err != nil {
		t.Fatalf("assign: %v", err)
	}
	starts, err := r.StartOffsets(within(t), partitions)
	if err != nil {
		t.Fatalf("start offsets: %v", err)
	}
	if err := r.Seek(tp, starts[tp]); err != nil {
		t.Fatalf("seek: %v", err)
	}
	ends, err := r.EndOffsets(within(t), partitions)
	if err != nil {
		t.Fatalf("end offsets: %v", err)
	}
	return pollUntil(t, r, func(map[columnar.TopicPartition][]string) bool {
		positions, err := r.Positions(t.Context(), partitions)
		if err != nil {
			t.Fatalf("positions: %v", err)
		}
		return positions[tp] >= ends[tp]
	})[tp]
}

func testReaderSeeks(t *testing.T, c cluster) {
	in := c.topic(t, 2)
	c.produce(t, in, 0, "a", "b", "c", "d")
	c.produce(t, in, 1, "w", "x")
	r := c.reader(t)
	if err := r.Seek(at(in, 0), 0); err == nil {
		t.Errorf("seek of an unassigned partition succeeded")
	}
	if err := r.Assign([]columnar.TopicPartition{at(in, 0)}); err != nil {
		t.Fatalf("assign: %v", err)
	}
	for _, step := range []struct {
		offset int64
		want   []string
	}{{3, []string{"d"}}, {0, []string{"a", "b", "c", "d"}}, {2, []string{"c", "d"}}, {2, []string{"c", "d"}}} {
		if err := r.Seek(at(in, 0), step.offset); err != nil {
			t.Fatalf("seek: %v", err)
		}
		got := pollUntil(t, r, records(len(step.want)))
		if diff := cmp.Diff(map[columnar.TopicPartition][]string{at(in, 0): step.want}, got); diff != "" {
			t.Fatalf("records from %d mismatch (-want +got):\n%s", step.offset, diff)
		}
	}
	if err := r.Assign([]columnar.TopicPartition{at(in, 1)}); err != nil {
		t.Fatalf("assign: %v", err)
	}
	got := pollUntil(t, r, records(2))
	if diff := cmp.Diff(map[columnar.TopicPartition][]string{at(in, 1): {"w", "x"}}, got); diff != "" {
		t.Errorf("records after Assign mismatch (-want +got):\n%s", diff)
	}
}

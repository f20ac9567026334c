// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

func init() {
	runnerSuite = append(runnerSuite, []suiteTest{
		{"records deleted before they were processed are an error, or a gap", eachMode(testRunnerOutOfRange)},
		{"topic that is made anew ends its reader", testRecreatedTopic},
		{"round that runs ends early for a rebalance", testRoundEndsForRebalance},
		{"partitions that are added end a runner with state", testAddedPartitions},
	}...)
}

// deleteBefore deletes the records of a partition below an offset.
func (j *tallyJob) deleteBefore(t testing.TB, partition int, offset int64) {
	t.Helper()
	offsets := kadm.Offsets{j.in: {int32(partition): kadm.Offset{Topic: j.in, Partition: int32(partition), At: offset}}}
	deleted, err := j.admin(t).DeleteRecords(t.Context(), offsets)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		t.Fatalf("delete records of %s/%d: %v", j.in, partition, err)
	}
}

// failing runs rounds until one fails.
func (m *tallyMember) failing(t testing.TB) error {
	t.Helper()
	ctx := within(t)
	for ctx.Err() == nil {
		if err := m.round(t); err != nil {
			return err
		}
	}
	t.Fatalf("no round failed in %v", patience)
	return nil
}

func testRunnerOutOfRange(t *testing.T, j *tallyJob) {
	j.fill(t, 9)
	first := j.start(t)
	first.rounds(t, first.drained(t))
	if err := errors.Join(first.Close(), first.client.Close()); err != nil {
		t.Fatalf("close: %v", err)
	}
	counted := j.counted()
	j.values(t, 0, 30)
	j.deleteBefore(t, 0, 33)
	failed := j.start(t)
	for range 2 {
		err := failed.failing(t)
		var outside *columnar.OffsetOutOfRangeError
		if !errors.As(err, &outside) || !errors.Is(err, kerr.OffsetOutOfRange) || columnar.IsRetriable(err) {
			t.Fatalf("round = %v, want a lasting OffsetOutOfRangeError", err)
		}
		outside.Cause = nil
		if diff := cmp.Diff(&columnar.OffsetOutOfRangeError{Partition: at(j.in, 0), Offset: 9, Start: 33, End: 39}, outside); diff != "" {
			t.Errorf("error mismatch (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(j.in, 0): 9, at(j.in, 1): 9}, j.committed(t, j.group, j.in)); diff != "" {
		t.Errorf("committed offsets mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(counted, failed.state(t)); diff != "" {
		t.Errorf("state mismatch (-want +got):\n%s", diff)
	}
	if err := errors.Join(failed.Close(), failed.client.Close()); err != nil {
		t.Fatalf("close: %v", err)
	}
	// Told to go on, a runner takes what is left.
	var gaps []columnar.GapInfo
	next := j.start(t, columnar.WithOutOfRange(columnar.OutOfRangeEarliest),
		columnar.WithHooks(columnar.Hooks{Gap: func(gap columnar.GapInfo) { gaps = append(gaps, gap) }}))
	next.rounds(t, next.drained(t))
	if diff := cmp.Diff([]columnar.GapInfo{{Partition: at(j.in, 0), From: 9, To: 33}}, gaps); diff != "" {
		t.Errorf("gaps mismatch (-want +got):\n%s", diff)
	}
	// Nine and six of thirty, of three kinds.
	counted[0] = "a0=5 b0=5 c0=5"
	if diff := cmp.Diff(counted, next.state(t)); diff != "" {
		t.Errorf("state behind the gap mismatch (-want +got):\n%s", diff)
	}
}

// A topic is deleted and one of the same name is made while a member reads it,
// and then a member comes whose group has committed more than the new one holds.
func testRecreatedTopic(t *testing.T, c cluster) {
	j := newTallyJob(t, c, false)
	j.fill(t, 9)
	m := j.start(t)
	m.rounds(t, m.drained(t))
	if _, err := j.admin(t).DeleteTopics(t.Context(), j.in); err != nil {
		t.Fatalf("delete topic: %v", err)
	}
	ctx := within(t)
	for { // until a broker has taken the deletion in
		resp, err := j.admin(t).CreateTopic(ctx, tallyPartitions, 1, nil, j.in)
		if err == nil && resp.Err == nil {
			break
		}
		if !errors.Is(resp.Err, kerr.TopicAlreadyExists) || ctx.Err() != nil {
			t.Fatalf("create topic: %v, %v", err, resp.Err)
		}
	}
	j.fill(t, 6)
	err := m.failing(t)
	var gone *columnar.TopicError
	if !errors.As(err, &gone) || gone.Topic != j.in || gone.Partition < 0 || columnar.IsRetriable(err) {
		t.Errorf("round = %v (retriable %v), want a lasting TopicError of a partition of %s", err, columnar.IsRetriable(err), j.in)
	}
	if stats := m.Stats(); stats.Rounds != 1 && stats.Rounds != 2 {
		t.Errorf("%d rounds, want none with records of the new topic", stats.Rounds)
	}
	// The runner has not been told to go on. Brokers forget the commits of a topic
	// with it, sooner or later; a group that has them meets another log.
	_ = m.Close() // saves nothing that a test looks at
	if err := m.client.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	var offsets kadm.Offsets
	offsets.AddOffset(j.in, 0, 9, -1)
	offsets.AddOffset(j.in, 1, 9, -1)
	if err := j.admin(t).CommitAllOffsets(t.Context(), j.group, offsets); err != nil {
		t.Fatalf("commit: %v", err)
	}
	next := j.start(t, columnar.WithOutOfRange(columnar.OutOfRangeEarliest))
	err = next.failing(t)
	var outside *columnar.OffsetOutOfRangeError
	if !errors.As(err, &outside) || outside.Partition.Topic != j.in || outside.Offset != 9 || outside.Start != 0 || outside.End != 6 {
		t.Errorf("round = %v, want an OffsetOutOfRangeError of offset 9 outside [0, 6] in %s", err, j.in)
	}
}

func testRoundEndsForRebalance(t *testing.T, c cluster) {
	j := newTallyJob(t, c, true)
	j.options = brisk()
	m := j.start(t, columnar.WithParallelism(1))
	m.rounds(t, func() bool { return len(m.positions(t)) == tallyPartitions })
	// A processor waits until another member wants to join.
	var waited error
	m.hold = func(pending <-chan struct{}) {
		j.member(t, j.group, nil, []string{j.in}, brisk()...)
		select {
		case <-pending:
		case <-time.After(patience):
			waited = errors.New("no processor learned that a rebalance waits")
		}
	}
	j.fill(t, 30)
	m.rounds(t, func() bool { return m.Stats().Rounds >= 1 })
	if waited != nil {
		t.Fatal(waited)
	}
	m.rounds(t, func() bool { return m.Stats().PartitionsRevoked == 1 })
	stats := m.Stats()
	if stats.RoundsFailed != 0 || stats.LongestRebalanceWait <= 0 || stats.PartitionsLost != 0 {
		t.Errorf("stats %+v; want the round committed and the wait measured", stats)
	}
}

// A topic gets more partitions while a member counts its values: keys have moved to
// other partitions than their counts.
func testAddedPartitions(t *testing.T, c cluster) {
	j := newTallyJob(t, c, false)
	j.options = []kgo.Opt{kgo.MetadataMinAge(50 * time.Millisecond), kgo.MetadataMaxAge(500 * time.Millisecond)}
	j.fill(t, 9)
	m := j.start(t)
	m.rounds(t, m.drained(t))
	if _, err := j.admin(t).CreatePartitions(t.Context(), 2, j.in); err != nil {
		t.Fatalf("create partitions: %v", err)
	}
	err := m.failing(t)
	var counts *columnar.PartitionCountError
	if !errors.As(err, &counts) || columnar.IsRetriable(err) {
		t.Fatalf("round = %v, want a lasting PartitionCountError", err)
	}
	want := &columnar.PartitionCountError{Counts: map[string]int{j.in: tallyPartitions + 2}, Before: map[string]int{j.in: tallyPartitions}}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("error mismatch (-want +got):\n%s", diff)
	}
	j.check(t)
}

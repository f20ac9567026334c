// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

func init() {
	suite = append(suite, []suiteTest{
		{"numbers of all topics go to one member", testCopartitioning},
		{"topics with unequal partition counts are refused", testUnequalPartitions},
		{"seek in the assigned callback counts", testSeekInCallback},
		{"position of an empty partition is known", testPositionOfEmptyPartition},
		{"commits never move backwards by accident", testCommitIsMonotonic},
		{"commit of a partition that is not assigned is refused", testCommitOfForeignPartition},
		{"transaction after an idle rebalance commits", testTransactionAfterRebalance},
		{"held records survive a rebalance", testHeldRecordsSurviveRebalance},
		{"aborts after a rebalance lose and repeat nothing", testAbortsAfterRebalance},
		{"commit waits for a join on its way", testCommitDuringJoin},
		{"round that outlasts its membership aborts", testSlowRound},
		{"rebalance that waits is announced", testRebalancePending},
		{"offset that was deleted is an error", testOutOfRange},
		{"deleted topic is an error", testDeletedTopic},
		{"nil stays nil and empty stays empty", testNilAndEmpty},
		{"second static member fences the first", testStaticFencing},
		{"close leaves a group that rebalances", testCloseWhileJoining},
		{"paused partition keeps its place", testPause},
		{"pause ends with the assignment", testPauseEndsWithAssignment},
		{"close ends a poll", testCloseEndsPoll},
	}...)
}

// brisk makes group changes show up soon.
func brisk(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{kgo.HeartbeatInterval(100 * time.Millisecond), kgo.RebalanceTimeout(30 * time.Second)}, more...)
}

// tracker is a listener that knows what its member owns.
type tracker struct {
	listener
	owned map[columnar.TopicPartition]bool
}

func (k *tracker) OnPartitionsAssigned(partitions []columnar.TopicPartition) {
	if k.owned == nil {
		k.owned = map[columnar.TopicPartition]bool{}
	}
	for _, tp := range partitions {
		k.owned[tp] = true
	}
	k.listener.OnPartitionsAssigned(partitions)
}

func (k *tracker) OnPartitionsRevoked(partitions []columnar.TopicPartition) {
	k.listener.OnPartitionsRevoked(partitions)
	for _, tp := range partitions {
		delete(k.owned, tp)
	}
}

func (k *tracker) OnPartitionsLost(partitions []columnar.TopicPartition) {
	k.listener.OnPartitionsLost(partitions)
	for _, tp := range partitions {
		delete(k.owned, tp)
	}
}

// numbers returns the owned partition numbers of a topic.
func (k *tracker) numbers(topic string) []int {
	var numbers []int
	for tp := range k.owned {
		if tp.Topic == topic {
			numbers = append(numbers, tp.Partition)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// pollAll polls members in turn until done, and returns what each delivered.
func pollAll(t testing.TB, done func() bool, members ...columnar.Consumer) []map[columnar.TopicPartition][]string {
	t.Helper()
	ctx := within(t)
	got := make([]map[columnar.TopicPartition][]string, len(members))
	for i := range got {
		got[i] = map[columnar.TopicPartition][]string{}
	}
	for !done() {
		for i, m := range members {
			records, err := m.Poll(ctx, 50*time.Millisecond)
			if err != nil {
				t.Fatalf("poll of member %d: %v", i, err)
			}
			for tp, rs := range records {
				for _, r := range rs {
					got[i][tp] = append(got[i][tp], string(r.Value))
				}
			}
		}
	}
	return got
}

func testCopartitioning(t *testing.T, c cluster) {
	a, b, group := c.topic(t, 4), c.topic(t, 4), unique("group")
	trackers := []*tracker{{}, {}, {}}
	whole := func(k *tracker) {
		if !slices.Equal(k.numbers(a), k.numbers(b)) {
			t.Errorf("a member owns %v of one topic and %v of the other", k.numbers(a), k.numbers(b))
		}
	}
	// spread tells when the members own this many numbers, whoever has which.
	spread := func(want ...int) func() bool {
		return func() bool {
			var all, sizes []int
			for _, k := range trackers {
				whole(k)
				sizes = append(sizes, len(k.numbers(a)))
				all = append(all, k.numbers(a)...)
			}
			slices.Sort(all)
			slices.Sort(sizes)
			return slices.Equal(all, []int{0, 1, 2, 3}) && slices.Equal(sizes, want)
		}
	}
	first := c.member(t, group, trackers[0], []string{a, b}, brisk()...)
	pollAll(t, spread(0, 0, 4), first)
	second := c.member(t, group, trackers[1], []string{a, b}, brisk()...)
	pollAll(t, spread(0, 2, 2), first, second)
	third := c.member(t, group, trackers[2], []string{a, b}, brisk()...)
	pollAll(t, spread(1, 1, 2), first, second, third)
	if err := second.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	trackers[1].owned = nil
	pollAll(t, spread(0, 2, 2), first, third)
	for _, k := range trackers {
		for _, event := range k.log() {
			if strings.Count(event, a) != strings.Count(event, b) {
				t.Errorf("callback splits a number: %s", event)
			}
			if strings.HasPrefix(event, "lost") {
				t.Errorf("partitions were lost: %s", event)
			}
		}
	}
}

func testUnequalPartitions(t *testing.T, c cluster) {
	a, b := c.topic(t, 4), c.topic(t, 8)
	m, err := kafka.NewMember(unique("group"), c.opts()...)
	if err != nil {
		t.Fatalf("new member: %v", err)
	}
	closing(t, m)
	var unequal *kafka.UnequalPartitionsError
	if err := m.Subscribe([]string{a, b}, nil); !errors.As(err, &unequal) {
		t.Fatalf("Subscribe = %v, want an UnequalPartitionsError", err)
	}
	if diff := cmp.Diff(map[string]int{a: 4, b: 8}, unequal.Counts); diff != "" {
		t.Errorf("counts mismatch (-want +got):\n%s", diff)
	}
	var k tracker
	free := c.member(t, unique("group"), &k, []string{a, b}, kafka.WithUnequalPartitions())
	pollAll(t, func() bool { return len(k.owned) == 12 }, free)
}

func testSeekInCallback(t *testing.T, c cluster) {
	in, group := c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a", "b", "c", "d")
	first := c.member(t, group, nil, []string{in})
	pollUntil(t, first, records(4))
	if err := first.CommitOffsets(within(t), map[columnar.TopicPartition]int64{at(in, 0): 3}); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if err := first.Seek(at(in, 1), 0); err == nil {
		t.Errorf("seek of a partition that is not assigned succeeded")
	}
	if err := first.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	l := &listener{}
	var m *kafka.Member
	l.assigned = func(partitions []columnar.TopicPartition) {
		committed, err := m.Committed(within(t), partitions)
		if err != nil || committed[at(in, 0)] != 3 {
			t.Errorf("Committed in the callback = %v, %v; want 3", committed, err)
		}
		if err := m.Seek(at(in, 0), 1); err != nil {
			t.Errorf("seek in the callback: %v", err)
		}
	}
	m, err := kafka.NewMember(group, c.opts()...)
	if err != nil {
		t.Fatalf("new member: %v", err)
	}
	closing(t, m)
	if err := m.Subscribe([]string{in}, l); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	got := pollUntil(t, m, records(3))
	if diff := cmp.Diff(map[columnar.TopicPartition][]string{at(in, 0): {"b", "c", "d"}}, got); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
	for _, offset := range []int64{2, 0} {
		if err := m.Seek(at(in, 0), offset); err != nil {
			t.Fatalf("seek: %v", err)
		}
		positions, err := m.Positions(t.Context(), []columnar.TopicPartition{at(in, 0)})
		if err != nil || positions[at(in, 0)] != offset {
			t.Errorf("position after seek = %v, %v; want %d", positions, err, offset)
		}
		want := []string{"a", "b", "c", "d"}[offset:]
		if diff := cmp.Diff(want, pollUntil(t, m, records(len(want)))[at(in, 0)]); diff != "" {
			t.Errorf("records from %d mismatch (-want +got):\n%s", offset, diff)
		}
	}
}

func testPositionOfEmptyPartition(t *testing.T, c cluster) {
	in, group := c.topic(t, 2), unique("group")
	c.produce(t, in, 1, "a", "b")
	if _, err := c.admin(t).DeleteRecords(t.Context(), kadm.Offsets{in: {1: kadm.Offset{Topic: in, Partition: 1, At: 2}}}); err != nil {
		t.Fatalf("delete records: %v", err)
	}
	m := c.member(t, group, nil, []string{in})
	var positions map[columnar.TopicPartition]int64
	got := pollUntil(t, m, func(map[columnar.TopicPartition][]string) bool {
		var err error
		if positions, err = m.Positions(t.Context(), []columnar.TopicPartition{at(in, 0), at(in, 1), at("unknown", 0)}); err != nil {
			t.Fatalf("positions: %v", err)
		}
		return len(positions) == 2
	})
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 0, at(in, 1): 2}, positions); diff != "" || len(got) > 0 {
		t.Errorf("records %v, positions mismatch (-want +got):\n%s", got, diff)
	}
}

func testCommitIsMonotonic(t *testing.T, c cluster) {
	in, group := c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a", "b", "c", "d")
	m := c.member(t, group, nil, []string{in})
	pollUntil(t, m, records(4))
	commit := func(offset, want int64) {
		t.Helper()
		if err := m.CommitOffsets(within(t), map[columnar.TopicPartition]int64{at(in, 0): offset}); err != nil {
			t.Fatalf("commit %d: %v", offset, err)
		}
		if got := c.committed(t, group, in)[at(in, 0)]; got != want {
			t.Errorf("committed after a commit of %d = %d, want %d", offset, got, want)
		}
	}
	commit(3, 3)
	commit(2, 3)
	commit(3, 3)
	commit(4, 4)
	// A restore seeks back, and its commit may follow.
	if err := m.Seek(at(in, 0), 1); err != nil {
		t.Fatalf("seek: %v", err)
	}
	commit(0, 4)
	commit(1, 1)
	commit(0, 1)
	commit(2, 2)
}

func testCommitOfForeignPartition(t *testing.T, c cluster) {
	in, group := c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a")
	m := c.member(t, group, nil, []string{in})
	pollUntil(t, m, records(1))
	var rebalanced *columnar.RebalancedError
	err := m.CommitOffsets(within(t), map[columnar.TopicPartition]int64{at(in, 0): 1, at("other", 0): 1})
	if !errors.As(err, &rebalanced) || rebalanced.Group != group || !strings.Contains(err.Error(), "other/0") {
		t.Errorf("commit = %v, want a RebalancedError of %q that names other/0", err, group)
	}
	if got := c.committed(t, group, in); len(got) > 0 {
		t.Errorf("committed = %v, want nothing", got)
	}
}

// commitRound commits the positions of partitions and one output in one
// transaction.
func commitRound(t testing.TB, m *kafka.TransactionalMember, out string, offsets map[columnar.TopicPartition]int64, values ...string) error {
	t.Helper()
	if err := m.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	if len(values) > 0 {
		sendAll(t, m, out, values...)
	}
	if err := m.SendOffsets(offsets, m.GroupMetadata()); err != nil {
		if abortErr := m.AbortTransaction(); abortErr != nil {
			t.Fatalf("abort: %v", abortErr)
		}
		return err
	}
	return m.CommitTransaction()
}

// joinAndLeave has a member join and leave the group while m polls.
func joinAndLeave(t testing.TB, c cluster, group string, k *tracker, topic string, m columnar.Consumer) map[columnar.TopicPartition][]string {
	t.Helper()
	all := len(k.owned)
	other := c.member(t, group, &tracker{}, []string{topic}, brisk()...)
	got := pollAll(t, func() bool { return len(k.owned) < all }, m, other)[0]
	if err := other.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	for tp, values := range pollAll(t, func() bool { return len(k.owned) == all }, m)[0] {
		got[tp] = append(got[tp], values...)
	}
	return got
}

func testTransactionAfterRebalance(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 2), c.topic(t, 1), unique("group")
	var k tracker
	m := c.transactional(t, group, unique("id"), &k, []string{in}, brisk()...)
	pollAll(t, func() bool { return len(k.owned) == 2 }, m)
	for range 2 {
		joinAndLeave(t, c, group, &k, in, m)
	}
	c.produce(t, in, 0, "a")
	pollUntil(t, m, records(1))
	if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): 1}, "x"); err != nil {
		t.Errorf("first transaction after rebalances: %v", err)
	}
	if diff := cmp.Diff([]string{"x"}, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
	// Both rebalances reached the listener.
	revocations := 0
	for _, event := range k.log() {
		if strings.HasPrefix(event, "revoked") {
			revocations++
		}
	}
	if revocations != 2 {
		t.Errorf("listener heard %d revocations, want 2: %q", revocations, k.log())
	}
}

func testHeldRecordsSurviveRebalance(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 2), c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a", "b", "c", "d")
	var k tracker
	m := c.transactional(t, group, unique("id"), &k, []string{in}, brisk()...)
	pollUntil(t, m, records(4))
	if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): 1}, "x"); err != nil {
		t.Fatalf("commit: %v", err)
	}
	// Number 1 goes to the newcomer, number 0 stays with its held records.
	var second tracker
	other := c.member(t, group, &second, []string{in}, brisk()...)
	got := pollAll(t, func() bool { return len(k.owned) == 1 && len(second.owned) == 1 }, m, other)[0]
	if !k.owned[at(in, 0)] {
		t.Fatalf("the member kept %v, want number 0", k.owned)
	}
	positions, err := m.Positions(t.Context(), []columnar.TopicPartition{at(in, 0)})
	if err != nil || positions[at(in, 0)] != 4 {
		t.Errorf("position after the rebalance = %v, %v; want 4", positions, err)
	}
	c.produce(t, in, 0, "e")
	for tp, values := range pollUntil(t, m, records(1)) {
		got[tp] = append(got[tp], values...)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition][]string{at(in, 0): {"e"}}, got); diff != "" {
		t.Errorf("records after the rebalance mismatch (-want +got):\n%s", diff)
	}
	if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): 5}, "y"); err != nil {
		t.Errorf("commit after the rebalance: %v", err)
	}
}

func testCommitDuringJoin(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 2), c.topic(t, 1), unique("group")
	var k tracker
	opts := brisk(kgo.RebalanceTimeout(5 * time.Second))
	m := c.transactional(t, group, unique("id"), &k, []string{in}, opts...)
	pollAll(t, func() bool { return len(k.owned) == 2 }, m)
	// The newcomer never polls, so the join that follows number 1's revocation
	// waits until the group gives the newcomer up.
	c.member(t, group, nil, []string{in}, opts...)
	pollAll(t, func() bool { return len(k.owned) == 1 }, m)
	c.produce(t, in, 0, "a")
	pollUntil(t, m, records(1))
	if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): 1}, "x"); err != nil {
		t.Errorf("commit: %v", err)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 1}, c.committed(t, group, in)); diff != "" {
		t.Errorf("committed mismatch (-want +got):\n%s", diff)
	}
}

func testAbortsAfterRebalance(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 2), c.topic(t, 1), unique("group")
	var values []string
	for i := range 20 {
		values = append(values, fmt.Sprintf("v%02d", i))
	}
	c.produce(t, in, 0, values...)
	var k tracker
	m := c.transactional(t, group, unique("id"), &k, []string{in}, brisk()...)
	m.BoundPolls(4)
	// step reads what is next and produces it again, value by value.
	step := func(end string) {
		t.Helper()
		got := pollUntil(t, m, records(1))
		positions, err := m.Positions(t.Context(), slices.Collect(maps.Keys(got)))
		if err != nil {
			t.Fatalf("positions: %v", err)
		}
		if end == "commit" {
			if err := commitRound(t, m, out, positions, got[at(in, 0)]...); err != nil {
				t.Fatalf("commit: %v", err)
			}
			return
		}
		if err := m.BeginTransaction(); err != nil {
			t.Fatalf("begin: %v", err)
		}
		sendAll(t, m, out, got[at(in, 0)]...)
		if err := m.AbortTransaction(); err != nil {
			t.Fatalf("abort: %v", err)
		}
	}
	step("commit")
	step("abort")
	other := c.member(t, group, &tracker{}, []string{in}, brisk()...)
	owned := len(k.owned)
	// The newcomer takes number 1; what is polled on the way is rolled back.
	for len(k.owned) == owned {
		pollAll(t, func() bool { return len(k.owned) < owned || ready(m, in) }, m, other)
		if err := m.BeginTransaction(); err != nil {
			t.Fatalf("begin: %v", err)
		}
		sendAll(t, m, out, "discarded")
		if err := m.AbortTransaction(); err != nil {
			t.Fatalf("abort: %v", err)
		}
	}
	if err := other.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	for len(c.values(t, out)) < len(values) {
		step("abort")
		step("commit")
	}
	if diff := cmp.Diff(values, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 20}, c.committed(t, group, in)); diff != "" {
		t.Errorf("committed mismatch (-want +got):\n%s", diff)
	}
}

// ready reports whether a member has delivered records beyond its commits.
func ready(m *kafka.TransactionalMember, topic string) bool {
	positions, err := m.Positions(context.Background(), []columnar.TopicPartition{at(topic, 0)})
	return err == nil && positions[at(topic, 0)] > 4
}

func testSlowRound(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a", "b")
	slow := c.transactional(t, group, unique("id"), nil, []string{in}, brisk(kgo.RebalanceTimeout(5*time.Second))...)
	pollUntil(t, slow, records(2))
	if err := slow.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	sendAll(t, slow, out, "slow")
	// While the round goes on, another member joins, and the group goes on
	// without the slow one.
	quick := c.transactional(t, group, unique("id"), nil, []string{in}, brisk(kgo.RebalanceTimeout(5*time.Second))...)
	pollUntil(t, quick, records(2))
	if err := commitRound(t, quick, out, map[columnar.TopicPartition]int64{at(in, 0): 2}, "quick"); err != nil {
		t.Fatalf("commit of the quick member: %v", err)
	}
	err := slow.SendOffsets(map[columnar.TopicPartition]int64{at(in, 0): 2}, slow.GroupMetadata())
	if err == nil {
		err = slow.CommitTransaction()
	}
	var aborted *columnar.TransactionAbortedError
	var rebalanced *columnar.RebalancedError
	if !errors.As(err, &aborted) && !errors.As(err, &rebalanced) {
		t.Errorf("end of the slow round = %v, want aborted or rebalanced", err)
	}
	if err := slow.AbortTransaction(); err != nil {
		t.Errorf("abort of the slow round: %v", err)
	}
	if diff := cmp.Diff([]string{"quick"}, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 2}, c.committed(t, group, in)); diff != "" {
		t.Errorf("committed mismatch (-want +got):\n%s", diff)
	}
}

func testRebalancePending(t *testing.T, c cluster) {
	in, group := c.topic(t, 2), unique("group")
	pending := make(chan struct{}, 16)
	var k tracker
	m := c.member(t, group, &k, []string{in}, brisk(kafka.WithRebalancePending(func() { pending <- struct{}{} }))...)
	pollAll(t, func() bool { return len(k.owned) == 2 }, m)
	for len(pending) > 0 {
		<-pending
	}
	// The member does not poll: the join waits, and says so.
	c.member(t, group, nil, []string{in}, brisk()...)
	select {
	case <-pending:
	case <-within(t).Done():
		t.Errorf("nobody said that a rebalance waits")
	}
}

func testOutOfRange(t *testing.T, c cluster) {
	in, group := c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a", "b", "c", "d")
	first := c.member(t, group, nil, []string{in})
	pollUntil(t, first, records(4))
	if err := first.CommitOffsets(within(t), map[columnar.TopicPartition]int64{at(in, 0): 1}); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if _, err := c.admin(t).DeleteRecords(t.Context(), kadm.Offsets{in: {0: kadm.Offset{Topic: in, Partition: 0, At: 3}}}); err != nil {
		t.Fatalf("delete records: %v", err)
	}
	m := c.member(t, group, nil, []string{in})
	for range 2 { // it lasts until somebody seeks
		var rangeErr *columnar.OffsetOutOfRangeError
		if err := pollError(t, m); !errors.As(err, &rangeErr) {
			t.Fatalf("poll = %v, want an OffsetOutOfRangeError", err)
		}
		rangeErr.Cause = nil
		if diff := cmp.Diff(&columnar.OffsetOutOfRangeError{Partition: at(in, 0), Offset: 1, Start: 3, End: 4}, rangeErr); diff != "" {
			t.Errorf("error mismatch (-want +got):\n%s", diff)
		}
	}
	if err := m.Seek(at(in, 0), 3); err != nil {
		t.Fatalf("seek: %v", err)
	}
	if diff := cmp.Diff([]string{"d"}, pollUntil(t, m, records(1))[at(in, 0)]); diff != "" {
		t.Errorf("records after the seek mismatch (-want +got):\n%s", diff)
	}
}

func testDeletedTopic(t *testing.T, c cluster) {
	in, group := c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a")
	m := c.member(t, group, nil, []string{in})
	pollUntil(t, m, records(1))
	if _, err := c.admin(t).DeleteTopics(t.Context(), in); err != nil {
		t.Fatalf("delete topic: %v", err)
	}
	var topicErr *columnar.TopicError
	err := pollError(t, m)
	if !errors.As(err, &topicErr) || topicErr.Topic != in || topicErr.Partition != 0 || columnar.IsRetriable(err) {
		t.Errorf("poll = %v (retriable %v), want a permanent TopicError of %s/0", err, columnar.IsRetriable(err), in)
	}
}

func testNilAndEmpty(t *testing.T, c cluster) {
	in, group := c.topic(t, 1), unique("group")
	m := c.member(t, group, nil, []string{in})
	want := []columnar.ProduceRecord{
		{Key: []byte("a"), Value: nil, Timestamp: 0},
		{Key: nil, Value: []byte("x"), Timestamp: 1724500000042},
		{Key: []byte{}, Value: []byte{}, Timestamp: 7, Headers: []columnar.RecordHeader{
			{Key: "h", Value: nil}, {Key: "h", Value: []byte{}}, {Key: "", Value: []byte("v")},
		}},
	}
	for _, record := range want {
		outcome := make(chan error, 2)
		m.Send(in, record, func(err error) { outcome <- err })
		if err := <-outcome; err != nil {
			t.Fatalf("send: %v", err)
		}
	}
	var got []columnar.ProduceRecord
	for len(got) < len(want) {
		polled, err := m.Poll(within(t), time.Second)
		if err != nil {
			t.Fatalf("poll: %v", err)
		}
		for _, r := range polled[at(in, 0)] {
			got = append(got, columnar.ProduceRecord{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" { // cmp tells nil from empty
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
	before := time.Now().UnixMilli()
	sendAll(t, m, in, "now")
	polled, err := m.Poll(within(t), patience)
	if err != nil {
		t.Fatalf("poll: %v", err)
	}
	if stamp := polled[at(in, 0)][0].Timestamp; stamp < before || stamp > time.Now().UnixMilli() {
		t.Errorf("timestamp of a record without one = %d, want between %d and now", stamp, before)
	}
}

func testStaticFencing(t *testing.T, c cluster) {
	in, group, id := c.topic(t, 1), unique("group"), unique("instance")
	c.produce(t, in, 0, "a")
	first := c.member(t, group, nil, []string{in}, brisk(kgo.InstanceID(id))...)
	pollUntil(t, first, records(1))
	second := c.member(t, group, nil, []string{in}, brisk(kgo.InstanceID(id))...)
	pollUntil(t, second, records(1))
	var fenced *columnar.FencedError
	if err := pollError(t, first); !errors.As(err, &fenced) || fenced.ID != id {
		t.Errorf("poll of the first member = %v, want a FencedError of %q", err, id)
	}
}

func testCloseWhileJoining(t *testing.T, c cluster) {
	in, group := c.topic(t, 1), unique("group")
	var k tracker
	idle := c.member(t, group, &k, []string{in}, brisk(kgo.RebalanceTimeout(2*patience))...)
	pollAll(t, func() bool { return len(k.owned) == 1 }, idle)
	// The idle member does not poll, so the join of the next one hangs.
	pending := make(chan struct{}, 16)
	joining := c.member(t, group, nil, []string{in}, brisk(kgo.RebalanceTimeout(2*patience), kgo.WithHooks(joinWatch{pending}))...)
	polled := make(chan error, 1)
	go func() {
		_, err := joining.Poll(context.Background(), patience)
		polled <- err
	}()
	select {
	case <-pending:
	case <-within(t).Done():
		t.Fatalf("the member does not join")
	}
	begun := time.Now()
	if err := joining.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if took := time.Since(begun); took > patience {
		t.Errorf("close took %v", took)
	}
	if err := <-polled; !errors.Is(err, kafka.ErrClosed) {
		t.Errorf("poll during Close = %v, want ErrClosed", err)
	}
	c.produce(t, in, 0, "a")
	pollUntil(t, idle, records(1))
}

// joinWatch tells of JoinGroup requests that were written.
type joinWatch struct{ written chan struct{} }

func (w joinWatch) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	const joinGroup = 11
	if key == joinGroup && err == nil {
		select {
		case w.written <- struct{}{}:
		default:
		}
	}
}

func testPause(t *testing.T, c cluster) {
	in, group := c.topic(t, 2), unique("group")
	var k tracker
	m := c.member(t, group, &k, []string{in})
	pollAll(t, func() bool { return len(k.owned) == 2 }, m)
	m.Pause([]columnar.TopicPartition{at(in, 0)})
	c.produce(t, in, 0, "a", "b")
	c.produce(t, in, 1, "x")
	if diff := cmp.Diff(map[columnar.TopicPartition][]string{at(in, 1): {"x"}}, pollUntil(t, m, records(1))); diff != "" {
		t.Errorf("records while paused mismatch (-want +got):\n%s", diff)
	}
	m.Resume([]columnar.TopicPartition{at(in, 0)})
	if diff := cmp.Diff(map[columnar.TopicPartition][]string{at(in, 0): {"a", "b"}}, pollUntil(t, m, records(2))); diff != "" {
		t.Errorf("records after Resume mismatch (-want +got):\n%s", diff)
	}
}

// A partition that was paused leaves the member and comes back. Nobody resumes it.
func testPauseEndsWithAssignment(t *testing.T, c cluster) {
	in, group := c.topic(t, 2), unique("group")
	var k tracker
	m := c.member(t, group, &k, []string{in}, brisk()...)
	both := []columnar.TopicPartition{at(in, 0), at(in, 1)}
	m.Pause(both) // of partitions that are not assigned: nothing
	pollAll(t, func() bool { return len(k.owned) == 2 }, m)
	m.Pause(both)
	joinAndLeave(t, c, group, &k, in, m)
	m.Resume([]columnar.TopicPartition{at(in, 0)}) // stayed, so its pause has stayed
	c.produce(t, in, 0, "a")
	c.produce(t, in, 1, "b")
	want := map[columnar.TopicPartition][]string{at(in, 0): {"a"}, at(in, 1): {"b"}}
	if diff := cmp.Diff(want, pollUntil(t, m, records(2))); diff != "" {
		t.Errorf("records after the partition came back mismatch (-want +got):\n%s", diff)
	}

	r := c.reader(t)
	assign := func(partitions []columnar.TopicPartition) {
		t.Helper()
		if err := r.Assign(partitions); err != nil {
			t.Fatalf("assign: %v", err)
		}
	}
	assign(both)
	r.Pause(both[1:])
	assign(both[:1])
	assign(both)
	if diff := cmp.Diff(want, pollUntil(t, r, records(2))); diff != "" {
		t.Errorf("records of the reader mismatch (-want +got):\n%s", diff)
	}
}

func testCloseEndsPoll(t *testing.T, c cluster) {
	in := c.topic(t, 1)
	var k tracker
	m := c.member(t, unique("group"), &k, []string{in})
	pollAll(t, func() bool { return len(k.owned) == 1 }, m)
	r := c.reader(t)
	if err := r.Assign([]columnar.TopicPartition{at(in, 0)}); err != nil {
		t.Fatalf("assign: %v", err)
	}
	for name, closed := range map[string]interface {
		columnar.Consumer
		closer
	}{"member": m, "reader": r} {
		polled := make(chan error, 1)
		go func() {
			_, err := closed.Poll(context.Background(), patience)
			polled <- err
		}()
		if err := closed.Close(); err != nil {
			t.Errorf("close of the %s: %v", name, err)
		}
		if err := <-polled; !errors.Is(err, kafka.ErrClosed) {
			t.Errorf("poll of the %s during Close = %v, want ErrClosed", name, err)
		}
		if _, err := closed.Poll(within(t), time.Second); !errors.Is(err, kafka.ErrClosed) {
			t.Errorf("poll of the %s after Close = %v, want ErrClosed", name, err)
		}
		if err := closed.Close(); err != nil {
			t.Errorf("second close of the %s: %v", name, err)
		}
	}
}

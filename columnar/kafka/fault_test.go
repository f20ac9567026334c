// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// Offsets without records are refused while the markers of the transaction
// before are being written.
func TestOffsetsWaitForTheMarkersOfTheTransactionBefore(t *testing.T) {
	c := newFake(t)
	in, group := c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a", "b")
	m := c.transactional(t, group, unique("id"), nil, []string{in})
	pollUntil(t, m, records(2))
	fault := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.ConcurrentTransactions, Count: 5})
	if err := commitRound(t, m, "", map[columnar.TopicPartition]int64{at(in, 0): 2}); err != nil {
		t.Errorf("commit: %v", err)
	}
	if hits := fault.Hits(); hits != 5 {
		t.Errorf("the offsets were refused %d times, want 5", hits)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 2}, c.committed(t, group, in)); diff != "" {
		t.Errorf("committed mismatch (-want +got):\n%s", diff)
	}
}

func TestRefusedOffsetsAbortTheTransaction(t *testing.T) {
	c := newFake(t)
	for _, code := range []*kerr.Error{kerr.ConcurrentTransactions, kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.InvalidCommitOffsetSize, kerr.UnknownServerError} {
		in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
		c.produce(t, in, 0, "a")
		m := c.transactional(t, group, unique("id"), nil, []string{in})
		pollUntil(t, m, records(1))
		fault := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: code})
		offsets := map[columnar.TopicPartition]int64{at(in, 0): 1}
		var aborted *columnar.TransactionAbortedError
		if err := commitRound(t, m, out, offsets, "x"); !errors.As(err, &aborted) || !columnar.IsRetriable(err) {
			t.Errorf("commit refused with %v = %v, want a retriable TransactionAbortedError", code, err)
		}
		if hits := fault.Hits(); hits != 1 {
			t.Errorf("%v came %d times, want once", code, hits)
		}
		pollUntil(t, m, records(1))
		if err := commitRound(t, m, out, offsets, "y"); err != nil {
			t.Errorf("second commit after %v: %v", code, err)
		}
		if diff := cmp.Diff([]string{"y"}, c.values(t, out)); diff != "" {
			t.Errorf("outputs after %v mismatch (-want +got):\n%s", code, diff)
		}
	}
}

// Brokers answer UNKNOWN_SERVER_ERROR although they have committed.
func TestCommitWithAnUnclearAnswerIsLookedUp(t *testing.T) {
	c := newFake(t)
	in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a")
	m := c.transactional(t, group, unique("id"), nil, []string{in})
	pollUntil(t, m, records(1))
	fault := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: kerr.UnknownServerError})
	var aborted *columnar.TransactionAbortedError
	if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): 1}, "x"); !errors.As(err, &aborted) {
		t.Errorf("commit = %v, want a TransactionAbortedError: the broker did not commit", err)
	}
	if fault.Hits() != 1 {
		t.Errorf("the fault was hit %d times", fault.Hits())
	}
	pollUntil(t, m, records(1))
	if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): 1}, "y"); err != nil {
		t.Errorf("second commit: %v", err)
	}
	if diff := cmp.Diff([]string{"y"}, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func TestFailedRecordAbortsTheTransaction(t *testing.T) {
	c := newFake(t)
	in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a")
	m := c.transactional(t, group, unique("id"), nil, []string{in})
	pollUntil(t, m, records(1))
	if err := m.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	if diff := cmp.Diff([]error{nil}, sendAll(t, m, out, "x")); diff != "" {
		t.Fatalf("outcomes mismatch (-want +got):\n%s", diff)
	}
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.MessageTooLarge})
	var topicErr *columnar.TopicError
	if errs := sendAll(t, m, out, "y"); !errors.As(errs[0], &topicErr) || topicErr.Topic != out || topicErr.Partition != 0 {
		t.Errorf("outcome = %v, want a TopicError of %s/0", errs, out)
	}
	if err := m.SendOffsets(map[columnar.TopicPartition]int64{at(in, 0): 1}, m.GroupMetadata()); err != nil {
		t.Fatalf("send offsets: %v", err)
	}
	var aborted *columnar.TransactionAbortedError
	if err := m.CommitTransaction(); !errors.As(err, &aborted) || !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("commit = %v, want a TransactionAbortedError for the record", err)
	}
	if got := c.values(t, out); len(got) > 0 {
		t.Errorf("outputs = %q, want none", got)
	}
}

// With the first version of the transaction protocol the client recovers from
// a stale epoch by initialising the id, which takes it back from its new owner.
func TestFencedMemberDoesNotTakeTheIDBack(t *testing.T) {
	for _, version := range []struct {
		name string
		max  *kversion.Versions
	}{{"first protocol", kversion.V3_7_0()}, {"second protocol", kversion.Stable()}} {
		t.Run(version.name, func(t *testing.T) {
			c := newFake(t, kfake.MaxVersions(version.max))
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
			inits := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Observe: true, Count: -1})
			var fenced *columnar.FencedError
			if errs := sendAll(t, first, out, "late"); !errors.As(errs[0], &fenced) || fenced.ID != id {
				t.Errorf("send of the fenced member = %v, want a FencedError", errs)
			}
			if err := first.AbortTransaction(); !errors.As(err, &fenced) {
				t.Errorf("abort of the fenced member = %v, want a FencedError", err)
			}
			if err := first.BeginTransaction(); !errors.As(err, &fenced) {
				t.Errorf("begin of the fenced member = %v, want a FencedError", err)
			}
			if errs := sendAll(t, first, out, "later"); !errors.As(errs[0], &fenced) {
				t.Errorf("send of the fenced member = %v, want a FencedError", errs)
			}
			if err := first.Close(); err != nil {
				t.Errorf("close of the fenced member: %v", err)
			}
			if hits := inits.Hits(); hits != 0 {
				t.Errorf("the fenced member initialised the id %d times", hits)
			}
			pollUntil(t, second, records(1))
			if err := commitRound(t, second, out, map[columnar.TopicPartition]int64{at(in, 0): 1}, "new"); err != nil {
				t.Errorf("commit of the second member: %v", err)
			}
			if diff := cmp.Diff([]string{"new"}, c.values(t, out)); diff != "" {
				t.Errorf("outputs mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPassingFetchErrorsAreWaitedOut(t *testing.T) {
	c := newFake(t)
	in := c.topic(t, 1)
	m := c.member(t, unique("group"), nil, []string{in})
	fault := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: in, Err: kerr.NotLeaderForPartition, Count: 5})
	c.produce(t, in, 0, "a")
	if diff := cmp.Diff([]string{"a"}, pollUntil(t, m, records(1))[at(in, 0)]); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
	if fault.Hits() != 5 {
		t.Errorf("the fault was hit %d times, want 5", fault.Hits())
	}
}

func TestLastingFetchErrorsDoNotSpin(t *testing.T) {
	c := newFake(t)
	in := c.topic(t, 1)
	var k tracker
	m := c.member(t, unique("group"), &k, []string{in})
	pollAll(t, func() bool { return len(k.owned) == 1 }, m)
	begun := time.Now()
	fault := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: in, Err: kerr.UnknownTopicOrPartition, Count: -1})
	if err := pollError(t, m); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("poll = %v, want the broker's answer", err)
	}
	hits := fault.Hits()
	took := time.Since(begun)
	if took < 4*time.Second {
		t.Errorf("the error came after %v, before the topic could be there", took)
	}
	if limit := int(took/(50*time.Millisecond)) + 5; hits > limit {
		t.Errorf("%d fetches in %v, want at most %d", hits, took, limit)
	}
}

func TestErrorDoesNotCostTheRecordsBesideIt(t *testing.T) {
	c := newFake(t)
	in := c.topic(t, 2)
	c.produce(t, in, 0, "a")
	m := c.member(t, unique("group"), nil, []string{in})
	pollUntil(t, m, records(1))
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: in, Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	c.produce(t, in, 0, "b")
	var got []string
	var failed error
	ctx := within(t)
	for len(got) == 0 || failed == nil {
		polled, err := m.Poll(ctx, 200*time.Millisecond)
		if ctx.Err() != nil {
			t.Fatalf("got %q, error %v", got, failed)
		}
		if err != nil && len(polled) > 0 {
			t.Errorf("a poll returned records and %v", err)
		}
		failed = errors.Join(failed, err)
		for _, r := range polled[at(in, 0)] {
			got = append(got, string(r.Value))
		}
	}
	var topicErr *columnar.TopicError
	if !errors.As(failed, &topicErr) || topicErr.Topic != in || topicErr.Partition != 1 {
		t.Errorf("error = %v, want a TopicError of %s/1", failed, in)
	}
	if diff := cmp.Diff([]string{"b"}, got); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
}

func TestRefusedCommitNamesThePartition(t *testing.T) {
	c := newFake(t)
	in, group := c.topic(t, 2), unique("group")
	c.produce(t, in, 0, "a")
	c.produce(t, in, 1, "b")
	m := c.member(t, group, nil, []string{in})
	pollUntil(t, m, records(2))
	offsets := map[columnar.TopicPartition]int64{at(in, 0): 1, at(in, 1): 1}
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: in, Partitions: []int32{1}, Err: kerr.OffsetMetadataTooLarge})
	var topicErr *columnar.TopicError
	if err := m.CommitOffsets(within(t), offsets); !errors.As(err, &topicErr) || topicErr.Topic != in || topicErr.Partition != 1 {
		t.Errorf("commit = %v, want a TopicError of %s/1", err, in)
	}
	var rebalanced *columnar.RebalancedError
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.IllegalGeneration})
	if err := m.CommitOffsets(within(t), offsets); !errors.As(err, &rebalanced) || rebalanced.Group != group {
		t.Errorf("commit = %v, want a RebalancedError of %q", err, group)
	}
	// What was refused is tried again.
	if err := m.CommitOffsets(within(t), offsets); err != nil {
		t.Errorf("commit: %v", err)
	}
	if diff := cmp.Diff(offsets, c.committed(t, group, in)); diff != "" {
		t.Errorf("committed mismatch (-want +got):\n%s", diff)
	}
}

func TestCommittedWaitsForPendingOffsets(t *testing.T) {
	c := newFake(t)
	in, group := c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a")
	m := c.member(t, group, nil, []string{in})
	pollUntil(t, m, records(1))
	if err := m.CommitOffsets(within(t), map[columnar.TopicPartition]int64{at(in, 0): 1}); err != nil {
		t.Fatalf("commit: %v", err)
	}
	fault := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Topic: in, Err: kerr.UnstableOffsetCommit, Count: 3})
	committed, err := m.Committed(within(t), []columnar.TopicPartition{at(in, 0)})
	if err != nil || committed[at(in, 0)] != 1 || fault.Hits() != 3 {
		t.Errorf("Committed = %v, %v after %d refusals; want 1 after 3", committed, err, fault.Hits())
	}
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Topic: in, Err: kerr.UnstableOffsetCommit, Count: -1})
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := m.Committed(short, []columnar.TopicPartition{at(in, 0)}); !errors.Is(err, kerr.UnstableOffsetCommit) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Committed within a context that ends = %v", err)
	}
}

// Compaction removes the last records and markers of a partition, so that its
// end is an offset that no fetch ever reaches.
func TestReaderEndsInAGap(t *testing.T) {
	c := newFake(t)
	in := c.topic(t, 1)
	c.produce(t, in, 0, "a", "b", "c", "d", "e")
	const gap = 2
	c.fake.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		req := request.(*kmsg.FetchRequest)
		if len(req.Topics) != 1 || req.Topics[0].Partitions[0].FetchOffset < gap {
			return nil, nil, false
		}
		if req.MaxWaitMillis > 0 {
			return nil, errors.New("silence"), true
		}
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		p := kmsg.NewFetchResponseTopicPartition()
		p.HighWatermark, p.LastStableOffset = 5, 5
		topic.Partitions = append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	r := c.reader(t)
	r.BoundPolls(gap)
	if err := r.Assign([]columnar.TopicPartition{at(in, 0)}); err != nil {
		t.Fatalf("assign: %v", err)
	}
	// Stop before the gap: whatever the fake sends beyond it is not there.
	got := pollUntil(t, r, records(gap))
	if diff := cmp.Diff([]string{"a", "b"}, got[at(in, 0)]); diff != "" {
		t.Fatalf("records mismatch (-want +got):\n%s", diff)
	}
	if err := r.Seek(at(in, 0), gap+1); err != nil {
		t.Fatalf("seek: %v", err)
	}
	if _, err := r.EndOffsets(within(t), []columnar.TopicPartition{at(in, 0)}); err != nil {
		t.Fatalf("end offsets: %v", err)
	}
	begun := time.Now()
	polled, err := r.Poll(within(t), patience)
	if err != nil || len(polled) > 0 {
		t.Fatalf("poll = %v, %v; want an empty result", polled, err)
	}
	positions, err := r.Positions(t.Context(), []columnar.TopicPartition{at(in, 0)})
	if err != nil || positions[at(in, 0)] != 5 {
		t.Errorf("position = %v, %v; want the end 5", positions, err)
	}
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("the poll took %v", took)
	}
}

func TestLeaderlessPartitionMakesACutPartial(t *testing.T) {
	c := newFake(t)
	in, barriers, group := c.topic(t, 2), unique("barriers"), unique("cuts")
	c.produce(t, in, 0, "a")
	p := c.publisher(t, group, barriers, []string{in})
	fault := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: in, Partitions: []int32{1}, Err: kerr.LeaderNotAvailable, Count: -1})
	partial := publish(t, p)
	want := columnar.BarrierCut{
		Group: group, Epoch: 1, Status: columnar.CutPartial,
		Offsets: map[columnar.TopicPartition]int64{at(in, 0): 1},
		Missing: []columnar.TopicPartition{at(in, 1)},
	}
	if diff := cmp.Diff(want, partial, ignoreTimes); diff != "" {
		t.Errorf("cut without a leader mismatch (-want +got):\n%s", diff)
	}
	fault.Remove()
	whole := publish(t, p)
	if whole.Epoch != 2 || !whole.Complete() {
		t.Errorf("cut with all leaders = %+v, want a complete one of epoch 2", whole)
	}
	if diff := cmp.Diff([]columnar.BarrierCut{whole}, c.cuts(t, group, barriers)); diff != "" {
		t.Errorf("complete cuts mismatch (-want +got):\n%s", diff)
	}
}

// A publisher is replaced while it holds a manifest that it has not committed.
func TestLateManifestIsRefused(t *testing.T) {
	c := newFake(t)
	in, barriers, group := c.topic(t, 1), unique("barriers"), unique("cuts")
	old := c.publisher(t, group, barriers, []string{in})
	first := publish(t, old)
	successor := c.publisher(t, group, barriers, []string{in})
	taken := make(chan columnar.BarrierCut, 1)
	var once atomic.Bool
	c.fake.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		if !once.CompareAndSwap(false, true) {
			return nil, nil, false
		}
		c.fake.SleepControl(func() {
			cut, err := successor.Publish(context.Background())
			if err != nil {
				t.Errorf("publish of the successor: %v", err)
			}
			taken <- cut
		})
		return nil, nil, false
	})
	var fenced *columnar.FencedError
	if cut, err := old.Publish(within(t)); !errors.As(err, &fenced) {
		t.Errorf("late publish = %v, %v; want a FencedError", cut, err)
	}
	if diff := cmp.Diff([]columnar.BarrierCut{first, <-taken}, c.cuts(t, group, barriers)); diff != "" {
		t.Errorf("cuts mismatch (-want +got):\n%s", diff)
	}
}

func TestRefusedPrincipalIsTold(t *testing.T) {
	allow := func(resource kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: resource, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	const topic = "orders"
	c := newFake(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"),
		kfake.User("PLAIN", "stranger", "pw"),
		kfake.User("PLAIN", "reader", "pw", allow(kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationRead), allow(kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationDescribe)),
		kfake.User("PLAIN", "member", "pw", allow(kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationRead), allow(kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationDescribe),
			allow(kmsg.ACLResourceTypeGroup, "billing", kmsg.ACLOperationRead), allow(kmsg.ACLResourceTypeGroup, "billing", kmsg.ACLOperationDescribe)),
		kfake.SeedTopics(1, topic))
	as := func(user, password string) kgo.Opt {
		return kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())
	}
	subscribe := func(t *testing.T, as kgo.Opt) error {
		t.Helper()
		m, err := kafka.NewTransactionalMember("billing", "billing-0", c.opts(as)...)
		if err != nil {
			t.Fatalf("new member: %v", err)
		}
		t.Cleanup(func() { _ = m.Close() }) // it may not even leave
		if err := m.Subscribe([]string{topic}, nil); err != nil {
			return err
		}
		return pollError(t, m)
	}
	var access *kafka.AccessError
	// The fake only hangs up on a wrong password; real brokers say why.
	refusal := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, TopLevel: true, Err: kerr.SaslAuthenticationFailed, Count: -1})
	if err := subscribe(t, as("member", "wrong")); !errors.As(err, &access) || access.Resource != "cluster" {
		t.Errorf("wrong password: %v, want an AccessError of the cluster", err)
	}
	refusal.Remove()
	var topicErr *columnar.TopicError
	if err := subscribe(t, as("stranger", "pw")); !errors.As(err, &topicErr) || topicErr.Topic != topic || !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("stranger: %v, want a TopicError of %s", err, topic)
	}
	if err := subscribe(t, as("member", "pw")); !errors.As(err, &access) || access.Resource != `transactional id "billing-0"` {
		t.Errorf("no right to the transactional id: %v, want an AccessError of it", err)
	}
	m, err := kafka.NewMember("billing", c.opts(as("reader", "pw"))...)
	if err != nil {
		t.Fatalf("new member: %v", err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if err := m.Subscribe([]string{topic}, nil); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := pollError(t, m); !errors.As(err, &access) || access.Resource != `group "billing"` {
		t.Errorf("no right to the group: %v, want an AccessError of it", err)
	}
}

func TestUnknownTopicIsNamed(t *testing.T) {
	c := newFake(t)
	in := c.topic(t, 1)
	m, err := kafka.NewMember("g", c.opts()...)
	if err != nil {
		t.Fatalf("new member: %v", err)
	}
	closing(t, m)
	var topicErr *columnar.TopicError
	if err := m.Subscribe([]string{in, "nowhere"}, nil); !errors.As(err, &topicErr) || topicErr.Topic != "nowhere" || topicErr.Partition != -1 {
		t.Errorf("Subscribe = %v, want a TopicError of nowhere", err)
	}
	if err := m.Subscribe([]string{in}, nil); err != nil {
		t.Errorf("second Subscribe: %v", err)
	}
	if err := m.Subscribe([]string{in}, nil); err == nil || !strings.Contains(err.Error(), "subscribed already") {
		t.Errorf("third Subscribe = %v, want an error", err)
	}
	if _, err := m.EndOffsets(within(t), []columnar.TopicPartition{at("nowhere", 0)}); !errors.As(err, &topicErr) || topicErr.Topic != "nowhere" {
		t.Errorf("EndOffsets = %v, want a TopicError of nowhere", err)
	}
	if errs := sendAll(t, m, "nowhere", "x"); !errors.As(errs[0], &topicErr) || topicErr.Topic != "nowhere" {
		t.Errorf("send = %v, want a TopicError of nowhere", errs)
	}
}

func TestUndeliveredRecordFailsInTime(t *testing.T) {
	p, err := kafka.NewProducer(kgo.SeedBrokers("127.0.0.1:1"), kafka.WithDeliveryTimeout(200*time.Millisecond), kafka.WithCallTimeout(time.Second))
	if err != nil {
		t.Fatalf("new producer: %v", err)
	}
	outcome := make(chan error, 2)
	// The record is older than the timeout; its own time does not count.
	p.Send("t", columnar.ProduceRecord{Value: []byte("x"), Timestamp: 1}, func(err error) { outcome <- err })
	if err := <-outcome; !columnar.IsRetriable(err) || !strings.Contains(fmt.Sprint(err), "not acknowledged within 200ms") {
		t.Errorf("outcome = %v, want a retriable error that tells the timeout", err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	p.Send("t", columnar.ProduceRecord{Value: []byte("x")}, func(err error) { outcome <- err })
	if err := <-outcome; !errors.Is(err, kafka.ErrClosed) {
		t.Errorf("outcome after Close = %v, want ErrClosed", err)
	}
}

// The coordinator's address refuses connections, as it does while the broker
// starts again: the member goes on when it is back.
func TestMemberOfACoordinatorThatIsAwayMayTryAgain(t *testing.T) {
	c := newFake(t)
	in, group := c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a")
	m, err := kafka.NewMember(group, c.opts(brisk(kgo.RetryTimeout(5*time.Second), kafka.WithCallTimeout(5*time.Second))...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // nobody hears of it
	if err := m.Subscribe([]string{in}, nil); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	pollUntil(t, m, records(1))
	c.fake.Close()
	if err := pollError(t, m); !columnar.IsRetriable(err) {
		t.Errorf("poll = %v; want an error that is retriable", err)
	}
	if _, err := m.Committed(within(t), []columnar.TopicPartition{at(in, 0)}); !columnar.IsRetriable(err) {
		t.Errorf("committed = %v; want an error that is retriable", err)
	}
}

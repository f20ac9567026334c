// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// reading is a transport and a partition to read.
type reading struct {
	*stage
	transport *coordination.KafkaTransport
	at        coordination.TopicPartition
	fetched   []int
}

func newReading(t *testing.T, opts ...kfake.Opt) *reading {
	t.Helper()
	x := &reading{stage: fakeStage(t, opts...)}
	x.at = at(x.compacted(t, 1), 0)
	x.transport = x.stage.transport(t, standardConfig(t), func(options *coordination.KafkaOptions) {
		options.Hooks.Fetched = func(_ coordination.TopicPartition, records, _ int) { x.fetched = append(x.fetched, records) }
	})
	return x
}

func (x *reading) append(t *testing.T, key, value string) {
	t.Helper()
	var bytes []byte
	if value != "" {
		bytes = []byte(value)
	}
	if err := x.transport.Append(within(t, patience), x.at, []byte(key), bytes); err != nil {
		t.Fatal(err)
	}
}

// read returns the records as offset, key and value.
func (x *reading) read(t *testing.T) []string {
	t.Helper()
	records, complete, err := x.transport.ReadCommitted(within(t, patience), x.at)
	if err != nil || !complete {
		t.Fatalf("read: complete %v, %v", complete, err)
	}
	texts := []string{}
	for _, record := range records {
		texts = append(texts, fmt.Sprintf("%d %s=%s", record.Offset, record.Key, record.Value))
	}
	return texts
}

func (x *reading) check(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), x.read(t)); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
}

func TestReadEndsWhereCompactionTookTheLastRecords(t *testing.T) {
	x := newReading(t)
	for n := range 3 {
		x.append(t, "a", fmt.Sprint(n))
	}
	x.append(t, "b", "")
	x.fake.Compact()
	fresh := &reading{stage: x.stage, at: x.at, transport: x.stage.transport(t, standardConfig(t))}
	records := fresh.read(t)
	newest := records[0]
	if newest != "2 a=2" {
		t.Errorf("the first record after compaction is %q, want the newest of its key", newest)
	}
	fresh.append(t, "c", "4")
	if got := fresh.read(t); got[len(got)-1] != "4 c=4" {
		t.Errorf("records %q, want the appended one last", got)
	}
}

func TestReadStartsAnewWhereTheLogDoes(t *testing.T) {
	x := newReading(t)
	for n := range 4 {
		x.append(t, fmt.Sprint("key ", n), fmt.Sprint(n))
	}
	stale := &reading{stage: x.stage, at: x.at, transport: x.stage.transport(t, standardConfig(t))}
	if err := x.fake.DeleteRecords(x.at.Topic, 0, 3); err != nil {
		t.Fatal(err)
	}
	stale.check(t, "3 key 3=3") // from the start of the log
	if err := x.fake.DeleteRecords(x.at.Topic, 0, 4); err != nil {
		t.Fatal(err)
	}
	x.check(t)
	x.append(t, "key 4", "4")
	x.check(t, "4 key 4=4")
}

func TestReadForgetsATopicThatWasCreatedAnew(t *testing.T) {
	x := newReading(t)
	for n := range 3 {
		x.append(t, fmt.Sprint("old ", n), "1")
	}
	x.check(t, "0 old 0=1", "1 old 1=1", "2 old 2=1")
	if err := x.fake.DeleteTopic(x.at.Topic); err != nil {
		t.Fatal(err)
	}
	x.create(t, x.at.Topic, 1, "cleanup.policy", "compact")
	// The new log is longer than the old one was.
	want := []string{}
	for n := range 5 {
		x.append(t, fmt.Sprint("new ", n), "2")
		want = append(want, fmt.Sprintf("%d new %d=2", n, n))
	}
	x.check(t, want...)
}

// The topic is created anew between two fetches of one read, and the new log is
// shorter than the old one was.
func TestReadLearnsTheEndOfATopicThatIsCreatedAnewMeanwhile(t *testing.T) {
	s, network := fakeStage(t), newLossy()
	topic := s.compacted(t, 2)
	transport := network.over(s).transport(t, standardConfig(t))
	add := func(partition int, key, value string) {
		t.Helper()
		if err := transport.Append(within(t, patience), at(topic, partition), []byte(key), []byte(value)); err != nil {
			t.Error(err)
		}
	}
	const length = 9
	for n := range length {
		add(0, fmt.Sprint("old ", n), strings.Repeat(".", 600_000)) // more than one fetch
	}
	var once sync.Once
	network.interpose(kmsg.Fetch, newestFetch(t), func() {
		once.Do(func() {
			if err := s.fake.DeleteTopic(topic); err != nil {
				t.Error(err)
			}
			s.create(t, topic, 2, "cleanup.policy", "compact")
			add(1, "elsewhere", "1")
			add(0, "new 0", "1")
		})
	})
	read := func(want ...string) {
		t.Helper()
		records, err := transport.ReadPartition(within(t, patience), at(topic, 0))
		if err != nil {
			t.Fatal(err)
		}
		keys := []string{}
		for _, record := range records {
			keys = append(keys, string(record.Key))
		}
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
	}
	read("new 0")
	want := []string{"new 0"}
	for n := range length {
		key := fmt.Sprint("new ", n+1)
		add(0, key, "1")
		want = append(want, key)
	}
	read(want...)
}

func TestReadDoesNotHurryWhereNoOffsetIsInRange(t *testing.T) {
	x := newReading(t)
	x.append(t, "a", "1")
	fault := x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.OffsetOutOfRange, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := x.transport.ReadPartition(ctx, x.at); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read: %v, want the error of the context", err)
	}
	if got := fault.Hits(); got < 2 || got > 40 {
		t.Errorf("%d fetches in 300 ms, want a few", got)
	}
	fault.Remove()
	x.check(t, "0 a=1")
}

// The last records below the stable offset are gone, so no fetch gets there.
func TestReadEndsAtAHoleThatCompactionLeft(t *testing.T) {
	x := newReading(t)
	x.append(t, "a", "1")
	x.check(t, "0 a=1")
	x.fake.ControlKey(int16(kmsg.Fetch), func(ask kmsg.Request) (kmsg.Response, error, bool) {
		x.fake.KeepControl()
		return emptyFetch(ask, 9, 9), nil, true
	})
	records, complete, err := x.transport.ReadCommitted(within(t, time.Second), x.at)
	if err != nil || !complete || len(records) != 1 || records[0].Offset != 0 {
		t.Errorf("read: %d records, complete %v, %v; want the record before the hole", len(records), complete, err)
	}
}

func TestReadStartsAnewUnderAnotherLeader(t *testing.T) {
	x := newReading(t, kfake.NumBrokers(3))
	x.append(t, "a", "1")
	x.check(t, "0 a=1")
	x.check(t, "0 a=1")
	leader := x.fake.LeaderFor(x.at.Topic, 0)
	if err := x.fake.MoveTopicPartition(x.at.Topic, 0, (leader+1)%3); err != nil {
		t.Fatal(err)
	}
	x.check(t, "0 a=1")
	if diff := cmp.Diff([]int{1, 0, 1}, x.fetched); diff != "" {
		t.Errorf("records fetched mismatch (-want +got):\n%s", diff)
	}
}

func TestReadOutlastsATroubledLeader(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.FencedLeaderEpoch,
		kerr.UnknownLeaderEpoch, kerr.ReplicaNotAvailable, kerr.KafkaStorageError, kerr.UnknownTopicOrPartition,
		kerr.UnknownTopicID, kerr.OffsetOutOfRange, kerr.UnknownServerError, kerr.OffsetNotAvailable} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			x := newReading(t)
			x.append(t, "a", "1")
			x.check(t, "0 a=1")
			x.append(t, "b", "2")
			fault := x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: code, Count: 2})
			x.check(t, "0 a=1", "1 b=2")
			if got := fault.Hits(); got != 2 {
				t.Errorf("%d faults took place, want 2", got)
			}
		})
	}
}

func TestReadReportsWhatDoesNotExist(t *testing.T) {
	x := newReading(t)
	var missing *coordination.TopicError
	_, err := x.transport.ReadPartition(within(t, patience), at("no-such-topic", 0))
	if !errors.As(err, &missing) || !errors.Is(err, kerr.UnknownTopicOrPartition) || missing.Topic != "no-such-topic" || !missing.Retriable() {
		t.Errorf("a topic that does not exist: %v", err)
	}
	_, err = x.transport.ReadPartition(within(t, patience), at(x.at.Topic, 16))
	if !errors.As(err, &missing) || missing.Partition != 16 {
		t.Errorf("a partition that does not exist: %v", err)
	}
	if err := x.transport.Append(within(t, patience), at(x.at.Topic, -1), []byte("k"), nil); !errors.As(err, &missing) || missing.Partition != -1 {
		t.Errorf("a negative partition: %v", err)
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	x := newReading(t)
	x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
	ctx, cancel := context.WithCancel(within(t, patience))
	stop := &cancelOn{key: kmsg.Fetch}
	transport := x.stage.transport(t, standardConfig(t), reporting(stop), func(options *coordination.KafkaOptions) {
		// The context ends while an attempt after the first is under way.
		options.Hooks.Retried = func(string, error) { stop.arm(cancel) }
	})
	records, err := transport.ReadPartition(ctx, x.at)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, kerr.NotLeaderForPartition) || records != nil {
		t.Errorf("read: %d records, %v; want the error of the context and the last answer", len(records), err)
	}
}

// A read waits for an open transaction of another role for a while: half a
// renew interval, and a second at most.
func TestReadGivesAnOpenTransactionGrace(t *testing.T) {
	for _, tt := range []struct {
		renew time.Duration
		grace time.Duration
	}{{10 * time.Second, time.Second}, {time.Second, 500 * time.Millisecond}} {
		t.Run(tt.renew.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := virtualStage(t)
				topic := s.compacted(t, 1)
				transport := s.transport(t, leaseConfig(t, time.Minute, tt.renew, time.Second))
				open := s.hang(t, at(topic, 0), "open", time.Minute)
				began := time.Now()
				_, complete, err := transport.ReadCommitted(t.Context(), at(topic, 0))
				if took := time.Since(began); complete || err != nil || took < tt.grace || took > tt.grace+stableSlack {
					t.Errorf("read: complete %v, %v after %v; want an incomplete one after %v", complete, err, took, tt.grace)
				}
				open.Close()
				s.stop(transport)
			})
		})
	}
}

// stableSlack is how long one fetch waits for the stable offset to move.
const stableSlack = 100 * time.Millisecond

func TestAppendThatIsCancelledOnItsWayIsOpen(t *testing.T) {
	x := newReading(t)
	network, stop := newLossy(), &cancelOn{key: kmsg.Produce}
	transport := network.over(x.stage).transport(t, standardConfig(t), reporting(stop))
	network.lose(kmsg.Produce, 0, 1<<20)
	ctx, cancel := context.WithCancel(within(t, patience))
	stop.arm(cancel)
	err := transport.Append(ctx, x.at, []byte("k"), []byte("v"))
	if !errors.Is(err, coordination.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("append: %v, want ErrOutcomeUnknown and the error of the context", err)
	}
	for arrived := 0; arrived == 0; arrived = len(x.read(t)) { // it is on its way
	}
	refused, refuse := context.WithCancel(t.Context())
	refuse()
	if err := transport.Append(refused, x.at, []byte("k"), nil); !errors.Is(err, context.Canceled) || errors.Is(err, coordination.ErrOutcomeUnknown) {
		t.Errorf("append with an ended context: %v, want its error alone", err)
	}
}

func TestAppendOutlastsATroubledLeader(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.RequestTimedOut, kerr.UnknownTopicOrPartition} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			x := newReading(t)
			fault := x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: code, Count: 2})
			x.append(t, "a", "1")
			if got := fault.Hits(); got != 2 {
				t.Errorf("%d faults took place, want 2", got)
			}
			got := x.read(t)
			if last := got[len(got)-1]; last[len(last)-3:] != "a=1" {
				t.Errorf("records %q, want the appended one last", got)
			}
		})
	}
}

// A new leader of a partition knows the end of the log later than it answers
// fetches, and then it shows a part of the log as all of it.
func TestReadAfterAChangeOfLeaderWaitsForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := virtualStage(t, kfake.NumBrokers(2), kfake.Ports(1, 2))
		topic := s.compacted(t, 1)
		transport := s.transport(t, standardConfig(t))
		for _, key := range []string{"a", "b", "c"} {
			if err := transport.Append(t.Context(), at(topic, 0), []byte(key), []byte("v")); err != nil {
				t.Fatal(err)
			}
		}
		read := func(by *coordination.KafkaTransport) (keys string) {
			t.Helper()
			records, _, err := by.ReadCommitted(t.Context(), at(topic, 0))
			if err != nil {
				t.Fatal(err)
			}
			for _, record := range records {
				keys += string(record.Key)
			}
			return keys
		}
		if got := read(transport); got != "abc" {
			t.Fatalf("read %q, want abc", got)
		}
		var lagging atomic.Int32 // answers about the end until the leader knows it
		var before atomic.Int32  // the epoch of the leader before
		s.fake.ControlKey(int16(kmsg.Fetch), func(ask kmsg.Request) (kmsg.Response, error, bool) {
			s.fake.KeepControl()
			asked := ask.(*kmsg.FetchRequest)
			epoch := asked.Topics[0].Partitions[0].CurrentLeaderEpoch
			if lagging.Load() == 0 || epoch == before.Load() {
				before.Store(epoch)
				return nil, nil, false
			}
			answer := asked.ResponseKind().(*kmsg.FetchResponse)
			for _, topic := range asked.Topics {
				partition := kmsg.NewFetchResponseTopicPartition()
				partition.HighWatermark, partition.LastStableOffset, partition.LogStartOffset = 1, 1, 0
				found := kmsg.NewFetchResponseTopic()
				found.Topic, found.TopicID = topic.Topic, topic.TopicID
				found.Partitions = append(found.Partitions, partition)
				answer.Topics = append(answer.Topics, found)
			}
			return answer, nil, true
		})
		s.fake.ControlKey(int16(kmsg.ListOffsets), func(ask kmsg.Request) (kmsg.Response, error, bool) {
			s.fake.KeepControl()
			if lagging.Add(-1) < 0 {
				lagging.Store(0)
				return nil, nil, false
			}
			asked := ask.(*kmsg.ListOffsetsRequest)
			answer := asked.ResponseKind().(*kmsg.ListOffsetsResponse)
			partition := kmsg.NewListOffsetsResponseTopicPartition()
			partition.ErrorCode = kerr.OffsetNotAvailable.Code
			found := kmsg.NewListOffsetsResponseTopic()
			found.Topic = topic
			found.Partitions = append(found.Partitions, partition)
			answer.Topics = append(answer.Topics, found)
			return answer, nil, true
		})
		for node := range int32(2) {
			lagging.Store(3)
			if err := s.fake.MoveTopicPartition(topic, 0, node); err != nil {
				t.Fatal(err)
			}
			if got := read(transport); got != "abc" {
				t.Errorf("read %q from the new leader %d, want abc", got, node)
			}
		}
		lagging.Store(3)
		before.Store(-1)
		if got := read(s.transport(t, standardConfig(t))); got != "abc" {
			t.Errorf("a process that starts reads %q, want abc", got)
		}
		s.stop(transport)
	})
}

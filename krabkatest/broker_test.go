// SPDX-License-Identifier: Apache-2.0

package krabkatest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/krabkatest"
)

func at(topic string, partition int) columnar.TopicPartition {
	return columnar.TopicPartition{Topic: topic, Partition: partition}
}

// broker is a broker with the topics "in", of some partitions, and "out" of one.
func broker(partitions int, options ...krabkatest.BrokerOption) *krabkatest.Broker {
	b := krabkatest.NewBroker(options...)
	b.CreateTopic("in", partitions)
	b.CreateTopic("out", 1)
	return b
}

func record(value string) columnar.ProduceRecord {
	return columnar.ProduceRecord{Key: []byte("k"), Value: []byte(value), Timestamp: 1}
}

func produce(t testing.TB, b *krabkatest.Broker, partition int, values ...string) {
	t.Helper()
	for _, value := range values {
		if _, err := b.Produce("in", partition, record(value)); err != nil {
			t.Fatal(err)
		}
	}
}

// events is a listener that notes what it is told.
type events struct {
	list []string
	on   func(event string)
}

func (e *events) note(event string, partitions []columnar.TopicPartition) {
	for _, tp := range partitions {
		event += fmt.Sprint(" ", tp.Partition)
	}
	e.list = append(e.list, event)
	if e.on != nil {
		e.on(event)
	}
}

func (e *events) OnPartitionsAssigned(p []columnar.TopicPartition) { e.note("assigned", p) }
func (e *events) OnPartitionsRevoked(p []columnar.TopicPartition)  { e.note("revoked", p) }
func (e *events) OnPartitionsLost(p []columnar.TopicPartition)     { e.note("lost", p) }

func (e *events) take() string {
	list := strings.Join(e.list, ", ")
	e.list = nil
	return list
}

// poll polls once without waiting and returns the values, partition by partition.
func poll(t testing.TB, c columnar.Consumer) string {
	t.Helper()
	records, err := c.Poll(t.Context(), 0)
	if err != nil {
		t.Fatalf("Poll: %v", err)
	}
	return valuesOf(records)
}

func valuesOf(records map[columnar.TopicPartition][]columnar.ConsumedRecord) string {
	var values []string
	for _, partition := range records {
		for _, record := range partition {
			values = append(values, fmt.Sprintf("%d:%s", record.Partition, record.Value))
		}
	}
	slices.Sort(values)
	return strings.Join(values, " ")
}

func subscribe(t testing.TB, c columnar.Consumer, listener columnar.RebalanceListener) {
	t.Helper()
	if err := c.Subscribe([]string{"in"}, listener); err != nil {
		t.Fatal(err)
	}
}

// send sends a record and waits for its acknowledgement.
func send(p columnar.Producer, value string) error {
	done := make(chan error, 1)
	p.Send("out", record(value), func(err error) { done <- err })
	return <-done
}

func output(b *krabkatest.Broker) string {
	var values []string
	for _, record := range b.Output("out") {
		values = append(values, string(record.Value))
	}
	return strings.Join(values, " ")
}

func want(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s mismatch (-want +got):\n%s", what, diff)
	}
}

func TestBrokerRebalancesWhoseMembersKeepWhatTheyCan(t *testing.T) {
	tests := []struct {
		name                  string
		options               []krabkatest.BrokerOption
		joining, after, alone string // events of the first member
	}{
		{"cooperative", nil, "revoked 1 3", "", "assigned 1 3"},
		{"eager", []krabkatest.BrokerOption{krabkatest.WithEagerRebalances()}, "revoked 0 1 2 3, assigned 0 2", "", "revoked 0 2, assigned 0 1 2 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := broker(4, tt.options...)
			var first, second events
			a := b.NewMember("group")
			subscribe(t, a, &first)
			poll(t, a)
			want(t, "first assignment", "assigned 0 1 2 3", first.take())
			c := b.NewMember("group")
			subscribe(t, c, &second)
			poll(t, c)
			want(t, "an owner that has not polled keeps its partitions", "", second.take())
			poll(t, a)
			want(t, "events of the first", tt.joining, first.take())
			poll(t, c)
			want(t, "events of the second", "assigned 1 3", second.take())
			poll(t, a)
			want(t, "events of the first behind it", tt.after, first.take())
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			poll(t, a)
			want(t, "events of the first, alone", tt.alone, first.take())
		})
	}
}

func TestBrokerThrowsOutMembersThatDoNotPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker(2, krabkatest.WithRebalanceTimeout(10*time.Second))
		var slow, quick events
		a, c := b.NewMember("group"), b.NewMember("group")
		subscribe(t, a, &slow)
		produce(t, b, 1, "x")
		want(t, "first poll", "1:x", poll(t, a))
		subscribe(t, c, &quick)
		began := time.Now()
		records, err := c.Poll(t.Context(), time.Minute)
		if err != nil || valuesOf(records) != "1:x" || time.Since(began) != 10*time.Second {
			t.Errorf("Poll = %v, %v after %v; want the record again, after 10s", records, err, time.Since(began))
		}
		err = a.CommitOffsets(t.Context(), map[columnar.TopicPartition]int64{at("in", 1): 1})
		if rebalanced := new(columnar.RebalancedError); !errors.As(err, &rebalanced) {
			t.Errorf("commit of the member that was thrown out = %v, want a RebalancedError", err)
		}
		poll(t, a)
		want(t, "events of the slow member", "assigned 0 1, lost 0 1", slow.take())
	})
}

func TestBrokerRevokesWhileCommitsAreAccepted(t *testing.T) {
	t.Parallel()
	b := broker(2)
	a, c := b.NewMember("group"), b.NewMember("group")
	var e events
	subscribe(t, a, &e)
	produce(t, b, 1, "x", "y")
	poll(t, a)
	subscribe(t, c, nil)
	e.on = func(string) {
		if err := a.CommitOffsets(t.Context(), map[columnar.TopicPartition]int64{at("in", 1): 1}); err != nil {
			t.Errorf("commit in the callback: %v", err)
		}
	}
	poll(t, a)
	want(t, "events", "assigned 0 1, revoked 1", e.take())
	want(t, "the new owner goes on at the commit", "1:y", poll(t, c))
}

func TestBrokerFencesStaticMembers(t *testing.T) {
	t.Parallel()
	b := broker(2)
	var first, second, third events
	a := b.NewMember("group", krabkatest.WithInstanceID("one"))
	subscribe(t, a, &first)
	poll(t, a)
	c := b.NewMember("group", krabkatest.WithInstanceID("one"))
	subscribe(t, c, &second)
	poll(t, c)
	want(t, "the second has the place of the first", "assigned 0 1", second.take())
	_, err := a.Poll(t.Context(), 0)
	if fenced := new(columnar.FencedError); !errors.As(err, &fenced) || fenced.ID != "one" {
		t.Errorf("Poll of the first = %v, want a FencedError of \"one\"", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	other := b.NewMember("group")
	subscribe(t, other, &third)
	poll(t, other)
	want(t, "what is left while the static member is away", "", third.take())
	c.Expire()
	poll(t, other)
	want(t, "behind the session time-out", "assigned 0 1", third.take())
}

func TestBrokerGrowsAndDeletes(t *testing.T) {
	t.Parallel()
	b := broker(1)
	var e events
	m := b.NewMember("group")
	subscribe(t, m, &e)
	produce(t, b, 0, "a", "b", "c")
	want(t, "records", "0:a 0:b 0:c", poll(t, m))
	b.CreateTopic("in", 2)
	produce(t, b, 1, "d")
	want(t, "records of the new partition", "1:d", poll(t, m))
	want(t, "events", "assigned 0, assigned 1", e.take())
	if err := b.DeleteRecords("in", 0, 2); err != nil {
		t.Fatal(err)
	}
	if err := m.Seek(at("in", 0), 1); err != nil {
		t.Fatal(err)
	}
	produce(t, b, 1, "e")
	want(t, "records come before the error of another partition", "1:e", poll(t, m))
	_, err := m.Poll(t.Context(), 0)
	var outside *columnar.OffsetOutOfRangeError
	if !errors.As(err, &outside) || outside.Offset != 1 || outside.Start != 2 || outside.End != 3 {
		t.Errorf("Poll = %v, want offset 1 outside [2, 3]", err)
	}
	b.DeleteTopic("in")
	poll(t, m)
	want(t, "events behind the deletion", "revoked 0 1", e.take())
}

func TestBrokerHidesWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	b := broker(1)
	m := b.NewTransactionalMember("group", "id")
	subscribe(t, m, nil)
	produce(t, b, 0, "a")
	poll(t, m)
	if err := m.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(send(m, "x"), m.SendOffsets(map[columnar.TopicPartition]int64{at("in", 0): 1}, m.GroupMetadata())); err != nil {
		t.Fatal(err)
	}
	start, stable, end := b.Offsets("out", 0)
	want(t, "offsets while the transaction is open", [3]int64{0, 0, 1}, [3]int64{start, stable, end})
	want(t, "output while it is open", "", output(b))
	if err := m.CommitTransaction(); err != nil {
		t.Fatal(err)
	}
	want(t, "output", "x", output(b))
	want(t, "committed", map[columnar.TopicPartition]int64{at("in", 0): 1}, b.Committed("group"))
	_, stable, end = b.Offsets("out", 0)
	want(t, "the marker takes an offset", [2]int64{2, 2}, [2]int64{stable, end})

	if err := errors.Join(m.BeginTransaction(), send(m, "y"), m.Seek(at("in", 0), 0), m.AbortTransaction()); err != nil {
		t.Fatal(err)
	}
	want(t, "output behind the abort", "x", output(b))
	positions, err := m.Positions(t.Context(), []columnar.TopicPartition{at("in", 0)})
	if err != nil || positions[at("in", 0)] != 1 {
		t.Errorf("positions behind the abort = %v, %v; want the committed offset", positions, err)
	}
}

func TestBrokerFencesTransactionalIDs(t *testing.T) {
	t.Parallel()
	b := broker(1)
	a := b.NewTransactionalMember("group", "id")
	subscribe(t, a, nil)
	if err := errors.Join(a.BeginTransaction(), send(a, "x")); err != nil {
		t.Fatal(err)
	}
	c := b.NewTransactionalMember("group", "id")
	subscribe(t, c, nil)
	_, stable, _ := b.Offsets("out", 0)
	want(t, "what the first left open is aborted", int64(2), stable)
	for name, err := range map[string]error{"send": send(a, "y"), "commit": a.CommitTransaction(), "abort": a.AbortTransaction(), "begin": a.BeginTransaction()} {
		if fenced := new(columnar.FencedError); !errors.As(err, &fenced) || fenced.ID != "id" {
			t.Errorf("%s of the fenced member = %v, want a FencedError of \"id\"", name, err)
		}
	}
	if err := errors.Join(c.BeginTransaction(), send(c, "z"), c.CommitTransaction()); err != nil {
		t.Fatal(err)
	}
	want(t, "output", "z", output(b))
}

func TestBrokerMarkersComeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker(1, krabkatest.WithMarkerDelay(time.Second), krabkatest.WithTransactionTimeout(time.Minute))
		m := b.NewTransactionalMember("group", "id")
		subscribe(t, m, nil)
		produce(t, b, 0, "a", "b")
		poll(t, m)
		moves := func(offset int64) error {
			return errors.Join(m.BeginTransaction(), m.SendOffsets(map[columnar.TopicPartition]int64{at("in", 0): offset}, m.GroupMetadata()), m.CommitTransaction())
		}
		if err := moves(1); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		committed, err := m.Committed(t.Context(), []columnar.TopicPartition{at("in", 0)})
		if err != nil || committed[at("in", 0)] != 1 || time.Since(began) != time.Second {
			t.Errorf("Committed = %v, %v after %v; want 1 after a second", committed, err, time.Since(began))
		}
		if err := moves(2); err != nil {
			t.Fatal(err)
		}
		if aborted := new(columnar.TransactionAbortedError); !errors.As(moves(2), &aborted) {
			t.Error("a transaction of offsets alone was not refused before the markers of the one before were written")
		}
		if err := errors.Join(m.BeginTransaction(), send(m, "x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if aborted := new(columnar.TransactionAbortedError); !errors.As(m.CommitTransaction(), &aborted) {
			t.Error("a transaction that outlived its time-out was committed")
		}
		want(t, "output", "", output(b))
	})
}

func TestBrokerPollsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker(1)
		m := b.NewMember("group")
		subscribe(t, m, nil)
		for _, tt := range []struct {
			name  string
			event func(cancel func())
			want  string
			after time.Duration
			err   error
		}{
			{"for the timeout", func(func()) {}, "", time.Hour, nil},
			{"for records", func(func()) { produce(t, b, 0, "a") }, "0:a", time.Second, nil},
			{"until they are woken", func(func()) { m.WakePoll() }, "", time.Second, nil},
			{"until the context ends", func(cancel func()) { cancel() }, "", time.Second, context.Canceled},
			{"until the member is closed", func(func()) { m.Close() }, "", time.Second, krabkatest.ErrClosed},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			time.AfterFunc(time.Second, func() { tt.event(cancel) })
			records, err := m.Poll(ctx, time.Hour)
			cancel()
			if got := valuesOf(records); got != tt.want || !errors.Is(err, tt.err) || time.Since(began) != tt.after {
				t.Errorf("a poll that waits %s = %q, %v after %v; want %q, %v after %v", tt.name, got, err, time.Since(began), tt.want, tt.err, tt.after)
			}
		}
	})
}

func TestBrokerPausesOutliveAssignments(t *testing.T) {
	t.Parallel()
	for _, outlive := range []bool{false, true} {
		options := []krabkatest.BrokerOption{krabkatest.WithPausesThatOutlive()}
		if !outlive {
			options = nil
		}
		b := broker(2, options...)
		a, c := b.NewMember("group"), b.NewMember("group")
		subscribe(t, a, nil)
		poll(t, a)
		a.Pause([]columnar.TopicPartition{at("in", 1)})
		subscribe(t, c, nil)
		poll(t, a)
		c.Close()
		produce(t, b, 1, "x")
		want(t, fmt.Sprintf("records when pauses outlive assignments: %v", outlive), map[bool]string{true: "", false: "1:x"}[outlive], poll(t, a))
	}
}

func TestBrokerNewsOfCutsComeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker(2)
		produce(t, b, 0, "a")
		reader := b.NewReader(nil)
		cuts, err := columnar.NewCutReader(reader, 1)
		if err != nil {
			t.Fatal(err)
		}
		b.CreateTopic(columnar.BarrierStateTopic, 1)
		b.AnnounceCut("audit", 1)
		published, err := b.PublishCut("audit", 1, []string{"in"}, krabkatest.WithLateNews(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		want(t, "offsets of the cut", map[columnar.TopicPartition]int64{at("in", 0): 1, at("in", 1): 0}, published.Offsets)
		if cut, err := cuts.LatestCompleteCut(t.Context(), "audit"); cut != nil || err != nil {
			t.Errorf("before the news: %v, %v", cut, err)
		}
		time.Sleep(time.Second)
		cut, err := cuts.LatestCompleteCut(t.Context(), "audit")
		if err != nil {
			t.Fatal(err)
		}
		want(t, "cut behind the news", &published, cut)
	})
}

func TestBrokerFailsOnDemand(t *testing.T) {
	t.Parallel()
	b := broker(1)
	fault := errors.New("fault")
	m := b.NewTransactionalMember("group", "id")
	subscribe(t, m, nil)
	b.FailNext("Poll", fault)
	if _, err := m.Poll(t.Context(), 0); !errors.Is(err, fault) {
		t.Errorf("Poll = %v, want the fault", err)
	}
	poll(t, m)
	for _, lost := range []bool{false, true} {
		if err := errors.Join(m.BeginTransaction(), send(m, fmt.Sprint("answer lost ", lost))); err != nil {
			t.Fatal(err)
		}
		if lost {
			b.LoseNextAnswer("CommitTransaction", fault)
		} else {
			b.FailNext("CommitTransaction", fault)
		}
		err := m.CommitTransaction()
		if unknown := new(columnar.CommitUnknownError); !errors.As(err, &unknown) || !errors.Is(err, fault) {
			t.Errorf("commit = %v, want a CommitUnknownError of the fault", err)
		}
		if err := m.BeginTransaction(); err == nil {
			t.Error("a transaction began although nobody knows how the one before ended")
		}
		if err := m.AbortTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "output", "answer lost true", output(b))
	var calls []string
	b.Intercept(func(call krabkatest.Call) error {
		calls = append(calls, fmt.Sprintf("%s %s %v", call.Client, call.Method, call.Answer))
		return nil
	})
	if err := errors.Join(m.BeginTransaction(), m.AbortTransaction()); err != nil {
		t.Fatal(err)
	}
	want(t, "calls", []string{"id BeginTransaction false", "id AbortTransaction false", "id AbortTransaction true"}, calls)
}

func TestProcessCrashesAtAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker(2)
		var e events
		p := krabkatest.NewProcess()
		a := b.NewTransactionalMember("group", "id", krabkatest.InProcess(p))
		c := b.NewMember("group")
		subscribe(t, a, nil)
		poll(t, a)
		if err := a.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		p.CrashAfter(2)
		if err := send(a, "x"); !errors.Is(err, krabkatest.ErrCrashed) {
			t.Errorf("send = %v, want ErrCrashed for its answer", err)
		}
		<-p.Crashed()
		_, stable, end := b.Offsets("out", 0)
		want(t, "the record took effect and is open", [2]int64{0, 1}, [2]int64{stable, end})
		if err := errors.Join(a.AbortTransaction(), a.Close()); !errors.Is(err, krabkatest.ErrCrashed) {
			t.Errorf("abort = %v, want ErrCrashed", err)
		}
		subscribe(t, c, &e)
		poll(t, c)
		want(t, "the group has noticed", "assigned 0 1", e.take())
		time.Sleep(time.Minute)
		_, stable, _ = b.Offsets("out", 0)
		want(t, "the time-out of the transaction", int64(2), stable)
	})
}

// With a seed polls are partial, and everything comes all the same, once and in
// order.
func TestBrokerMoodsAreThoseOfTheSeed(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (polls []string, values []string) {
		b := broker(3, krabkatest.WithSeed(seed))
		for i := range 40 {
			produce(t, b, i%3, fmt.Sprint(i))
		}
		m := b.NewMember("group")
		subscribe(t, m, nil)
		for range 100 {
			records, err := m.Poll(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			polls = append(polls, valuesOf(records))
			for _, record := range records[at("in", 1)] {
				values = append(values, string(record.Value))
			}
		}
		return polls, values
	}
	first, values := run(1)
	again, _ := run(1)
	other, _ := run(2)
	want(t, "the same seed once more", first, again)
	if slices.Equal(first, other) {
		t.Error("two seeds gave the same polls")
	}
	want(t, "records of partition 1", []string{"1", "4", "7", "10", "13", "16", "19", "22", "25", "28", "31", "34", "37"}, values)
}

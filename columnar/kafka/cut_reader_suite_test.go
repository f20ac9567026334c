// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

func init() {
	suite = append(suite, []suiteTest{
		{"cuts behind an open transaction are waited for", testHiddenCutsAreWaitedFor},
		{"cut reader ends at a control record", testCutReaderEndsAtControlRecord},
		{"cut reader goes on where the barrier topic is made anew", testBarrierTopicMadeAnew},
		{"publisher behind an open transaction says what it waits for", testPublisherNamesWhatItWaitsFor},
	}...)
}

// publishCut writes a cut as somebody without transactions does.
func (c cluster) publishCut(t testing.TB, topic, group string, epoch int64) {
	t.Helper()
	key, value, err := columnar.EncodeBarrierCut(columnar.BarrierCut{
		Group: group, Epoch: epoch, Offsets: map[columnar.TopicPartition]int64{at("in", 0): 10 * epoch},
	})
	if err != nil {
		t.Fatalf("encode cut: %v", err)
	}
	record := &kgo.Record{Topic: topic, Key: key, Value: value}
	if err := c.client(t).ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatalf("publish cut %d: %v", epoch, err)
	}
}

// asking is a hook that tells of every request of one kind.
type asking struct {
	key  int16
	told chan struct{}
}

func (a asking) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == a.key && err == nil {
		select {
		case a.told <- struct{}{}:
		default:
		}
	}
}

func (c cluster) cutReader(t testing.TB, topic string, wait time.Duration, opts ...kgo.Opt) *columnar.CutReader {
	t.Helper()
	cuts, err := columnar.NewCutReader(c.reader(t, opts...), 1, columnar.WithCutTopic(topic), columnar.WithCutStableWait(wait))
	if err != nil {
		t.Fatalf("new cut reader: %v", err)
	}
	return cuts
}

func latestEpoch(t testing.TB, cuts *columnar.CutReader, group string) string {
	t.Helper()
	latest, err := cuts.LatestCompleteCut(within(t), group)
	if err != nil || latest == nil {
		return fmt.Sprintf("%v, %v", latest, err)
	}
	return fmt.Sprintf("epoch %d", latest.Epoch)
}

// openTransaction leaves a transaction open on the first partition of a topic.
func (c cluster) openTransaction(t testing.TB, topic string) *kgo.Client {
	t.Helper()
	foreign := c.client(t, kgo.TransactionalID(unique("foreign")), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := foreign.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	if err := foreign.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte{0, 0, 0, 1, 0, 1, 'x', 0, 0, 0, 0, 0, 0, 0, 1}}).FirstErr(); err != nil {
		t.Fatalf("produce in the foreign transaction: %v", err)
	}
	return foreign
}

// The topic is deleted and made anew with fewer or with more records than the
// reader had read.
func testBarrierTopicMadeAnew(t *testing.T, c cluster) {
	for _, records := range []int64{1, 6} {
		topic := c.topic(t, 1)
		for epoch := range int64(3) {
			c.publishCut(t, topic, "audit", epoch+10)
		}
		cuts := c.cutReader(t, topic, 0)
		if diff := cmp.Diff("epoch 12", latestEpoch(t, cuts, "audit")); diff != "" {
			t.Fatalf("latest cut mismatch (-want +got):\n%s", diff)
		}
		ctx := within(t)
		if _, err := c.admin(t).DeleteTopics(ctx, topic); err != nil {
			t.Fatalf("delete %s: %v", topic, err)
		}
		c.createAgain(t, topic)
		for epoch := range records {
			c.publishCut(t, topic, "audit", epoch+1)
		}
		want := []int64{}
		for epoch := range records {
			want = append(want, epoch+1)
		}
		for {
			found, err := cuts.CompleteCutsAfter(ctx, "audit", -1)
			if err != nil {
				if ctx.Err() != nil {
					t.Fatalf("the reader does not recover: %v", err)
				}
				continue
			}
			got := []int64{}
			for _, cut := range found {
				got = append(got, cut.Epoch)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("epochs after the topic was made anew mismatch (-want +got):\n%s", diff)
			}
			break
		}
	}
}

// createAgain creates a topic that was just deleted, with one partition.
func (c cluster) createAgain(t testing.TB, topic string) {
	t.Helper()
	admin, ctx := c.admin(t), within(t)
	for {
		resp, err := admin.CreateTopic(ctx, 1, 1, nil, topic)
		if err == nil && resp.Err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("create %s again: %v, %v", topic, err, resp.Err)
		}
	}
}

func testHiddenCutsAreWaitedFor(t *testing.T, c cluster) {
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		topic := c.topic(t, 1)
		c.publishCut(t, topic, "audit", 1)
		foreign := c.openTransaction(t, topic)
		c.publishCut(t, topic, "audit", 2)

		hasty := c.cutReader(t, topic, 0)
		latest, err := hasty.LatestCompleteCut(within(t), "audit")
		var incomplete *columnar.IncompleteReadError
		if !errors.As(err, &incomplete) || latest != nil {
			t.Fatalf("LatestCompleteCut = %v, %v; want an IncompleteReadError", latest, err)
		}
		want := &columnar.IncompleteReadError{Partition: at(topic, 0), StableOffset: 1, EndOffset: 3}
		if diff := cmp.Diff(want, incomplete); diff != "" {
			t.Errorf("error mismatch (-want +got):\n%s", diff)
		}

		// A wait asks for both ends again and again.
		hook := asking{key: int16(kmsg.ListOffsets), told: make(chan struct{})}
		patient := c.cutReader(t, topic, patience, kgo.WithHooks(hook))
		read := make(chan string, 1)
		go func() { read <- latestEpoch(t, patient, "audit") }()
		for range 9 {
			select {
			case <-hook.told:
			case got := <-read:
				t.Fatalf("the read ended with %s while the transaction was open", got)
			}
		}
		if err := foreign.EndTransaction(t.Context(), end); err != nil {
			t.Fatalf("end of the foreign transaction: %v", err)
		}
		if got := <-read; got != "epoch 2" {
			t.Errorf("the read that waited ended with %s; want epoch 2", got)
		}
		// Markers follow the answer on a real cluster by a moment.
		for latest = nil; latest == nil; {
			if latest, err = hasty.LatestCompleteCut(within(t), "audit"); err != nil && !columnar.IsRetriable(err) {
				t.Fatalf("LatestCompleteCut behind the transaction: %v", err)
			}
		}
		if latest.Epoch != 2 {
			t.Errorf("epoch %d; want 2", latest.Epoch)
		}
	}
}

func testCutReaderEndsAtControlRecord(t *testing.T, c cluster) {
	topic := c.topic(t, 1)
	c.publishCut(t, topic, "audit", 1)
	c.produceTransaction(t, kgo.TryAbort, topic, 0, "x")
	// An hour of idle polls would show that the end is known and not guessed.
	cuts, err := columnar.NewCutReader(c.reader(t), 1, columnar.WithCutTopic(topic), columnar.WithCutIdlePolls(1<<30))
	if err != nil {
		t.Fatalf("new cut reader: %v", err)
	}
	if got := latestEpoch(t, cuts, "audit"); got != "epoch 1" {
		t.Errorf("the read ended with %s; want epoch 1", got)
	}
}

func testPublisherNamesWhatItWaitsFor(t *testing.T, c cluster) {
	in, barriers := c.topic(t, 1), unique("barriers")
	p := c.publisher(t, "audit", barriers, []string{in})
	foreign := c.openTransaction(t, barriers)
	cutShort(t, func(ctx context.Context) error { _, err := p.Publish(ctx); return err }, func(incomplete columnar.IncompleteReadError) bool {
		return incomplete == columnar.IncompleteReadError{Partition: at(barriers, 0), StableOffset: 0, EndOffset: 1}
	})
	if err := foreign.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatalf("end of the foreign transaction: %v", err)
	}
	if got := publish(t, p).Epoch; got != 1 {
		t.Errorf("published epoch %d behind the transaction; want 1", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
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
		{"state behind an open transaction is waited for", testStateBehindOpenTransaction},
		{"owner that is replaced while it saves saves nothing", testOwnerReplacedWhileItSaves},
		{"snapshots that are saved at once are kept apart", testSnapshotsSavedAtOnce},
		{"state that the topic does not take is an error", testStateTooLarge},
	}...)
}

// kinds of state records, as their keys name them.
const (
	chunkRecord    = 1
	manifestRecord = 2
)

func recordKind(key []byte) uint16 { return binary.BigEndian.Uint16(key[2:]) }

// sendHook is called with records before a client takes them.
type sendHook func(*kgo.Record)

func (h sendHook) OnProduceRecordBuffered(r *kgo.Record) { h(r) }

// bigState is state of one node that takes three records.
func bigState(seed byte) map[string][]byte {
	state := make([]byte, 1_200_000)
	random := rand.NewChaCha8([32]byte{seed})
	random.Read(state)
	return map[string][]byte{"big": state}
}

// cutShort calls read with contexts that end sooner or later, until one ends while
// read waits for somebody's transaction, as its error says.
func cutShort(t testing.TB, read func(context.Context) error, says func(columnar.IncompleteReadError) bool) {
	t.Helper()
	for limit := 250 * time.Millisecond; ; limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := read(ctx)
		cancel()
		var incomplete *columnar.IncompleteReadError
		switch {
		case !errors.Is(err, context.DeadlineExceeded):
			t.Fatalf("read behind an open transaction = %v; want the end of the context", err)
		case errors.As(err, &incomplete) && says(*incomplete):
			return
		case limit > patience:
			t.Fatalf("read behind an open transaction = %v; want an IncompleteReadError that says what is missing", err)
		}
	}
}

// Somebody writes to the topic in a transaction and does not end it. What lies
// before is not everything, and nobody says that it is.
func testStateBehindOpenTransaction(t *testing.T, c cluster) {
	topic := unique("state")
	s := c.store(t, topic)
	info := columnar.SnapshotInfo{Partition: 0, Epoch: columnar.NoEpoch, Generation: claim(t, s, 0)}
	confirm(t, s, save(t, s, info, counter(1)))
	ends, err := c.admin(t).ListEndOffsets(within(t), topic)
	if err != nil {
		t.Fatalf("end offsets: %v", err)
	}
	end, _ := ends.Lookup(topic, 0)
	foreign := c.openTransaction(t, topic)
	fresh := c.store(t, topic)
	for _, read := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := s.Snapshots(ctx, 0); return err },
		func(ctx context.Context) error { _, err := fresh.Snapshots(ctx, 0); return err },
		func(ctx context.Context) error { _, err := fresh.Rounds(ctx, 0, 0); return err },
		func(ctx context.Context) error { _, err := fresh.Claim(ctx, 0); return err },
	} {
		cutShort(t, read, func(incomplete columnar.IncompleteReadError) bool {
			return incomplete == columnar.IncompleteReadError{Partition: at(topic, 0), StableOffset: end.Offset, EndOffset: end.Offset + 1}
		})
	}
	// A save goes into the log and counts as soon as it can be read.
	info.Epoch = 5
	cutShort(t, func(ctx context.Context) error { _, err := s.SaveSnapshot(ctx, info, counter(5)); return err },
		func(incomplete columnar.IncompleteReadError) bool {
			return incomplete.Partition == at(topic, 0) && incomplete.StableOffset == end.Offset && incomplete.EndOffset > end.Offset+1
		})
	if err := foreign.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatalf("end of the foreign transaction: %v", err)
	}
	for name, one := range map[string]columnar.SnapshotStore{"owner": s, "other": fresh} {
		infos, err := one.Snapshots(within(t), 0)
		if err != nil {
			t.Fatalf("list by the %s: %v", name, err)
		}
		if len(infos) < 2 || infos[0].Epoch != 5 || infos[len(infos)-1].Epoch != columnar.NoEpoch {
			t.Errorf("list by the %s behind the transaction = %+v; want epoch 5 and the one before", name, infos)
		}
		if state, err := one.LoadSnapshot(within(t), infos[0]); err != nil || !cmp.Equal(state, counter(5)) {
			t.Errorf("load by the %s = %v, %v; want what was saved", name, state, err)
		}
	}
	if generation := claim(t, fresh, 0); generation <= info.Generation {
		t.Errorf("claim behind the transaction got generation %d after %d", generation, info.Generation)
	}
}

// live returns the keys of a kind that compaction would keep, in a partition.
func (c cluster) live(t testing.TB, topic string, kind uint16) int {
	t.Helper()
	live := map[string]bool{}
	for _, record := range c.readCommitted(t, topic) {
		if key := string(record.Key); record.Value == nil {
			delete(live, key)
		} else if recordKind(record.Key) == kind {
			live[key] = true
		}
	}
	return len(live)
}

// A new owner takes the partition when the old one has written all of a snapshot but
// its last record.
func testOwnerReplacedWhileItSaves(t *testing.T, c cluster) {
	topic := unique("state")
	fresh := c.store(t, topic)
	var first, second int64
	var after columnar.SnapshotInfo
	old := c.store(t, topic, kgo.WithHooks(sendHook(func(r *kgo.Record) {
		if recordKind(r.Key) == manifestRecord && first > 0 && second == 0 {
			second = claim(t, fresh, 0)
			after = save(t, fresh, columnar.SnapshotInfo{Partition: 0, Epoch: 7, Generation: second}, counter(7))
		}
	})))
	first = claim(t, old, 0)
	_, err := old.SaveSnapshot(within(t), columnar.SnapshotInfo{Partition: 0, Epoch: 7, Generation: first}, bigState(1))
	var stale *columnar.StaleOwnerError
	if !errors.As(err, &stale) {
		t.Fatalf("save = %v, want a StaleOwnerError", err)
	}
	if diff := cmp.Diff(&columnar.StaleOwnerError{Partition: 0, Generation: first, Current: second}, stale); diff != "" {
		t.Errorf("error mismatch (-want +got):\n%s", diff)
	}
	for name, s := range map[string]columnar.SnapshotStore{"old owner": old, "new owner": fresh, "other": c.store(t, topic)} {
		infos, err := s.Snapshots(within(t), 0)
		if err != nil {
			t.Fatalf("list by the %s: %v", name, err)
		}
		if diff := cmp.Diff([]int64{after.Generation}, numbers(infos, generationOf)); diff != "" {
			t.Errorf("generations listed by the %s mismatch (-want +got):\n%s", name, diff)
		}
		if state, err := s.LoadSnapshot(within(t), after); err != nil || !cmp.Equal(state, counter(7)) {
			t.Errorf("load by the %s = %v, %v; want the state of the new owner", name, state, err)
		}
	}
	// The next owner deletes what the first one left.
	claim(t, c.store(t, topic), 0)
	if chunks, manifests := c.live(t, topic, chunkRecord), c.live(t, topic, manifestRecord); chunks != 1 || manifests != 1 {
		t.Errorf("%d chunks and %d manifests are kept, want one each", chunks, manifests)
	}
}

// A snapshot is saved between two records of another.
func testSnapshotsSavedAtOnce(t *testing.T, c cluster) {
	topic := unique("state")
	var between func()
	s := c.store(t, topic, kgo.WithHooks(sendHook(func(r *kgo.Record) {
		if recordKind(r.Key) == chunkRecord && between != nil {
			if next := between; binary.BigEndian.Uint64(r.Key[40:]) == 1 { // the second chunk
				between = nil
				next()
			}
		}
	})))
	generation := claim(t, s, 0)
	var inner columnar.SnapshotInfo
	between = func() {
		inner = save(t, s, columnar.SnapshotInfo{Partition: 0, Epoch: 6, Generation: generation}, bigState(6))
	}
	outer := save(t, s, columnar.SnapshotInfo{Partition: 0, Epoch: 5, Generation: generation}, bigState(5))
	confirm(t, s, outer)
	confirm(t, s, inner)
	for _, reader := range []columnar.SnapshotStore{s, c.store(t, topic)} {
		infos, err := reader.Snapshots(within(t), 0)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if diff := cmp.Diff([]int64{6, 5}, numbers(infos, epochOf)); diff != "" {
			t.Fatalf("epochs mismatch (-want +got):\n%s", diff)
		}
		for _, info := range infos {
			state, err := reader.LoadSnapshot(within(t), info)
			if want := bigState(byte(info.Epoch)); err != nil || !bytes.Equal(state["big"], want["big"]) {
				t.Errorf("load of epoch %d = %d bytes, %v; want the %d saved", info.Epoch, len(state["big"]), err, len(want["big"]))
			}
		}
	}
}

// A topic takes small records only. What was saved before stays what it was, and
// what is small enough is saved afterwards.
func testStateTooLarge(t *testing.T, c cluster) {
	topic := unique("state")
	s := c.store(t, topic)
	limit := "100000"
	altered, err := c.admin(t).AlterTopicConfigs(within(t), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &limit}}, topic)
	if err == nil {
		err = altered[0].Err
	}
	if err != nil {
		t.Fatalf("configure topic: %v", err)
	}
	info := columnar.SnapshotInfo{Partition: 0, Epoch: 1, Generation: claim(t, s, 0)}
	confirm(t, s, save(t, s, info, counter(1)))
	info.Epoch = 2
	_, err = s.SaveSnapshot(within(t), info, bigState(2))
	var refused *columnar.TopicError
	if !errors.As(err, &refused) || refused.Topic != topic || !errors.Is(err, kerr.MessageTooLarge) || columnar.IsRetriable(err) {
		t.Errorf("save = %v; want a lasting TopicError of %s with MESSAGE_TOO_LARGE", err, topic)
	}
	info.Epoch = 3
	confirm(t, s, save(t, s, info, counter(3)))
	reader := c.store(t, topic)
	infos := snapshots(t, reader, 0)
	if diff := cmp.Diff([]int64{3, 1}, numbers(infos, epochOf)); diff != "" {
		t.Fatalf("epochs mismatch (-want +got):\n%s", diff)
	}
	for _, info := range infos {
		if state, err := reader.LoadSnapshot(within(t), info); err != nil || !cmp.Equal(state, counter(byte(info.Epoch))) {
			t.Errorf("load of epoch %d = %v, %v", info.Epoch, state, err)
		}
	}
}

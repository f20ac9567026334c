// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lockedTopic is a consumer of a barrier state topic on which transactions are
// open. A poll delivers what lies below the stable offsets, and waits for its
// timeout where there is nothing.
type lockedTopic struct {
	*rangedConsumer
	logs    fetch
	logEnds map[TopicPartition]int64
	elapsed func() // at the end of each poll, may change the offsets
}

// lockedAt is a topic with cuts of epochs 1 and 2 at offsets 3 and 12 of partition
// 0. An open transaction at offset 10 hides the second.
func lockedAt(tb testing.TB) *lockedTopic {
	tb.Helper()
	return &lockedTopic{
		rangedConsumer: &rangedConsumer{
			positionedConsumer: positionedConsumer{at: map[TopicPartition]int64{}},
			starts:             map[TopicPartition]int64{barrierTP(0): 0, barrierTP(1): 0},
			ends:               map[TopicPartition]int64{barrierTP(0): 10, barrierTP(1): 2},
		},
		logs: fetch{
			barrierTP(0): {cutRecord(tb, "audit", 1, cutAt(10), 3), cutRecord(tb, "audit", 2, cutAt(20), 12)},
			barrierTP(1): {cutRecord(tb, "other", 7, cutAt(70), 0)},
		},
		logEnds: map[TopicPartition]int64{barrierTP(0): 14, barrierTP(1): 2},
		elapsed: func() {},
	}
}

func (c *lockedTopic) LogEndOffsets(context.Context, []TopicPartition) (map[TopicPartition]int64, error) {
	return maps.Clone(c.logEnds), c.failWith["LogEndOffsets"]
}

func (c *lockedTopic) Poll(ctx context.Context, timeout time.Duration) (map[TopicPartition][]ConsumedRecord, error) {
	c.timeouts = append(c.timeouts, timeout)
	ready := fetch{}
	for tp, stable := range c.ends {
		for _, record := range c.logs[tp] {
			if record.Offset >= c.at[tp] && record.Offset < stable {
				ready[tp] = append(ready[tp], record)
			}
		}
		c.at[tp] = stable
	}
	if len(ready) == 0 && timeout > 0 {
		select {
		case <-time.After(timeout):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c.elapsed()
	return ready, nil
}

var hiddenCut = &IncompleteReadError{Partition: barrierTP(0), StableOffset: 10, EndOffset: 14}

func TestCutReaderReturnsNoOldCutBehindAnOpenTransaction(t *testing.T) {
	for _, wait := range []time.Duration{0, defaultCutStableWait, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			topic := lockedAt(t)
			reader := newReader(t, topic, 2, WithCutStableWait(wait))
			began := time.Now()
			latest, err := reader.LatestCompleteCut(t.Context(), "audit")
			if waited := time.Since(began); waited != wait {
				t.Errorf("the read took %v; want %v", waited, wait)
			}
			var incomplete *IncompleteReadError
			if latest != nil || !errors.As(err, &incomplete) || !IsRetriable(err) {
				t.Fatalf("LatestCompleteCut = %v, %v; want a retriable IncompleteReadError", latest, err)
			}
			if diff := cmp.Diff(hiddenCut, incomplete); diff != "" {
				t.Errorf("error mismatch (-want +got):\n%s", diff)
			}
			want := "columnar: __barrier_state/0 can be read up to offset 10 and ends at 14: an open transaction may hide committed records"
			if err.Error() != want {
				t.Errorf("error text %q; want %q", err, want)
			}
			topic.ends[barrierTP(0)] = 14
			if diff := cmp.Diff([]int64{1, 2}, epochsAfter(t, reader, "audit", -1)); diff != "" {
				t.Errorf("epochs behind the end of the transaction mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCutReaderWaitsForTheEndOfATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := lockedAt(t)
		polls := 0
		topic.elapsed = func() {
			if polls++; polls == 6 { // the first one found records
				topic.ends[barrierTP(0)] = 14
			}
		}
		reader := newReader(t, topic, 2)
		began := time.Now()
		if diff := cmp.Diff([]int64{1, 2}, epochsAfter(t, reader, "audit", -1)); diff != "" {
			t.Errorf("epochs mismatch (-want +got):\n%s", diff)
		}
		if waited := time.Since(began); waited != 5*stablePoll {
			t.Errorf("the read took %v; want %v", waited, 5*stablePoll)
		}
	})
}

// What is published while a read waits belongs to the next read, and a log that
// was cut off by a new leader ends where it ends.
func TestCutReaderWaitsForTheEndOfItsBeginning(t *testing.T) {
	for _, test := range []struct {
		name        string
		stable, log int64
		want        []int64
	}{
		{"the topic grows", 14, 20, []int64{1, 2}},
		{"the topic is cut off", 11, 11, []int64{1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				topic := lockedAt(t)
				topic.elapsed = func() {
					topic.ends[barrierTP(0)], topic.logEnds[barrierTP(0)] = test.stable, test.log
				}
				reader := newReader(t, topic, 2)
				if diff := cmp.Diff(test.want, epochsAfter(t, reader, "audit", -1)); diff != "" {
					t.Errorf("epochs mismatch (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestCutReaderNamesEveryPartitionThatIsHeldBack(t *testing.T) {
	topic := lockedAt(t)
	topic.logEnds[barrierTP(1)] = 5
	_, err := newReader(t, topic, 2, WithCutStableWait(0)).CompleteCutsAfter(t.Context(), "audit", -1)
	want := joinIncomplete([]*IncompleteReadError{hiddenCut, {Partition: barrierTP(1), StableOffset: 2, EndOffset: 5}})
	if err == nil || err.Error() != want.Error() {
		t.Errorf("CompleteCutsAfter error = %v; want %v", err, want)
	}
}

func TestCutReaderStopsWaitingWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		if _, err := newReader(t, lockedAt(t), 2).LatestCompleteCut(ctx, "audit"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("LatestCompleteCut error = %v; want %v", err, context.DeadlineExceeded)
		}
	})
}

func TestCutReaderFailsWhereTheLogEndIsNotKnown(t *testing.T) {
	cause := errors.New("broker is away")
	topic := lockedAt(t)
	topic.failWith = map[string]error{"LogEndOffsets": cause}
	if _, err := newReader(t, topic, 2).LatestCompleteCut(t.Context(), "audit"); !errors.Is(err, cause) {
		t.Errorf("LatestCompleteCut error = %v; want %v", err, cause)
	}
}

func TestRestoreWaitsForHiddenCuts(t *testing.T) {
	topic := lockedAt(t)
	store := &recordingStore{states: map[[2]int64]map[string][]byte{{0, 1}: {"ledger": []byte("{}")}}}
	r := newTestRunner(t, ledgerTopology(t), &scriptedConsumer{}, &recordingProducer{}, WithStateStore(store),
		WithBarrierGroup("audit", newReader(t, topic, 2, WithCutStableWait(0))))
	cut, err := r.RestoreToLatestCut(t.Context())
	if cut != nil || !errors.As(err, new(*IncompleteReadError)) || len(store.loaded) > 0 {
		t.Errorf("RestoreToLatestCut = %v, %v after loads %v; want an IncompleteReadError before any", cut, err, store.loaded)
	}
}

// A transaction on the barrier state topic holds no round up. It is reported once
// it has lasted, and what it hid is aligned on when it has ended.
func TestRoundsGoOnWhileCutsAreHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := lockedAt(t)
		topic.logs[barrierTP(0)][0] = cutRecord(t, "audit", 1, cutAt(1), 3)
		topic.logs[barrierTP(0)][1] = cutRecord(t, "audit", 2, cutAt(3), 12)
		consumer := &scriptedConsumer{}
		var reported []error
		var fired []int64
		r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{}, WithStateStore(&recordingStore{}),
			WithBarrierGroup("audit", newReader(t, topic, 2, WithCutStableWait(time.Hour))),
			WithBarrierListener(func(b Barrier) { fired = append(fired, b.Cut.Epoch) }),
			WithHooks(Hooks{Error: func(err error) { reported = append(reported, err) }}))
		round := func(records ...ConsumedRecord) {
			if len(records) > 0 {
				consumer.add(fetch{in(0): records})
			}
			began := time.Now()
			runOnce(t, r)
			if took := time.Since(began); took > 0 {
				t.Errorf("a round took %v", took)
			}
		}
		round(rows(0, 0, "ada 1")...)
		round()
		if len(reported) > 0 || r.Stats().BarrierOffsetsHidden != 0 {
			t.Errorf("reported %v at first sight, %d offsets hidden", reported, r.Stats().BarrierOffsetsHidden)
		}
		for range 3 {
			<-time.After(lookInterval)
			round()
		}
		if diff := cmp.Diff([]error{hiddenCut}, reported, cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })); diff != "" {
			t.Errorf("reports mismatch (-want +got):\n%s", diff)
		}
		if hidden := r.Stats().BarrierOffsetsHidden; hidden != 4 {
			t.Errorf("%d offsets hidden; want 4", hidden)
		}
		topic.ends[barrierTP(0)] = 14
		<-time.After(lookInterval)
		round(rows(0, 1, "ada 2", "ada 3")...)
		round()
		if diff := cmp.Diff([]int64{1, 2}, fired); diff != "" {
			t.Errorf("barriers mismatch (-want +got):\n%s", diff)
		}
		if hidden := r.Stats().BarrierOffsetsHidden; hidden != 0 || len(reported) != 1 {
			t.Errorf("%d offsets hidden, reports %v; want 0 and one report", hidden, reported)
		}
	})
}

func TestARunnerLooksForHiddenCutsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := lockedAt(t)
		looks := 0
		reader := newReader(t, topic, 2)
		for range 20 {
			before := reader.looked
			if _, err := reader.refresh(t.Context(), "audit", -1); err != nil {
				t.Fatal(err)
			}
			if reader.looked != before {
				looks++
			}
			<-time.After(time.Second)
		}
		if looks != 4 {
			t.Errorf("%d looks in 20 s; want 4", looks)
		}
		if slices.Max(topic.timeouts[1:]) > 0 {
			t.Errorf("poll timeouts %v; want 0 behind the first", topic.timeouts)
		}
	})
}

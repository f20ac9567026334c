// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// barriers collects what a barrier listener is told.
type barriers []Barrier

func (b *barriers) add(barrier Barrier) { *b = append(*b, barrier) }

// epochs renders barriers as "epoch partitions offsets".
func (b barriers) epochs() []string {
	texts := []string{}
	for _, barrier := range b {
		texts = append(texts, fmt.Sprintf("%d %v %s", barrier.Cut.Epoch, barrier.Partitions, formatOffsets(barrier.Offsets)))
	}
	return texts
}

// aligning is a runner of the counting topology on cuts of one group.
func aligning(tb testing.TB, consumer Consumer, store StateStore, cuts map[int64]map[TopicPartition]int64, options ...GroupRunnerOption) (*GroupRunner, *barriers) {
	tb.Helper()
	fired := &barriers{}
	options = append([]GroupRunnerOption{
		WithStateStore(store), WithBarrierGroup("audit", cutsOf(tb, cuts)), WithBarrierListener(fired.add),
	}, options...)
	return newTestRunner(tb, countingTopology(tb), consumer, &recordingProducer{}, options...), fired
}

func counts(tb testing.TB, r *GroupRunner, partition int) map[string][]byte {
	tb.Helper()
	return must[map[string][]byte](tb)(r.Topology().SnapshotPartition(partition))
}

func TestBarrierCutsAFetchInTwo(t *testing.T) {
	store := &recordingStore{}
	consumer := &positionedConsumer{}
	consumer.add(fetch{in(0): stretch(0, 0, 4)})
	r, fired := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{5: {in(0): 2}})

	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	want := barriers{{
		Cut:        BarrierCut{Group: "audit", Epoch: 5, TriggeredAt: 50, CompletedAt: 51, Offsets: map[TopicPartition]int64{in(0): 2}},
		Partitions: []int{0}, Offsets: map[TopicPartition]int64{in(0): 2},
	}}
	if diff := cmp.Diff(want, *fired); diff != "" {
		t.Errorf("barriers mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][2]int64{{0, 5}}, store.saved); diff != "" {
		t.Errorf("saves mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(counted(2), store.states[[2]int64{0, 5}]); diff != "" {
		t.Errorf("snapshot mismatch (-want +got):\n%s", diff)
	}
	if len(consumer.reads) != 0 {
		t.Errorf("%d position reads before any assignment; want none", len(consumer.reads))
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 4}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets of the held records mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(counted(4), counts(t, r, 0)); diff != "" {
		t.Errorf("state mismatch (-want +got):\n%s", diff)
	}
	if len(store.saved) != 1 || len(*fired) != 1 {
		t.Errorf("%d saves, %d barriers; want one each", len(store.saved), len(*fired))
	}
}

func TestBarrierWaitsForTheSlowestPartition(t *testing.T) {
	store := &recordingStore{}
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 3)}, {in(1): stretch(1, 0, 1)}}}
	r, _ := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{5: {in(0): 2, in(1): 1}})
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if len(store.saved) != 0 {
		t.Errorf("saves %v before every partition reached its cut", store.saved)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2, in(1): 1}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][2]int64{{0, 5}, {1, 5}}, store.saved); diff != "" {
		t.Errorf("saves mismatch (-want +got):\n%s", diff)
	}
}

func TestBarrierCountsThePositionOfAnIdlePartition(t *testing.T) {
	store := &recordingStore{}
	consumer := &positionedConsumer{at: map[TopicPartition]int64{in(1): 7}}
	consumer.add(fetch{in(0): stretch(0, 0, 2)})
	r, fired := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{5: {in(0): 2, in(1): 7}})
	r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2, in(1): 7}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][2]int64{{0, 5}, {1, 5}}, store.saved); diff != "" {
		t.Errorf("saves mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"5 [0 1] in/0:2 in/1:7"}, fired.epochs()); diff != "" {
		t.Errorf("barriers mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]TopicPartition{{in(0), in(1)}}, consumer.reads); diff != "" {
		t.Errorf("position reads mismatch (-want +got):\n%s", diff)
	}
}

func TestRevokedPartitionDoesNotHoldABarrierOpen(t *testing.T) {
	store := &recordingStore{}
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 3)}}}
	r, fired := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{5: {in(0): 2, in(1): 1}})
	r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
	runOnce(t, r)
	if len(*fired) != 0 {
		t.Errorf("barriers %v with a partition short of its cut", fired.epochs())
	}
	r.OnPartitionsRevoked([]TopicPartition{in(1)})
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"5 [0] in/0:2"}, fired.epochs()); diff != "" {
		t.Errorf("barriers mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([2]int64{0, 5}, store.saved[len(store.saved)-1]); diff != "" {
		t.Errorf("last save mismatch (-want +got):\n%s", diff)
	}
}

func TestPartialCutHoldsNothing(t *testing.T) {
	store := &recordingStore{}
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 4)}}}
	r, fired := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{5: nil})
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 4}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if len(store.saved) != 0 || len(*fired) != 0 {
		t.Errorf("saves %v, barriers %v; want none", store.saved, fired.epochs())
	}
}

func TestCutsInsideOneFetchFireOneAfterAnother(t *testing.T) {
	store := &recordingStore{}
	// The markers take offsets 3 and 6.
	records := append(append(stretch(0, 0, 3), stretch(0, 4, 6)...), stretch(0, 7, 10)...)
	consumer := &positionedConsumer{at: map[TopicPartition]int64{in(0): 0}}
	consumer.add(fetch{in(0): records})
	r, fired := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{1: {in(0): 3}, 2: {in(0): 6}})
	r.OnPartitionsAssigned([]TopicPartition{in(0)})
	var committed []map[TopicPartition]int64
	for range 3 {
		committed = append(committed, runOnce(t, r))
		consumer.at[in(0)] = 10
	}
	if diff := cmp.Diff([]map[TopicPartition]int64{{in(0): 3}, {in(0): 6}, {in(0): 10}}, committed); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1 [0] in/0:3", "2 [0] in/0:6"}, fired.epochs()); diff != "" {
		t.Errorf("barriers mismatch (-want +got):\n%s", diff)
	}
	want := map[[2]int64]map[string][]byte{{0, 1}: counted(3), {0, 2}: counted(5)}
	if diff := cmp.Diff(want, store.states); diff != "" {
		t.Errorf("snapshots mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(counted(8), counts(t, r, 0)); diff != "" {
		t.Errorf("state mismatch (-want +got):\n%s", diff)
	}
}

func TestRoundsWithRunnableRecordsDoNotWaitInThePoll(t *testing.T) {
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 4)}}}
	r, _ := aligning(t, consumer, &recordingStore{}, map[int64]map[TopicPartition]int64{5: {in(0): 2}})
	for range 3 {
		if _, err := r.RunOnce(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]time.Duration{time.Second, 0, time.Second}, consumer.timeouts); diff != "" {
		t.Errorf("poll timeouts mismatch (-want +got):\n%s", diff)
	}
}

func TestCutThatWasPassedIsSkipped(t *testing.T) {
	for name, position := range map[string]int64{"behind the marker": 3, "at the cut": 2, "beyond": 4} {
		t.Run(name, func(t *testing.T) {
			store := &recordingStore{}
			var skipped []string
			consumer := &positionedConsumer{at: map[TopicPartition]int64{in(0): position}}
			r, fired := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{1: {in(0): 2}, 2: {in(0): 9}},
				WithHooks(Hooks{CutSkipped: func(cut BarrierCut, reason error) { skipped = append(skipped, fmt.Sprint(cut.Epoch, " ", reason)) }}))
			r.OnPartitionsAssigned([]TopicPartition{in(0)})
			runOnce(t, r)
			wantFired, wantSkipped := []string{fmt.Sprintf("1 [0] in/0:%d", 2)}, []string(nil)
			if position > 3 {
				wantFired, wantSkipped = []string{}, []string{"1 in/0 stands at offset 4, behind the cut at 2"}
			}
			if diff := cmp.Diff(wantFired, fired.epochs()); diff != "" {
				t.Errorf("barriers mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wantSkipped, skipped); diff != "" {
				t.Errorf("skipped cuts mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLateCutDoesNotRewindTheCommit(t *testing.T) {
	store := &recordingStore{}
	cuts := &scriptedConsumer{}
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 100)}}}
	var fired barriers
	r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithStateStore(store),
		WithBarrierGroup("audit", newReader(t, cuts, 1)), WithBarrierListener(fired.add))
	r.OnPartitionsAssigned([]TopicPartition{in(0)})
	runOnce(t, r)
	cuts.add(fetch{barrierTP(0): {cutRecord(t, "audit", 1, map[TopicPartition]int64{in(0): 50}, 0)}})
	for range 3 {
		runOnce(t, r)
	}
	if diff := cmp.Diff([]map[TopicPartition]int64{{in(0): 100}}, consumer.commits); diff != "" {
		t.Errorf("commits mismatch (-want +got):\n%s", diff)
	}
	if len(store.saved) != 0 || len(fired) != 0 || r.Stats().CutsSkipped != 1 {
		t.Errorf("saves %v, barriers %v, %d cuts skipped; want one skipped", store.saved, fired.epochs(), r.Stats().CutsSkipped)
	}
}

func TestCutThatDoesNotNameEveryInputIsSkipped(t *testing.T) {
	tests := []struct {
		name   string
		cut    map[TopicPartition]int64
		reason string
	}{
		{"one input missing", map[TopicPartition]int64{{"a", 0}: 2}, "it does not name b/0"},
		{"no input named", map[TopicPartition]int64{{"elsewhere", 0}: 2}, "it does not name a/0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var reasons []string
			var fired barriers
			topology := through(t, "counter", func() Processor { return &counter{} }, "a", "b")
			consumer := &scriptedConsumer{fetches: []fetch{{{"a", 0}: stretch(0, 0, 4)}}}
			r := newTestRunner(t, topology, consumer, &recordingProducer{},
				WithBarrierGroup("audit", cutsOf(t, map[int64]map[TopicPartition]int64{1: test.cut})), WithBarrierListener(fired.add),
				WithHooks(Hooks{CutSkipped: func(_ BarrierCut, reason error) { reasons = append(reasons, reason.Error()) }}))
			r.OnPartitionsAssigned([]TopicPartition{{"a", 0}, {"b", 0}})
			if diff := cmp.Diff(map[TopicPartition]int64{{"a", 0}: 4}, runOnce(t, r)); diff != "" {
				t.Errorf("offsets mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{test.reason}, reasons); diff != "" || len(fired) != 0 {
				t.Errorf("barriers %v, reasons mismatch (-want +got):\n%s", fired.epochs(), diff)
			}
		})
	}
}

func TestContradictoryCutIsSkipped(t *testing.T) {
	value := unhex(t, "000000000000000003e800000000000004b0000000000100"+"02696e"+"0000000100000000"+"ffffffffffffffff"+"00000000")
	reader := newReader(t, &scriptedConsumer{fetches: []fetch{{barrierTP(0): {{Key: unhex(t, auditKey7), Value: value}}}}}, 1)
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 4)}}}
	r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithBarrierGroup("audit", reader))
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 4}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if stats := r.Stats(); stats.Barriers != 0 || stats.CutsSkipped != 1 {
		t.Errorf("%d barriers, %d cuts skipped; want 0, 1", stats.Barriers, stats.CutsSkipped)
	}
}

func TestMalformedBarrierRecordDoesNotStopTheData(t *testing.T) {
	cuts := &scriptedConsumer{fetches: []fetch{{barrierTP(0): {{Key: []byte{0}}, cutRecord(t, "audit", 1, map[TopicPartition]int64{in(0): 2}, 1)}}}}
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 4)}}}
	var reported []error
	r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithBarrierGroup("audit", newReader(t, cuts, 1)),
		WithHooks(Hooks{Error: func(err error) { reported = append(reported, err) }}))
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	var format *BarrierFormatError
	if len(reported) != 1 || !errors.As(reported[0], &format) || r.Stats().BadBarrierRecords != 1 {
		t.Errorf("reported %v, %d bad records; want the malformed one", reported, r.Stats().BadBarrierRecords)
	}
}

func TestCutReaderFailureStopsOnlyTheFirstRound(t *testing.T) {
	cause := errors.New("broker is away")
	cuts := &scriptedConsumer{failWith: map[string]error{"Assign": cause}}
	consumer := &scriptedConsumer{}
	r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithBarrierGroup("audit", newReader(t, cuts, 1)))
	if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, cause) || consumer.polls != 0 {
		t.Errorf("RunOnce with cuts unread = %v after %d polls; want %v before any", err, consumer.polls, cause)
	}
	cuts.failWith = nil
	consumer.add(fetch{in(0): stretch(0, 0, 1)}, fetch{in(0): stretch(0, 1, 2)})
	runOnce(t, r)
	cuts.pollErrs = []error{cause}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
}

func TestBarrierListenerMayPanic(t *testing.T) {
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 2)}}}
	r, _ := aligning(t, consumer, &recordingStore{}, map[int64]map[TopicPartition]int64{5: {in(0): 2}},
		WithBarrierListener(func(Barrier) { panic("listener bug") }))
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if got := r.Stats().ListenerPanics; got != 1 {
		t.Errorf("%d listener panics counted; want 1", got)
	}
}

func TestNewestCutSkipsTheOthers(t *testing.T) {
	store := &recordingStore{}
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 10)}}}
	r, fired := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{1: {in(0): 2}, 2: {in(0): 4}, 3: {in(0): 6}}, WithNewestCut())
	for range 3 {
		runOnce(t, r)
	}
	if diff := cmp.Diff([]string{"3 [0] in/0:6"}, fired.epochs()); diff != "" {
		t.Errorf("barriers mismatch (-want +got):\n%s", diff)
	}
	if got := r.Stats().CutsSkipped; got != 2 {
		t.Errorf("%d cuts skipped; want 2", got)
	}
}

func TestAlignmentDeadlineAbandonsTheCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 4)}}}
		var reasons []string
		r, fired := aligning(t, consumer, &recordingStore{}, map[int64]map[TopicPartition]int64{5: {in(0): 2, in(1): 1}},
			WithAlignmentDeadline(time.Minute),
			WithHooks(Hooks{CutSkipped: func(_ BarrierCut, reason error) { reasons = append(reasons, reason.Error()) }}))
		r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
		runOnce(t, r)
		wait(59 * time.Second)
		if diff := cmp.Diff(map[TopicPartition]int64{}, runOnce(t, r)); diff != "" {
			t.Errorf("offsets before the deadline mismatch (-want +got):\n%s", diff)
		}
		if stats := r.Stats(); stats.PendingEpoch != 5 || stats.PendingAge != 59*time.Second || stats.HeldRecords != 2 || stats.HeldBytes < 2*8 {
			t.Errorf("epoch %d pending for %v, holding %d records of %d bytes; want 5 for 59s, 2", stats.PendingEpoch, stats.PendingAge, stats.HeldRecords, stats.HeldBytes)
		}
		wait(time.Second)
		if diff := cmp.Diff(map[TopicPartition]int64{in(0): 4}, runOnce(t, r)); diff != "" {
			t.Errorf("offsets at the deadline mismatch (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"not every partition reached it within 1m0s: in/1:0"}, reasons); diff != "" {
			t.Errorf("reasons mismatch (-want +got):\n%s", diff)
		}
		if stats := r.Stats(); stats.CutsAbandoned != 1 || stats.PendingEpoch != NoEpoch || stats.HeldRecords != 0 || len(*fired) != 0 {
			t.Errorf("%d cuts abandoned, epoch %d pending, %d records held; want 1, none, 0", stats.CutsAbandoned, stats.PendingEpoch, stats.HeldRecords)
		}
	})
}

// wait passes time in a synctest bubble.
func wait(d time.Duration) { <-time.After(d) }

// pausingConsumer is a [scriptedConsumer] that is a [Pauser].
type pausingConsumer struct {
	scriptedConsumer
	calls []string
}

func (c *pausingConsumer) Pause(partitions []TopicPartition) {
	c.calls = append(c.calls, "pause "+formatPartitions(partitions))
}

func (c *pausingConsumer) Resume(partitions []TopicPartition) {
	c.calls = append(c.calls, "resume "+formatPartitions(partitions))
}

// A partition is paused at its cut once what it holds is half of what may be held.
func TestPartitionIsPausedAtItsCut(t *testing.T) {
	consumer := &pausingConsumer{}
	consumer.add(fetch{in(0): stretch(0, 0, 3)}, fetch{}, fetch{in(1): stretch(1, 0, 1)})
	r, _ := aligning(t, consumer, &recordingStore{}, map[int64]map[TopicPartition]int64{5: {in(0): 2, in(1): 1}}, WithHeldBytes(200))
	r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
	for range 3 {
		runOnce(t, r)
	}
	if diff := cmp.Diff([]string{"pause in/0", "resume in/0"}, consumer.calls); diff != "" {
		t.Errorf("pauses mismatch (-want +got):\n%s", diff)
	}
}

func TestHeldRecordsBeyondTheLimitAreFetchedAgain(t *testing.T) {
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 1000)}, {in(1): stretch(1, 0, 1)}, {in(0): stretch(0, 2, 1000)}}}
	r, fired := aligning(t, consumer, &recordingStore{}, map[int64]map[TopicPartition]int64{5: {in(0): 2, in(1): 1}}, WithHeldBytes(1000))
	r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
	runOnce(t, r)
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, consumer.sought); diff != "" {
		t.Errorf("seeks mismatch (-want +got):\n%s", diff)
	}
	if got := r.Stats().HeldBytes; got != 0 {
		t.Errorf("%d bytes held; want none", got)
	}
	for range 2 {
		runOnce(t, r)
	}
	if diff := cmp.Diff(counted(1000), counts(t, r, 0)); diff != "" {
		t.Errorf("state mismatch (-want +got):\n%s", diff)
	}
	if len(*fired) != 1 {
		t.Errorf("barriers %v; want one", fired.epochs())
	}
}

func TestPartitionThatArrivesLateTakesTheEpochToo(t *testing.T) {
	store := &recordingStore{}
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 4)}}}
	r, fired := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{5: {in(0): 2, in(1): 1}})
	r.OnPartitionsAssigned([]TopicPartition{in(0)})
	for range 2 {
		runOnce(t, r)
	}
	r.OnPartitionsAssigned([]TopicPartition{in(1)})
	consumer.add(fetch{in(1): stretch(1, 0, 3), in(0): stretch(0, 4, 6)})
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 6, in(1): 1}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"5 [0] in/0:2", "5 [1] in/1:1"}, fired.epochs()); diff != "" {
		t.Errorf("barriers mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][2]int64{{0, 5}, {1, 5}}, store.saved); diff != "" {
		t.Errorf("saves mismatch (-want +got):\n%s", diff)
	}
}

func TestGroupMadeAnewStartsOver(t *testing.T) {
	cuts := &scriptedConsumer{fetches: []fetch{{barrierTP(0): {cutRecord(t, "audit", 7, map[TopicPartition]int64{in(0): 2}, 0)}}}}
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 2)}}}
	var fired barriers
	r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithBarrierGroup("audit", newReader(t, cuts, 1)), WithBarrierListener(fired.add))
	runOnce(t, r)
	cuts.add(fetch{barrierTP(0): {{Key: unhex(t, groupKey), Offset: 1}, cutRecord(t, "audit", 0, map[TopicPartition]int64{in(0): 4}, 2)}})
	consumer.add(fetch{}, fetch{in(0): stretch(0, 3, 6)})
	for range 3 {
		runOnce(t, r)
	}
	if diff := cmp.Diff([]string{"7 [0] in/0:2", "0 [0] in/0:4"}, fired.epochs()); diff != "" {
		t.Errorf("barriers mismatch (-want +got):\n%s", diff)
	}
}

func TestFailedBarrierLeavesTheEpochOpen(t *testing.T) {
	for _, failing := range []string{"save", "commit"} {
		t.Run(failing, func(t *testing.T) {
			cause := errors.New("refused")
			store := &recordingStore{}
			consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 4)}, {in(0): stretch(0, 0, 4)}}}
			switch failing {
			case "save":
				store.saveErr, store.failures = cause, 1
			case "commit":
				consumer.failWith = map[string]error{"CommitOffsets": cause}
			}
			r, fired := aligning(t, consumer, store, map[int64]map[TopicPartition]int64{5: {in(0): 2}})
			offsets, err := r.RunOnce(t.Context(), 0)
			if offsets != nil || !errors.Is(err, cause) || len(*fired) != 0 {
				t.Errorf("RunOnce = %v, %v with barriers %v; want nil, %v", offsets, err, fired.epochs(), cause)
			}
			if diff := cmp.Diff(map[TopicPartition]int64{in(0): 0}, consumer.sought); diff != "" {
				t.Errorf("seeks mismatch (-want +got):\n%s", diff)
			}
			consumer.failWith = nil
			if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, runOnce(t, r)); diff != "" {
				t.Errorf("offsets mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"5 [0] in/0:2"}, fired.epochs()); diff != "" {
				t.Errorf("barriers mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(counted(2), store.states[[2]int64{0, 5}]); diff != "" {
				t.Errorf("snapshot mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTransactionalBarrierIsOneTransaction(t *testing.T) {
	for _, failing := range []bool{false, true} {
		store := &recordingStore{}
		producer := &recordingTransactions{failWith: map[string]error{}}
		store.onSave = func(int64) { _ = producer.event("snapshot") }
		cause := errors.New("commit refused")
		want := []string{"begin", "snapshot", "send-offsets", "commit"}
		if failing {
			producer.failWith["commit"] = cause
			want = append(want, "abort")
		}
		var fired barriers
		consumer := &scriptedConsumer{fetches: []fetch{{in(0): stretch(0, 0, 4)}}}
		r := newTestRunner(t, countingTopology(t), consumer, producer, WithStateStore(store),
			WithBarrierGroup("audit", cutsOf(t, map[int64]map[TopicPartition]int64{5: {in(0): 2}})), WithBarrierListener(fired.add))
		offsets, err := r.RunOnceTransactional(t.Context(), 0)
		if diff := cmp.Diff(want, producer.events); diff != "" {
			t.Errorf("events mismatch (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, producer.offsets); diff != "" || producer.metadata != "group-metadata" {
			t.Errorf("metadata %v, sent offsets mismatch (-want +got):\n%s", producer.metadata, diff)
		}
		if failing {
			if offsets != nil || !errors.Is(err, cause) || !strings.Contains(err.Error(), "commit refused") || len(fired) != 0 {
				t.Errorf("RunOnceTransactional = %v, %v with barriers %v; want nil, %v", offsets, err, fired.epochs(), cause)
			}
			continue
		}
		if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, offsets); diff != "" || err != nil || len(fired) != 1 {
			t.Errorf("barriers %v, error %v, offsets mismatch (-want +got):\n%s", fired.epochs(), err, diff)
		}
	}
}

// TestCutWithoutAMarkerThatWasPassedIsSkipped publishes a cut at the offset that
// the next record took, as it happens where no marker fills it, when that record
// has been processed: by the runner itself, and by the one before it.
func TestCutWithoutAMarkerThatWasPassedIsSkipped(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restarts), func(t *testing.T) {
			c := clusterOf(t, map[string]int{"in": 1})
			c.fill(in(0), ones(3)...)
			store := NewFileStateStore(t.TempDir())
			var fired barriers
			var skipped []string
			run := func(id string) (*GroupRunner, *fakeMember) {
				member := c.member(id)
				return newTestRunner(t, ledgerTopology(t), member, member, WithStateStore(store),
					WithBarrierGroup("audit", newReader(t, c.member("cuts of "+id), 1)), WithBarrierListener(fired.add),
					WithHooks(Hooks{CutSkipped: func(_ BarrierCut, reason error) { skipped = append(skipped, reason.Error()) }})), member
			}
			r, member := run("first")
			untilDrained(t, r, c, "in")
			publish := func(epoch, offset int64) {
				key, value, err := EncodeBarrierCut(BarrierCut{Group: "audit", Epoch: epoch, Offsets: map[TopicPartition]int64{in(0): offset}})
				if err != nil {
					t.Fatal(err)
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				c.append(barrierTP(0), fakeEntry{record: ConsumedRecord{Key: key, Value: value}})
			}
			c.fill(in(0), "ada 1")
			untilDrained(t, r, c, "in")
			if restarts {
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				c.expire(member)
				r, _ = run("second")
			}
			publish(1, 3)
			publish(2, 4)
			for range 5 {
				runOnce(t, r)
			}
			if diff := cmp.Diff([]string{"in/0 has processed offset 3, behind the cut at 3"}, skipped); diff != "" {
				t.Errorf("skipped cuts mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"2 [0] in/0:4"}, fired.epochs()); diff != "" {
				t.Errorf("barriers mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

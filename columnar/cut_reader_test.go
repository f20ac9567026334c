// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func barrierTP(partition int) TopicPartition {
	return TopicPartition{Topic: BarrierStateTopic, Partition: partition}
}

// cutRecord is the record of a complete cut of group at one partition of "in",
// or of a partial one without an offset.
func cutRecord(tb testing.TB, group string, epoch int64, offsets map[TopicPartition]int64, offset int64) ConsumedRecord {
	tb.Helper()
	cut := BarrierCut{Group: group, Epoch: epoch, TriggeredAt: epoch * 10, CompletedAt: epoch*10 + 1, Offsets: offsets}
	if len(offsets) == 0 {
		cut.Status, cut.Missing = CutPartial, []TopicPartition{{"in", 0}}
	}
	key, value, err := EncodeBarrierCut(cut)
	if err != nil {
		tb.Fatal(err)
	}
	return ConsumedRecord{Key: key, Value: value, Offset: offset}
}

func cutAt(offset int64) map[TopicPartition]int64 {
	return map[TopicPartition]int64{{"in", 0}: offset}
}

func newReader(tb testing.TB, consumer Consumer, partitions int, options ...CutReaderOption) *CutReader {
	tb.Helper()
	reader, err := NewCutReader(consumer, partitions, options...)
	if err != nil {
		tb.Fatal(err)
	}
	return reader
}

func epochsAfter(tb testing.TB, reader *CutReader, group string, epoch int64) []int64 {
	tb.Helper()
	cuts, err := reader.CompleteCutsAfter(tb.Context(), group, epoch)
	if err != nil {
		tb.Fatalf("CompleteCutsAfter(%q, %d): %v", group, epoch, err)
	}
	epochs := []int64{}
	for _, cut := range cuts {
		epochs = append(epochs, cut.Epoch)
	}
	return epochs
}

func TestCutReaderReturnsCompleteCutsOfOneGroup(t *testing.T) {
	consumer := &scriptedConsumer{fetches: []fetch{
		{
			barrierTP(0): {
				{Key: unhex(t, groupKey), Value: unhex(t, groupValue4), Offset: 0},
				cutRecord(t, "audit", 1, cutAt(10), 1),
				cutRecord(t, "audit", 2, nil, 2),
			},
			barrierTP(1): {
				cutRecord(t, "other", 3, cutAt(30), 0),
				{Key: unhex(t, startKey), Value: unhex(t, startValue), Offset: 1},
			},
		},
		{barrierTP(1): {cutRecord(t, "audit", 4, cutAt(40), 2)}},
	}}
	reader := newReader(t, consumer, 2)

	latest, err := reader.LatestCompleteCut(t.Context(), "audit")
	if err != nil {
		t.Fatal(err)
	}
	want := &BarrierCut{Group: "audit", Epoch: 4, TriggeredAt: 40, CompletedAt: 41, Offsets: cutAt(40)}
	if diff := cmp.Diff(want, latest); diff != "" {
		t.Errorf("LatestCompleteCut mismatch (-want +got):\n%s", diff)
	}
	got := [][]int64{epochsAfter(t, reader, "audit", -1), epochsAfter(t, reader, "audit", 1), epochsAfter(t, reader, "other", -1), epochsAfter(t, reader, "absent", -1)}
	if diff := cmp.Diff([][]int64{{1, 4}, {4}, {3}, {}}, got); diff != "" {
		t.Errorf("epochs mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]TopicPartition{barrierTP(0), barrierTP(1)}, consumer.assigned); diff != "" {
		t.Errorf("assignment mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{barrierTP(0): 0, barrierTP(1): 0}, consumer.sought); diff != "" {
		t.Errorf("seeks mismatch (-want +got):\n%s", diff)
	}
	if consumer.assigns != 1 || consumer.seeks != 2 {
		t.Errorf("assigned %d times with %d seeks; want 1 with 2", consumer.assigns, consumer.seeks)
	}
}

func TestCutReaderReturnsCopies(t *testing.T) {
	reader := newReader(t, &scriptedConsumer{fetches: []fetch{{barrierTP(0): {cutRecord(t, "audit", 1, cutAt(10), 0)}}}}, 1)
	first, err := reader.LatestCompleteCut(t.Context(), "audit")
	if err != nil {
		t.Fatal(err)
	}
	first.Offsets[TopicPartition{"in", 0}] = 99
	second, err := reader.LatestCompleteCut(t.Context(), "audit")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cutAt(10), second.Offsets); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
}

func TestCutReaderFoldsLaterRecordsIntoEarlierOnes(t *testing.T) {
	key, _, err := EncodeBarrierCut(BarrierCut{Group: "audit", Epoch: 1, Offsets: cutAt(10)})
	if err != nil {
		t.Fatal(err)
	}
	group := func(value string) ConsumedRecord {
		return ConsumedRecord{Key: unhex(t, groupKey), Value: unhex(t, value)}
	}
	groupLast3 := "000000000000ffffffffffffffff000000030000000000000003"
	tests := []struct {
		name    string
		records []ConsumedRecord
		want    []int64
	}{
		{"tombstone of a cut", []ConsumedRecord{cutRecord(t, "audit", 1, cutAt(10), 0), {Key: key}}, []int64{}},
		{"tombstone of an unknown cut", []ConsumedRecord{{Key: key}, cutRecord(t, "audit", 2, cutAt(10), 0)}, []int64{2}},
		{"partial record over a complete one", []ConsumedRecord{cutRecord(t, "audit", 1, cutAt(10), 0), cutRecord(t, "audit", 1, nil, 0)}, []int64{}},
		{"tombstone of the group", []ConsumedRecord{cutRecord(t, "audit", 1, cutAt(10), 0), group(""), cutRecord(t, "audit", 0, cutAt(3), 0)}, []int64{0}},
		{"cut ahead of its group", []ConsumedRecord{cutRecord(t, "audit", 5, cutAt(10), 0), group(groupValue4)}, []int64{5}},
		{"group that grows", []ConsumedRecord{group(groupLast3), cutRecord(t, "audit", 4, cutAt(10), 0), group(groupValue4)}, []int64{4}},
		{"group made anew under its name", []ConsumedRecord{group(groupValue4), cutRecord(t, "audit", 4, cutAt(10), 0), group(groupLast3), cutRecord(t, "audit", 1, cutAt(2), 0)}, []int64{1}},
		{"group value in another format", []ConsumedRecord{cutRecord(t, "audit", 1, cutAt(10), 0), group("ff")}, []int64{1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for i := range test.records {
				test.records[i].Offset = int64(i)
			}
			reader := newReader(t, &scriptedConsumer{fetches: []fetch{{barrierTP(0): test.records}}}, 1)
			if diff := cmp.Diff(test.want, epochsAfter(t, reader, "audit", -1)); diff != "" {
				t.Errorf("epochs mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCutReaderReplacesACutOfTheSameEpoch(t *testing.T) {
	consumer := &scriptedConsumer{fetches: []fetch{{barrierTP(0): {cutRecord(t, "audit", 1, cutAt(10), 0), cutRecord(t, "audit", 1, cutAt(12), 1)}}}}
	latest, err := newReader(t, consumer, 1).LatestCompleteCut(t.Context(), "audit")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cutAt(12), latest.Offsets); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
}

func TestCutReaderContinuesWhereItStopped(t *testing.T) {
	consumer := &scriptedConsumer{fetches: []fetch{{barrierTP(0): {cutRecord(t, "audit", 1, cutAt(10), 0)}}}}
	reader := newReader(t, consumer, 1)
	if diff := cmp.Diff([]int64{1}, epochsAfter(t, reader, "audit", -1)); diff != "" {
		t.Errorf("first read mismatch (-want +got):\n%s", diff)
	}
	consumer.add(fetch{barrierTP(0): {cutRecord(t, "audit", 2, cutAt(20), 1)}})
	if diff := cmp.Diff([]int64{1, 2}, epochsAfter(t, reader, "audit", -1)); diff != "" {
		t.Errorf("second read mismatch (-want +got):\n%s", diff)
	}
	if consumer.seeks != 1 || consumer.assigns != 1 {
		t.Errorf("%d seeks, %d assignments; want 1, 1", consumer.seeks, consumer.assigns)
	}
}

func TestCutReaderReportsAMalformedRecordOnceAndKeepsTheOthers(t *testing.T) {
	key := unhex(t, auditKey5)
	consumer := &scriptedConsumer{fetches: []fetch{{barrierTP(0): {
		cutRecord(t, "audit", 1, cutAt(10), 0),
		{Key: key, Value: []byte{0, 0, 1}, Offset: 1},
		cutRecord(t, "audit", 2, cutAt(20), 2),
	}}}}
	reader := newReader(t, consumer, 1)
	_, err := reader.CompleteCutsAfter(t.Context(), "audit", -1)
	var format *BarrierFormatError
	if !errors.As(err, &format) || format.Part != "cut value" ||
		!strings.Contains(err.Error(), "__barrier_state/0 offset 1: truncated barrier state cut value") {
		t.Errorf("first read error = %v; want the malformed record named", err)
	}
	if diff := cmp.Diff([]int64{1, 2}, epochsAfter(t, reader, "audit", -1)); diff != "" {
		t.Errorf("second read mismatch (-want +got):\n%s", diff)
	}
}

func TestCutReaderRefusesBadArguments(t *testing.T) {
	consumer := &scriptedConsumer{}
	tests := []struct {
		name       string
		consumer   Consumer
		partitions int
		option     CutReaderOption
		want       string
	}{
		{"no consumer", nil, 1, WithCutIdlePolls(1), "a cut reader needs a consumer"},
		{"no partitions", consumer, 0, WithCutIdlePolls(1), "a cut reader needs at least one partition"},
		{"no idle polls", consumer, 1, WithCutIdlePolls(0), "a cut reader needs at least one idle poll"},
		{"no topic", consumer, 1, WithCutTopic(""), "a cut reader needs a topic"},
		{"negative timeout", consumer, 1, WithCutPollTimeout(-1), "cut poll timeout -1ns is negative"},
		{"negative wait", consumer, 1, WithCutStableWait(-1), "cut stable wait -1ns is negative"},
		{"nil option", consumer, 1, nil, "cut reader option 0 is nil"},
		{"all at once", nil, 0, WithCutTopic(""), "a cut reader needs a consumer\na cut reader needs at least one partition\na cut reader needs a topic"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reader, err := NewCutReader(test.consumer, test.partitions, test.option)
			if reader != nil || err == nil || err.Error() != test.want {
				t.Errorf("NewCutReader = %v, %v; want nil, %q", reader, err, test.want)
			}
		})
	}
}

func TestCutReaderOptionsSetTopicAndPolls(t *testing.T) {
	other := TopicPartition{"cuts", 0}
	consumer := &scriptedConsumer{fetches: []fetch{
		{}, {other: {cutRecord(t, "audit", 1, cutAt(10), 0)}, barrierTP(0): {cutRecord(t, "audit", 2, cutAt(10), 0)}}, {}, {},
	}}
	reader := newReader(t, consumer, 1, WithCutTopic("cuts"), WithCutPollTimeout(3*time.Second), WithCutIdlePolls(2))
	if diff := cmp.Diff([]int64{1}, epochsAfter(t, reader, "audit", -1)); diff != "" {
		t.Errorf("epochs mismatch (-want +got):\n%s", diff)
	}
	want := []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second}
	if diff := cmp.Diff(want, consumer.timeouts); diff != "" {
		t.Errorf("poll timeouts mismatch (-want +got):\n%s", diff)
	}
}

func TestCutReaderReadsToTheEndOffsetsWhateverLiesBetween(t *testing.T) {
	consumer := &rangedConsumer{
		starts: map[TopicPartition]int64{barrierTP(0): 5},
		ends:   map[TopicPartition]int64{barrierTP(0): 9},
	}
	consumer.at = map[TopicPartition]int64{barrierTP(0): 5}
	consumer.fetches = []fetch{{}, {}, {barrierTP(0): {cutRecord(t, "audit", 1, cutAt(10), 5)}}, {}}
	// Offsets 6 to 8 are a control record and a compacted tail: the position
	// passes them on the fifth poll without a record.
	consumer.onPoll = func(context.Context) error {
		consumer.mu.Lock()
		defer consumer.mu.Unlock()
		if consumer.polls == 4 {
			consumer.at[barrierTP(0)] = 9
		}
		return nil
	}
	reader := newReader(t, consumer, 1)
	if diff := cmp.Diff([]int64{1}, epochsAfter(t, reader, "audit", -1)); diff != "" {
		t.Errorf("epochs mismatch (-want +got):\n%s", diff)
	}
	if consumer.polls != 5 || consumer.sought[barrierTP(0)] != 5 {
		t.Errorf("%d polls from %d; want 5 polls from 5", consumer.polls, consumer.sought[barrierTP(0)])
	}
}

func TestCutReaderEndsAtOnceOnAnEmptyTopicWithKnownEnds(t *testing.T) {
	consumer := &rangedConsumer{starts: map[TopicPartition]int64{barrierTP(0): 4}, ends: map[TopicPartition]int64{barrierTP(0): 4}}
	consumer.at = map[TopicPartition]int64{barrierTP(0): 4}
	if latest, err := newReader(t, consumer, 1).LatestCompleteCut(t.Context(), "audit"); latest != nil || err != nil {
		t.Errorf("LatestCompleteCut = %v, %v; want nil, nil", latest, err)
	}
	if consumer.polls != 0 {
		t.Errorf("%d polls; want none", consumer.polls)
	}
}

func TestCutReaderTriesAgainAfterAFailure(t *testing.T) {
	for _, method := range []string{"Assign", "Seek", "StartOffsets", "EndOffsets", "Positions"} {
		t.Run(method, func(t *testing.T) {
			cause := errors.New("broker is away")
			consumer := &rangedConsumer{starts: map[TopicPartition]int64{}, ends: map[TopicPartition]int64{barrierTP(0): 1}}
			consumer.failWith = map[string]error{method: cause}
			consumer.fetches = []fetch{{barrierTP(0): {cutRecord(t, "audit", 1, cutAt(10), 0)}}}
			reader := newReader(t, consumer, 1)
			if _, err := reader.LatestCompleteCut(t.Context(), "audit"); !errors.Is(err, cause) || !strings.Contains(err.Error(), BarrierStateTopic) {
				t.Errorf("first read error = %v; want %v with the topic", err, cause)
			}
			consumer.failWith = nil
			if diff := cmp.Diff([]int64{1}, epochsAfter(t, reader, "audit", -1)); diff != "" {
				t.Errorf("second read mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCutReaderKeepsWhatItReadBeforeAPollFailed(t *testing.T) {
	cause := errors.New("connection reset")
	consumer := &scriptedConsumer{fetches: []fetch{{barrierTP(0): {cutRecord(t, "audit", 1, cutAt(10), 0)}}}, pollErrs: []error{nil, cause}}
	reader := newReader(t, consumer, 1)
	if _, err := reader.LatestCompleteCut(t.Context(), "audit"); !errors.Is(err, cause) {
		t.Errorf("first read error = %v; want %v", err, cause)
	}
	if diff := cmp.Diff([]int64{1}, epochsAfter(t, reader, "audit", -1)); diff != "" {
		t.Errorf("second read mismatch (-want +got):\n%s", diff)
	}
}

func TestCutReaderWaitingForItsTurnEndsWithTheContext(t *testing.T) {
	polling, proceed := make(chan struct{}), make(chan struct{})
	consumer := &scriptedConsumer{onPoll: func(context.Context) error {
		polling <- struct{}{}
		<-proceed
		return nil
	}}
	reader := newReader(t, consumer, 1)
	done := make(chan error)
	go func() {
		_, err := reader.LatestCompleteCut(t.Context(), "audit")
		done <- err
	}()
	<-polling
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := reader.LatestCompleteCut(ctx, "audit"); !errors.Is(err, context.Canceled) {
		t.Errorf("LatestCompleteCut error = %v; want %v", err, context.Canceled)
	}
	close(proceed)
	if err := <-done; err != nil {
		t.Errorf("the read in progress failed: %v", err)
	}
}

func TestCutReaderRefreshDoesNotWait(t *testing.T) {
	consumer := &scriptedConsumer{fetches: []fetch{{barrierTP(0): {cutRecord(t, "audit", 1, cutAt(10), 0)}}}}
	reader := newReader(t, consumer, 1)
	var got [][]int64
	for range 3 {
		news, err := reader.refresh(t.Context(), "audit", 0)
		if err != nil || news.bad != nil || news.hidden != nil {
			t.Fatal(err, news.bad, news.hidden)
		}
		epochs := []int64{news.newest}
		for _, cut := range news.cuts {
			epochs = append(epochs, cut.Epoch)
		}
		got = append(got, epochs)
		consumer.add(fetch{barrierTP(0): {cutRecord(t, "audit", 2, nil, 1)}})
	}
	if diff := cmp.Diff([][]int64{{1, 1}, {2, 1}, {2, 1}}, got); diff != "" {
		t.Errorf("newest and complete epochs mismatch (-want +got):\n%s", diff)
	}
	want := []time.Duration{defaultCutPollTimeout, defaultCutPollTimeout, 0, 0}
	if diff := cmp.Diff(want, consumer.timeouts); diff != "" {
		t.Errorf("poll timeouts mismatch (-want +got):\n%s", diff)
	}
}

func TestCutReaderMarksContradictoryCutsUnusable(t *testing.T) {
	value := func(hex string) []byte { return unhex(t, hex) }
	tests := []struct{ name, value, want string }{
		{"negative offset", "000000000000000003e800000000000004b0000000000100066f72646572730000000100000000ffffffffffffffff00000000", "negative partition or offset in orders/0 at -1"},
		{"partition twice", "000000000000000003e800000000000004b0000000000100066f726465727300000002000000000000000000001068000000000000000000001069" + "00000000", "orders/0 is named twice"},
		{"complete with missing", "000000000000000003e800000000000004b0000000000100066f726465727300000001000000000000000000001068" + "0000000100066f726465727300000001", "complete with 1 missing partitions"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reader := newReader(t, &scriptedConsumer{fetches: []fetch{{barrierTP(0): {{Key: unhex(t, auditKey7), Value: value(test.value)}}}}}, 1)
			news, err := reader.refresh(t.Context(), "audit", -1)
			if err != nil || len(news.cuts) != 1 {
				t.Fatalf("refresh = %v, %v; want one cut", news.cuts, err)
			}
			if unusable := news.cuts[0].unusable; unusable == nil || unusable.Error() != test.want {
				t.Errorf("unusable = %v; want %q", unusable, test.want)
			}
		})
	}
}

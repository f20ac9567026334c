// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/barrierlog"
)

// startRecord is the announcement of a cut.
func startRecord(tb testing.TB, group string, epoch, offset int64) ConsumedRecord {
	tb.Helper()
	record := cutRecord(tb, group, epoch, map[TopicPartition]int64{in(0): 0}, offset)
	record.Key[3] = barrierlog.KindStart
	return record
}

// stableConsumer is a [scriptedConsumer] that was told stable ends.
type stableConsumer struct {
	positionedConsumer
	ends map[TopicPartition]int64
}

func (c *stableConsumer) StableEnds([]TopicPartition) map[TopicPartition]int64 { return c.ends }

// The start of an epoch is seen after records 0 and 1 have been read. What comes
// then waits for the cut, apart from what lies below the stable end of before.
func TestRecordsBehindAnAnnouncedCutWaitForIt(t *testing.T) {
	for _, tt := range []struct {
		name     string
		ends     map[TopicPartition]int64
		meantime map[TopicPartition]int64 // committed while the cut is awaited
	}{
		{"without lag", nil, map[TopicPartition]int64{}},
		{"with lag", map[TopicPartition]int64{in(0): 4}, map[TopicPartition]int64{in(0): 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cuts := &scriptedConsumer{}
			consumer := &stableConsumer{ends: tt.ends}
			consumer.add(fetch{in(0): stretch(0, 0, 2)}, fetch{in(0): stretch(0, 2, 6)})
			store := &recordingStore{}
			var fired barriers
			r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{},
				WithStateStore(store), WithBarrierGroup("audit", newReader(t, cuts, 1)), WithBarrierListener(fired.add))
			r.OnPartitionsAssigned([]TopicPartition{in(0)})
			runOnce(t, r)
			cuts.add(fetch{barrierTP(0): {startRecord(t, "audit", 7, 0)}})
			if diff := cmp.Diff(tt.meantime, runOnce(t, r)); diff != "" {
				t.Errorf("offsets between the start and the cut mismatch (-want +got):\n%s", diff)
			}
			cuts.add(fetch{barrierTP(0): {cutRecord(t, "audit", 7, map[TopicPartition]int64{in(0): 5}, 1)}})
			if diff := cmp.Diff(map[TopicPartition]int64{in(0): 5}, runOnce(t, r)); diff != "" {
				t.Errorf("offsets at the cut mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(counted(5), store.states[[2]int64{0, 7}]); diff != "" {
				t.Errorf("snapshot mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"7 [0] in/0:5"}, fired.epochs()); diff != "" {
				t.Errorf("barriers mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[TopicPartition]int64{in(0): 6}, runOnce(t, r)); diff != "" {
				t.Errorf("offsets after the cut mismatch (-want +got):\n%s", diff)
			}
			if stats := r.Stats(); stats.LastEpoch != 7 || stats.CutsAnnounced != 1 || stats.AnnouncementsExpired != 0 || stats.CutsSkipped != 0 {
				t.Errorf("last epoch %d, %d announced, %d expired, %d skipped; want 7, 1, 0, 0",
					stats.LastEpoch, stats.CutsAnnounced, stats.AnnouncementsExpired, stats.CutsSkipped)
			}
		})
	}
}

// What several polls brought while a cut was awaited does not run in one round.
func TestRoundsAfterAWaitAreBounded(t *testing.T) {
	cuts := &scriptedConsumer{fetches: []fetch{{barrierTP(0): {startRecord(t, "audit", 7, 0)}}}}
	consumer := &positionedConsumer{}
	r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithBarrierGroup("audit", newReader(t, cuts, 1)), WithMaxPollRecords(2))
	r.OnPartitionsAssigned([]TopicPartition{in(0)})
	runOnce(t, r)
	consumer.add(fetch{in(0): stretch(0, 0, 2)}, fetch{in(0): stretch(0, 2, 4)}, fetch{in(0): stretch(0, 4, 5)})
	for range 3 {
		if diff := cmp.Diff(map[TopicPartition]int64{}, runOnce(t, r)); diff != "" {
			t.Errorf("offsets while the cut is awaited mismatch (-want +got):\n%s", diff)
		}
	}
	cuts.add(fetch{barrierTP(0): {cutRecord(t, "audit", 7, map[TopicPartition]int64{in(0): 5}, 1)}})
	for _, want := range []int64{2, 4, 5} {
		if diff := cmp.Diff(map[TopicPartition]int64{in(0): want}, runOnce(t, r)); diff != "" {
			t.Errorf("offsets mismatch (-want +got):\n%s", diff)
		}
	}
	if epoch := r.Stats().LastEpoch; epoch != 7 {
		t.Errorf("last epoch %d, want 7", epoch)
	}
}

func TestAnnouncedCutThatDoesNotComeIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cuts := &scriptedConsumer{fetches: []fetch{{barrierTP(0): {startRecord(t, "audit", 7, 0)}}}}
		consumer := &positionedConsumer{}
		var heard []AnnouncementInfo
		r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithBarrierGroup("audit", newReader(t, cuts, 1)),
			WithAnnouncementHold(3*time.Second), WithHooks(Hooks{Announcement: func(a AnnouncementInfo) { heard = append(heard, a) }}))
		r.OnPartitionsAssigned([]TopicPartition{in(0)})
		runOnce(t, r)
		consumer.add(fetch{in(0): stretch(0, 0, 2)})
		for range 2 {
			if diff := cmp.Diff(map[TopicPartition]int64{}, runOnce(t, r)); diff != "" {
				t.Errorf("offsets while the cut is awaited mismatch (-want +got):\n%s", diff)
			}
			wait(1500 * time.Millisecond)
		}
		if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, runOnce(t, r)); diff != "" {
			t.Errorf("offsets after the wait mismatch (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]AnnouncementInfo{{Epoch: 7, Held: 3 * time.Second, Expired: true}}, heard); diff != "" {
			t.Errorf("announcements mismatch (-want +got):\n%s", diff)
		}
		if stats := r.Stats(); stats.AnnouncementsExpired != 1 || stats.LongestHold != 3*time.Second {
			t.Errorf("%d announcements expired after %v, want 1 after 3s", stats.AnnouncementsExpired, stats.LongestHold)
		}
	})
}

// Partition 1 is far behind, and a cut comes with every record of partition 0. After a
// cut was abandoned, partition 0 goes on as it comes, and later takes the newest cut.
func TestAbandonedCutLetsTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cuts := &scriptedConsumer{}
		consumer := &positionedConsumer{}
		var fired barriers
		r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithBarrierGroup("audit", newReader(t, cuts, 1)),
			WithAlignmentDeadline(10*time.Second), WithBarrierListener(fired.add))
		r.OnPartitionsAssigned([]TopicPartition{in(0), in(1)})
		consumer.add(fetch{in(1): stretch(1, 0, 1)})
		runOnce(t, r)
		committed, behind := int64(0), int64(0)
		const epochs = 60 // a second each
		for epoch := range int64(epochs) {
			cut := cutRecord(t, "audit", epoch+1, map[TopicPartition]int64{in(0): epoch, in(1): 1000}, epoch)
			if len(cuts.fetches) == 0 {
				cuts.add(fetch{barrierTP(0): nil})
			}
			cuts.fetches[0][barrierTP(0)] = append(cuts.fetches[0][barrierTP(0)], cut)
			consumer.add(fetch{in(0): stretch(0, epoch, epoch+1)})
			if at, ok := runOnce(t, r)[in(0)]; ok {
				committed = at
			}
			behind = max(behind, epoch+1-committed)
			wait(time.Second)
		}
		if behind > 11 {
			t.Errorf("partition 0 was up to %d seconds behind, want at most the deadline", behind)
		}
		if abandoned := r.Stats().CutsAbandoned; abandoned < 2 || abandoned > 3 {
			t.Errorf("%d cuts abandoned in a minute, want 2 or 3: pauses of 10s, 20s and 40s between them", abandoned)
		}
		// The slow partition gets to the cut that is published last.
		consumer.add(fetch{in(1): stretch(1, 1, 1000)})
		for range 100 {
			runOnce(t, r)
			wait(time.Second)
		}
		cuts.add(fetch{barrierTP(0): {cutRecord(t, "audit", epochs+1, map[TopicPartition]int64{in(0): epochs, in(1): 1000}, epochs)}})
		for range 100 {
			runOnce(t, r)
			wait(time.Second)
		}
		if n := len(fired); n == 0 || fired[n-1].Cut.Epoch != epochs+1 {
			t.Errorf("barriers are %v, want the last epoch %d among them", fired.epochs(), epochs+1)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	silentPartitions = 2
	silentWindow     = time.Second
)

// silence is a job of counting bids in windows that only an advance of time
// closes, done by processes that end in the middle of the advance.
type silence struct {
	cluster
	memberConfig
	client *kgo.Client
	base   time.Time
	want   map[silentCount]int64
}

// silentCount is a count of one bidder in one window.
type silentCount struct{ bidder, start int64 }

func newSilence(t *testing.T, c cluster, config memberConfig) *silence {
	t.Helper()
	j := &silence{cluster: c, memberConfig: config, base: time.Now().Truncate(time.Hour).Add(-time.Hour), want: map[silentCount]int64{}}
	j.client = c.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	j.Brokers, j.Bids, j.Counts = c.brokers, c.topic(t, silentPartitions), c.topic(t, 1)
	j.Group = unique("silence")
	j.ID, j.StateDir = j.Group+"-0", t.TempDir()
	j.Static, j.Silent, j.Session = true, true, 6*time.Second
	return j
}

// window returns when a window begins. Many windows lie between one and the next.
func (j *silence) window(n int) time.Time { return j.base.Add(time.Duration(n) * 20 * silentWindow) }

// bids makes bids of a window in each partition, and before them one of the
// window before, which is late.
func (j *silence) bids(t *testing.T, window int) {
	t.Helper()
	var records []*kgo.Record
	for partition := range int32(silentPartitions) {
		bid := func(bidder int64, at time.Time) {
			value := fmt.Sprintf(`{"bidder":%d}`, bidder)
			records = append(records, &kgo.Record{Topic: j.Bids, Partition: partition, Timestamp: at, Value: []byte(value)})
		}
		if window > 1 {
			bid(int64(partition), j.window(window-1))
		}
		for i := range 3 + window {
			bid(int64(partition), j.window(window).Add(time.Duration(i)*100*time.Millisecond))
		}
		j.want[silentCount{int64(partition), j.window(window).UnixMilli()}] = int64(3 + window)
	}
	if err := j.client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatalf("produce bids: %v", err)
	}
}

// counted returns the committed counts. A count that is there twice must be what
// it was, and with exactly-once must not be there.
func (j *silence) counted(t *testing.T) map[silentCount]int64 {
	t.Helper()
	counted := map[silentCount]int64{}
	for _, value := range j.values(t, j.Counts) {
		var row countRow
		if err := json.Unmarshal([]byte(value), &row); err != nil {
			t.Fatalf("result %s: %v", value, err)
		}
		w := silentCount{row.Bidder, row.Start}
		if n, twice := counted[w]; twice && (j.Exact || n != row.Count) {
			t.Fatalf("count of %v is %d, and then %d", w, n, row.Count)
		}
		counted[w] = row.Count
	}
	return counted
}

// awaitCounts waits until the counts are what they should be, while m runs.
func (j *silence) awaitCounts(t *testing.T, m *memberProcess) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	late := time.After(patience)
	for got := j.counted(t); !maps.Equal(got, j.want); got = j.counted(t) {
		select {
		case <-look.C:
		case <-m.exited:
			t.Fatalf("the member ended with the counts %v of %v: %v", got, j.want, m.err)
		case <-late:
			t.Fatalf("counts are %v after %v, want %v", got, patience, j.want)
		}
	}
}

// crash ends a member at the nth seam, and lets another finish what that one began.
// leave says how the other one ends.
func (j *silence) crash(t *testing.T, at seam, nth int, leave bool) {
	t.Helper()
	trapped := j.memberConfig
	trapped.Seam, trapped.Nth, trapped.Signal = at, nth, syscall.SIGKILL
	m := trapped.start(t)
	m.expect(t, "at "+string(at))
	<-m.exited
	m = j.start(t)
	if j.Until > 0 {
		m.expect(t, memberAdvanced)
	}
	j.awaitCounts(t, m)
	if leave {
		m.leave(t)
	} else {
		m.kill(t)
	}
}

// testAdvanceSeams ends the member at each seam of a round that only advances time:
// by a call, with exactly-once by the clock, and by a call again, each time behind
// the state that the crash before left. Counts of a window are produced once; a
// late bid opens no window again.
func testAdvanceSeams(t *testing.T, c cluster, config memberConfig, seams ...seam) {
	for _, at := range seams {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			j := newSilence(t, c, config)
			for window, leave := range []bool{false, true, false} {
				window++
				j.bids(t, window)
				j.Until, j.Idle = j.window(window).Add(silentWindow).UnixMilli(), 0
				nth := 1
				switch {
				case window == 2 && j.Exact:
					// Counts that can come twice do not tell that time has advanced.
					j.Until, j.Idle, nth = 0, 50*time.Millisecond, 2
				case window == 3 && at == afterJournal:
					nth = silentPartitions // all of them are in the journal
				}
				j.crash(t, at, nth, leave)
			}
			// One more process has nothing to add.
			m := j.start(t)
			m.expect(t, memberAdvanced)
			m.leave(t)
			if diff := cmp.Diff(j.want, j.counted(t), cmp.AllowUnexported(silentCount{})); diff != "" {
				t.Errorf("counts mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// exactAdvanceSeams are the seams of an advance that is committed once.
var exactAdvanceSeams = []seam{beforeSend, afterSend, afterJournal, afterOffsets, afterCommit}

// looseAdvanceSeams are those of one without transactions, which commits nothing.
var looseAdvanceSeams = []seam{beforeSend, afterSend, afterJournal}

func TestAdvancesAreExactThroughCrashes(t *testing.T) {
	t.Parallel()
	testAdvanceSeams(t, newFake(t), memberConfig{Exact: true}, exactAdvanceSeams...)
}

func TestAdvancesLoseNothingThroughCrashes(t *testing.T) {
	t.Parallel()
	testAdvanceSeams(t, newFake(t), memberConfig{}, looseAdvanceSeams...)
}

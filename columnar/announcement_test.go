// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Each step hears what the barrier topic says at one moment, and tells up to where
// records of a partition may run then.
func TestRecordsWaitForAnAnnouncedCut(t *testing.T) {
	const patience = time.Second
	free := int64(math.MaxInt64)
	tp := TopicPartition{"in", 0}
	type step struct {
		at              time.Duration
		started, newest int64
		certain         int64 // what is certain at this moment
		limit           int64
		ended           string
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"cut comes", []step{
			{at: 0, started: -1, newest: 4, certain: 10, limit: free},
			{at: 1, started: 5, newest: 4, certain: 20, limit: 20},
			{at: 50, started: 5, newest: 4, certain: 30, limit: 20}, // what is certain does not grow
			{at: 101, started: -1, newest: 5, certain: 30, limit: free, ended: "epoch 5 after 100ms"},
		}},
		{"start that is left beside its cut is answered", []step{
			{at: 0, started: -1, newest: 5, certain: 10, limit: free},
		}},
		{"newer start takes over", []step{
			{at: 0, started: 5, newest: 4, certain: 20, limit: 20},
			{at: 300, started: 6, newest: 4, certain: 40, limit: 40, ended: "epoch 5 after 300ms"},
			{at: 400, started: -1, newest: 6, certain: 40, limit: free, ended: "epoch 6 after 100ms"},
		}},
		{"cut and the next start come together", []step{
			{at: 0, started: 5, newest: 4, certain: 20, limit: 20},
			{at: 100, started: 6, newest: 5, certain: 25, limit: 25, ended: "epoch 5 after 100ms"},
		}},
		{"cut does not come", []step{
			{at: 0, started: 5, newest: 4, certain: 20, limit: 20},
			{at: 999, started: 5, newest: 4, certain: 20, limit: 20},
			{at: 1000, started: 5, newest: 4, certain: 20, limit: free, ended: "epoch 5 after 1s, expired"},
			{at: 1001, started: 5, newest: 4, certain: 20, limit: free}, // it is not waited for again
			{at: 2000, started: 6, newest: 4, certain: 50, limit: 50},
		}},
		{"start is withdrawn", []step{
			{at: 0, started: 5, newest: 4, certain: 20, limit: 20},
			{at: 10, started: -1, newest: 4, certain: 20, limit: free, ended: "epoch 5 after 10ms"},
		}},
		{"group is made anew after a start that was given up", []step{
			{at: 0, started: 50, newest: 49, certain: 20, limit: 20},
			{at: 1000, started: 50, newest: 49, certain: 20, limit: free, ended: "epoch 50 after 1s, expired"},
			{at: 1001, started: 1, newest: -1, certain: 30, limit: 30},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begun := time.Now()
			var a announcedCut
			for i, s := range tt.steps {
				ended := a.hear(s.started, s.newest, map[TopicPartition]int64{tp: s.certain}, begun.Add(s.at*time.Millisecond), patience)
				got := step{at: s.at, started: s.started, newest: s.newest, certain: s.certain, limit: a.limit(tp)}
				if ended != nil {
					got.ended = fmt.Sprintf("epoch %d after %v", ended.epoch, ended.held)
					if ended.expired {
						got.ended += ", expired"
					}
				}
				if diff := cmp.Diff(s, got, cmp.AllowUnexported(step{})); diff != "" {
					t.Errorf("step %d mismatch (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestPartitionThatArrivesDuringAnAnnouncementWaits(t *testing.T) {
	var a announcedCut
	a.hear(1, -1, map[TopicPartition]int64{{"in", 0}: 7}, time.Now(), time.Second)
	if limit := a.limit(TopicPartition{"in", 1}); limit != 0 {
		t.Errorf("records of a partition that has arrived may run below %d, want none", limit)
	}
}

func TestPollsEndWithThePatience(t *testing.T) {
	begun := time.Now()
	var a announcedCut
	if got := a.remaining(begun, time.Second, 10*time.Second); got != 10*time.Second {
		t.Errorf("a poll without an announcement waits %v, want 10s", got)
	}
	a.hear(1, -1, nil, begun, time.Second)
	for at, want := range map[time.Duration]time.Duration{0: time.Second, 900 * time.Millisecond: 100 * time.Millisecond, 2 * time.Second: 0} {
		if got := a.remaining(begun.Add(at), time.Second, 10*time.Second); got != want {
			t.Errorf("a poll %v after the start waits %v, want %v", at, got, want)
		}
	}
	if got := a.remaining(begun, time.Second, 20*time.Millisecond); got != 20*time.Millisecond {
		t.Errorf("a shorter poll waits %v, want 20ms", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHealthTellsWhyNothingIsProcessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		check := func(r *GroupRunner, when, want string) {
			t.Helper()
			got := ""
			if err := r.Health(t.Context()); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("health %s = %q; want %q", when, got, want)
			}
		}
		consumer := &waitingConsumer{}
		r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{})
		check(r, "before the first round", "columnar: no round has ended yet")
		runOnce(t, r)
		check(r, "behind a round", "")
		for range 2 {
			consumer.pollErrs = []error{errUnreadable}
			if _, err := r.RunOnce(t.Context(), 0); err == nil {
				t.Fatal("the round has not failed")
			}
			wait(30 * time.Second)
		}
		check(r, "behind two rounds that failed", "columnar: rounds have failed for 1m0s: polling: unreadable record")
		runOnce(t, r)
		check(r, "behind a round that went well", "")
		ctx, cancel := context.WithCancel(t.Context())
		consumer.polling = func(context.Context) { wait(3 * time.Minute) }
		ended := make(chan error, 1)
		go func() {
			_, err := r.RunOnce(ctx, 10*time.Second)
			ended <- err
		}()
		wait(70 * time.Second)
		check(r, "within a minute of the end of the poll", "")
		wait(time.Second)
		check(r, "in a round that does not end", "columnar: a round has run for 1m1s")
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("RunOnce = %v; want that its context ended", err)
		}
		check(r, "behind the end of a context", "")
		if err := r.Health(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("health with a context that has ended = %v", err)
		}
		r.Close()
		check(r, "of a closed runner", ErrRunnerClosed.Error())
	})
}

// A runner that has never got as far as its group is not healthy, however its rounds end.
func TestHealthOfARunnerThatHasNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []error{nil, errUnreadable, nil}
		r := newTestRunner(t, ledgerTopology(t), &namedConsumer{join: func(ctx context.Context) error {
			answer := answers[0]
			if answers = answers[1:]; answer == nil {
				<-ctx.Done()
				answer = ctx.Err()
			}
			return answer
		}}, &recordingProducer{})
		for _, want := range []error{errNoRound, errUnreadable, errUnreadable} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := r.RunOnce(ctx, 0); err == nil {
				t.Error("the round has not failed")
			}
			cancel()
			if err := r.Health(t.Context()); !errors.Is(err, want) {
				t.Errorf("health = %v; want %v", err, want)
			}
		}
	})
}

// A member that has lost its partitions because its brokers are away has no lag of 0:
// Lag fails, and what it was before is there with its time.
func TestLagIsNotEmptyWhileBrokersAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clusterOf(t, map[string]int{"in": 1})
		m := c.member("member")
		var away error
		r := newTestRunner(t, ledgerTopology(t), countsOf{m, func() (map[string]int, error) { return map[string]int{"in": 1}, away }}, m)
		if lag, at := r.LastLag(); lag != nil || !at.IsZero() {
			t.Errorf("lag of a new runner %v of %v; want none", lag, at)
		}
		c.fill(in(0), ones(2)...)
		runOnce(t, r)
		c.fill(in(0), ones(3)...)
		want := map[TopicPartition]int64{in(0): 3}
		known := time.Now()
		if lag, err := r.Lag(t.Context()); err != nil || !cmp.Equal(lag, want) {
			t.Fatalf("Lag = %v, %v; want %v", lag, err, want)
		}
		wait(time.Minute)
		away = errors.New("no broker answers")
		r.OnPartitionsLost([]TopicPartition{in(0)})
		if lag, err := r.Lag(t.Context()); lag != nil || err == nil || err.Error() != "columnar: lag: no broker answers" {
			t.Errorf("Lag without brokers = %v, %v; want their error", lag, err)
		}
		if lag, at := r.LastLag(); !cmp.Equal(lag, want) || !at.Equal(known) {
			t.Errorf("the latest lag = %v of %v; want %v of %v", lag, at, want, known)
		}
		away = nil
		if lag, err := r.Lag(t.Context()); err != nil || len(lag) != 0 {
			t.Errorf("Lag of a member without partitions = %v, %v; want an empty one", lag, err)
		}
	})
}

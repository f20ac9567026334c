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

// A follower whose first reads fail waits longer after each failure, and tells every
// watcher of each read.
func TestFollowerTellsItsWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the broker is away")
		results := make(chan error)
		var at []time.Duration
		begun := time.Now()
		f := newFollower(func(ctx context.Context) error {
			at = append(at, time.Since(begun))
			select {
			case err := <-results:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		told := map[string]int{}
		stopFirst := f.watch(func() { told["first"]++ })
		stopSecond := f.watch(func() { told["second"]++ })
		for _, err := range []error{broken, broken, broken, nil} {
			results <- err
			synctest.Wait()
			if got := f.takeFailure(); !errors.Is(got, err) {
				t.Errorf("failure after a read = %v, want %v", got, err)
			}
			if again := f.takeFailure(); again != nil {
				t.Errorf("failure is told again: %v", again)
			}
		}
		stopFirst()
		results <- nil
		synctest.Wait()
		stopSecond()
		if diff := cmp.Diff(map[string]int{"first": 4, "second": 5}, told); diff != "" {
			t.Errorf("calls of the watchers mismatch (-want +got):\n%s", diff)
		}
		ms := time.Millisecond
		if diff := cmp.Diff([]time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 700 * ms, 700 * ms}, at); diff != "" {
			t.Errorf("times of the reads mismatch (-want +got):\n%s", diff)
		}
		// Whoever watches later starts it again.
		stop := f.watch(func() { told["third"]++ })
		results <- nil
		synctest.Wait()
		stop()
		if told["third"] != 1 {
			t.Errorf("the third watcher was told %d times, want once", told["third"])
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"time"
)

const (
	// followWait is how long one poll of a follower waits for records.
	followWait = 30 * time.Second
	// followPause is the wait of a follower after a read that failed, and
	// followPauseMax its limit: the pause doubles with each failure in a row.
	followPause    = 100 * time.Millisecond
	followPauseMax = 5 * time.Second
)

// cutWatcher is told when a follower has read something.
type cutWatcher struct{ tell func() }

// cutFollower reads the topic of a reader in the background.
type cutFollower struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// follows reports whether the topic can be followed: polls of the consumer wait at
// the broker and can be ended, so that a follower is in nobody's way.
func (r *CutReader) follows() bool {
	_, wakes := r.consumer.(PollWaker)
	_, ranged := r.consumer.(OffsetRangeReader)
	_, positioned := r.consumer.(PositionReader)
	return wakes && ranged && positioned
}

// watch makes a follower read the topic until stop is called, and call tell on its
// own goroutine after each read that brought something. It serves any number of
// watchers.
func (r *CutReader) watch(tell func()) (stop func()) {
	watcher := &cutWatcher{tell: tell}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers[watcher] = true
	if r.follower == nil {
		ctx, cancel := context.WithCancel(context.Background())
		r.follower = &cutFollower{cancel: cancel, ended: make(chan struct{})}
		go r.follow(ctx, r.follower.ended)
	}
	return func() { r.unwatch(watcher) }
}

func (r *CutReader) unwatch(watcher *cutWatcher) {
	r.mu.Lock()
	delete(r.watchers, watcher)
	follower := r.follower
	if len(r.watchers) > 0 {
		follower = nil
	} else {
		r.follower = nil
	}
	r.mu.Unlock()
	if follower != nil {
		follower.cancel()
		<-follower.ended
	}
}

// follow reads until ctx ends.
func (r *CutReader) follow(ctx context.Context, ended chan<- struct{}) {
	defer close(ended)
	for pause := followPause; ctx.Err() == nil; {
		err := r.followOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		r.tellWatchers(err)
		if err == nil {
			pause = followPause
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, followPauseMax)
	}
}

func (r *CutReader) followOnce(ctx context.Context) error {
	// The follower waits for its turn without ending the poll of whoever has it.
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer r.release()
	return r.advance(ctx, followWait)
}

// tellWatchers calls every watcher. A failure is news, too.
func (r *CutReader) tellWatchers(err error) {
	r.mu.Lock()
	r.failed = err
	watchers := make([]*cutWatcher, 0, len(r.watchers))
	for watcher := range r.watchers {
		watchers = append(watchers, watcher)
	}
	r.mu.Unlock()
	for _, watcher := range watchers {
		watcher.tell()
	}
}

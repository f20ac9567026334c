// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"sync"
	"time"
)

const (
	// followPause is the wait of a follower after a read that failed, and
	// followPauseMax its limit: the pause doubles with each failure in a row.
	followPause    = 100 * time.Millisecond
	followPauseMax = 5 * time.Second
)

// follower reads in the background while anybody watches, and tells the watchers
// after each read. It is safe for concurrent use.
type follower struct {
	read func(context.Context) error // waits until there is something to read

	mu       sync.Mutex // guards what follows
	watchers map[int]func()
	next     int // number of the next watcher
	failed   error
	cancel   context.CancelFunc // of the loop; nil while nobody watches
	ended    chan struct{}
}

func newFollower(read func(context.Context) error) *follower {
	return &follower{read: read, watchers: map[int]func(){}}
}

// watch calls tell on the goroutine of the follower after each read, until stop is
// called. A stop of the last watcher returns when the goroutine has ended.
func (f *follower) watch(tell func()) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	number := f.next
	f.next++
	f.watchers[number] = tell
	if f.cancel == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f.cancel, f.ended = cancel, make(chan struct{})
		go f.follow(ctx, f.ended)
	}
	return func() { f.unwatch(number) }
}

func (f *follower) unwatch(number int) {
	f.mu.Lock()
	delete(f.watchers, number)
	cancel, ended := f.cancel, f.ended
	if len(f.watchers) > 0 {
		cancel = nil
	} else {
		f.cancel = nil
	}
	f.mu.Unlock()
	if cancel != nil {
		cancel()
		<-ended
	}
}

// follow reads until ctx ends.
func (f *follower) follow(ctx context.Context, ended chan<- struct{}) {
	defer close(ended)
	for pause := followPause; ctx.Err() == nil; {
		err := f.read(ctx)
		if ctx.Err() != nil {
			return
		}
		f.tell(err)
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

// tell calls every watcher. A failure is news, too.
func (f *follower) tell(err error) {
	f.mu.Lock()
	f.failed = err
	watchers := make([]func(), 0, len(f.watchers))
	for _, tell := range f.watchers {
		watchers = append(watchers, tell)
	}
	f.mu.Unlock()
	for _, tell := range watchers {
		tell()
	}
}

// takeFailure returns why the latest read has failed, once.
func (f *follower) takeFailure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.failed
	f.failed = nil
	return err
}

// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Callbacks are the functions that [Run] calls. OnAcquired is required.
type Callbacks struct {
	// OnAcquired does the work of the role. Its context ends when the
	// leadership ends and when the context of Run ends; the cause of the
	// context is then the reason. Run waits for it to return before it resigns
	// and before it competes again, so the work of two terms never overlaps in
	// this process. It runs on the goroutine of Run.
	//
	// When it returns nil while the leadership holds, Run resigns and returns
	// nil. When it returns an error, Run resigns and returns the error, or
	// competes again if [WithWorkRetry] says so. When it panics, Run resigns and
	// lets the panic go on.
	OnAcquired func(ctx context.Context, l *Leadership) error

	// OnLost runs after OnAcquired returned, when the leadership ended and was
	// not resigned by Run, with the reason and whatever OnAcquired returned
	// joined. It runs on the goroutine of Run.
	OnLost func(err error)

	// OnLeaderChange runs for every state that [Watch] yields, on a goroutine
	// of its own. Run waits for it before it returns. Errors of the watch are
	// logged and retried.
	OnLeaderChange func(change LeaderChange)
}

// Run keeps competing for a role and does its work while it holds it, until
// ctx ends.
//
// Run acquires the leadership, calls OnAcquired, cancels the context of
// OnAcquired when the leadership ends, waits for it to return, and starts
// over. Before each new start it waits: one poll interval at first, twice as
// long after every failed acquisition and every term shorter than a lease, and
// the lease duration at most. A member that stood by for a lease before its
// acquisition failed, or whose term another member took, waits one poll interval
// again, and no member waits past the instant at which its turn to challenge
// comes. What a failed acquisition saw of the holder stays known to the next one.
//
// When ctx ends, Run waits for OnAcquired and resigns; with
// [WithDeregisterOnCancel] it also leaves the roster. It then returns nil, or
// what went wrong in that. The context of [WithLifetime] ends Run the same way.
//
// Run returns early with the error of an acquisition that a retry does not
// settle: an invalid argument or option, a record that does not decode, a
// closed transport, or an error with a Retriable method that says false, such
// as an [*AuthorizationError] or a [*TopicConfigError]. Such a refusal is final
// for a member that never read the role, and otherwise once it has lasted for a
// lease, because brokers also refuse for the moment in which somebody changes
// their access rules.
//
// Another live process with the same member id is reported to the observers,
// and Run then treats the lease of that process like the lease of any other
// member.
func Run(ctx context.Context, transport Transport, role Role, member MemberID, callbacks Callbacks, options ...Option) error {
	if callbacks.OnAcquired == nil {
		return errNoCallback
	}
	if err := checkContext(ctx); err != nil {
		return err
	}
	e, err := newElector(transport, role, member, options)
	if err != nil {
		return err
	}
	ctx, cancel := e.withLifetime(ctx)
	e.lifetime = nil
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	if callbacks.OnLeaderChange != nil {
		watching.Go(func() { e.watch(ctx, callbacks.OnLeaderChange, options) })
	}
	return e.run(ctx, callbacks)
}

func (e *elector) watch(ctx context.Context, tell func(LeaderChange), options []Option) {
	for change, err := range Watch(ctx, e.transport, e.role, options...) {
		if err != nil {
			e.logs().Warn("could not watch the role", logError, err)
			continue
		}
		tell(change)
	}
}

func (e *elector) run(ctx context.Context, callbacks Callbacks) error {
	failures := 0
	var refused *moment // the first of the refusals in a row
	for {
		began := e.now()
		l, abandoned, err := e.acquire(ctx)
		switch {
		case err == nil:
			began, refused = e.now(), nil
			if over, err := e.serve(ctx, l, callbacks); over {
				return err
			}
			e.identity.resigned = errors.Is(l.Err(), ErrNotHeld)
			if errors.Is(l.Err(), ErrFenced) {
				failures = 0 // the lease of the next holder is to be seen while it is new
			}
		case ctx.Err() != nil:
			return errors.Join(ignoring(err, ctx.Err()), abandoned)
		case broken(err), refuses(err) && !e.identity.looked:
			return err
		default:
			e.identity.wary = e.identity.wary || errors.Is(err, ErrDuplicateMember)
			e.logs().Warn("could not compete for the role", logError, err)
		}
		now := e.now()
		if now.since(began) >= e.lease.duration {
			failures, refused = 0, nil
		}
		switch {
		case err == nil:
		case !refuses(err):
			refused = nil
		case refused == nil:
			refused = &now
		case now.since(*refused) >= e.lease.duration:
			return err
		}
		failures++
		delay := e.restartDelay(failures)
		if e.candidate != nil {
			if due := e.candidate.untilDue(now); due > 0 && due < delay {
				delay, failures = due, 0
			}
		}
		e.sleep(ctx, nil, now, delay)
	}
}

// serve runs the work of one term. It reports whether Run is over, and with
// which error.
func (e *elector) serve(ctx context.Context, l *Leadership, callbacks Callbacks) (over bool, err error) {
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-l.Done():
			cancel(l.Err())
		case <-work.Done():
		}
	}()
	worked := e.work(work, l, callbacks.OnAcquired)
	cancel(nil)

	e.identity.learn(l.Lease().Token, l.Token())
	e.identity.led, e.identity.ledAt = true, l.held.Load().taken
	if reason := l.Err(); reason != nil {
		if callbacks.OnLost != nil {
			callbacks.OnLost(errors.Join(reason, worked))
		}
		if ctx.Err() == nil {
			return false, nil
		}
		worked = nil
	}
	final, cancelFinal := e.detached(ctx)
	defer cancelFinal()
	if worked != nil && ctx.Err() == nil && e.workRetry != nil && e.workRetry(worked) {
		e.logs().Warn("the work of the role failed", logError, errors.Join(worked, l.Resign(final)))
		return false, nil
	}
	release := l.Resign
	if ctx.Err() != nil && e.deregisterOnCancel {
		release = l.Leave
	}
	return true, errors.Join(ignoring(worked, ctx.Err()), release(final))
}

// work calls OnAcquired. When that panics or ends the goroutine, nobody does
// the work of the role any more, so that it is resigned on the way out.
func (e *elector) work(ctx context.Context, l *Leadership, do func(context.Context, *Leadership) error) error {
	returned := false
	defer func() {
		if returned {
			return
		}
		final, cancel := e.detached(ctx)
		defer cancel()
		if err := l.Resign(final); err != nil {
			e.logs().Warn("could not resign a role whose work panicked", logError, err)
		}
	}()
	worked := do(ctx, l)
	returned = true
	return worked
}

// ignoring returns an error unless it is nothing but the end of a context.
func ignoring(err, ended error) error {
	if ended != nil && errors.Is(err, ended) {
		return nil
	}
	return err
}

func broken(err error) bool {
	var format *FormatError
	return errors.As(err, &format) || errors.Is(err, ErrTransportClosed)
}

// refuses reports whether an error says that a retry does not settle it. Access
// rules and settings that somebody is changing make refusals of a moment too.
func refuses(err error) bool {
	var retriable interface{ Retriable() bool }
	return errors.As(err, &retriable) && !retriable.Retriable()
}

// restartDelay returns the wait before the next acquisition after this many
// starts that led nowhere.
func (e *elector) restartDelay(failures int) time.Duration {
	delay := e.lease.duration
	if doublings := failures - 1; doublings < 32 && e.poll < delay>>doublings {
		delay = e.poll << doublings
	}
	return delay - time.Duration(float64(delay)*e.jitter*e.identity.spread())
}

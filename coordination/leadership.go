// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Leadership is the live leadership of one member over one role.
//
// The handle carries the epoch that the transaction coordinator minted. The
// broker fences a write of an older epoch, so a holder proves its authority
// with the write itself and asks no question first; [Leadership.Guard] writes
// that way. For devices outside Kafka, [Leadership.Credential] is the proof,
// and the device has to check it.
//
// The handle renews the lease in the background. The renewal keeps the
// standbys from a challenge, and it adds no safety. [Leadership.Done] closes
// when the leadership ends, and [Leadership.Err] says why. A caller watches
// Done and stops the work of the role at once. A leadership ends in one of
// four ways: the broker fences it, it is resigned, no renewal is acknowledged
// before the deadline, or the transport is closed.
//
// A Leadership that is dropped without [Leadership.Resign] keeps renewing.
//
// A Leadership is safe for concurrent use by multiple goroutines. The zero
// value, like a nil one, is a leadership that is over, of nobody.
type Leadership struct {
	elector *elector
	minted  FencingToken
	held    atomic.Pointer[grant] // the last acknowledged lease
	token   atomic.Pointer[FencingToken]
	offset  atomic.Int64 // of the first lease record known, or -1

	// The queue holds one token. A guarded write and a question to the
	// coordinator take the token before they wait for the turn, so a renewal
	// waits behind one of them at most.
	queue chan struct{}

	// The turn holds one token. Its taker makes the calls that write under the
	// epoch, so lease records, tombstone and guarded writes have an order. The
	// fields below belong to the taker.
	turn    chan struct{}
	sent    *grant // the last lease that was sent, acknowledged or not
	tried   bool   // a tombstone was sent
	cleared bool   // nothing is left to clear

	started bool // others know of the leadership
	done    chan struct{}

	mu       sync.Mutex // guards the fields below
	reason   error
	resigned bool
}

// newLeadership makes a handle that is not started.
func newLeadership(e *elector, minted FencingToken, first *grant, offset int64) *Leadership {
	l := &Leadership{
		elector: e,
		minted:  minted,
		sent:    first,
		queue:   make(chan struct{}, 1),
		turn:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	l.held.Store(first)
	l.token.Store(&minted)
	l.track()
	l.offset.Store(offset)
	l.queue <- struct{}{}
	l.turn <- struct{}{}
	return l
}

// start announces the leadership and keeps it.
func (l *Leadership) start() {
	l.started = true
	l.elector.logs().Info("took the role", logToken, l.minted.String(), logSequence, l.Sequence())
	l.elector.observers.acquired(l)
	superseded := l.elector.superseded(l.minted)
	if isOver(superseded) {
		l.supersede()
		return
	}
	go l.keep()
	go l.watch(superseded)
}

// nobody is what a Leadership that no acquisition returned stands for.
var nobody = func() *Leadership {
	l := &Leadership{
		elector: &elector{timekeeper: newTimekeeper(SystemClock{})},
		minted:  NoEpoch,
		done:    make(chan struct{}),
		reason:  fmt.Errorf("coordination: the leadership was not acquired: %w", ErrNotHeld),
	}
	l.held.Store(new(grant))
	l.token.Store(&l.minted)
	l.offset.Store(-1)
	close(l.done)
	return l
}()

// orNobody returns the leadership to ask.
func (l *Leadership) orNobody() *Leadership {
	if l == nil || l.elector == nil {
		return nobody
	}
	return l
}

// Role returns the role that this member holds.
func (l *Leadership) Role() Role { return l.orNobody().elector.role }

// Member returns the member that holds the role.
func (l *Leadership) Member() MemberID { return l.orNobody().elector.member }

// Partition returns the partition of the coordination topic that holds every
// record of the role.
func (l *Leadership) Partition() TopicPartition { return l.orNobody().elector.at }

// Token returns the quorum-minted proof of this leadership. It is the pair
// that [DescribeLeadership] reports until another member takes the role.
//
// The token is constant, unless the brokers advance the epoch with every transaction
// and the transport tracks them; it is then the pair after the last
// acknowledged write, and it has moved on when [Leadership.Renew] returns.
func (l *Leadership) Token() FencingToken { return *l.orNobody().token.Load() }

// track takes over the pair that the coordinator holds for the leadership
// after a write, where the transport tells. It runs with the turn.
func (l *Leadership) track() {
	if terms := l.elector.terms; terms != nil {
		if token, known := terms.CurrentToken(l.elector.role, l.minted); known && token != l.Token() {
			l.token.Store(&token)
		}
	}
}

// MintedToken returns the token that the leadership started with.
func (l *Leadership) MintedToken() FencingToken { return l.orNobody().minted }

// Sequence returns a number that grows strictly from one leadership of the
// role to the next: the offset of the first lease record of this leadership in
// the coordination topic. Unlike a token it keeps its order when the
// coordinator starts a producer id over. The order holds as long as the topic,
// its partition count and its log are kept.
//
// The number is -1 while the transport did not report an offset.
func (l *Leadership) Sequence() int64 { return l.orNobody().offset.Load() }

// Lease returns the lease record that was acknowledged last.
func (l *Leadership) Lease() Lease { return l.orNobody().held.Load().timing.lease }

// Done returns a channel that closes when the leadership ends.
// [Leadership.Err] says why.
//
// A write of this member may be in flight when Done closes. Done says to start
// no more work; only the answer to a write says whether it took place.
func (l *Leadership) Done() <-chan struct{} { return l.orNobody().done }

// Err returns the reason the leadership ended, and nil while it holds. The
// first reason stays. The error of a fence matches [ErrFenced], the error of a
// resignation [ErrNotHeld], and the error of a lease that ran out
// [ErrLeaseExpired] and the last failure of a renewal. When the transport was
// closed, the error matches [ErrTransportClosed].
func (l *Leadership) Err() error {
	l = l.orNobody()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// end ends the leadership, unless it ended before, and reports whether it did.
func (l *Leadership) end(what string, cause error) bool {
	reason := l.elector.failed(what, cause)
	l.mu.Lock()
	first := l.reason == nil
	if first {
		l.reason = reason
		l.resigned = errors.Is(cause, ErrNotHeld)
		close(l.done)
	}
	l.mu.Unlock()
	if !first {
		return false
	}
	if !l.resigned {
		l.elector.release(l.minted)
	}
	if l.started {
		l.elector.logs().Info("lost the role", logToken, l.Token().String(), logError, reason)
		l.elector.observers.ended(l, reason)
	}
	return true
}

// ended returns nil while the leadership holds, and then an error that matches
// both the reason and [ErrNotHeld].
func (l *Leadership) ended() error {
	reason := l.Err()
	if reason == nil || errors.Is(reason, ErrNotHeld) {
		return reason
	}
	return fmt.Errorf("%w: %w", reason, ErrNotHeld)
}

// take waits for the turn to write. It returns the function that passes the
// turn on.
func (l *Leadership) take(ctx context.Context) (pass func(), err error) {
	select {
	case <-l.turn:
	default:
		select {
		case <-l.turn:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return func() { l.turn <- struct{}{} }, nil
}

// work takes the turn for a call that is not about the lease, and bounds the
// call so that the next renewal is written in time. The function that it
// returns passes the turn on.
func (l *Leadership) work(ctx context.Context) (bounded context.Context, pass func(), err error) {
	select {
	case <-l.queue:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	leave := func() { l.queue <- struct{}{} }
	next, err := l.take(ctx)
	if err != nil {
		leave()
		return nil, nil, err
	}
	bounded, cancel := l.elector.withTimeout(ctx, l.elector.workBound())
	return bounded, func() {
		cancel()
		next()
		leave()
	}, nil
}

// workBound returns how long a call may keep a renewal from its turn: less than
// the renew interval, and half of the time between a renewal that is due and
// the deadline.
func (e *elector) workBound() time.Duration {
	return min(e.lease.renewInterval*3/4, (e.lease.duration-e.lease.renewInterval)/2)
}

// overran adds the bound to the error of a call that it ended.
func (e *elector) overran(ctx, bounded context.Context, err error) error {
	if bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("no answer within %v, and the lease has to be renewed: %w", e.workBound(), cancelled(bounded, err))
	}
	return cancelled(ctx, err)
}

// SafeUntil returns the instant, in milliseconds since the Unix epoch, up to
// which no standby has challenged this leadership, provided its clock is
// within [WithClockTolerance] of this one: the deadline of the last
// acknowledged lease, or the lease duration on the monotonic clock since that
// lease was taken, whichever is earlier, less the tolerance.
//
// The instant bounds trust and proves nothing. A process can be suspended
// between the check and the action.
func (l *Leadership) SafeUntil() int64 {
	l = l.orNobody()
	return l.held.Load().safeUntil(l.elector.now(), l.elector.tolerance)
}

// Check reports whether the holder may act outside Kafka: it returns nil
// before [Leadership.SafeUntil], an error that matches [ErrNotHeld] after the
// leadership ended, and one that matches [ErrLeaseExpired] in between. It
// makes no call to the transport.
func (l *Leadership) Check() error {
	l = l.orNobody()
	if err := l.ended(); err != nil {
		return err
	}
	if now := l.elector.now(); now.wall >= l.held.Load().safeUntil(now, l.elector.tolerance) {
		return l.elector.failed("check", ErrLeaseExpired)
	}
	return nil
}

// Credential returns the proof that a holder attaches to a command for a
// device outside Kafka, which checks it with a [DeviceGuard]. It fails as
// [Leadership.Check] does, and for a transport that reports no offsets.
func (l *Leadership) Credential() (Credential, error) {
	l = l.orNobody()
	if err := l.Check(); err != nil {
		return Credential{}, err
	}
	credential := Credential{Token: l.Token(), Sequence: l.Sequence()}
	if credential.Sequence < 0 {
		return Credential{}, l.elector.failed("credential", errors.New("the transport reports no offset of the lease record"))
	}
	return credential, nil
}

// Verify asks the coordinator whether the token of this leadership is the
// newest of its role. It returns an error that matches [ErrFenced] when it is
// not, and leaves the end of the leadership to the next write. The answer may
// be out of date when it arrives: use it to refuse an action and never to
// permit one.
func (l *Leadership) Verify(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	l = l.orNobody()
	if err := l.ended(); err != nil {
		return err
	}
	bounded, pass, err := l.work(ctx)
	if err != nil {
		return l.elector.failed("verify", err)
	}
	defer pass()
	token, held, err := l.elector.describe(bounded)
	switch {
	case err != nil:
		return l.elector.overran(ctx, bounded, err)
	case !held:
		return l.elector.failed("verify", fmt.Errorf("%w: the coordinator does not know the role", ErrFenced))
	case token != l.Token():
		return l.elector.failed("verify", fmt.Errorf("%w: the coordinator holds token %s and not %s", ErrFenced, token, l.Token()))
	}
	return nil
}

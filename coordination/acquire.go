// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// AcquireLeadership competes for a role, and it returns when this member holds
// the role.
//
// The call registers the member unless the log holds a registration of it,
// waits for its turn under the succession rules, mints the epoch of the role,
// and writes the first lease record. It returns a [*Leadership] that renews
// the lease in the background until it ends; the end of ctx does not stop it,
// see [WithLifetime].
//
// The call reads the coordination topic in a loop, so the caller bounds the
// wait with the context, and gets the error of the context when it ends first.
// A registration stays in the log then, see [WithDeregisterOnCancel]. A
// context that ends between the mint and the first lease record does not stop
// the record; the call then resigns and returns the error of the context. The
// record has a bound of its own, a third of the lease and ten seconds at most.
//
// An error of the transport ends the call, and the transport is expected to
// have retried what a retry settles. [Run] goes on after such an error. A
// fence during the challenge is no error: another member was faster, and the
// call reads the log again.
//
// A role state that names this member takes the same path as a challenge. The
// record came from an earlier incarnation of the member, because this call
// holds no epoch yet. The new epoch fences that earlier incarnation, and it
// costs one epoch. When the same happens to this call, because another live
// process uses the same member id, it returns an error that matches
// [ErrDuplicateMember].
//
// Every problem of the arguments and options is reported before the first call
// to the transport.
func AcquireLeadership(ctx context.Context, transport Transport, role Role, member MemberID, options ...Option) (*Leadership, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	e, err := newElector(transport, role, member, options)
	if err != nil {
		return nil, err
	}
	l, abandoned, err := e.acquire(ctx)
	if abandoned != nil {
		return nil, errors.Join(err, abandoned)
	}
	return l, err
}

// acquire competes, and cleans up after a context that ended. The error of
// that stands apart.
func (e *elector) acquire(ctx context.Context) (l *Leadership, abandoned, err error) {
	ctx, cancel := e.withLifetime(ctx)
	defer cancel()
	if e.candidate == nil {
		e.candidate = newCandidate(e.member, &e.settings, &e.identity)
	}
	c := e.candidate
	l, err = e.compete(ctx, c)
	if err == nil {
		e.candidate = nil // the next one comes after this leadership
	}
	if err != nil && ctx.Err() != nil && e.deregisterOnCancel && (c.registered || c.seen) {
		final, cancel := e.final(ctx)
		defer cancel()
		abandoned = e.deregister(final, e.member)
	}
	return l, abandoned, err
}

func (e *elector) compete(ctx context.Context, c *candidate) (*Leadership, error) {
	if e.log != nil {
		if err := e.log.EnsureTopic(ctx, e.topic, e.partitions); err != nil {
			return nil, e.failed("verify topic "+e.topic, cancelled(ctx, err))
		}
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, next, extent, err := e.look(ctx, c)
		if err != nil {
			return nil, err
		}
		switch next {
		case stepRegister:
			if err := e.register(ctx); err != nil {
				return nil, err
			}
			c.appended(e.now())
		case stepWait:
			e.sleep(ctx, nil, r.ended, extent)
		case stepYield:
			e.observers.duplicated(e.role, e.member, r.state.Lease.Token)
			return nil, e.failed("lease "+r.state.Lease.Token.String()+" is in its name", ErrDuplicateMember)
		case stepMint:
			if err := e.place(ctx, c); err != nil {
				return nil, err
			}
			if l, err := e.challenge(ctx, c); l != nil || err != nil {
				return l, err
			}
		}
	}
}

// look reads the role and asks the candidate what comes next. The extent is that
// of a wait.
func (e *elector) look(ctx context.Context, c *candidate) (r reading, next step, extent time.Duration, err error) {
	if r, err = e.read(ctx); err != nil {
		return reading{}, stepWait, 0, err
	}
	next, extent = c.read(r)
	return r, next, extent, nil
}

// place refuses a role that stands in another partition of the topic. A topic
// that got more partitions moves most of its roles for members that count anew,
// and a member that finds no lease would depose a holder whose lease is in the
// old partition. Without a holder it would begin with lower sequences than the
// role had. A role that nobody took is in no other partition.
func (e *elector) place(ctx context.Context, c *candidate) error {
	if c.placed || e.log == nil || e.partitions == 1 || c.last.state.Lease != nil {
		return nil
	}
	_, taken, err := e.describe(ctx)
	if err != nil {
		return err
	}
	looked := map[int]bool{e.at.Partition: true}
	for count := 1; taken && count < e.partitions; count++ {
		partition, err := RolePartition(e.role, count)
		if err != nil || looked[partition] {
			continue
		}
		looked[partition] = true
		at := TopicPartition{Topic: e.topic, Partition: partition}
		records, err := e.transport.ReadPartition(ctx, at)
		if err != nil {
			return e.failed("read "+at.String(), cancelled(ctx, err))
		}
		if slices.ContainsFunc(records, func(r StateRecord) bool { key, err := DecodeKey(r.Key); return err == nil && key.Role == e.role }) {
			return e.failed("find its partition", fmt.Errorf("the role has records in %s and its partition is %s: %w", at, e.at, &TopicConfigError{
				Topic: e.topic, Setting: settingPartitions, Have: strconv.Itoa(e.partitions), Want: "the count under which its roles began",
			}))
		}
	}
	c.placed = true
	return nil
}

var errNotDue = errors.New("the role changed before the mint")

// confirm looks at the role again before a mint. It returns errNotDue when
// something else is to do by now.
func (e *elector) confirm(ctx context.Context, c *candidate) error {
	_, next, _, err := e.look(ctx, c)
	if err == nil && next != stepMint {
		err = errNotDue
	}
	return err
}

// challenge mints and writes the first lease. It returns neither a leadership
// nor an error when another member was faster, or a look at the role is due.
func (e *elector) challenge(ctx context.Context, c *candidate) (*Leadership, error) {
	token, err := e.mint(ctx, c)
	if errors.Is(err, errNotDue) {
		return nil, nil
	}
	if err == nil {
		c.won(token)
		if logged := c.last.state.Lease; logged != nil && !token.Supersedes(logged.Token) {
			e.observers.regressed(e.role, token, logged.Token)
		}
		var l *Leadership
		if l, err = e.claim(ctx, token); err == nil {
			return e.install(ctx, l)
		}
	}
	if !errors.Is(err, ErrFenced) {
		return nil, err
	}
	if delay := c.fenced(); delay > 0 {
		e.observers.backedOff(BackoffEvent{Role: e.role, Member: e.member, Fences: c.fences, Delay: delay})
		e.sleep(ctx, nil, e.now(), delay)
	}
	return nil, nil
}

// claim writes the first lease record under a token. The context of the caller
// does not reach it: an epoch that was minted and never used fences the old
// holder and leaves the role without a new one until the old deadline.
func (e *elector) claim(ctx context.Context, token FencingToken) (*Leadership, error) {
	write, cancel := e.detached(ctx)
	defer cancel()
	taken := e.now()
	first := &grant{timing: e.lease.Timing(e.lease.Grant(e.member, token, taken.wall)), taken: taken}
	offset, err := e.writeLease(write, first.timing.lease)
	if err == nil && isOver(e.superseded(token)) {
		err = e.failed("take the role", errNewerEpoch)
	}
	if err != nil {
		if !errors.Is(err, ErrFenced) {
			clear, cancel := e.final(ctx)
			defer cancel()
			err = errors.Join(err, e.clearLease(clear, token))
		}
		e.release(token)
		return nil, err
	}
	return newLeadership(e, token, first, offset), nil
}

// install starts the leadership, unless the caller gave up meanwhile.
func (e *elector) install(ctx context.Context, l *Leadership) (*Leadership, error) {
	if err := ctx.Err(); err != nil {
		if failed := l.Resign(ctx); failed != nil {
			return nil, errors.Join(err, failed)
		}
		return nil, err
	}
	l.start()
	return l, nil
}

// detached returns the context of a write that the caller's context does not
// cancel.
func (e *elector) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	bound := min(e.lease.duration/3, firstWriteBound)
	outer, cancelOuter := context.WithTimeout(context.WithoutCancel(ctx), bound)
	inner, cancelInner := e.withTimeout(outer, bound)
	return inner, func() {
		cancelInner()
		cancelOuter()
	}
}

// final returns the context of a last short write after something failed.
func (e *elector) final(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), e.finalBound())
}

func (e *elector) finalBound() time.Duration { return min(e.poll, time.Second) }

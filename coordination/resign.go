// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
)

// Resign gives the role up. It ends the leadership, whatever the write does,
// and then writes a tombstone on the lease key, so that a standby whose turn
// by registration has come challenges at its next poll instead of at the
// deadline.
//
// Resign waits for a renewal or a guarded write in flight and does not cancel
// it. When it returns nil, no record of this leadership follows. An error says
// that the tombstone may be missing; another call tries again, and after the
// deadline there is nothing left to do. When ctx ends first, the tombstone
// gets a short grace of one second or one poll interval at most, and the error
// matches the error of ctx. A second call after a success, and a call after
// the leadership ended in another way, writes nothing and returns nil.
//
// Resign takes no epoch back. The broker accepts writes of the resigned member
// until another member mints. A caller finishes its work before it resigns.
// The member stays in the roster; [Leadership.Leave] removes it.
func (l *Leadership) Resign(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	if l.orNobody() == nobody {
		return nobody.reason
	}
	l.end("resigned", ErrNotHeld)
	l.mu.Lock()
	resigned := l.resigned
	l.mu.Unlock()
	if !resigned {
		return nil
	}
	write, cancel := withGrace(ctx, l.elector.finalBound())
	defer cancel()
	pass, err := l.take(write)
	if err != nil {
		return l.elector.failed("resign", cancelled(ctx, err))
	}
	defer pass()
	if l.cleared || l.tried && l.sent.untilExpiry(l.elector.now()) == 0 {
		return nil
	}
	l.tried = true
	bound := max(l.sent.untilExpiry(l.elector.now()), l.elector.finalBound())
	write, cancelWrite := l.elector.withTimeout(write, bound)
	defer cancelWrite()
	if err := l.elector.clearLease(write, l.Token()); err != nil && !errors.Is(err, ErrFenced) {
		return cancelled(ctx, err)
	}
	l.cleared = true
	l.elector.release(l.minted)
	return nil
}

// Leave resigns and removes the member from the roster, so that the first
// standby takes rank 0. It removes the registration also when the leadership
// ended before. The errors of both steps are joined.
func (l *Leadership) Leave(ctx context.Context) error {
	resigned := l.Resign(ctx)
	if ctx == nil || l.orNobody() == nobody {
		return resigned
	}
	write, cancel := withGrace(ctx, l.elector.finalBound())
	defer cancel()
	return errors.Join(resigned, l.elector.deregister(write, l.elector.member))
}

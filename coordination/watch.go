// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// LeaderChange is one state of a role that [Watch] reports.
type LeaderChange struct {
	Role Role
	Held bool // whether the log names a holder

	// Live reports whether the lease of the holder was live when it was read,
	// by the clock of the watcher.
	Live bool

	// Lease is the lease in the log, with the holder and its token. It is the
	// zero value when Held is false.
	Lease Lease

	Roster []RosterEntry // the registered members in order of succession
}

// differs reports whether a watcher is told. A renewal alone is no change.
func (c LeaderChange) differs(other LeaderChange) bool {
	return c.Held != other.Held || c.Live != other.Live ||
		c.Lease.Member != other.Lease.Member || c.Lease.Token != other.Lease.Token ||
		!slices.Equal(c.Roster, other.Roster)
}

// Watch follows a role without taking part: it reads the partition once every
// poll interval and yields the first state, and then the state after every
// change of holder, token, liveness or roster. It takes no epoch.
//
// A read happens only while the consumer waits for the next state. A slow
// consumer skips states in between and always gets the newest one.
//
// A failed read yields a zero LeaderChange and the error, and the next poll
// tries again; the consumer breaks off if it does not want that. A missing
// permission and a record that does not decode are such errors too, because
// somebody may mend them while the watch goes on. A closed transport opens no
// more: an error that matches [ErrTransportClosed] is the last of the sequence,
// and so is that of an invalid argument or option. The end of ctx ends the
// sequence without an error.
//
// The lease in the log shows who leads and does not prove it, because whoever
// may write the topic can write a lease. [DescribeLeadership] asks the
// coordinator.
func Watch(ctx context.Context, reader StateReader, role Role, options ...Option) iter.Seq2[LeaderChange, error] {
	return func(yield func(LeaderChange, error) bool) {
		w, err := newWatcher(ctx, reader, role, options)
		if err != nil {
			yield(LeaderChange{}, err)
			return
		}
		var last *LeaderChange
		for ctx.Err() == nil {
			began := w.now()
			change, err := w.look(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(LeaderChange{}, err) || errors.Is(err, ErrTransportClosed) {
					return
				}
			case last == nil || change.differs(*last):
				last = &change
				if !yield(change, nil) {
					return
				}
			}
			w.sleep(ctx, nil, began, w.poll)
		}
	}
}

// watcher is an outsider that reads one role.
type watcher struct {
	settings
	timekeeper
	reader StateReader
	role   Role
	at     TopicPartition
}

func newWatcher(ctx context.Context, reader StateReader, role Role, options []Option) (*watcher, error) {
	switch {
	case ctx == nil:
		return nil, errNoContext
	case reader == nil:
		return nil, errNoReader
	case role == Role{}:
		return nil, errZeroRole
	}
	s, err := resolve(options, reader)
	if err != nil {
		return nil, err
	}
	at, err := s.partition(role)
	if err != nil {
		return nil, err
	}
	return &watcher{settings: s, timekeeper: newTimekeeper(s.clock), reader: reader, role: role, at: at}, nil
}

func (w *watcher) state(ctx context.Context) (RoleState, error) {
	records, _, err := readCommitted(ctx, w.reader, w.at)
	if err != nil {
		return RoleState{}, fmt.Errorf("coordination: role %q: read %s: %w", w.role, w.at, cancelled(ctx, err))
	}
	return w.fold(w.role, w.at, records)
}

func (w *watcher) look(ctx context.Context) (LeaderChange, error) {
	state, err := w.state(ctx)
	if err != nil {
		return LeaderChange{}, err
	}
	change := LeaderChange{Role: w.role, Roster: state.Roster}
	if state.Lease != nil {
		change.Held, change.Lease = true, *state.Lease
		change.Live = w.lease.Timing(change.Lease).LiveAt(w.now().wall)
	}
	return change, nil
}

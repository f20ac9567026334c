// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"fmt"
	"time"
)

// Deregister removes the registration of a member from the roster of a role.
// The member itself calls it, through [Leadership.Leave] for one, or an
// operator for an instance that is gone: every registration of a dead instance
// delays the succession of those behind it by one stagger. A member that lives
// and waits for the role registers again, at the tail.
//
// When ctx ends first, the registration may or may not be removed.
func Deregister(ctx context.Context, registrar Registrar, role Role, member MemberID, options ...Option) error {
	switch {
	case ctx == nil:
		return errNoContext
	case registrar == nil:
		return errNoRegistrar
	case role == Role{}:
		return errZeroRole
	case member == MemberID{}:
		return errZeroMember
	}
	at, err := RoleTopicPartition(role, options...)
	if err != nil {
		return err
	}
	if err := registrar.Append(ctx, at, EncodeKey(RegistrationKey(role, member)), nil); err != nil {
		return fmt.Errorf("coordination: role %q, member %q: deregister in %s: %w", role, member, at, cancelled(ctx, err))
	}
	return nil
}

// Roster is what [PruneRoster] reads and writes. A [Transport] is one.
type Roster interface {
	StateReader
	Registrar
}

// PruneRoster removes every registration of a role that is older than an
// extent, except that of the holder, and returns the removed members. It is a
// tool for operators: a member that lives and waits for the role registers
// again, at the tail, so the members that stay away are the ones that are
// gone.
//
// After an error the returned members are the ones that were removed before
// it.
func PruneRoster(ctx context.Context, roster Roster, role Role, olderThan time.Duration, options ...Option) ([]MemberID, error) {
	if olderThan < 0 {
		return nil, fmt.Errorf("coordination: role %q: age %v must not be negative", role, olderThan)
	}
	w, err := newWatcher(ctx, roster, role, options)
	if err != nil {
		return nil, err
	}
	state, err := w.state(ctx)
	if err != nil {
		return nil, err
	}
	oldest := addMillis(w.now().wall, -extentMillis(olderThan))
	holder, _ := state.Holder()
	var removed []MemberID
	for _, entry := range state.Roster {
		if entry.Member == holder || entry.RegisteredAt >= oldest {
			continue
		}
		if err := Deregister(ctx, roster, role, entry.Member, options...); err != nil {
			return removed, err
		}
		removed = append(removed, entry.Member)
	}
	return removed, nil
}

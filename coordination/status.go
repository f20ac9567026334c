// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"fmt"
)

// LeadershipStatus reports the token that the transaction coordinator holds
// for one role. [DescribeLeadership] builds it.
type LeadershipStatus struct {
	Role Role // the role that the status describes

	// Token is the token that the transaction coordinator holds. It is
	// [NoEpoch] when Held is false.
	Token FencingToken

	// Held reports whether a member took the role. The coordinator forgets an
	// idle role after transactional.id.expiration.ms, 7 days by default, so
	// false also means "taken long ago".
	Held bool
}

// DescribeLeadership reports which token holds a role.
//
// The call reaches the transaction coordinator only: it reads no topic, joins
// no group and takes no epoch, so any process makes it. It is the third-party
// check of the authority of a writer. The answer held at some instant during
// the call and may be out of date when it arrives; use it to refuse and never,
// on its own, to permit a side effect.
func DescribeLeadership(ctx context.Context, coordinator Coordinator, role Role) (LeadershipStatus, error) {
	switch {
	case ctx == nil:
		return LeadershipStatus{}, errNoContext
	case coordinator == nil:
		return LeadershipStatus{}, errNoCoordinator
	case role == Role{}:
		return LeadershipStatus{}, errZeroRole
	}
	token, held, err := coordinator.DescribeEpoch(ctx, role)
	if err != nil {
		return LeadershipStatus{}, fmt.Errorf("coordination: role %q: describe the epoch: %w", role, cancelled(ctx, err))
	}
	if !held {
		token = NoEpoch
	}
	return LeadershipStatus{Role: role, Token: token, Held: held}, nil
}

// Authoritative reports whether the token is the token that the coordinator
// holds.
//
// Where the brokers advance the epoch with every transaction, a token that was
// taken before the last renewal of its holder is not; the answer is never true
// for a superseded holder.
func (s LeadershipStatus) Authoritative(token FencingToken) bool { return s.Held && s.Token == token }

// Superseded reports whether the token cannot be the newest of its role,
// because the coordinator holds a token that ranks above it. Where the brokers
// advance the epoch with every transaction, an earlier token of the holder
// itself is superseded in this sense, so Superseded alone does not show that
// the holder was deposed.
func (s LeadershipStatus) Superseded(token FencingToken) bool {
	return s.Held && s.Token.Supersedes(token)
}

// String describes the status.
func (s LeadershipStatus) String() string {
	if !s.Held {
		return fmt.Sprintf("role %s: no epoch", s.Role)
	}
	return fmt.Sprintf("role %s: epoch %s", s.Role, s.Token)
}

// DescribeRoleState reads the partition of one role and folds it into the
// roster and the lease of that role. A tool that reports the state of a
// cluster calls it, and it takes no epoch.
func DescribeRoleState(ctx context.Context, reader StateReader, role Role, options ...Option) (RoleState, error) {
	w, err := newWatcher(ctx, reader, role, options)
	if err != nil {
		return RoleState{}, err
	}
	return w.state(ctx)
}

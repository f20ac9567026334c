// SPDX-License-Identifier: Apache-2.0

package coordination

import "fmt"

// Action is the step that one member takes about a role.
type Action int

const (
	// ActionNotRegistered says that the member is not in the roster of the
	// role, so it has no rank. It registers first, reads the partition again,
	// and evaluates again.
	ActionNotRegistered Action = iota

	// ActionHold says that this member holds the role and that its lease is
	// live. A member that owns the epoch of the lease renews it and mints
	// nothing. A member that only finds its name in the log, after a restart,
	// owns no epoch and mints one.
	ActionHold

	// ActionChallenge says that this member calls InitProducerId at once.
	ActionChallenge

	// ActionWait says that this member waits and then evaluates the role
	// state again. [Decision.WaitUntil] carries the instant.
	ActionWait
)

// String names the action.
func (a Action) String() string {
	switch a {
	case ActionNotRegistered:
		return "not registered"
	case ActionHold:
		return "hold"
	case ActionChallenge:
		return "challenge"
	case ActionWait:
		return "wait"
	default:
		return fmt.Sprintf("Action(%d)", int(a))
	}
}

// Decision is what one member does about a role. [Evaluate] returns one.
type Decision struct {
	Action Action // the step that the member takes

	// WaitUntil is the instant of the next evaluation, in milliseconds since
	// the Unix epoch. It carries a value for [ActionWait] only.
	WaitUntil int64
}

// Evaluate decides what one member does about a role at this instant. It is a
// pure function: equal arguments give equal decisions.
//
//  1. A member that is not in the roster gets [ActionNotRegistered]. It has no
//     rank, because rank comes from the registration record.
//  2. A member that the lease names, while that lease is live, gets
//     [ActionHold].
//  3. A challenger of rank n gets [ActionChallenge] from the deadline plus n
//     challenge staggers on. Without a lease, the anchor is the registration
//     instant of the member instead of a deadline, so rank 0 challenges at
//     once and rank n challenges n staggers later.
//  4. Every other member gets [ActionWait]. The instant it carries is the
//     earliest instant at which this answer changes for an unchanged role
//     state, and it is always later than nowMillis.
//
// The deadline is the one that the holder wrote, and the stagger is the one of
// config; the lease duration of config plays no part. The anchor of rule 3
// comes from the role state and never from the current instant: an anchor of
// "now plus n staggers" would move forward with every evaluation, and a
// standby of rank 1 or more would wait for ever behind a dead rank 0.
//
// The member of an expired lease keeps rank 0, so it reclaims its own role at
// its own deadline, at the same instant as the first standby. The coordinator
// decides between the two. See [RoleState.RankOf].
//
// A caller evaluates again when it reads a new record, and at the latest at
// the instant that [Decision.WaitUntil] names.
func Evaluate(state RoleState, member MemberID, nowMillis int64, config LeaseConfig) Decision {
	rank, registered := state.RankOf(member)
	if !registered {
		return Decision{Action: ActionNotRegistered}
	}
	var challengeAt int64
	if state.Lease != nil {
		timing := NewLeaseTiming(*state.Lease, config)
		if state.Lease.Member == member && timing.LiveAt(nowMillis) {
			return Decision{Action: ActionHold}
		}
		challengeAt = timing.ChallengeAt(rank)
	} else {
		entry, _ := state.Entry(member)
		challengeAt = addMillis(entry.RegisteredAt, extentMillis(config.ChallengeDelay(rank)))
	}
	if nowMillis >= challengeAt {
		return Decision{Action: ActionChallenge}
	}
	return Decision{Action: ActionWait, WaitUntil: challengeAt}
}

// SPDX-License-Identifier: Apache-2.0

package coordination

import "fmt"

// StateTopic is the compacted internal topic that holds the coordination
// state of a cluster. Every record of one role goes to one partition, so the
// records of a role carry a total order. See [RolePartition].
//
// The topic needs cleanup.policy=compact, and writers use acks=all. A command
// is durable in a quorum before its dispatch only if an operator also sets a
// replication factor of 3, min.insync.replicas of 2 or more and no unclean
// leader election, on this topic and on __transaction_state.
const StateTopic = "__coordination_state"

// RecordKind names the record of [StateTopic] that a key holds. The key
// carries the kind, so one topic holds both kinds and compaction keeps the
// newest record of each.
type RecordKind int16

const (
	// KindRegistration marks the record that one member writes to announce
	// that it is available. A registration carries no authority.
	KindRegistration RecordKind = 0

	// KindLease marks the record that names the member that holds a role, and
	// the time the claim of that member ends.
	KindLease RecordKind = 1
)

// String names the kind.
func (k RecordKind) String() string {
	switch k {
	case KindRegistration:
		return "registration"
	case KindLease:
		return "lease"
	default:
		return fmt.Sprintf("RecordKind(%d)", int16(k))
	}
}

// Key is the decoded key of one record of [StateTopic]. The key is the
// compaction key, so the topic keeps the last record of every role and every
// member.
type Key struct {
	Kind RecordKind
	Role Role // the role that the record belongs to

	// Member is the member of a registration key. A lease key carries the
	// zero [MemberID], because a lease belongs to the role and not to one
	// member.
	Member MemberID
}

// LeaseKey builds the key of the lease of a role. It carries no member.
func LeaseKey(role Role) Key { return Key{Kind: KindLease, Role: role} }

// RegistrationKey builds the key of the registration of one member of a role.
func RegistrationKey(role Role, member MemberID) Key {
	return Key{Kind: KindRegistration, Role: role, Member: member}
}

// Registration is the value of a record that announces one member of a role.
// A member writes a registration when it joins, and a tombstone on the same
// key when it leaves for good.
type Registration struct {
	Member MemberID // the member that registered

	// RegisteredAt is the time the member registered, in milliseconds since
	// the Unix epoch.
	RegisteredAt int64
}

// Lease is the value of a record that names the member that holds a role, and
// the time the claim of that member ends.
//
// Token is the authority: the broker fences a write that carries an older
// token, and no clock takes part in that check. Deadline is an anti-flap
// device: a standby waits for it to pass before it challenges the holder, so
// a short pause does not move the role.
type Lease struct {
	Member MemberID     // the member that holds the role
	Token  FencingToken // the pair that the lease record was written under

	// GrantedAt is the time the holder took the lease, in milliseconds since
	// the Unix epoch. A renewal moves it forward; it never moves back under
	// one token.
	GrantedAt int64

	// Deadline is the time the lease expires, in milliseconds since the Unix
	// epoch.
	Deadline int64
}

// StateRecord is one record of [StateTopic] as it sits in the log. A
// [StateReader] returns these, and [BuildRoleState] folds them.
type StateRecord struct {
	// Offset is the offset of the record in its partition. The succession
	// rules rank candidates on the offset of a registration.
	Offset int64

	Key []byte // the encoded record key. [DecodeKey] reads it

	// Value is the encoded record value. An empty value is a tombstone. See
	// [IsTombstone].
	Value []byte
}

// IsTombstone reports whether a record value is a tombstone. A tombstone of a
// registration key deregisters one member, and a tombstone of a lease key
// clears the lease of one role. No value of this topic is legally empty, so a
// nil value and an empty value both count. Writers write the nil one, because
// compaction removes no other.
func IsTombstone(value []byte) bool { return len(value) == 0 }

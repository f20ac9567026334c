// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"cmp"
	"fmt"
	"slices"
)

// RosterEntry is one member of the roster of a role.
type RosterEntry struct {
	Member MemberID // the member that registered

	// Offset is the offset of the registration record of the member in the
	// partition of the role. It is the join sequence of the member, because
	// compaction keeps the offset of every record it retains.
	Offset int64

	// RegisteredAt is the time the member registered, in milliseconds since
	// the Unix epoch.
	RegisteredAt int64
}

// RoleState is the state that a reader folds out of the records of one role.
// The zero value is the state of a role without members and without a lease.
type RoleState struct {
	// Roster holds the candidates of the role in registration order, which is
	// offset order.
	Roster []RosterEntry

	Lease *Lease // the lease of the role, and nil when no member holds it
}

// Entry returns the roster entry of a member, and it reports whether the
// member registered.
func (s RoleState) Entry(member MemberID) (RosterEntry, bool) {
	for _, entry := range s.Roster {
		if entry.Member == member {
			return entry, true
		}
	}
	return RosterEntry{}, false
}

// Holder returns the member that the lease names, and it reports whether the
// role has a lease. The holder of an expired lease is still the holder;
// [LeaseTiming.LiveAt] tells whether the lease is live.
func (s RoleState) Holder() (MemberID, bool) {
	if s.Lease == nil {
		return MemberID{}, false
	}
	return s.Lease.Member, true
}

// BuildRoleState folds the records of one partition into the state of one
// role. It reports the first record that does not decode.
//
// The caller reads the partition of the role in offset order. The fold gives
// the same answer for another order, because it keeps the record of the
// highest offset for every key.
func BuildRoleState(role Role, records []StateRecord) (RoleState, error) {
	builder := NewRoleStateBuilder(role)
	for _, record := range records {
		if err := builder.Apply(record); err != nil {
			return RoleState{}, err
		}
	}
	return builder.Build(), nil
}

// RoleStateBuilder folds the records of one role into a [RoleState].
//
// The builder keeps the record of the highest offset for every key, which is
// what log compaction keeps. A later registration of a member replaces the
// earlier one and moves the member to the tail of the roster. A registration
// tombstone removes the member. A lease tombstone clears the lease.
//
// A RoleStateBuilder is not safe for concurrent use. The zero value is of the
// zero role, which has no records.
type RoleStateBuilder struct {
	role    Role
	members map[MemberID]registrationSlot
	lease   leaseSlot
}

// registrationSlot is the newest registration record of one member. The slot
// of a removed member stays, so that an older registration that arrives later
// revives nobody.
type registrationSlot struct {
	entry   RosterEntry
	removed bool
}

type leaseSlot struct {
	seen   bool
	offset int64
	lease  *Lease
}

// NewRoleStateBuilder builds an empty fold for one role.
func NewRoleStateBuilder(role Role) *RoleStateBuilder {
	return &RoleStateBuilder{role: role, members: make(map[MemberID]registrationSlot)}
}

// Role returns the role that this fold collects.
func (b *RoleStateBuilder) Role() Role {
	if b == nil {
		return Role{}
	}
	return b.role
}

// Apply applies one record of the coordination partition. It drops a record of
// another role, whose value it does not look at, so a caller folds a partition
// that holds several roles and needs no filter of its own. It reports a record
// that does not decode; the error wraps a [*FormatError] and names the offset,
// and the fold is as it was before. Apply does not keep record.
//
// The key carries the identity, because the key is the compaction key. The
// builder takes the record kind and the registered member from the key, and
// neither from the value.
func (b *RoleStateBuilder) Apply(record StateRecord) error {
	if b == nil {
		return errZeroBuilder
	}
	if err := b.apply(record); err != nil {
		return fmt.Errorf("coordination: %w", err)
	}
	return nil
}

func (b *RoleStateBuilder) apply(record StateRecord) error {
	key, err := DecodeKey(record.Key)
	if err != nil {
		return recordError(record.Offset, record.Key, err)
	}
	if key.Role != b.role {
		return nil
	}
	if key.Kind == KindLease {
		return b.applyLease(record)
	}
	return b.applyRegistration(key.Member, record)
}

func (b *RoleStateBuilder) applyLease(record StateRecord) error {
	slot := leaseSlot{seen: true, offset: record.Offset}
	if !IsTombstone(record.Value) {
		lease, err := DecodeLease(record.Value)
		if err != nil {
			return recordError(record.Offset, record.Value, err)
		}
		slot.lease = &lease
	}
	if !b.lease.seen || record.Offset > b.lease.offset {
		b.lease = slot
	}
	return nil
}

func (b *RoleStateBuilder) applyRegistration(member MemberID, record StateRecord) error {
	slot := registrationSlot{
		entry:   RosterEntry{Member: member, Offset: record.Offset},
		removed: IsTombstone(record.Value),
	}
	if !slot.removed {
		registration, err := DecodeRegistration(record.Value)
		if err != nil {
			return recordError(record.Offset, record.Value, err)
		}
		slot.entry.RegisteredAt = registration.RegisteredAt
	}
	if newest, seen := b.members[member]; !seen || record.Offset > newest.entry.Offset {
		b.members[member] = slot
	}
	return nil
}

// Build returns the role state, with the roster in offset order. The caller
// owns it: later calls of Apply do not change it.
func (b *RoleStateBuilder) Build() RoleState {
	if b == nil {
		return RoleState{Roster: []RosterEntry{}}
	}
	state := RoleState{Roster: make([]RosterEntry, 0, len(b.members))}
	for _, slot := range b.members {
		if !slot.removed {
			state.Roster = append(state.Roster, slot.entry)
		}
	}
	slices.SortFunc(state.Roster, func(x, y RosterEntry) int {
		return cmp.Or(cmp.Compare(x.Offset, y.Offset), cmp.Compare(x.Member.name, y.Member.name))
	})
	if b.lease.lease != nil {
		lease := *b.lease.lease
		state.Lease = &lease
	}
	return state
}

// recordError names the record that does not decode, and shows enough of its
// bytes to recognise the writer.
func recordError(offset int64, data []byte, err error) error {
	const shown = 32
	if len(data) > shown {
		return fmt.Errorf("record at offset %d: %w (%x..., %d bytes)", offset, err, data[:shown], len(data))
	}
	return fmt.Errorf("record at offset %d: %w (%x)", offset, err, data)
}

// fold folds the records that a read of the partition of a role returned, and
// hands over or reports a record that does not decode.
func (s *settings) fold(role Role, at TopicPartition, records []StateRecord) (RoleState, error) {
	builder := NewRoleStateBuilder(role)
	for _, record := range records {
		err := builder.apply(record)
		switch {
		case err == nil:
		case s.skipMalformed != nil:
			s.skipMalformed(record, err)
		default:
			return RoleState{}, fmt.Errorf("coordination: role %q: read %s: %w", role, at, err)
		}
	}
	return builder.Build(), nil
}

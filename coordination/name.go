// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// The maximum length of the two names of the topic, in bytes. The bound is
// the bound Kafka puts on a topic name, so a role stays short enough to log
// and to compare.
const (
	// MaxRoleLen is the maximum length of a [Role], in bytes.
	MaxRoleLen = 249

	// MaxMemberIDLen is the maximum length of a [MemberID], in bytes.
	MaxMemberIDLen = 249
)

// Role is the validated name of one coordination role, such as the name of an
// active controller.
//
// A role is a Kafka transactional.id: the transaction coordinator mints one
// producer epoch after another for that id, so the name identifies the fenced
// group of members that compete for one leadership. A role that is named like
// the transactional id of an application fences that application; give role
// names a prefix of their own.
//
// [NewRole] is the only way to build a role with a name, so a non-zero Role
// is proof that the name is well formed.
type Role struct {
	name string
}

// NewRole parses a role name. It rejects an empty name, a name longer than
// [MaxRoleLen] bytes, and a name that is not valid UTF-8, because no reader
// of the topic decodes such a name.
func NewRole(name string) (Role, error) {
	if err := checkName("role", name, MaxRoleLen); err != nil {
		return Role{}, fmt.Errorf("coordination: %w", err)
	}
	return Role{name: name}, nil
}

// String returns the role name.
func (r Role) String() string { return r.name }

// MemberID is the validated identity of one member that competes for a role.
//
// A member picks its own id and keeps it across reconnects and restarts, so
// that the succession order survives a short failure and the roster does not
// grow with every start.
//
// [NewMemberID] is the only way to build a member id with a name, so a
// non-zero MemberID is proof that the id is well formed. The zero value names
// no member; a lease key carries it.
type MemberID struct {
	name string
}

// NewMemberID parses a member id. It rejects an empty id, an id longer than
// [MaxMemberIDLen] bytes, and an id that is not valid UTF-8.
func NewMemberID(name string) (MemberID, error) {
	if err := checkName("member id", name, MaxMemberIDLen); err != nil {
		return MemberID{}, fmt.Errorf("coordination: %w", err)
	}
	return MemberID{name: name}, nil
}

// String returns the member id.
func (m MemberID) String() string { return m.name }

var errNonUTF8 = errors.New("non-UTF-8 string")

func checkName(noun, name string, limit int) error {
	switch {
	case name == "":
		return fmt.Errorf("%s must not be empty", noun)
	case len(name) > limit:
		return fmt.Errorf("%s is %d bytes long, the limit is %d", noun, len(name), limit)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s %q: %w", noun, name, errNonUTF8)
	}
	return nil
}

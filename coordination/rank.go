// SPDX-License-Identifier: Apache-2.0

package coordination

// RankOf returns the challenge rank of a member, and it reports whether the
// member registered.
//
// The rank is the index of the member in the roster after the removal of the
// holder that the lease names, so the first standby takes rank 0. The holder
// itself keeps rank 0: it reaches the rank test only after its own lease
// expired, and it may still own the newest epoch then, so it reclaims the role
// for less churn than a failover costs.
func (s RoleState) RankOf(member MemberID) (int, bool) {
	holder, held := s.Holder()
	rank := 0
	for _, entry := range s.Roster {
		switch {
		case entry.Member == member:
			if held && holder == member {
				return 0, true
			}
			return rank, true
		case !held || entry.Member != holder:
			rank++
		}
	}
	return 0, false
}

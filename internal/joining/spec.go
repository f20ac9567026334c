// SPDX-License-Identifier: Apache-2.0

package joining

import "time"

// Spec says which rows of two sides make a pair, and how results name their
// columns. Its fields are those of columnar.Join, which documents them.
type Spec struct {
	LeftKey     string
	RightKey    string
	Window      time.Duration
	LeftPrefix  string
	RightPrefix string
	MaxRows     int
}

// withPrefixes sets the prefixes that are left to their defaults.
func (s Spec) withPrefixes() Spec {
	if s.LeftPrefix == "" {
		s.LeftPrefix = "left_"
	}
	if s.RightPrefix == "" {
		s.RightPrefix = "right_"
	}
	return s
}

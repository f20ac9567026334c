// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"strings"
)

// CompatibilityMode is a direction of compatibility and how far back it
// reaches.
type CompatibilityMode int

const (
	// Backward: the candidate reads what the previous schema wrote.
	Backward CompatibilityMode = iota
	// Forward: the previous schema reads what the candidate writes.
	Forward
	// Full: both.
	Full
	// None: everything is compatible.
	None
	// BackwardTransitive is Backward against every earlier schema.
	BackwardTransitive
	// ForwardTransitive is Forward against every earlier schema.
	ForwardTransitive
	// FullTransitive is Full against every earlier schema.
	FullTransitive
)

// String returns the registry's name of the level, such as
// "BACKWARD_TRANSITIVE". A value that is none of the constants reads as "FULL",
// and acts as it.
func (m CompatibilityMode) String() string {
	if m < Backward || m > FullTransitive {
		m = Full
	}
	return [...]string{
		"BACKWARD", "FORWARD", "FULL", "NONE", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE",
	}[m]
}

// ParseCompatibilityMode reads a level as registries name it.
func ParseCompatibilityMode(level string) (CompatibilityMode, error) {
	for mode := Backward; mode <= FullTransitive; mode++ {
		if strings.EqualFold(mode.String(), level) {
			return mode, nil
		}
	}
	return None, fmt.Errorf("unknown compatibility level %q", level)
}

func (m CompatibilityMode) backward() bool {
	return m != Forward && m != ForwardTransitive && m != None
}

func (m CompatibilityMode) forward() bool {
	return m != Backward && m != BackwardTransitive && m != None
}

func (m CompatibilityMode) transitive() bool {
	return m == BackwardTransitive || m == ForwardTransitive || m == FullTransitive
}

// CompatibilityResult is the outcome of a compatibility check.
type CompatibilityResult struct {
	Compatible bool
	// Incompatibilities lists every violation; nil when compatible. From a local
	// check each begins with the direction that fails, "BACKWARD: " or
	// "FORWARD: ". From a registry they are its own words.
	Incompatibilities []string
}

// checkHistory compares candidate with the schemas before it, oldest first, as
// mode demands. The function violations lists why a reader cannot read what a
// writer wrote. With a longer history each entry tells which schema it is
// about.
func checkHistory[S any](history []S, candidate S, mode CompatibilityMode, violations func(reader, writer S) []string) CompatibilityResult {
	first := 0
	if !mode.transitive() {
		first = max(0, len(history)-1)
	}
	var found []string
	collect := func(direction, about string, reader, writer S) {
		for _, violation := range violations(reader, writer) {
			found = append(found, direction+": "+about+violation)
		}
	}
	for i := first; i < len(history); i++ {
		about := ""
		if mode.transitive() && len(history) > 1 {
			about = fmt.Sprintf("against schema %d of %d: ", i+1, len(history))
		}
		if mode.backward() {
			collect("BACKWARD", about, candidate, history[i])
		}
		if mode.forward() {
			collect("FORWARD", about, history[i], candidate)
		}
	}
	return CompatibilityResult{Compatible: len(found) == 0, Incompatibilities: found}
}

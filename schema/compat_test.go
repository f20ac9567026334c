// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompatibilityLevelNames(t *testing.T) {
	names := map[CompatibilityMode]string{
		Backward: "BACKWARD", Forward: "FORWARD", Full: "FULL", None: "NONE", BackwardTransitive: "BACKWARD_TRANSITIVE",
		ForwardTransitive: "FORWARD_TRANSITIVE", FullTransitive: "FULL_TRANSITIVE",
	}
	for mode, name := range names {
		if mode.String() != name {
			t.Errorf("mode %d is %q, want %q", mode, mode, name)
		}
		for _, text := range []string{name, strings.ToLower(name)} {
			if parsed, err := ParseCompatibilityMode(text); err != nil || parsed != mode {
				t.Errorf("ParseCompatibilityMode(%q) = %d, %v", text, parsed, err)
			}
		}
	}
	if CompatibilityMode(99).String() != "FULL" {
		t.Error("an unknown mode does not read as FULL")
	}
	if _, err := ParseCompatibilityMode("SIDEWAYS"); err == nil || err.Error() != `unknown compatibility level "SIDEWAYS"` {
		t.Errorf("error is %v", err)
	}
}

func TestModesChooseDirectionAndHistory(t *testing.T) {
	history := []string{"a", "b", "c"}
	violations := func(reader, writer string) []string { return []string{reader + " reads " + writer} }
	tests := map[CompatibilityMode][]string{
		None:     nil,
		Backward: {"BACKWARD: d reads c"},
		Forward:  {"FORWARD: c reads d"},
		Full:     {"BACKWARD: d reads c", "FORWARD: c reads d"},
		BackwardTransitive: {
			"BACKWARD: against schema 1 of 3: d reads a", "BACKWARD: against schema 2 of 3: d reads b", "BACKWARD: against schema 3 of 3: d reads c",
		},
		ForwardTransitive: {
			"FORWARD: against schema 1 of 3: a reads d", "FORWARD: against schema 2 of 3: b reads d", "FORWARD: against schema 3 of 3: c reads d",
		},
		FullTransitive: {
			"BACKWARD: against schema 1 of 3: d reads a", "FORWARD: against schema 1 of 3: a reads d",
			"BACKWARD: against schema 2 of 3: d reads b", "FORWARD: against schema 2 of 3: b reads d",
			"BACKWARD: against schema 3 of 3: d reads c", "FORWARD: against schema 3 of 3: c reads d",
		},
		CompatibilityMode(99): {"BACKWARD: d reads c", "FORWARD: c reads d"},
	}
	for mode, want := range tests {
		result := checkHistory(history, "d", mode, violations)
		if diff := cmp.Diff(CompatibilityResult{Compatible: want == nil, Incompatibilities: want}, result); diff != "" {
			t.Errorf("%v mismatch (-want +got):\n%s", mode, diff)
		}
		if result := checkHistory(nil, "d", mode, violations); !result.Compatible || result.Incompatibilities != nil {
			t.Errorf("%v: the first schema is incompatible: %v", mode, result)
		}
	}
	if got := checkHistory([]string{"a"}, "b", FullTransitive, violations).Incompatibilities[0]; got != "BACKWARD: b reads a" {
		t.Errorf("with one schema before it an entry is %q", got)
	}
}

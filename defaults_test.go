// SPDX-License-Identifier: Apache-2.0

package krabkastreams

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithDefaults(t *testing.T) {
	tests := []struct {
		name           string
		settings, want map[string]any
	}{
		{"no protocol", map[string]any{"application.id": "x"}, map[string]any{"application.id": "x", "group.protocol": "streams"}},
		{"another protocol", map[string]any{"group.protocol": "classic"}, map[string]any{"group.protocol": "classic"}},
		{"nil protocol", map[string]any{"group.protocol": nil}, map[string]any{"group.protocol": nil}},
		{"empty protocol", map[string]any{"group.protocol": ""}, map[string]any{"group.protocol": ""}},
		{"nil settings", nil, map[string]any{"group.protocol": "streams"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := maps.Clone(tt.settings)
			got := WithDefaults(tt.settings)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("WithDefaults mismatch (-want +got):\n%s", diff)
			}
			got["added"] = true
			if diff := cmp.Diff(before, tt.settings); diff != "" {
				t.Errorf("the settings changed (-want +got):\n%s", diff)
			}
		})
	}
}

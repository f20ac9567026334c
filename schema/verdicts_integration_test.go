// SPDX-License-Identifier: Apache-2.0

//go:build integration

package schema

import (
	"fmt"
	"strings"
	"testing"
)

// The local verdict is that of Apicurio's registry, but where one of the two has a
// reason not to follow the other.
func TestRealRegistryJudgesAlike(t *testing.T) {
	client, prefix := realRegistry(t)
	for _, of := range verdictsOf {
		for i, tc := range of.verdicts {
			t.Run(of.kind.String()+"/"+tc.name, func(t *testing.T) {
				ctx, subject := t.Context(), fmt.Sprintf("%s-%v-%d-value", prefix, of.kind, i)
				if of.kind == KindJSON { // which some registries know by this member alone
					const dialect = `{"$schema":"http://json-schema.org/draft-07/schema#",`
					tc.previous = strings.Replace(strings.Replace(tc.previous, "{", dialect, 1), ",}", "}", 1)
					tc.candidate = strings.Replace(strings.Replace(tc.candidate, "{", dialect, 1), ",}", "}", 1)
				}
				if _, err := client.Register(ctx, subject, of.kind, tc.previous, ""); err != nil {
					t.Fatal(err)
				}
				if _, err := client.SetSubjectCompatibility(ctx, subject, Backward.String()); err != nil {
					t.Fatal(err)
				}
				theirs, err := client.CheckVersionCompatibility(ctx, subject, 1, NewSchema{Kind: of.kind, Schema: tc.candidate})
				if err != nil {
					t.Fatal(err)
				}
				if want := tc.compatible != strings.Contains(tc.by, "A"); theirs.Compatible != want {
					t.Errorf("the registry says compatible %v: %q", theirs.Compatible, theirs.Incompatibilities)
				}
			})
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package nexgen_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/nexgen"
)

func TestAnswersHaveTheKnownDigests(t *testing.T) {
	tests := []struct {
		query  string
		events int64
		rows   int
		digest string
	}{
		{"q0", 50_000, 46_000, "4eb3be0c26897989"},
		{"q2", 50_000, 182, "b0008e9605bdda02"},
		{"q12e", 50_000, 924, "2767fe07735f984d"},
		{"q12e", 100_000, 1916, "8274b1fcd56d453c"},
		{"q0", nexgen.PublishedEvents, 920_000, nexgen.Published["q0"]},
		{"q2", nexgen.PublishedEvents, 6879, nexgen.Published["q2"]},
		{"q12e", nexgen.PublishedEvents, 27_429, nexgen.Published["q12e"]},
	}
	for _, tt := range tests {
		lines, err := nexgen.Answer(tt.query, tt.events)
		if err != nil {
			t.Fatal(err)
		}
		if got := nexgen.Digest(lines); len(lines) != tt.rows || got != tt.digest {
			t.Errorf("%s over %d events has %d rows with digest %s, want %d with %s",
				tt.query, tt.events, len(lines), got, tt.rows, tt.digest)
		}
	}
}

func TestAnswerRefusesUnknownQueries(t *testing.T) {
	lines, err := nexgen.Answer("q99", 10)
	if lines != nil || err == nil || err.Error() != `nexgen: no query "q99"` {
		t.Errorf("Answer of q99 = %v, %v, want an error that names it", lines, err)
	}
}

func TestDigestCountsLinesWhateverTheirOrder(t *testing.T) {
	lines := []string{nexgen.Line(3, 4), nexgen.Line(-1), nexgen.Line(3)}
	given := slices.Clone(lines)
	digest := nexgen.Digest(lines)
	if diff := cmp.Diff(given, lines); diff != "" {
		t.Errorf("Digest moved the lines (-want +got):\n%s", diff)
	}
	// printf -- '-1\n3\n3,4\n' | sha256sum
	if want := "6502982490399a68"; digest != want {
		t.Errorf("Digest = %s, want %s", digest, want)
	}
	slices.Reverse(lines)
	if got := nexgen.Digest(lines); got != digest {
		t.Errorf("Digest of the lines in reverse = %s, want %s", got, digest)
	}
	if got := nexgen.Digest(append(lines, lines[0])); got == digest {
		t.Errorf("Digest with a line twice = %s, the same as with it once", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadJournalTellsAnIncompleteEndFromDamage(t *testing.T) {
	directory := t.TempDir()
	partition := NewPartition(OS{}, directory, 0)
	for _, round := range []string{"one", "two", "three"} {
		if err := partition.AppendRound(1, []byte(round)); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(filepath.Join(directory, "partition-0-0-1-0.journal"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := func(at int) []byte {
		data := bytes.Clone(written)
		data[at] ^= 4
		return data
	}
	second := len(JournalMagic) + JournalFrame + len("one")
	last := len(written) - len("three")
	tests := []struct {
		name  string
		data  []byte
		want  []string
		cause string
	}{
		{"whole", written, []string{"one", "two", "three"}, ""},
		{"last round cut short", written[:len(written)-1], []string{"one", "two"}, ""},
		{"last header cut short", written[:last-1], []string{"one", "two"}, ""},
		{"last round garbled", flipped(last), []string{"one", "two"}, ""},
		{"last round garbled before zeros", append(flipped(last), 0, 0, 0), []string{"one", "two"}, ""},
		{"zeros at the end", append(bytes.Clone(written), make([]byte, 99)...), []string{"one", "two", "three"}, ""},
		{"only zeros", make([]byte, 99), nil, ""},
		{"magic cut short", written[:3], nil, ""},
		{"empty", nil, nil, ""},
		{"round in the middle garbled", flipped(second + JournalFrame), nil, "round 1 does not match its checksum"},
		{"length in the middle garbled", flipped(second), nil, "the length of round 1 does not match its checksum"},
		{"other file", []byte("something else"), nil, "the file is not a round journal"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rounds, err := readJournal(test.data)
			if test.cause != "" {
				if err == nil || err.Error() != test.cause {
					t.Errorf("readJournal error = %v; want %q", err, test.cause)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, round := range rounds {
				got = append(got, string(round))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rounds mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

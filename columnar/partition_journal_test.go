// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadJournalTellsAnIncompleteEndFromDamage(t *testing.T) {
	files := newMemoryFileSystem(1)
	partition := newPartitionFiles(files, "state", 0)
	for _, round := range []string{"one", "two", "three"} {
		if err := partition.appendRound(1, []byte(round)); err != nil {
			t.Fatal(err)
		}
	}
	written, err := files.Read("state/partition-0-0-1-0.journal")
	if err != nil {
		t.Fatal(err)
	}
	flipped := func(at int) []byte {
		data := bytes.Clone(written)
		data[at] ^= 4
		return data
	}
	second := len(journalMagic) + journalFrame + len("one")
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
		{"round in the middle garbled", flipped(second + journalFrame), nil, "round 1 does not match its checksum"},
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

func TestReadContainerRefusesWhatItCannotTrust(t *testing.T) {
	tests := []struct{ data, cause string }{
		{"", "truncated snapshot"},
		{"00000001", "truncated snapshot"},
		{"0000000200000000", "unsupported state snapshot version"},
		{"00000001ffffffff", "truncated snapshot"},
		{"000000010000000100000001", "truncated snapshot"},
		{"0000000100000001ffffffff00000000", "truncated snapshot"},
		{"00000001000000010000000161000000ff", "truncated snapshot"},
		{"000000010000000000", "trailing bytes in state snapshot"},
		{"0000000100000002000000016100000000000000016100000000", `node "a" is in the state snapshot twice`},
	}
	for _, test := range tests {
		state, err := readContainer(unhex(t, test.data))
		if err == nil || !strings.Contains(err.Error(), test.cause) {
			t.Errorf("readContainer(%s) = %v, %v; want %q", test.data, state, err, test.cause)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func exampleRound(number int64) *Round {
	advance := int64(-77)
	return &Round{
		Number: number, Transactional: true,
		Ranges:   []Range{{"a", 5, 9}, {"b", 1 << 40, 1 << 40}},
		Excluded: []Range{{"a", 6, 7}},
		Advance:  &advance,
	}
}

func TestJournalRoundKeepsEverything(t *testing.T) {
	for _, want := range []*Round{exampleRound(3), {}, {Number: math.MaxInt64, Ranges: []Range{{"", 0, math.MaxInt64}}}} {
		got, err := decodeRound(want.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("round mismatch (-want +got):\n%s", diff)
		}
	}
	round := exampleRound(0)
	got := []bool{round.Excludes("a", 5), round.Excludes("a", 6), round.Excludes("a", 7), round.Excludes("b", 6)}
	if diff := cmp.Diff([]bool{false, true, false, false}, got); diff != "" {
		t.Errorf("excluded offsets mismatch (-want +got):\n%s", diff)
	}
}

func TestJournalRoundRefusesWhatItCannotTrust(t *testing.T) {
	good := exampleRound(3).Encode()
	tests := []struct {
		name, cause string
		data        []byte
	}{
		{"nothing", "truncated", nil},
		{"other version", "unsupported journal round version 9", []byte{9, 0}},
		{"cut short", "truncated", good[:len(good)-1]},
		{"too long", "trailing bytes", append(append([]byte{}, good...), 0)},
		{"count beyond the bytes", "truncated", []byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f}},
		{"text beyond the bytes", "truncated", []byte{1, 0, 0, 1, 99, 'a'}},
		{"number beyond 63 bits", "truncated", []byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0}},
		{"offsets that overflow", "overflow", []byte{1, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 0}},
	}
	for _, test := range tests {
		if round, err := decodeRound(test.data); err == nil || !strings.Contains(err.Error(), test.cause) {
			t.Errorf("%s: decodeRound = %+v, %v; want %q", test.name, round, err, test.cause)
		}
	}
}

func TestJournalRoundsTakeThePlaceOfFailedOnes(t *testing.T) {
	encode := func(numbers ...int64) [][]byte {
		var encoded [][]byte
		for i, number := range numbers {
			encoded = append(encoded, (&Round{Number: number, Ranges: []Range{{"a", int64(i), int64(i)}}}).Encode())
		}
		return encoded
	}
	tests := []struct {
		name  string
		data  [][]byte
		first int64
		want  []int64 // positions in data
		cause string
	}{
		{"in order", encode(4, 5, 6), 4, []int64{0, 1, 2}, ""},
		{"before the snapshot", encode(2, 3, 4, 5), 4, []int64{2, 3}, ""},
		{"a failed round", encode(4, 5, 5, 6), 4, []int64{0, 2, 3}, ""},
		{"several behind a restore", encode(4, 5, 6, 7, 5), 4, []int64{0, 4}, ""},
		{"nothing left", encode(1, 2), 4, nil, ""},
		{"a round is missing", encode(4, 6), 4, nil, "the journal has round 6 and not round 5"},
		{"the first is missing", encode(5), 4, nil, "the journal has round 5 and not round 4"},
		{"not a round", [][]byte{{1}}, 0, nil, "round 0 of the journal: journal round is truncated"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rounds, err := Decode(test.data, test.first)
			if test.cause != "" {
				if err == nil || err.Error() != test.cause {
					t.Errorf("Decode error = %v; want %q", err, test.cause)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, round := range rounds {
				got = append(got, round.Ranges[0].Start)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rounds mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package barrierlog

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCutsAreReadBack keeps two markers of one partition apart, which only a reader of
// cuts can judge.
func TestCutsAreReadBack(t *testing.T) {
	want := Cut{
		TriggeredAt: 3, CompletedAt: 4, Status: StatusPartial,
		Markers: []Marker{{Partition{"a", 0}, 5}, {Partition{"a", 0}, 6}, {Partition{"b", 7}, 8}},
		Missing: []Partition{{"b", 9}},
	}
	key, value, err := Encode("g", 2, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeCut(value)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("DecodeCut mismatch, error %v (-want +got):\n%s", err, diff)
	}
	parsed, err := DecodeKey(key)
	if want := (Key{Kind: KindCut, Group: "g", Epoch: 2}); parsed != want || err != nil {
		t.Errorf("DecodeKey = %+v, %v; want %+v", parsed, err, want)
	}
	var format *FormatError
	for length := range value {
		if _, err := DecodeCut(value[:length]); !errors.As(err, &format) || format.Part != "cut value" {
			t.Errorf("DecodeCut of %d bytes = %v; want a FormatError of the cut value", length, err)
		}
	}
}

func TestLastEpochOfAGroup(t *testing.T) {
	value := binary.BigEndian.AppendUint16(nil, formatVersion)
	value = binary.BigEndian.AppendUint32(value, 1)
	value = append(value, 0, 1, 'a')
	value = binary.BigEndian.AppendUint64(value, 1000)
	value = binary.BigEndian.AppendUint32(value, 3)
	value = binary.BigEndian.AppendUint64(value, 41)
	if epoch, ok := LastEpoch(value); epoch != 41 || !ok {
		t.Errorf("LastEpoch = %d, %t; want 41", epoch, ok)
	}
	if _, ok := LastEpoch(value[:len(value)-1]); ok {
		t.Error("LastEpoch read a value that was cut short")
	}
}

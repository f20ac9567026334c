// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func FuzzReadContainer(f *testing.F) {
	for _, seed := range []string{
		"0000000100000000",
		"0000000100000002000000016100000001310000000162000000023232",
		"00000001000000010000000961676772656761746500000003010203",
		"000000010000000200000006636f756e74730000000200010000000777696e646f777300000000",
		"00000001ffffffff", "000000010000000100000001", "00000002",
	} {
		f.Add(unhex(f, seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		state, err := readContainer(data)
		if err != nil {
			return
		}
		var written bytes.Buffer
		if _, err := writeContainer(&written, state); err != nil {
			t.Fatal(err)
		}
		if written.Len() != len(data) {
			t.Fatalf("%d bytes read, %d written", len(data), written.Len())
		}
		again, err := readContainer(written.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(state, again); diff != "" {
			t.Errorf("round trip mismatch (-want +got):\n%s", diff)
		}
	})
}

func FuzzDecodeSidecar(f *testing.F) {
	entry := Snapshot{
		Partition: 1, Epoch: 7, Group: "audit", Sequence: 3, Generation: 2, Round: 4, Bytes: 8, Confirmed: true,
		Positions: []Position{{"a", 1, 5}}, PartitionCounts: map[string]int{"a": 2}, Layout: map[string]string{"n": "x"},
		Checksum: 77,
	}
	seed, err := encodeSidecar([]Snapshot{entry})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte("{}\ncrc32c 00000000\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := decodeSidecar(data)
		if err != nil {
			return
		}
		encoded, err := encodeSidecar(entries)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeSidecar(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) != len(entries) {
			t.Fatalf("%d entries, %d after a round trip", len(entries), len(again))
		}
		for i := range entries {
			if diff := cmp.Diff(entries[i], again[i], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("entry %d mismatch (-want +got):\n%s", i, diff)
			}
		}
	})
}

func FuzzReadJournal(f *testing.F) {
	directory := f.TempDir()
	partition := NewPartition(OS{}, directory, 0)
	for _, round := range []string{"first", "", "third"} {
		if err := partition.AppendRound(1, []byte(round)); err != nil {
			f.Fatal(err)
		}
	}
	written, err := os.ReadFile(filepath.Join(directory, "partition-0-0-1-0.journal"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(written)
	f.Add(written[:len(written)-2])
	f.Add(append(bytes.Clone(written), make([]byte, 30)...))
	f.Add([]byte(JournalMagic + "\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rounds, err := readJournal(data)
		if err != nil {
			return
		}
		size := 0
		for _, round := range rounds {
			size += JournalFrame + len(round)
		}
		if size > max(0, len(data)-len(JournalMagic)) {
			t.Errorf("%d bytes of frames in %d bytes", size, len(data))
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/statefile/crashfs"
)

// inMemory returns a store on a file system of a test's own.
func inMemory(files *crashfs.FileSystem) *FileStateStore {
	store := NewFileStateStore("state")
	store.files = files
	return store
}

func stateOf(value string) map[string][]byte {
	return map[string][]byte{"count": []byte(value)}
}

func claim(tb testing.TB, store SnapshotStore, partition int) int64 {
	tb.Helper()
	generation, err := store.Claim(tb.Context(), partition)
	if err != nil {
		tb.Fatal(err)
	}
	return generation
}

// at is a snapshot of partition 0 at a position of "in".
func at(generation, epoch, position int64) SnapshotInfo {
	return SnapshotInfo{
		Epoch: epoch, Generation: generation, TakenAt: time.UnixMilli(1724500000000), Confirmed: epoch == NoEpoch,
		Positions: map[TopicPartition]int64{{"in", 0}: position},
	}
}

func saveSnapshot(tb testing.TB, store SnapshotStore, info SnapshotInfo, value string) SnapshotInfo {
	tb.Helper()
	saved, err := store.SaveSnapshot(tb.Context(), info, stateOf(value))
	if err != nil {
		tb.Fatal(err)
	}
	return saved
}

// listed describes the snapshots of partition 0: epoch, position, marks and
// state, or what is wrong.
func listed(tb testing.TB, store SnapshotStore) []string {
	tb.Helper()
	infos, err := store.Snapshots(tb.Context(), 0)
	if err != nil {
		tb.Fatal(err)
	}
	lines := []string{}
	for _, info := range infos {
		line := fmt.Sprintf("%d@%d", info.Epoch, info.Positions[TopicPartition{"in", 0}])
		if info.Confirmed {
			line += " confirmed"
		}
		if info.Abandoned {
			line += " abandoned"
		}
		state, err := store.LoadSnapshot(tb.Context(), info)
		if err != nil {
			line += " damaged"
		} else {
			line += " " + string(state["count"])
		}
		lines = append(lines, line)
	}
	return lines
}

func TestFileStateStoreLoadsWhatWasSaved(t *testing.T) {
	store := NewFileStateStore(filepath.Join(t.TempDir(), "made", "at", "first", "save"))
	load := func(partition int, epoch int64) map[string][]byte {
		t.Helper()
		state, err := store.Load(partition, epoch)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	if got := load(3, NoEpoch); got == nil || len(got) != 0 {
		t.Errorf("Load before any save = %v; want an empty map", got)
	}
	saved := map[string][]byte{"counts": {0, 1}, "windows": nil}
	for _, epoch := range []int64{NoEpoch, 7} {
		if err := store.Save(3, epoch, saved); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string][]byte{"counts": {0, 1}, "windows": {}}, load(3, epoch)); diff != "" {
			t.Errorf("epoch %d mismatch (-want +got):\n%s", epoch, diff)
		}
	}
	for _, other := range [][2]int64{{4, NoEpoch}, {3, 8}, {2, 7}, {33, 7}} {
		if got := load(int(other[0]), other[1]); len(got) != 0 {
			t.Errorf("Load(%d, %d) = %v; want nothing", other[0], other[1], got)
		}
	}
}

func TestFileStateStoreWritesTheSharedContainerUnderTheDocumentedNames(t *testing.T) {
	directory := t.TempDir()
	store := NewFileStateStore(directory)
	if err := store.Save(3, NoEpoch, map[string][]byte{"b": []byte("22"), "a": []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if err := store.Save(3, 7, map[string][]byte{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"partition-3.snapshot":         "0000000100000002000000016100000001310000000162000000023232",
		"partition-3-epoch-7.snapshot": "0000000100000000",
	} {
		got, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(unhex(t, want), got); diff != "" {
			t.Errorf("%s mismatch (-want +got):\n%s", name, diff)
		}
	}
	leftovers, err := filepath.Glob(filepath.Join(directory, "*.tmp"))
	if err != nil || len(leftovers) > 0 {
		t.Errorf("temporary files left: %v, %v", leftovers, err)
	}
}

func TestFileStateStoreLoadsAContainerThatAnotherImplementationWrote(t *testing.T) {
	directory := t.TempDir()
	golden := unhex(t, "000000010000000100000007636f756e746572000000080000000000000002")
	if err := os.WriteFile(filepath.Join(directory, "partition-0-epoch-5.snapshot"), golden, 0o600); err != nil {
		t.Fatal(err)
	}
	store := NewFileStateStore(directory)
	want := map[string][]byte{"counter": {0, 0, 0, 0, 0, 0, 0, 2}}
	state, err := store.Load(0, 5)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, state); diff != "" {
		t.Errorf("Load mismatch (-want +got):\n%s", diff)
	}
	infos, err := store.Snapshots(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]SnapshotInfo{{Epoch: 5, Bytes: 31, TakenAt: time.UnixMilli(0)}}, infos); diff != "" {
		t.Errorf("Snapshots mismatch (-want +got):\n%s", diff)
	}
	if state, err = store.LoadSnapshot(t.Context(), infos[0]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, state); diff != "" {
		t.Errorf("LoadSnapshot mismatch (-want +got):\n%s", diff)
	}
}

func TestFileStateStoreKeepsTheWholeDescriptionOfASnapshot(t *testing.T) {
	store := NewFileStateStore(t.TempDir())
	want := SnapshotInfo{
		Partition: 2, Epoch: 9, Group: "audit", Generation: claim(t, store, 2), Round: 17,
		Positions:       map[TopicPartition]int64{{"a", 2}: 10, {"b", 2}: 1 << 60},
		PartitionCounts: map[string]int{"a": 4, "b": 4}, Layout: map[string]string{"count": "f00d"},
		TakenAt: time.UnixMilli(1724500000000),
	}
	saved, err := store.SaveSnapshot(t.Context(), want, stateOf("5"))
	if err != nil {
		t.Fatal(err)
	}
	want.Sequence, want.Bytes = 1, 8+8+5+1
	if diff := cmp.Diff(want, saved); diff != "" {
		t.Errorf("SaveSnapshot mismatch (-want +got):\n%s", diff)
	}
	if err := store.ConfirmSnapshot(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	want.Confirmed = true
	infos, err := NewFileStateStore(store.directory).Snapshots(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]SnapshotInfo{want}, infos); diff != "" {
		t.Errorf("Snapshots mismatch (-want +got):\n%s", diff)
	}
}

func TestFileStateStoreDetectsDamageAndStillHasTheSnapshotBefore(t *testing.T) {
	flip := func(data []byte) []byte {
		data[len(data)-1] ^= 1
		return data
	}
	tests := []struct {
		name   string
		file   string // of epoch 7
		damage func([]byte) []byte
		cause  string
	}{
		{"flipped byte", ".snapshot", flip, "the bytes do not match the checksum in the sidecar"},
		{"emptied file", ".snapshot", func([]byte) []byte { return nil }, "the bytes are not those that the sidecar announces"},
		{"absurd count", ".snapshot", func(data []byte) []byte {
			return append(data[:4], append([]byte{0xff, 0xff, 0xff, 0xff}, data[8:]...)...)
		}, "truncated snapshot"},
		{"other version", ".snapshot", func(data []byte) []byte { data[3] = 2; return data }, "unsupported state snapshot version"},
		{"other snapshot of the same length", ".snapshot", func([]byte) []byte {
			return unhex(t, "00000001000000010000000563006e740000000001ff")
		}, ""},
		{"flipped byte in the sidecar", ".snapshot.meta", func(data []byte) []byte { data[5] ^= 1; return data }, "sidecar does not match its checksum"},
		{"emptied sidecar", ".snapshot.meta", func([]byte) []byte { return nil }, "sidecar is truncated"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			directory := t.TempDir()
			store := NewFileStateStore(directory)
			generation := claim(t, store, 0)
			for epoch := int64(5); epoch <= 7; epoch++ {
				saveSnapshot(t, store, at(generation, epoch, epoch*10), fmt.Sprint(epoch))
			}
			path := filepath.Join(directory, "partition-0-epoch-7"+test.file)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, test.damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = store.Load(0, 7)
			var damaged *DamagedSnapshotError
			if !errors.As(err, &damaged) || damaged.Epoch != 7 || damaged.Name != filepath.Base(path) {
				t.Errorf("Load(0, 7) error = %v; want a *DamagedSnapshotError that names %s", err, filepath.Base(path))
			}
			lines := listed(t, store)
			slices.SortFunc(lines, func(a, b string) int { return strings.Compare(b, a) })
			want := []string{"7@70 damaged", "6@60 6", "5@50 5"}
			if strings.HasPrefix(lines[0], "7@0") {
				want[0] = "7@0 damaged"
			}
			if diff := cmp.Diff(want, lines); diff != "" {
				t.Errorf("snapshots mismatch (-want +got):\n%s", diff)
			}
			infos, err := store.Snapshots(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(infos, func(info SnapshotInfo) bool { return info.Epoch == 7 })
			if _, err := store.LoadSnapshot(t.Context(), infos[at]); err == nil || !strings.Contains(err.Error(), test.cause) {
				t.Errorf("LoadSnapshot error = %v; want %q", err, test.cause)
			}
		})
	}
}

func TestFileStateStoreDetectsTheFilesOfAnotherPartition(t *testing.T) {
	for _, names := range [][]string{{".snapshot"}, {".snapshot", ".snapshot.meta"}} {
		directory := t.TempDir()
		store := NewFileStateStore(directory)
		for partition := range 2 {
			info := at(claim(t, store, partition), 7, 70)
			info.Partition = partition
			saveSnapshot(t, store, info, fmt.Sprint(partition))
		}
		for _, name := range names {
			if err := os.Rename(filepath.Join(directory, "partition-1-epoch-7"+name), filepath.Join(directory, "partition-0-epoch-7"+name)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := store.Load(0, 7)
		var damaged *DamagedSnapshotError
		if !errors.As(err, &damaged) {
			t.Errorf("with %v of partition 1 in place: Load(0, 7) error = %v; want a *DamagedSnapshotError", names, err)
		}
	}
}

func TestFileStateStoreKeepsThePreviousSnapshotOutsideBarriers(t *testing.T) {
	directory := t.TempDir()
	store := NewFileStateStore(directory)
	generation := claim(t, store, 0)
	for i := range int64(3) {
		saveSnapshot(t, store, at(generation, NoEpoch, i), fmt.Sprint(i))
	}
	if diff := cmp.Diff([]string{"-1@2 confirmed 2", "-1@1 confirmed 1"}, listed(t, store)); diff != "" {
		t.Errorf("snapshots mismatch (-want +got):\n%s", diff)
	}
	for _, name := range []string{"partition-0.snapshot", "partition-0.snapshot.meta"} {
		if err := os.Truncate(filepath.Join(directory, name), 0); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"-1@1 confirmed 1", "-1@0 damaged"}, listed(t, NewFileStateStore(directory))); diff != "" {
			t.Errorf("snapshots with %s emptied mismatch (-want +got):\n%s", name, diff)
		}
	}
	// A save over a damaged snapshot leaves the good one before it in place.
	saveSnapshot(t, store, at(generation, NoEpoch, 9), "9")
	if diff := cmp.Diff([]string{"-1@9 confirmed 9", "-1@1 confirmed 1"}, listed(t, store)); diff != "" {
		t.Errorf("snapshots after another save mismatch (-want +got):\n%s", diff)
	}
}

func TestFileStateStoreRefusesAnOlderOwner(t *testing.T) {
	directory := t.TempDir()
	first, second := NewFileStateStore(directory), NewFileStateStore(directory)
	old := claim(t, first, 0)
	saveSnapshot(t, first, at(old, NoEpoch, 100), "100")
	current := claim(t, second, 0)
	saveSnapshot(t, second, at(current, NoEpoch, 150), "150")
	epoch := saveSnapshot(t, second, at(current, 7, 140), "140")

	refused := map[string]error{}
	_, refused["save"] = first.SaveSnapshot(t.Context(), at(old, NoEpoch, 100), stateOf("100"))
	_, refused["save of an epoch"] = first.SaveSnapshot(t.Context(), at(old, 7, 100), stateOf("100"))
	refused["round"] = first.AppendRound(t.Context(), 0, old, []byte("round"))
	refused["abandon"] = first.Abandon(t.Context(), 0, old, 0)
	epoch.Generation = old
	refused["confirm"] = first.ConfirmSnapshot(t.Context(), epoch)
	want := StaleOwnerError{Partition: 0, Generation: old, Current: current}
	for what, err := range refused {
		var stale *StaleOwnerError
		if !errors.As(err, &stale) || *stale != want {
			t.Errorf("%s of the old owner: %v; want %v", what, err, &want)
		}
	}
	if diff := cmp.Diff([]string{"7@140 140", "-1@150 confirmed 150", "-1@100 confirmed 100"}, listed(t, first)); diff != "" {
		t.Errorf("snapshots mismatch (-want +got):\n%s", diff)
	}
}

func TestFileStateStoreClaimsAboveEveryGenerationBefore(t *testing.T) {
	directory := t.TempDir()
	store := NewFileStateStore(directory)
	for range 3 {
		claim(t, store, 0)
	}
	saveSnapshot(t, store, at(3, NoEpoch, 1), "1")
	if err := os.WriteFile(filepath.Join(directory, "partition-0.owner"), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.SaveSnapshot(t.Context(), at(3, NoEpoch, 1), stateOf("1")); err == nil || !strings.Contains(err.Error(), "partition-0.owner: not a generation") {
		t.Errorf("SaveSnapshot with a damaged owner file = %v", err)
	}
	if got := claim(t, NewFileStateStore(directory), 0); got != 4 {
		t.Errorf("generation = %d; want 4", got)
	}
}

func TestFileStateStoreRetainsTheNewestEpochs(t *testing.T) {
	directory := t.TempDir()
	store, err := OpenFileStateStore(directory, WithRetainedEpochs(2))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	generation := claim(t, store, 0)
	for epoch := int64(1); epoch <= 4; epoch++ {
		saved := saveSnapshot(t, store, at(generation, epoch, epoch), fmt.Sprint(epoch))
		if err := store.ConfirmSnapshot(t.Context(), saved); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"4@4 confirmed 4", "3@3 confirmed 3"}, listed(t, store)); diff != "" {
		t.Errorf("snapshots mismatch (-want +got):\n%s", diff)
	}
	// Unconfirmed snapshots do not push the newest confirmed one out.
	for epoch := int64(5); epoch <= 8; epoch++ {
		saveSnapshot(t, store, at(generation, epoch, epoch), fmt.Sprint(epoch))
	}
	partition := store.partitions[0]
	if err := partition.Exclusive(t.Context(), func() error { return partition.Retain(2) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"8@8 8", "7@7 7", "4@4 confirmed 4"}, listed(t, store)); diff != "" {
		t.Errorf("snapshots mismatch (-want +got):\n%s", diff)
	}
	files, err := filepath.Glob(filepath.Join(directory, "*epoch*"))
	if err != nil || len(files) != 6 {
		t.Errorf("%d files of epochs: %v; want 3 containers with their sidecars", len(files), files)
	}
}

func TestFileStateStoreAbandonsNewerSnapshots(t *testing.T) {
	store := NewFileStateStore(t.TempDir())
	generation := claim(t, store, 0)
	kept := saveSnapshot(t, store, at(generation, 1, 10), "1")
	saveSnapshot(t, store, at(generation, NoEpoch, 20), "20")
	confirmed := saveSnapshot(t, store, at(generation, 2, 30), "2")
	if err := store.ConfirmSnapshot(t.Context(), confirmed); err != nil {
		t.Fatal(err)
	}
	saveSnapshot(t, store, at(generation, 3, 40), "3")
	if err := store.Abandon(t.Context(), 0, generation, kept.Sequence); err != nil {
		t.Fatal(err)
	}
	want := []string{"2@30 confirmed abandoned 2", "1@10 1"}
	if diff := cmp.Diff(want, listed(t, store)); diff != "" {
		t.Errorf("snapshots mismatch (-want +got):\n%s", diff)
	}
	if got := saveSnapshot(t, store, at(generation, NoEpoch, 15), "15").Sequence; got <= confirmed.Sequence {
		t.Errorf("sequence after the abandoned ones = %d; want above %d", got, confirmed.Sequence)
	}
}

func TestFileStateStoreRemovesTemporaryFilesAtAClaim(t *testing.T) {
	directory := t.TempDir()
	for _, name := range []string{"partition-1-5-1.tmp", "partition-11-5-1.tmp"} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	claim(t, NewFileStateStore(directory), 1)
	left, err := filepath.Glob(filepath.Join(directory, "*.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(directory, "partition-11-5-1.tmp")}, left); diff != "" {
		t.Errorf("temporary files mismatch (-want +got):\n%s", diff)
	}
}

func TestFileStateStoreOptions(t *testing.T) {
	directory := t.TempDir()
	store, err := OpenFileStateStore(directory, WithStateGroup("../a/b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Save(0, NoEpoch, stateOf("1")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(directory, ".._a_b", "partition-0.snapshot")); err != nil {
		t.Errorf("the group's directory: %v", err)
	}
	if got := directoryName(".."); got != "_.." {
		t.Errorf("directory of group %q = %q; want %q", "..", got, "_..")
	}
	_, err = OpenFileStateStore("", WithRetainedEpochs(0), nil)
	want := "columnar: a file state store needs a directory\ncolumnar: file state store option 1 is nil\ncolumnar: 0 retained epochs; at least one is needed"
	if err == nil || err.Error() != want {
		t.Errorf("OpenFileStateStore error = %v; want %q", err, want)
	}
}

// A name is one member's at a time, in this process and in others; members of other
// names share the directory, and those of another group do not.
func TestFileStateStoreKeepsMembersApart(t *testing.T) {
	if directory := os.Getenv("COLUMNAR_TEST_STATE_DIRECTORY"); directory != "" {
		_, err := NewFileStateStore(directory).ClaimMember(t.Context(), "g", []string{`transactional id "b"`, `transactional id "a"`})
		fmt.Println("second process:", err)
		return
	}
	directory := t.TempDir()
	first, err := NewFileStateStore(directory).ClaimMember(t.Context(), "g", []string{`transactional id "a"`})
	if err != nil {
		t.Fatal(err)
	}
	other := NewFileStateStore(directory)
	const refused = "columnar: another runner goes by the transactional id \"a\", with its state in %s: end that one, or give this one names of its own"
	if _, err := other.ClaimMember(t.Context(), "g", []string{`transactional id "a"`}); err == nil || err.Error() != fmt.Sprintf(refused, directory) {
		t.Errorf("the same name in one process: %v", err)
	}
	second, err := other.ClaimMember(t.Context(), "g", []string{`transactional id "c"`})
	if err != nil {
		t.Errorf("another name: %v", err)
	}
	want := fmt.Sprintf("columnar: the state in %s is that of group \"g\": give group \"h\" a store of its own, as WithStateGroup does", directory)
	if _, err := other.ClaimMember(t.Context(), "h", []string{`transactional id "d"`}); err == nil || err.Error() != want {
		t.Errorf("another group: %v; want %s", err, want)
	}
	inAnotherProcess := func() string {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		command.Env = append(os.Environ(), "COLUMNAR_TEST_STATE_DIRECTORY="+directory)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return string(output)
	}
	if got, want := inAnotherProcess(), "second process: "+fmt.Sprintf(refused, directory); !strings.Contains(got, want) {
		t.Errorf("output %q; want %q", got, want)
	}
	// What a refused claim had taken is free.
	third, err := other.ClaimMember(t.Context(), "g", []string{`transactional id "b"`})
	if err != nil {
		t.Errorf("the name that a refused claim had taken: %v", err)
	}
	for _, claim := range []io.Closer{first, second, third} {
		if err := claim.Close(); err != nil {
			t.Error(err)
		}
	}
	if got, want := inAnotherProcess(), "second process: <nil>"; !strings.Contains(got, want) {
		t.Errorf("output after Close %q; want %q", got, want)
	}
}

func TestFileStateStoreJournalReturnsRoundsSinceASnapshot(t *testing.T) {
	store := NewFileStateStore(t.TempDir())
	generation := claim(t, store, 0)
	append1 := func(round string) {
		t.Helper()
		if err := store.AppendRound(t.Context(), 0, generation, []byte(round)); err != nil {
			t.Fatal(err)
		}
	}
	since := func(store JournalStore, sequence int64) string {
		t.Helper()
		rounds, err := store.Rounds(t.Context(), 0, sequence)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, round := range rounds {
			text += string(round) + " "
		}
		return text
	}
	append1("a")
	first := saveSnapshot(t, store, at(generation, 1, 1), "1")
	append1("b")
	append1("c")
	second := saveSnapshot(t, store, at(generation, 2, 2), "2")
	generation = claim(t, store, 0)
	append1("d")
	again := NewFileStateStore(store.directory)
	got := []string{since(again, 0), since(again, first.Sequence), since(again, second.Sequence)}
	if diff := cmp.Diff([]string{"a b c d ", "b c d ", "d "}, got); diff != "" {
		t.Errorf("rounds mismatch (-want +got):\n%s", diff)
	}
	// Two later snapshots outside barriers leave no snapshot that would need the
	// rounds before the older of them; barrier snapshots keep theirs.
	saveSnapshot(t, store, at(generation, NoEpoch, 3), "3")
	if got := since(store, 0); got != "b c d " {
		t.Errorf("rounds after a later snapshot = %q; want those since the oldest kept", got)
	}
}

func TestFileStateStoreFailedSavesChangeNothing(t *testing.T) {
	for failing := 1; ; failing++ {
		files := crashfs.New(1)
		store := inMemory(files)
		generation := claim(t, store, 0)
		saveSnapshot(t, store, at(generation, NoEpoch, 1), "1")
		saveSnapshot(t, store, at(generation, NoEpoch, 2), "2")
		cause := errors.New("no space left")
		calls := 0
		files.Before = func(op, path string) error {
			if calls++; calls == failing && op != "remove" {
				return cause
			}
			return nil
		}
		_, err := store.SaveSnapshot(t.Context(), at(generation, NoEpoch, 3), stateOf("3"))
		files.Before = nil
		if err == nil && calls < failing {
			break
		}
		got := listed(t, store)
		if err == nil {
			got = got[1:]
		} else if !errors.Is(err, cause) {
			t.Errorf("failure %d: error %v; want %v", failing, err, cause)
		}
		if !slices.Contains(got, "-1@2 confirmed 2") || slices.ContainsFunc(got, func(line string) bool { return strings.HasSuffix(line, "damaged") }) {
			t.Errorf("failure %d: snapshots %v; want the one before the failed save", failing, got)
		}
		saveSnapshot(t, store, at(generation, NoEpoch, 4), "4")
		if got := listed(t, store)[0]; got != "-1@4 confirmed 4" {
			t.Errorf("failure %d: newest after another save %q", failing, got)
		}
	}
}

func TestFileStateStoreSurvivesPowerLossAtEveryStep(t *testing.T) {
	for seed := range uint64(8) {
		for failing := 1; ; failing++ {
			files := crashfs.New(seed)
			store := inMemory(files)
			generation := claim(t, store, 0)
			saveSnapshot(t, store, at(generation, NoEpoch, 1), "1")
			saveSnapshot(t, store, at(generation, NoEpoch, 2), "2")
			saveSnapshot(t, store, at(generation, 5, 2), "5")
			if err := store.AppendRound(t.Context(), 0, generation, []byte("a")); err != nil {
				t.Fatal(err)
			}
			calls := 0
			files.Before = func(string, string) error {
				if calls++; calls == failing {
					files.Dead = true
				}
				return nil
			}
			completed := []bool{
				store.AppendRound(t.Context(), 0, generation, []byte("b")) == nil,
				saved(store.SaveSnapshot(t.Context(), at(generation, NoEpoch, 3), stateOf("3"))),
				saved(store.SaveSnapshot(t.Context(), at(generation, 5, 3), stateOf("55"))),
			}
			files.Before = nil
			if !files.Dead {
				break
			}
			files.Restart(true)
			store = inMemory(files)
			where := fmt.Sprintf("seed %d, power lost at change %d", seed, failing)
			rounds, err := store.Rounds(t.Context(), 0, 0)
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			if len(rounds) < 1 || (completed[0] && len(rounds) < 2) {
				t.Errorf("%s: rounds %q; appended ones are lost", where, rounds)
			}
			claim(t, store, 0)
			lines := listed(t, store)
			// A save that did not return may have taken effect.
			newest := slices.Contains(lines, "-1@3 confirmed 3") || (!completed[1] && slices.Contains(lines, "-1@2 confirmed 2"))
			epoch := slices.Contains(lines, "5@3 55") || (!completed[2] && slices.Contains(lines, "5@2 5"))
			if !newest || !epoch {
				t.Errorf("%s: snapshots %v with saves completed %v", where, lines, completed)
			}
			for _, line := range lines {
				if strings.HasSuffix(line, "damaged") {
					t.Errorf("%s: %s", where, line)
				}
			}
		}
	}
}

func saved(_ SnapshotInfo, err error) bool { return err == nil }

func TestFileStateStoreIsSafeForConcurrentUse(t *testing.T) {
	store := NewFileStateStore(t.TempDir())
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 10 {
				if err := store.Save(0, NoEpoch, stateOf(strings.Repeat(fmt.Sprint(worker), i+1))); err != nil {
					t.Error(err)
				}
				state, err := store.Load(0, NoEpoch)
				if err != nil || len(state["count"]) == 0 {
					t.Errorf("Load beside saves = %v, %v", state, err)
				}
			}
		})
	}
	group.Wait()
}

func TestFileStateStoreEndsWithTheContext(t *testing.T) {
	files := crashfs.New(1)
	store := inMemory(files)
	if lock, err := files.TryLock(filepath.Join("state", "partition-0.lock")); lock == nil || err != nil {
		t.Fatalf("TryLock = %v, %v", lock, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Claim(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Claim of a locked partition = %v; want %v", err, context.Canceled)
	}
	if _, err := store.Claim(t.Context(), -1); err == nil || !strings.Contains(err.Error(), "partition number -1 is negative") {
		t.Errorf("Claim of partition -1 = %v", err)
	}
}

func TestNoStateStoreKeepsNothing(t *testing.T) {
	store := NoStateStore()
	if err := store.Save(0, NoEpoch, stateOf("1")); err != nil {
		t.Fatal(err)
	}
	state, err := store.Load(0, NoEpoch)
	if state == nil || len(state) != 0 || err != nil {
		t.Errorf("Load = %v, %v; want an empty map", state, err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
)

func filledJoin(t *testing.T, spec Spec) *State {
	t.Helper()
	mem := arrowtest.NewAllocator(t)
	join := New(spec, mem)
	left := arrowtest.JSONBatch(t, mem, eventSchema, `{"user":"a","amount":1,"__timestamp":1}`, `{"user":"b","amount":2,"__timestamp":50}`)
	right := arrowtest.JSONBatch(t, mem, eventSchema, `{"user":"c","amount":3,"__timestamp":40}`)
	if _, err := join.Process([]arrow.RecordBatch{left}, []arrow.RecordBatch{right}); err != nil {
		t.Fatal(err)
	}
	join.Commit()
	return join
}

func TestJoinSnapshotHoldsLiveRowsOnly(t *testing.T) {
	spec := byUser(10 * time.Millisecond)
	join := filledJoin(t, spec)
	restored := New(spec, arrowtest.NewAllocator(t))
	if err := restored.Restore(must[[]byte](t)(join.Snapshot())); err != nil {
		t.Fatal(err)
	}
	got := []int{len(restored.sides[0].rows), len(restored.sides[1].rows), restored.keys.table.Groups}
	if diff := cmp.Diff([]int{1, 1, 2}, got); diff != "" {
		t.Errorf("rows left, right, keys mismatch (-want +got):\n%s", diff)
	}
	if restored.sides[0].time != 50 || restored.sides[1].time != 40 {
		t.Errorf("times = %d, %d, want 50, 40", restored.sides[0].time, restored.sides[1].time)
	}
	if err := restored.Rollback(); err != nil || len(restored.sides[0].rows) != 0 {
		t.Errorf("rollback of the restore = %v, %d left rows, want none", err, len(restored.sides[0].rows))
	}
}

func TestJoinRestoreIsAllOrNothing(t *testing.T) {
	spec := byUser(10 * time.Millisecond)
	join := filledJoin(t, spec)
	snapshot := must[[]byte](t)(join.Snapshot())
	for length := range len(snapshot) {
		if err := join.Restore(snapshot[:length]); err == nil {
			t.Errorf("a snapshot cut to %d bytes was restored", length)
		}
	}
	for at := range len(snapshot) {
		damaged := append([]byte{}, snapshot...)
		damaged[at] ^= 4
		if err := join.Restore(damaged); err == nil {
			t.Errorf("a snapshot with a flipped bit at %d was restored", at)
		}
	}
	if again := must[[]byte](t)(join.Snapshot()); !cmp.Equal(snapshot, again) {
		t.Error("failed restores changed the state")
	}
}

func TestJoinRestoreRefusesOtherConfigurations(t *testing.T) {
	spec := byUser(10 * time.Millisecond)
	snapshot := must[[]byte](t)(filledJoin(t, spec).Snapshot())
	for name, change := range map[string]func(*Spec){
		"left key":     func(j *Spec) { j.LeftKey = "amount" },
		"right key":    func(j *Spec) { j.RightKey = "amount" },
		"window":       func(j *Spec) { j.Window = time.Second },
		"left prefix":  func(j *Spec) { j.LeftPrefix = "l_" },
		"right prefix": func(j *Spec) { j.RightPrefix = "r_" },
	} {
		other := spec
		change(&other)
		var mismatch *keytable.StateLayoutError
		if err := New(other, arrowtest.NewAllocator(t)).Restore(snapshot); !errors.As(err, &mismatch) || mismatch.Saved != spec.Layout() {
			t.Errorf("%s: error = %v, want a StateLayoutError", name, err)
		}
	}
	limited := spec
	limited.MaxRows = 1
	if err := New(limited, arrowtest.NewAllocator(t)).Restore(snapshot); err != nil {
		t.Errorf("restore within the limit = %v", err)
	}
	wide := byUser(time.Hour)
	full := must[[]byte](t)(filledJoin(t, wide).Snapshot())
	wide.MaxRows = 1
	var limit *keytable.StateLimitError
	if err := New(wide, arrowtest.NewAllocator(t)).Restore(full); !errors.As(err, &limit) || limit.Limit != 1 {
		t.Errorf("restore beyond the limit = %v, want a StateLimitError", err)
	}
}

func TestJoinRestoreChecksItsInput(t *testing.T) {
	spec := byUser(10 * time.Millisecond)
	good := must[[]byte](t)(filledJoin(t, spec).Snapshot())
	body := good[:len(good)-4]
	for name, test := range map[string]struct {
		snapshot []byte
		want     string
	}{
		"empty":            {nil, "unsupported join snapshot version"},
		"earlier version":  {[]byte{0, 0, 0, 1}, "unsupported join snapshot version"},
		"unknown version":  {[]byte{0, 0, 0, 9}, "unsupported join snapshot version"},
		"truncated":        {sealed(body[:len(body)-1]), "cannot restore join state: right side: "},
		"trailing bytes":   {sealed(append(bytes.Clone(body), 0)), "trailing bytes in join snapshot"},
		"without checksum": {body, "cannot restore join state: checksum does not match"},
	} {
		join := New(spec, arrowtest.NewAllocator(t))
		if err := join.Restore(test.snapshot); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want %q", name, err, test.want)
		}
	}
}

// TestSnapshotBytes pins the stored form: snapshots outlive versions of the
// library.
func TestSnapshotBytes(t *testing.T) {
	join := must[[]byte](t)(filledJoin(t, byUser(20*time.Millisecond)).Snapshot())
	if got, want := fmt.Sprintf("%d bytes, %x", len(join), sha256.Sum256(join)), "1171 bytes, f3088808a09ba0423f79d7e5a956264672ee98ae2e9f796fff65a4fee4024c38"; got != want {
		t.Errorf("snapshot of a join of %s; want %s", got, want)
	}
}

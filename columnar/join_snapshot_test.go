// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

func filledJoin(t *testing.T, spec Join) *joinState {
	t.Helper()
	mem := newAllocator(t)
	join := newJoinState(spec, mem)
	left := arrowtest.JSONBatch(t, mem, eventSchema, `{"user":"a","amount":1,"__timestamp":1}`, `{"user":"b","amount":2,"__timestamp":50}`)
	right := arrowtest.JSONBatch(t, mem, eventSchema, `{"user":"c","amount":3,"__timestamp":40}`)
	if _, err := join.process([]flow{{batch: left}}, []flow{{batch: right}}); err != nil {
		t.Fatal(err)
	}
	join.commit()
	return join
}

func TestJoinSnapshotHoldsLiveRowsOnly(t *testing.T) {
	spec := byUser(10 * time.Millisecond)
	join := filledJoin(t, spec)
	restored := newJoinState(spec, newAllocator(t))
	if err := restored.restore(must[[]byte](t)(join.snapshot())); err != nil {
		t.Fatal(err)
	}
	got := []int{len(restored.sides[0].rows), len(restored.sides[1].rows), restored.keys.table.Groups}
	if diff := cmp.Diff([]int{1, 1, 2}, got); diff != "" {
		t.Errorf("rows left, right, keys mismatch (-want +got):\n%s", diff)
	}
	if restored.sides[0].time != 50 || restored.sides[1].time != 40 {
		t.Errorf("times = %d, %d, want 50, 40", restored.sides[0].time, restored.sides[1].time)
	}
	if err := restored.rollback(); err != nil || len(restored.sides[0].rows) != 0 {
		t.Errorf("rollback of the restore = %v, %d left rows, want none", err, len(restored.sides[0].rows))
	}
}

func TestJoinRestoreIsAllOrNothing(t *testing.T) {
	spec := byUser(10 * time.Millisecond)
	join := filledJoin(t, spec)
	snapshot := must[[]byte](t)(join.snapshot())
	for length := range len(snapshot) {
		if err := join.restore(snapshot[:length]); err == nil {
			t.Errorf("a snapshot cut to %d bytes was restored", length)
		}
	}
	for at := range len(snapshot) {
		damaged := append([]byte{}, snapshot...)
		damaged[at] ^= 4
		if err := join.restore(damaged); err == nil {
			t.Errorf("a snapshot with a flipped bit at %d was restored", at)
		}
	}
	if again := must[[]byte](t)(join.snapshot()); !cmp.Equal(snapshot, again) {
		t.Error("failed restores changed the state")
	}
}

func TestJoinRestoreRefusesOtherConfigurations(t *testing.T) {
	spec := byUser(10 * time.Millisecond)
	snapshot := must[[]byte](t)(filledJoin(t, spec).snapshot())
	for name, change := range map[string]func(*Join){
		"left key":     func(j *Join) { j.LeftKey = "amount" },
		"right key":    func(j *Join) { j.RightKey = "amount" },
		"window":       func(j *Join) { j.Window = time.Second },
		"left prefix":  func(j *Join) { j.LeftPrefix = "l_" },
		"right prefix": func(j *Join) { j.RightPrefix = "r_" },
	} {
		other := spec
		change(&other)
		var mismatch *StateLayoutError
		if err := newJoinState(other, newAllocator(t)).restore(snapshot); !errors.As(err, &mismatch) || mismatch.Saved != spec.layout() {
			t.Errorf("%s: error = %v, want a StateLayoutError", name, err)
		}
	}
	limited := spec
	limited.MaxRows = 1
	if err := newJoinState(limited, newAllocator(t)).restore(snapshot); err != nil {
		t.Errorf("restore within the limit = %v", err)
	}
	wide := byUser(time.Hour)
	full := must[[]byte](t)(filledJoin(t, wide).snapshot())
	wide.MaxRows = 1
	var limit *StateLimitError
	if err := newJoinState(wide, newAllocator(t)).restore(full); !errors.As(err, &limit) || limit.Limit != 1 {
		t.Errorf("restore beyond the limit = %v, want a StateLimitError", err)
	}
}

func TestJoinRestoreChecksItsInput(t *testing.T) {
	spec := byUser(10 * time.Millisecond)
	good := must[[]byte](t)(filledJoin(t, spec).snapshot())
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
		join := newJoinState(spec, newAllocator(t))
		if err := join.restore(test.snapshot); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want %q", name, err, test.want)
		}
	}
}

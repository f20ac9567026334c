// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/binary"
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
	got := []int{len(restored.sides[0].rows), len(restored.sides[1].rows), restored.keys.table.groups}
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

// joinVersion1 writes a snapshot of version 1 with one batch a side.
func joinVersion1(t *testing.T, left, right string) []byte {
	t.Helper()
	data := binary.BigEndian.AppendUint32(nil, joinSnapshotVersion1)
	data = binary.BigEndian.AppendUint64(data, 5)
	for _, row := range []string{left, right} {
		if row == "" {
			data = binary.BigEndian.AppendUint32(data, 0)
			continue
		}
		stream := must[[]byte](t)(NewIPCSerde(stateMemory).Serialize("", arrowtest.JSONBatch(t, newAllocator(t), eventSchema, row)))
		data = binary.BigEndian.AppendUint32(data, 1)
		data = binary.BigEndian.AppendUint64(data, 5)
		data = binary.BigEndian.AppendUint32(data, uint32(len(stream)))
		data = append(data, stream...)
	}
	return data
}

func TestJoinVersion1IsRead(t *testing.T) {
	mem := newAllocator(t)
	join := newJoinState(byUser(10*time.Millisecond), mem)
	if err := join.restore(joinVersion1(t, `{"user":"a","amount":1,"__timestamp":5}`, `{"user":"b","amount":2,"__timestamp":4}`)); err != nil {
		t.Fatal(err)
	}
	join.commit()
	got := joinedPairs(t, join, [2][]modelRow{{{"b", 7, 6}}, {{"a", 8, 6}}})
	if diff := cmp.Diff([]string{"b 7 b 2", "a 1 a 8"}, got); diff != "" {
		t.Errorf("pairs mismatch (-want +got):\n%s", diff)
	}
}

func TestJoinVersion1IsChecked(t *testing.T) {
	good := joinVersion1(t, `{"user":"a","amount":1,"__timestamp":5}`, "")
	huge := append([]byte{}, good...)
	binary.BigEndian.PutUint32(huge[12:], 1<<31)
	long := append([]byte{}, good...)
	binary.BigEndian.PutUint32(long[24:], 1<<31)
	for name, test := range map[string]struct {
		snapshot []byte
		want     string
	}{
		"empty":            {nil, "unsupported join snapshot version"},
		"unknown version":  {[]byte{0, 0, 0, 9}, "unsupported join snapshot version"},
		"truncated":        {good[:len(good)-1], "cannot restore join state: truncated snapshot"},
		"trailing bytes":   {append(append([]byte{}, good...), 0), "trailing bytes in join snapshot"},
		"count of batches": {huge, "cannot restore join state: truncated snapshot"},
		"length of batch":  {long, "cannot restore join state: truncated snapshot"},
		"null time":        {joinVersion1(t, `{"user":"a"}`, ""), "event timestamp is null"},
	} {
		join := newJoinState(byUser(time.Second), newAllocator(t))
		if err := join.restore(test.snapshot); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want %q", name, err, test.want)
		}
	}
}

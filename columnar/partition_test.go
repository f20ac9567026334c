// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"
)

func inputOf(records []ConsumedRecord) map[string][]ConsumedRecord {
	return map[string][]ConsumedRecord{"in": records}
}

func snapshotText(tb testing.TB, built *BuiltTopology, partition int) map[string]string {
	tb.Helper()
	snapshot := must[map[string][]byte](tb)(built.SnapshotPartition(partition))
	texts := make(map[string]string, len(snapshot))
	for name, bytes := range snapshot {
		texts[name] = string(bytes)
	}
	return texts
}

func TestPendingRunsCommitAndRollBackTogether(t *testing.T) {
	for name, newState := range map[string]func() (StatefulProcessor, *tally){
		"by snapshot": func() (StatefulProcessor, *tally) { p := &tally{failAt: 7}; return p, p },
		"by undo": func() (StatefulProcessor, *tally) {
			p := &reversibleTally{tally: tally{failAt: 7}}
			return p, &p.tally
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := newAllocator(t)
			var state *tally
			built := chain(t, mem, func() Processor {
				var processor Processor
				processor, state = newState()
				return processor
			})
			run := func(rows int) error {
				_, err := built.runPartition(0, inputOf(amounts(0, make([]string, rows)...)))
				return err
			}
			steps := []struct {
				do   func() error
				want int64 // rows afterwards
			}{
				{func() error { return run(2) }, 2},
				{func() error { return run(1) }, 3},
				{func() error { built.commitPartition(0); return nil }, 3},
				{func() error { return run(1) }, 4},
				{func() error { return run(1) }, 5},
				{func() error { return built.rollbackPartition(0) }, 3},
				{func() error { return built.rollbackPartition(0) }, 3},
				{func() error { return run(2) }, 5},
				{func() error { built.commitPartition(0); return nil }, 5},
				{func() error { return built.rollbackPartition(0) }, 5},
			}
			for i, step := range steps {
				if err := step.do(); err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				if state.rows != step.want {
					t.Fatalf("step %d: rows = %d, want %d", i, state.rows, step.want)
				}
			}
			if err := run(2); !errors.Is(err, errTally) {
				t.Fatalf("error = %v, want errTally", err)
			}
			if err := run(1); err == nil || !strings.Contains(err.Error(), "a failed run was not rolled back") {
				t.Errorf("error = %v, want the failed run to be in the way", err)
			}
			built.commitPartition(0)
			if _, err := built.SnapshotPartition(0); err == nil {
				t.Error("a partition with a failed run gave a snapshot")
			}
			if err := built.rollbackPartition(0); err != nil || state.rows != 5 {
				t.Errorf("rollback: %v, rows = %d, want 5", err, state.rows)
			}
		})
	}
}

func TestProcessorWithoutUndoIsCopiedOncePerCommit(t *testing.T) {
	mem := newAllocator(t)
	state := &tally{}
	reversible := &reversibleTally{}
	built := chain(t, mem, func() Processor { return state }, func() Processor { return reversible })
	for range 3 {
		must[[]ProducedToTopic](t)(built.runPartition(0, inputOf(amounts(0, "a 1"))))
		must[[]ProducedToTopic](t)(built.runPartition(0, nil))
	}
	if state.snapshots != 1 || reversible.snapshots != 0 {
		t.Errorf("snapshots = %d and %d, want 1 and 0", state.snapshots, reversible.snapshots)
	}
	built.commitPartition(0)
	must[[]ProducedToTopic](t)(built.runPartition(0, nil))
	if state.snapshots != 1 {
		t.Errorf("snapshots = %d after a run without input, want 1", state.snapshots)
	}
	must[[]ProducedToTopic](t)(built.runPartition(0, inputOf(amounts(0, "a 1"))))
	if state.snapshots != 2 || reversible.commits != 1 {
		t.Errorf("snapshots, commits = %d, %d, want 2, 1", state.snapshots, reversible.commits)
	}
}

func TestRollbackOfANewPartitionRemovesIt(t *testing.T) {
	mem := newAllocator(t)
	built := chain(t, mem, func() Processor { return &tally{} })
	must[[]ProducedToTopic](t)(built.runPartition(4, inputOf(amounts(4, "a 1"))))
	if !built.HasPartition(4) {
		t.Fatal("the partition does not exist during its first round")
	}
	if err := built.rollbackPartition(4); err != nil {
		t.Fatal(err)
	}
	if built.HasPartition(4) {
		t.Error("the partition outlived the rollback of its first round")
	}
	if diff := cmp.Diff(map[string]string{}, snapshotText(t, built, 4)); diff != "" {
		t.Errorf("snapshot mismatch (-want +got):\n%s", diff)
	}
}

func TestRollbackFailurePoisonsThePartition(t *testing.T) {
	mem := newAllocator(t)
	state := &tally{}
	built := chain(t, mem, func() Processor { return state })
	must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "a 1")))
	must[[]ProducedToTopic](t)(built.runPartition(0, inputOf(amounts(0, "a 1"))))
	instance := built.partitions[0].nodes[1].state.(*processorState)
	instance.saved = []byte("damaged")
	if err := built.rollbackPartition(0); err == nil || !strings.Contains(err.Error(), "cannot roll back partition 0") {
		t.Errorf("rollback = %v, want an error that names the partition", err)
	}
	if _, err := built.RunBatch("in", amounts(0, "a 1")); err == nil || !strings.Contains(err.Error(), "partition 0 cannot run") {
		t.Errorf("run = %v, want the partition to refuse", err)
	}
	if err := built.RestorePartition(0, map[string][]byte{"n0": []byte("12")}); err != nil || state.rows != 12 {
		t.Errorf("RestorePartition = %v, rows %d, want 12", err, state.rows)
	}
	must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "a 1")))
}

func TestSnapshotAndRestorePartition(t *testing.T) {
	mem := newAllocator(t)
	build := func() *BuiltTopology {
		return chain(t, mem, Filter(mem, keepAll), func() Processor { return &tally{} }, newPass, func() Processor { return &reversibleTally{} })
	}
	built := build()
	must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "a 1", "a 2")))
	want := map[string]string{"n0": "", "n1": "2", "n3": "2"}
	if diff := cmp.Diff(want, snapshotText(t, built, 0)); diff != "" {
		t.Errorf("snapshot mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{}, snapshotText(t, built, 9)); diff != "" || built.HasPartition(9) {
		t.Errorf("snapshot of a partition that does not exist (-want +got), exists = %v:\n%s", built.HasPartition(9), diff)
	}

	other := build()
	if err := other.RestorePartition(0, map[string][]byte{"n1": []byte("7"), "n2": []byte("x"), "unknown": []byte("x"), "source": []byte("x")}); err != nil {
		t.Fatal(err)
	}
	want = map[string]string{"n0": "", "n1": "7", "n3": "0"}
	if diff := cmp.Diff(want, snapshotText(t, other, 0)); diff != "" {
		t.Errorf("restored snapshot mismatch (-want +got):\n%s", diff)
	}

	// n1 is restored before n3 refuses.
	err := other.RestorePartition(0, map[string][]byte{"n1": []byte("8"), "n3": []byte("x")})
	var failure *NodeError
	if !errors.As(err, &failure) || failure.Node != "n3" || failure.Partition != 0 {
		t.Errorf("error = %v, want one of n3", err)
	}
	if diff := cmp.Diff(want, snapshotText(t, other, 0)); diff != "" {
		t.Errorf("snapshot after a failed restore mismatch (-want +got):\n%s", diff)
	}
	if err := other.RestorePartition(1, map[string][]byte{"n1": []byte("x")}); err == nil || other.HasPartition(1) {
		t.Errorf("failed restore of a new partition: %v, exists = %v", err, other.HasPartition(1))
	}
	if err := other.RestorePartition(0, map[string][]byte{"n0": []byte("x")}); err == nil || !strings.Contains(err.Error(), "cannot restore state into a stateless operator") {
		t.Errorf("error = %v, want state for a stateless operator to be refused", err)
	}

	other.ReleasePartition(0)
	if other.HasPartition(0) {
		t.Error("a released partition exists")
	}
	must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(3, "a 1")))
	if err := built.Close(); err != nil || built.HasPartition(0) || built.HasPartition(3) {
		t.Errorf("Close() = %v, partitions left: %v, %v", err, built.HasPartition(0), built.HasPartition(3))
	}
	must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "a 1")))
	if got := snapshotText(t, built, 0)["n1"]; got != "1" {
		t.Errorf("rows = %s after Close and a run, want 1", got)
	}
}

// gate is a processor that waits in the middle of its work.
type gate struct{ entered, leave chan struct{} }

func (g gate) Process(ctx *Context, batch arrow.RecordBatch) error {
	g.entered <- struct{}{}
	<-g.leave
	ctx.Forward(batch)
	return nil
}

func TestPartitionsRunAtTheSameTime(t *testing.T) {
	mem := newAllocator(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	built := chain(t, mem, func() Processor { return gate{entered, leave} })
	var work sync.WaitGroup
	for partition := range 3 {
		work.Go(func() {
			if _, err := built.RunBatch("in", amounts(partition, "a 1")); err != nil {
				t.Error(err)
			}
		})
	}
	// All three are inside the processor before any may leave.
	for range 3 {
		<-entered
	}
	close(leave)
	work.Wait()
}

func TestConcurrentCallsKeepPartitionsApart(t *testing.T) {
	mem := newAllocator(t)
	built := chain(t, mem, Filter(mem, keepAll), func() Processor { return &tally{} })
	const rounds = 50
	var work sync.WaitGroup
	for range 2 {
		for partition := range 3 {
			work.Go(func() {
				for range rounds {
					if _, err := built.RunBatch("in", amounts(partition, "a 1")); err != nil {
						t.Error(err)
					}
					if _, err := built.RunBatches(inputOf(append(amounts(3, "b 1"), amounts(partition, "b 1")...))); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	work.Go(func() {
		for range rounds {
			built.ReleasePartition(9)
			built.HasPartition(3)
			if _, err := built.SnapshotPartition(3); err != nil {
				t.Error(err)
			}
		}
	})
	work.Wait()
	for partition, want := range []int{4 * rounds, 4 * rounds, 4 * rounds, 6 * rounds} {
		if got := snapshotText(t, built, partition)["n1"]; got != fmt.Sprint(want) {
			t.Errorf("partition %d counted %s rows, want %d", partition, got, want)
		}
	}
}

func TestStateLayout(t *testing.T) {
	mem := newAllocator(t)
	made := 0
	codec := amountCodec{mem}
	topology := NewTopology(mem)
	left := must[Node](t)(topology.AddSource("left", []string{"b", "a"}, codec))
	right := must[Node](t)(topology.AddSource("right", []string{"c"}, codec))
	merge := must[Node](t)(topology.AddMerge("merge", []Node{left, right}))
	must[Node](t)(topology.AddProcessor("stateless", newPass, merge))
	must[Node](t)(topology.AddProcessor("both", func() Processor { made++; return &tally{} }, merge))
	must[Node](t)(topology.AddProcessor("one", func() Processor { made++; return &reversibleTally{} }, right))
	must[Node](t)(topology.AddSink("sink", "out", codec, right))
	built := must[*BuiltTopology](t)(topology.Build())

	if !built.stateful() {
		t.Error("stateful() = false")
	}
	want := map[string][]string{"a": {"both"}, "b": {"both"}, "c": {"both", "one"}}
	if diff := cmp.Diff(want, built.logicalTopics()); diff != "" {
		t.Errorf("logicalTopics() mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"both": processorLayout, "one": processorLayout}, built.layout()); diff != "" {
		t.Errorf("layout() mismatch (-want +got):\n%s", diff)
	}
	must[[]ProducedToTopic](t)(built.RunBatch("c", amounts(0, "a 1")))
	if made != 2 {
		t.Errorf("the factories ran %d times for one partition, want 2", made)
	}
	must[[]ProducedToTopic](t)(built.RunBatch("c", amounts(1, "a 1")))
	if made != 4 || snapshotText(t, built, 1)["both"] != "1" {
		t.Errorf("the factories ran %d times for two partitions, want 4", made)
	}
	if stateless := chain(t, mem, Filter(mem, keepAll), newPass); stateless.stateful() {
		t.Error("a topology without state is stateful")
	}
}

func TestCheckSnapshotListsEveryNodeThatDiffers(t *testing.T) {
	mem := newAllocator(t)
	built := chain(t, mem, Filter(mem, keepAll), func() Processor { return &tally{} }, func() Processor { return &tally{} })
	good := map[string][]byte{"n0": nil, "n1": []byte("1"), "n2": nil, "removed-filter": nil}
	if err := built.checkSnapshot(0, good, map[string]string{"n1": processorLayout}); err != nil {
		t.Errorf("checkSnapshot of a fitting snapshot = %v", err)
	}
	bad := map[string][]byte{"n1": []byte("1"), "x": []byte("1"), "count": []byte("1")}
	err := built.checkSnapshot(3, bad, map[string]string{"n1": "another"})
	var mismatch *SnapshotMismatchError
	if !errors.As(err, &mismatch) {
		t.Fatalf("checkSnapshot = %v, want a SnapshotMismatchError", err)
	}
	want := &SnapshotMismatchError{Partition: 3, Unmapped: []string{"count", "x"}, Uncovered: []string{"n2"}, Incompatible: []string{"n1"}}
	if diff := cmp.Diff(want, mismatch); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
	for _, part := range []string{"partition 3", `"count" "x"`, `"n2"`, `"n1"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("text %q lacks %s", err, part)
		}
	}
	if !slices.IsSorted(mismatch.Unmapped) {
		t.Errorf("unmapped nodes %q are not sorted", mismatch.Unmapped)
	}
}

// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

func init() {
	suite = append(suite, []suiteTest{
		{"round that fails comes again with the same records", eachMode(testFailedRoundsComeAgain)},
		{"runner waits for the outcome of its commit", testRunnerWaitsForTheOutcome},
	}...)
	runnerSuite = append(runnerSuite, []suiteTest{
		{"restore goes back to a cut with state, positions and commits", eachMode(testRestore)},
		{"restore to what is not there changes nothing", eachMode(testRestoreRefused)},
	}...)
}

// A round fails three times in a row at each of its steps.
func testFailedRoundsComeAgain(t *testing.T, j *tallyJob) {
	j.fill(t, 400)
	j.publisher(t, j.group, j.barriers, []string{j.in})
	m := j.start(t, j.aligning(t))
	m.rounds(t, func() bool { return m.Stats().Rounds >= 2 })
	for _, p := range []point{atProcessor, atProduce, atOffsets} {
		m.arm(p, 3)
		var begun map[int]int64 // where the partitions of the failed round begin
		for failed := 0; failed < 3; {
			m.take()
			before := j.committed(t, j.group, j.in)
			err := m.round(t)
			if err == nil { // a round without records
				if !cmp.Equal(before, j.committed(t, j.group, j.in)) {
					t.Fatalf("a round succeeded although the %s fails", p)
				}
				continue
			}
			if !isPassing(err, p) {
				t.Fatalf("round = %v, want a retriable error of the %s", err, p)
			}
			failed++
			m.spend()
			if diff := cmp.Diff(before, j.committed(t, j.group, j.in)); diff != "" {
				t.Errorf("commits of a failed round (-before +after):\n%s", diff)
			}
			// Fetches of two partitions need not come together; each begins again
			// where it stands.
			first := m.take()
			for partition, offset := range first {
				if offset != before[at(j.in, partition)] {
					t.Errorf("%s, failure %d: partition %d begins at %d, committed %d", p, failed, partition, offset, before[at(j.in, partition)])
				}
			}
			if failed > 1 && len(first) == 0 {
				t.Errorf("%s, failure %d: no records came again after %v", p, failed, begun)
			}
			begun = first
		}
	}
	// State is saved beside the rounds, so that a store that fails makes its epoch
	// late and no round fail.
	m.arm(atSnapshot, 3)
	j.publish(t)
	m.rounds(t, func() bool { return m.Stats().Barriers == 1 })
	if left := m.remaining(); left != 0 {
		t.Errorf("the store failed %d times less than it was to", left)
	}
	m.rounds(t, m.drained(t))
	if diff := cmp.Diff(j.counted(), m.state(t)); diff != "" {
		t.Errorf("state mismatch (-want +got):\n%s", diff)
	}
	if stats := m.Stats(); stats.RoundsFailed != 9 {
		t.Errorf("%d rounds failed, want 9", stats.RoundsFailed)
	}
	j.check(t)
}

// epochs takes a job through so many barriers, and returns their cuts and the
// state at each.
func (j *tallyJob) epochs(t testing.TB, m *tallyMember, n int) (cuts []columnar.BarrierCut, states []map[int]string) {
	t.Helper()
	for i := range n {
		// Partition 1 gets more than partition 0, and what follows a cut is there
		// before the cut is.
		j.values(t, 0, 20+i)
		j.values(t, 1, 70)
		cuts = append(cuts, j.publish(t))
		states = append(states, j.counted())
		j.fill(t, 30)
		m.rounds(t, func() bool { return m.Stats().Barriers > int64(i) })
	}
	m.rounds(t, m.drained(t))
	return cuts, states
}

func testRestore(t *testing.T, j *tallyJob) {
	j.publisher(t, j.group, j.barriers, []string{j.in})
	m := j.start(t, j.aligning(t))
	cuts, states := j.epochs(t, m, 3)
	if diff := cmp.Diff(j.counted(), m.state(t)); diff != "" {
		t.Fatalf("state before the restores mismatch (-want +got):\n%s", diff)
	}
	stands := func(m *tallyMember, want int) {
		t.Helper()
		if diff := cmp.Diff(states[want], m.state(t)); diff != "" {
			t.Errorf("state at epoch %d mismatch (-want +got):\n%s", cuts[want].Epoch, diff)
		}
		if diff := cmp.Diff(cuts[want].Offsets, m.positions(t)); diff != "" {
			t.Errorf("positions at epoch %d mismatch (-want +got):\n%s", cuts[want].Epoch, diff)
		}
		if diff := cmp.Diff(cuts[want].Offsets, j.committed(t, j.group, j.in)); diff != "" {
			t.Errorf("committed offsets at epoch %d mismatch (-want +got):\n%s", cuts[want].Epoch, diff)
		}
	}
	for _, to := range []int{1, 0} {
		cut, err := m.RestoreToEpoch(t.Context(), cuts[to].Epoch)
		if err != nil {
			t.Fatalf("restore to epoch %d: %v", cuts[to].Epoch, err)
		}
		if diff := cmp.Diff(&cuts[to], cut); diff != "" {
			t.Errorf("cut mismatch (-want +got):\n%s", diff)
		}
		stands(m, to)
	}
	// Whoever comes next begins at the cut, too.
	if err := m.client.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	next := j.start(t, j.aligning(t), columnar.WithMaxPollRecords(1))
	next.rounds(t, func() bool {
		return len(next.positions(t)) == tallyPartitions && next.Stats().Recoveries == tallyPartitions
	})
	if n := next.Stats().RecordsReplayed; n != 0 {
		t.Errorf("%d records were processed again to recover, want none behind the cut", n)
	}
	latest, err := next.RestoreToLatestCut(t.Context())
	if err != nil {
		t.Fatalf("restore to the latest cut: %v", err)
	}
	// The epochs above the restored one were abandoned with it.
	if diff := cmp.Diff(&cuts[0], latest); diff != "" {
		t.Errorf("latest cut mismatch (-want +got):\n%s", diff)
	}
	stands(next, 0)
	if err := next.client.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	last := j.start(t, j.aligning(t))
	before := len(j.readCommitted(t, j.out))
	last.rounds(t, last.drained(t))
	if diff := cmp.Diff(j.counted(), last.state(t)); diff != "" {
		t.Errorf("state in the end mismatch (-want +got):\n%s", diff)
	}
	// What was produced behind the cut is produced once more.
	want := 0
	for tp, end := range j.ends() {
		want += int(end - cuts[0].Offsets[tp])
	}
	if got := len(j.readCommitted(t, j.out)) - before; got != want {
		t.Errorf("%d results behind the restore, want the %d records behind the cut", got, want)
	}
	// The newest epoch that was taken anew is the latest.
	newest := j.publish(t)
	last.rounds(t, func() bool { return j.newestEpoch(t, 0) == newest.Epoch && j.newestEpoch(t, 1) == newest.Epoch })
	j.fill(t, 10)
	last.rounds(t, last.drained(t))
	if latest, err = last.RestoreToLatestCut(t.Context()); err != nil || latest.Epoch != newest.Epoch {
		t.Fatalf("restore to the latest cut = %v, %v; want epoch %d", latest, err, newest.Epoch)
	}
	if diff := cmp.Diff(newest.Offsets, j.committed(t, j.group, j.in)); diff != "" {
		t.Errorf("committed offsets at the latest cut mismatch (-want +got):\n%s", diff)
	}
}

// newestEpoch is the newest epoch that the store holds for a partition and that
// is committed.
func (j *tallyJob) newestEpoch(t testing.TB, partition int) int64 {
	t.Helper()
	infos, err := columnar.NewFileStateStore(j.dir).Snapshots(t.Context(), partition)
	if err != nil {
		t.Fatal(err)
	}
	newest := columnar.NoEpoch
	for _, info := range infos {
		if !info.Abandoned && info.Confirmed {
			newest = max(newest, info.Epoch)
		}
	}
	return newest
}

// files are the files of the state store, with what is in them.
func (j *tallyJob) files(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{}
	names, err := filepath.Glob(filepath.Join(j.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = string(content)
	}
	return files
}

func testRestoreRefused(t *testing.T, j *tallyJob) {
	j.publisher(t, j.group, j.barriers, []string{j.in})
	m := j.start(t, j.aligning(t))
	cuts, _ := j.epochs(t, m, 2)
	// One epoch is partial, one is of a cut that the runner has yet to take.
	partial := columnar.BarrierCut{Group: j.group, Epoch: cuts[1].Epoch + 1, Status: columnar.CutPartial, Missing: []columnar.TopicPartition{at(j.in, 1)}, Offsets: map[columnar.TopicPartition]int64{at(j.in, 0): 1}}
	missing := columnar.BarrierCut{Group: j.group, Epoch: cuts[1].Epoch + 2, Offsets: j.ends()}
	var records []*kgo.Record
	for _, cut := range []columnar.BarrierCut{partial, missing} {
		key, value, err := columnar.EncodeBarrierCut(cut)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, &kgo.Record{Topic: j.barriers, Key: key, Value: value})
	}
	if err := j.client(t).ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	complete := []int64{cuts[0].Epoch, cuts[1].Epoch, missing.Epoch}
	files, state, positions, committed := j.files(t), m.state(t), m.positions(t), j.committed(t, j.group, j.in)
	for _, tt := range []struct {
		name  string
		epoch int64
		want  error
	}{
		{"partial", partial.Epoch, &columnar.MissingCutError{Group: j.group, Epoch: partial.Epoch, Available: complete}},
		{"unknown", missing.Epoch + 1, &columnar.MissingCutError{Group: j.group, Epoch: missing.Epoch + 1, Available: complete}},
		{"missing", missing.Epoch, &columnar.MissingSnapshotError{Epoch: missing.Epoch, Partitions: []int{0, 1}, Available: complete[:2]}},
	} {
		cut, err := m.RestoreToEpoch(t.Context(), tt.epoch)
		if diff := cmp.Diff(tt.want, err); diff != "" || cut != nil {
			t.Errorf("restore to a %s epoch = %v, error mismatch (-want +got):\n%s", tt.name, cut, diff)
		}
		if diff := cmp.Diff(files, j.files(t)); diff != "" {
			t.Errorf("restore to a %s epoch changed files (-before +after):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(state, m.state(t)); diff != "" {
			t.Errorf("restore to a %s epoch changed state (-before +after):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(positions, m.positions(t)); diff != "" {
			t.Errorf("restore to a %s epoch changed positions (-before +after):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(committed, j.committed(t, j.group, j.in)); diff != "" {
			t.Errorf("restore to a %s epoch changed commits (-before +after):\n%s", tt.name, diff)
		}
	}
	// The runner goes on as if nobody had asked.
	j.fill(t, 20)
	m.rounds(t, m.drained(t))
	if diff := cmp.Diff(j.counted(), m.state(t)); diff != "" {
		t.Errorf("state in the end mismatch (-want +got):\n%s", diff)
	}
	j.check(t)
}

// The answer of a commit is lost, and so is everything behind it for a while: no
// round runs before it is known what became of the commit.
func testRunnerWaitsForTheOutcome(t *testing.T, c cluster) {
	for _, tt := range []struct {
		name string
		lose func(*wire)
	}{
		{"carried out", func(w *wire) { w.answers = kmsg.EndTxn }},
		{"not carried out", func(w *wire) { w.request = kmsg.EndTxn }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := newTallyJob(t, c, true)
			w := newWire()
			j.options = []kgo.Opt{kgo.Dialer(w.dial), kgo.RetryTimeout(3 * time.Second)}
			j.fill(t, 20)
			m := j.start(t)
			m.rounds(t, m.drained(t))
			// One partition has new records, so that one round meets the failure.
			j.values(t, 0, 20)
			w.set(func(w *wire) {
				tt.lose(w)
				w.hit = func() {}
			})
			var err error
			for err == nil {
				err = m.round(t)
			}
			var unknown *columnar.CommitUnknownError
			for range 2 {
				if !errors.As(err, &unknown) || unknown.TransactionalID != j.id {
					t.Fatalf("round without an outcome = %v, want a CommitUnknownError of %q", err, j.id)
				}
				m.take()
				err = m.round(t)
				if first := m.take(); len(first) > 0 {
					t.Errorf("a round in doubt processed records at %v", first)
				}
			}
			w.set(func(w *wire) { w.down = false })
			if err := m.round(t); err != nil {
				t.Fatalf("round over the mended wire: %v", err)
			}
			m.rounds(t, func() bool { return cmp.Equal(j.counted(), m.state(t)) && m.drained(t)() })
			if diff := cmp.Diff(j.counted(), m.state(t)); diff != "" {
				t.Errorf("state mismatch (-want +got):\n%s", diff)
			}
			if got := m.Stats().CommitsUnknown; got != 1 {
				t.Errorf("%d unknown commits counted, want 1", got)
			}
			j.check(t)
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

func init() {
	suite = append(suite, []suiteTest{
		{"state is stored and found by another process", testStateRoundTrip},
		{"state of an earlier owner is refused", testStateOwners},
		{"owners that claim at once get generations of their own", testStateClaimsAtOnce},
		{"snapshots outside barriers keep the confirmed one", testStateOutsideBarriers},
		{"barrier snapshots beyond the retained are deleted", testStateRetention},
		{"abandoned snapshots are kept from recovery", testStateAbandoned},
		{"journal holds the rounds since a snapshot", testStateJournal},
		{"damaged state is an error", testStateDamage},
	}...)
}

func (c cluster) store(t testing.TB, topic string, opts ...kgo.Opt) *kafka.StateStore {
	t.Helper()
	s, err := kafka.NewStateStore(topic, c.opts(opts...)...)
	if err != nil {
		t.Fatalf("new state store: %v", err)
	}
	closing(t, s)
	if err := s.EnsureTopic(within(t), 2); err != nil {
		t.Fatalf("ensure topic: %v", err)
	}
	return s
}

func claim(t testing.TB, s *kafka.StateStore, partition int) int64 {
	t.Helper()
	generation, err := s.Claim(within(t), partition)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return generation
}

func save(t testing.TB, s *kafka.StateStore, info columnar.SnapshotInfo, state map[string][]byte) columnar.SnapshotInfo {
	t.Helper()
	saved, err := s.SaveSnapshot(within(t), info, state)
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	return saved
}

func confirm(t testing.TB, s *kafka.StateStore, info columnar.SnapshotInfo) {
	t.Helper()
	if err := s.ConfirmSnapshot(within(t), info); err != nil {
		t.Fatalf("confirm: %v", err)
	}
}

func snapshots(t testing.TB, s *kafka.StateStore, partition int) []columnar.SnapshotInfo {
	t.Helper()
	infos, err := s.Snapshots(within(t), partition)
	if err != nil {
		t.Fatalf("snapshots: %v", err)
	}
	return infos
}

// epochs lists the epochs of snapshots, the newest first.
// numbers returns one of the numbers of each snapshot.
func numbers(infos []columnar.SnapshotInfo, of func(columnar.SnapshotInfo) int64) []int64 {
	var list []int64
	for _, info := range infos {
		list = append(list, of(info))
	}
	return list
}

func epochOf(info columnar.SnapshotInfo) int64      { return info.Epoch }
func sequenceOf(info columnar.SnapshotInfo) int64   { return info.Sequence }
func generationOf(info columnar.SnapshotInfo) int64 { return info.Generation }

func counter(n byte) map[string][]byte { return map[string][]byte{"counter": {n}} }

var sameTime = cmpopts.EquateApproxTime(time.Millisecond)

func testStateRoundTrip(t *testing.T, c cluster) {
	topic := unique("state")
	s := c.store(t, topic)
	big := make([]byte, 1_300_000) // three records
	random := rand.NewChaCha8([32]byte{1})
	random.Read(big)
	state := map[string][]byte{"big": big, "empty": {}, "small": []byte("abc")}
	generation := claim(t, s, 3)
	info := columnar.SnapshotInfo{
		Partition: 3, Epoch: 7, Group: "audit", Generation: generation, Round: 4,
		Positions: map[columnar.TopicPartition]int64{at("in", 3): 12}, PartitionCounts: map[string]int{"in": 4},
		Layout: map[string]string{"big": "v1"}, TakenAt: time.UnixMilli(1724500000042),
	}
	saved := save(t, s, info, state)
	want := info
	want.Sequence, want.Bytes = 1, int64(len(big)+3)
	if diff := cmp.Diff(want, saved, sameTime); diff != "" {
		t.Errorf("saved info mismatch (-want +got):\n%s", diff)
	}
	if got, err := s.Load(4, 7); err != nil || len(got) != 0 || got == nil {
		t.Errorf("Load of nothing = %v, %v; want an empty map", got, err)
	}
	other := c.store(t, topic)
	if diff := cmp.Diff([]columnar.SnapshotInfo{want}, snapshots(t, other, 3), sameTime); diff != "" {
		t.Errorf("listed mismatch (-want +got):\n%s", diff)
	}
	got, err := other.LoadSnapshot(within(t), want)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	for name, value := range state {
		if !bytes.Equal(got[name], value) || got[name] == nil {
			t.Errorf("state of %s has %d bytes, want the %d saved", name, len(got[name]), len(value))
		}
	}
	if err := other.Save(3, columnar.NoEpoch, counter(9)); err != nil {
		t.Fatalf("save: %v", err)
	}
	if got, err := s.Load(3, columnar.NoEpoch); err != nil || !cmp.Equal(got, counter(9)) {
		t.Errorf("Load = %v, %v; want what the other process saved", got, err)
	}
}

func testStateOwners(t *testing.T, c cluster) {
	topic := unique("state")
	old, fresh := c.store(t, topic), c.store(t, topic)
	first := claim(t, old, 3)
	before := save(t, old, columnar.SnapshotInfo{Partition: 3, Epoch: columnar.NoEpoch, Generation: first}, counter(1))
	second := claim(t, fresh, 3)
	if second <= first {
		t.Errorf("generations = %d, then %d", first, second)
	}
	after := save(t, fresh, columnar.SnapshotInfo{Partition: 3, Epoch: columnar.NoEpoch, Generation: second}, counter(2))
	confirm(t, fresh, after)
	var stale *columnar.StaleOwnerError
	check := func(what string, err error) {
		t.Helper()
		if !errors.As(err, &stale) {
			t.Errorf("%s of the earlier owner = %v, want a StaleOwnerError", what, err)
			return
		}
		if diff := cmp.Diff(&columnar.StaleOwnerError{Partition: 3, Generation: first, Current: second}, stale); diff != "" {
			t.Errorf("%s: error mismatch (-want +got):\n%s", what, diff)
		}
	}
	// The first call finds out by what comes before its own record in the log.
	check("append", old.AppendRound(within(t), 3, first, []byte("r")))
	_, err := old.SaveSnapshot(within(t), columnar.SnapshotInfo{Partition: 3, Epoch: columnar.NoEpoch, Generation: first}, counter(3))
	check("save", err)
	_, err = old.SaveSnapshot(within(t), columnar.SnapshotInfo{Partition: 3, Epoch: 5, Generation: first}, counter(3))
	check("save at a barrier", err)
	check("confirm", old.ConfirmSnapshot(within(t), before))
	check("abandon", old.Abandon(within(t), 3, first, 0))
	reader := c.store(t, topic)
	if diff := cmp.Diff([]int64{after.Sequence}, numbers(snapshots(t, reader, 3), sequenceOf)); diff != "" {
		t.Errorf("sequences mismatch (-want +got):\n%s", diff)
	}
	if got, err := reader.Load(3, columnar.NoEpoch); err != nil || !cmp.Equal(got, counter(2)) {
		t.Errorf("Load = %v, %v; want the state of the new owner", got, err)
	}
	if rounds, err := reader.Rounds(within(t), 3, 0); err != nil || len(rounds) > 0 {
		t.Errorf("Rounds = %q, %v; want none", rounds, err)
	}
}

func testStateClaimsAtOnce(t *testing.T, c cluster) {
	topic := unique("state")
	var mu sync.Mutex
	seen := map[int64]int{}
	var wg sync.WaitGroup
	for range 3 {
		s := c.store(t, topic)
		wg.Go(func() {
			for range 3 {
				generation, err := s.Claim(within(t), 1)
				if err != nil {
					t.Errorf("claim: %v", err)
				}
				mu.Lock()
				seen[generation]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 9 {
		t.Errorf("9 claims got generations %v", seen)
	}
}

func testStateOutsideBarriers(t *testing.T, c cluster) {
	topic := unique("state")
	s := c.store(t, topic)
	info := columnar.SnapshotInfo{Partition: 0, Epoch: columnar.NoEpoch, Generation: claim(t, s, 0)}
	first := save(t, s, info, counter(1))
	confirm(t, s, first)
	second := save(t, s, info, counter(2))
	third := save(t, s, info, counter(3))
	// The first is what is certain; the others may turn out to be.
	if diff := cmp.Diff([]int64{third.Sequence, second.Sequence, first.Sequence}, numbers(snapshots(t, s, 0), sequenceOf)); diff != "" {
		t.Errorf("sequences mismatch (-want +got):\n%s", diff)
	}
	if second.Sequence <= first.Sequence || third.Sequence <= second.Sequence {
		t.Errorf("sequences = %d, %d, %d; want them to rise", first.Sequence, second.Sequence, third.Sequence)
	}
	confirm(t, s, third)
	reader := c.store(t, topic)
	got := snapshots(t, reader, 0)
	if diff := cmp.Diff([]int64{third.Sequence}, numbers(got, sequenceOf)); diff != "" || !got[0].Confirmed {
		t.Errorf("snapshots %+v, sequences mismatch (-want +got):\n%s", got, diff)
	}
	var damaged *columnar.DamagedSnapshotError
	if _, err := reader.LoadSnapshot(within(t), first); !errors.As(err, &damaged) {
		t.Errorf("load of a replaced snapshot = %v, want a DamagedSnapshotError", err)
	}
}

func testStateRetention(t *testing.T, c cluster) {
	topic := unique("state")
	s := c.store(t, topic, kafka.WithRetainedSnapshots(2))
	info := columnar.SnapshotInfo{Partition: 2, Generation: claim(t, s, 2)}
	for epoch := int64(1); epoch <= 5; epoch++ {
		info.Epoch = epoch
		saved := save(t, s, info, counter(byte(epoch)))
		if epoch != 5 && epoch != 4 {
			confirm(t, s, saved)
		}
		if epoch == 5 {
			info.Epoch, info.Sequence = 3, saved.Sequence-2
		}
	}
	// Nothing newer than epoch 3 is confirmed, so it stays beyond the two.
	confirm(t, s, info)
	if diff := cmp.Diff([]int64{5, 4, 3}, numbers(snapshots(t, c.store(t, topic), 2), epochOf)); diff != "" {
		t.Errorf("epochs mismatch (-want +got):\n%s", diff)
	}
	info.Epoch = 6
	confirm(t, s, save(t, s, info, counter(6)))
	if diff := cmp.Diff([]int64{6, 5}, numbers(snapshots(t, c.store(t, topic), 2), epochOf)); diff != "" {
		t.Errorf("epochs mismatch (-want +got):\n%s", diff)
	}
}

func testStateAbandoned(t *testing.T, c cluster) {
	topic := unique("state")
	s := c.store(t, topic)
	generation := claim(t, s, 0)
	info := columnar.SnapshotInfo{Partition: 0, Generation: generation}
	var saved []columnar.SnapshotInfo
	for _, epoch := range []int64{1, 2, 3, columnar.NoEpoch} {
		info.Epoch = epoch
		one := save(t, s, info, counter(byte(epoch)))
		if epoch != 3 {
			confirm(t, s, one)
		}
		saved = append(saved, one)
	}
	if err := s.Abandon(within(t), 0, generation, saved[0].Sequence); err != nil {
		t.Fatalf("abandon: %v", err)
	}
	got := snapshots(t, c.store(t, topic), 0)
	if diff := cmp.Diff([]int64{2, 1}, numbers(got, epochOf)); diff != "" {
		t.Fatalf("epochs mismatch (-want +got):\n%s", diff)
	}
	if !got[0].Abandoned || got[1].Abandoned {
		t.Errorf("abandoned = %t at epoch 2, %t at epoch 1; want only the first", got[0].Abandoned, got[1].Abandoned)
	}
}

func testStateJournal(t *testing.T, c cluster) {
	topic := unique("state")
	s := c.store(t, topic)
	generation := claim(t, s, 1)
	appendRound := func(round string) {
		t.Helper()
		if err := s.AppendRound(within(t), 1, generation, []byte(round)); err != nil {
			t.Fatalf("append: %v", err)
		}
	}
	rounds := func(sequence int64) []string {
		t.Helper()
		encoded, err := c.store(t, topic).Rounds(within(t), 1, sequence)
		if err != nil {
			t.Fatalf("rounds: %v", err)
		}
		var list []string
		for _, r := range encoded {
			list = append(list, string(r))
		}
		return list
	}
	appendRound("a")
	appendRound("")
	info := columnar.SnapshotInfo{Partition: 1, Epoch: columnar.NoEpoch, Generation: generation}
	first := save(t, s, info, counter(1))
	appendRound("b")
	appendRound("c")
	if diff := cmp.Diff([]string{"a", "", "b", "c"}, rounds(0)); diff != "" {
		t.Errorf("all rounds mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b", "c"}, rounds(first.Sequence)); diff != "" {
		t.Errorf("rounds since the snapshot mismatch (-want +got):\n%s", diff)
	}
	confirm(t, s, first)
	if diff := cmp.Diff([]string{"b", "c"}, rounds(0)); diff != "" {
		t.Errorf("rounds that are kept mismatch (-want +got):\n%s", diff)
	}
	if err := s.AppendRound(within(t), 1, generation, make([]byte, 2<<20)); err == nil {
		t.Errorf("a round that no record holds was accepted")
	}
	// Another owner goes on with the journal.
	other := c.store(t, topic)
	next := claim(t, other, 1)
	if err := other.AppendRound(within(t), 1, next, []byte("d")); err != nil {
		t.Fatalf("append of the next owner: %v", err)
	}
	if diff := cmp.Diff([]string{"b", "c", "d"}, rounds(first.Sequence)); diff != "" {
		t.Errorf("rounds of two owners mismatch (-want +got):\n%s", diff)
	}
}

func testStateDamage(t *testing.T, c cluster) {
	topic := unique("state")
	s := c.store(t, topic)
	generation := claim(t, s, 0)
	good := save(t, s, columnar.SnapshotInfo{Partition: 0, Epoch: 1, Generation: generation}, counter(1))
	client := c.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumeTopics(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	ctx := within(t)
	var manifest *kgo.Record
	for manifest == nil {
		for _, r := range client.PollFetches(ctx).Records() {
			if bytes.Contains(r.Value, []byte(`"crc32c"`)) {
				manifest = r
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("the manifest is not in the topic")
		}
	}
	// Manifests under higher sequences: one whose chunks are not there, one that
	// cannot be read, and a record of somebody else.
	const sequenceAt = 31
	missing, broken := bytes.Clone(manifest.Key), bytes.Clone(manifest.Key)
	missing[sequenceAt], broken[sequenceAt] = 8, 9
	for _, r := range []*kgo.Record{
		{Topic: topic, Key: missing, Value: manifest.Value},
		{Topic: topic, Key: broken, Value: []byte("{")},
		{Topic: topic, Key: []byte("foreign"), Value: []byte("x")},
	} {
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatalf("produce: %v", err)
		}
	}
	infos := snapshots(t, s, 0)
	if diff := cmp.Diff([]int64{9, 8, 1}, numbers(infos, sequenceOf)); diff != "" {
		t.Fatalf("sequences mismatch (-want +got):\n%s", diff)
	}
	var damaged *columnar.DamagedSnapshotError
	if !errors.As(infos[0].Damage, &damaged) || infos[1].Damage != nil || infos[2].Damage != nil {
		t.Errorf("known damage = %v, %v, %v; want that of the first", infos[0].Damage, infos[1].Damage, infos[2].Damage)
	}
	absent := good
	absent.Generation++
	for name, info := range map[string]columnar.SnapshotInfo{"broken": infos[0], "without chunks": infos[1], "not there": absent} {
		if state, err := s.LoadSnapshot(ctx, info); !errors.As(err, &damaged) || damaged.Partition != 0 {
			t.Errorf("load of a snapshot that is %s = %v, %v; want a DamagedSnapshotError", name, state, err)
		}
	}
	if got, err := s.LoadSnapshot(ctx, good); err != nil || !cmp.Equal(got, counter(1)) {
		t.Errorf("load of the good snapshot = %v, %v", got, err)
	}
}

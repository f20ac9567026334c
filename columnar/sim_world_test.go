// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/krabkatest"
)

// simDeadline is the alignment deadline of the members.
const simDeadline = 5 * time.Second

// simWorld is one history: a broker, a store, members that come and go, and what must
// be true of them.
type simWorld struct {
	seed          uint64
	rand          *rand.Rand
	broker        *krabkatest.Broker
	store         *krabkatest.StateStore
	transactional bool
	telling       sync.Mutex
	story         []string // what happened, the latest last

	inputs  []*simInput // by partition
	members []*simMember
	epoch   int64 // of the latest cut
	// highestEpoch is that of a barrier group before the present one: a member cannot
	// tell the epochs of the two apart up to it.
	highestEpoch int64
	cuts         map[int64]*columnar.BarrierCut // of this life
	faults       []krabkatest.Call              // that are to come, of any member

	read     map[int]int   // records read of each partition of out
	counts   map[int]int64 // the latest output of each partition
	seen     map[int]map[int64]bool
	jumps    map[int][]int64
	restores int
	failed   []string
}

// simMember is a process with a runner.
type simMember struct {
	*krabkatest.TransactionalMember
	world    *simWorld
	name     string
	process  *krabkatest.Process
	reader   *krabkatest.Reader
	runner   *columnar.GroupRunner
	owned    map[int]bool
	restored *columnar.BarrierCut // before an assignment; the next one takes it
	closed   map[int64]bool       // epochs
}

func newSimWorld(seed uint64) *simWorld {
	random := rand.New(rand.NewPCG(seed, 11))
	options := []krabkatest.BrokerOption{krabkatest.WithSeed(seed), krabkatest.WithPausesThatOutlive()}
	if random.IntN(4) == 0 {
		options = append(options, krabkatest.WithEagerRebalances())
	}
	if random.IntN(3) == 0 {
		options = append(options, krabkatest.WithMarkerDelay(time.Duration(1+random.IntN(5))*time.Millisecond))
	}
	w := &simWorld{
		seed: seed, rand: random, broker: krabkatest.NewBroker(options...), store: krabkatest.NewStateStore(),
		transactional: random.IntN(5) > 0, cuts: map[int64]*columnar.BarrierCut{},
		read: map[int]int{}, counts: map[int]int64{}, seen: map[int]map[int64]bool{}, jumps: map[int][]int64{},
	}
	w.grow(1 + random.IntN(4))
	w.broker.Intercept(w.intercept)
	w.broker.CreateTopic("out", 2)
	w.broker.CreateTopic(columnar.BarrierStateTopic, 1)
	return w
}

// intercept fails the next calls of members that are to fail.
func (w *simWorld) intercept(call krabkatest.Call) error {
	if strings.HasPrefix(call.Client, "reader") {
		return nil
	}
	at := slices.IndexFunc(w.faults, func(f krabkatest.Call) bool { return f.Method == call.Method && f.Answer == call.Answer })
	if at < 0 {
		return nil
	}
	w.faults = slices.Delete(w.faults, at, at+1)
	return &krabkatest.FaultError{Call: call}
}

// note adds to the story. Members that run at once tell theirs at once.
func (w *simWorld) note(format string, args ...any) {
	w.telling.Lock()
	defer w.telling.Unlock()
	w.story = append(w.story, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *simWorld) told() string { return strings.Join(w.story, "\n") }

// fail notes that something must not be.
func (w *simWorld) fail(format string, args ...any) {
	w.note("WRONG: "+format, args...)
	w.failed = append(w.failed, fmt.Sprintf(format, args...))
}

func (w *simWorld) grow(partitions int) {
	w.broker.CreateTopic("in", partitions)
	for len(w.inputs) < partitions {
		w.inputs = append(w.inputs, newSimInput())
	}
}

// produce appends records to a partition.
func (w *simWorld) produce(partition, records int) {
	for range records {
		text := fmt.Sprintf("p%d %d", partition, len(w.inputs[partition].offsets))
		if _, err := w.broker.Produce("in", partition, columnar.ProduceRecord{Value: []byte(text), Timestamp: 1}); err != nil {
			w.fail("produce: %v", err)
			return
		}
		_, _, end := w.broker.Offsets("in", partition)
		w.inputs[partition].add(text, end-1)
	}
}

// publish takes a cut, announced or not, whose news may come late.
func (w *simWorld) publish(announced bool, late time.Duration) int64 {
	w.epoch++
	if announced {
		w.broker.AnnounceCut("audit", w.epoch)
		time.Sleep(100 * time.Millisecond)
	}
	cut, err := w.broker.PublishCut("audit", w.epoch, []string{"in"}, krabkatest.WithLateNews(late))
	if err != nil {
		w.fail("publish: %v", err)
		return 0
	}
	w.cuts[w.epoch] = &cut
	w.note("cut %d at %v, announced %v, %v late", w.epoch, cut.Offsets, announced, late)
	return w.epoch
}

// remake deletes the barrier group: its epochs begin anew.
func (w *simWorld) remake() {
	time.Sleep(time.Second) // its publisher has told the last cut by then
	w.note("barrier group made anew")
	w.broker.DeleteBarrierGroup("audit")
	w.highestEpoch = max(w.highestEpoch, w.epoch)
	w.epoch, w.cuts = 0, map[int64]*columnar.BarrierCut{}
}

// start starts a process under a name, which a process that is gone may have had.
func (w *simWorld) start(name string) {
	m := &simMember{world: w, name: name, process: krabkatest.NewProcess(), owned: map[int]bool{}, closed: map[int64]bool{}}
	m.TransactionalMember = w.broker.NewTransactionalMember("group", name, krabkatest.InProcess(m.process))
	m.reader = w.broker.NewReader(nil) // whose polls come at any time, and are no steps of the process
	cuts, err := columnar.NewCutReader(m.reader, 1)
	if err != nil {
		w.fail("cut reader: %v", err)
		return
	}
	topology, err := simTopology()
	if err != nil {
		w.fail("topology: %v", err)
		return
	}
	var producer columnar.Producer = m.TransactionalMember
	if !w.transactional {
		producer = w.broker.NewProducer(m.process)
	}
	m.runner, err = columnar.NewGroupRunner(topology, m, producer,
		columnar.WithStateStore(w.store.Open(m.process)), columnar.WithParallelism(1),
		columnar.WithSnapshotInterval(time.Duration(1+w.rand.IntN(20))*time.Second),
		columnar.WithBackoff(time.Millisecond, time.Second), columnar.WithPartitionGrowth(),
		columnar.WithBarrierGroup("audit", cuts), columnar.WithAlignmentDeadline(simDeadline),
		columnar.WithBarrierListener(func(barrier columnar.Barrier) { m.closed[barrier.Cut.Epoch] = true }),
		columnar.WithHooks(columnar.Hooks{
			CutSkipped: func(cut columnar.BarrierCut, reason error) {
				w.note("%s skips cut %d: %v", name, cut.Epoch, reason)
			},
			Snapshot: func(info columnar.SnapshotInfo, _ time.Duration, err error) {
				w.note("%s saves %d of partition %d at epoch %d, %v: %v", name, info.Sequence, info.Partition, info.Epoch, info.Positions, err)
			},
			Recovery: func(info columnar.RecoveryInfo) { w.note("%s recovers: %+v", name, info) },
			Announcement: func(info columnar.AnnouncementInfo) {
				w.note("%s held for cut %d: %v, expired %v", name, info.Epoch, info.Held, info.Expired)
			},
		}),
		columnar.WithLogger(slog.New(slog.DiscardHandler)), columnar.WithCloseTimeout(time.Second))
	if err != nil {
		w.note("start of %s: %v", name, err)
		return
	}
	w.note("%s started", name)
	w.members = append(w.members, m)
}

// The simulated member is its own consumer, to hear which partitions it owns.
func (m *simMember) Subscribe(topics []string, listener columnar.RebalanceListener) error {
	return m.TransactionalMember.Subscribe(topics, simListener{m, listener})
}

type simListener struct {
	member *simMember
	columnar.RebalanceListener
}

func (l simListener) OnPartitionsAssigned(partitions []columnar.TopicPartition) {
	m := l.member
	for _, tp := range partitions {
		m.owned[tp.Partition] = true
		if m.restored != nil {
			m.world.mayJump(tp.Partition, m.restored)
		}
	}
	m.world.note("%s is assigned %v", m.name, partitions)
	m.restored = nil
	l.RebalanceListener.OnPartitionsAssigned(partitions)
}

func (l simListener) OnPartitionsRevoked(partitions []columnar.TopicPartition) {
	for _, tp := range partitions {
		delete(l.member.owned, tp.Partition)
	}
	l.member.world.note("%s gives up %v", l.member.name, partitions)
	l.RebalanceListener.OnPartitionsRevoked(partitions)
}

func (l simListener) OnPartitionsLost(partitions []columnar.TopicPartition) {
	for _, tp := range partitions {
		delete(l.member.owned, tp.Partition)
	}
	l.member.world.note("%s loses %v", l.member.name, partitions)
	l.RebalanceListener.OnPartitionsLost(partitions)
}

// mayJump lets the outputs of a partition begin again behind a cut.
func (w *simWorld) mayJump(partition int, cut *columnar.BarrierCut) {
	if offset, ok := cut.Offset(columnar.TopicPartition{Topic: "in", Partition: partition}); ok {
		w.jumps[partition] = append(w.jumps[partition], int64(w.inputs[partition].below(offset).count))
	}
}

// round runs one round of a member.
func (m *simMember) round(wait time.Duration) {
	run := m.runner.RunOnce
	if m.world.transactional {
		run = m.runner.RunOnceTransactional
	}
	offsets, err := run(context.Background(), wait)
	synctest.Wait()
	m.tell(offsets, err)
}

// tell notes the outcome of a round.
func (m *simMember) tell(offsets map[columnar.TopicPartition]int64, err error) {
	if err != nil || len(offsets) > 0 {
		m.world.note("%s: %v %v", m.name, offsets, err)
	}
	m.judge(err)
}

// judge ends a member where a service would end, and notes errors that must not be.
func (m *simMember) judge(err error) {
	var (
		stale   *columnar.StaleOwnerError
		fenced  *columnar.FencedError
		unknown *columnar.CommitUnknownError
	)
	switch {
	case errors.As(err, &stale), errors.As(err, &fenced), errors.Is(err, krabkatest.ErrCrashed):
		m.end()
	case err == nil || columnar.IsRetriable(err) || errors.As(err, &unknown):
	default:
		m.world.fail("round of %s: %v", m.name, err)
		m.end()
	}
}

// end ends a process in order, as far as it lives.
func (m *simMember) end() {
	w := m.world
	err := errors.Join(m.runner.Close(), m.Close(), m.reader.Close())
	w.note("%s ends: %v", m.name, err)
	w.members = slices.DeleteFunc(w.members, func(other *simMember) bool { return other == m })
}

// crash ends a process at once. What is left of it does nothing.
func (m *simMember) crash() {
	m.world.note("%s crashes", m.name)
	m.process.Crash()
	m.end()
}

// restore takes a member back to a cut.
func (m *simMember) restore(epoch int64) {
	w := m.world
	_, err := m.runner.RestoreToEpoch(context.Background(), epoch)
	w.note("%s restores to %d: %v", m.name, epoch, err)
	if errors.As(err, new(*columnar.MissingSnapshotError)) || errors.As(err, new(*columnar.MissingCutError)) {
		return
	}
	// One that failed on its way may go on in the next round.
	if cut := w.cuts[epoch]; cut != nil {
		w.restores++
		if len(m.owned) == 0 {
			m.restored = cut
		}
		for partition := range m.owned {
			w.mayJump(partition, cut)
		}
	}
	m.judge(err)
}

// check compares what is visible with what must be.
func (w *simWorld) check() {
	for partition := range 2 {
		records := w.broker.Records("out", partition)
		for _, record := range records[w.read[partition]:] {
			w.checkOutput(string(record.Value))
		}
		w.read[partition] = len(records)
	}
	if n := w.broker.Rewinds("group"); n > 0 && w.restores == 0 && w.transactional {
		w.fail("the group has committed backwards %d times without a restore", n)
	}
	for partition, in := range w.inputs {
		snapshots := w.store.Stored(partition)
		for _, snapshot := range snapshots[:min(3, len(snapshots))] {
			w.checkSnapshot(partition, in, snapshot.Info, snapshot.State)
		}
	}
}

func (w *simWorld) checkOutput(text string) {
	words := strings.Fields(text)
	partition, _ := strconv.Atoi(words[0][1:])
	count, _ := strconv.ParseInt(words[1], 10, 64)
	in := w.inputs[partition]
	if count >= int64(len(in.chains)) || in.chains[count].text(words[0]) != text {
		w.fail("the output %q was never the state of partition %d", text, partition)
		return
	}
	if w.seen[partition] == nil {
		w.seen[partition] = map[int64]bool{}
	}
	w.seen[partition][count] = true
	if !w.transactional {
		return // outputs may come again, and in another order when sends fail
	}
	last := w.counts[partition]
	switch at := slices.Index(w.jumps[partition], count-1); {
	case count == last+1:
	case at >= 0:
		w.jumps[partition] = slices.Delete(w.jumps[partition], at, at+1)
	default:
		w.fail("output %d of partition %d follows output %d", count, partition, last)
	}
	w.counts[partition] = count
}

func (w *simWorld) checkSnapshot(partition int, in *simInput, snapshot columnar.SnapshotInfo, state map[string][]byte) {
	tp := columnar.TopicPartition{Topic: "in", Partition: partition}
	position, ok := snapshot.Positions[tp]
	if !ok {
		return
	}
	want := in.below(position)
	if got := state["chain"]; !(want.count == 0 && len(got) == 0) && string(got) != string(want.bytes()) {
		w.fail("snapshot %d of partition %d at epoch %d is not the fold of the records below %d", snapshot.Sequence, partition, snapshot.Epoch, position)
	}
}

// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// cutsTime is how long records and cuts flow in each case of the table.
var cutsTime = flag.Duration("cuts.time", 2*time.Second, "how long each case of the table of closed cuts runs")

func init() {
	runnerSuite = append(runnerSuite, suiteTest{"every cut closes on every member, with lag and without", testEveryCutCloses})
}

// pace is how records come to each partition.
type pace struct {
	name  string
	pause time.Duration // between two records; 0 for as fast as possible
}

func testEveryCutCloses(t *testing.T, c cluster) {
	for _, p := range []pace{
		{"a record in 200 ms", 200 * time.Millisecond},
		{"a record in 20 ms", 20 * time.Millisecond},
		{"a record in 2 ms", 2 * time.Millisecond},
		{"as fast as possible", 0},
	} {
		for members, exact := range map[int]bool{1: true, 3: false} {
			t.Run(fmt.Sprintf("%s, members %d", p.name, members), func(t *testing.T) {
				newCutsJob(t, c, members, exact).run(t, p)
			})
		}
	}
}

// cutsJob is a tally of four partitions whose cuts are counted.
type cutsJob struct {
	*tallyJob
	members []*cutsMember
}

// cutsMember is a runner of the job in a loop of its own.
type cutsMember struct {
	*columnar.GroupRunner
	store *columnar.FileStateStore

	mu    sync.Mutex // guards what follows
	taken map[int64][]int
	holds []time.Duration
}

const cutsPartitions = 4

func newCutsJob(t *testing.T, c cluster, members int, exact bool) *cutsJob {
	t.Helper()
	j := &cutsJob{tallyJob: newTallyJob(t, c, exact)}
	j.in = c.topic(t, cutsPartitions)
	j.publisher(t, j.group, j.barriers, []string{j.in}) // makes the barrier topic
	for n := range members {
		j.members = append(j.members, j.startMember(t, n))
	}
	return j
}

func (j *cutsJob) startMember(t *testing.T, n int) *cutsMember {
	t.Helper()
	m := &cutsMember{store: columnar.NewFileStateStore(t.TempDir()), taken: map[int64][]int{}}
	var (
		member interface {
			columnar.Consumer
			columnar.Producer
			closer
		}
		err error
	)
	if j.exact {
		member, err = kafka.NewTransactionalMember(j.group, fmt.Sprint(j.id, n), j.opts()...)
	} else {
		member, err = kafka.NewMember(j.group, j.opts()...)
	}
	if err != nil {
		t.Fatalf("new member: %v", err)
	}
	closing(t, member)
	m.GroupRunner, err = columnar.NewGroupRunner(j.topology(t, &faults{}), member, member,
		columnar.WithStateStore(m.store), j.aligning(t),
		columnar.WithBarrierListener(func(b columnar.Barrier) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.taken[b.Cut.Epoch] = b.Partitions
		}),
		columnar.WithHooks(columnar.Hooks{
			Announcement: func(a columnar.AnnouncementInfo) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.holds = append(m.holds, a.Held)
			},
			CutSkipped: func(cut columnar.BarrierCut, reason error) {
				t.Logf("member %d skips epoch %d: %v", n, cut.Epoch, reason)
			},
		}))
	if err != nil {
		t.Fatalf("new runner: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("member %d: %v", n, err)
		}
	})
	return m
}

// owned is how many partitions the member has.
func (m *cutsMember) owned() int64 {
	s := m.Stats()
	return s.PartitionsAssigned - s.PartitionsRevoked - s.PartitionsLost
}

// await looks again until done, or fails.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for ctx := within(t); !done(); {
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// run lets records and cuts flow, and looks at every epoch of every member.
func (j *cutsJob) run(t *testing.T, p pace) {
	await(t, "every member has partitions", func() bool {
		var sum int64
		for _, m := range j.members {
			if m.owned() == 0 {
				return false
			}
			sum += m.owned()
		}
		return sum == cutsPartitions
	})
	ctx, stop := context.WithTimeout(t.Context(), *cutsTime)
	defer stop()
	flowing := make(chan struct{})
	go func() {
		defer close(flowing)
		j.flow(ctx, t, p)
	}()
	// Ten cuts in each case of the short table, one a second in the long one.
	every := min(time.Second, *cutsTime/10)
	publisher := j.publisher(t, j.group, j.barriers, []string{j.in})
	closes := func() {
		// The next cut waits for it: a store that is slower than the cuts, as under the
		// load of other tests, passes epochs over.
		cut := publish(t, publisher)
		await(t, "a cut closes", func() bool {
			return !slices.ContainsFunc(j.members, func(m *cutsMember) bool { return m.Stats().LastEpoch < cut.Epoch })
		})
	}
	for pace := time.NewTicker(every); ctx.Err() == nil; {
		closes()
		select {
		case <-pace.C:
		case <-ctx.Done():
			pace.Stop()
		}
	}
	<-flowing
	closes()
	j.checkCuts(t, j.cuts(t, j.group, j.barriers))
}

// flow writes records to all partitions.
func (j *cutsJob) flow(ctx context.Context, t *testing.T, p pace) {
	client := j.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	for n := 0; ctx.Err() == nil; n++ {
		var failed atomic.Value
		copies := 1
		if p.pause == 0 {
			copies = 50
		}
		for range copies {
			for partition := range int32(cutsPartitions) {
				value := fmt.Sprintf(`{"v":"%c"}`, 'a'+n%3)
				client.Produce(context.WithoutCancel(ctx), &kgo.Record{Topic: j.in, Partition: partition, Value: []byte(value)}, func(_ *kgo.Record, err error) {
					if err != nil {
						failed.Store(err)
					}
				})
			}
		}
		if err := client.Flush(context.WithoutCancel(ctx)); err != nil || failed.Load() != nil {
			t.Errorf("produce: %v, %v", err, failed.Load())
			return
		}
		select {
		case <-time.After(p.pause):
		case <-ctx.Done():
		}
	}
}

// checkCuts looks whether every cut was taken by every partition, with the state of
// exactly the records below it.
func (j *cutsJob) checkCuts(t *testing.T, cuts []columnar.BarrierCut) {
	t.Helper()
	records := j.readCommitted(t, j.in)
	var holds []time.Duration
	for n, m := range j.members {
		m.mu.Lock()
		taken := m.taken
		holds = append(holds, m.holds...)
		m.mu.Unlock()
		if stats := m.Stats(); stats.CutsSkipped != 0 || stats.AnnouncementsExpired != 0 {
			t.Errorf("member %d has skipped %d cuts, and given up %d announcements", n, stats.CutsSkipped, stats.AnnouncementsExpired)
		}
		for _, cut := range cuts {
			partitions, ok := taken[cut.Epoch]
			if !ok || int64(len(partitions)) != m.owned() {
				t.Errorf("member %d took epoch %d with partitions %v, want all of its %d", n, cut.Epoch, partitions, m.owned())
			}
			for _, partition := range partitions {
				state, err := m.store.Load(partition, cut.Epoch)
				if err != nil {
					t.Fatalf("load: %v", err)
				}
				if diff := cmp.Diff(foldBelow(t, records, partition, cut.Offsets[at(j.in, partition)]), string(state["tally"])); diff != "" {
					t.Errorf("partition %d at epoch %d mismatch (-want +got):\n%s", partition, cut.Epoch, diff)
				}
			}
		}
	}
	if len(holds) == 0 {
		t.Fatalf("no announcement was heard of %d cuts", len(cuts))
	}
	slices.Sort(holds)
	t.Logf("%d cuts, %d records; an announcement holds p50 %v, p99 %v", len(cuts), len(records), holds[len(holds)/2], holds[len(holds)*99/100])
}

// foldBelow is the tally of the records of a partition below an offset.
func foldBelow(t *testing.T, records []*kgo.Record, partition int, offset int64) string {
	t.Helper()
	counts := map[string]int64{}
	for _, record := range records {
		if int(record.Partition) != partition || record.Offset >= offset {
			continue
		}
		var row struct{ V string }
		if err := json.Unmarshal(record.Value, &row); err != nil {
			t.Fatalf("record %d: %v", record.Offset, err)
		}
		counts[row.V]++
	}
	return formatCounts(counts)
}

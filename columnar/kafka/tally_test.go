// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// tallyPartitions is how many partitions a tally reads.
const tallyPartitions = 2

// point is a step of a round at which a tally can fail.
type point string

const (
	atProcessor point = "processor"
	atProduce   point = "produce"
	atSnapshot  point = "snapshot store"
	atOffsets   point = "offsets"
)

// passing is an error that may be tried again.
type passing struct{ at point }

func (p passing) Error() string   { return "not now: " + string(p.at) }
func (p passing) Retriable() bool { return true }

// faults make a tally fail so many times in a row, and keep what its processor
// is given.
type faults struct {
	mu    sync.Mutex
	point point
	left  int
	first map[int]int64                   // first offset of the latest batch, by partition
	hold  func(rebalance <-chan struct{}) // called once, by a processor
}

func (f *faults) arm(p point, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.point, f.left = p, times
}

// spend fails one round, so all of the steps in it.
func (f *faults) spend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = max(0, f.left-1)
}

// remaining returns how often something still fails.
func (f *faults) remaining() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left
}

func (f *faults) at(p point) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.point == p && f.left > 0 {
		return passing{p}
	}
	return nil
}

// take returns the first offset that each partition's processor was given since
// the last call.
func (f *faults) take() map[int]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.first
	f.first = nil
	return first
}

// tally counts each value of a partition and passes it on with its count.
type tally struct {
	counts map[string]int64
	faults *faults
}

var tallySchema = arrow.NewSchema([]arrow.Field{
	{Name: "v", Type: arrow.BinaryTypes.String}, {Name: "n", Type: arrow.PrimitiveTypes.Int64},
}, nil)

func (y *tally) Process(ctx *columnar.Context, batch arrow.RecordBatch) error {
	offsets := batch.Column(batch.Schema().FieldIndices(columnar.OffsetColumn)[0]).(*array.Int64)
	y.faults.mu.Lock()
	if y.faults.first == nil {
		y.faults.first = map[int]int64{}
	}
	y.faults.first[ctx.Partition()] = offsets.Value(0)
	hold := y.faults.hold
	y.faults.hold = nil
	y.faults.mu.Unlock()
	if hold != nil {
		hold(ctx.RebalancePending())
	}
	builder := array.NewRecordBuilder(ctx.Allocator(), tallySchema)
	defer builder.Release()
	values := batch.Column(0).(*array.String)
	for row := range values.Len() {
		v := strings.Clone(values.Value(row))
		y.counts[v]++
		builder.Field(0).(*array.StringBuilder).Append(v)
		builder.Field(1).(*array.Int64Builder).Append(y.counts[v])
	}
	ctx.Forward(builder.NewRecordBatch())
	return y.faults.at(atProcessor)
}

func (y *tally) Snapshot() ([]byte, error) { return []byte(formatCounts(y.counts)), nil }

func (y *tally) Restore(snapshot []byte) error {
	y.counts = map[string]int64{}
	for _, field := range strings.Fields(string(snapshot)) {
		v, text, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("tally %q: %w", field, err)
		}
		y.counts[v] = n
	}
	return nil
}

func formatCounts(counts map[string]int64) string {
	var fields []string
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		fields = append(fields, fmt.Sprintf("%s=%d", v, counts[v]))
	}
	return strings.Join(fields, " ")
}

// faultyStore fails to save epochs.
type faultyStore struct {
	killedStore
	faults *faults
}

// killedStore is a file store of a test that leaves runners behind as if their
// processes had been killed: what they claimed keeps nobody out.
type killedStore struct{ columnar.JournalStore }

func (s faultyStore) SaveSnapshot(ctx context.Context, info columnar.SnapshotInfo, state map[string][]byte) (columnar.SnapshotInfo, error) {
	if info.Epoch != columnar.NoEpoch {
		if err := s.faults.at(atSnapshot); err != nil {
			s.faults.spend()
			return info, err
		}
	}
	return s.killedStore.SaveSnapshot(ctx, info, state)
}

// faultyMember fails to send and to commit.
type faultyMember struct {
	*kafka.Member
	faults *faults
}

func (m faultyMember) Send(topic string, record columnar.ProduceRecord, done func(error)) {
	if err := m.faults.at(atProduce); err != nil {
		done(err)
		return
	}
	m.Member.Send(topic, record, done)
}

func (m faultyMember) CommitOffsets(ctx context.Context, offsets map[columnar.TopicPartition]int64) error {
	if err := m.faults.at(atOffsets); err != nil {
		return err
	}
	return m.Member.CommitOffsets(ctx, offsets)
}

// faultyTransactionalMember fails to send and to add offsets. What is sent
// before the failure is in the transaction.
type faultyTransactionalMember struct {
	*kafka.TransactionalMember
	faults *faults
	sent   *int
}

func (m faultyTransactionalMember) Send(topic string, record columnar.ProduceRecord, done func(error)) {
	if err := m.faults.at(atProduce); err != nil && *m.sent%2 == 1 {
		*m.sent++
		done(err)
		return
	}
	*m.sent++
	m.TransactionalMember.Send(topic, record, done)
}

func (m faultyTransactionalMember) SendOffsetsNoted(ctx context.Context, offsets map[columnar.TopicPartition]int64, notes map[columnar.TopicPartition]string, metadata any) error {
	if err := m.faults.at(atOffsets); err != nil {
		return err
	}
	return m.TransactionalMember.SendOffsetsNoted(ctx, offsets, notes, metadata)
}

// tallyJob is a job of tallying values, and what it must come to.
type tallyJob struct {
	cluster
	exact     bool
	in, out   string
	group, id string
	barriers  string
	dir       string
	options   []kgo.Opt
	want      map[int]map[string]int64 // by partition
}

func newTallyJob(t testing.TB, c cluster, exact bool) *tallyJob {
	t.Helper()
	group := unique("tally")
	return &tallyJob{
		cluster: c, exact: exact, in: c.topic(t, tallyPartitions), out: c.topic(t, 1), group: group, id: group + "-0",
		barriers: unique("barriers"), dir: t.TempDir(), want: map[int]map[string]int64{},
	}
}

// values makes n values of a partition, of three kinds.
func (j *tallyJob) values(t testing.TB, partition, n int) {
	t.Helper()
	var values []string
	for i := range n {
		v := fmt.Sprintf("%c%d", 'a'+i%3, partition)
		if j.want[partition] == nil {
			j.want[partition] = map[string]int64{}
		}
		j.want[partition][v]++
		values = append(values, fmt.Sprintf(`{"v":%q}`, v))
	}
	j.produce(t, j.in, int32(partition), values...)
}

// fill makes n values in each partition.
func (j *tallyJob) fill(t testing.TB, n int) {
	t.Helper()
	for partition := range tallyPartitions {
		j.values(t, partition, n)
	}
}

func (j *tallyJob) topology(t testing.TB, f *faults) *columnar.Topology {
	t.Helper()
	mem := memory.DefaultAllocator
	read, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{tallySchema.Field(0)}, nil))
	if err != nil {
		t.Fatal(err)
	}
	write, err := columnar.NewJSONCodec(mem, nil)
	if err != nil {
		t.Fatal(err)
	}
	topology := columnar.NewTopology(mem)
	source, err := topology.AddSource("values", []string{j.in}, read)
	if err != nil {
		t.Fatal(err)
	}
	tallied, err := topology.AddProcessor("tally", func() columnar.Processor { return &tally{counts: map[string]int64{}, faults: f} }, source)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.AddSink("counts", j.out, write, tallied); err != nil {
		t.Fatal(err)
	}
	return topology
}

// tallyMember is a running member of a tally.
type tallyMember struct {
	*columnar.GroupRunner
	*faults
	client interface {
		columnar.PositionReader
		Close() error
	}
	job *tallyJob
}

// start starts a member, which the test closes if it is not closed before.
func (j *tallyJob) start(t testing.TB, options ...columnar.GroupRunnerOption) *tallyMember {
	t.Helper()
	m, err := j.try(t, options...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// try is start, which may fail.
func (j *tallyJob) try(t testing.TB, options ...columnar.GroupRunnerOption) (*tallyMember, error) {
	t.Helper()
	m := &tallyMember{faults: &faults{}, job: j}
	var (
		consumer columnar.Consumer
		producer columnar.Producer
	)
	if j.exact {
		member, err := kafka.NewTransactionalMember(j.group, j.id, j.opts(j.options...)...)
		if err != nil {
			t.Fatal(err)
		}
		faulty := faultyTransactionalMember{member, m.faults, new(int)}
		m.client, consumer, producer = member, faulty, faulty
	} else {
		member, err := kafka.NewMember(j.group, j.opts(j.options...)...)
		if err != nil {
			t.Fatal(err)
		}
		faulty := faultyMember{member, m.faults}
		m.client, consumer, producer = member, faulty, faulty
	}
	closing(t, m.client)
	options = append([]columnar.GroupRunnerOption{
		columnar.WithStateStore(faultyStore{killedStore{columnar.NewFileStateStore(j.dir)}, m.faults}), columnar.WithMaxPollRecords(50),
	}, options...)
	runner, err := columnar.NewGroupRunner(j.topology(t, m.faults), consumer, producer, options...)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = runner.Close() }) // an error of a runner that has ended is the test's to look at
	m.GroupRunner = runner
	return m, nil
}

// round runs one round.
func (m *tallyMember) round(t testing.TB) error {
	t.Helper()
	run := m.RunOnce
	if m.job.exact {
		run = m.RunOnceTransactional
	}
	_, err := run(within(t), 200*time.Millisecond)
	return err
}

// rounds runs rounds that succeed until done.
func (m *tallyMember) rounds(t testing.TB, done func() bool) {
	t.Helper()
	ctx := within(t)
	for !done() {
		if err := m.round(t); err != nil {
			t.Fatalf("round: %v", err)
		}
		if ctx.Err() != nil {
			t.Fatalf("not done in %v: %+v", patience, m.Stats())
		}
	}
}

// drained reports whether the group has committed every value.
func (m *tallyMember) drained(t testing.TB) func() bool {
	t.Helper()
	return func() bool {
		ends := m.job.ends()
		return cmp.Equal(ends, m.positions(t)) && cmp.Equal(ends, m.job.committed(t, m.job.group, m.job.in))
	}
}

// positions are where a member will read on.
func (m *tallyMember) positions(t testing.TB) map[columnar.TopicPartition]int64 {
	t.Helper()
	var partitions []columnar.TopicPartition
	for partition := range tallyPartitions {
		partitions = append(partitions, at(m.job.in, partition))
	}
	positions, err := m.client.Positions(t.Context(), partitions)
	if err != nil {
		t.Fatal(err)
	}
	return positions
}

// ends are the offsets behind the last value.
func (j *tallyJob) ends() map[columnar.TopicPartition]int64 {
	ends := map[columnar.TopicPartition]int64{}
	for partition, counts := range j.want {
		for _, n := range counts {
			ends[at(j.in, partition)] += n
		}
	}
	return ends
}

// state is what the processors of a member hold, by partition.
func (m *tallyMember) state(t testing.TB) map[int]string {
	t.Helper()
	state := map[int]string{}
	for partition := range tallyPartitions {
		snapshot, err := m.Topology().SnapshotPartition(partition)
		if err != nil {
			t.Fatal(err)
		}
		if bytes, ok := snapshot["tally"]; ok {
			state[partition] = string(bytes)
		}
	}
	return state
}

// counted is the state that all values so far come to.
func (j *tallyJob) counted() map[int]string {
	state := map[int]string{}
	for partition, counts := range j.want {
		state[partition] = formatCounts(counts)
	}
	return state
}

// results are the committed counts of each value, in order.
func (j *tallyJob) results(t testing.TB) map[string][]int64 {
	t.Helper()
	results := map[string][]int64{}
	for _, record := range j.readCommitted(t, j.out) {
		var row struct {
			V string
			N int64
		}
		if err := json.Unmarshal(record.Value, &row); err != nil {
			t.Fatalf("result %d: %v", record.Offset, err)
		}
		results[row.V] = append(results[row.V], row.N)
	}
	return results
}

// check compares the results with what they must be: each count once and in
// order, or at least once.
func (j *tallyJob) check(t testing.TB) {
	t.Helper()
	want, got := map[string][]int64{}, j.results(t)
	for _, counts := range j.want {
		for v, n := range counts {
			for i := range n {
				want[v] = append(want[v], i+1)
			}
		}
	}
	if !j.exact {
		for v := range got {
			slices.Sort(got[v])
			got[v] = slices.Compact(got[v])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results mismatch (-want +got):\n%s", diff)
	}
}

// publish publishes a cut at the present ends, and returns it.
func (j *tallyJob) publish(t testing.TB) columnar.BarrierCut {
	t.Helper()
	p := j.publisher(t, j.group, j.barriers, []string{j.in})
	cut := publish(t, p)
	if err := p.Close(); err != nil {
		t.Fatalf("close publisher: %v", err)
	}
	return cut
}

// aligning makes a member align on the cuts of the job.
func (j *tallyJob) aligning(t testing.TB) columnar.GroupRunnerOption {
	t.Helper()
	cuts, err := columnar.NewCutReader(j.reader(t), 1, columnar.WithCutTopic(j.barriers))
	if err != nil {
		t.Fatal(err)
	}
	return columnar.WithBarrierGroup(j.group, cuts)
}

// eachMode runs a test at least once and exactly once.
func eachMode(test func(*testing.T, *tallyJob)) func(*testing.T, cluster) {
	return func(t *testing.T, c cluster) {
		for _, exact := range []bool{false, true} {
			t.Run(map[bool]string{true: "exactly once", false: "at least once"}[exact], func(t *testing.T) {
				test(t, newTallyJob(t, c, exact))
			})
		}
	}
}

// isPassing reports whether err is that of a fault, and may be tried again.
func isPassing(err error, p point) bool {
	return errors.Is(err, passing{p}) && columnar.IsRetriable(err)
}

// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

const (
	// memoryLimit is what the process of [TestMemoryStaysBounded] may use.
	memoryLimit = 256 << 20
	// memoryBudget is what its runner may hold for a barrier.
	memoryBudget = 64 << 20
	largeValue   = 150_000
	// acksBlock is how long nothing is acknowledged: longer than the session.
	acksBlock   = 8 * time.Second
	largeBefore = 10   // records of partition 0 before its cut
	largeBehind = 800  // and behind it
	largeLag    = 1200 // records of partition 1 before its cut
)

// memoryVariable holds the memoryConfig of a process.
const memoryVariable = "KRABKA_TEST_MEMORY"

type memoryConfig struct {
	Brokers           []string
	In, Out, Barriers string
	Group, StateDir   string
}

// memoryReport is what such a process found, as it prints it.
type memoryReport struct {
	Peak          int64 // of its memory, as the system counts it
	Held          int64 // at most, for the barrier
	Lost, Revoked int64
	Paused        bool // and resumed, partition 0
	Barriers      int64
}

// slowMember is a member whose first records are acknowledged late.
type slowMember struct {
	*kafka.Member
	slow            atomic.Bool
	paused, resumed atomic.Bool
}

func (m *slowMember) Send(topic string, record columnar.ProduceRecord, done func(error)) {
	if m.slow.Load() {
		m.Member.Send(topic, record, func(err error) {
			time.AfterFunc(acksBlock, func() {
				m.slow.Store(false)
				done(err)
			})
		})
		return
	}
	m.Member.Send(topic, record, done)
}

func (m *slowMember) Pause(partitions []columnar.TopicPartition) {
	m.paused.Store(true)
	m.Member.Pause(partitions)
}

func (m *slowMember) Resume(partitions []columnar.TopicPartition) {
	m.resumed.Store(m.paused.Load())
	m.Member.Resume(partitions)
}

// names passes on the first ten bytes of each value.
func names(ctx *columnar.Context, batch arrow.RecordBatch) error {
	builder := array.NewRecordBuilder(ctx.Allocator(), arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.BinaryTypes.String}}, nil))
	defer builder.Release()
	values := batch.Column(0).(*array.String)
	for row := range values.Len() {
		builder.Field(0).(*array.StringBuilder).Append(values.Value(row)[:10])
	}
	ctx.Forward(builder.NewRecordBatch())
	return nil
}

// runHeavy is the process: it processes everything and reports.
func runHeavy() error {
	var config memoryConfig
	if err := json.Unmarshal([]byte(os.Getenv(memoryVariable)), &config); err != nil {
		return fmt.Errorf("%s: %w", memoryVariable, err)
	}
	brokers := kgo.SeedBrokers(config.Brokers...)
	reader, err := kafka.NewReader(brokers)
	if err != nil {
		return err
	}
	defer reader.Close()
	cuts, err := columnar.NewCutReader(reader, 1, columnar.WithCutTopic(config.Barriers))
	if err != nil {
		return err
	}
	client, err := kafka.NewMember(config.Group, brokers, kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	member := &slowMember{Member: client}
	member.slow.Store(true)
	mem := memory.DefaultAllocator
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.BinaryTypes.String}}, nil)
	read, err := columnar.NewJSONCodec(mem, schema)
	if err != nil {
		return err
	}
	write, err := columnar.NewJSONCodec(mem, nil)
	if err != nil {
		return err
	}
	topology := columnar.NewTopology(mem)
	source, err := topology.AddSource("values", []string{config.In}, read)
	if err != nil {
		return err
	}
	named, err := topology.AddProcessor("names", func() columnar.Processor { return columnar.ProcessorFunc(names) }, source)
	if err != nil {
		return err
	}
	if _, err := topology.AddSink("names of values", config.Out, write, named); err != nil {
		return err
	}
	runner, err := columnar.NewGroupRunner(topology, member, member, columnar.WithBarrierGroup(config.Group, cuts),
		columnar.WithStateStore(columnar.NewFileStateStore(config.StateDir)),
		columnar.WithHeldBytes(memoryBudget), columnar.WithMaxPollRecords(100))
	if err != nil {
		return err
	}
	var report memoryReport
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for runner.Metrics().Snapshot().InputRecords < largeBefore+largeBehind+largeLag {
		if _, err := runner.RunOnce(ctx, 250*time.Millisecond); err != nil {
			return err
		}
		report.Held = max(report.Held, runner.Stats().HeldBytes)
	}
	stats := runner.Stats()
	report.Lost, report.Revoked, report.Barriers = stats.PartitionsLost, stats.PartitionsRevoked, stats.Barriers
	report.Paused = member.resumed.Load()
	if err := runner.Close(); err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if peak == nil {
		return fmt.Errorf("no VmHWM in %s", status)
	}
	kilobytes, err := strconv.ParseInt(string(peak[1]), 10, 64)
	if err != nil {
		return err
	}
	report.Peak = kilobytes << 10
	return json.NewEncoder(os.Stdout).Encode(report)
}

// A producer is not acknowledged for longer than a session lasts, and then one
// partition reaches its cut while the other is far behind: more data than the
// process may use memory waits in both. It pauses what runs ahead, keeps its
// partitions, and loses nothing.
func TestMemoryStaysBounded(t *testing.T) {
	t.Parallel()
	c := startBroker(t)
	config := memoryConfig{
		Brokers: c.brokers, In: c.topic(t, 2), Out: c.topic(t, 1), Barriers: unique("barriers"),
		Group: unique("heavy"), StateDir: t.TempDir(),
	}
	c.publisher(t, config.Group, config.Barriers, []string{config.In})
	// Full batches, of six values: the cut is inside one, so that the member gets
	// more than it may process.
	client := c.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ManualFlushing())
	filler := strings.Repeat("x", largeValue)
	var want []string
	failed := make(chan error, 1)
	for partition, records := range []int{largeBefore + largeBehind, largeLag} {
		for i := range records {
			name := fmt.Sprintf("%d-%08d", partition, i)
			want = append(want, fmt.Sprintf(`{"v":%q}`, name))
			record := &kgo.Record{Topic: config.In, Partition: int32(partition), Value: []byte(`{"v":"` + name + filler + `"}`)}
			client.Produce(t.Context(), record, func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
			if i%60 == 59 {
				if err := client.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	key, value, err := columnar.EncodeBarrierCut(columnar.BarrierCut{Group: config.Group, Epoch: 1, Offsets: map[columnar.TopicPartition]int64{
		at(config.In, 0): largeBefore, at(config.In, 1): largeLag,
	}})
	if err != nil {
		t.Fatal(err)
	}
	client.Produce(t.Context(), &kgo.Record{Topic: config.Barriers, Key: key, Value: value}, nil)
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		t.Fatalf("produce: %v", err)
	default:
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	out, err := kafkatest.Program("heavy", memoryVariable+"="+string(text), fmt.Sprintf("GOMEMLIMIT=%d", memoryLimit)).Output()
	if err != nil {
		t.Fatalf("the process ended with %v: %s", err, out)
	}
	var report memoryReport
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("report %q: %v", out, err)
	}
	t.Logf("peak %d MiB, held %d MiB, %v", report.Peak>>20, report.Held>>20, time.Since(begun))
	if report.Peak > memoryLimit*memoryFactor {
		t.Errorf("the process used %d MiB, want at most %d", report.Peak>>20, memoryLimit*memoryFactor>>20)
	}
	if report.Held == 0 || report.Held > memoryBudget {
		t.Errorf("%d MiB were held, want some and at most %d", report.Held>>20, memoryBudget>>20)
	}
	if took := time.Since(begun); took < acksBlock {
		t.Errorf("the process took %v, want acknowledgements to block for %v", took, acksBlock)
	}
	report.Peak, report.Held = 0, 0
	if diff := cmp.Diff(memoryReport{Paused: true, Barriers: 1}, report); diff != "" {
		t.Errorf("report mismatch (-want +got):\n%s", diff)
	}
	got := c.values(t, config.Out)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

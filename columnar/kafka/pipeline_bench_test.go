// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/internal/nexgen"
)

// BenchmarkPipeline drains a backlog of bids through a whole service, from the
// fetch to the committed answer, and checks the answer. The naive twin is the
// loop that one would write with the client alone: encoding/json into a struct,
// and a Go map. Figures are per second of CPU time of this process; the broker
// runs in another one, or is that of KAFKA_BROKERS. BENCH_EVENTS sets how many
// events the backlog comes from.
//
// The runner commits after every poll, the loop after a poll once 100 ms have
// passed. "exactly-once" commits in transactions.
func BenchmarkPipeline(b *testing.B) { benchPipeline(b, jsonRecords()) }

// BenchmarkAvroPipeline is BenchmarkPipeline for records in Avro, in the frames of a
// registry: package columnarschema beside a loop that reads and writes structs with
// the library github.com/twmb/avro.
func BenchmarkAvroPipeline(b *testing.B) { benchPipeline(b, avroRecords()) }

func benchPipeline(b *testing.B, format recordFormat) {
	c, events, backlog := benchBacklog(b, format)
	for _, query := range queries {
		want := answerDigest(b, query, events)
		for _, mode := range []string{"at-least-once", "exactly-once"} {
			for _, engine := range []struct {
				name string
				run  func(*testing.B, pass) time.Duration
			}{{"naive", runLoop}, {"columnar", runColumnar}} {
				b.Run(query+"/"+mode+"/"+engine.name, func(b *testing.B) {
					var cpu time.Duration
					records, peak := 0, 0.0
					for b.Loop() {
						p := pass{
							cluster: c, format: format, bids: backlog.topic, records: backlog.records, query: query,
							exact: mode == "exactly-once", out: c.lastingTopic(b),
						}
						forgetPeak(b)
						cpu += engine.run(b, p)
						peak = max(peak, peakMB(b))
						records += backlog.records
						if got := p.digest(b); got != want {
							b.Fatalf("digest of the answer is %s, want %s", got, want)
						}
					}
					b.ReportMetric(float64(records)/cpu.Seconds(), "records/cpu-s")
					b.ReportMetric(peak, "peak-MB")
				})
			}
		}
	}
}

// BenchmarkTransactionCost compares what a runner costs exactly once and at
// least once, with a round each 100 ms. Both modes take turns in one run;
// overhead-% is how much more CPU time exactly once needs.
func BenchmarkTransactionCost(b *testing.B) {
	format := jsonRecords()
	c, events, backlog := benchBacklog(b, format)
	for _, query := range queries {
		want := answerDigest(b, query, events)
		b.Run(query, func(b *testing.B) {
			var cpu [2]time.Duration // at least once, exactly once
			records := 0
			for b.Loop() {
				for mode := range cpu {
					p := pass{
						cluster: c, format: format, bids: backlog.topic, records: backlog.records, query: query,
						exact: mode == 1, out: c.lastingTopic(b), every: commitInterval,
					}
					cpu[mode] += runColumnar(b, p)
					if got := p.digest(b); got != want {
						b.Fatalf("digest of the answer is %s, want %s", got, want)
					}
				}
				records += backlog.records
			}
			b.ReportMetric(float64(records)/cpu[0].Seconds(), "at-least-once-records/cpu-s")
			b.ReportMetric(float64(records)/cpu[1].Seconds(), "exactly-once-records/cpu-s")
			b.ReportMetric(100*(cpu[1].Seconds()/cpu[0].Seconds()-1), "overhead-%")
		})
	}
}

// queries are the queries of the pipeline benchmarks.
var queries = []string{"q0", "q2", "q12e"}

// benchBacklog returns the cluster of the pipeline benchmarks with a backlog of
// bids from so many events.
func benchBacklog(b *testing.B, format recordFormat) (c cluster, events int64, filled backlog) {
	b.Helper()
	events = 50_000
	if text := os.Getenv("BENCH_EVENTS"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			b.Fatalf("BENCH_EVENTS: %v", err)
		}
		events = n
	}
	c = cluster{brokers: strings.Split(os.Getenv("KAFKA_BROKERS"), ",")}
	if c.brokers[0] == "" {
		c = startBroker(b)
	}
	return c, events, loadBids(b, c, format, events)
}

const (
	bidPartitions  = 4
	commitInterval = 100 * time.Millisecond
	// pacedRecords are the records of a round that does not follow the one before
	// at once.
	pacedRecords = 10_000
)

// backlog is a topic full of bids.
type backlog struct {
	topic   string
	records int
}

// pass is one run of one query over a backlog.
type pass struct {
	cluster
	format  recordFormat
	bids    string
	records int
	query   string
	exact   bool
	out     string
	every   time.Duration // between the rounds of a runner; 0 for one after the other
}

// loadBids fills a topic with the bids among the first events. A bidder's bids
// share a partition.
func loadBids(b testing.TB, c cluster, format recordFormat, events int64) backlog {
	b.Helper()
	filled := backlog{topic: c.lastingTopic(b)}
	client := c.client(b, kgo.DefaultProduceTopic(filled.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.UnknownTopicRetries(-1))
	var failed atomic.Pointer[error]
	for id := range events {
		bid, ok := nexgen.BidAt(id)
		if !ok {
			continue
		}
		filled.records++
		client.Produce(context.Background(), &kgo.Record{
			Key:       binary.BigEndian.AppendUint64(nil, uint64(bid.Bidder)),
			Value:     format.bid(&bid),
			Partition: int32(bid.Bidder % bidPartitions),
			Timestamp: time.UnixMilli(bid.TS),
		}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		b.Fatalf("load bids: %v", err)
	}
	if err := failed.Load(); err != nil {
		b.Fatalf("load bids: %v", *err)
	}
	return filled
}

// lastingTopic creates a topic for records of the workload, whose timestamps lie
// so far back that a broker deletes them where nothing else is said.
func (c cluster) lastingTopic(b testing.TB) string {
	b.Helper()
	name, forever := unique("topic"), "-1"
	resp, err := c.admin(b).CreateTopic(b.Context(), bidPartitions, 1, map[string]*string{"retention.ms": &forever}, name)
	if err == nil {
		err = resp.Err
	}
	if err != nil {
		b.Fatalf("create topic %s: %v", name, err)
	}
	return name
}

func answerDigest(b testing.TB, query string, events int64) string {
	b.Helper()
	lines, err := nexgen.Answer(query, events)
	if err != nil {
		b.Fatal(err)
	}
	return nexgen.Digest(lines)
}

// digest reads back what the pass committed. Of several counts of one window
// the last one is the answer.
func (p pass) digest(b testing.TB) string {
	b.Helper()
	counts := map[[2]int64]int64{}
	var lines []string
	for _, record := range p.readCommitted(b, p.out) {
		switch p.query {
		case "q0":
			row := read[bidRow](b, p.format, record)
			lines = append(lines, nexgen.Line(row.Auction, row.Bidder, row.Price, row.TS))
		case "q2":
			row := read[priceRow](b, p.format, record)
			lines = append(lines, nexgen.Line(row.Auction, row.Price))
		case "q12e":
			row := read[countRow](b, p.format, record)
			counts[[2]int64{row.Bidder, row.Start}] = row.Count
		}
	}
	for w, n := range counts {
		lines = append(lines, nexgen.Line(w[0], w[1], n))
	}
	return nexgen.Digest(lines)
}

// read decodes the value of an answer.
func read[T any](b testing.TB, format recordFormat, record *kgo.Record) T {
	b.Helper()
	var row T
	if err := format.decode(record.Value, &row); err != nil {
		b.Fatalf("answer %d/%d: %v", record.Partition, record.Offset, err)
	}
	return row
}

// readCommitted returns the committed records of a topic, partition by
// partition, once no transaction is open in it.
func (c cluster) readCommitted(b testing.TB, topic string) []*kgo.Record {
	b.Helper()
	ctx := within(b)
	client := c.client(b, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	left := c.settledEnds(b, topic)
	byPartition := map[int32][]*kgo.Record{}
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			b.Fatalf("read %s: %v", topic, err)
		}
		for _, record := range fetches.Records() {
			if record.Offset+1 >= left[record.Partition] {
				delete(left, record.Partition)
			}
			if !record.Attrs.IsControl() {
				byPartition[record.Partition] = append(byPartition[record.Partition], record)
			}
		}
	}
	var records []*kgo.Record
	for _, partition := range slices.Sorted(maps.Keys(byPartition)) {
		records = append(records, byPartition[partition]...)
	}
	return records
}

// settledEnds returns the end offsets of the partitions that hold something,
// once every transaction in them has its marker.
func (c cluster) settledEnds(b testing.TB, topic string) map[int32]int64 {
	b.Helper()
	admin, ctx := c.admin(b), within(b)
	for {
		stable, err := admin.ListCommittedOffsets(ctx, topic)
		if err != nil {
			b.Fatalf("stable offsets of %s: %v", topic, err)
		}
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err != nil {
			b.Fatalf("end offsets of %s: %v", topic, err)
		}
		settled := map[int32]int64{}
		open := false
		for partition, end := range ends[topic] {
			open = open || stable[topic][partition].Offset < end.Offset
			if end.Offset > 0 {
				settled[partition] = end.Offset
			}
		}
		if !open {
			return settled
		}
	}
}

// cpuTime is the CPU time that this process has used.
func cpuTime(b testing.TB) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// runColumnar drains the backlog through a runner and returns the CPU time from
// the first record to the last commit.
func runColumnar(b *testing.B, p pass) time.Duration {
	id := unique("columnar")
	options := []kgo.Opt{kgo.SeedBrokers(p.brokers...), kgo.ProducerBatchCompression(kgo.NoCompression())}
	var (
		member interface {
			columnar.Consumer
			columnar.Producer
			Close() error
		}
		err error
	)
	if p.exact {
		member, err = kafka.NewTransactionalMember(id, id, options...)
	} else {
		member, err = kafka.NewMember(id, options...)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer member.Close()
	settings := []columnar.GroupRunnerOption{columnar.WithStateStore(columnar.NewFileStateStore(b.TempDir()))}
	var next <-chan time.Time
	if p.every > 0 {
		settings = append(settings, columnar.WithMaxPollRecords(pacedRecords))
		ticker := time.NewTicker(p.every)
		defer ticker.Stop()
		next = ticker.C
	}
	runner, err := columnar.NewGroupRunner(p.format.topology(b, p), member, member, settings...)
	if err != nil {
		b.Fatal(err)
	}
	defer runner.Close()
	round := runner.RunOnce
	if p.exact {
		round = runner.RunOnceTransactional
	}
	ctx := within(b)
	start := cpuTime(b)
	for runner.Metrics().Snapshot().InputRecords < int64(p.records) {
		if p.every > 0 {
			<-next
		}
		if _, err := round(ctx, time.Second); err != nil {
			b.Fatal(err)
		}
	}
	return cpuTime(b) - start
}

// loop is the naive service.
type loop struct {
	pass
	client  *kgo.Client
	session *kgo.GroupTransactSession
	open    bool
	counts  map[[2]int64]int64
	changed map[[2]int64]bool
	failed  atomic.Pointer[error]
}

// runLoop drains the backlog through the naive loop.
func runLoop(b *testing.B, p pass) time.Duration {
	id := unique("naive")
	options := []kgo.Opt{
		kgo.SeedBrokers(p.brokers...), kgo.ConsumeTopics(p.bids), kgo.ConsumerGroup(id), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DefaultProduceTopic(p.out), kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	l := &loop{pass: p, counts: map[[2]int64]int64{}, changed: map[[2]int64]bool{}}
	var err error
	if p.exact {
		if l.session, err = kgo.NewGroupTransactSession(append(options, kgo.TransactionalID(id))...); err == nil {
			l.client = l.session.Client()
		}
	} else {
		l.client, err = kgo.NewClient(options...)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer l.client.CloseAllowingRebalance()
	ctx := within(b)
	start, last, done := cpuTime(b), time.Now(), 0
	for done < p.records {
		fetches := l.client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			b.Fatal(err)
		}
		if p.exact && !l.open {
			if err := l.session.Begin(); err != nil {
				b.Fatal(err)
			}
			l.open = true
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if err := l.process(r); err != nil {
				b.Fatal(err)
			}
		})
		done += fetches.NumRecords()
		if done < p.records && time.Since(last) < commitInterval {
			continue
		}
		if err := l.commit(ctx); err != nil {
			b.Fatal(err)
		}
		last = time.Now()
	}
	return cpuTime(b) - start
}

func (l *loop) process(r *kgo.Record) error {
	var bid bidRow
	if err := l.format.decode(r.Value, &bid); err != nil {
		return err
	}
	switch l.query {
	case "q0":
		return l.produce(r.Key, &bid, r.Timestamp)
	case "q2":
		if bid.Auction%123 == 0 {
			return l.produce(r.Key, &priceRow{bid.Auction, bid.Price}, r.Timestamp)
		}
	case "q12e":
		w := [2]int64{bid.Bidder, bid.TS - bid.TS%nexgen.WindowMillis}
		l.counts[w]++
		l.changed[w] = true
	}
	return nil
}

func (l *loop) produce(key []byte, row any, at time.Time) error {
	value, err := l.format.encode(row)
	if err != nil {
		return err
	}
	l.client.Produce(context.Background(), &kgo.Record{Key: key, Value: value, Timestamp: at}, func(_ *kgo.Record, err error) {
		if err != nil {
			l.failed.CompareAndSwap(nil, &err)
		}
	})
	return nil
}

func (l *loop) commit(ctx context.Context) error {
	for w := range l.changed {
		key := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(w[0])), uint64(w[1]))
		if err := l.produce(key, &countRow{w[0], w[1], l.counts[w]}, time.UnixMilli(w[1])); err != nil {
			return err
		}
	}
	clear(l.changed)
	defer l.client.AllowRebalance()
	if l.exact {
		l.open = false
		committed, err := l.session.End(ctx, kgo.TryCommit)
		if err == nil && !committed {
			err = fmt.Errorf("transaction aborted")
		}
		return err
	}
	if err := l.client.Flush(ctx); err != nil {
		return err
	}
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return l.client.CommitUncommittedOffsets(ctx)
}

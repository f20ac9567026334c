// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// ledgerCodec is an [amountCodec] that names the records it cannot read: those
// with the value "!", and with the value "?" for a reason that may pass.
type ledgerCodec struct{ amountCodec }

type passingError struct{ error }

func (passingError) Retriable() bool { return true }

var errSchemaPending = passingError{errors.New("schema is being fetched")}

func (c ledgerCodec) Decode(topic string, records []ConsumedRecord) (arrow.RecordBatch, error) {
	bad := failures{topic: topic, records: records}
	for i := range records {
		switch string(records[i].Value) {
		case "!":
			bad.add(i, errUnreadable)
		case "?":
			bad.add(i, errSchemaPending)
		}
	}
	if err := bad.err(); err != nil {
		return nil, err
	}
	return c.amountCodec.Decode(topic, records)
}

// ledger adds up amounts by user, and passes on each user with the new total.
// A negative amount is an error that names no record.
type ledger struct {
	mem    memory.Allocator
	totals map[string]int64
}

var errNegative = errors.New("negative amount")

func newLedger() Processor { return &ledger{mem: memory.DefaultAllocator, totals: map[string]int64{}} }

func (l *ledger) Process(ctx *Context, batch arrow.RecordBatch) error {
	users, amounts := batch.Column(0).(*array.String), batch.Column(1).(*array.Int64)
	out, totals := array.NewStringBuilder(l.mem), array.NewInt64Builder(l.mem)
	defer out.Release()
	defer totals.Release()
	for row := range int(batch.NumRows()) {
		if amounts.Value(row) < 0 {
			return errNegative
		}
		user := strings.Clone(users.Value(row))
		l.totals[user] += amounts.Value(row)
		out.Append(user)
		totals.Append(l.totals[user])
	}
	columns := []arrow.Array{out.NewArray(), totals.NewArray()}
	defer arrays.Release(columns)
	ctx.Forward(array.NewRecordBatch(amountSchema, columns, batch.NumRows()))
	return nil
}

func (l *ledger) Snapshot() ([]byte, error) {
	var lines []string
	for _, user := range slices.Sorted(maps.Keys(l.totals)) {
		lines = append(lines, fmt.Sprintf("%s=%d", user, l.totals[user]))
	}
	return []byte(strings.Join(lines, " ")), nil
}

func (l *ledger) Restore(snapshot []byte) error {
	totals := map[string]int64{}
	for _, line := range strings.Fields(string(snapshot)) {
		user, total, ok := strings.Cut(line, "=")
		amount, err := strconv.ParseInt(total, 10, 64)
		if !ok || err != nil {
			return fmt.Errorf("ledger line %q", line)
		}
		totals[user] = amount
	}
	l.totals = totals
	return nil
}

// counter counts rows in eight bytes.
type counter struct{ rows uint64 }

func (c *counter) Process(ctx *Context, batch arrow.RecordBatch) error {
	c.rows += uint64(batch.NumRows())
	ctx.Forward(batch)
	return nil
}

func (c *counter) Snapshot() ([]byte, error) { return binary.BigEndian.AppendUint64(nil, c.rows), nil }

func (c *counter) Restore(snapshot []byte) error {
	c.rows = binary.BigEndian.Uint64(snapshot)
	return nil
}

func counted(rows uint64) map[string][]byte {
	return map[string][]byte{"counter": binary.BigEndian.AppendUint64(nil, rows)}
}

// through is a topology of topics -> node -> out.
func through(tb testing.TB, node string, processor func() Processor, topics ...string) *Topology {
	tb.Helper()
	codec := ledgerCodec{amountCodec{memory.DefaultAllocator}}
	topology := NewTopology(memory.DefaultAllocator)
	source := must[Node](tb)(topology.AddSource("source", topics, codec))
	parent := must[Node](tb)(topology.AddProcessor(node, processor, source))
	must[Node](tb)(topology.AddSink("sink", "out", codec, parent))
	return topology
}

func countingTopology(tb testing.TB) *Topology {
	return through(tb, "counter", func() Processor { return &counter{} }, "in")
}

func ledgerTopology(tb testing.TB) *Topology {
	return through(tb, "ledger", newLedger, "in")
}

func newTestRunner(tb testing.TB, topology *Topology, consumer Consumer, producer Producer, options ...GroupRunnerOption) *GroupRunner {
	tb.Helper()
	r, err := NewGroupRunner(topology, consumer, producer, append([]GroupRunnerOption{savingAtOnce}, options...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	return r
}

// savingAtOnce makes a runner write state in place of beside its rounds, so that a
// round has stored its snapshots when it returns.
func savingAtOnce(r *GroupRunner) {
	r.settings.beside = func(work func()) func(context.Context) bool {
		work()
		return func(context.Context) bool { return true }
	}
}

// in is a partition of the topic "in".
func in(partition int) TopicPartition { return TopicPartition{"in", partition} }

// rows makes records with the values at consecutive offsets.
func rows(partition int, offset int64, values ...string) []ConsumedRecord {
	records := make([]ConsumedRecord, len(values))
	for i, value := range values {
		records[i] = ConsumedRecord{
			Key: []byte("k"), Value: []byte(value), Timestamp: offset + int64(i), Partition: partition, Offset: offset + int64(i),
		}
	}
	return records
}

// stretch makes records with offsets from first up to, not including, end.
func stretch(partition int, first, end int64) []ConsumedRecord {
	values := make([]string, end-first)
	for i := range values {
		values[i] = "ada 1"
	}
	return rows(partition, first, values...)
}

// recordingStore is a [StateStore] without positions that records its calls.
type recordingStore struct {
	mu       sync.Mutex
	states   map[[2]int64]map[string][]byte
	loaded   [][2]int64
	saved    [][2]int64
	loadErr  error
	saveErr  error
	onSave   func(epoch int64)
	failures int // of saveErr that are left; negative for ever
}

func (s *recordingStore) Load(partition int, epoch int64) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]int64{int64(partition), epoch}
	s.loaded = append(s.loaded, key)
	if s.loadErr != nil {
		return nil, s.loadErr
	}
	return maps.Clone(s.states[key]), nil
}

func (s *recordingStore) Save(partition int, epoch int64, snapshot map[string][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onSave != nil {
		s.onSave(epoch)
	}
	if s.saveErr != nil && s.failures != 0 {
		s.failures--
		return s.saveErr
	}
	key := [2]int64{int64(partition), epoch}
	s.saved = append(s.saved, key)
	if s.states == nil {
		s.states = map[[2]int64]map[string][]byte{}
	}
	s.states[key] = maps.Clone(snapshot)
	return nil
}

// recordingProducer is a [Producer] that acknowledges at once.
type recordingProducer struct {
	mu      sync.Mutex
	sent    []ProducedToTopic
	sendErr error
}

func (p *recordingProducer) Send(topic string, record ProduceRecord, done func(error)) {
	p.mu.Lock()
	err := p.sendErr
	if err == nil {
		p.sent = append(p.sent, ProducedToTopic{Topic: topic, Record: record})
	}
	p.mu.Unlock()
	done(err)
}

// values returns what was sent to a topic, and forgets it.
func (p *recordingProducer) values(topic string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var values []string
	for _, output := range p.sent {
		if output.Topic == topic {
			values = append(values, string(output.Record.Value))
		}
	}
	p.sent = nil
	return values
}

// recordingTransactions is a [TransactionalProducer] that records the calls.
type recordingTransactions struct {
	recordingProducer
	events   []string
	offsets  map[TopicPartition]int64
	metadata any
	failWith map[string]error // by event
}

func (p *recordingTransactions) event(name string) error {
	p.events = append(p.events, name)
	return p.failWith[name]
}

func (p *recordingTransactions) BeginTransaction() error { return p.event("begin") }

func (p *recordingTransactions) SendOffsets(offsets map[TopicPartition]int64, metadata any) error {
	p.offsets, p.metadata = offsets, metadata
	return p.event("send-offsets")
}

func (p *recordingTransactions) CommitTransaction() error { return p.event("commit") }

func (p *recordingTransactions) AbortTransaction() error { return p.event("abort") }

// cutsOf is a reader of cuts of the group "audit", one epoch each.
func cutsOf(tb testing.TB, cuts map[int64]map[TopicPartition]int64) *CutReader {
	tb.Helper()
	var records []ConsumedRecord
	for i, epoch := range slices.Sorted(maps.Keys(cuts)) {
		records = append(records, cutRecord(tb, "audit", epoch, cuts[epoch], int64(i)))
	}
	return newReader(tb, &scriptedConsumer{fetches: []fetch{{barrierTP(0): records}}}, 1)
}

// runOnce runs a round that has to succeed.
func runOnce(tb testing.TB, r *GroupRunner) map[TopicPartition]int64 {
	tb.Helper()
	offsets, err := r.RunOnce(tb.Context(), 0)
	if err != nil {
		tb.Fatalf("RunOnce: %v", err)
	}
	return offsets
}

// forwardAll is a processor that passes its input on.
func forwardAll(ctx *Context, batch arrow.RecordBatch) error {
	ctx.Forward(batch)
	return nil
}

// lenientLedger is a ledger that takes negative amounts.
type lenientLedger struct{ ledger }

func (l *lenientLedger) Process(ctx *Context, batch arrow.RecordBatch) error {
	users, amounts := batch.Column(0).(*array.String), batch.Column(1).(*array.Int64)
	for row := range int(batch.NumRows()) {
		l.totals[strings.Clone(users.Value(row))] += amounts.Value(row)
	}
	return nil
}

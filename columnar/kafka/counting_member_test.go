// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/internal/nexgen"
)

// memberVariable holds the memberConfig of a member process.
const memberVariable = "KRABKA_TEST_MEMBER"

// memberUp is what a member process prints when it handles signals.
const memberUp = "up"

// fencedStatus is the exit status of a member that a newer owner has fenced, at
// the broker or at the state store.
const fencedStatus = 3

// memberConfig is what a member process is told.
type memberConfig struct {
	Brokers  []string
	Bids     string
	Counts   string
	Group    string
	ID       string // transactional id and, where Static, instance id
	Exact    bool   // exactly once
	Static   bool   // a restart takes the place of the process before
	StateDir string
	Session  time.Duration
	// TransactionTimeout is for transactions; 0 leaves the client's default.
	TransactionTimeout time.Duration
	// Poll bounds the records of a round, so that there are many rounds.
	Poll int

	// Silent emits the counts of a window when it closes, which an advance of time
	// does in a round of its own: to Until once all bids are counted, or by Idle.
	Silent bool
	Until  int64
	Idle   time.Duration

	// The process sends itself Signal when it reaches Seam for the Nth time.
	Seam   seam
	Nth    int
	Signal syscall.Signal
}

// seam is a point in a round at which a process can end.
type seam string

const (
	beforeSend    seam = "before send"
	afterSend     seam = "after send, before the snapshot"
	afterSnapshot seam = "after the snapshot, before the offsets"
	afterOffsets  seam = "after the offsets, before the commit"
	afterCommit   seam = "after the commit, before the epoch closes"
	afterJournal  seam = "after the journal, before the offsets"
)

// memberAdvanced is what a silent member prints when it has advanced time.
const memberAdvanced = "advanced"

// trap ends or stops the process at a seam of a round that fires a barrier, or of
// a silent member, that advances time. The first three seams come before it is
// known whether a round fires: beforeSend counts all rounds.
//
// A store saves beside the rounds, so that several goroutines get to seams.
type trap struct {
	memberConfig

	mu      sync.Mutex // guards what follows
	sent    bool       // in this round
	firing  bool       // this round saved an epoch, or advances time
	reached int
}

func (t *trap) at(s seam) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reach(s)
}

// reach is at for a holder of mu.
func (t *trap) reach(s seam) {
	if s != t.Seam || s != beforeSend && s != afterSend && !t.firing {
		return
	}
	if t.reached++; t.reached != t.Nth {
		return
	}
	fmt.Println("at", s)
	if err := syscall.Kill(os.Getpid(), t.Signal); err != nil {
		panic(err)
	}
}

func (t *trap) send() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.sent {
		t.sent, t.firing = true, t.Silent
		t.reach(beforeSend)
	}
}

// save is the seam before the save of an epoch.
func (t *trap) save() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reach(afterSend)
	t.firing = true
}

// fires reports whether this round saved an epoch, or advances time.
func (t *trap) fires() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.firing
}

func (t *trap) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent, t.firing = false, false
}

// trappedStore is a state store with a trap before and behind barrier snapshots.
type trappedStore struct {
	*columnar.FileStateStore
	trap *trap
}

func (s trappedStore) SaveSnapshot(ctx context.Context, info columnar.SnapshotInfo, state map[string][]byte) (columnar.SnapshotInfo, error) {
	if info.Epoch != columnar.NoEpoch {
		s.trap.save()
	}
	return s.FileStateStore.SaveSnapshot(ctx, info, state)
}

func (s trappedStore) AppendRound(ctx context.Context, partition int, generation int64, round []byte) error {
	if s.trap.fires() {
		s.trap.at(afterSend)
	}
	err := s.FileStateStore.AppendRound(ctx, partition, generation, round)
	s.trap.at(afterJournal)
	return err
}

// trappedMember is an at-least-once member with traps.
type trappedMember struct {
	*kafka.Member
	trap *trap
}

func (m trappedMember) Send(topic string, record columnar.ProduceRecord, done func(error)) {
	m.trap.send()
	m.Member.Send(topic, record, done)
}

func (m trappedMember) CommitOffsets(ctx context.Context, offsets map[columnar.TopicPartition]int64) error {
	m.trap.at(afterSnapshot)
	m.trap.at(afterOffsets)
	err := m.Member.CommitOffsets(ctx, offsets)
	m.trap.at(afterCommit)
	m.trap.end()
	return err
}

// trappedTransactionalMember is an exactly-once member with traps.
type trappedTransactionalMember struct {
	*kafka.TransactionalMember
	trap *trap
}

func (m trappedTransactionalMember) Send(topic string, record columnar.ProduceRecord, done func(error)) {
	m.trap.send()
	m.TransactionalMember.Send(topic, record, done)
}

func (m trappedTransactionalMember) SendOffsetsNoted(ctx context.Context, offsets map[columnar.TopicPartition]int64, notes map[columnar.TopicPartition]string, metadata any) error {
	m.trap.at(afterSnapshot)
	return m.TransactionalMember.SendOffsetsNoted(ctx, offsets, notes, metadata)
}

func (m trappedTransactionalMember) CommitTransactionContext(ctx context.Context) error {
	m.trap.at(afterOffsets)
	err := m.TransactionalMember.CommitTransactionContext(ctx)
	m.trap.at(afterCommit)
	m.trap.end()
	return err
}

// runMember is the member process: it counts bids per bidder and window until it
// gets SIGTERM, and then leaves orderly.
func runMember() error {
	var config memberConfig
	if err := json.Unmarshal([]byte(os.Getenv(memberVariable)), &config); err != nil {
		return fmt.Errorf("%s: %w", memberVariable, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println(memberUp)
	err := config.run(ctx)
	if errors.As(err, new(*columnar.FencedError)) || errors.As(err, new(*columnar.StaleOwnerError)) {
		fmt.Fprintln(os.Stderr, "fenced:", err)
		os.Exit(fencedStatus)
	}
	return err
}

func (c memberConfig) run(ctx context.Context) error {
	topology, err := c.topology()
	if err != nil {
		return err
	}
	brokers := kgo.SeedBrokers(c.Brokers...)
	options := []kgo.Opt{brokers, kgo.SessionTimeout(c.Session), kgo.HeartbeatInterval(c.Session / 10), kgo.FetchMaxWait(200 * time.Millisecond)}
	if c.Static {
		options = append(options, kgo.InstanceID(c.ID))
	}
	if c.TransactionTimeout > 0 {
		options = append(options, kgo.TransactionTimeout(c.TransactionTimeout))
	}
	reader, err := kafka.NewReader(brokers)
	if err != nil {
		return err
	}
	defer reader.Close()
	cuts, err := columnar.NewCutReader(reader, 1)
	if err != nil {
		return err
	}
	trap := &trap{memberConfig: c}
	var (
		consumer columnar.Consumer
		producer columnar.Producer
	)
	if c.Exact {
		member, err := kafka.NewTransactionalMember(c.Group, c.ID, options...)
		if err != nil {
			return err
		}
		defer member.Close()
		trapped := trappedTransactionalMember{member, trap}
		consumer, producer = trapped, trapped
	} else {
		member, err := kafka.NewMember(c.Group, options...)
		if err != nil {
			return err
		}
		defer member.Close()
		trapped := trappedMember{member, trap}
		consumer, producer = trapped, trapped
	}
	files, err := columnar.OpenFileStateStore(c.StateDir)
	if err != nil {
		return err
	}
	store := trappedStore{files, trap}
	if c.Silent {
		return c.runSilent(ctx, topology, consumer, producer, store)
	}
	runner, err := columnar.NewGroupRunner(topology, consumer, producer,
		columnar.WithStateStore(store),
		columnar.WithMaxPollRecords(c.Poll),
		columnar.WithBarrierGroup(c.Group, cuts))
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

// runSilent counts what there is, and advances time behind it.
func (c memberConfig) runSilent(ctx context.Context, topology *columnar.Topology, consumer columnar.Consumer, producer columnar.Producer, store columnar.StateStore) error {
	var recovered atomic.Int32
	options := []columnar.GroupRunnerOption{
		columnar.WithStateStore(store),
		columnar.WithHooks(columnar.Hooks{Recovery: func(columnar.RecoveryInfo) { recovered.Add(1) }}),
	}
	if c.Idle > 0 {
		options = append(options, columnar.WithIdleTimeout(c.Idle))
	}
	runner, err := columnar.NewGroupRunner(topology, consumer, producer, options...)
	if err != nil {
		return err
	}
	advanced := make(chan error, 1)
	go func() {
		advanced <- c.advance(ctx, runner, func() bool { return recovered.Load() == silentPartitions })
	}()
	err = runner.Run(ctx)
	return errors.Join(err, <-advanced)
}

// advance advances time as soon as all bids are counted.
func (c memberConfig) advance(ctx context.Context, runner *columnar.GroupRunner, recovered func() bool) error {
	if c.Until == 0 {
		return nil
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for ctx.Err() == nil {
		<-look.C
		lag, err := runner.Lag(ctx)
		if err != nil && ctx.Err() == nil && !columnar.IsRetriable(err) {
			return err
		}
		var behind int64
		for _, n := range lag {
			behind += n
		}
		if len(lag) < silentPartitions || behind > 0 || !recovered() {
			continue
		}
		if err = runner.AdvanceTime(ctx, c.Until); err == nil {
			fmt.Println(memberAdvanced)
			return nil
		}
		if ctx.Err() == nil && !columnar.IsRetriable(err) {
			return err
		}
	}
	return nil
}

func (c memberConfig) topology() (*columnar.Topology, error) {
	mem := memory.DefaultAllocator
	bids, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{{Name: "bidder", Type: arrow.PrimitiveTypes.Int64}}, nil))
	if err != nil {
		return nil, err
	}
	counts, err := columnar.NewJSONCodec(mem, nil, columnar.WithJSONKey("bidder", columnar.WindowStartColumn))
	if err != nil {
		return nil, err
	}
	window, emit := nexgen.WindowMillis*time.Millisecond, columnar.EmitChanges
	if c.Silent {
		window, emit = silentWindow, columnar.EmitFinal
	}
	count, err := columnar.NewGroupBy(mem, columnar.Grouping{
		Keys: []string{"bidder"}, Window: window, Emit: emit,
		Aggregations: []columnar.Aggregation{{Function: columnar.Count, OutputColumn: "count"}},
	})
	if err != nil {
		return nil, err
	}
	topology := columnar.NewTopology(mem)
	source, err := topology.AddSource("bids", []string{c.Bids}, bids)
	if err != nil {
		return nil, err
	}
	counted, err := topology.AddOperator("count", count, source)
	if err != nil {
		return nil, err
	}
	_, err = topology.AddSink("counts", c.Counts, counts, counted)
	return topology, err
}

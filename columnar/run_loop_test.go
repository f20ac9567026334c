// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"
)

// waitingConsumer is a [scriptedConsumer] whose polls wait for their timeout when
// there is nothing.
type waitingConsumer struct {
	scriptedConsumer
	polling func(ctx context.Context)
}

func (c *waitingConsumer) Poll(ctx context.Context, timeout time.Duration) (map[TopicPartition][]ConsumedRecord, error) {
	records, err := c.scriptedConsumer.Poll(ctx, timeout)
	if len(records) > 0 || err != nil {
		return records, err
	}
	if c.polling != nil {
		c.polling(ctx)
	}
	select {
	case <-time.After(timeout):
		return fetch{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestRunBacksOffAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passing := passingError{errors.New("registry is away")}
		consumer := &waitingConsumer{}
		consumer.pollErrs = []error{passing, passing, passing, passing, nil, passing}
		consumer.add(fetch{in(0): rows(0, 0, "ada 1")})
		producer := &recordingTransactions{}
		store := &recordingStore{}
		var at []time.Duration
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		consumer.onPoll = func(context.Context) error {
			if at = append(at, time.Since(began)); len(at) == 8 {
				cancel()
			}
			return nil
		}
		r := newTestRunner(t, ledgerTopology(t), consumer, producer, WithStateStore(store),
			WithBackoff(time.Second, 4*time.Second), WithPollTimeout(10*time.Second))
		r.OnPartitionsAssigned([]TopicPartition{in(0)})
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
		// Failures at 0, 1, 3 and 7 seconds; a success at 11; a failure at 11; an
		// empty poll from 12 to 22.
		want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 11 * time.Second, 11 * time.Second, 12 * time.Second, 22 * time.Second}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("times of the polls mismatch (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"ada 1"}, producer.values("out")); diff != "" {
			t.Errorf("outputs mismatch (-want +got):\n%s", diff)
		}
		if got := strings.Join(producer.events, " "); !strings.Contains(got, "begin send-offsets commit") || !strings.HasSuffix(got, "abort") {
			t.Errorf("events %v; want transactional rounds and the last one aborted", producer.events)
		}
		if diff := cmp.Diff([][2]int64{{0, NoEpoch}}, store.saved); diff != "" {
			t.Errorf("saves mismatch (-want +got):\n%s", diff)
		}
		if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, ErrRunnerClosed) {
			t.Errorf("RunOnce after Run = %v; want %v", err, ErrRunnerClosed)
		}
	})
}

func TestRunEndsOnErrorsThatDoNotPass(t *testing.T) {
	store := &recordingStore{saveErr: errors.New("disk is full"), failures: -1}
	consumer := &scriptedConsumer{}
	consumer.add(fetch{in(0): rows(0, 0, "!")})
	r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{}, WithStateStore(store))
	r.OnPartitionsAssigned([]TopicPartition{in(0)})
	err := r.Run(t.Context())
	if !errors.Is(err, errUnreadable) || !errors.Is(err, store.saveErr) {
		t.Errorf("Run = %v; want %v and %v of the close", err, errUnreadable, store.saveErr)
	}
	fenced := &FencedError{ID: "id", Cause: errSchemaPending}
	consumer = &scriptedConsumer{pollErrs: []error{fenced}}
	r = newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{})
	if err := r.Run(t.Context()); !errors.Is(err, fenced) || consumer.polls != 1 {
		t.Errorf("Run = %v after %d polls; want %v after one, whatever caused it", err, consumer.polls, fenced)
	}
}

func TestEndOfTheServiceIsNoFailedRound(t *testing.T) {
	for name, end := range map[string]func(r *GroupRunner, cancel context.CancelFunc){
		"context": func(_ *GroupRunner, cancel context.CancelFunc) { cancel() },
		"close":   func(r *GroupRunner, _ context.CancelFunc) { go r.Close() },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var log bytes.Buffer
			var rounds []RoundInfo
			consumer := &waitingConsumer{}
			r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{}, WithPollTimeout(time.Hour),
				WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
				WithHooks(Hooks{Round: func(info RoundInfo) { rounds = append(rounds, info) }}))
			consumer.polling = func(context.Context) { end(r, cancel) }
			if err := r.Run(ctx); err != nil {
				t.Errorf("%s: Run = %v", name, err)
			}
			stats := r.Stats()
			if len(rounds) != 0 || stats.RoundsFailed != 0 || strings.Contains(log.String(), "failed") {
				t.Errorf("%s: %d failed rounds, %v told to the hook, log %q; want none", name, stats.RoundsFailed, rounds, log.String())
			}
		})
	}
}

func TestRunLetsTheRoundInProgressFinish(t *testing.T) {
	for _, slow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			consumer := &scriptedConsumer{}
			consumer.add(fetch{in(0): rows(0, 0, "ada 1")})
			producer := producerFunc(func(_ string, _ ProduceRecord, done func(error)) {
				cancel()
				if slow {
					return
				}
				go func() {
					wait(4 * time.Second)
					done(nil)
				}()
			})
			r := newTestRunner(t, ledgerTopology(t), consumer, producer, WithCloseTimeout(5*time.Second))
			began := time.Now()
			if err := r.Run(ctx); err != nil {
				t.Errorf("Run = %v", err)
			}
			want, commits := 4*time.Second, []map[TopicPartition]int64{{in(0): 1}}
			if slow {
				want, commits = 5*time.Second, nil
			}
			if got := time.Since(began); got != want {
				t.Errorf("acknowledgements outstanding %v: Run took %v; want %v", slow, got, want)
			}
			if diff := cmp.Diff(commits, consumer.commits); diff != "" {
				t.Errorf("acknowledgements outstanding %v: commits mismatch (-want +got):\n%s", slow, diff)
			}
		})
	}
}

func TestCloseCutsAPollShortAndWaitsForARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polling := make(chan struct{})
		consumer := &waitingConsumer{polling: func(context.Context) { close(polling) }}
		store := &recordingStore{}
		r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{}, WithStateStore(store))
		r.OnPartitionsAssigned([]TopicPartition{in(1), in(0)})
		failed := make(chan error)
		go func() {
			_, err := r.RunOnce(t.Context(), time.Hour)
			failed <- err
		}()
		<-polling
		began := time.Now()
		closed := make(chan error)
		go func() { closed <- r.Close() }()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("the round that was polling = %v; want %v", err, context.Canceled)
		}
		if err := <-closed; err != nil || time.Since(began) != 0 {
			t.Errorf("Close = %v after %v", err, time.Since(began))
		}
		if diff := cmp.Diff([][2]int64{{0, NoEpoch}, {1, NoEpoch}}, store.saved); diff != "" {
			t.Errorf("saves mismatch (-want +got):\n%s", diff)
		}
		if r.Topology().HasPartition(0) {
			t.Error("Close has left state")
		}
		if err := r.Close(); err != nil || len(store.saved) != 2 {
			t.Errorf("second Close = %v with %d saves; want nothing done", err, len(store.saved))
		}
		if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, ErrRunnerClosed) {
			t.Errorf("RunOnce after Close = %v; want %v", err, ErrRunnerClosed)
		}
		r.OnPartitionsAssigned([]TopicPartition{in(5)})
		if len(store.loaded) != 2 {
			t.Errorf("loads %v; want none after Close", store.loaded)
		}
		if err := r.Run(t.Context()); !errors.Is(err, ErrRunnerClosed) {
			t.Errorf("Run after Close = %v; want %v", err, ErrRunnerClosed)
		}
	})
}

func TestCloseEndsARoundThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consumer := &scriptedConsumer{}
		consumer.add(fetch{in(0): rows(0, 0, "ada 1")})
		sent := make(chan struct{})
		producer := producerFunc(func(string, ProduceRecord, func(error)) { close(sent) })
		r := newTestRunner(t, ledgerTopology(t), consumer, producer, WithCloseTimeout(3*time.Second))
		failed := make(chan error)
		go func() {
			_, err := r.RunOnce(t.Context(), 0)
			failed <- err
		}()
		<-sent
		began := time.Now()
		closed := make(chan error)
		go func() { closed <- r.Close() }()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("the hanging round = %v; want %v", err, context.Canceled)
		}
		if err := <-closed; err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("Close = %v after %v; want nil after 3s", err, time.Since(began))
		}
	})
}

func TestOneRoundRunsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, peak := 0, 0
		consumer := &scriptedConsumer{}
		consumer.onPoll = func(context.Context) error {
			running++
			peak = max(peak, running)
			wait(time.Second)
			running--
			return nil
		}
		r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{})
		done := make(chan struct{})
		for range 4 {
			go func() {
				if _, err := r.RunOnce(t.Context(), 0); err != nil {
					t.Error(err)
				}
				done <- struct{}{}
			}()
		}
		for range 4 {
			<-done
		}
		if peak != 1 || consumer.polls != 4 {
			t.Errorf("%d rounds at once, %d polls; want 1, 4", peak, consumer.polls)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		go func() {
			if _, err := r.RunOnce(t.Context(), 0); err != nil {
				t.Error(err)
			}
			done <- struct{}{}
		}()
		synctest.Wait()
		if _, err := r.RunOnce(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("RunOnce that waits for its turn = %v; want %v", err, context.DeadlineExceeded)
		}
		<-done
	})
}

func TestPartitionsRunInParallelWithOutputsInOrder(t *testing.T) {
	const partitions = 4
	var met sync.WaitGroup
	met.Add(partitions)
	topology := through(t, "meet", func() Processor {
		return ProcessorFunc(func(ctx *Context, batch arrow.RecordBatch) error {
			met.Done()
			met.Wait()
			ctx.Forward(batch)
			return nil
		})
	}, "in")
	records := fetch{}
	var want []string
	for partition := range partitions {
		value := string(rune('a'+partition)) + " 1"
		records[in(partition)] = rows(partition, 0, value)
		want = append(want, value)
	}
	consumer := &scriptedConsumer{fetches: []fetch{records}}
	producer := &recordingProducer{}
	r := newTestRunner(t, topology, consumer, producer, WithParallelism(partitions))
	runOnce(t, r)
	if diff := cmp.Diff(want, producer.values("out")); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func TestPanicOfAProcessorEndsTheRunner(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		topology := through(t, "panic", func() Processor {
			return ProcessorFunc(func(*Context, arrow.RecordBatch) error { panic("processor bug") })
		}, "in")
		records := fetch{}
		for partition := range partitions {
			records[in(partition)] = rows(partition, 0, "ada 1")
		}
		r := newTestRunner(t, topology, &scriptedConsumer{fetches: []fetch{records}}, &recordingProducer{}, WithParallelism(3))
		func() {
			defer func() {
				if got := recover(); got != "processor bug" {
					t.Errorf("%d partitions: recovered %v; want the processor's panic", partitions, got)
				}
			}()
			_, _ = r.RunOnce(t.Context(), 0)
		}()
		if _, err := r.RunOnce(t.Context(), 0); err == nil || err.Error() != "columnar: a round ended in a panic" {
			t.Errorf("%d partitions: the next round = %v", partitions, err)
		}
	}
}

// boundedConsumer is a [scriptedConsumer] that is a [PollBounder].
type boundedConsumer struct {
	scriptedConsumer
	bound int
}

func (c *boundedConsumer) BoundPolls(records int) { c.bound = records }

func TestRunnerOptionsReachTheirPlaces(t *testing.T) {
	consumer := &boundedConsumer{}
	consumer.add(fetch{in(0): rows(0, 0, "ada 1")}, fetch{in(0): rows(0, 1, "!")})
	var log bytes.Buffer
	metrics := NewMetrics()
	var rounds []RoundInfo
	r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{}, WithMaxPollRecords(500), WithMetrics(metrics),
		WithLogger(slog.New(slog.NewTextHandler(&log, nil))), WithHooks(Hooks{Round: func(info RoundInfo) { rounds = append(rounds, info) }}))
	runOnce(t, r)
	if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, errUnreadable) {
		t.Fatal(err)
	}
	runOnce(t, r)
	if consumer.bound != 500 {
		t.Errorf("polls bounded to %d records; want 500", consumer.bound)
	}
	if r.Metrics() != metrics || metrics.Snapshot().InputRecords != 1 {
		t.Errorf("metrics %+v; want those of the option with one record", metrics.Snapshot())
	}
	if !strings.Contains(log.String(), `level=WARN msg="round failed" error="columnar: node`) {
		t.Errorf("log %q; want the failed round", log.String())
	}
	if len(rounds) != 2 || rounds[0].Records != 1 || rounds[0].Outputs != 1 || rounds[0].Offsets[in(0)] != 1 || rounds[0].Err != nil ||
		rounds[0].Barrier != NoEpoch || rounds[0].Duration <= 0 || !errors.Is(rounds[1].Err, errUnreadable) {
		t.Errorf("rounds %+v; want one good and one failed", rounds)
	}
	if stats := r.Stats(); stats.Rounds != 1 || stats.RoundsFailed != 1 || stats.EmptyRounds != 1 || stats.LongestRound <= 0 {
		t.Errorf("stats %+v; want one round of each kind", stats)
	}
}

// The end of the context does not hide that the round could not be taken back.
func TestRunReturnsWhatWentWrongBehindTheEndOfItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	consumer := &scriptedConsumer{}
	consumer.add(fetch{in(0): rows(0, 0, "ada 1")}, fetch{in(0): rows(0, 1, "ada 1")})
	topology := through(t, "unreversible", func() Processor { return &unreversible{*newLedger().(*ledger)} }, "in")
	sends := 0
	producer := producerFunc(func(_ string, _ ProduceRecord, done func(error)) {
		if sends++; sends == 2 {
			cancel()
			return
		}
		done(nil)
	})
	r := newTestRunner(t, topology, consumer, producer, WithCloseTimeout(0))
	if err := r.Run(ctx); !errors.Is(err, errUnreversible) {
		t.Errorf("Run = %v; want %v", err, errUnreversible)
	}
}

// Close ends also the poll of a round that has not begun to poll yet.
func TestCloseEndsAPollThatIsAboutToBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan error, 1)
		cuts := &scriptedConsumer{}
		var r *GroupRunner
		cuts.onPoll = func(context.Context) error {
			cuts.onPoll = nil
			go func() { closed <- r.Close() }()
			synctest.Wait()
			return nil
		}
		consumer := &waitingConsumer{}
		r = newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithBarrierGroup("audit", newReader(t, cuts, 1)))
		began := time.Now()
		if _, err := r.RunOnce(t.Context(), time.Hour); !errors.Is(err, ErrRunnerClosed) {
			t.Errorf("RunOnce = %v; want %v", err, ErrRunnerClosed)
		}
		if err := <-closed; err != nil || time.Since(began) > time.Second {
			t.Errorf("Close = %v after %v; want nil at once", err, time.Since(began))
		}
	})
}

// State without a store is lost with the process: the runner says so once, and names
// the option.
func TestStateWithoutAStoreIsWarnedOf(t *testing.T) {
	for _, stateful := range []bool{true, false} {
		topology := through(t, "all", func() Processor { return ProcessorFunc(forwardAll) }, "in")
		if stateful {
			topology = ledgerTopology(t)
		}
		var log bytes.Buffer
		newTestRunner(t, topology, &scriptedConsumer{}, &recordingProducer{}, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if got := strings.Count(log.String(), "WithStateStore"); (got == 1) != stateful {
			t.Errorf("stateful %v: log %q", stateful, log.String())
		}
	}
}

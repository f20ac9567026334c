// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// namedConsumer is a [waitingConsumer] that joins under a context, goes by names, and
// records what reaches a broker.
type namedConsumer struct {
	waitingConsumer
	names  []string
	events []string
	join   func(context.Context) error // nil for success
}

func (c *namedConsumer) SubscribeContext(ctx context.Context, topics []string, _ RebalanceListener) error {
	c.events = append(c.events, "join "+strings.Join(topics, " "))
	if c.join != nil {
		return c.join(ctx)
	}
	return nil
}

func (c *namedConsumer) Membership() (group string, names []string) { return "g", c.names }

func (c *namedConsumer) PartitionCounts(context.Context, []string) (map[string]int, error) {
	c.events = append(c.events, "counts")
	return map[string]int{"in": 2}, nil
}

func (c *namedConsumer) Subscribe([]string, RebalanceListener) error {
	return errors.New("not under a context")
}

func TestConstructorOfARunnerTalksToNobody(t *testing.T) {
	consumer := &namedConsumer{names: []string{"a"}}
	directory := t.TempDir()
	r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{}, WithStateStore(NewFileStateStore(directory+"/state")))
	if len(consumer.events) > 0 || consumer.polls > 0 {
		t.Errorf("the constructor: %v and %d polls; want neither", consumer.events, consumer.polls)
	}
	for range 2 {
		runOnce(t, r)
	}
	if diff := cmp.Diff([]string{"join in", "counts"}, consumer.events); diff != "" {
		t.Errorf("events of two rounds mismatch (-want +got):\n%s", diff)
	}
}

// The second runner of a name ends before it has told a broker of itself, and the
// first one goes on. Runners of other names share the folder.
func TestRunnerOfANameInUseEndsBeforeItJoins(t *testing.T) {
	directory := t.TempDir()
	start := func(name string) (*GroupRunner, *namedConsumer) {
		consumer := &namedConsumer{names: []string{name}}
		return newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{}, WithStateStore(NewFileStateStore(directory))), consumer
	}
	first, _ := start("a")
	runOnce(t, first)
	second, consumer := start("a")
	err := second.Run(t.Context())
	var used *MemberInUseError
	if !errors.As(err, &used) || used.Name != "a" || used.Store != directory {
		t.Errorf("Run = %v; want a MemberInUseError of a", err)
	}
	if len(consumer.events) > 0 || consumer.polls > 0 {
		t.Errorf("the refused runner: %v and %d polls; want neither", consumer.events, consumer.polls)
	}
	other, _ := start("b")
	for number, r := range []*GroupRunner{first, other} {
		r.consumer.(*namedConsumer).add(fetch{in(number): rows(number, 0, "ada 1")})
		r.OnPartitionsAssigned([]TopicPartition{in(number)})
		if diff := cmp.Diff(map[TopicPartition]int64{in(number): 1}, runOnce(t, r)); diff != "" {
			t.Errorf("offsets of runner %d mismatch (-want +got):\n%s", number, diff)
		}
		if err := r.Close(); err != nil {
			t.Errorf("close of runner %d: %v", number, err)
		}
	}
	again, _ := start("a")
	runOnce(t, again)
}

func TestRunWaitsForBrokersAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		away := passingError{errors.New("nobody listens at broker:9092")}
		consumer := &namedConsumer{}
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		consumer.join = func(context.Context) error {
			if len(consumer.events) < 4 {
				return away
			}
			return nil
		}
		consumer.polling = func(context.Context) { cancel() }
		r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{}, WithBackoff(time.Second, 2*time.Second),
			WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("the runner joined after %v; want pauses of 1, 2 and 2 seconds", waited)
		}
		for _, line := range []string{`msg="round failed" error="nobody listens at broker:9092"`, `msg="the round is tried again" after=1s`} {
			if !strings.Contains(log.String(), line) {
				t.Errorf("log %s lacks %s", &log, line)
			}
		}
	})
}

// The service is told to end while its runner waits for a broker that never answers.
func TestEndOfTheServiceEndsTheWaitForABroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		consumer := &namedConsumer{join: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		began := time.Now()
		r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{}, WithCloseTimeout(time.Hour))
		if err := r.Run(ctx); err != nil || time.Since(began) != time.Second {
			t.Errorf("Run = %v after %v; want nil at once", err, time.Since(began))
		}
	})
}

// A Close does not wait for a broker that never answers either.
func TestCloseEndsTheWaitForABroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consumer := &namedConsumer{join: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{}, WithCloseTimeout(time.Hour))
		ended := make(chan error, 1)
		go func() { ended <- r.Run(t.Context()) }()
		synctest.Wait()
		began := time.Now()
		if err := r.Close(); err != nil || time.Since(began) > 0 {
			t.Errorf("Close = %v after %v; want nil at once", err, time.Since(began))
		}
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

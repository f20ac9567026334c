// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

var ignoreTimes = cmpopts.IgnoreFields(columnar.BarrierCut{}, "TriggeredAt", "CompletedAt")

func (c cluster) publisher(t testing.TB, group, barrierTopic string, topics []string, opts ...kgo.Opt) *kafka.CutPublisher {
	t.Helper()
	p, err := kafka.NewCutPublisher(group, topics, c.opts(append(opts, kafka.WithBarrierTopic(barrierTopic))...)...)
	if err != nil {
		t.Fatalf("new publisher: %v", err)
	}
	closing(t, p)
	if err := p.EnsureTopic(within(t)); err != nil {
		t.Fatalf("ensure topic: %v", err)
	}
	return p
}

// cuts reads the complete cuts of a group as a runner would.
func (c cluster) cuts(t testing.TB, group, barrierTopic string) []columnar.BarrierCut {
	t.Helper()
	reader, err := columnar.NewCutReader(c.reader(t), 1, columnar.WithCutTopic(barrierTopic))
	if err != nil {
		t.Fatalf("new cut reader: %v", err)
	}
	// A commit is answered before its marker is written.
	c.values(t, barrierTopic)
	cuts, err := reader.CompleteCutsAfter(within(t), group, -1)
	if err != nil {
		t.Fatalf("read cuts: %v", err)
	}
	return cuts
}

func publish(t testing.TB, p *kafka.CutPublisher) columnar.BarrierCut {
	t.Helper()
	cut, err := p.Publish(within(t))
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
	return cut
}

func testCutsArePublished(t *testing.T, c cluster) {
	a, b, barriers, group := c.topic(t, 2), c.topic(t, 1), unique("barriers"), unique("cuts")
	c.produce(t, a, 0, "1", "2")
	c.produceTransaction(t, kgo.TryCommit, b, 0, "x")
	c.values(t, b)
	p := c.publisher(t, group, barriers, []string{a, b, a})
	first := publish(t, p)
	want := columnar.BarrierCut{
		Group: group, Epoch: 1,
		Offsets: map[columnar.TopicPartition]int64{at(a, 0): 2, at(a, 1): 0, at(b, 0): 2},
	}
	if diff := cmp.Diff(want, first, ignoreTimes); diff != "" {
		t.Errorf("first cut mismatch (-want +got):\n%s", diff)
	}
	if now := time.Now().UnixMilli(); first.TriggeredAt > first.CompletedAt || first.CompletedAt > now || first.TriggeredAt < now-patience.Milliseconds() {
		t.Errorf("cut triggered at %d, completed at %d, now %d", first.TriggeredAt, first.CompletedAt, now)
	}
	c.produce(t, a, 1, "3")
	second := publish(t, p)
	if diff := cmp.Diff([]columnar.BarrierCut{first, second}, c.cuts(t, group, barriers)); diff != "" {
		t.Errorf("cuts as read mismatch (-want +got):\n%s", diff)
	}
	if err := p.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if _, err := p.Publish(within(t)); !errors.Is(err, kafka.ErrClosed) {
		t.Errorf("publish after Close = %v, want ErrClosed", err)
	}
	// Another group in the topic has epochs of its own; a new process goes on.
	other := publish(t, c.publisher(t, unique("cuts"), barriers, []string{b}))
	third := publish(t, c.publisher(t, group, barriers, []string{a, b}))
	if other.Epoch != 1 || third.Epoch != 3 {
		t.Errorf("epochs = %d of another group, %d after a restart; want 1 and 3", other.Epoch, third.Epoch)
	}
}

func testOpenTransactionBoundsCut(t *testing.T, c cluster) {
	in, barriers, group := c.topic(t, 1), unique("barriers"), unique("cuts")
	c.produce(t, in, 0, "1", "2", "3")
	open := c.client(t, kgo.TransactionalID(unique("open")))
	if err := open.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	if err := open.ProduceSync(t.Context(), &kgo.Record{Topic: in, Value: []byte("4")}).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
	cut := publish(t, c.publisher(t, group, barriers, []string{in}))
	if err := open.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatalf("abort: %v", err)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 3}, cut.Offsets); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
}

func testDeposedPublisherIsFenced(t *testing.T, c cluster) {
	in, barriers, group := c.topic(t, 1), unique("barriers"), unique("cuts")
	old := c.publisher(t, group, barriers, []string{in})
	first := publish(t, old)
	successor := c.publisher(t, group, barriers, []string{in})
	second := publish(t, successor)
	for range 2 {
		var fenced *columnar.FencedError
		if _, err := old.Publish(within(t)); !errors.As(err, &fenced) || fenced.ID != "krabka-barrier-"+group {
			t.Fatalf("publish of the deposed publisher = %v, want a FencedError", err)
		}
	}
	third := publish(t, successor)
	if diff := cmp.Diff([]columnar.BarrierCut{first, second, third}, c.cuts(t, group, barriers)); diff != "" {
		t.Errorf("cuts mismatch (-want +got):\n%s", diff)
	}
}

func testRetainedCuts(t *testing.T, c cluster) {
	in, barriers, group := c.topic(t, 1), unique("barriers"), unique("cuts")
	var want []columnar.BarrierCut
	for range 2 { // retention also counts what an earlier process published
		p := c.publisher(t, group, barriers, []string{in}, kafka.WithRetainedCuts(2))
		for range 2 {
			want = append(want, publish(t, p))
		}
		if err := p.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	if diff := cmp.Diff(want[2:], c.cuts(t, group, barriers)); diff != "" {
		t.Errorf("cuts mismatch (-want +got):\n%s", diff)
	}
}

// election is an elector of one role inside a process.
type election struct {
	mu   sync.Mutex
	free chan struct{}
	term int
}

func newElection() *election {
	e := &election{free: make(chan struct{}, 1)}
	e.free <- struct{}{}
	return e
}

type leadership struct {
	election *election
	once     sync.Once
	done     chan struct{}
}

func (e *election) acquire(ctx context.Context) (kafka.Leadership, error) {
	select {
	case <-e.free:
		e.mu.Lock()
		defer e.mu.Unlock()
		e.term++
		return &leadership{election: e, done: make(chan struct{})}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *election) terms() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}

func (l *leadership) Done() <-chan struct{} { return l.done }
func (l *leadership) Err() error            { return errors.New("deposed") }
func (l *leadership) Resign(context.Context) error {
	l.once.Do(func() {
		close(l.done)
		l.election.free <- struct{}{}
	})
	return nil
}

func testPublisherLeads(t *testing.T, c cluster) {
	in, barriers, group := c.topic(t, 1), unique("barriers"), unique("cuts")
	e := newElection()
	var leaderships []kafka.Leadership
	acquire := func(ctx context.Context) (kafka.Leadership, error) {
		l, err := e.acquire(ctx)
		if err == nil {
			leaderships = append(leaderships, l)
		}
		return l, err
	}
	first := c.publisher(t, group, barriers, []string{in}, kafka.WithLeadership(acquire))
	second := c.publisher(t, group, barriers, []string{in}, kafka.WithLeadership(e.acquire))
	publish(t, first)
	publish(t, first)
	if got := e.terms(); got != 1 {
		t.Errorf("terms after two cuts of one publisher = %d, want 1", got)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if cut, err := second.Publish(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("publish without the leadership = %v, %v; want the end of the context", cut, err)
	}
	// The role ends; the first publisher notices and waits in line again.
	if err := leaderships[0].Resign(t.Context()); err != nil {
		t.Fatalf("resign: %v", err)
	}
	if cut := publish(t, second); cut.Epoch != 3 {
		t.Errorf("epoch of the second publisher = %d, want 3", cut.Epoch)
	}
	if err := second.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	// Its transactional client was fenced by the second publisher; with a new
	// leadership it starts a new one.
	if cut := publish(t, first); cut.Epoch != 4 {
		t.Errorf("epoch after the return of the first publisher = %d, want 4", cut.Epoch)
	}
	if got := e.terms(); got != 3 {
		t.Errorf("terms = %d, want 3", got)
	}
}

func testPublisherRuns(t *testing.T, c cluster) {
	in, barriers, group := c.topic(t, 1), unique("barriers"), unique("cuts")
	e := newElection()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 2)
	for range 2 {
		p := c.publisher(t, group, barriers, []string{in}, kafka.WithLeadership(e.acquire))
		go func() { ended <- p.Run(ctx, 20*time.Millisecond) }()
	}
	reader, err := columnar.NewCutReader(c.reader(t), 1, columnar.WithCutTopic(barriers))
	if err != nil {
		t.Fatalf("new cut reader: %v", err)
	}
	var cuts []columnar.BarrierCut
	for len(cuts) < 5 {
		if cuts, err = reader.CompleteCutsAfter(within(t), group, -1); err != nil {
			t.Fatalf("read cuts: %v", err)
		}
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Errorf("Run = %v after its context ended, want nil", err)
		}
	}
	var epochs []int64
	for _, cut := range cuts[:5] {
		epochs = append(epochs, cut.Epoch)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5}, epochs); diff != "" {
		t.Errorf("epochs mismatch (-want +got):\n%s", diff)
	}
}

func testBarrierTopicIsChecked(t *testing.T, c cluster) {
	in := c.topic(t, 1)
	p, err := kafka.NewCutPublisher("g", []string{in}, c.opts(kafka.WithBarrierTopic(in))...)
	if err != nil {
		t.Fatalf("new publisher: %v", err)
	}
	closing(t, p)
	var config *kafka.TopicConfigError
	if err := p.EnsureTopic(within(t)); !errors.As(err, &config) {
		t.Fatalf("EnsureTopic on a topic that is not compacted = %v, want a TopicConfigError", err)
	}
	if diff := cmp.Diff(&kafka.TopicConfigError{Topic: in, Config: "cleanup.policy", Have: "delete", Want: "compact"}, config); diff != "" {
		t.Errorf("error mismatch (-want +got):\n%s", diff)
	}
}

func TestPublisherChecksItsArguments(t *testing.T) {
	for name, build := range map[string]func() error{
		"no group":  func() error { _, err := kafka.NewCutPublisher("", []string{"a"}); return err },
		"no topics": func() error { _, err := kafka.NewCutPublisher("g", nil); return err },
		"no cuts retained": func() error {
			_, err := kafka.NewCutPublisher("g", []string{"a"}, kafka.WithRetainedCuts(0))
			return err
		},
		"no barrier topic": func() error {
			_, err := kafka.NewCutPublisher("g", []string{"a"}, kafka.WithBarrierTopic(""))
			return err
		},
		"no election": func() error {
			_, err := kafka.NewCutPublisher("g", []string{"a"}, kafka.WithLeadership(nil))
			return err
		},
		"uncommitted reads": func() error {
			_, err := kafka.NewCutPublisher("g", []string{"a"}, kgo.FetchIsolationLevel(kgo.ReadUncommitted()))
			return err
		},
	} {
		if err := build(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	p, err := kafka.NewCutPublisher("g", []string{"a"})
	if err != nil {
		t.Fatalf("new publisher: %v", err)
	}
	closing(t, p)
	want := fmt.Sprintf("kafka: publish cuts of %q: interval 0s is not positive", "g")
	if err := p.Run(t.Context(), 0); err == nil || err.Error() != want {
		t.Errorf("Run without an interval = %v, want %q", err, want)
	}
}

func TestCloseEndsPublishersThatWaitForTheLeadership(t *testing.T) {
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	waiting := make(chan struct{}, 2)
	p, err := kafka.NewCutPublisher("g", []string{"a"}, kafka.WithLeadership(func(ctx context.Context) (kafka.Leadership, error) {
		waiting <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	if err != nil {
		t.Fatalf("new publisher: %v", err)
	}
	results := make(chan error, 2)
	go func() {
		_, err := p.Publish(ctx)
		results <- err
	}()
	go func() { results <- p.Run(ctx, time.Hour) }()
	<-waiting
	if err := p.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := ctx.Err(); err != nil {
		t.Errorf("Close waited for the publishers: %v", err)
	}
	for range 2 {
		if err := <-results; !errors.Is(err, kafka.ErrClosed) {
			t.Errorf("a publisher that waits ends with %v, want ErrClosed", err)
		}
	}
}

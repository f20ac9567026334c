// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/coordination"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// publisherVariable holds the publisherConfig of a publisher process.
const publisherVariable = "KRABKA_TEST_PUBLISHER"

// publisherConfig is what a publisher process is told.
type publisherConfig struct {
	Brokers                      []string
	Group, Topic, Barriers, Role string
	State                        string // coordination topic, with one partition
	Member                       string
	// Every is the interval between cuts. It stands in the log beside each cut,
	// so it tells the publishers of a test apart.
	Every time.Duration
}

// What a publisher process prints about its leadership.
const (
	publisherLeads = "leads"
	publisherEnded = "ended"
)

func publisherLease() (coordination.LeaseConfig, error) {
	return coordination.NewLeaseConfig(8*time.Second, 2*time.Second, time.Second)
}

// runPublisher is one of several processes that may publish the cuts of a
// group.
func runPublisher() error {
	var c publisherConfig
	if err := json.Unmarshal([]byte(os.Getenv(publisherVariable)), &c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	role, err := coordination.NewRole(c.Role)
	if err != nil {
		return err
	}
	member, err := coordination.NewMemberID(c.Member)
	if err != nil {
		return err
	}
	lease, err := publisherLease()
	if err != nil {
		return err
	}
	transport, err := coordination.NewKafkaTransport(lease, c.Brokers...)
	if err != nil {
		return err
	}
	defer transport.Close()
	tell := coordination.Observer{
		Acquired: func(*coordination.Leadership) { fmt.Println(publisherLeads) },
		Ended:    func(*coordination.Leadership, error) { fmt.Println(publisherEnded) },
	}
	acquire := func(ctx context.Context) (kafka.Leadership, error) {
		return coordination.AcquireLeadership(ctx, transport, role, member,
			coordination.WithTopic(c.State), coordination.WithPartitions(1), coordination.WithLeaseConfig(lease),
			coordination.WithPollInterval(200*time.Millisecond), coordination.WithObserver(tell))
	}
	publisher, err := kafka.NewCutPublisher(c.Group, []string{c.Topic},
		kgo.SeedBrokers(c.Brokers...), kafka.WithBarrierTopic(c.Barriers), kafka.WithLeadership(acquire))
	if err != nil {
		return err
	}
	return errors.Join(publisher.Run(ctx, c.Every), publisher.Close())
}

// publisherProcess is a running publisher process.
type publisherProcess struct {
	*exec.Cmd
	every  time.Duration
	lines  chan string   // what it prints; closed behind the last line
	exited chan struct{} // closed when the process has ended
}

func startPublisher(t *testing.T, c publisherConfig) *publisherProcess {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &publisherProcess{
		Cmd:    kafkatest.Program("publisher", publisherVariable+"="+string(text)),
		every:  c.Every,
		lines:  make(chan string, 64),
		exited: make(chan struct{}),
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
		close(p.lines)
		_ = p.Wait() // ProcessState says how it ended
	}()
	t.Cleanup(func() { p.end(t, syscall.SIGKILL) })
	return p
}

func (p *publisherProcess) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(signal); err != nil {
		t.Fatalf("signal %v: %v", signal, err)
	}
}

// end ends the process, unless it has ended.
func (p *publisherProcess) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	_ = p.Process.Signal(signal) // an error when it has ended
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatalf("a publisher goes on after %v", signal)
	}
}

// expect waits for a line that the process prints.
func (p *publisherProcess) expect(t *testing.T, want string) {
	t.Helper()
	for {
		select {
		case line, more := <-p.lines:
			if !more {
				<-p.exited
				t.Fatalf("a publisher ended with %v before it printed %q", p.ProcessState, want)
			}
			if line == want {
				return
			}
		case <-within(t).Done():
			t.Fatalf("a publisher did not print %q", want)
		}
	}
}

// publishedCut is a cut as the log has it.
type publishedCut struct {
	epoch int64
	by    time.Duration // the interval of its publisher
}

// cutLog reads the cuts of one group from the barrier topic as they come.
type cutLog struct {
	client *kgo.Client
	cuts   []publishedCut
}

// await reads on until count cuts of a publisher that is not among the others
// have come since the call, and returns the interval of that publisher.
func (l *cutLog) await(t *testing.T, count int, others ...time.Duration) time.Duration {
	t.Helper()
	ctx := within(t)
	since := map[time.Duration]int{}
	for {
		fetches := l.client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read cuts: %v; so far %v", err, l.cuts)
		}
		var reached time.Duration
		for _, record := range fetches.Records() {
			cut, complete := l.take(record)
			if !complete {
				continue
			}
			since[cut.by]++
			isOther := false
			for _, other := range others {
				isOther = isOther || other == cut.by
			}
			if since[cut.by] >= count && !isOther {
				reached = cut.by
			}
		}
		if reached != 0 {
			return reached
		}
	}
}

// take reads a record. A cut is complete with the record of its group, which
// follows it in its transaction and ends in interval, retained cuts and epoch.
func (l *cutLog) take(record *kgo.Record) (publishedCut, bool) {
	const groupTail = 8 + 4 + 8
	switch kind := binary.BigEndian.Uint16(record.Key[2:]); {
	case kind == 2 && record.Value != nil:
		epoch := binary.BigEndian.Uint64(record.Key[len(record.Key)-8:])
		l.cuts = append(l.cuts, publishedCut{epoch: int64(epoch)})
	case kind == 0:
		tail := record.Value[len(record.Value)-groupTail:]
		last := &l.cuts[len(l.cuts)-1]
		last.by = time.Duration(binary.BigEndian.Uint64(tail)) * time.Millisecond
		return *last, true
	}
	return publishedCut{}, false
}

// terms returns the publishers of the cuts, one entry for each stretch.
func (l *cutLog) terms() []time.Duration {
	var terms []time.Duration
	for _, cut := range l.cuts {
		if len(terms) == 0 || terms[len(terms)-1] != cut.by {
			terms = append(terms, cut.by)
		}
	}
	return terms
}

func testOnePublisherOfThree(t *testing.T, c cluster) {
	in, barriers, group := c.topic(t, 2), unique("barriers"), unique("cuts")
	config := publisherConfig{
		Brokers: c.brokers, Group: group, Topic: in, Barriers: barriers, Role: unique("publisher"), State: unique("coordination"),
	}
	c.publisher(t, group, barriers, []string{in}) // creates the barrier topic
	lease, err := publisherLease()
	if err != nil {
		t.Fatal(err)
	}
	transport, err := coordination.NewKafkaTransportWithOptions(lease, coordination.KafkaOptions{
		Brokers: c.brokers, TopicPolicy: coordination.CreateTopic, ReplicationFactor: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	if err := transport.EnsureTopic(within(t), config.State, 1); err != nil {
		t.Fatal(err)
	}
	log := &cutLog{client: c.client(t, kgo.ConsumeTopics(barriers), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))}

	publishers := map[time.Duration]*publisherProcess{}
	start := func(number int) {
		config.Member, config.Every = fmt.Sprint("node-", number), time.Duration(40+number)*time.Millisecond
		publishers[config.Every] = startPublisher(t, config)
	}
	// The other two come when the first leads, so that it is not disturbed.
	start(1)
	first := log.await(t, 1)
	start(2)
	start(3)
	log.await(t, 5)

	publishers[first].end(t, syscall.SIGKILL)
	second := log.await(t, 5, first)
	publishers[second].expect(t, publisherLeads)
	publishers[second].signal(t, syscall.SIGSTOP)
	third := log.await(t, 5, first, second)
	publishers[second].signal(t, syscall.SIGCONT)
	publishers[second].expect(t, publisherEnded)
	log.await(t, 5, first, second)
	// What resigns is replaced at once, here by the one that was late before.
	publishers[third].end(t, syscall.SIGTERM)
	log.await(t, 5, first, third)
	publishers[second].end(t, syscall.SIGTERM)
	for _, by := range []time.Duration{second, third} {
		if state := publishers[by].ProcessState; !state.Success() {
			t.Errorf("a publisher ended with %v after SIGTERM", state)
		}
	}

	if diff := cmp.Diff([]time.Duration{first, second, third, second}, log.terms()); diff != "" {
		t.Errorf("publishers in the order of the log mismatch (-want +got):\n%s", diff)
	}
	// A term may end between the start and the cut of an epoch, which then has none.
	for i := range log.cuts[1:] {
		before, cut := log.cuts[i], log.cuts[i+1]
		if skipped := cut.epoch - before.epoch - 1; skipped < 0 || skipped > 1 || skipped == 1 && cut.by == before.by {
			t.Errorf("epoch %d of publisher %v follows epoch %d of publisher %v", cut.epoch, cut.by, before.epoch, before.by)
		}
	}
}

// succession is an election in which every new candidate deposes the leader
// before, as one whose lease is over.
type succession struct {
	newest int
	hold   chan struct{} // closed to let the held call go on
	held   chan struct{} // closed when a call is held
}

func newSuccession() *succession {
	return &succession{hold: make(chan struct{}), held: make(chan struct{})}
}

// suspend holds the caller, as a process that is stopped.
func (s *succession) suspend() {
	close(s.held)
	<-s.hold
}

var errDeposed = errors.New("deposed")

// reign is one leadership of a succession.
type reign struct {
	succession *succession
	term       int
	done       chan struct{}
	renewals   int
	onRenewed  func(renewals int) // before the answer arrives
}

func (s *succession) take() *reign {
	s.newest++
	return &reign{succession: s, term: s.newest, done: make(chan struct{}), onRenewed: func(int) {}}
}

func (r *reign) Done() <-chan struct{}        { return r.done }
func (r *reign) Err() error                   { return errDeposed }
func (r *reign) Resign(context.Context) error { return nil }
func (r *reign) Renew(context.Context) error {
	if r.term != r.succession.newest {
		close(r.done)
		return errDeposed
	}
	r.renewals++
	r.onRenewed(r.renewals)
	return nil
}

// A leader that is suspended at any point before its first cut and goes on when
// another one leads publishes nothing, and the other one keeps its leadership.
func testLateLeaderPublishesNothing(t *testing.T, c cluster) {
	for _, tt := range []struct {
		name     string
		suspend  func(s *succession, r *reign)
		disturbs bool // it fences the other one before it finds out
	}{
		{name: "once it leads", suspend: func(s *succession, _ *reign) { s.suspend() }},
		{
			name: "once it proved it", disturbs: true,
			suspend: func(s *succession, r *reign) {
				r.onRenewed = func(renewals int) {
					if renewals == 1 {
						s.suspend()
					}
				}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in, barriers, group := c.topic(t, 1), unique("barriers"), unique("cuts")
			s := newSuccession()
			late := c.publisher(t, group, barriers, []string{in}, kafka.WithLeadership(func(context.Context) (kafka.Leadership, error) {
				r := s.take()
				tt.suspend(s, r)
				return r, nil
			}))
			other := c.publisher(t, group, barriers, []string{in}, kafka.WithLeadership(func(context.Context) (kafka.Leadership, error) {
				return s.take(), nil
			}))
			outcome := make(chan error, 1)
			go func() {
				_, err := late.Publish(within(t))
				outcome <- err
			}()
			<-s.held
			want := []columnar.BarrierCut{publish(t, other)}
			close(s.hold)
			if err := <-outcome; !errors.Is(err, errDeposed) {
				t.Errorf("publish of the late leader = %v, want %v", err, errDeposed)
			}
			if tt.disturbs {
				if _, err := other.Publish(within(t)); !errors.As(err, new(*columnar.FencedError)) {
					t.Errorf("publish behind the late leader = %v, want a FencedError", err)
				}
			}
			want = append(want, publish(t, other))
			if s.newest != 2 {
				t.Errorf("%d leaderships, want 2: the other leader gave up for nothing", s.newest)
			}
			if diff := cmp.Diff(want, c.cuts(t, group, barriers)); diff != "" {
				t.Errorf("cuts mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// busyElection is an error that goes away.
type busyElection struct{ error }

func (busyElection) Retriable() bool { return true }

func TestRunEndsWithAnElectionThatCannotSucceed(t *testing.T) {
	errRefused := errors.New("refused")
	outcomes := []error{busyElection{errors.New("busy")}, fmt.Errorf("read: %w", busyElection{errors.New("busy")}), errRefused}
	asked := 0
	p, err := kafka.NewCutPublisher("billing", []string{"orders"}, kafka.WithLeadership(func(context.Context) (kafka.Leadership, error) {
		asked++
		return nil, outcomes[asked-1]
	}))
	if err != nil {
		t.Fatal(err)
	}
	closing(t, p)
	err = p.Run(within(t), time.Second)
	if !errors.Is(err, errRefused) || err.Error() != `kafka: lead the cuts of "billing": refused` || asked != len(outcomes) {
		t.Errorf("Run = %v after %d elections, want the third, which was refused", err, asked)
	}
}

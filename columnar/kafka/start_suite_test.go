// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

func init() {
	runnerSuite = append(runnerSuite, suiteTest{"the first program never notices a second start with its ids and folder", testSecondStart})
}

// A second start with the ids and the folder of a program that runs is refused before
// it initialises the transactional id, joins as the static member, or reads anything.
// Under ids of its own it shares the folder.
func testSecondStart(t *testing.T, c cluster) {
	in, out, group, dir := c.topic(t, 2), c.topic(t, 1), unique("group"), t.TempDir()
	start := func(id string) *columnar.GroupRunner {
		t.Helper()
		m, err := kafka.NewTransactionalMember(group, group+"-"+id, c.opts(brisk(kgo.InstanceID(id))...)...)
		if err != nil {
			t.Fatal(err)
		}
		closing(t, m)
		r, err := columnar.NewGroupRunner(windowedCounts(t, in, out), m, m, columnar.WithStateStore(columnar.NewFileStateStore(dir)))
		if err != nil {
			t.Fatal(err)
		}
		closing(t, r)
		return r
	}
	var runners []*columnar.GroupRunner
	processed := func(offset int64) {
		t.Helper()
		ctx := within(t)
		for {
			for _, r := range runners {
				if _, err := r.RunOnceTransactional(ctx, 20*time.Millisecond); err != nil && !columnar.IsRetriable(err) {
					t.Fatalf("round: %v", err)
				}
			}
			committed := c.committed(t, group, in)
			if committed[at(in, 0)] >= offset && committed[at(in, 1)] >= offset {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("committed %v, want %d of each", committed, offset)
			}
		}
	}
	feed := func() {
		c.produce(t, in, 0, `{"v":"a"}`)
		c.produce(t, in, 1, `{"v":"b"}`)
	}
	first := start("0")
	runners = append(runners, first)
	feed()
	processed(1)
	failed := first.Stats().RoundsFailed

	var used *columnar.MemberInUseError
	if err := start("0").Run(within(t)); !errors.As(err, &used) || used.Store != dir {
		t.Fatalf("second start = %v; want a MemberInUseError of %s", err, dir)
	}
	feed()
	processed(2)
	if stats := first.Stats(); stats.RoundsFailed != failed || stats.PartitionsLost+stats.PartitionsRevoked > 0 {
		t.Errorf("the first program noticed: %+v", stats)
	}

	runners = append(runners, start("1"))
	feed()
	ctx := within(t)
	for runners[1].Stats().PartitionsAssigned == 0 || first.Stats().PartitionsRevoked == 0 {
		for _, r := range runners {
			if _, err := r.RunOnceTransactional(ctx, 20*time.Millisecond); err != nil && !columnar.IsRetriable(err) {
				t.Fatalf("round: %v", err)
			}
		}
	}
	feed()
	processed(4)
}

// runnerOf is a runner whose member has these options.
func runnerOf(t *testing.T, opts ...kgo.Opt) *columnar.GroupRunner {
	t.Helper()
	m, err := kafka.NewTransactionalMember("g", "g-0", opts...)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, m)
	r, err := columnar.NewGroupRunner(windowedCounts(t, "in", "out"), m, m, columnar.WithStateStore(columnar.NewFileStateStore(t.TempDir())),
		columnar.WithBackoff(time.Millisecond, time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	closing(t, r)
	return r
}

// A service that waits for a broker which accepts connections and never answers ends
// when it is told to, long before any time limit of a call.
func TestServiceOfASilentBrokerEndsWhenItIsTold(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		accepted, err := silent.Accept()
		if err == nil {
			defer accepted.Close()
			cancel()
			_, _ = io.Copy(io.Discard, accepted)
		}
	}()
	r := runnerOf(t, kgo.SeedBrokers(silent.Addr().String()), kafka.WithCallTimeout(time.Hour))
	if err := r.Run(ctx); err != nil {
		t.Errorf("Run = %v; want none", err)
	}
}

// A broker that refuses connections may come back: Run tries again. A host that nobody
// knows for as long as a call may take is a wrong address: Run ends and names it.
func TestRunWaitsForABrokerAndEndsAtAWrongAddress(t *testing.T) {
	dials := func(fail error) (kgo.Opt, chan struct{}) {
		many := make(chan struct{})
		n := atomic.Int32{}
		return kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
			if n.Add(1) == 40 {
				close(many)
			}
			return nil, fail
		}), many
	}
	limits := []kgo.Opt{kgo.SeedBrokers("kafka.invalid:9092"), kafka.WithCallTimeout(50 * time.Millisecond)}

	dialer, many := dials(syscall.ECONNREFUSED)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-many
		cancel()
	}()
	if err := runnerOf(t, append(limits, dialer)...).Run(ctx); err != nil {
		t.Errorf("Run with a broker that is down = %v; want none, once it was told to end", err)
	}

	unknown := &net.DNSError{Err: "no such host", Name: "kafka.invalid", IsNotFound: true}
	dialer, _ = dials(unknown)
	err := runnerOf(t, append(limits, dialer)...).Run(t.Context())
	var away *kafka.UnreachableError
	if !errors.As(err, &away) || columnar.IsRetriable(err) || !strings.HasPrefix(err.Error(), "kafka: no answer from brokers kafka.invalid:9092: ") || !strings.Contains(err.Error(), "no such host") {
		t.Errorf("Run with an unknown host = %v; want a lasting UnreachableError that names it", err)
	}
}

// A host that was known a moment ago, and one that is known beside another that is not,
// are no wrong address: Run tries again.
func TestRunWaitsForABrokerThatWasKnown(t *testing.T) {
	const patience = 2 * time.Second
	unknownTo := func(unknown bool) error {
		if unknown {
			return &net.DNSError{Err: "no such host", Name: "kafka.invalid", IsNotFound: true}
		}
		return syscall.ECONNREFUSED
	}
	for name, dial := range map[string]func(host string, after time.Duration) error{
		"a name that is gone for a moment": func(_ string, after time.Duration) error {
			return unknownTo(after > patience*7/4 && after < patience*9/4)
		},
		"the first of two":  func(host string, _ time.Duration) error { return unknownTo(strings.HasPrefix(host, "a.")) },
		"the second of two": func(host string, _ time.Duration) error { return unknownTo(strings.HasPrefix(host, "b.")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			err := runnerOf(t, kgo.SeedBrokers("a.invalid:9092", "b.invalid:9092"), kafka.WithCallTimeout(patience),
				kgo.Dialer(func(_ context.Context, _, host string) (net.Conn, error) { return nil, dial(host, time.Since(began)) })).Run(ctx)
			if err != nil {
				t.Errorf("Run = %v; want none, once it was told to end", err)
			}
		})
	}
}

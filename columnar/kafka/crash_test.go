// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
	"github.com/krabka-io/krabka-streams-go/internal/nexgen"
)

// crashSeedVariable repeats a run of a crash test.
const crashSeedVariable = "CRASH_SEED"

// crashEvents make 100,000 bids and some.
const crashEvents = 108_700

// count is a job of counting bids, done by processes that end in hard ways.
type count struct {
	cluster
	memberConfig
	backlog
	events  int64
	rng     *rand.Rand
	offsets *kadm.Client
}

// newCount fills a topic with bids and publishes a cut of it four times a
// second until the test ends.
func newCount(t *testing.T, c cluster, events int64, config memberConfig) *count {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(crashSeedVariable); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", crashSeedVariable, err)
		}
		seed = n
	}
	t.Logf("%s=%d", crashSeedVariable, seed)
	j := &count{cluster: c, memberConfig: config, backlog: loadBids(t, c, jsonRecords(), events), events: events, rng: rand.New(rand.NewPCG(seed, 0))}
	j.offsets = c.admin(t)
	j.Brokers = c.brokers
	j.Bids = j.backlog.topic
	j.Counts = c.lastingTopic(t)
	j.Group = unique("count")
	j.ID = j.Group + "-0"
	j.StateDir = t.TempDir()
	if j.Session == 0 {
		j.Session = 6 * time.Second
	}
	if j.Poll == 0 {
		j.Poll = 2000
	}
	publisher, err := kafka.NewCutPublisher(j.Group, []string{j.Bids}, c.opts()...)
	if err != nil {
		t.Fatal(err)
	}
	if err := publisher.EnsureTopic(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- publisher.Run(ctx, 250*time.Millisecond) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("publish cuts: %v", err)
		}
		if err := publisher.Close(); err != nil {
			t.Errorf("close publisher: %v", err)
		}
	})
	return j
}

// memberProcess is a running member process.
type memberProcess struct {
	*exec.Cmd
	lines  chan string   // what it prints; closed behind the last line
	exited chan struct{} // closed when the process has ended
	err    error         // how it ended
}

// start starts a member process with the changes that change makes.
func (j *count) start(t *testing.T, change func(*memberConfig)) *memberProcess {
	t.Helper()
	config := j.memberConfig
	if change != nil {
		change(&config)
	}
	return config.start(t)
}

// start starts a member process.
func (c memberConfig) start(t *testing.T) *memberProcess {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	m := &memberProcess{
		Cmd:    kafkatest.Program("member", memberVariable+"="+string(text)),
		lines:  make(chan string, 16),
		exited: make(chan struct{}),
	}
	out, err := m.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(m.exited)
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			m.lines <- scanner.Text()
		}
		close(m.lines)
		m.err = m.Wait()
	}()
	t.Cleanup(func() {
		_ = m.Process.Kill() // an error when it has ended
		<-m.exited
	})
	m.expect(t, memberUp)
	return m
}

// expect waits for a line that the process prints.
func (m *memberProcess) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case line, more := <-m.lines:
		if !more {
			<-m.exited
			t.Fatalf("the member ended before it said %q: %v", want, m.err)
		}
		if line != want {
			t.Fatalf("the member says %q, want %q", line, want)
		}
	case <-time.After(patience):
		t.Fatalf("the member did not say %q in %v", want, patience)
	}
}

// signal sends a signal.
func (m *memberProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := m.Process.Signal(s); err != nil {
		t.Fatalf("send %v to the member: %v", s, err)
	}
}

// kill ends the process with SIGKILL.
func (m *memberProcess) kill(t *testing.T) {
	t.Helper()
	m.signal(t, syscall.SIGKILL)
	<-m.exited
}

// leave ends the process with SIGTERM, and fails unless it leaves orderly.
func (m *memberProcess) leave(t *testing.T) {
	t.Helper()
	m.signal(t, syscall.SIGTERM)
	<-m.exited
	if m.err != nil {
		t.Fatalf("member after SIGTERM: %v", m.err)
	}
}

// done returns how many bids the group has committed.
func (j *count) done(t *testing.T) int {
	t.Helper()
	committed, err := j.offsets.FetchOffsets(t.Context(), j.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) && !kerr.IsRetriable(err) {
		t.Fatalf("committed offsets of %s: %v", j.Group, err)
	}
	var n int64
	for _, offset := range committed[j.Bids] {
		n += max(offset.At, 0)
	}
	return int(n)
}

// await waits until the group has committed so many bids, while m runs.
func (j *count) await(t *testing.T, m *memberProcess, bids int) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.After(patience)
	for j.done(t) < bids {
		select {
		case <-look.C:
		case <-m.exited:
			t.Fatalf("the member ended with %d of %d bids committed: %v", j.done(t), bids, m.err)
		case <-late:
			t.Fatalf("%d of %d bids committed after %v", j.done(t), bids, patience)
		}
	}
}

// points returns n random numbers of bids, ascending.
func (j *count) points(n int) []int {
	points := make([]int, n)
	for i := range points {
		points[i] = j.rng.IntN(j.records)
	}
	slices.Sort(points)
	return points
}

// check compares the committed counts with an independent fold. Exactly-once
// counts of one window rise from one result to the next; at-least-once results
// may come again, but the last one is right.
func (j *count) check(t *testing.T) {
	t.Helper()
	last := map[[2]int64]int64{}
	for _, record := range j.readCommitted(t, j.Counts) {
		var row countRow
		if err := json.Unmarshal(record.Value, &row); err != nil {
			t.Fatalf("result %d/%d: %v", record.Partition, record.Offset, err)
		}
		w := [2]int64{row.Bidder, row.Start}
		if j.Exact && row.Count <= last[w] {
			t.Fatalf("result %d/%d: count of %v goes from %d to %d", record.Partition, record.Offset, w, last[w], row.Count)
		}
		last[w] = row.Count
	}
	lines := make([]string, 0, len(last))
	for w, n := range last {
		lines = append(lines, nexgen.Line(w[0], w[1], n))
	}
	if got, want := nexgen.Digest(lines), answerDigest(t, "q12e", j.events); got != want {
		t.Errorf("digest of the results is %s, want %s", got, want)
	}
}

// testKills kills the member at ten random moments.
func testKills(t *testing.T, c cluster, config memberConfig) {
	config.Static = true
	j := newCount(t, c, crashEvents, config)
	for _, bids := range j.points(10) {
		m := j.start(t, nil)
		j.await(t, m, bids)
		m.kill(t)
	}
	m := j.start(t, nil)
	j.await(t, m, j.records)
	m.leave(t)
	j.check(t)
}

// testSecondMember lets a second member join and leave in the middle, and then
// kills the first.
func testSecondMember(t *testing.T, c cluster, config memberConfig) {
	// What the killed member leaves open keeps the others waiting this long.
	config.TransactionTimeout = 5 * time.Second
	j := newCount(t, c, crashEvents, config)
	first := j.start(t, nil)
	j.await(t, first, j.records/5)
	second := j.start(t, func(c *memberConfig) { c.ID += "-second" })
	j.await(t, second, j.records/2)
	second.leave(t)
	j.await(t, first, j.records*3/4)
	third := j.start(t, func(c *memberConfig) { c.ID += "-third" })
	first.kill(t)
	j.await(t, third, j.records)
	third.leave(t)
	j.check(t)
}

// testSeams ends the member at one seam of a round after the other.
func testSeams(t *testing.T, c cluster, config memberConfig) {
	config.Static = true
	for _, at := range []seam{beforeSend, afterSend, afterSnapshot, afterOffsets, afterCommit} {
		t.Run(string(at), func(t *testing.T) {
			j := newCount(t, c, crashEvents/4, config)
			for nth := range 3 {
				m := j.start(t, func(c *memberConfig) { c.Seam, c.Nth, c.Signal = at, nth+1, syscall.SIGKILL })
				m.expect(t, "at "+string(at))
				<-m.exited
			}
			m := j.start(t, nil)
			j.await(t, m, j.records)
			m.leave(t)
			j.check(t)
		})
	}
}

func TestCountsAreExactThroughKills(t *testing.T) {
	t.Parallel()
	testKills(t, newFake(t), memberConfig{Exact: true})
}

func TestCountsLoseNothingThroughKills(t *testing.T) {
	t.Parallel()
	testKills(t, newFake(t), memberConfig{})
}

func TestCountsAreExactWhileMembersJoinAndLeave(t *testing.T) {
	t.Parallel()
	testSecondMember(t, newFake(t), memberConfig{Exact: true})
}

func TestCountsLoseNothingWhileMembersJoinAndLeave(t *testing.T) {
	t.Parallel()
	testSecondMember(t, newFake(t), memberConfig{})
}

func TestCountsAreExactThroughCrashesInARound(t *testing.T) {
	t.Parallel()
	testSeams(t, newFake(t), memberConfig{Exact: true})
}

func TestCountsLoseNothingThroughCrashesInARound(t *testing.T) {
	t.Parallel()
	testSeams(t, newFake(t), memberConfig{})
}

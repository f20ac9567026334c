// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

func init() {
	suite = append(suite, []suiteTest{
		{"commit whose answer is lost counts as committed", testLostCommitAnswer},
		{"commit without records whose answer is lost counts as committed", testLostOffsetsAnswer},
		{"commit whose request is lost counts as aborted", testLostCommitRequest},
		{"commit that nobody can find out about stops the member until it aborts", testCommitUnknown},
		{"abort that is lost is made up for", testLostAbort},
		{"transactions end one after the other without a pause", testTransactionsWithoutPause},
		{"context that ends cuts a commit short", testCommitContextEnds},
	}...)
}

// errCut is a failure of a connection that the client does not know.
var errCut = errors.New("the wire was cut")

// wire is a dialer whose connections fail at will.
type wire struct {
	mu      sync.Mutex
	answers kmsg.Key // requests of this kind are carried out, their answers are lost
	request kmsg.Key // requests of this kind are lost
	down    bool     // nothing goes through
	hit     func()   // called when something is lost, with the wire going down
	hits    int
	conns   map[*wireConn]bool
}

func newWire() *wire { return &wire{answers: -1, request: -1, conns: map[*wireConn]bool{}} }

// lose notes a loss. The caller holds mu.
func (w *wire) lose() {
	w.hits++
	if w.hit != nil {
		w.down = true
		w.hit()
		w.hit = nil
	}
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	down := w.down
	w.mu.Unlock()
	if down {
		return nil, errCut
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &wireConn{Conn: conn, wire: w}
	w.mu.Lock()
	w.conns[c] = true
	w.mu.Unlock()
	return c, nil
}

// set changes what fails, and returns how often something has failed so far.
func (w *wire) set(change func(*wire)) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
	if w.down {
		for c := range w.conns {
			c.Conn.Close()
			delete(w.conns, c)
		}
	}
	return w.hits
}

type wireConn struct {
	net.Conn
	wire *wire
	lost bool // guarded by wire.mu
}

func (c *wireConn) Write(b []byte) (int, error) {
	c.wire.mu.Lock()
	key := kmsg.Key(-1)
	if len(b) > 6 {
		key = kmsg.Key(binary.BigEndian.Uint16(b[4:]))
	}
	down := c.wire.down // before what this request causes
	if key == c.wire.request {
		// It looks written, but never arrives.
		c.wire.request = -1
		c.wire.lose()
		c.lost = true
		c.wire.mu.Unlock()
		c.Conn.Close()
		return len(b), nil
	}
	unanswered := key == c.wire.answers
	if unanswered {
		c.wire.answers = -1
		c.lost = true
	}
	c.wire.mu.Unlock()
	if down {
		return 0, errCut
	}
	n, err := c.Conn.Write(b)
	if unanswered {
		// The request is on its way before anybody hears of the loss and cuts it short.
		c.wire.mu.Lock()
		c.wire.lose()
		c.wire.mu.Unlock()
	}
	return n, err
}

func (c *wireConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	if c.lost || c.wire.down {
		return 0, errCut
	}
	return n, err
}

// wired returns a transactional member that has polled three records of in, and
// its wire.
func wired(t *testing.T, c cluster, group, in string) (*kafka.TransactionalMember, *wire) {
	t.Helper()
	w := newWire()
	c.produce(t, in, 0, "a", "b", "c")
	m := c.transactional(t, group, unique("id"), nil, []string{in}, kgo.Dialer(w.dial), kafka.WithCallTimeout(10*time.Second))
	pollUntil(t, m, records(3))
	return m, w
}

func testLostCommitAnswer(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
	m, w := wired(t, c, group, in)
	w.set(func(w *wire) { w.answers = kmsg.EndTxn })
	if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): 2}, "x"); err != nil {
		t.Errorf("commit: %v", err)
	}
	if hits := w.set(func(*wire) {}); hits != 1 {
		t.Fatalf("%d answers were lost, want 1", hits)
	}
	positions, err := m.Positions(t.Context(), []columnar.TopicPartition{at(in, 0)})
	if err != nil || positions[at(in, 0)] != 3 {
		t.Errorf("position = %v, %v; want that of the held record, 3", positions, err)
	}
	c.produce(t, in, 0, "d")
	if diff := cmp.Diff([]string{"d"}, pollUntil(t, m, records(1))[at(in, 0)]); diff != "" {
		t.Errorf("next records mismatch (-want +got):\n%s", diff)
	}
	if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): 4}, "y"); err != nil {
		t.Errorf("next commit: %v", err)
	}
	if diff := cmp.Diff([]string{"x", "y"}, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 4}, c.committed(t, group, in)); diff != "" {
		t.Errorf("committed mismatch (-want +got):\n%s", diff)
	}
}

func testLostOffsetsAnswer(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
	m, w := wired(t, c, group, in)
	w.set(func(w *wire) { w.answers = kmsg.EndTxn })
	if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): 3}); err != nil {
		t.Errorf("commit: %v", err)
	}
	if diff := cmp.Diff(map[columnar.TopicPartition]int64{at(in, 0): 3}, c.committed(t, group, in)); diff != "" {
		t.Errorf("committed mismatch (-want +got):\n%s", diff)
	}
}

func testLostCommitRequest(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
	m, w := wired(t, c, group, in)
	w.set(func(w *wire) { w.request = kmsg.EndTxn })
	offsets := map[columnar.TopicPartition]int64{at(in, 0): 3}
	var aborted *columnar.TransactionAbortedError
	if err := commitRound(t, m, out, offsets, "x"); !errors.As(err, &aborted) || !errors.Is(err, errCut) {
		t.Fatalf("commit = %v, want a TransactionAbortedError by the cut", err)
	}
	if got := c.committed(t, group, in); len(got) > 0 {
		t.Errorf("committed = %v, want nothing", got)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, pollUntil(t, m, records(3))[at(in, 0)]); diff != "" {
		t.Errorf("records after the abort mismatch (-want +got):\n%s", diff)
	}
	if err := commitRound(t, m, out, offsets, "y"); err != nil {
		t.Errorf("second commit: %v", err)
	}
	if diff := cmp.Diff([]string{"y"}, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func testCommitUnknown(t *testing.T, c cluster) {
	for _, tt := range []struct {
		name string
		lose func(*wire)
		want int64
	}{
		{"carried out", func(w *wire) { w.answers = kmsg.EndTxn }, 3},
		{"not carried out", func(w *wire) { w.request = kmsg.EndTxn }, -1},
	} {
		in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
		m, w := wired(t, c, group, in)
		if err := m.BeginTransaction(); err != nil {
			t.Fatalf("%s: begin: %v", tt.name, err)
		}
		sendAll(t, m, out, "x")
		if err := m.SendOffsets(map[columnar.TopicPartition]int64{at(in, 0): 3}, m.GroupMetadata()); err != nil {
			t.Fatalf("%s: send offsets: %v", tt.name, err)
		}
		// The producer id cannot be initialised either.
		ctx, cancel := context.WithCancel(within(t))
		w.set(func(w *wire) {
			tt.lose(w)
			w.hit = cancel
		})
		var unknown *columnar.CommitUnknownError
		if err := m.CommitTransactionContext(ctx); !errors.As(err, &unknown) {
			t.Fatalf("%s: commit = %v, want a CommitUnknownError", tt.name, err)
		}
		cancel()
		if _, err := m.Poll(within(t), 0); !errors.As(err, &unknown) {
			t.Errorf("%s: poll = %v, want the CommitUnknownError", tt.name, err)
		}
		if err := m.BeginTransaction(); !errors.As(err, &unknown) {
			t.Errorf("%s: begin = %v, want the CommitUnknownError", tt.name, err)
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := m.AbortTransactionContext(short); err == nil {
			t.Errorf("%s: abort over a wire that is cut succeeded", tt.name)
		}
		cancel()
		w.set(func(w *wire) { w.down = false })
		if err := m.AbortTransaction(); err != nil {
			t.Fatalf("%s: abort: %v", tt.name, err)
		}
		got, ok := c.committed(t, group, in)[at(in, 0)]
		if !ok {
			got = -1
		}
		if got != tt.want {
			t.Errorf("%s: committed = %d, want %d", tt.name, got, tt.want)
		}
		// Reading goes on from what is committed.
		c.produce(t, in, 0, "d")
		want := []string{"a", "b", "c", "d"}
		outputs := []string{"y"}
		if tt.want == 3 {
			want, outputs = []string{"d"}, []string{"x", "y"}
		}
		if diff := cmp.Diff(want, pollUntil(t, m, records(len(want)))[at(in, 0)]); diff != "" {
			t.Errorf("%s: next records mismatch (-want +got):\n%s", tt.name, diff)
		}
		if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): 4}, "y"); err != nil {
			t.Errorf("%s: next commit: %v", tt.name, err)
		}
		if diff := cmp.Diff(outputs, c.values(t, out)); diff != "" {
			t.Errorf("%s: outputs mismatch (-want +got):\n%s", tt.name, diff)
		}
	}
}

func testLostAbort(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
	m, w := wired(t, c, group, in)
	if err := m.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	sendAll(t, m, out, "x")
	w.set(func(w *wire) { w.request = kmsg.EndTxn })
	if err := m.AbortTransaction(); !errors.Is(err, errCut) {
		t.Fatalf("abort = %v, want the cut", err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, pollUntil(t, m, records(3))[at(in, 0)]); diff != "" {
		t.Errorf("records after the abort mismatch (-want +got):\n%s", diff)
	}
	if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): 3}, "y"); err != nil {
		t.Errorf("commit: %v", err)
	}
	if diff := cmp.Diff([]string{"y"}, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func testTransactionsWithoutPause(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
	c.produce(t, in, 0, "a", "b", "c", "d", "e", "f")
	m := c.transactional(t, group, unique("id"), nil, []string{in})
	m.BoundPolls(1)
	var want []string
	for offset := int64(1); offset <= 6; offset++ {
		pollUntil(t, m, records(1))
		for range 2 { // aborted ones between the commits
			if err := m.BeginTransaction(); err != nil {
				t.Fatalf("begin: %v", err)
			}
			if diff := cmp.Diff([]error{nil}, sendAll(t, m, out, "discarded")); diff != "" {
				t.Fatalf("outcomes mismatch (-want +got):\n%s", diff)
			}
			if err := m.AbortTransaction(); err != nil {
				t.Fatalf("abort: %v", err)
			}
			pollUntil(t, m, records(1))
		}
		value := string(rune('a' + offset - 1))
		if err := commitRound(t, m, out, map[columnar.TopicPartition]int64{at(in, 0): offset}, value); err != nil {
			t.Fatalf("commit %d: %v", offset, err)
		}
		want = append(want, value)
	}
	if diff := cmp.Diff(want, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func testCommitContextEnds(t *testing.T, c cluster) {
	in, out, group := c.topic(t, 1), c.topic(t, 1), unique("group")
	m, _ := wired(t, c, group, in)
	if err := m.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	sendAll(t, m, out, "x")
	if err := m.SendOffsets(map[columnar.TopicPartition]int64{at(in, 0): 3}, m.GroupMetadata()); err != nil {
		t.Fatalf("send offsets: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := m.CommitTransactionContext(ended)
	var aborted *columnar.TransactionAbortedError
	var unknown *columnar.CommitUnknownError
	if !errors.As(err, &aborted) && !errors.As(err, &unknown) {
		t.Errorf("commit = %v, want it aborted or unknown", err)
	}
	if err := m.AbortTransaction(); err != nil {
		t.Fatalf("abort: %v", err)
	}
	committed := c.committed(t, group, in)[at(in, 0)]
	outputs := len(c.values(t, out))
	if (committed == 3) != (outputs == 1) {
		t.Errorf("committed %d, %d outputs: half a transaction", committed, outputs)
	}
	if errors.As(err, &aborted) && outputs > 0 {
		t.Errorf("an aborted transaction shows %d outputs", outputs)
	}
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// landing says when a commit takes effect whose answer is lost.
type landing string

const (
	landsNever  landing = "never"
	landsAtOnce landing = "at once"
	landsLate   landing = "late" // just before the first abort that gets through
)

// doubtful makes one commit of m fail as unknown, and then so many aborts and
// reads of the committed offsets.
func doubtful(m *fakeMember, lands landing, unknown error, aborts, reads int) {
	struck := false
	m.step = func(op string) error {
		switch {
		case op == "commit" && !struck && lands != landsAtOnce:
			struck = true
			return unknown
		case !struck:
		case op == "abort" && aborts > 0:
			aborts--
			return fmt.Errorf("abort: %w", errInjected)
		case op == "abort" && lands == landsLate:
			lands = landsNever
			m.endTransaction(true)
		case strings.HasPrefix(op, "committed") && reads > 0:
			reads--
			return fmt.Errorf("read: %w", errInjected)
		}
		return nil
	}
	m.after = func(op string) error {
		if op == "commit" && !struck {
			struck = true
			return unknown
		}
		return nil
	}
}

// counting are n amounts of ada whose ledger and whose copy both are told apart.
func counting(n int) (amounts, totals []string) {
	sum := 0
	for i := range n {
		sum += i + 1
		amounts = append(amounts, fmt.Sprintf("ada %d", i+1))
		totals = append(totals, fmt.Sprintf("ada %d", sum))
	}
	return amounts, totals
}

func TestUnknownCommitWaitsForItsOutcome(t *testing.T) {
	unknown := &CommitUnknownError{TransactionalID: "member", Cause: errors.New("answer lost")}
	forwarding := func(tb testing.TB) *Topology {
		return through(tb, "forward", func() Processor { return ProcessorFunc(forwardAll) }, "in")
	}
	amounts, totals := counting(20)
	for _, keeper := range []struct {
		name     string
		topology func(testing.TB) *Topology
		want     []string
	}{
		{"with state", ledgerTopology, totals},
		{"without state", forwarding, amounts},
	} {
		for _, lands := range []landing{landsNever, landsAtOnce, landsLate} {
			for aborts := range 4 {
				for reads := range 3 {
					t.Run(fmt.Sprintf("%s/%s/%d aborts and %d reads fail", keeper.name, lands, aborts, reads), func(t *testing.T) {
						c := clusterOf(t, map[string]int{"in": 1})
						c.fill(in(0), amounts[:10]...)
						m := c.member("member")
						m.maxPoll = 1000
						r := newTestRunner(t, keeper.topology(t), m, m, WithStateStore(NewFileStateStore(t.TempDir())))
						round := func() error {
							_, err := r.RunOnceTransactional(t.Context(), 0)
							return err
						}
						for !c.drained("in") {
							if err := round(); err != nil {
								t.Fatal(err)
							}
						}
						c.fill(in(0), amounts[10:]...)
						doubtful(m, lands, unknown, aborts, reads)
						failed := 0
						for range 100 {
							before := len(c.values("out"))
							err := round()
							if err != nil {
								if failed++; !errors.Is(err, unknown) || !r.mayRetry(err) {
									t.Errorf("round = %v, may be retried %v; want a passing error with %v", err, r.mayRetry(err), unknown)
								}
								if after := len(c.values("out")); failed > 1 && after > before && lands != landsLate {
									t.Errorf("a round in doubt produced %d outputs", after-before)
								}
							}
							if err == nil && c.drained("in") && r.partitions[0].live() {
								break
							}
						}
						want := aborts + reads
						if (lands == landsNever || lands == landsLate && aborts+reads > 0) && want == 0 {
							want = 1 // the records of the round that failed come again
						}
						if failed < want {
							t.Errorf("%d rounds failed; want at least %d", failed, want)
						}
						if diff := cmp.Diff(keeper.want, c.values("out")); diff != "" {
							t.Errorf("outputs mismatch (-want +got):\n%s", diff)
						}
						if got := r.Stats().CommitsUnknown; got != 1 {
							t.Errorf("%d unknown commits counted; want 1", got)
						}
						if c.rewinds > 0 {
							t.Errorf("commits went backwards %d times", c.rewinds)
						}
					})
				}
			}
		}
	}
}

// A member is closed, or loses its partition in order, while the outcome of its
// commit is not known. Whoever comes next is exact.
func TestUnknownCommitDoesNotOutliveItsMember(t *testing.T) {
	unknown := &CommitUnknownError{TransactionalID: "member", Cause: errors.New("answer lost")}
	amounts, totals := counting(20)
	for _, lands := range []landing{landsNever, landsAtOnce, landsLate} {
		for _, how := range []string{"close", "revoke"} {
			t.Run(fmt.Sprintf("%s/%s", how, lands), func(t *testing.T) {
				c := clusterOf(t, map[string]int{"in": 1})
				c.fill(in(0), amounts[:10]...)
				directory := t.TempDir()
				start := func() (*fakeMember, *GroupRunner) {
					m := c.member("member")
					m.maxPoll = 1000
					return m, newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(NewFileStateStore(directory)))
				}
				m, r := start()
				for !c.drained("in") {
					if _, err := r.RunOnceTransactional(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
				}
				c.fill(in(0), amounts[10:]...)
				doubtful(m, lands, unknown, 3, 0)
				if _, err := r.RunOnceTransactional(t.Context(), 0); !errors.Is(err, unknown) {
					t.Fatalf("RunOnceTransactional = %v; want %v", err, unknown)
				}
				if how == "revoke" {
					r.OnPartitionsRevoked([]TopicPartition{in(0)})
				}
				if err := r.Close(); !errors.Is(err, unknown) {
					t.Errorf("Close = %v; want %v: the transaction is still open", err, unknown)
				}
				if lands == landsLate {
					m.endTransaction(true)
				}
				c.expire(m)
				_, r = start()
				for range 100 {
					if _, err := r.RunOnceTransactional(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
					if c.drained("in") && r.partitions[0].live() {
						break
					}
				}
				if diff := cmp.Diff(totals, c.values("out")); diff != "" {
					t.Errorf("outputs mismatch (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A store that does not know what its state stands for cannot rebuild it.
func TestUnknownCommitWithAPlainStore(t *testing.T) {
	unknown := &CommitUnknownError{TransactionalID: "member", Cause: errors.New("answer lost")}
	amounts, totals := counting(20)
	for _, test := range []struct {
		lands  landing
		aborts int
		ends   bool // the runner ends
	}{
		{landsNever, 0, false},
		{landsNever, 2, false},
		{landsAtOnce, 0, false}, // the round has not been taken back yet
		{landsAtOnce, 1, true},
		{landsLate, 1, true},
	} {
		t.Run(fmt.Sprintf("%s/%d aborts fail", test.lands, test.aborts), func(t *testing.T) {
			c := clusterOf(t, map[string]int{"in": 1})
			c.fill(in(0), amounts[:10]...)
			m := c.member("member")
			m.maxPoll = 1000
			store := &recordingStore{}
			r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store))
			for !c.drained("in") {
				if _, err := r.RunOnceTransactional(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			}
			c.fill(in(0), amounts[10:]...)
			doubtful(m, test.lands, unknown, test.aborts, 0)
			var err error
			for range 100 {
				if _, err = r.RunOnceTransactional(t.Context(), 0); err == nil && c.drained("in") || err != nil && !r.mayRetry(err) {
					break
				}
			}
			if (err != nil) != test.ends || test.ends && !errors.Is(err, unknown) {
				t.Fatalf("last round = %v; want the runner to end: %v", err, test.ends)
			}
			if diff := cmp.Diff(totals, c.values("out")); diff != "" {
				t.Errorf("outputs mismatch (-want +got):\n%s", diff)
			}
			if !test.ends {
				return
			}
			if _, again := r.RunOnceTransactional(t.Context(), 0); again != err {
				t.Errorf("next round = %v; want %v", again, err)
			}
			if err := r.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if len(store.saved) > 0 || r.Topology().HasPartition(0) {
				t.Errorf("saves %v, state kept %v; want neither", store.saved, r.Topology().HasPartition(0))
			}
		})
	}
}

// Without committed offsets to look at, nobody can tell what became of a commit.
func TestUnknownCommitWithoutCommittedOffsetsEndsTheRunner(t *testing.T) {
	unknown := &CommitUnknownError{TransactionalID: "id", Cause: errors.New("answer lost")}
	refused := errors.New("refused")
	for _, test := range []struct {
		name          string
		commit, abort error
	}{
		{"unknown", unknown, nil},
		{"unknown and not aborted", unknown, refused},
		{"failed and not aborted", refused, errors.New("abort refused")},
	} {
		t.Run(test.name, func(t *testing.T) {
			consumer := &scriptedConsumer{}
			consumer.add(fetch{in(0): rows(0, 0, "ada 1")}, fetch{in(0): rows(0, 0, "ada 1")})
			producer := &recordingTransactions{failWith: map[string]error{"commit": test.commit, "abort": test.abort}}
			store := &recordingStore{}
			r := newTestRunner(t, ledgerTopology(t), consumer, producer, WithStateStore(store))
			for range 3 {
				_, err := r.RunOnceTransactional(t.Context(), 0)
				if !errors.Is(err, test.commit) || test.abort != nil && !errors.Is(err, test.abort) || r.mayRetry(err) {
					t.Errorf("RunOnceTransactional = %v; want a lasting error with %v and %v", err, test.commit, test.abort)
				}
			}
			if diff := cmp.Diff([]string{"begin", "send-offsets", "commit", "abort"}, producer.events); diff != "" || consumer.polls != 1 {
				t.Errorf("%d polls, events mismatch (-want +got):\n%s", consumer.polls, diff)
			}
			if err := r.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if len(store.saved) > 0 || r.Topology().HasPartition(0) {
				t.Errorf("saves %v, state kept %v; want neither", store.saved, r.Topology().HasPartition(0))
			}
		})
	}
}

// A transaction whose abort failed would carry what the failed round sent.
func TestAbortThatFailsComesBeforeTheNextTransaction(t *testing.T) {
	consumer := &scriptedConsumer{}
	consumer.add(fetch{in(0): rows(0, 204, "ada 1", "?")})
	refused := errors.New("abort refused")
	producer := &recordingTransactions{failWith: map[string]error{"abort": refused}}
	r := newTestRunner(t, ledgerTopology(t), consumer, producer)
	if _, err := r.RunOnceTransactional(t.Context(), 0); !errors.Is(err, errSchemaPending) || !errors.Is(err, refused) {
		t.Errorf("RunOnceTransactional = %v; want %v and %v", err, errSchemaPending, refused)
	}
	if _, err := r.RunOnceTransactional(t.Context(), 0); !errors.Is(err, refused) || consumer.polls != 1 {
		t.Errorf("RunOnceTransactional = %v after %d polls; want %v before another", err, consumer.polls, refused)
	}
	producer.failWith = nil
	consumer.sought = nil
	consumer.add(fetch{in(0): rows(0, 204, "ada 1", "ada 2")})
	offsets, err := r.RunOnceTransactional(t.Context(), 0)
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 206}, offsets); diff != "" || err != nil {
		t.Errorf("error %v, offsets mismatch (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"begin", "abort", "abort", "abort", "begin", "send-offsets", "commit"}, producer.events); diff != "" {
		t.Errorf("events mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 204}, consumer.sought); diff != "" {
		t.Errorf("seeks behind the abort mismatch (-want +got):\n%s", diff)
	}
}

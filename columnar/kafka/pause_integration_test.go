// SPDX-License-Identifier: Apache-2.0

//go:build integration && pauses

package kafka_test

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// A member is stopped at each seam of a round for longer than one time-out after
// the other, and continued. It goes on and is exact, or says that it is fenced
// and is exact after its restart. Where its session ends, another member takes
// over meanwhile.
func TestRealCountsAreExactThroughPauses(t *testing.T) {
	broker := kafkatest.Start(t, kafkatest.Options{TransactionVersion: 2, Settings: map[string]string{
		"group.min.session.timeout.ms":                                "500",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
	}})
	c := cluster{brokers: []string{broker.Addr}}
	for _, pause := range []struct {
		name        string
		session     time.Duration
		transaction time.Duration
		length      time.Duration
		standby     bool
	}{
		{"past the session", 1500 * time.Millisecond, 30 * time.Second, 4 * time.Second, false},
		{"past the session, with a standby", 1500 * time.Millisecond, 30 * time.Second, 4 * time.Second, true},
		{"past the transaction", 30 * time.Second, time.Second, 3 * time.Second, false},
		{"past session and transaction, with a standby", 1500 * time.Millisecond, time.Second, 4 * time.Second, true},
		{"past the request", 30 * time.Second, 30 * time.Second, 12 * time.Second, false},
	} {
		for _, at := range []seam{beforeSend, afterSend, afterSnapshot, afterOffsets, afterCommit} {
			t.Run(pause.name+"/"+string(at), func(t *testing.T) {
				t.Parallel()
				j := newCount(t, c, crashEvents/4, memberConfig{Exact: true, Session: pause.session, TransactionTimeout: pause.transaction})
				first := j.start(t, func(c *memberConfig) { c.Seam, c.Nth, c.Signal = at, 2, syscall.SIGSTOP })
				first.expect(t, "at "+string(at))
				last := first
				if pause.standby {
					last = j.start(t, func(c *memberConfig) { c.ID += "-standby" })
				}
				<-time.After(pause.length)
				first.signal(t, syscall.SIGCONT)
				j.finish(t, first, last)
				j.check(t)
			})
		}
	}
}

// finish waits until all bids are committed, and ends the members. A last member
// that is fenced meanwhile is started again.
func (j *count) finish(t *testing.T, first, last *memberProcess) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	late := time.After(2 * patience)
	for j.done(t) < j.records {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("%d of %d bids committed", j.done(t), j.records)
		case <-last.exited:
			last.fenced(t)
			last = j.start(t, nil)
		}
	}
	// A member may find out that it is fenced only as it leaves.
	for _, m := range []*memberProcess{first, last} {
		_ = m.Process.Signal(syscall.SIGTERM) // an error when it has ended
		<-m.exited
		if m.err != nil {
			m.fenced(t)
		}
	}
}

// fenced fails unless the process ended because it is fenced.
func (m *memberProcess) fenced(t *testing.T) {
	t.Helper()
	if exit := (*exec.ExitError)(nil); !errors.As(m.err, &exit) || exit.ExitCode() != fencedStatus {
		t.Fatalf("the member ended with %v", m.err)
	}
}

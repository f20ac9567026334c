// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// The lease of the role. A deployment leaves more time: a leader that is cut
// off for the duration loses the role, and a crash leaves the role without a
// leader for as long.
const (
	leaseDuration    = 3 * time.Second
	renewInterval    = time.Second
	challengeStagger = 500 * time.Millisecond
	pollInterval     = 250 * time.Millisecond
	statePartitions  = 1
)

// commandEvery is the pace at which a leader issues commands.
const commandEvery = 50 * time.Millisecond

// writeTimeout bounds one guarded write. The leader skips a command rather than
// wait longer for the topic of the commands.
const writeTimeout = 500 * time.Millisecond

// command is what a leader tells the devices to do.
type command struct {
	coordination.Credential
	Member string `json:"member"`
	Number int    `json:"number"` // within the leadership
}

// serve is the whole member: it competes for the role and commands while it
// leads, until ctx ends, and leaves orderly.
func serve(ctx context.Context, brokers string, n names, name string, tell func(event)) error {
	var leads atomic.Bool
	// A member that is not the leader any more, or did not become the leader,
	// learns that from the refusal of the broker.
	refusals := coordination.Observer{Called: func(call coordination.CallEvent) {
		if !errors.Is(call.Err, coordination.ErrFenced) {
			return
		}
		why := "another member leads by now"
		if !leads.Load() {
			why = "another member challenged at the same time, and its epoch is the newer one"
		}
		tell(event{Kind: eventRefused, Token: call.Token, Text: fmt.Sprintf("%s refused with %s: %s", call.Operation, answer(call.Err), why)})
	}}
	work := func(ctx context.Context, l *coordination.Leadership) error {
		leads.Store(true)
		defer leads.Store(false)
		safe := time.UnixMilli(l.SafeUntil()).Format("15:04:05.000")
		tell(event{Kind: eventLeads, Token: l.Token(), Text: fmt.Sprintf("leads, sequence %d, may act outside Kafka until %s or the next renewal", l.Sequence(), safe)})
		err := dispatch(ctx, l, n.commands, tell)
		if l.Err() != nil {
			tell(event{Kind: eventLost, Token: coordination.NoEpoch, Text: "lost the role"})
		}
		return err
	}
	return coordination.RunRole(ctx, coordination.KafkaOptions{Brokers: []string{brokers}}, n.role, name, work,
		coordination.WithTopic(n.topic),
		coordination.WithPartitions(statePartitions),
		coordination.WithLeaseDuration(leaseDuration),
		coordination.WithRenewInterval(renewInterval),
		coordination.WithChallengeStagger(challengeStagger),
		coordination.WithPollInterval(pollInterval),
		coordination.WithObserver(refusals),
	)
}

// answer returns the name of the broker's error, or the whole error.
func answer(err error) string {
	if broker, ok := errors.AsType[*kerr.Error](err); ok {
		return broker.Message
	}
	return err.Error()
}

// dispatch issues a command at every tick until ctx ends, which it does with the
// leadership.
func dispatch(ctx context.Context, l *coordination.Leadership, topic string, tell func(event)) error {
	guard, err := l.Guard()
	if err != nil {
		return err
	}
	pace := time.NewTicker(commandEvery)
	defer pace.Stop()
	for number := 1; ctx.Err() == nil; number++ {
		if err := issue(ctx, l, guard, topic, number, tell); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// issue makes one command durable, and then lets the devices carry it out.
func issue(ctx context.Context, l *coordination.Leadership, guard *coordination.GuardedWriter, topic string, number int, tell func(event)) error {
	// The credential is the proof for devices, which check it with a
	// coordination.DeviceGuard. A leader whose lease ran out gets none: a standby
	// may be challenging, and only a renewal tells.
	credential, err := l.Credential()
	if errors.Is(err, coordination.ErrLeaseExpired) {
		return nil
	}
	if err != nil {
		return err
	}
	c := command{Credential: credential, Member: l.Member().String(), Number: number}
	value, err := json.Marshal(c)
	if err != nil {
		return err
	}
	write, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	switch err := guard.Write(write, coordination.GuardedRecord{Topic: topic, Value: value}); {
	case errors.Is(err, coordination.ErrOutcomeUnknown):
		return nil // the log tells later whether the command counts; its number is not used again
	case errors.Is(err, context.DeadlineExceeded):
		return nil // the command is not in the log
	case err != nil:
		return err
	}
	text := fmt.Sprintf("command %d is committed", number)
	if l.Check() != nil {
		text += ", and left to the next leader" // the write took too long to act on
	}
	tell(event{Kind: eventCommitted, Token: c.Token, Text: text, Command: &c})
	return nil
}

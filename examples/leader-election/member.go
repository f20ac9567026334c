// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// command is what a leader tells the devices to do. A device that takes
// commands from elsewhere than the log checks the credential with a
// coordination.DeviceGuard.
type command struct {
	coordination.Credential
	Member string `json:"member"`
	Number int    `json:"number"` // within the leadership
}

// serve is the whole member: it competes for the role and commands while it
// leads, until ctx ends, and leaves orderly.
func serve(ctx context.Context, brokers string, n names, name string, tell func(event)) error {
	role, err := coordination.NewRole(n.role)
	if err != nil {
		return err
	}
	member, err := coordination.NewMemberID(name)
	if err != nil {
		return err
	}
	lease, err := coordination.NewLeaseConfig(leaseDuration, renewInterval, challengeStagger)
	if err != nil {
		return err
	}
	transport, err := coordination.NewKafkaTransport(lease, brokers)
	if err != nil {
		return err
	}
	defer transport.Close()
	// The refusal of the broker is what a deposed leader gets to see first.
	refusals := coordination.Observer{Called: func(call coordination.CallEvent) {
		if errors.Is(call.Err, coordination.ErrFenced) {
			tell(event{Kind: eventRefused, Token: call.Token, Text: fmt.Sprintf("%s refused: %s", call.Operation, answer(call.Err))})
		}
	}}
	return coordination.Run(ctx, transport, role, member, coordination.Callbacks{
		OnAcquired: func(ctx context.Context, l *coordination.Leadership) error {
			tell(event{Kind: eventLeads, Token: l.Token(), Text: fmt.Sprintf("leads, sequence %d", l.Sequence())})
			return dispatch(ctx, l, n.commands, tell)
		},
		OnLost: func(error) { tell(event{Kind: eventLost, Token: coordination.NoEpoch, Text: "lost the role"}) },
	},
		coordination.WithTopic(n.topic),
		coordination.WithPartitions(statePartitions),
		coordination.WithLeaseConfig(lease),
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

// dispatch writes commands until ctx ends, which it does with the leadership.
func dispatch(ctx context.Context, l *coordination.Leadership, topic string, tell func(event)) error {
	guard, err := l.Guard()
	if err != nil {
		return err
	}
	pace := time.NewTicker(commandEvery)
	defer pace.Stop()
	for number := 1; ; number++ {
		c := command{
			Credential: coordination.Credential{Token: l.Token(), Sequence: l.Sequence()},
			Member:     l.Member().String(),
			Number:     number,
		}
		value, err := json.Marshal(c)
		if err != nil {
			return err
		}
		err = guard.Write(ctx, coordination.GuardedRecord{Topic: topic, Value: value})
		switch {
		case err == nil:
			tell(event{Kind: eventCommitted, Token: c.Token, Text: fmt.Sprintf("command %d is committed", number), Command: &c})
		case errors.Is(err, coordination.ErrOutcomeUnknown):
			// The log tells later whether it counts. A number is not used again.
		case ctx.Err() != nil:
			return nil
		default:
			return err
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// rivalConfig says what a rival competes for.
type rivalConfig struct {
	Brokers  []string
	Role     string
	Member   string
	Topic    string // of the election, or empty to mint without one
	Commands string // topic of what it writes under the role
	Lease    time.Duration
}

// lease returns the extents of an election of rivals, in the proportions of
// the default ones.
func (c rivalConfig) lease() (coordination.LeaseConfig, error) {
	return coordination.NewLeaseConfig(c.Lease, c.Lease/3, c.Lease/6)
}

// poll returns the poll interval of a rival.
func (c rivalConfig) poll() time.Duration { return c.Lease / 30 }

// options returns the options of an election of rivals.
func (c rivalConfig) options(lease coordination.LeaseConfig) []coordination.Option {
	return []coordination.Option{
		coordination.WithTopic(c.Topic), coordination.WithPartitions(1),
		coordination.WithPollInterval(c.poll()), coordination.WithLeaseConfig(lease),
	}
}

// rivalOrder asks a rival to do something.
type rivalOrder struct {
	Do      deed
	Value   string // to write
	Timeout time.Duration
}

// deed is what a rival can do.
type deed string

const (
	takeRole   deed = "take"
	writeValue deed = "write"
	resignRole deed = "resign"
)

// rivalAnswer is what came of an order.
type rivalAnswer struct {
	Outcome  answer
	Fenced   bool   // the error matches ErrFenced
	Code     string // of the broker that refused the epoch, or empty if the rival knew
	Error    string
	Token    string
	Mints    int // requests to mint since the last order
	Sequence int64
	Ended    bool // the leadership has ended
}

// rival is a member that takes a role and writes under it, on demand.
type rival struct {
	rivalConfig
	lease     coordination.LeaseConfig
	transport *coordination.KafkaTransport
	role      coordination.Role
	token     coordination.FencingToken
	held      *coordination.Leadership // nil without an election
	mints     int
}

// newRival makes a rival in this process.
func newRival(config rivalConfig, options coordination.KafkaOptions) (*rival, error) {
	x := &rival{rivalConfig: config, token: coordination.NoEpoch}
	var err error
	if x.lease, err = config.lease(); err != nil {
		return nil, err
	}
	if x.role, err = coordination.NewRole(config.Role); err != nil {
		return nil, err
	}
	options.Brokers = config.Brokers
	options.Hooks.Minted = func(_ coordination.Role, _ coordination.FencingToken, requests int) { x.mints += requests }
	x.transport, err = coordination.NewKafkaTransportWithOptions(x.lease, options)
	return x, err
}

func (x *rival) do(order rivalOrder) (rivalAnswer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), order.Timeout)
	defer cancel()
	x.mints = 0
	var err error
	switch order.Do {
	case takeRole:
		err = x.take(ctx)
	case writeValue:
		err = x.write(ctx, order.Value)
	case resignRole:
		err = x.held.Resign(ctx)
	default:
		return rivalAnswer{}, fmt.Errorf("nothing to do in order %+v", order)
	}
	a := rivalAnswer{Token: x.token.String(), Mints: x.mints, Sequence: -1, Fenced: errors.Is(err, coordination.ErrFenced)}
	if x.held != nil {
		a.Sequence, a.Ended = x.held.Sequence(), x.held.Err() != nil
	}
	switch {
	case err == nil:
		a.Outcome = accepted
		return a, nil
	case errors.Is(err, coordination.ErrOutcomeUnknown):
		a.Outcome = open
	default:
		a.Outcome = failed
	}
	a.Error = err.Error()
	for _, code := range []*kerr.Error{kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.ProducerFenced} {
		if errors.Is(err, code) {
			a.Code = code.Message
		}
	}
	if a.Outcome == failed && a.Fenced && a.Code != "" {
		a.Outcome = refused
	}
	return a, nil
}

func (x *rival) take(ctx context.Context) error {
	if x.Topic == "" {
		minted, err := x.transport.AcquireEpoch(ctx, x.role)
		if err == nil {
			x.token = minted
		}
		return err
	}
	id, err := coordination.NewMemberID(x.Member)
	if err != nil {
		return err
	}
	l, err := coordination.AcquireLeadership(ctx, x.transport, x.role, id, x.options(x.lease)...)
	if err == nil {
		x.held, x.token = l, l.MintedToken()
	}
	return err
}

// write writes past the leadership too, as a holder does that does not know
// of its end.
func (x *rival) write(ctx context.Context, value string) error {
	return x.transport.WriteRecords(ctx, x.role, x.token, []coordination.GuardedRecord{{Topic: x.Commands, Value: []byte(value)}})
}

func (x *rival) close() { x.transport.Close() }

// rivalVariable holds the configuration of a rival in a process of its own.
const rivalVariable = "COORDINATION_TEST_RIVAL"

// serveRival is a rival in a process of its own: it takes orders on standard
// input and answers on standard output.
func serveRival() error {
	var config rivalConfig
	if err := json.Unmarshal([]byte(os.Getenv(rivalVariable)), &config); err != nil {
		return err
	}
	x, err := newRival(config, coordination.KafkaOptions{})
	if err != nil {
		return err
	}
	defer x.close()
	orders, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var order rivalOrder
		if err := orders.Decode(&order); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		a, err := x.do(order)
		if err != nil {
			return err
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

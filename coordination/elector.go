// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Attribute keys of the log records.
const (
	logRole     = "role"
	logMember   = "member"
	logToken    = "token"
	logSequence = "sequence"
	logError    = "error"
)

// firstWriteBound bounds the writes that follow a mint or an ended context.
const firstWriteBound = 10 * time.Second

// elector is one member of one role with its transport: the calls that an
// acquisition and a leadership make, each reported to the observers. It holds
// no lock.
type elector struct {
	settings
	timekeeper
	transport Transport
	terms     TermTransport  // the transport, if it is one
	log       TopicTransport // the transport, if it is one
	role      Role
	member    MemberID
	at        TopicPartition
	identity  identity
	candidate *candidate // nil before the first acquisition and after a won one
}

func newElector(transport Transport, role Role, member MemberID, options []Option) (*elector, error) {
	switch {
	case transport == nil:
		return nil, errNoTransport
	case role == Role{}:
		return nil, errZeroRole
	case member == MemberID{}:
		return nil, errZeroMember
	}
	s, err := resolve(options, transport)
	if err != nil {
		return nil, err
	}
	at, err := s.partition(role)
	if err != nil {
		return nil, err
	}
	terms, _ := transport.(TermTransport)
	log, _ := transport.(TopicTransport)
	return &elector{
		terms:      terms,
		log:        log,
		settings:   s,
		timekeeper: newTimekeeper(s.clock),
		transport:  transport,
		role:       role,
		member:     member,
		at:         at,
		identity:   newIdentity(member),
	}, nil
}

func (e *elector) failed(what string, err error) error {
	return fmt.Errorf("coordination: role %q, member %q: %s: %w", e.role, e.member, what, err)
}

// cancelled makes the error of a call match the error of its ended context,
// also when the transport reports something of its own.
func cancelled(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

func (e *elector) report(began moment, event CallEvent) {
	event.Role, event.Member, event.Duration = e.role, e.member, e.now().since(began)
	e.observers.called(event)
}

func (e *elector) read(ctx context.Context) (reading, error) {
	r := reading{began: e.now()}
	records, complete, err := readCommitted(ctx, e.transport, e.at)
	r.complete = complete
	e.report(r.began, CallEvent{
		Operation: OperationRead, Token: NoEpoch, Records: len(records), Bytes: recordBytes(records), Err: err,
	})
	if err != nil {
		return reading{}, e.failed("read "+e.at.String(), cancelled(ctx, err))
	}
	r.state, err = e.fold(e.role, e.at, records)
	r.ended = e.now()
	return r, err
}

// readCommitted reads what is committed in a partition, and reports whether it
// met no open transaction.
func readCommitted(ctx context.Context, reader StateReader, at TopicPartition) (records []StateRecord, complete bool, err error) {
	if log, ok := reader.(TopicTransport); ok {
		return log.ReadCommitted(ctx, at)
	}
	records, err = reader.ReadPartition(ctx, at)
	return records, true, err
}

func recordBytes(records []StateRecord) int {
	total := 0
	for _, record := range records {
		total += len(record.Key) + len(record.Value)
	}
	return total
}

func (e *elector) register(ctx context.Context) error {
	value := EncodeRegistration(Registration{Member: e.member, RegisteredAt: e.now().wall})
	return e.append(ctx, OperationRegister, e.member, value)
}

func (e *elector) deregister(ctx context.Context, member MemberID) error {
	return e.append(ctx, OperationDeregister, member, nil)
}

func (e *elector) append(ctx context.Context, operation Operation, member MemberID, value []byte) error {
	key := EncodeKey(RegistrationKey(e.role, member))
	began := e.now()
	err := e.transport.Append(ctx, e.at, key, value)
	e.report(began, CallEvent{
		Operation: operation, Token: NoEpoch, Records: 1, Bytes: len(key) + len(value), Err: err,
	})
	if err != nil {
		return e.failed(string(operation)+" in "+e.at.String(), cancelled(ctx, err))
	}
	return nil
}

// mint takes the epoch of the role, for as long as the candidate is to. A
// request to mint can wait for long: behind another mint, for a coordinator that
// is not ready, through an outage. Meanwhile somebody else may have taken the
// role, and a late mint would depose a healthy holder.
func (e *elector) mint(ctx context.Context, c *candidate) (FencingToken, error) {
	const high = 30000
	var refused error
	still := func(ctx context.Context) error {
		refused = e.confirm(ctx, c)
		return refused
	}
	began := e.now()
	var token FencingToken
	var err error
	if e.terms != nil {
		token, err = e.terms.AcquireEpochWhile(ctx, e.role, still)
	} else {
		if c.stale(began) {
			err = still(ctx)
		}
		if err == nil {
			token, err = e.transport.AcquireEpoch(ctx, e.role)
		}
	}
	if err != nil && refused != nil {
		return NoEpoch, refused
	}
	if err != nil {
		token = NoEpoch
	}
	e.report(began, CallEvent{Operation: OperationMint, Token: token, Err: err})
	if err != nil {
		return NoEpoch, e.failed("take the epoch", cancelled(ctx, err))
	}
	if token.producerEpoch > high {
		e.logger.Warn("the producer epoch of the role is about to run out and to start again under another producer id",
			logRole, e.role.name, logToken, token.String())
	}
	return token, nil
}

func (e *elector) describe(ctx context.Context) (FencingToken, bool, error) {
	began := e.now()
	token, held, err := e.transport.DescribeEpoch(ctx, e.role)
	if err != nil || !held {
		token, held = NoEpoch, false
	}
	e.report(began, CallEvent{Operation: OperationDescribe, Token: token, Err: err})
	if err != nil {
		return NoEpoch, false, e.failed("describe the epoch", cancelled(ctx, err))
	}
	return token, held, nil
}

func (e *elector) writeLease(ctx context.Context, lease Lease) (int64, error) {
	return e.putLease(ctx, OperationWriteLease, lease.Token, EncodeLease(lease))
}

func (e *elector) clearLease(ctx context.Context, token FencingToken) error {
	_, err := e.putLease(ctx, OperationClearLease, token, nil)
	return err
}

func (e *elector) putLease(ctx context.Context, operation Operation, token FencingToken, value []byte) (int64, error) {
	key := EncodeKey(LeaseKey(e.role))
	offset := int64(-1)
	var err error
	began := e.now()
	if e.terms != nil {
		offset, err = e.terms.WriteLeaseAt(ctx, e.at, token, key, value)
	} else {
		err = e.transport.WriteLease(ctx, e.at, token, key, value)
	}
	e.report(began, CallEvent{
		Operation: operation, Token: token, Records: 1, Bytes: len(key) + len(value), Err: err,
	})
	if err != nil {
		return -1, e.failed(string(operation), cancelled(ctx, err))
	}
	return offset, nil
}

// release tells the transport that nothing is written under a token any more.
func (e *elector) release(minted FencingToken) {
	if e.terms != nil {
		e.terms.Release(e.role, minted)
	}
}

// errNewerEpoch is the fence that a transport tells of by itself.
var errNewerEpoch = fmt.Errorf("%w: the transport saw a newer epoch", ErrFenced)

// superseded returns the channel that closes with a token, or nil when the
// transport does not tell.
func (e *elector) superseded(minted FencingToken) <-chan struct{} {
	if e.terms == nil {
		return nil
	}
	return e.terms.Superseded(e.role, minted)
}

func isOver(over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}

func (e *elector) logs() *slog.Logger {
	return e.logger.With(logRole, e.role.name, logMember, e.member.name)
}

func (e *elector) withLifetime(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	select {
	case <-e.lifetime:
		cancel()
	default:
		if e.lifetime != nil {
			go func(lifetime <-chan struct{}) {
				select {
				case <-lifetime:
					cancel()
				case <-ctx.Done():
				}
			}(e.lifetime)
		}
	}
	return ctx, cancel
}

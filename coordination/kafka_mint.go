// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// settingMaxTimeout is the broker setting that bounds transaction timeouts.
const settingMaxTimeout = "transaction.max.timeout.ms"

// AcquireEpoch implements [Coordinator], with the duration of the lease as
// transaction timeout.
//
// AcquireEpoch waits while the coordinator aborts a transaction of the last holder, and
// through outages, until ctx ends. A request whose answer is lost is sent
// again; only the token of the last answer is returned, and the epochs before
// it are burnt. The more of them there may be, the longer it waits in between,
// 7.5 seconds at most. Where no epoch can be burnt it tries again within a
// second: while no broker is reached, or the coordinator is not ready, as that
// of a new cluster until it has a block of producer ids. Mints of one role over
// one transport take turns.
//
// An answer that another request for the role was faster is an error that
// matches [ErrFenced].
//
// Before each request it looks up the partition count of the topics that
// [KafkaTransport.EnsureTopic] verified, and mints nothing where one has changed:
// its roles have other partitions then. The error is a [*TopicConfigError].
//
// A lease longer than the brokers accept as transaction timeout is a
// [*TransactionTimeoutError], unless half of it is accepted.
func (t *KafkaTransport) AcquireEpoch(ctx context.Context, role Role) (FencingToken, error) {
	return t.AcquireEpochWhile(ctx, role, nil)
}

// AcquireEpochWhile implements [TermTransport]. It asks still once the turn has
// come, the coordinator is known and the connection to it is open, so that the
// request follows at once. Behind another mint over the same transport it first
// waits, for a second at most, until that one's first record is committed, so
// that still can see it. A nil still agrees to every request.
func (t *KafkaTransport) AcquireEpochWhile(ctx context.Context, role Role, still func(ctx context.Context) error) (FencingToken, error) {
	if role == (Role{}) {
		return NoEpoch, errZeroRole
	}
	call, leave, err := t.enter(ctx)
	if err != nil {
		return NoEpoch, err
	}
	defer leave()
	request := request{operation: "InitProducerId", subject: roleSubject(role)}
	pass, waited, err := t.terms.mint(call, role)
	if err != nil {
		return NoEpoch, request.failed(err)
	}
	defer pass()
	if waited && still != nil {
		t.terms.settle(call, role)
	}
	m, err := t.mint(call, request, role, still)
	if err != nil {
		return NoEpoch, err
	}
	tracking := t.Mode() == EpochModeTracking && m.moves
	if term := t.terms.install(role, m.token, m.moves, tracking); tracking {
		t.tracks(term)
	}
	if hook := t.options.Hooks.Minted; hook != nil {
		hook(role, m.token, m.requests)
	}
	return m.token, nil
}

// mint is an epoch that the coordinator of a role gave out.
type mint struct {
	token    FencingToken
	moves    bool // the brokers may move the epoch with a transaction
	requests int  // that it took
}

// mint mints an epoch. The error of still is returned as it is.
func (t *KafkaTransport) mint(ctx context.Context, request request, role Role, still func(context.Context) error) (mint, error) {
	want := transactionTimeout(t.lease)
	timeout := want
	var m mint
	var refused error
	err := t.persist(ctx, request, func(ctx context.Context) (err error) {
		if err := t.checkCounts(ctx); err != nil {
			return err
		}
		if m.moves, err = t.learnMoves(ctx, role); err != nil {
			return err
		}
		ask := kmsg.NewPtrInitProducerIDRequest()
		ask.TransactionalID = &role.name
		ask.TransactionTimeoutMillis = int32(timeout / time.Millisecond)
		ask.ProducerID, ask.ProducerEpoch = -1, -1
		sent := false
		code, err := t.coordinated(ctx, t.clients.pinned, role, func(to kmsg.Requestor) (int16, error) {
			if still != nil {
				if refused = still(ctx); refused != nil {
					return 0, nil
				}
			}
			sent = true
			m.requests++
			answer, err := ask.RequestWith(ctx, to)
			if err != nil {
				return 0, err
			}
			m.token = FencingToken{producerID: answer.ProducerID, producerEpoch: answer.ProducerEpoch}
			return answer.ErrorCode, nil
		})
		switch {
		case refused != nil:
			return refused
		case err != nil && sent:
			return spent(err)
		case err != nil:
			return err
		}
		switch reactTo(code) {
		case reactDone:
			return checkPair(m.token.producerID, m.token.producerEpoch)
		case reactDenied:
			return idDenied(role, "WRITE", code)
		case reactRetry, reactArbitrate:
			if mintsNothing(code) {
				return answerError(code)
			}
			return spent(answerError(code))
		case reactFenced:
			return fencedError(kerr.ErrorForCode(code))
		}
		if answer := kerr.ErrorForCode(code); answer != kerr.InvalidTransactionTimeout {
			return answer
		}
		if timeout == want {
			timeout = max(want/2, time.Millisecond)
			return answerError(code)
		}
		return &TransactionTimeoutError{Requested: want, Allowed: t.allowedTimeout(ctx), Err: kerr.ErrorForCode(code)}
	})
	if refused != nil {
		return mint{}, refused
	}
	return m, err
}

// mintsNothing reports whether a coordinator that gives this answer moved no
// epoch: it was not ready, or it is still aborting the transaction of the last
// holder, for which it moved the epoch once.
func mintsNothing(code int16) bool {
	switch kerr.ErrorForCode(code) {
	case kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions:
		return true
	}
	return false
}

// transactionTimeout returns the transaction timeout of a lease, in whole
// milliseconds.
func transactionTimeout(lease LeaseConfig) time.Duration {
	return min(untilMillis(0, extentMillis(lease.duration)), maxTransactionTimeout)
}

// allowedTimeout asks a broker for the longest transaction timeout that it
// accepts. It returns zero when the broker does not tell.
func (t *KafkaTransport) allowedTimeout(ctx context.Context) time.Duration {
	admin := kadm.NewClient(t.clients.plain)
	cluster, err := admin.BrokerMetadata(ctx)
	if err != nil || len(cluster.Brokers) == 0 {
		return 0
	}
	found, err := admin.DescribeBrokerConfigs(ctx, cluster.Brokers[0].NodeID)
	if err != nil || len(found) == 0 {
		return 0
	}
	millis, _ := strconv.ParseInt(settingsOf(found[0])[settingMaxTimeout], 10, 64)
	return untilMillis(0, millis)
}

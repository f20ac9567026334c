// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The states of a transaction that the transport tells apart.
const (
	stateEmpty   = "Empty"
	stateOngoing = "Ongoing"
)

// epochState is what the coordinator says about a transactional id.
type epochState struct {
	pair  FencingToken // NoEpoch for an id that it does not know
	state string
}

// completed reports whether no transaction is open or about to end.
func (s epochState) completed() bool {
	switch s.state {
	case stateEmpty, "CompleteCommit", "CompleteAbort":
		return true
	}
	return false
}

// DescribeEpoch implements [Coordinator]. Coordinators forget ids that are idle
// for transactional.id.expiration.ms, seven days by default. The call ends within
// ten seconds, also when the context lasts longer.
func (t *KafkaTransport) DescribeEpoch(ctx context.Context, role Role) (FencingToken, bool, error) {
	if role == (Role{}) {
		return NoEpoch, false, errZeroRole
	}
	call, leave, err := t.enter(ctx)
	if err != nil {
		return NoEpoch, false, err
	}
	defer leave()
	state, err := t.describe(call, role)
	if err != nil {
		return NoEpoch, false, err
	}
	return state.pair, state.pair != NoEpoch, nil
}

// describedState reads an answer about one role. The code of an answer that
// says that nobody took the role is none.
func describedState(answer *kmsg.DescribeTransactionsResponse) (epochState, int16) {
	state := epochState{pair: NoEpoch}
	if len(answer.TransactionStates) != 1 {
		return state, kerr.CoordinatorNotAvailable.Code
	}
	found := answer.TransactionStates[0]
	switch kerr.ErrorForCode(found.ErrorCode) {
	case nil:
	case kerr.TransactionalIDNotFound, kerr.UnknownLeaderEpoch: // some brokers answer the second for the first
		return state, 0
	default:
		return state, found.ErrorCode
	}
	if found.ProducerID >= 0 && found.ProducerEpoch >= 0 {
		state.pair = FencingToken{producerID: found.ProducerID, producerEpoch: found.ProducerEpoch}
		state.state = found.State
	}
	return state, 0
}

func (t *KafkaTransport) describe(ctx context.Context, role Role) (epochState, error) {
	state := epochState{pair: NoEpoch}
	request := request{
		operation: "DescribeTransactions",
		subject:   roleSubject(role),
	}
	ctx, cancel := context.WithTimeoutCause(ctx, describePatience, errNoAnswer)
	defer cancel()
	err := t.persist(ctx, request, func(ctx context.Context) error {
		found, code, err := t.look(ctx, role)
		if err != nil {
			return err
		}
		state = found
		return roleAnswer(role, "DESCRIBE", code)
	})
	if err != nil {
		return epochState{pair: NoEpoch}, err
	}
	return state, nil
}

// look asks the coordinator about a role once. It returns the state and the
// code of the answer.
func (t *KafkaTransport) look(ctx context.Context, role Role) (epochState, int16, error) {
	state := epochState{pair: NoEpoch}
	ask := kmsg.NewPtrDescribeTransactionsRequest()
	ask.TransactionalIDs = []string{role.name}
	code, err := t.coordinated(ctx, t.clients.plain, role, func(to kmsg.Requestor) (int16, error) {
		answer, err := ask.RequestWith(ctx, to)
		if err != nil {
			return 0, err
		}
		var code int16
		state, code = describedState(answer)
		return code, nil
	})
	if err != nil {
		return epochState{pair: NoEpoch}, 0, err
	}
	if state.pair != NoEpoch && state.state != stateEmpty && state.state != stateOngoing {
		t.mu.Lock()
		t.states = true
		t.mu.Unlock()
	}
	return state, code, nil
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// term is one epoch on a transport whose network and cluster fail on demand.
type term struct {
	*stage
	network   *lossy
	requests  *wire
	transport *coordination.KafkaTransport
	role      coordination.Role
	topic     string
	token     coordination.FencingToken
}

func newTerm(t *testing.T, opts ...kfake.Opt) *term {
	t.Helper()
	network := newLossy()
	s := network.over(fakeStage(t, opts...))
	x := &term{stage: s, network: network, requests: new(wire), role: role(t, unique("role"))}
	x.topic = s.compacted(t, 1)
	x.transport = s.transport(t, standardConfig(t), reporting(x.requests))
	var err error
	if x.token, err = x.transport.AcquireEpoch(within(t, patience), x.role); err != nil {
		t.Fatal(err)
	}
	x.write(t, "first")
	return x
}

// try writes a lease.
func (x *term) try(ctx context.Context, value string) error {
	return x.transport.WriteLease(ctx, at(x.topic, 0), x.token, coordination.EncodeKey(coordination.LeaseKey(x.role)), []byte(value))
}

func (x *term) write(t *testing.T, value string) {
	t.Helper()
	if err := x.try(within(t, patience), value); err != nil {
		t.Fatalf("write %q: %v", value, err)
	}
}

// check compares the committed leases, and demands that the epoch is the
// minted one and was minted once.
func (x *term) check(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, x.visible(t, x.topic, 0)); diff != "" {
		t.Errorf("committed leases mismatch (-want +got):\n%s", diff)
	}
	if got := x.describe(t, x.role); got != x.token {
		t.Errorf("the coordinator holds %s, want %s", got, x.token)
	}
	if got := x.requests.of(kmsg.InitProducerID); got != 1 {
		t.Errorf("%d InitProducerId requests, want 1", got)
	}
}

// The steps of a lease write.
var leaseSteps = []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.EndTxn}

func TestKafkaTransportSurvivesLosses(t *testing.T) {
	for _, key := range leaseSteps {
		for _, lost := range []struct{ requests, answers int }{{1, 0}, {0, 1}, {0, 3}, {2, 2}} {
			t.Run(fmt.Sprintf("%s, %d requests and %d answers", key.Name(), lost.requests, lost.answers), func(t *testing.T) {
				t.Parallel()
				x := newTerm(t)
				x.network.lose(key, lost.requests, lost.answers)
				x.write(t, "second")
				x.write(t, "third")
				if got := x.network.lost(key); got != lost.requests+lost.answers {
					t.Errorf("%d losses took place, want %d", got, lost.requests+lost.answers)
				}
				x.check(t, "first", "second", "third")
			})
		}
	}
}

func TestKafkaTransportRetriesWhatPasses(t *testing.T) {
	all := []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorNotAvailable,
		kerr.CoordinatorLoadInProgress, kerr.UnknownServerError, kerr.NetworkException, kerr.TransactionCoordinatorFenced}
	leader := []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition,
		kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.KafkaStorageError,
		kerr.UnknownServerError, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch}
	codes := map[kmsg.Key][]*kerr.Error{kmsg.AddPartitionsToTxn: all, kmsg.Produce: leader, kmsg.EndTxn: all}
	for _, key := range leaseSteps {
		for _, code := range codes[key] {
			t.Run(key.Name()+" "+code.Message, func(t *testing.T) {
				t.Parallel()
				x := newTerm(t)
				fault := x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: code, Count: 3, TopLevel: key == kmsg.EndTxn})
				x.write(t, "second")
				if got := fault.Hits(); got != 3 {
					t.Errorf("%d faults took place, want 3", got)
				}
				x.check(t, "first", "second")
			})
		}
	}
}

func TestKafkaTransportTellsAFence(t *testing.T) {
	for _, key := range leaseSteps {
		for _, code := range []*kerr.Error{kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.ProducerFenced} {
			t.Run(key.Name()+" "+code.Message, func(t *testing.T) {
				t.Parallel()
				x := newTerm(t)
				over := x.transport.Superseded(x.role, x.token)
				fault := x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: code, Count: -1, TopLevel: key == kmsg.EndTxn})
				err := x.try(within(t, patience), "second")
				if !errors.Is(err, coordination.ErrFenced) || !errors.Is(err, code) {
					t.Errorf("write: %v, want ErrFenced and %s", err, code.Message)
				}
				if got := fault.Hits(); got != 1 {
					t.Errorf("%d requests after the fence, want none", got-1)
				}
				select {
				case <-over:
				default:
					t.Error("the token is not known to be superseded")
				}
				before := x.requests.all()
				if err := x.try(within(t, patience), "third"); !errors.Is(err, coordination.ErrFenced) {
					t.Errorf("write after the fence: %v, want ErrFenced", err)
				}
				if got := x.requests.all() - before; got != 0 {
					t.Errorf("%d requests for a token that is known to be superseded", got)
				}
			})
		}
	}
}

// A record of an epoch that another mint supersedes on its way must not extend
// a transaction of the new epoch: that one would time out, and its holder with
// it.
func TestLateRecordOpensNoTransaction(t *testing.T) {
	x := newTerm(t)
	other := x.stage.transport(t, standardConfig(t))
	var fresh coordination.FencingToken
	x.network.interpose(kmsg.AddPartitionsToTxn, 3, func() {
		var err error
		if fresh, err = other.AcquireEpoch(context.Background(), x.role); err != nil {
			t.Errorf("mint between the requests: %v", err)
		}
	})
	if err := x.try(within(t, patience), "late"); !errors.Is(err, coordination.ErrFenced) {
		t.Errorf("write: %v, want ErrFenced", err)
	}
	ask := kmsg.NewPtrDescribeTransactionsRequest()
	ask.TransactionalIDs = []string{x.role.String()}
	answer, err := ask.RequestWith(within(t, patience), x.client(t))
	if err != nil {
		t.Fatal(err)
	}
	state := answer.TransactionStates[0]
	if got := token(t, state.ProducerID, state.ProducerEpoch); state.State != "Empty" || got != fresh {
		t.Errorf("after the late record a transaction is open: state %s under %s, want none under %s", state.State, got, fresh)
	}
}

func TestKafkaTransportAsksWhenAnAnswerLeavesItOpen(t *testing.T) {
	for _, key := range leaseSteps {
		for _, code := range []*kerr.Error{kerr.InvalidTxnState, kerr.UnknownProducerID, kerr.OutOfOrderSequenceNumber, kerr.TransactionAbortable} {
			t.Run("own epoch, "+key.Name()+" "+code.Message, func(t *testing.T) {
				t.Parallel()
				x := newTerm(t)
				x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: code, Count: 1, TopLevel: key == kmsg.EndTxn})
				x.write(t, "second")
				values := x.visible(t, x.topic, 0)
				if got := values[len(values)-1]; got != "second" {
					t.Errorf("committed leases %q, want the second last", values)
				}
				if got := x.describe(t, x.role); got != x.token {
					t.Errorf("the coordinator holds %s, want %s", got, x.token)
				}
			})
			t.Run("epoch of another, "+key.Name()+" "+code.Message, func(t *testing.T) {
				t.Parallel()
				x := newTerm(t)
				other := x.stage.transport(t, standardConfig(t))
				x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: code, Count: -1, TopLevel: key == kmsg.EndTxn, When: func(kmsg.Request) bool {
					return true
				}})
				if _, err := other.AcquireEpoch(within(t, patience), x.role); err != nil {
					t.Fatal(err)
				}
				if err := x.try(within(t, patience), "second"); !errors.Is(err, coordination.ErrFenced) {
					t.Errorf("write: %v, want ErrFenced", err)
				}
			})
		}
	}
}

func TestKafkaTransportGivesUpOnDisorder(t *testing.T) {
	x := newTerm(t)
	fault := x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.OutOfOrderSequenceNumber, Count: -1})
	err := x.try(within(t, patience), "second")
	if !errors.Is(err, kerr.OutOfOrderSequenceNumber) || errors.Is(err, coordination.ErrFenced) {
		t.Errorf("write: %v, want the answer of the broker and no fence", err)
	}
	if got := fault.Hits(); got != 2 {
		t.Errorf("%d attempts, want 2", got)
	}
}

func TestKafkaTransportReportsTheAnswerWhenNobodyArbitrates(t *testing.T) {
	x := newTerm(t)
	x.fake.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.AddPartitionsToTxn}, Err: kerr.InvalidTxnState, Count: -1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, Err: kerr.TransactionalIDAuthorizationFailed, Count: -1},
	)
	err := x.try(within(t, patience), "second")
	if !errors.Is(err, kerr.InvalidTxnState) || errors.Is(err, coordination.ErrFenced) {
		t.Errorf("write: %v, want INVALID_TXN_STATE and no fence", err)
	}
}

func TestKafkaTransportNamesAMissingPermission(t *testing.T) {
	tests := []struct {
		key        kmsg.Key
		code       *kerr.Error
		resource   string // "role" and "topic" stand for their names
		permission string
		call       func(context.Context, *term) error
	}{
		{kmsg.InitProducerID, kerr.TransactionalIDAuthorizationFailed, `transactional id "role"`, "WRITE", mintCall},
		{kmsg.FindCoordinator, kerr.TransactionalIDAuthorizationFailed, `transactional id "role"`, "DESCRIBE", mintCall},
		{kmsg.AddPartitionsToTxn, kerr.TransactionalIDAuthorizationFailed, `transactional id "role"`, "WRITE", writeCall},
		{kmsg.AddPartitionsToTxn, kerr.TopicAuthorizationFailed, `topic "topic"`, "WRITE", writeCall},
		{kmsg.Produce, kerr.TopicAuthorizationFailed, `topic "topic"`, "WRITE", writeCall},
		{kmsg.Produce, kerr.TransactionalIDAuthorizationFailed, `transactional id "role"`, "WRITE", writeCall},
		{kmsg.EndTxn, kerr.TransactionalIDAuthorizationFailed, `transactional id "role"`, "WRITE", writeCall},
		{kmsg.DescribeTransactions, kerr.TransactionalIDAuthorizationFailed, `transactional id "role"`, "DESCRIBE", describeCall},
		{kmsg.Fetch, kerr.TopicAuthorizationFailed, `topic "topic"`, "READ", readCall},
		{kmsg.Produce, kerr.TopicAuthorizationFailed, `topic "topic"`, "WRITE", appendCall},
		{kmsg.DescribeConfigs, kerr.TopicAuthorizationFailed, `topic "topic"`, "DESCRIBE_CONFIGS", verifyCall},
		{kmsg.Metadata, kerr.TopicAuthorizationFailed, `topic "topic"`, "DESCRIBE", verifyCall},
	}
	for _, tt := range tests {
		t.Run(tt.key.Name()+" "+tt.code.Message, func(t *testing.T) {
			t.Parallel()
			x := newTerm(t)
			if tt.key == kmsg.FindCoordinator {
				x.role = role(t, unique("role"))
			}
			fault := x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{tt.key}, Err: tt.code, Count: -1, TopLevel: tt.key == kmsg.EndTxn || tt.key == kmsg.InitProducerID})
			err := tt.call(within(t, patience), x)
			var denied *coordination.AuthorizationError
			if !errors.As(err, &denied) || !errors.Is(err, tt.code) {
				t.Fatalf("call: %v, want an AuthorizationError with %s", err, tt.code.Message)
			}
			names := strings.NewReplacer(x.role.String(), "role", x.topic, "topic")
			if got := names.Replace(denied.Resource); got != tt.resource || denied.Permission != tt.permission {
				t.Errorf("the error asks for %s on %s, want %s on %s", denied.Permission, got, tt.permission, tt.resource)
			}
			if got := fault.Hits(); got != 1 {
				t.Errorf("%d attempts, want 1", got)
			}
		})
	}
}

func mintCall(ctx context.Context, x *term) error {
	_, err := x.transport.AcquireEpoch(ctx, x.role)
	return err
}

func writeCall(ctx context.Context, x *term) error { return x.try(ctx, "second") }

func describeCall(ctx context.Context, x *term) error {
	minted, held, err := x.transport.DescribeEpoch(ctx, x.role)
	if err != nil && (held || minted != coordination.NoEpoch) {
		return fmt.Errorf("token %s, held %v beside %v", minted, held, err)
	}
	return err
}

func readCall(ctx context.Context, x *term) error {
	_, err := x.transport.ReadPartition(ctx, at(x.topic, 0))
	return err
}

func appendCall(ctx context.Context, x *term) error {
	return x.transport.Append(ctx, at(x.topic, 0), []byte("k"), []byte("v"))
}

func verifyCall(ctx context.Context, x *term) error {
	return x.transport.EnsureTopic(ctx, x.topic, 1)
}

func TestKafkaTransportDoesNotRepeatWhatIsRefused(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.InvalidRecord, kerr.MessageTooLarge, kerr.RecordListTooLarge,
		kerr.InvalidRequest, kerr.UnsupportedVersion, kerr.InvalidTopicException} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			x := newTerm(t)
			fault := x.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: code, Count: 1})
			err := x.try(within(t, patience), "second")
			var refused *coordination.TopicError
			if !errors.As(err, &refused) || !errors.Is(err, code) || refused.Topic != x.topic || refused.Partition != 0 {
				t.Errorf("write: %v, want a TopicError for %s/0 with %s", err, x.topic, code.Message)
			}
			if refused != nil && refused.Retriable() {
				t.Error("the error says that it is worth another try")
			}
			if got := fault.Hits(); got != 1 {
				t.Errorf("%d attempts, want 1", got)
			}
			x.write(t, "third")
			x.check(t, "first", "third")
		})
	}
}

func TestKafkaTransportContinuesWhereACallStopped(t *testing.T) {
	for _, key := range leaseSteps {
		for _, arrives := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, arrives %v", key.Name(), arrives), func(t *testing.T) {
				t.Parallel()
				stop := &cancelOn{key: key}
				x := newTerm(t)
				x.transport = x.stage.transport(t, standardConfig(t), reporting(x.requests), func(options *coordination.KafkaOptions) {
					options.ClientOptions = append(options.ClientOptions, kgo.WithHooks(stop))
				})
				var err error
				if x.token, err = x.transport.AcquireEpoch(within(t, patience), x.role); err != nil {
					t.Fatal(err)
				}
				x.write(t, "second")
				ctx, cancel := context.WithCancel(within(t, patience))
				if arrives {
					x.network.lose(key, 0, 1)
				} else {
					x.network.lose(key, 1, 0)
				}
				stop.arm(cancel)
				if err := x.try(ctx, "third"); !errors.Is(err, context.Canceled) || errors.Is(err, coordination.ErrFenced) {
					t.Fatalf("a cancelled write: %v, want the error of the context", err)
				}
				x.write(t, "fourth")
				values := x.visible(t, x.topic, 0)
				seen := map[string]int{}
				for _, value := range values {
					seen[value]++
				}
				if got := values[len(values)-1]; got != "fourth" || seen["fourth"] != 1 || seen["third"] > 1 {
					t.Errorf("committed leases %q, want the fourth once and last", values)
				}
				if got := x.describe(t, x.role); got != x.token {
					t.Errorf("the coordinator holds %s, want %s", got, x.token)
				}
			})
		}
	}
}

func TestKafkaTransportFollowsMovingLeaders(t *testing.T) {
	x := newTerm(t, kfake.NumBrokers(3))
	want := []string{"first"}
	for n := range 6 {
		if n%2 == 0 {
			x.fake.ShufflePartitionLeaders()
		} else {
			x.fake.RehashCoordinators()
		}
		value := fmt.Sprint("move ", n)
		x.write(t, value)
		want = append(want, value)
		records, err := x.transport.ReadPartition(within(t, patience), at(x.topic, 0))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(records[len(records)-1].Value); got != value {
			t.Errorf("after move %d the last record is %q, want %q", n, got, value)
		}
	}
	x.check(t, want...)
}

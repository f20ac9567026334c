// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// mints counts what the hook tells about mints.
func mints(requests *[]int) func(*coordination.KafkaOptions) {
	var mu sync.Mutex
	return func(options *coordination.KafkaOptions) {
		options.Hooks.Minted = func(_ coordination.Role, _ coordination.FencingToken, n int) {
			mu.Lock()
			defer mu.Unlock()
			*requests = append(*requests, n)
		}
	}
}

func TestMintOutlastsATroubledCoordinator(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress,
		kerr.UnknownServerError, kerr.NotEnoughReplicas, kerr.RequestTimedOut,
		kerr.InvalidTxnState, kerr.UnknownProducerID, kerr.TransactionAbortable} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			s := fakeStage(t)
			var requests []int
			transport := s.transport(t, standardConfig(t), mints(&requests))
			s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: code, Count: 2, TopLevel: true})
			if _, err := transport.AcquireEpoch(within(t, patience), role(t, "controller")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]int{3}, requests); diff != "" {
				t.Errorf("requests of the mint mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMintBacksOffWhileEpochsMayBurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := virtualStage(t)
		transport := s.transport(t, standardConfig(t))
		fault := s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.UnknownServerError, Count: -1, TopLevel: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := transport.AcquireEpoch(ctx, role(t, "controller"))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, kerr.UnknownServerError) {
			t.Errorf("mint: %v, want the error of the context and the last answer", err)
		}
		var failed *coordination.KafkaError
		if !errors.As(err, &failed) || !failed.Retriable() || failed.Operation != "InitProducerId" || failed.Subject != `role "controller"` {
			t.Errorf("mint: %+v, want a retriable KafkaError of InitProducerId for the role", failed)
		}
		if got := fault.Hits(); got < 10 || got > 30 {
			t.Errorf("%d requests in a minute, want 10 to 30", got)
		}
		s.stop(transport)
	})
}

func TestMintOfALostAnswerReturnsTheLastToken(t *testing.T) {
	s, network := fakeStage(t), newLossy()
	var requests []int
	r := role(t, "controller")
	transport := network.over(s).transport(t, standardConfig(t), mints(&requests))
	network.lose(kmsg.InitProducerID, 0, 2)
	minted, err := transport.AcquireEpoch(within(t, patience), r)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.describe(t, r); got != minted || minted.ProducerEpoch() != 2 {
		t.Errorf("token %s, the coordinator holds %s; want epoch 2 of both", minted, got)
	}
	if diff := cmp.Diff([]int{3}, requests); diff != "" {
		t.Errorf("requests of the mint mismatch (-want +got):\n%s", diff)
	}
}

func TestMintAsksForTheLeaseAsTransactionTimeout(t *testing.T) {
	tests := []struct {
		name    string
		lease   time.Duration
		allowed string // by the brokers, in milliseconds
		want    []int32
		err     string
	}{
		{name: "the duration", lease: 30 * time.Second, want: []int32{30_000}},
		{name: "a fraction rounds up", lease: 1500*time.Millisecond + time.Microsecond, want: []int32{1501}},
		{name: "below a millisecond", lease: time.Microsecond, want: []int32{1}},
		{name: "above what brokers allow by default", lease: time.Hour, want: []int32{900_000}},
		{name: "half is allowed", lease: 30 * time.Second, allowed: "20000", want: []int32{30_000, 15_000}},
		{name: "half is too long", lease: 30 * time.Second, allowed: "10000", want: []int32{30_000, 15_000},
			err: "a transaction timeout of 30s, the brokers allow 10s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var opts []kfake.Opt
			if tt.allowed != "" {
				opts = append(opts, kfake.BrokerConfigs(map[string]string{"transaction.max.timeout.ms": tt.allowed}))
			}
			s := fakeStage(t, opts...)
			var mu sync.Mutex
			var asked []int32
			s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Observe: true, Count: -1, When: func(kreq kmsg.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				ask := kreq.(*kmsg.InitProducerIDRequest)
				asked = append(asked, ask.TransactionTimeoutMillis)
				if ask.ProducerID != -1 || ask.ProducerEpoch != -1 {
					t.Errorf("the mint expects the pair %d:%d", ask.ProducerID, ask.ProducerEpoch)
				}
				return true
			}})
			transport := s.transport(t, leaseConfig(t, tt.lease, tt.lease/10, time.Second))
			_, err := transport.AcquireEpoch(within(t, patience), role(t, "controller"))
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("mint: %v, want %q in it", err, tt.err)
			}
			var timeout *coordination.TransactionTimeoutError
			if tt.err != "" && (!errors.As(err, &timeout) || !errors.Is(err, kerr.InvalidTransactionTimeout)) {
				t.Errorf("mint: %v, want a TransactionTimeoutError with the answer of the broker", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(tt.want, asked); diff != "" {
				t.Errorf("timeouts asked for mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMintsOfOneRoleTakeTurns(t *testing.T) {
	s := fakeStage(t)
	r := role(t, "controller")
	var running, most atomic.Int32
	network := newLossy()
	network.interpose(kmsg.InitProducerID, 5, func() {
		most.Store(max(most.Load(), running.Load()))
	})
	transport := network.over(s).transport(t, standardConfig(t), func(options *coordination.KafkaOptions) {
		options.Hooks.Minted = func(coordination.Role, coordination.FencingToken, int) { running.Add(-1) }
	})
	s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Observe: true, Count: -1, When: func(kmsg.Request) bool {
		running.Add(1)
		return true
	}})
	const n = 8
	tokens := make(chan coordination.FencingToken, n)
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			minted, err := transport.AcquireEpoch(within(t, patience), r)
			if err != nil {
				t.Error(err)
			}
			tokens <- minted
		})
	}
	group.Wait()
	close(tokens)
	newest := coordination.NoEpoch
	for minted := range tokens {
		if minted.Supersedes(newest) {
			newest = minted
		}
	}
	if current, known := transport.CurrentToken(r, newest); !known || current != newest || s.describe(t, r) != newest {
		t.Errorf("newest token %s: current %s, %v; the coordinator holds %s", newest, current, known, s.describe(t, r))
	}
	if got := most.Load(); got != 1 {
		t.Errorf("%d mints of the role at once, want 1", got)
	}
}

func TestMintOfTheZeroRoleIsRefused(t *testing.T) {
	transport := fakeStage(t).transport(t, standardConfig(t))
	if minted, err := transport.AcquireEpoch(t.Context(), coordination.Role{}); err == nil || minted != coordination.NoEpoch {
		t.Errorf("AcquireEpoch of the zero role = %s, %v", minted, err)
	}
	if minted, held, err := transport.DescribeEpoch(t.Context(), coordination.Role{}); err == nil || held || minted != coordination.NoEpoch {
		t.Errorf("DescribeEpoch of the zero role = %s, %v, %v", minted, held, err)
	}
}

func TestDescribeTakesTheWrongCodeForAnUnknownRole(t *testing.T) {
	s := fakeStage(t)
	r := role(t, "controller")
	transport := s.transport(t, standardConfig(t))
	if _, err := transport.AcquireEpoch(within(t, patience), r); err != nil {
		t.Fatal(err)
	}
	s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, Err: kerr.UnknownLeaderEpoch, Count: 1})
	minted, held, err := transport.DescribeEpoch(within(t, patience), r)
	if minted != coordination.NoEpoch || held || err != nil {
		t.Errorf("DescribeEpoch = %s, %v, %v; want %s, false, nil", minted, held, err, coordination.NoEpoch)
	}
}

func TestDescribeEndsWithinTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := virtualStage(t)
		transport := s.transport(t, standardConfig(t))
		s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
		began := time.Now()
		minted, held, err := transport.DescribeEpoch(t.Context(), role(t, "controller"))
		if !errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, context.DeadlineExceeded) || held || minted != coordination.NoEpoch {
			t.Errorf("DescribeEpoch = %s, %v, %v; want the last answer of the broker", minted, held, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		s.stop(transport)
	})
}

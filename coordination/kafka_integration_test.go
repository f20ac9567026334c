// SPDX-License-Identifier: Apache-2.0

//go:build integration

package coordination_test

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/coordination"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// sharedStage is the broker that all integration tests share. It moves the
// epoch of a producer with each transaction, where clients ask it to.
func sharedStage(t *testing.T) *stage { return &stage{brokers: kafkatest.Brokers(t)} }

func TestKafkaTransportSuiteOnKafka(t *testing.T) { runSuite(t, sharedStage(t)) }

func TestGuardedWritesOfRivalsAreLinearizableOnKafka(t *testing.T) { contestsHere(t, sharedStage(t)) }

func TestKafkaTransportTracksAnEpochThatMovesOnKafka(t *testing.T) {
	t.Run("whatever the version", func(t *testing.T) {
		tracks(t, movingBrokers{}.under(sharedStage(t)), role(t, unique("role")), 1)
	})
}

func TestKafkaTransportTakesNoEpochOnSilenceOnKafka(t *testing.T) { silentRival(t, sharedStage(t)) }

// A transactional producer of another program that uses the role's name as its
// transactional id takes the role like a member, and moves its epoch on.
func TestProducerOfAnotherProgramTakesTheRoleOnKafka(t *testing.T) {
	s := sharedStage(t)
	topic, r, elsewhere := s.compacted(t, 1), role(t, unique("role")), unique("elsewhere")
	s.create(t, elsewhere, 1)
	transport := s.transport(t, standardConfig(t))
	l := acquire(t, transport, r, "node-1", topic)
	other := s.client(t, kgo.TransactionalID(r.String()), kgo.DefaultProduceTopic(elsewhere))
	ctx := within(t, patience)
	var tokens []coordination.FencingToken
	for range 2 {
		if err := other.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := other.ProduceSync(ctx, &kgo.Record{Value: []byte("theirs")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := other.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, s.describe(t, r))
	}
	if !tokens[0].Supersedes(l.Token()) || !tokens[1].Supersedes(tokens[0]) {
		t.Errorf("tokens %v after %s, want them to grow with each transaction", tokens, l.Token())
	}
	status, err := coordination.DescribeLeadership(ctx, transport, r)
	if err != nil {
		t.Fatal(err)
	}
	if status.Authoritative(l.Token()) || !status.Superseded(l.Token()) {
		t.Errorf("status %s: authoritative %v, superseded %v of %s", status, status.Authoritative(l.Token()), status.Superseded(l.Token()), l.Token())
	}
	if err := l.Renew(ctx); !errors.Is(err, coordination.ErrFenced) || !errors.Is(err, kerr.ProducerFenced) {
		t.Errorf("renewal: %v, want ErrFenced with PRODUCER_FENCED", err)
	}
}

// Somebody deletes the topic of an election and creates it again. The holder
// keeps the role, and readers see the new log alone.
func TestTopicIsCreatedAnewOnKafka(t *testing.T) {
	s := sharedStage(t)
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	holder, reader := s.transport(t, standardConfig(t)), s.transport(t, standardConfig(t))
	l := acquire(t, holder, r, "node-1", topic)
	read := func() coordination.RoleState {
		t.Helper()
		state, err := coordination.DescribeRoleState(within(t, patience), reader, r, coordination.WithTopic(topic), coordination.WithPartitions(1))
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	s.settled(t, topic, 0)
	if state := read(); len(state.Roster) != 1 || state.Lease == nil {
		t.Errorf("before: roster %v, lease %v", names(state), state.Lease)
	}
	admin := kadm.NewClient(s.client(t))
	if _, err := admin.DeleteTopic(within(t, patience), topic); err != nil {
		t.Fatal(err)
	}
	// The name is free once the brokers have forgotten it.
	for created := false; !created; {
		answer, err := admin.CreateTopic(within(t, patience), 1, 1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}, topic)
		if created = err == nil && answer.Err == nil; !created && !errors.Is(err, kerr.TopicAlreadyExists) {
			t.Fatal(err)
		}
	}
	if err := l.Renew(within(t, patience)); err != nil {
		t.Fatalf("renewal in the new topic: %v", err)
	}
	s.settled(t, topic, 0)
	state := read()
	if len(state.Roster) != 0 || state.Lease == nil || *state.Lease != l.Lease() {
		t.Errorf("after: roster %v, lease %+v; want nobody and the lease %+v", names(state), state.Lease, l.Lease())
	}
}

// A topic grows under a holder and a standby. The holder goes on, and nobody else
// takes the role, whether it counts as before or anew.
func TestTopicThatGrowsDeposesNobodyOnKafka(t *testing.T) {
	t.Parallel()
	s := sharedStage(t)
	const before, after = 6, 12
	topic, r := s.compacted(t, before), role(t, unique("role"))
	for {
		old, err := coordination.RolePartition(r, before)
		if err != nil {
			t.Fatal(err)
		}
		if now, err := coordination.RolePartition(r, after); err != nil || now != old {
			break
		}
		r = role(t, unique("role"))
	}
	s.ready(t, r)
	compete := func(name string, partitions int) (*coordination.Leadership, error) {
		return coordination.AcquireLeadership(within(t, patience), s.transport(t, standardConfig(t)), r, member(t, name),
			coordination.WithTopic(topic), coordination.WithPartitions(partitions), coordination.WithPollInterval(100*time.Millisecond))
	}
	l, err := compete("node-1", before)
	if err != nil {
		t.Fatal(err)
	}
	release(t, l)
	waited := make(chan error, 1)
	go func() {
		_, err := compete("node-2", before)
		waited <- err
	}()
	s.grow(t, topic, after)
	for known := 0; known != after; { // brokers learn of it after they answered
		topics, err := kadm.NewClient(s.client(t)).ListTopics(within(t, patience), topic)
		if err != nil {
			t.Fatal(err)
		}
		known = len(topics[topic].Partitions)
	}
	refused := func(what string, err error) {
		t.Helper()
		var config *coordination.TopicConfigError
		if !errors.As(err, &config) || config.Setting != "partitions" || config.Have != "12" {
			t.Errorf("%s: %v, want its count of partitions refused", what, err)
		}
	}
	_, err = compete("node-3", after)
	refused("a member that counts anew", err)
	_, err = compete("node-4", before)
	refused("a member that counts as before", err)
	if err := l.Renew(within(t, patience)); err != nil {
		t.Errorf("renewal in the topic that grew: %v", err)
	}
	if got := s.describe(t, r); got != l.Token() {
		t.Errorf("the coordinator holds %s, want %s of the holder", got, l.Token())
	}
	if err := l.Resign(within(t, patience)); err != nil {
		t.Error(err)
	}
	refused("the standby after the resignation", <-waited)
	_, err = compete("node-5", after)
	refused("a member that counts anew, without a holder", err)
	if got := s.describe(t, r); got != l.MintedToken() {
		t.Errorf("the coordinator holds %s, want %s of the only mint", got, l.MintedToken())
	}
}

// lastEpochs is how many mints use up the epochs of a producer id.
const lastEpochs = 32766

func TestEpochsRunOutOnKafka(t *testing.T) {
	t.Parallel()
	s := sharedStage(t)
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	ctx := within(t, 5*time.Minute)
	holder, rival := s.transport(t, standardConfig(t)), s.transport(t, standardConfig(t))
	first, err := rival.AcquireEpoch(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	last := first
	for last.ProducerEpoch() < lastEpochs-2 {
		next, err := rival.AcquireEpoch(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		if !next.Supersedes(last) {
			t.Fatalf("minted %s after %s", next, last)
		}
		last = next
	}
	l := acquire(t, holder, r, "node-1", topic)
	for range 4 {
		if err := l.Renew(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.describe(t, r); got != l.Token() || got.ProducerEpoch() != lastEpochs-1 || got.ProducerID() != first.ProducerID() {
		t.Errorf("after four renewals the coordinator holds %s and the token is %s, want epoch %d of both", got, l.Token(), lastEpochs-1)
	}
	var fresh coordination.FencingToken
	for _, want := range []int16{lastEpochs, 0} {
		if fresh, err = rival.AcquireEpoch(ctx, r); err != nil {
			t.Fatal(err)
		}
		if fresh.ProducerEpoch() != want {
			t.Errorf("minted %s, want epoch %d", fresh, want)
		}
	}
	// One broker hands out growing producer ids.
	if fresh.ProducerID() == first.ProducerID() || !fresh.Supersedes(l.Token()) {
		t.Errorf("minted %s after the last epoch of %s, want a larger producer id", fresh, first)
	}
	err = l.Renew(ctx)
	if !errors.Is(err, coordination.ErrFenced) || !errors.Is(err, kerr.InvalidProducerIDMapping) {
		t.Errorf("a renewal under the old producer id: %v, want ErrFenced with INVALID_PRODUCER_ID_MAPPING", err)
	}
	if _, err := rival.WriteLeaseAt(ctx, at(topic, 0), fresh, coordination.EncodeKey(coordination.LeaseKey(r)), nil); err != nil {
		t.Errorf("a tombstone under the new producer id: %v", err)
	}
	next := acquire(t, rival, r, "node-2", topic)
	if !next.Token().Supersedes(fresh) || next.Sequence() <= l.Sequence() {
		t.Errorf("term %s at %d follows token %s and the term at %d", next.Token(), next.Sequence(), fresh, l.Sequence())
	}
}

// A broker handles a request of a connection that is gone, and a request to
// commit names no transaction.
func TestLateCommitDoesNotTearAGuardedWriteApartOnKafka(t *testing.T) {
	newStrayed(t, sharedStage(t), 2).checkNext(t, []int{0, 0, 1}, [][]string{{"first", "0", "1"}, {"2"}})
}

// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// transactionCoordinator is the kind of coordinator that FindCoordinator asks
// for.
const transactionCoordinator = 1

// rememberedCoordinators bounds what a process keeps that asks about ever new
// roles.
const rememberedCoordinators = 4096

// kafkaRoutes remember which broker answers for what.
type kafkaRoutes struct {
	mu           sync.Mutex // guards the fields below
	coordinators map[Role]int32
	topics       map[string]*topicRoute
	counts       map[string]int // of partitions, of the topics that EnsureTopic verified
}

// topicRoute is where the partitions of a topic are. It does not change.
type topicRoute struct {
	id         [16]byte
	partitions []partitionRoute
	asked      time.Time
}

// partitionRoute is the leader of a partition, or -1, and the error of a
// partition without one.
type partitionRoute struct {
	leader           int32
	epoch            int32
	code             int16
	replicas, inSync int
}

// coordinator returns the broker that coordinates a role.
func (t *KafkaTransport) coordinator(ctx context.Context, role Role) (int32, error) {
	t.routes.mu.Lock()
	node, known := t.routes.coordinators[role]
	t.routes.mu.Unlock()
	if known {
		return node, nil
	}
	ask := kmsg.NewPtrFindCoordinatorRequest()
	ask.CoordinatorType = transactionCoordinator
	ask.CoordinatorKeys = []string{role.name}
	answer, err := ask.RequestWith(ctx, t.clients.plain)
	if err != nil {
		return -1, connectionError(ctx, err)
	}
	if len(answer.Coordinators) != 1 {
		return -1, &transientError{err: kerr.CoordinatorNotAvailable}
	}
	found := answer.Coordinators[0]
	if err := roleAnswer(role, "DESCRIBE", found.ErrorCode); err != nil {
		return -1, err
	}
	t.routes.mu.Lock()
	defer t.routes.mu.Unlock()
	if len(t.routes.coordinators) >= rememberedCoordinators {
		clear(t.routes.coordinators)
	}
	t.routes.coordinators[role] = found.NodeID
	return found.NodeID, nil
}

func (t *KafkaTransport) forgetCoordinator(role Role) {
	t.routes.mu.Lock()
	defer t.routes.mu.Unlock()
	delete(t.routes.coordinators, role)
}

// coordinated sends a request to the coordinator of a role. send does that
// with the broker it is given, and returns the error code of the answer.
func (t *KafkaTransport) coordinated(ctx context.Context, client *kgo.Client, role Role, send func(kmsg.Requestor) (int16, error)) (int16, error) {
	node, err := t.coordinator(ctx, role)
	if err != nil {
		return 0, err
	}
	code, err := send(client.Broker(int(node)))
	if err != nil {
		t.forgetCoordinator(role)
		client.ForceMetadataRefresh()
		return 0, connectionError(ctx, err)
	}
	switch kerr.ErrorForCode(code) {
	case kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress:
		t.forgetCoordinator(role)
	}
	return code, nil
}

// topic returns where the partitions of a topic are.
func (t *KafkaTransport) topic(ctx context.Context, topic string) (*topicRoute, error) {
	t.routes.mu.Lock()
	route := t.routes.topics[topic]
	t.routes.mu.Unlock()
	if route != nil {
		return route, nil
	}
	asked := time.Now()
	answer, err := t.metadata(ctx, topic)
	if err != nil {
		return nil, err
	}
	found := answer[0]
	if err := topicAnswer(topic, -1, "DESCRIBE", found.ErrorCode); err != nil {
		return nil, err
	}
	route = &topicRoute{id: found.TopicID, partitions: make([]partitionRoute, len(found.Partitions)), asked: asked}
	for i := range route.partitions {
		route.partitions[i] = partitionRoute{leader: -1, code: kerr.LeaderNotAvailable.Code}
	}
	for _, p := range found.Partitions {
		if p.Partition >= 0 && int(p.Partition) < len(route.partitions) {
			route.partitions[p.Partition] = partitionRoute{p.Leader, p.LeaderEpoch, p.ErrorCode, len(p.Replicas), len(p.ISR)}
		}
	}
	t.routes.mu.Lock()
	defer t.routes.mu.Unlock()
	t.routes.topics[topic] = route
	return route, nil
}

// metadata asks for the metadata of topics and returns one entry for each.
func (t *KafkaTransport) metadata(ctx context.Context, topics ...string) ([]kmsg.MetadataResponseTopic, error) {
	ask := kmsg.NewPtrMetadataRequest()
	ask.AllowAutoTopicCreation = false
	for i := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &topics[i]
		ask.Topics = append(ask.Topics, topic)
	}
	answer, err := ask.RequestWith(ctx, t.clients.plain)
	if err != nil {
		return nil, connectionError(ctx, err)
	}
	found := make([]kmsg.MetadataResponseTopic, len(topics))
	for i, topic := range topics {
		found[i].ErrorCode = kerr.UnknownTopicOrPartition.Code
		for _, candidate := range answer.Topics {
			if candidate.Topic != nil && *candidate.Topic == topic {
				found[i] = candidate
			}
		}
	}
	return found, nil
}

// expectCount remembers the partition count that the roles of a topic rely on.
func (t *KafkaTransport) expectCount(topic string, partitions int) {
	t.routes.mu.Lock()
	defer t.routes.mu.Unlock()
	t.routes.counts[topic] = partitions
}

// checkCount refuses a topic that has another partition count than when it was
// verified. Its roles have other partitions by the new count.
func (t *KafkaTransport) checkCount(topic string, have int) error {
	t.routes.mu.Lock()
	want, expected := t.routes.counts[topic]
	t.routes.mu.Unlock()
	if !expected || have == want {
		return nil
	}
	return wrongCount(topic, have, want)
}

func wrongCount(topic string, have, want int) error {
	return &TopicConfigError{Topic: topic, Setting: settingPartitions, Have: strconv.Itoa(have), Want: strconv.Itoa(want)}
}

// checkCounts asks the brokers for the partition count of every topic that was
// verified.
func (t *KafkaTransport) checkCounts(ctx context.Context) error {
	t.routes.mu.Lock()
	topics := slices.Sorted(maps.Keys(t.routes.counts))
	t.routes.mu.Unlock()
	if len(topics) == 0 {
		return nil
	}
	found, err := t.metadata(ctx, topics...)
	if err != nil {
		return err
	}
	for i, topic := range found {
		if err = topicAnswer(topics[i], -1, "DESCRIBE", topic.ErrorCode); err == nil {
			err = t.checkCount(topics[i], len(topic.Partitions))
		}
		if err != nil {
			t.forgetTopic(topics[i])
			return err
		}
	}
	return nil
}

// missingTopic is the transient error of a topic or partition that the brokers
// do not know or that has no leader.
func missingTopic(topic string, partition int, code int16) error {
	err := kerr.ErrorForCode(code)
	return &transientError{
		err:     &TopicError{Topic: topic, Partition: partition, Err: err},
		missing: err == kerr.UnknownTopicOrPartition || err == kerr.UnknownTopicID,
	}
}

func (t *KafkaTransport) forgetTopic(topic string) {
	t.routes.mu.Lock()
	defer t.routes.mu.Unlock()
	delete(t.routes.topics, topic)
}

// leader returns the topic and the leader of one of its partitions.
func (t *KafkaTransport) leader(ctx context.Context, at TopicPartition) (*topicRoute, partitionRoute, error) {
	route, err := t.topic(ctx, at.Topic)
	if err != nil {
		return nil, partitionRoute{}, err
	}
	if at.Partition < 0 || at.Partition >= len(route.partitions) {
		count := len(route.partitions)
		t.forgetTopic(at.Topic)
		return nil, partitionRoute{}, &transientError{
			err: &TopicError{Topic: at.Topic, Partition: at.Partition,
				Err: fmt.Errorf("the topic has %d partitions: %w", count, kerr.UnknownTopicOrPartition)},
			missing: true,
		}
	}
	partition := route.partitions[at.Partition]
	if partition.leader < 0 {
		t.forgetTopic(at.Topic)
		return nil, partitionRoute{}, missingTopic(at.Topic, at.Partition, max(partition.code, kerr.LeaderNotAvailable.Code))
	}
	return route, partition, nil
}

// lost is called when a request to the leader of a partition had no answer.
func (t *KafkaTransport) lost(ctx context.Context, client *kgo.Client, topic string, err error) error {
	t.forgetTopic(topic)
	client.ForceMetadataRefresh()
	return connectionError(ctx, err)
}

// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	cleanupPolicy = "cleanup.policy"
	compactPolicy = "compact"
	// brokerReplication lets the brokers choose the replication factor.
	brokerReplication = -1
)

// ensureCompacted creates a compacted topic, or checks that an existing one is
// compacted.
func (c *connection) ensureCompacted(ctx context.Context, topic string, partitions int) error {
	policy := compactPolicy
	resp, err := c.admin.CreateTopic(ctx, int32(partitions), brokerReplication, map[string]*string{cleanupPolicy: &policy}, topic)
	if err == nil {
		err = resp.Err
	}
	exists := errors.Is(err, kerr.TopicAlreadyExists)
	switch {
	case err == nil, exists:
		// Brokers learn of it one after the other, however long ago it was made.
		if _, err := c.topicDetailsWithin(ctx, c.settings.callTimeout, []string{topic}); err != nil {
			return err
		}
		if exists {
			return c.checkCompacted(ctx, topic)
		}
		return nil
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.PolicyViolation):
		return topicError(topic, -1, fmt.Errorf("create topic: %w", err))
	}
	return c.typed(fmt.Sprintf("create topic %q", topic), err)
}

func (c *connection) checkCompacted(ctx context.Context, topic string) error {
	resources, err := c.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return c.typed(fmt.Sprintf("configuration of topic %q", topic), err)
	}
	resource, err := resources.On(topic, nil)
	if err == nil {
		err = resource.Err
	}
	if err != nil {
		return topicError(topic, -1, err)
	}
	for _, config := range resource.Configs {
		if config.Key == cleanupPolicy && config.MaybeValue() != compactPolicy {
			return &TopicConfigError{Topic: topic, Config: cleanupPolicy, Have: config.MaybeValue(), Want: compactPolicy}
		}
	}
	return nil
}

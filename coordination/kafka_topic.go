// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Settings of topics, and the values that coordination looks for.
const (
	settingCleanup = "cleanup.policy"
	settingInSync  = "min.insync.replicas"
	settingUnclean = "unclean.leader.election.enable"
	cleanupCompact = "compact"
	safeReplicas   = 3
	safeInSync     = 2

	// transactionTopic is where brokers keep the epochs.
	transactionTopic = "__transaction_state"
)

// EnsureTopic checks that the coordination topic is fit for use, as the
// [TopicPolicy] of the transport says: that it exists, has this partition
// count, and is compacted only. A topic that was created a moment before is
// waited for. From then on the transport verifies the partition count again
// whenever it learns of another one and before every mint.
//
// EnsureTopic returns a [*TopicError] for a topic that does not exist and a
// [*TopicConfigError] for each setting that is wrong, all joined. A setting
// that endangers the epochs when brokers fail is logged as a warning: fewer
// than three replicas, fewer than two in-sync replicas, or unclean leader
// elections, of the topic and of the brokers' own topic for transactions.
func (t *KafkaTransport) EnsureTopic(ctx context.Context, topic string, partitions int) error {
	if err := checkTopic(topic); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	if partitions < 1 {
		return fmt.Errorf("kafka: partition count %d must be at least 1", partitions)
	}
	call, leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if t.options.TopicPolicy == TrustTopic {
		return nil
	}
	if t.options.TopicPolicy == CreateTopic {
		if err := t.createTopic(call, topic, partitions); err != nil {
			return err
		}
	}
	if err := t.verifyTopic(call, topic, partitions); err != nil {
		return err
	}
	t.expectCount(topic, partitions)
	return nil
}

func topicRequest(operation, topic string) request {
	return request{operation: operation, subject: fmt.Sprintf("topic %q", topic)}
}

// createTopic creates the topic, unless it exists.
func (t *KafkaTransport) createTopic(ctx context.Context, topic string, partitions int) error {
	settings := make(map[string]*string)
	for name, value := range t.options.topicSettings() {
		settings[name] = &value
	}
	replicas := int16(-1)
	if t.options.ReplicationFactor > 0 {
		replicas = int16(t.options.ReplicationFactor)
	}
	return t.persist(ctx, topicRequest("CreateTopics", topic), func(ctx context.Context) error {
		created, err := kadm.NewClient(t.clients.plain).CreateTopic(ctx, int32(partitions), replicas, settings, topic)
		if created.Err == nil && err != nil {
			return connectionError(ctx, err)
		}
		if errors.Is(err, kerr.TopicAlreadyExists) {
			return nil
		}
		err = topicAnswer(topic, -1, "CREATE", codeOf(created.Err))
		if refused, final := err.(*TopicError); final && created.ErrMessage != "" {
			refused.Err = fmt.Errorf("%w: %s", refused.Err, created.ErrMessage)
		}
		return err
	})
}

// verifyTopic checks the topic, and warns about what it does not check.
func (t *KafkaTransport) verifyTopic(ctx context.Context, topic string, partitions int) error {
	var found []kmsg.MetadataResponseTopic
	err := t.persist(ctx, topicRequest("Metadata", topic), func(ctx context.Context) (err error) {
		if found, err = t.metadata(ctx, topic, transactionTopic); err != nil {
			return err
		}
		return topicAnswer(topic, -1, "DESCRIBE", found[0].ErrorCode)
	})
	if err != nil {
		return err
	}
	settings, err := t.topicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	var problems []error
	if have := len(found[0].Partitions); have != partitions {
		problems = append(problems, wrongCount(topic, have, partitions))
	}
	if have := settings[topic][settingCleanup]; have != cleanupCompact {
		problems = append(problems, &TopicConfigError{Topic: topic, Setting: settingCleanup, Have: have, Want: cleanupCompact})
	}
	for _, metadata := range found {
		t.warnAbout(metadata, settings)
	}
	return errors.Join(problems...)
}

// topicConfigs returns the settings of the topic and, if the brokers tell, of
// their topic for transactions.
func (t *KafkaTransport) topicConfigs(ctx context.Context, topic string) (map[string]map[string]string, error) {
	ask := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range []string{topic, transactionTopic} {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType = kmsg.ConfigResourceTypeTopic
		resource.ResourceName = name
		resource.ConfigNames = []string{settingCleanup, settingInSync, settingUnclean}
		ask.Resources = append(ask.Resources, resource)
	}
	settings := make(map[string]map[string]string)
	err := t.persist(ctx, topicRequest("DescribeConfigs", topic), func(ctx context.Context) error {
		answer, err := ask.RequestWith(ctx, t.clients.plain)
		if err != nil {
			return connectionError(ctx, err)
		}
		clear(settings)
		for _, resource := range answer.Resources {
			code := resource.ErrorCode
			if code != 0 && resource.ResourceName != topic {
				continue
			}
			if err := topicAnswer(topic, -1, "DESCRIBE_CONFIGS", code); err != nil {
				return err
			}
			values := make(map[string]string)
			for _, config := range resource.Configs {
				if config.Value != nil {
					values[config.Name] = *config.Value
				}
			}
			settings[resource.ResourceName] = values
		}
		return nil
	})
	return settings, err
}

// settingsOf returns the settings that a broker told, by name.
func settingsOf(resource kadm.ResourceConfig) map[string]string {
	values := make(map[string]string)
	for _, config := range resource.Configs {
		values[config.Key] = config.MaybeValue()
	}
	return values
}

// warnAbout logs what makes a topic lose records when brokers fail.
func (t *KafkaTransport) warnAbout(topic kmsg.MetadataResponseTopic, settings map[string]map[string]string) {
	if topic.Topic == nil || topic.ErrorCode != 0 {
		return
	}
	name := *topic.Topic
	replicas := safeReplicas
	for _, partition := range topic.Partitions {
		replicas = min(replicas, len(partition.Replicas))
	}
	if replicas < safeReplicas {
		t.warnOnce("the topic has too few replicas to keep its records when brokers fail", "topic", name, "replicas", replicas, "want", safeReplicas)
	}
	values := settings[name]
	if have, err := strconv.Atoi(values[settingInSync]); err == nil && have < safeInSync {
		t.warnOnce("the topic acknowledges records that a single broker holds", "topic", name, settingInSync, have, "want", safeInSync)
	}
	if values[settingUnclean] == "true" {
		t.warnOnce("the topic may lose acknowledged records to an unclean leader election", "topic", name, settingUnclean, true)
	}
}

// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaOptions configures [NewKafkaTransportWithOptions].
type KafkaOptions struct {
	// Brokers are the addresses of one or more brokers to start from, each as
	// host or host:port. At least one is required.
	Brokers []string

	// ClientOptions reach every client of the transport: TLS, SASL, the
	// dialer, the client id, hooks, the logger of the client. They go before
	// the timeouts and the short waits between attempts that the transport
	// chooses. An option that decides what coordination depends on is an error:
	// seed brokers, context, versions, acks, transactions, groups, consumed
	// topics and the creation of topics by use. What concerns the client's own
	// producing, such as a partitioner or a compression, has no effect.
	ClientOptions []kgo.Opt

	// TopicPolicy tells what [KafkaTransport.EnsureTopic] does. The zero value
	// is [VerifyTopic].
	TopicPolicy TopicPolicy

	// ReplicationFactor is the number of replicas of a topic that
	// [CreateTopic] creates. Zero leaves it to the brokers. A negative value,
	// and a value with another policy, is an error.
	ReplicationFactor int

	// TopicSettings are the settings of a topic that [CreateTopic] creates,
	// such as min.insync.replicas. They add to the ones of the transport or
	// replace them; cleanup.policy cannot be replaced. A value with another
	// policy is an error.
	TopicSettings map[string]string

	Hooks KafkaHooks // told what the transport does

	// Logger receives warnings about the cluster and about what is retried.
	// Nil discards them.
	Logger *slog.Logger
}

// TopicPolicy tells how a [KafkaTransport] treats the coordination topic
// before a member relies on it.
type TopicPolicy int

const (
	// VerifyTopic demands that the topic exists, has the expected partition
	// count and is compacted, and nothing but compacted.
	VerifyTopic TopicPolicy = iota

	// CreateTopic creates the topic if it does not exist, and verifies it.
	CreateTopic

	// TrustTopic checks nothing. It needs no permission to describe the topic.
	TrustTopic
)

// String names the policy.
func (p TopicPolicy) String() string {
	switch p {
	case VerifyTopic:
		return "verify"
	case CreateTopic:
		return "create"
	case TrustTopic:
		return "trust"
	}
	return fmt.Sprintf("TopicPolicy(%d)", int(p))
}

// KafkaHooks is a set of functions that a [KafkaTransport] calls. A nil
// function costs nothing. The functions run on the goroutine that did the
// work; a function that blocks holds it up. They must not close the transport.
type KafkaHooks struct {
	// Minted runs after a mint, with the number of requests it took. Every
	// request before the last may have burnt an epoch.
	Minted func(role Role, token FencingToken, requests int)

	// Fetched runs after a read of a partition that asked the broker, with the
	// records and bytes that came. What the transport remembered is not counted.
	Fetched func(partition TopicPartition, records, bytes int)

	// Retried runs before a request is sent again, with the reason.
	Retried func(operation string, reason error)

	// Tracking runs when the transport finds that the brokers advance the
	// epoch of the role with every transaction, see [KafkaTransport.Mode].
	Tracking func(role Role, token FencingToken)
}

// maxTransactionTimeout is the longest transaction timeout that a broker
// accepts by default.
const maxTransactionTimeout = 15 * time.Minute

// Bounds of the time a broker may take to answer before the transport tries
// again.
const (
	minAnswerTime = time.Second
	maxAnswerTime = 10 * time.Second
)

// answerTime returns how long a broker may take to answer.
func answerTime(lease LeaseConfig) time.Duration {
	return min(max(lease.duration/marginAttempts, minAnswerTime), maxAnswerTime)
}

// check returns all problems of the options joined.
func (o KafkaOptions) check(lease LeaseConfig) error {
	var problems []error
	add := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("kafka: %w: "+format, append([]any{ErrInvalidOption}, args...)...))
	}
	if err := lease.check(); err != nil {
		add("%w", err)
	}
	if len(o.Brokers) == 0 {
		add("at least one broker is required")
	}
	for i, broker := range o.Brokers {
		if broker == "" {
			add("broker %d is empty", i)
		}
	}
	for i, option := range o.ClientOptions {
		if option == nil {
			add("client option %d is nil", i)
		}
	}
	if o.TopicPolicy < VerifyTopic || o.TopicPolicy > TrustTopic {
		add("unknown topic policy %d", int(o.TopicPolicy))
	}
	if o.ReplicationFactor < 0 || o.ReplicationFactor > 1<<15-1 {
		add("replication factor %d is out of range", o.ReplicationFactor)
	}
	if o.TopicPolicy != CreateTopic && (o.ReplicationFactor != 0 || len(o.TopicSettings) != 0) {
		add("topic settings need the topic policy %q, have %q", CreateTopic, o.TopicPolicy)
	}
	if policy, ok := o.TopicSettings[settingCleanup]; ok && policy != cleanupCompact {
		add("setting %s must be %q, have %q", settingCleanup, cleanupCompact, policy)
	}
	return errors.Join(problems...)
}

// ownedOptions are the options of the clients that callers may not change.
var ownedOptions = []string{
	"WithContext", "SeedBrokers", "RequiredAcks", "MaxVersions", "MinVersions", "AllowAutoTopicCreation", "TransactionalID",
	"ConsumerGroup", "ShareGroup", "ConsumeTopics", "ConsumePartitions", "ConsumeRegex",
}

// kafkaClients are the two clients of a transport. The plain one speaks the
// newest versions; the pinned one is for the requests of a lease.
type kafkaClients struct {
	plain, pinned *kgo.Client

	decompressor kgo.Decompressor
	longest      int // request that may be written, in bytes
}

func (c kafkaClients) close() {
	for _, client := range []*kgo.Client{c.plain, c.pinned} {
		if client != nil {
			client.Close()
		}
	}
}

// newKafkaClients builds both clients; they live until ctx ends.
func newKafkaClients(ctx context.Context, lease LeaseConfig, options KafkaOptions) (kafkaClients, error) {
	own := []kgo.Opt{
		kgo.WithContext(ctx),
		kgo.SeedBrokers(options.Brokers...),
		kgo.RequestTimeoutOverhead(answerTime(lease)),
		kgo.RetryBackoffFn(quickPace.wait),
		kgo.MaxDecompressBatchBytes(maxFetchMemory),
	}
	untouched, err := kgo.NewClient(own...)
	if err != nil {
		return kafkaClients{}, fmt.Errorf("kafka: %w: %w", ErrInvalidOption, err)
	}
	defer untouched.Close()
	opts := slices.Concat(own, options.ClientOptions)
	var clients kafkaClients
	if clients.plain, err = kgo.NewClient(opts...); err != nil {
		return kafkaClients{}, fmt.Errorf("kafka: %w: %w", ErrInvalidOption, err)
	}
	var problems []error
	for _, name := range ownedOptions {
		if !reflect.DeepEqual(clients.plain.OptValue(name), untouched.OptValue(name)) {
			problems = append(problems, fmt.Errorf("kafka: %w: the transport decides on the client option %s", ErrInvalidOption, name))
		}
	}
	if len(problems) > 0 {
		clients.close()
		return kafkaClients{}, errors.Join(problems...)
	}
	clients.decompressor, _ = clients.plain.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	longest, _ := clients.plain.OptValue(kgo.BrokerMaxWriteBytes).(int32)
	clients.longest = int(longest)
	clients.pinned, err = kgo.NewClient(append(opts, kgo.MaxVersions(pinnedVersions()), kgo.DisableClientMetrics())...)
	if err != nil {
		clients.close()
		return kafkaClients{}, fmt.Errorf("kafka: %w: %w", ErrInvalidOption, err)
	}
	return clients, nil
}

// topicSettings returns the settings of a topic to create.
func (o KafkaOptions) topicSettings() map[string]string {
	settings := map[string]string{
		settingCleanup:              cleanupCompact,
		"segment.ms":                "3600000",
		"segment.bytes":             "16777216",
		"min.cleanable.dirty.ratio": "0.1",
		"max.compaction.lag.ms":     "3600000",
		"delete.retention.ms":       "86400000",
	}
	if o.ReplicationFactor >= safeReplicas {
		settings[settingInSync] = fmt.Sprint(safeInSync)
	}
	maps.Copy(settings, o.TopicSettings)
	return settings
}

// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// deliveryBucket is how exactly the delivery timeout is kept.
	deliveryBucket = 5 * time.Second
	// retryPause is the wait between attempts at something that a broker is
	// about to finish.
	retryPause = 50 * time.Millisecond
	// newTopicGrace is how long brokers may deny a topic that was created just
	// before.
	newTopicGrace = 2 * time.Second
	// fetchMaxWait is how long a broker may keep a fetch without records waiting. A
	// partition that was paused takes part in the next fetch, so it bounds how long
	// records wait when it goes on; the client's default is 5 seconds.
	fetchMaxWait = 500 * time.Millisecond
	// fetchPartitionBytes is how much one fetch brings of a partition. It bounds the
	// rounds of a backlog, long before the bound of a poll does; the client's default
	// is half of it.
	fetchPartitionBytes = 2 << 20
	// markerMetadataAge bounds how long the client waits before it sends records
	// again that a broker refused with CONCURRENT_TRANSACTIONS, which it does while it
	// writes the markers of the transaction before. The client waits for new metadata
	// then, and asks for metadata that often at most; its default is 5 seconds.
	markerMetadataAge = 50 * time.Millisecond
)

// defaults are options that a caller may change. A round sends its outputs and then
// waits for their acknowledgements, so a linger only keeps the round waiting.
func defaults() []kgo.Opt {
	return []kgo.Opt{kgo.ProducerLinger(0), kgo.FetchMaxWait(fetchMaxWait), kgo.FetchMaxPartitionBytes(fetchPartitionBytes)}
}

// connection is a client with what its errors must name.
type connection struct {
	client   *kgo.Client
	admin    *kadm.Client
	cancel   context.CancelFunc // ends every request of the client
	settings settings

	group           string
	instanceID      string
	transactionalID string
	seeds           []string

	sending atomic.Pointer[delivery] // nil before the first record
	slab    sendingSlab
	promise func(*kgo.Record, error) // of all records whose context is theirs
	traced  bool                     // records are not, because hooks may change it
	failed  func(error)              // told of a record that is not written; may be nil
}

// owned is an option that the adapter sets and a caller may not change.
type owned struct {
	name string
	opt  kgo.Opt // nil where the default is what the adapter needs
	want any     // what OptValue returns
}

// producing are the owned options of everything that produces.
func producing() []owned {
	return []owned{
		{name: "DisableIdempotentWrite", want: false},
		{name: "ManualFlushing", want: false},
		{name: "DefaultProduceTopicAlways", want: false},
		// The client counts it from a record's own timestamp.
		{name: "RecordDeliveryTimeout", want: time.Duration(0)},
	}
}

// consuming are the owned options of everything that consumes.
func consuming() []owned {
	return []owned{
		{name: "FetchIsolationLevel", opt: kgo.FetchIsolationLevel(kgo.ReadCommitted()), want: int8(1)},
		{name: "ConsumeStartOffset", opt: kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), want: kgo.NewOffset().AtStart()},
		{name: "ConsumeResetOffset", opt: kgo.ConsumeResetOffset(kgo.NoResetOffset()), want: kgo.NoResetOffset()},
		{name: "KeepControlRecords", opt: kgo.KeepControlRecords(), want: true},
		{name: "KeepRetryableFetchErrors", opt: kgo.KeepRetryableFetchErrors(), want: true},
		{name: "ConsumeTopics", want: []string(nil)},
		{name: "ConsumePartitions", want: map[string]map[int32]kgo.Offset(nil)},
		{name: "ConsumeRegex", want: false},
		{name: "ShareGroup", want: ""},
	}
}

// connect builds a client: defaults, then the options that the adapter owns,
// then the caller's, so that a caller's option that changes an owned one shows.
// The options of last are functions and cannot be compared; they win silently.
// build makes the client from the options.
func connect(scope scope, callers []kgo.Opt, owns []owned, last []kgo.Opt, build func(...kgo.Opt) (*kgo.Client, error)) (*connection, error) {
	own, callers, err := splitOptions(callers, scope)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	opts := append(defaults(), kgo.WithContext(ctx))
	for _, o := range owns {
		if o.opt != nil {
			opts = append(opts, o.opt)
		}
	}
	opts = slices.Concat(opts, callers, last)
	client, err := build(opts...)
	if err != nil {
		cancel()
		return nil, textPrefix.Wrap(err, "client")
	}
	var problems []error
	if client.OptValue(kgo.WithContext) != ctx {
		problems = append(problems, &OptionError{Option: "WithContext", Have: "given", Want: "Close to end the client"})
	}
	for _, o := range owns {
		if have := client.OptValue(o.name); !sameOption(have, o.want) {
			problems = append(problems, &OptionError{Option: o.name, Have: have, Want: o.want})
		}
	}
	if len(problems) > 0 {
		cancel()
		client.CloseAllowingRebalance()
		return nil, errors.Join(problems...)
	}
	seeds, _ := client.OptValue(kgo.SeedBrokers).([]string)
	instance, _ := client.OptValue(kgo.InstanceID).(string)
	transactional, _ := client.OptValue(kgo.TransactionalID).(string)
	group, _ := client.OptValue(kgo.ConsumerGroup).(string)
	c := &connection{
		client:          client,
		admin:           kadm.NewClient(client),
		cancel:          cancel,
		settings:        own,
		group:           group,
		instanceID:      instance,
		transactionalID: transactional,
		seeds:           seeds,
	}
	c.promise = func(r *kgo.Record, err error) { c.acknowledge(r, err, r.Context.(*sending).done) }
	c.traced = tracesRecords(client)
	return c, nil
}

// sameOption compares option values; an empty list or map is the same as none.
func sameOption(have, want any) bool {
	h, w := reflect.ValueOf(have), reflect.ValueOf(want)
	if h.IsValid() && w.IsValid() && h.Type() == w.Type() {
		switch h.Kind() {
		case reflect.Slice, reflect.Map:
			if h.Len() == 0 && w.Len() == 0 {
				return true
			}
		}
	}
	return reflect.DeepEqual(have, want)
}

// bounded returns a context for a call that was given none.
func (c *connection) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), c.settings.callTimeout)
}

// reach waits until a broker answers. It returns an [UnreachableError] when ctx
// ends first, and an [AccessError] as soon as a broker refuses the client.
func (c *connection) reach(ctx context.Context) error {
	for last := error(nil); ; {
		err := c.client.Ping(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, kgo.ErrClientClosed):
			return textPrefix.Wrap(ErrClosed, "ping")
		case isAccess(err):
			return c.accessError(err)
		case last == nil || !isContext(err):
			last = err
		}
		if !sleep(ctx, retryPause) {
			return &UnreachableError{Seeds: c.seeds, Cause: last}
		}
	}
}

// sleep waits, and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// topicDetails asks for the metadata of topics. A topic that does not exist is
// asked for again for a short while, because brokers learn of a new topic one
// after the other.
func (c *connection) topicDetails(ctx context.Context, topics []string) (kadm.TopicDetails, error) {
	return c.topicDetailsWithin(ctx, newTopicGrace, topics)
}

func (c *connection) topicDetailsWithin(ctx context.Context, grace time.Duration, topics []string) (kadm.TopicDetails, error) {
	deadline := time.Now().Add(grace)
	for {
		metadata, err := c.admin.Metadata(ctx, topics...)
		if err != nil {
			return nil, c.topicsError(ctx, fmt.Sprintf("metadata of topics %q", topics), topics, err)
		}
		problems := topicProblems(metadata.Topics, topics)
		if len(problems) == 0 {
			return metadata.Topics, nil
		}
		joined := errors.Join(problems...)
		if !kerr.IsRetriable(joined) || time.Now().After(deadline) || !sleep(ctx, retryPause) {
			return nil, joined
		}
	}
}

// topicsError types an error of a request about several topics. A refusal does
// not say which of them it is about, so each is asked for alone.
func (c *connection) topicsError(ctx context.Context, doing string, topics []string, err error) error {
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return c.typed(doing, err)
	}
	var problems []error
	for _, topic := range topics {
		if _, one := c.admin.Metadata(ctx, topic); len(topics) == 1 || errors.Is(one, kerr.TopicAuthorizationFailed) {
			problems = append(problems, topicError(topic, -1, err))
		}
	}
	if len(problems) == 0 {
		return c.typed(doing, err)
	}
	return errors.Join(problems...)
}

func topicProblems(details kadm.TopicDetails, topics []string) []error {
	var problems []error
	for _, topic := range topics {
		detail, ok := details[topic]
		switch {
		case !ok:
			problems = append(problems, topicError(topic, -1, kerr.UnknownTopicOrPartition))
		case detail.Err != nil:
			problems = append(problems, topicError(topic, -1, detail.Err))
		}
	}
	return problems
}

// PartitionCounts returns the partition count of each topic. A topic that does
// not exist, or that the client may not see, is a [columnar.TopicError].
func (c *connection) PartitionCounts(ctx context.Context, topics []string) (map[string]int, error) {
	counts := make(map[string]int, len(topics))
	if len(topics) == 0 {
		return counts, nil
	}
	details, err := c.topicDetails(ctx, topics)
	if err != nil {
		return nil, err
	}
	for _, topic := range topics {
		counts[topic] = len(details[topic].Partitions)
	}
	return counts, nil
}

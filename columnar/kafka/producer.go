// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// Producer sends records, each at least once and in order by key. The client is
// idempotent, so a retry writes no second copy.
//
// A Producer is safe for concurrent use by multiple goroutines. The zero value
// is not usable.
type Producer struct {
	*connection
	closeOnce sync.Once
}

var _ columnar.Producer = (*Producer)(nil)

// NewProducer returns a producer with its own client. It does not talk to a
// broker yet. The caller closes it.
//
// An [OptionError] tells of an option that would break the order of records or
// keep them back: DisableIdempotentWrite, ManualFlushing,
// DefaultProduceTopicAlways. [kgo.TransactionalID] is refused too.
func NewProducer(opts ...kgo.Opt) (*Producer, error) {
	owns := append(producing(), owned{name: "TransactionalID", want: ""})
	c, err := connect(forProducer, opts, owns, nil, kgo.NewClient)
	if err != nil {
		return nil, err
	}
	return &Producer{connection: c}, nil
}

// Send sends one record to topic and calls done exactly once with the outcome,
// on a goroutine of the client, or on the caller's before Send returns. Records
// of one topic and key are sent in the order of the calls. Send waits only
// while the client's buffer is full. Key, value and headers must stay unchanged
// until done is called; done must not block.
//
// A record that is not acknowledged within the time of [WithDeliveryTimeout]
// fails. Errors are [columnar.TopicError], [AccessError], or match [ErrClosed].
func (p *Producer) Send(topic string, record columnar.ProduceRecord, done func(error)) {
	p.send(topic, record, done)
}

// Close sends what is buffered, at most as long as [WithCallTimeout] says, and
// ends the client. Records that are still unsent fail. A second Close does
// nothing.
func (p *Producer) Close() error {
	var err error
	p.closeOnce.Do(func() {
		ctx, cancel := p.bounded()
		defer cancel()
		if err = p.client.Flush(ctx); err != nil {
			err = textPrefix.Wrap(err, "flush on close")
		}
		p.client.Close()
		p.cancel()
	})
	return err
}

// delivery is the time that records sent within a few seconds share.
type delivery struct {
	ctx   context.Context
	stale atomic.Bool // records get another one from now on
}

// deliveryContext returns a context that ends when the delivery timeout has
// passed.
func (c *connection) deliveryContext() context.Context {
	current := c.sending.Load()
	if current != nil && !current.stale.Load() {
		return current.ctx
	}
	ctx, cancel := context.WithTimeout(c.client.Context(), c.settings.deliveryTimeout)
	next := &delivery{ctx: ctx}
	if c.sending.CompareAndSwap(current, next) {
		// Nobody waits for the last record of a bucket; the timeout, or the
		// end of the client, releases it.
		context.AfterFunc(ctx, cancel)
		time.AfterFunc(min(deliveryBucket, c.settings.deliveryTimeout/8), func() { next.stale.Store(true) })
		return ctx
	}
	cancel()
	return c.sending.Load().ctx
}

// sending is a record on its way, and the context that the client keeps with it.
// The client hands the record back to one function that all records share; what
// the record belongs to comes with its context, instead of with a function of its
// own.
type sending struct {
	context.Context
	record kgo.Record
	done   func(error)
}

// slabRecords is how many records on their way are allocated at once.
const slabRecords = 64

// sendingSlab allocates records on their way. A slab is garbage once all of its
// records are acknowledged. It is safe for concurrent use.
type sendingSlab struct {
	mu   sync.Mutex // guards free
	free []sending
}

func (s *sendingSlab) take() *sending {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		s.free = make([]sending, slabRecords)
	}
	one := &s.free[0]
	s.free = s.free[1:]
	return one
}

// send hands a record to the client.
func (c *connection) send(topic string, record columnar.ProduceRecord, done func(error)) {
	s := c.slab.take()
	s.Context, s.done = c.deliveryContext(), done
	fill(&s.record, topic, record)
	if c.traced {
		c.client.Produce(s.Context, &s.record, func(r *kgo.Record, err error) { c.acknowledge(r, err, done) })
		return
	}
	s.record.Context = s
	c.client.Produce(s.Context, &s.record, c.promise)
}

// acknowledge tells the outcome of a record.
func (c *connection) acknowledge(r *kgo.Record, err error, done func(error)) {
	if err != nil {
		err = c.sendError(r, err)
		if c.failed != nil {
			c.failed(err)
		}
	}
	done(err)
}

// tracesRecords reports whether hooks of the caller see records on their way. They
// may give a record another context.
func tracesRecords(client *kgo.Client) bool {
	hooks, _ := client.OptValue(kgo.WithHooks).([]kgo.Hook)
	return slices.ContainsFunc(hooks, func(hook kgo.Hook) bool {
		switch hook.(type) {
		case kgo.HookProduceRecordBuffered, kgo.HookProduceRecordPartitioned:
			return true
		}
		return false
	})
}

// sendError types the outcome of a record that was not written.
func (c *connection) sendError(r *kgo.Record, err error) error {
	doing := fmt.Sprintf("send to %s/%d", r.Topic, r.Partition)
	switch {
	case errors.Is(err, kerr.ClusterAuthorizationFailed): // may write to no topic at all
		return topicError(r.Topic, int(r.Partition), c.accessError(err))
	case isOneOf(err, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.TopicAuthorizationFailed, kerr.InvalidTopicException,
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.CorruptMessage, kerr.PolicyViolation):
		return topicError(r.Topic, int(r.Partition), err)
	case c.client.Context().Err() != nil:
		return c.typed(doing, kgo.ErrClientClosed)
	case errors.Is(err, context.DeadlineExceeded):
		return textPrefix.Wrap(&unavailableError{err}, "%s: not acknowledged within %v", doing, c.settings.deliveryTimeout)
	}
	return c.typed(doing, err)
}

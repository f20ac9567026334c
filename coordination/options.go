// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// DefaultPollInterval is the default gap between two reads of [StateTopic]
// while a member waits for a role. It also bounds the retry of a renewal that
// failed for a reason other than a fence.
const DefaultPollInterval = time.Second

// defaultPollJitter is the share of a poll interval that spreads the reads of
// many members when nothing else was asked for.
const defaultPollJitter = 0.2

// Option configures [AcquireLeadership], [Run], [Watch], [DescribeRoleState],
// [RoleTopicPartition], [Deregister] and [PruneRoster]. A call checks its
// options one by one and then together, and reports all problems joined; each
// matches [ErrInvalidOption]. An option that a call has no use for is checked
// and has no effect.
type Option func(*settings) error

// settings is what the options of one call amount to.
type settings struct {
	topic      string
	partitions int
	lease      LeaseConfig
	clock      Clock
	poll       time.Duration
	jitter     float64
	tolerance  time.Duration

	freshRegistration  bool
	deregisterOnCancel bool
	formerLeaseWait    bool
	workRetry          func(error) bool
	lifetime           <-chan struct{}
	skipMalformed      func(StateRecord, error)

	observers observers
	logger    *slog.Logger
}

// resolve applies the options in order and checks the combination. The lease of
// the transport of the call is the one of the call, and an option may repeat it
// but not contradict it.
func resolve(options []Option, via any) (settings, error) {
	s := settings{
		topic:      StateTopic,
		partitions: DefaultPartitions,
		lease:      DefaultLeaseConfig(),
		clock:      SystemClock{},
		poll:       DefaultPollInterval,
		jitter:     math.NaN(),
		logger:     slog.New(slog.DiscardHandler),
	}
	var given LeaseConfig
	if terms, ok := via.(TermTransport); ok {
		if given = terms.Lease(); given != (LeaseConfig{}) {
			s.lease = given
		}
	}
	var problems []error
	for i, option := range options {
		if option == nil {
			problems = append(problems, fmt.Errorf("option %d is nil", i))
			continue
		}
		if err := option(&s); err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) == 0 {
		if err := s.lease.check(); err != nil {
			problems = append(problems, err)
		} else if given != (LeaseConfig{}) && s.lease != given {
			problems = append(problems, fmt.Errorf("the lease of the call is %v and the lease of its transport is %v; give it to one of them", s.lease, given))
		}
	}
	if math.IsNaN(s.jitter) {
		s.jitter = 0
		if _, system := s.clock.(SystemClock); system {
			s.jitter = defaultPollJitter
		}
	}
	for i, problem := range problems {
		problems[i] = fmt.Errorf("coordination: %w: %w", ErrInvalidOption, problem)
	}
	return s, errors.Join(problems...)
}

// partition returns the partition of the coordination topic that holds every
// record of the role.
func (s settings) partition(role Role) (TopicPartition, error) {
	partition, err := RolePartition(role, s.partitions)
	if err != nil {
		return TopicPartition{}, err
	}
	return TopicPartition{Topic: s.topic, Partition: partition}, nil
}

// WithTopic reads and writes another topic than [StateTopic]. The name follows
// the rules of Kafka: 1 to 249 letters, digits, dots, underscores and hyphens,
// and neither "." nor "..".
func WithTopic(topic string) Option {
	return func(s *settings) error {
		if err := checkTopic(topic); err != nil {
			return err
		}
		s.topic = topic
		return nil
	}
}

func checkTopic(topic string) error {
	const limit = 249
	switch {
	case topic == "":
		return errors.New("topic must not be empty")
	case len(topic) > limit:
		return fmt.Errorf("topic is %d bytes long, the limit is %d", len(topic), limit)
	case topic == "." || topic == "..":
		return fmt.Errorf("topic must not be %q", topic)
	}
	for i := range len(topic) {
		switch c := topic[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("topic %q: byte %d is not one of a-z, A-Z, 0-9, '.', '_', '-'", topic, i)
		}
	}
	return nil
}

// WithPartitions sets the partition count of the coordination topic; the
// default is [DefaultPartitions]. Every member of a cluster passes the count
// that the topic was created with, because the count picks the partition of a
// role. A count below one is an error.
func WithPartitions(partitions int) Option {
	return func(s *settings) error {
		if partitions < 1 {
			return fmt.Errorf("partition count %d must be at least 1", partitions)
		}
		s.partitions = partitions
		return nil
	}
}

// WithLeaseConfig takes a whole lease policy. The default is the policy of the
// transport, if it has one, as a [KafkaTransport] does, and otherwise
// [DefaultLeaseConfig]. A policy other than that of the transport is an error,
// because the transport bounds its transactions by the lease. The option replaces what options before it set, and options
// after it change single extents of it.
func WithLeaseConfig(config LeaseConfig) Option {
	return func(s *settings) error {
		if err := config.check(); err != nil {
			return err
		}
		s.lease = config
		return nil
	}
}

// WithLeaseDuration sets the extent of a lease; the default is
// [DefaultLeaseDuration]. After all options it must be above the renew
// interval.
func WithLeaseDuration(duration time.Duration) Option {
	return func(s *settings) error {
		s.lease.duration = duration
		return checkExtent("lease duration", duration)
	}
}

// WithRenewInterval sets the gap between two renewals by the holder; the
// default is [DefaultRenewInterval]. After all options it must be below the
// lease duration, and should be at most a third of it.
func WithRenewInterval(interval time.Duration) Option {
	return func(s *settings) error {
		s.lease.renewInterval = interval
		return checkExtent("renew interval", interval)
	}
}

// WithChallengeStagger sets the extra delay that one rank of succession adds;
// the default is [DefaultChallengeStagger].
func WithChallengeStagger(stagger time.Duration) Option {
	return func(s *settings) error {
		s.lease.challengeStagger = stagger
		return checkExtent("challenge stagger", stagger)
	}
}

// WithClock reads the time from another clock than [SystemClock]. A test
// passes [NewManualClock] and drives every wait by hand.
func WithClock(clock Clock) Option {
	return func(s *settings) error {
		if manual, ok := clock.(*ManualClock); clock == nil || ok && manual == nil {
			return errors.New("clock must not be nil")
		}
		s.clock = clock
		return nil
	}
}

// WithPollInterval sets the longest gap between two reads of the coordination
// topic while a member waits; the default is [DefaultPollInterval]. A shorter
// gap finds a resigned holder sooner and costs more fetches.
func WithPollInterval(interval time.Duration) Option {
	return func(s *settings) error {
		s.poll = interval
		return checkExtent("poll interval", interval)
	}
}

// WithPollJitter shortens every wait between two reads by up to this share of
// it, so that many members do not read in step. The default is 0.2 with
// [SystemClock] and 0 with any other clock. The shares follow from the member
// id, so a run repeats itself. The value must be in [0, 1).
func WithPollJitter(share float64) Option {
	return func(s *settings) error {
		if !(share >= 0 && share < 1) {
			return fmt.Errorf("poll jitter %v must be at least 0 and below 1", share)
		}
		s.jitter = share
		return nil
	}
}

// WithClockTolerance makes a challenger wait this much longer past the
// deadline of another member; the default is 0. A tolerance at or above the
// skew between the clocks of the members keeps a member whose clock runs ahead
// from challenging a holder that renews. A negative value is an error.
func WithClockTolerance(tolerance time.Duration) Option {
	return func(s *settings) error {
		if tolerance < 0 {
			return fmt.Errorf("clock tolerance %v must not be negative", tolerance)
		}
		s.tolerance = tolerance
		return nil
	}
}

// WithFreshRegistration appends a registration on every call, also when the
// log still holds one of this member. The member then starts at the tail of
// the roster after every restart. By default a retained registration is used
// again, rank and all.
func WithFreshRegistration() Option {
	return func(s *settings) error {
		s.freshRegistration = true
		return nil
	}
}

// WithDeregisterOnCancel removes the registration of the member when its
// context ends while it waits for the role, so that members that give up do
// not delay the succession of others. [Run] also removes it when it ends. The
// removal takes one short write that the ended context does not cancel.
func WithDeregisterOnCancel() Option {
	return func(s *settings) error {
		s.deregisterOnCancel = true
		return nil
	}
}

// WithFormerLeaseWait makes a member that finds a live lease in its own name, of
// a process before this one, wait until that lease is over. By default such a
// member takes the role at once, although the process before it may still act
// outside Kafka: its [Leadership.Check] returns nil up to its
// [Leadership.SafeUntil]. The broker rejects the writes of the process before it
// in either case.
func WithFormerLeaseWait() Option {
	return func(s *settings) error {
		s.formerLeaseWait = true
		return nil
	}
}

// WithWorkRetry makes [Run] and [RunRole] ask retry about every error that the
// work returns while it leads. When retry returns true, the call resigns, waits
// as it does after a failed acquisition, and competes again behind the other
// members. When retry returns false, and by default, the call resigns and
// returns the error. The function runs on the goroutine of Run.
func WithWorkRetry(retry func(err error) bool) Option {
	return func(s *settings) error {
		if retry == nil {
			return errors.New("retry function must not be nil")
		}
		s.workRetry = retry
		return nil
	}
}

// WithLifetime resigns the leadership when ctx ends. Without it a leadership
// lives until it is fenced, expires or is resigned; in particular, the context
// of [AcquireLeadership] bounds the acquisition and not the leadership.
func WithLifetime(ctx context.Context) Option {
	return func(s *settings) error {
		if ctx == nil {
			return errors.New("lifetime context must not be nil")
		}
		s.lifetime = ctx.Done()
		return nil
	}
}

// WithSkipMalformed reports a record that does not decode to skip and folds
// the rest, where the default is an error that blocks every role of the
// partition. It is a way out for an operator; the record should be removed
// from the topic. The function runs on the goroutine that reads.
func WithSkipMalformed(skip func(record StateRecord, err error)) Option {
	return func(s *settings) error {
		if skip == nil {
			return errors.New("skip function must not be nil")
		}
		s.skipMalformed = skip
		return nil
	}
}

// WithObserver reports what a member does to the functions of observer. A
// second observer is called after the first.
func WithObserver(observer Observer) Option {
	return func(s *settings) error {
		s.observers = append(s.observers, observer)
		return nil
	}
}

// WithLogger logs the changes of a leadership and what a member retries. The
// default logs nothing.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) error {
		if logger == nil {
			return errors.New("logger must not be nil")
		}
		s.logger = logger
		return nil
	}
}

func checkExtent(name string, extent time.Duration) error {
	if extent <= 0 {
		return fmt.Errorf("%s %v must be positive", name, extent)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// DefaultRetainedCuts is how many cuts of a group a [CutPublisher] keeps.
const DefaultRetainedCuts = 100

// DefaultCutNotice is how long a cut is announced before it is taken, see
// [WithCutNotice].
const DefaultCutNotice = 100 * time.Millisecond

// DefaultDeliveryTimeout is how long a record is tried, see
// [WithDeliveryTimeout].
const DefaultDeliveryTimeout = 2 * time.Minute

// DefaultCallTimeout bounds the calls that take no context, see
// [WithCallTimeout].
const DefaultCallTimeout = 30 * time.Second

// settings are the values of this package's own options.
type settings struct {
	callTimeout       time.Duration
	deliveryTimeout   time.Duration
	unequalPartitions bool
	rebalancePending  func()
	commitGroup       string
	acquire           func(context.Context) (Leadership, error)
	retainedCuts      int32
	cutNotice         time.Duration
	barrierTopic      string
	retainedSnapshots int
}

// option is one of this package's options in the dress of a kgo.Opt, so that
// both kinds travel in one list. The embedded option changes nothing.
type option struct {
	kgo.Opt
	name  string
	scope scope
	set   func(*settings) error
}

// scope tells which constructors an option is for.
type scope uint8

const (
	forGroup scope = 1 << iota
	forReader
	forProducer
	forPublisher
	forStore
	forAll = forGroup | forReader | forProducer | forPublisher | forStore
)

func newOption(name string, scope scope, set func(*settings) error) kgo.Opt {
	return option{Opt: kgo.WithHooks(), name: name, scope: scope, set: set}
}

// WithCallTimeout bounds calls that take no context and yet need an answer from
// a broker: Subscribe, the transactional calls without a context, leaving the
// group in Close. The default is [DefaultCallTimeout].
func WithCallTimeout(timeout time.Duration) kgo.Opt {
	return newOption("WithCallTimeout", forAll, func(s *settings) error {
		if timeout <= 0 {
			return &OptionError{Option: "WithCallTimeout", Have: timeout, Want: "a positive duration"}
		}
		s.callTimeout = timeout
		return nil
	})
}

// WithDeliveryTimeout bounds how long a record is tried before it fails, to
// within five seconds. The default is [DefaultDeliveryTimeout]. A record that a
// broker may have written already is not given up before the broker has
// answered.
func WithDeliveryTimeout(timeout time.Duration) kgo.Opt {
	return newOption("WithDeliveryTimeout", forGroup|forProducer, func(s *settings) error {
		if timeout <= 0 {
			return &OptionError{Option: "WithDeliveryTimeout", Have: timeout, Want: "a positive duration"}
		}
		s.deliveryTimeout = timeout
		return nil
	})
}

// WithUnequalPartitions lets a member subscribe to topics with different
// partition counts, which is an [UnequalPartitionsError] otherwise. It is for
// topologies that never bring records of two topics together.
func WithUnequalPartitions() kgo.Opt {
	return newOption("WithUnequalPartitions", forGroup, func(s *settings) error {
		s.unequalPartitions = true
		return nil
	})
}

// WithCommitGroup makes a [Reader] commit for a group, and read its commits,
// without being a member of it. The group must have no members.
func WithCommitGroup(group string) kgo.Opt {
	return newOption("WithCommitGroup", forReader, func(s *settings) error {
		if group == "" {
			return &OptionError{Option: "WithCommitGroup", Have: `""`, Want: "a group"}
		}
		s.commitGroup = group
		return nil
	})
}

// WithRebalancePending calls pending, on a goroutine of the client, whenever a
// rebalance waits for the member's next Poll. It is the sign to finish a long
// round soon: a member that does not poll within the rebalance timeout loses
// its partitions. The function must not block.
func WithRebalancePending(pending func()) kgo.Opt {
	return newOption("WithRebalancePending", forGroup, func(s *settings) error {
		if pending == nil {
			return &OptionError{Option: "WithRebalancePending", Have: "nil", Want: "a function"}
		}
		s.rebalancePending = pending
		return nil
	})
}

// WithRetainedCuts sets how many cuts of its group a [CutPublisher] keeps; older
// ones are deleted from the topic. The default is [DefaultRetainedCuts].
func WithRetainedCuts(cuts int) kgo.Opt {
	return newOption("WithRetainedCuts", forPublisher, func(s *settings) error {
		if cuts < 1 || cuts > math.MaxInt32 {
			return &OptionError{Option: "WithRetainedCuts", Have: cuts, Want: "between 1 and 2147483647"}
		}
		s.retainedCuts = int32(cuts)
		return nil
	})
}

// WithCutNotice sets how long before its offsets are taken a [CutPublisher]
// announces a cut. Runners that see the announcement keep back what may lie behind
// the cut until the cut arrives, so that the cut also closes in a service without
// lag. The notice is more than an announcement needs to reach them: see
// [columnar.WithAnnouncementHold] for how long they wait. The default is
// [DefaultCutNotice]; 0 announces nothing.
func WithCutNotice(notice time.Duration) kgo.Opt {
	return newOption("WithCutNotice", forPublisher, func(s *settings) error {
		if notice < 0 {
			return &OptionError{Option: "WithCutNotice", Have: notice, Want: "0 or a positive duration"}
		}
		s.cutNotice = notice
		return nil
	})
}

// WithBarrierTopic makes a [CutPublisher] publish on another topic than
// [columnar.BarrierStateTopic]. Cut readers need the same name in
// [columnar.WithCutTopic].
func WithBarrierTopic(topic string) kgo.Opt {
	return newOption("WithBarrierTopic", forPublisher, func(s *settings) error {
		if topic == "" {
			return &OptionError{Option: "WithBarrierTopic", Have: `""`, Want: "a topic"}
		}
		s.barrierTopic = topic
		return nil
	})
}

// splitOptions separates this package's options from those of the client, and
// returns all problems of them joined.
func splitOptions(opts []kgo.Opt, scope scope) (settings, []kgo.Opt, error) {
	own := settings{
		callTimeout:       DefaultCallTimeout,
		deliveryTimeout:   DefaultDeliveryTimeout,
		retainedCuts:      DefaultRetainedCuts,
		cutNotice:         DefaultCutNotice,
		barrierTopic:      columnar.BarrierStateTopic,
		retainedSnapshots: DefaultRetainedSnapshots,
	}
	var (
		client   []kgo.Opt
		problems []error
	)
	for i, opt := range opts {
		switch o := opt.(type) {
		case nil:
			problems = append(problems, fmt.Errorf("kafka: option %d is nil", i))
		case option:
			if o.scope&scope == 0 {
				problems = append(problems, &OptionError{Option: o.name, Have: "given", Want: "another constructor"})
				continue
			}
			if err := o.set(&own); err != nil {
				problems = append(problems, err)
			}
		default:
			client = append(client, opt)
		}
	}
	return own, client, errors.Join(problems...)
}

// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
)

// NewGroupRunner builds topology, subscribes consumer to its source topics with
// the runner as listener, and returns the runner. It returns everything that is
// wrong with the arguments and options, joined.
//
// It talks to nobody. The first round does, under its context: where the consumer is
// a [ContextSubscriber] the runner joins there, after it has claimed the names of the
// member in a [MemberStore]. Where the consumer can tell partition counts, topics that
// share state need equal ones: otherwise the first round returns a
// [*PartitionCountError].
//
// Consumer and producer stay the caller's to close, after the runner.
func NewGroupRunner(topology *Topology, consumer Consumer, producer Producer, options ...GroupRunnerOption) (*GroupRunner, error) {
	var errs []error
	need := func(what string, absent bool) {
		if absent {
			errs = append(errs, fmt.Errorf("a group runner needs a %s", what))
		}
	}
	need("topology", topology == nil)
	need("consumer", isAbsent(consumer))
	need("producer", isAbsent(producer))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	built, err := topology.Build()
	if err != nil {
		return nil, err
	}
	r := newRunner(built, topology.SourceTopics(), consumer, producer)
	for i, option := range options {
		if option == nil {
			r.settings.problem(fmt.Sprintf("group runner option %d is nil", i))
			continue
		}
		option(r)
	}
	if err := r.settings.validate(); err != nil {
		return nil, errors.Join(err, built.Close())
	}
	r.connect()
	r.entry.topics = topology.SourceTopics()
	if r.subscriber == nil {
		if err := consumer.Subscribe(r.entry.topics, r); err != nil {
			return nil, errors.Join(err, built.Close())
		}
	}
	if _, none := r.settings.store.(noStateStore); none && r.shape.stateful {
		r.settings.logger.Warn("the topology keeps state and the runner has no state store: state is lost when the process ends; set one with WithStateStore")
	}
	return r, nil
}

// connect finds the optional seams, and tells the consumer what the runner wants of
// it.
func (r *GroupRunner) connect() {
	r.findSeams()
	if notifier, ok := r.consumer.(RebalanceNotifier); ok {
		r.topology.signal = r.signal
		notifier.NotifyRebalance(r.signal.raise)
	}
	if bounder, ok := r.consumer.(PollBounder); ok && r.settings.pollRecords > 0 {
		bounder.BoundPolls(r.settings.pollRecords)
	}
}

// Subscribe joins the group with consumer for the source topics of topology,
// without a listener.
func Subscribe(topology *Topology, consumer Consumer) error {
	return consumer.Subscribe(topology.SourceTopics(), nil)
}

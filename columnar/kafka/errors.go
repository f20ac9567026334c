// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/errtext"
)

// textPrefix begins the texts of the package's errors. An error that has
// another's text in its own quotes it through the prefix.
const textPrefix errtext.Prefix = "kafka: "

// ErrClosed is in the chain of every error that is returned because a member,
// reader, producer, publisher or store is closed.
var ErrClosed = errors.New("kafka: closed")

// OptionError says that an option contradicts what the adapter needs.
type OptionError struct {
	Option string // name of the option, as package kgo or this package spells it
	Have   any    // the value that the caller's options lead to
	Want   any    // the value that the adapter sets
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("kafka: option %s is %v, need %v", e.Option, e.Have, e.Want)
}

// UnreachableError says that no seed broker answered within the time allowed.
type UnreachableError struct {
	Seeds []string
	Cause error
	wrong bool // the address is, for all that can be told
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("kafka: no answer from brokers %s: %s", strings.Join(e.Seeds, ","), textPrefix.Quote(e.Cause))
}

// Unwrap returns the failure of the last attempt.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// Retriable reports whether a broker may come back. It is false for a member that has
// looked for hosts which nobody knows by name, as [WithCallTimeout] says for how long.
func (e *UnreachableError) Retriable() bool { return !e.wrong }

// isUnknownHost reports whether err says that no host has the name.
func isUnknownHost(err error) bool {
	var lookup *net.DNSError
	return errors.As(err, &lookup) && lookup.IsNotFound
}

// AccessError says that the brokers know the client but refuse it: SASL failed,
// or the principal lacks a permission.
type AccessError struct {
	Resource string // such as `group "orders"`, `transactional id "orders-0"`, `cluster`
	Cause    error
}

func (e *AccessError) Error() string {
	return fmt.Sprintf("kafka: access to %s denied: %s", e.Resource, textPrefix.Quote(e.Cause))
}

// Unwrap returns the broker's error.
func (e *AccessError) Unwrap() error { return e.Cause }

// UnequalPartitionsError says that topics which are processed together have
// different partition counts, so that records of one key would meet in no
// partition.
type UnequalPartitionsError struct {
	Counts map[string]int
}

func (e *UnequalPartitionsError) Error() string {
	return fmt.Sprintf("kafka: topics have unequal partition counts %v", e.Counts)
}

// TopicConfigError says that a topic exists with another configuration than the
// one it needs.
type TopicConfigError struct {
	Topic  string
	Config string // such as "cleanup.policy" or "partitions"
	Have   string
	Want   string
}

func (e *TopicConfigError) Error() string {
	return fmt.Sprintf("kafka: topic %q has %s %q, need %q", e.Topic, e.Config, e.Have, e.Want)
}

// unavailableError is a broker's answer that may change by itself.
type unavailableError struct{ cause error }

func (e *unavailableError) Error() string   { return e.cause.Error() }
func (e *unavailableError) Unwrap() error   { return e.cause }
func (e *unavailableError) Retriable() bool { return true }

func isOneOf(err error, targets ...*kerr.Error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// isFencing reports whether err says that a newer producer or member has taken
// over.
func isFencing(err error) bool {
	return isOneOf(err, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping,
		kerr.InvalidTxnState, kerr.FencedInstanceID, kerr.FencedMemberEpoch)
}

// isRebalance reports whether err says that the group has moved on.
func isRebalance(err error) bool {
	return isOneOf(err, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.StaleMemberEpoch,
		kerr.RebalanceInProgress, kerr.GroupIDNotFound)
}

// isAccess reports whether err is a refusal that does not heal by waiting.
func isAccess(err error) bool {
	return isOneOf(err, kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState,
		kerr.ClusterAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed,
		kerr.TopicAuthorizationFailed)
}

// isTopicGone reports whether err says that a topic does not exist or is
// another one of the same name.
func isTopicGone(err error) bool {
	return isOneOf(err, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID)
}

// isDial reports whether a broker could not be reached. The client leaves it to its
// callers whether that passes; past the first answer of the cluster it does.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// isContext reports whether err is the end of a context.
func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// accessError wraps a refusal with the resource it names.
func (c *connection) accessError(err error) error {
	resource := "cluster"
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		resource = fmt.Sprintf("group %q", c.group)
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		resource = fmt.Sprintf("transactional id %q", c.transactionalID)
	}
	return &AccessError{Resource: resource, Cause: err}
}

// typed wraps an error of a request with the type that callers match. It does
// not know the topic, so topic errors stay as they are.
func (c *connection) typed(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kgo.ErrClientClosed):
		return textPrefix.Wrap(ErrClosed, "%s", doing)
	case isFencing(err):
		return &columnar.FencedError{ID: c.identity(err), Cause: fmt.Errorf("%s: %w", doing, err)}
	case isRebalance(err):
		return &columnar.RebalancedError{Group: c.group, Cause: fmt.Errorf("%s: %w", doing, err)}
	case isAccess(err) && !errors.Is(err, kerr.TopicAuthorizationFailed):
		return c.accessError(err)
	case kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) || isDial(err):
		return textPrefix.Wrap(&unavailableError{err}, "%s", doing)
	}
	return textPrefix.Wrap(err, "%s", doing)
}

// identity returns the id whose newer owner err speaks of.
func (c *connection) identity(err error) string {
	if isOneOf(err, kerr.FencedInstanceID, kerr.FencedMemberEpoch) {
		return c.instanceID
	}
	return c.transactionalID
}

// topicError wraps an error about a topic, or about one partition of it.
func topicError(topic string, partition int, err error) error {
	if kerr.IsRetriable(err) && !isTopicGone(err) {
		err = &unavailableError{err}
	}
	return &columnar.TopicError{Topic: topic, Partition: partition, Cause: err}
}

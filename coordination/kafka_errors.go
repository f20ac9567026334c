// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaError is a request that a [KafkaTransport] could not finish. Its chain
// holds the answer of the broker, and the error of the context when that ended
// first.
type KafkaError struct {
	Operation string // the request, such as "InitProducerId"
	Subject   string // what the request was about, such as `role "controller"`
	Err       error

	transient bool
}

// Error names the request, its subject and the cause.
func (e *KafkaError) Error() string {
	return fmt.Sprintf("kafka: %s for %s: %v", e.Operation, e.Subject, e.Err)
}

// Unwrap returns the cause.
func (e *KafkaError) Unwrap() error { return e.Err }

// Retriable reports whether the same call may succeed later: the brokers were
// out of reach or asked for patience.
func (e *KafkaError) Retriable() bool { return e.transient }

// AuthorizationError is a refusal that does not heal by waiting: the brokers
// do not accept the login of the client, or its principal lacks a permission.
type AuthorizationError struct {
	// Resource names what the permission is for, such as
	// `transactional id "controller"`.
	Resource string

	// Permission is the operation to allow, as Kafka spells it in access
	// control lists, such as "WRITE". It is empty for a login that failed.
	Permission string

	Err error // the answer of the broker
}

// Error names the resource and the permission.
func (e *AuthorizationError) Error() string {
	if e.Permission == "" {
		return fmt.Sprintf("kafka: access to %s denied: %v", e.Resource, e.Err)
	}
	return fmt.Sprintf("kafka: permission %s on %s is missing: %v", e.Permission, e.Resource, e.Err)
}

// Unwrap returns the answer of the broker.
func (e *AuthorizationError) Unwrap() error { return e.Err }

// Retriable returns false: somebody has to grant the permission first.
func (e *AuthorizationError) Retriable() bool { return false }

// TopicError reports a topic or a partition that does not exist or cannot be
// used.
type TopicError struct {
	Topic     string
	Partition int // the partition, or -1 for the topic as a whole
	Err       error
}

// Error names the topic, the partition and the cause.
func (e *TopicError) Error() string {
	if e.Partition < 0 {
		return fmt.Sprintf("kafka: topic %q: %v", e.Topic, e.Err)
	}
	return fmt.Sprintf("kafka: topic %q, partition %d: %v", e.Topic, e.Partition, e.Err)
}

// Unwrap returns the cause.
func (e *TopicError) Unwrap() error { return e.Err }

// Retriable reports whether the topic may become usable by itself.
func (e *TopicError) Retriable() bool { return kerr.IsRetriable(e.Err) }

// TransactionTimeoutError reports a lease that is longer than the brokers let
// a transaction stay open.
type TransactionTimeoutError struct {
	Requested time.Duration // the transaction timeout that the lease asks for

	// Allowed is the longest timeout that the brokers accept, their setting
	// transaction.max.timeout.ms. It is zero when they do not tell.
	Allowed time.Duration

	Err error // the answer of the broker
}

// Error names the requested and the allowed timeout.
func (e *TransactionTimeoutError) Error() string {
	allowed := "an unknown time"
	if e.Allowed > 0 {
		allowed = e.Allowed.String()
	}
	return fmt.Sprintf("kafka: the lease asks for a transaction timeout of %v, the brokers allow %s (transaction.max.timeout.ms): %v",
		e.Requested, allowed, e.Err)
}

// Unwrap returns the answer of the broker.
func (e *TransactionTimeoutError) Unwrap() error { return e.Err }

// Retriable returns false: somebody has to change the lease or the brokers
// first.
func (e *TransactionTimeoutError) Retriable() bool { return false }

// transientError marks a failure that asking again may settle.
type transientError struct {
	err error

	// doubtful says that the failure looks like one of the configuration, so
	// that a few attempts are enough.
	doubtful bool

	missing bool // the brokers do not know the topic

	// spent says that the attempt may have used something up, so that the
	// next one is not made in haste.
	spent bool
}

func (e *transientError) Error() string { return e.err.Error() }
func (e *transientError) Unwrap() error { return e.err }

// reaction is what an answer asks the transport to do.
type reaction int

const (
	reactDone      reaction = iota
	reactRetry              // ask again
	reactFenced             // the epoch is superseded
	reactArbitrate          // ask the coordinator whether the epoch still holds
	reactDenied             // a permission is missing
	reactRefuse             // no further attempt helps
)

// reactTo classifies an error code.
func reactTo(code int16) reaction {
	err := kerr.ErrorForCode(code)
	switch err {
	case nil, kerr.DuplicateSequenceNumber:
		return reactDone
	case kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.ProducerFenced:
		return reactFenced
	case kerr.OutOfOrderSequenceNumber, kerr.InvalidTxnState, kerr.UnknownProducerID, kerr.TransactionAbortable:
		return reactArbitrate
	case kerr.TransactionalIDAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.GroupAuthorizationFailed, kerr.SaslAuthenticationFailed:
		return reactDenied
	case kerr.UnknownServerError, kerr.ConcurrentTransactions, kerr.TransactionCoordinatorFenced, kerr.NetworkException:
		return reactRetry
	}
	if kerr.IsRetriable(err) {
		return reactRetry
	}
	return reactRefuse
}

// codeOf returns the code of an answer that a client turned into an error.
func codeOf(err error) int16 {
	var answer *kerr.Error
	if errors.As(err, &answer) {
		return answer.Code
	}
	return 0
}

// mayHaveHappened reports whether a request that got this answer may have
// taken effect all the same.
func mayHaveHappened(code int16) bool {
	switch kerr.ErrorForCode(code) {
	case kerr.UnknownServerError, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.NetworkException,
		kerr.NotLeaderForPartition, kerr.KafkaStorageError: // also after an append that others may have copied
		return true
	}
	return false
}

// spent marks a failure that asking again may settle as one of an attempt that
// may have used something up.
func spent(err error) error {
	if again, transient := err.(*transientError); transient {
		again.spent = true
	}
	return err
}

// answerError turns a code that asks for patience into a transient error.
func answerError(code int16) *transientError {
	return &transientError{err: kerr.ErrorForCode(code)}
}

// connectionError classifies a request without an answer.
func connectionError(ctx context.Context, err error) error {
	var answer *kerr.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil:
		return &transientError{err: err}
	case errors.Is(err, kgo.ErrClientClosed):
		return ErrTransportClosed
	case errors.As(err, &certificate):
		return err
	case errors.As(err, &answer):
		switch reactTo(answer.Code) {
		case reactDenied:
			return &AuthorizationError{Resource: "the cluster", Err: err}
		case reactRetry:
			return &transientError{err: err}
		}
		return err
	}
	return &transientError{err: err, doubtful: !passes(err)}
}

// passes reports whether a failed connection is a sign of a broker that comes
// back.
func passes(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		var name *net.DNSError
		return !(errors.As(err, &name) && name.IsNotFound || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM))
	}
	return errors.Is(err, io.ErrClosedPipe) || kgo.IsRetryableBrokerErr(err)
}

// fencedError is an answer that says that the epoch is superseded.
func fencedError(cause error) error { return fmt.Errorf("%w: %w", ErrFenced, cause) }

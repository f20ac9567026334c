// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// pace is how the waits between attempts grow.
type pace struct{ first, most time.Duration }

var (
	// quickPace keeps the wait below a second, so that the end of an outage is
	// noticed soon.
	quickPace = pace{10 * time.Millisecond, 500 * time.Millisecond}

	// mintPace is for attempts that may have burnt an epoch. It counts those
	// alone.
	mintPace = pace{50 * time.Millisecond, 5 * time.Second}
)

// wait returns the wait before attempt n, counted from 1, spread by half of it
// to both sides.
func (p pace) wait(n int) time.Duration {
	extent := p.most
	if n < 20 {
		extent = min(p.first<<max(n-1, 0), p.most)
	}
	return time.Duration((0.5 + rand.Float64()) * float64(extent))
}

const (
	// doubtfulAttempts is how often a failure that looks like one of the
	// configuration is tried.
	doubtfulAttempts = 5

	// topicPatience is how long, and topicAttempts how often, brokers may deny
	// a topic: they learn of a new topic one after the other, and of all topics
	// when they start.
	topicPatience = time.Second
	topicAttempts = 5

	// describePatience bounds a look at the coordinator.
	describePatience = 9 * time.Second
)

// errNoAnswer ends what has a bound of its own.
var errNoAnswer = errors.New("no answer in time")

// request says what is asked for.
type request struct {
	operation string
	subject   string
}

// failed wraps the final error of a request. Errors that name their element
// themselves stay as they are.
func (r request) failed(err error) error {
	again, transient := err.(*transientError)
	if transient {
		err = again.err
	}
	switch err.(type) {
	case *KafkaError, *AuthorizationError, *TopicError, *TopicConfigError, *TransactionTimeoutError, *OutcomeUnknownError:
		return err
	}
	final := errors.Is(err, ErrTransportClosed) || errors.Is(err, context.Canceled)
	transient = transient && !final
	return &KafkaError{Operation: r.operation, Subject: r.subject, Err: err, transient: transient}
}

// ended is the error of a call whose context ended, after the last failure. A
// bound on another clock than that of the host cancels the context, with the
// deadline as cause.
func ended(ctx context.Context, last *transientError) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, ErrTransportClosed) && cause != errNoAnswer && cause != context.DeadlineExceeded {
		cause = ctx.Err()
	}
	if last == nil || endsWithContext(last.err) {
		return &transientError{err: cause}
	}
	return &transientError{err: fmt.Errorf("%w; last failure: %w", cause, last.err)}
}

// endsWithContext reports whether a failure is the end of a context.
func endsWithContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// persist calls attempt until it succeeds, fails for good, or the context
// ends. An attempt says with a [*transientError] that another one may help.
func (t *KafkaTransport) persist(ctx context.Context, r request, attempt func(context.Context) error) error {
	uses := 0                // attempts that may have used something up
	doubts, denials := 0, 0  // in a row
	var denied time.Time     // the first of the denials
	var last *transientError // the last failure that is not the end of ctx
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return r.failed(ended(ctx, last))
		}
		err := attempt(ctx)
		if err == nil {
			return nil
		}
		again, transient := err.(*transientError)
		if !transient {
			return r.failed(err)
		}
		if last == nil || !endsWithContext(again.err) {
			last = again
		}
		if ctx.Err() != nil {
			return r.failed(ended(ctx, last))
		}
		doubts++
		if !again.doubtful {
			doubts = 0
		}
		denials++
		switch {
		case !again.missing:
			denials = 0
		case denials == 1:
			denied = time.Now()
		}
		if doubts >= doubtfulAttempts || denials >= topicAttempts && time.Since(denied) >= topicPatience {
			return r.failed(err)
		}
		if hook := t.options.Hooks.Retried; hook != nil {
			hook(r.operation, err)
		}
		wait := quickPace.wait(n)
		if again.spent {
			uses++
			wait = mintPace.wait(uses)
		}
		if !pause(ctx, wait) {
			return r.failed(ended(ctx, last))
		}
	}
}

// pause waits, and reports whether the context is still alive.
func pause(ctx context.Context, extent time.Duration) bool {
	timer := time.NewTimer(extent)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// roleSubject names a role in errors.
func roleSubject(role Role) string { return fmt.Sprintf("role %q", role.name) }

// idDenied reports a missing permission on the transactional id of a role.
func idDenied(role Role, permission string, code int16) error {
	return &AuthorizationError{
		Resource:   fmt.Sprintf("transactional id %q", role.name),
		Permission: permission,
		Err:        kerr.ErrorForCode(code),
	}
}

// roleAnswer returns the error of an answer about a role, or nil.
func roleAnswer(role Role, permission string, code int16) error {
	switch reactTo(code) {
	case reactDone:
		return nil
	case reactDenied:
		return idDenied(role, permission, code)
	case reactRetry:
		return answerError(code)
	}
	return kerr.ErrorForCode(code)
}

// topicAnswer returns the error of an answer about a topic or one of its
// partitions, or nil.
func topicAnswer(topic string, partition int, permission string, code int16) error {
	switch reactTo(code) {
	case reactDone:
		return nil
	case reactDenied:
		return topicDenied(topic, permission, code)
	case reactRetry:
		return missingTopic(topic, partition, code)
	}
	return &TopicError{Topic: topic, Partition: partition, Err: kerr.ErrorForCode(code)}
}

// topicDenied reports a missing permission on a topic.
func topicDenied(topic, permission string, code int16) error {
	return &AuthorizationError{
		Resource:   fmt.Sprintf("topic %q", topic),
		Permission: permission,
		Err:        kerr.ErrorForCode(code),
	}
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// messagesOf returns the messages that a table of a page explains: what stands
// in code font in the first column.
func messagesOf(t *testing.T, page, heading string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var messages []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		messages = append(messages, row[1])
	}
	return messages
}

// saysInOrder reports whether a text has all parts of a message between dots.
func saysInOrder(text, message string) bool {
	for part := range strings.SplitSeq(message, "...") {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

// The page explains each error by the message that it has.
func TestDocumentedErrorsHaveTheirMessages(t *testing.T) {
	f := newFixture(t, 1000)
	ended := f.acquire(t, "node-1")
	if err := ended.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	plain := f.acquire(t, "node-1")

	closed, err := coordination.NewKafkaTransport(standardConfig(t), "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	transport := fakeStage(t).transport(t, standardConfig(t))
	minted, err := transport.AcquireEpoch(within(t, patience), role(t, "one"))
	if err != nil {
		t.Fatal(err)
	}
	guard, err := coordination.NewDeviceGuard(t.Context(), new(memoryStore))
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Admit(t.Context(), coordination.Credential{Token: token(t, 7, 5), Sequence: 100}); err != nil {
		t.Fatal(err)
	}
	_, owned := coordination.NewKafkaTransportWithOptions(standardConfig(t), coordination.KafkaOptions{
		Brokers: []string{"127.0.0.1:1"}, ClientOptions: []kgo.Opt{kgo.TransactionalID("x")},
	})

	produced := map[string]error{
		"fenced: another member holds the role":               f.fenced(t),
		"the member no longer holds the role":                 ended.Renew(t.Context()),
		"the lease expired before a renewal was acknowledged": coordination.ErrLeaseExpired,
		"another process uses the same member id":             coordination.ErrDuplicateMember,
		"the coordination transport is closed":                closed.EnsureTopic(t.Context(), "topic", 1),
		"the outcome of the write is unknown":                 &coordination.OutcomeUnknownError{Err: errBroken},
		"stale command: credential ... was superseded by ...": guard.Admit(t.Context(), coordination.Credential{Token: token(t, 7, 4), Sequence: 99}),
		"the credential contradicts the recorded one":         guard.Admit(t.Context(), coordination.Credential{Token: token(t, 7, 4), Sequence: 101}),
		"malformed ...":       second(coordination.DecodeKey(nil)),
		"invalid option: ...": second(coordination.RoleTopicPartition(f.role, nil)),
		"the transport decides on the client option ...": owned,
		"kafka: permission ... on ... is missing":        &coordination.AuthorizationError{Resource: `topic "t"`, Permission: "READ", Err: kerr.TopicAuthorizationFailed},
		"kafka: access to ... denied":                    &coordination.AuthorizationError{Resource: "the cluster", Err: kerr.SaslAuthenticationFailed},
		`kafka: topic ... has cleanup.policy ..., need "compact"`: &coordination.TopicConfigError{
			Topic: "t", Setting: "cleanup.policy", Have: "delete", Want: "compact"},
		"kafka: topic ... has partitions ..., need ...": &coordination.TopicConfigError{
			Topic: "t", Setting: "partitions", Have: "3", Want: "16"},
		"kafka: topic ..., partition ...: MESSAGE_TOO_LARGE": &coordination.TopicError{Topic: "t", Err: kerr.MessageTooLarge},
		"kafka: topic ..., partition ...: ... decompresses to more than MaxDecompressBatchBytes": &coordination.TopicError{
			Topic: "t", Err: &kgo.ErrDecompressTooLarge{Topic: "t"}},
		"kafka: topic ...: UNKNOWN_TOPIC_OR_PARTITION": &coordination.TopicError{Topic: "t", Partition: -1, Err: kerr.UnknownTopicOrPartition},
		"kafka: the lease asks for a transaction timeout of ..., the brokers allow ...": &coordination.TransactionTimeoutError{
			Requested: time.Hour, Allowed: time.Minute, Err: kerr.InvalidTransactionTimeout},
		"token ... belongs to a leadership that is over or to another transport": transport.WriteLease(t.Context(), at("t", 0), token(t, 99, 9), []byte("k"), nil),
		"kafka: token ... was minted for role ..., not for role ...": transport.WriteRecords(t.Context(), role(t, "other"), minted,
			[]coordination.GuardedRecord{{Topic: "t"}}),
		"the lease of the call is ... and the lease of its transport is ...": second(coordination.AcquireLeadership(t.Context(), transport,
			f.role, member(t, "node-1"), coordination.WithLeaseDuration(time.Minute))),
		"the role has records in ... and its partition is ...":  misplaced(t),
		"no answer within ..., and the lease has to be renewed": overrun(t),
		"kafka: ... for ...: ...":                               &coordination.KafkaError{Operation: "Fetch", Subject: "t-0", Err: errBroken},
		"the transport writes no guarded records":               second(plain.Guard()),
		"the transport reports no offset of the lease record":   second(plain.Credential()),
	}
	for _, message := range messagesOf(t, "../docs/coordination.md", "Errors by message") {
		err, known := produced[message]
		switch {
		case !known:
			t.Errorf("the page explains %q, which this test does not know", message)
		case err == nil || !saysInOrder(err.Error(), message):
			t.Errorf("the page explains %q, the error is %v", message, err)
		}
		delete(produced, message)
	}
	for message := range produced {
		t.Errorf("the page does not explain %q", message)
	}
}

// misplaced returns the error of a member whose topic has grown.
func misplaced(t *testing.T) error {
	t.Helper()
	s, r := fakeStage(t), role(t, "controller") // in partition 2 of 6 and in 8 of 12
	topic, transport := s.compacted(t, 12), s.transport(t, standardConfig(t))
	c := &contender{transport: transport, name: "node-1", topic: topic, role: r}
	if err := transport.Append(t.Context(), at(topic, 2), coordination.EncodeKey(coordination.LeaseKey(r)), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := transport.AcquireEpoch(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return c.acquireAndResign(t.Context(), t, coordination.WithPartitions(12))
}

// overrun returns the error of a guarded write that a renewal cannot wait for.
func overrun(t *testing.T) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFull()
		f.onWrite = func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}
		l, w := guardedHolder(t, f)
		err = w.Write(t.Context(), coordination.GuardedRecord{Topic: "t"})
		if err := l.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return err
}

// fenced returns the error of a holder that another process deposed.
func (f *fixture) fenced(t *testing.T) error {
	t.Helper()
	l := f.acquire(t, "node-1")
	f.supersede(f.role)
	return l.Renew(t.Context())
}

// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kafka_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// requests counts what a client asks brokers.
type requests struct{ written atomic.Int64 }

func (r *requests) OnBrokerWrite(kgo.BrokerMetadata, int16, int, time.Duration, time.Duration, error) {
	r.written.Add(1)
}

// A broker with an authoriser refuses one right after the other. Each refusal
// names what it is about at its first use, costs few requests, loses nothing, and
// ends when the right is granted.
func TestRefusedRightsAreNamed(t *testing.T) {
	broker := kafkatest.Start(t, kafkatest.Options{TransactionVersion: 2, Settings: map[string]string{
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":           "User:ANONYMOUS",
	}})
	c := cluster{brokers: []string{broker.Addr}}
	type right int
	const (
		readTopic right = iota
		readGroup
		writeID
		writeOutput
	)
	for _, tt := range []struct {
		name    string
		exact   bool
		missing right
		others  bool // the user may write to another topic
		named   func(*tallyJob, error) bool
	}{
		{"topic to read", false, readTopic, true, func(j *tallyJob, err error) bool { return isTopic(err, j.in) }},
		{"group", false, readGroup, true, func(j *tallyJob, err error) bool { return isAccess(err, fmt.Sprintf("group %q", j.group)) }},
		{"transactional id", true, writeID, true, func(j *tallyJob, err error) bool {
			return isAccess(err, fmt.Sprintf("transactional id %q", j.id))
		}},
		{"topic to write", false, writeOutput, true, func(j *tallyJob, err error) bool { return isTopic(err, j.out) }},
		{"any topic to write", false, writeOutput, false, func(j *tallyJob, err error) bool { return isTopic(err, j.out) }},
		{"topic to write in transactions", true, writeOutput, true, func(j *tallyJob, err error) bool { return isTopic(err, j.out) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := newTallyJob(t, c, tt.exact)
			j.fill(t, 12)
			user := unique("user")
			rights := map[right]*kadm.ACLBuilder{
				readTopic:   kadm.NewACLs().Topics(j.in).Operations(kadm.OpRead),
				readGroup:   kadm.NewACLs().Groups(j.group).Operations(kadm.OpRead),
				writeID:     kadm.NewACLs().TransactionalIDs(j.id).Operations(kadm.OpWrite),
				writeOutput: kadm.NewACLs().Topics(j.out).Operations(kadm.OpWrite),
			}
			admin := c.admin(t)
			grant := func(b *kadm.ACLBuilder) {
				t.Helper()
				created, err := admin.CreateACLs(within(t), b.Allow("User:"+user).ResourcePatternType(kadm.ACLPatternLiteral))
				for _, one := range created {
					err = errors.Join(err, one.Err)
				}
				if err != nil {
					t.Fatalf("create ACLs: %v", err)
				}
			}
			grant(kadm.NewACLs().Topics(j.in, j.out).Operations(kadm.OpDescribe))
			if tt.others {
				grant(kadm.NewACLs().Topics(c.topic(t, 1)).Operations(kadm.OpWrite))
			}
			for r, b := range rights {
				if r != tt.missing {
					grant(b)
				}
			}
			var sent requests
			j.options = append(c.login(t, broker.SASLAddr, user), kgo.WithHooks(&sent))
			m, err := j.try(t)
			if err == nil {
				err = m.failing(t)
			}
			if !tt.named(j, err) || columnar.IsRetriable(err) {
				t.Errorf("first use without the right = %v (retriable %v), want a lasting error that names it", err, columnar.IsRetriable(err))
			}
			begun, before := time.Now(), sent.written.Load()
			for range 4 {
				if m != nil {
					_ = m.round(t) // the same error, once a second at most
				}
			}
			if n, limit := sent.written.Load()-before, 60+time.Since(begun).Milliseconds()/10; n > limit {
				t.Errorf("%d requests in %v without the right, want at most %d", n, time.Since(begun), limit)
			}
			if got := j.committed(t, j.group, j.in); len(got) > 0 {
				t.Errorf("committed without the right: %v", got)
			}
			if got := j.results(t); len(got) > 0 {
				t.Errorf("results without the right: %v", got)
			}
			grant(rights[tt.missing])
			if m != nil && !tt.others {
				// A client that may write nowhere gets no producer id, once and for all.
				if err := errors.Join(m.Close(), m.client.Close()); err != nil {
					t.Errorf("close: %v", err)
				}
				m = nil
			}
			if m == nil {
				m = j.start(t)
			}
			ctx := within(t)
			for done := m.drained(t); !done(); {
				if err := m.round(t); err != nil && ctx.Err() != nil {
					t.Fatalf("round with the right: %v", err)
				}
			}
			if diff := cmp.Diff(j.counted(), m.state(t)); diff != "" {
				t.Errorf("state mismatch (-want +got):\n%s", diff)
			}
			j.check(t)
		})
	}
}

// login makes a user known and returns the options of a client that is it.
func (c cluster) login(t *testing.T, address, user string) []kgo.Opt {
	t.Helper()
	const password = "secret"
	altered, err := c.admin(t).AlterUserSCRAMs(within(t), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: password}})
	if err == nil {
		err = altered.Error()
	}
	if err != nil {
		t.Fatalf("create user: %v", err)
	}
	options := []kgo.Opt{kgo.SeedBrokers(address), kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())}
	client := c.client(t, options...)
	for ctx := within(t); client.Ping(ctx) != nil; { // until the broker has taken the user in
		if ctx.Err() != nil {
			t.Fatalf("user %s cannot log in", user)
		}
	}
	return options
}

func isTopic(err error, topic string) bool {
	var named *columnar.TopicError
	return errors.As(err, &named) && named.Topic == topic
}

func isAccess(err error, resource string) bool {
	var access *kafka.AccessError
	return errors.As(err, &access) && access.Resource == resource
}

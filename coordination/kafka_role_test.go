// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// One call runs a role: it takes the lease from its options, resigns when it
// ends, and leaves no connection and no goroutine.
func TestRunRoleOwnsItsTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := virtualStage(t)
		topic := s.compacted(t, 1)
		var timeout time.Duration
		s.fake.ControlKey(int16(kmsg.InitProducerID), func(ask kmsg.Request) (kmsg.Response, error, bool) {
			timeout = time.Duration(ask.(*kmsg.InitProducerIDRequest).TransactionTimeoutMillis) * time.Millisecond
			return nil, nil, false
		})
		options := coordination.KafkaOptions{Brokers: s.brokers, ClientOptions: s.opts}
		ctx, cancel := context.WithCancel(t.Context())
		var credential coordination.Credential
		err := coordination.RunRole(ctx, options, "controller", "node-1", func(ctx context.Context, l *coordination.Leadership) (err error) {
			credential, err = l.Credential()
			time.AfterFunc(time.Minute, cancel)
			<-ctx.Done()
			return err
		}, coordination.WithTopic(topic), coordination.WithPartitions(1), coordination.WithLeaseDuration(45*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if timeout != 45*time.Second || credential.Sequence != 1 {
			t.Errorf("transaction timeout %v and credential %s, want that of the lease and the sequence 1", timeout, credential)
		}
		transport := s.transport(t, standardConfig(t))
		state, err := coordination.DescribeRoleState(t.Context(), transport, role(t, "controller"), coordination.WithTopic(topic), coordination.WithPartitions(1))
		if _, held := state.Holder(); err != nil || held {
			t.Errorf("role state %+v, %v, want the lease cleared", state, err)
		}
		s.stop(transport)
	})
}

func TestRunRoleChecksItsArguments(t *testing.T) {
	work := func(context.Context, *coordination.Leadership) error { return nil }
	brokers := coordination.KafkaOptions{Brokers: []string{"127.0.0.1:1"}}
	for name, call := range map[string]func() error{
		"no broker": func() error { return coordination.RunRole(t.Context(), coordination.KafkaOptions{}, "r", "m", work) },
		"no work":   func() error { return coordination.RunRole(t.Context(), brokers, "r", "m", nil) },
		"no role":   func() error { return coordination.RunRole(t.Context(), brokers, "", "m", work) },
		"no member": func() error { return coordination.RunRole(t.Context(), brokers, "r", "", work) },
		"an option": func() error {
			return coordination.RunRole(t.Context(), brokers, "r", "m", work, coordination.WithPollInterval(-1))
		},
	} {
		if err := call(); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

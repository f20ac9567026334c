// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func TestKafkaOptionsAreChecked(t *testing.T) {
	ok := []string{"127.0.0.1:9092"}
	tests := []struct {
		name    string
		lease   coordination.LeaseConfig
		options coordination.KafkaOptions
		want    []string // one for each problem
	}{
		{name: "no lease and no broker", want: []string{"lease duration 0s must be positive", "at least one broker is required"}},
		{name: "an empty broker", lease: standardConfig(t), options: coordination.KafkaOptions{Brokers: []string{"a:1", ""}}, want: []string{"broker 1 is empty"}},
		{name: "a nil option", lease: standardConfig(t), options: coordination.KafkaOptions{Brokers: ok, ClientOptions: []kgo.Opt{nil}}, want: []string{"client option 0 is nil"}},
		{name: "an unknown policy", lease: standardConfig(t), options: coordination.KafkaOptions{Brokers: ok, TopicPolicy: 7}, want: []string{"unknown topic policy 7"}},
		{name: "a negative replication factor", lease: standardConfig(t),
			options: coordination.KafkaOptions{Brokers: ok, TopicPolicy: coordination.CreateTopic, ReplicationFactor: -1},
			want:    []string{"replication factor -1 is out of range"}},
		{name: "settings that nobody uses", lease: standardConfig(t),
			options: coordination.KafkaOptions{Brokers: ok, ReplicationFactor: 3}, want: []string{`need the topic policy "create", have "verify"`}},
		{name: "another cleanup policy", lease: standardConfig(t),
			options: coordination.KafkaOptions{Brokers: ok, TopicPolicy: coordination.CreateTopic, TopicSettings: map[string]string{"cleanup.policy": "delete"}},
			want:    []string{`cleanup.policy must be "compact", have "delete"`}},
		{name: "options of the transport", lease: standardConfig(t),
			options: coordination.KafkaOptions{Brokers: ok, ClientOptions: []kgo.Opt{
				kgo.WithContext(context.Background()), kgo.SeedBrokers("b:1"), kgo.MaxVersions(kversion.V2_8_0()),
				kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("t"), kgo.ConsumerGroup("g"), kgo.TransactionalID("id"),
			}},
			want: []string{"WithContext", "SeedBrokers", "MaxVersions", "AllowAutoTopicCreation", "TransactionalID", "ConsumerGroup", "ConsumeTopics"}},
		{name: "weaker acks", lease: standardConfig(t),
			options: coordination.KafkaOptions{Brokers: ok, ClientOptions: []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}},
			want:    []string{"RequiredAcks"}},
		{name: "options that contradict each other", lease: standardConfig(t),
			options: coordination.KafkaOptions{Brokers: ok, ClientOptions: []kgo.Opt{kgo.ConnIdleTimeout(time.Nanosecond)}},
			want:    []string{"conn min idle timeout"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			transport, err := coordination.NewKafkaTransportWithOptions(tt.lease, tt.options)
			if transport != nil || !errors.Is(err, coordination.ErrInvalidOption) {
				t.Fatalf("transport %v, %v; want ErrInvalidOption", transport, err)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Errorf("%d problems, want %d:\n%v", len(lines), len(tt.want), err)
			}
			for _, want := range tt.want {
				if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, want) }) {
					t.Errorf("no problem names %q:\n%v", want, err)
				}
			}
		})
	}
	if _, err := coordination.NewKafkaTransport(coordination.LeaseConfig{}, ok...); !errors.Is(err, coordination.ErrInvalidOption) {
		t.Errorf("NewKafkaTransport with a zero lease: %v", err)
	}
	if _, err := coordination.NewKafkaTransport(standardConfig(t)); !errors.Is(err, coordination.ErrInvalidOption) {
		t.Errorf("NewKafkaTransport without a broker: %v", err)
	}
	transport, err := coordination.NewKafkaTransport(standardConfig(t), ok...)
	if err != nil {
		t.Fatal(err)
	}
	transport.Close()
}

func TestKafkaTransportDoesNotKeepItsOptions(t *testing.T) {
	s := fakeStage(t)
	brokers := slices.Clone(s.brokers)
	transport, err := coordination.NewKafkaTransport(standardConfig(t), brokers...)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	brokers[0] = "nowhere.invalid:1"
	if _, err := transport.AcquireEpoch(within(t, patience), role(t, "controller")); err != nil {
		t.Errorf("mint after the caller changed its list: %v", err)
	}
}

func TestKafkaTransportLogsIn(t *testing.T) {
	s := fakeStage(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "user", "secret"))
	login := func(options *coordination.KafkaOptions) {
		options.ClientOptions = append(options.ClientOptions, kgo.SASL(plain.Auth{User: "user", Pass: "secret"}.AsMechanism()))
	}
	if _, err := s.transport(t, standardConfig(t), login).AcquireEpoch(within(t, patience), role(t, "controller")); err != nil {
		t.Errorf("with a login: %v", err)
	}
	if _, err := s.transport(t, standardConfig(t)).AcquireEpoch(within(t, patience), role(t, "controller")); err == nil {
		t.Error("without one the mint succeeds")
	}
}

func TestKafkaTransportGivesUpOnAnAddressThatCannotBe(t *testing.T) {
	transport, err := coordination.NewKafkaTransportWithOptions(standardConfig(t), coordination.KafkaOptions{
		Brokers:       []string{"localhost:1"},
		ClientOptions: []kgo.Opt{kgo.Dialer(new(kfake.VirtualNetwork).DialContext), kgo.RequestRetries(0)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	_, err = transport.AcquireEpoch(within(t, patience), role(t, "controller"))
	var failed *coordination.KafkaError
	if !errors.As(err, &failed) || errors.Is(err, context.DeadlineExceeded) || !failed.Retriable() {
		t.Errorf("mint: %v, want a KafkaError before the context ends", err)
	}
}

func TestKafkaHooksTellWhatHappens(t *testing.T) {
	s := fakeStage(t)
	var mu sync.Mutex
	var events []string
	note := func(event string) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, event)
	}
	transport := s.transport(t, standardConfig(t), func(options *coordination.KafkaOptions) {
		options.Hooks = coordination.KafkaHooks{
			Minted: func(r coordination.Role, _ coordination.FencingToken, _ int) { note("minted " + r.String()) },
			Retried: func(operation string, reason error) {
				if errors.Is(reason, kerr.ConcurrentTransactions) {
					note("retried " + operation)
				}
			},
			Fetched: func(partition coordination.TopicPartition, records, bytes int) {
				if records == 1 && bytes > 0 {
					note("fetched " + partition.Topic)
				}
			},
		}
	})
	topic := s.compacted(t, 1)
	minted, err := transport.AcquireEpoch(within(t, patience), role(t, "controller"))
	if err != nil {
		t.Fatal(err)
	}
	s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.ConcurrentTransactions, Count: 1, TopLevel: true})
	if err := transport.WriteLease(within(t, patience), at(topic, 0), minted, []byte("lease"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	if _, err := transport.ReadPartition(within(t, patience), at(topic, 0)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"minted controller", "retried EndTxn", "fetched " + topic}, events); diff != "" {
		t.Errorf("events mismatch (-want +got):\n%s", diff)
	}
}

func TestKafkaTransportWarnsOnceAboutAWeakTopic(t *testing.T) {
	s := fakeStage(t)
	topic := unique("weak")
	s.create(t, topic, 1, "cleanup.policy", "compact", "min.insync.replicas", "1", "unclean.leader.election.enable", "true")
	var log bytes.Buffer
	transport := s.transport(t, standardConfig(t), func(options *coordination.KafkaOptions) {
		options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	for range 2 {
		if err := transport.EnsureTopic(within(t, patience), topic, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"too few replicas", "a single broker holds", "unclean leader election"} {
		if got := strings.Count(log.String(), want); got != 1 {
			t.Errorf("%q is logged %d times, want once:\n%s", want, got, log.String())
		}
	}
}

func TestEpochModesAndPoliciesHaveNames(t *testing.T) {
	got := []string{
		coordination.EpochModeUnknown.String(), coordination.EpochModeStable.String(), coordination.EpochModeTracking.String(), coordination.EpochMode(9).String(),
		coordination.VerifyTopic.String(), coordination.CreateTopic.String(), coordination.TrustTopic.String(), coordination.TopicPolicy(9).String(),
	}
	want := []string{"unknown", "stable", "tracking", "EpochMode(9)", "verify", "create", "trust", "TopicPolicy(9)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names mismatch (-want +got):\n%s", diff)
	}
}

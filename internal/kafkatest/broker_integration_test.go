// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// newClient returns a client that ends with the test.
func newClient(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestBrokerKeepsItsDataWhenItCrashes(t *testing.T) {
	const topic, count = "crash", 100
	broker := Start(t, Options{TransactionVersion: 2, Settings: map[string]string{"message.max.bytes": "123456"}})
	client := newClient(t, kgo.SeedBrokers(broker.Addr), kgo.ConsumeTopics(topic))
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	configs, err := admin.DescribeBrokerConfigs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range configs[0].Configs {
		if config.Key == "message.max.bytes" && config.MaybeValue() != "123456" {
			t.Errorf("message.max.bytes = %s, want the setting 123456", config.MaybeValue())
		}
	}

	var want []string
	for i := range count {
		value := strconv.Itoa(i)
		want = append(want, value)
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	broker.Kill()
	down := newClient(t, kgo.SeedBrokers(broker.Addr), kgo.RequestRetries(0))
	if err := down.Ping(t.Context()); err == nil {
		t.Error("the broker answers after Kill")
	}
	broker.Restart()

	var got []string
	for len(got) < count {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records after the crash mismatch (-want +got):\n%s", diff)
	}
}

func TestBrokerSpeaksTheChosenTransactionVersion(t *testing.T) {
	for _, version := range []int16{0, 2} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			broker := Start(t, Options{TransactionVersion: int(version)})
			client := newClient(t, kgo.SeedBrokers(broker.Addr))
			request := kmsg.NewPtrApiVersionsRequest()
			request.ClientSoftwareName, request.ClientSoftwareVersion = "kafkatest", "1"
			response, err := request.RequestWith(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			got := int16(0) // a feature at level 0 is not listed
			for _, feature := range response.FinalizedFeatures {
				if feature.Name == "transaction.version" {
					got = feature.MaxVersionLevel
				}
			}
			if got != version {
				t.Errorf("transaction.version = %d, want %d", got, version)
			}
		})
	}
}

func TestSharedBrokerAnswers(t *testing.T) {
	if err := newClient(t, kgo.SeedBrokers(Brokers(t)...)).Ping(t.Context()); err != nil {
		t.Errorf("the shared broker: %v", err)
	}
}

func TestSASLListenerAsksForThePassword(t *testing.T) {
	brokers, user, password := SASLBrokers(t)
	ping := func(opts ...kgo.Opt) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return newClient(t, append(opts, kgo.SeedBrokers(brokers...), kgo.RequestRetries(0))...).Ping(ctx)
	}
	login := func(password string) kgo.Opt {
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())
	}
	if err := ping(login(password)); err != nil {
		t.Errorf("with the right password: %v", err)
	}
	if err := ping(login(password + "x")); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("with a wrong password: %v, want %v", err, kerr.SaslAuthenticationFailed)
	}
	if err := ping(); err == nil {
		t.Error("without a password the listener answers")
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kafka_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

func TestOnRealCluster(t *testing.T) {
	for _, tt := range slices.Concat(suite, runnerSuite) {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, cluster{brokers: kafkatest.Brokers(t)}) })
	}
}

// Before version 2 of the protocol, partitions and offsets are added to a
// transaction by requests of their own, and producer epochs stay.
func TestOnFirstTransactionProtocol(t *testing.T) {
	broker := kafkatest.Start(t, kafkatest.Options{TransactionVersion: 0})
	for _, tt := range suite {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, cluster{brokers: []string{broker.Addr}}) })
	}
}

// Brokers before 4.0, and this one by its settings, refuse records at once while they
// write the markers of the transaction before.
func TestRoundsAreShortOnABrokerThatRefusesAtOnce(t *testing.T) {
	broker := kafkatest.Start(t, kafkatest.Options{TransactionVersion: 2, Settings: map[string]string{
		"add.partitions.to.txn.retry.backoff.max.ms": "0",
	}})
	testShortRounds(t, cluster{brokers: []string{broker.Addr}})
}

func TestPasswordIsChecked(t *testing.T) {
	brokers, user, password := kafkatest.SASLBrokers(t)
	in := cluster{brokers: kafkatest.Brokers(t)}.topic(t, 1)
	for _, tt := range []struct {
		password string
		refused  bool
	}{{password, false}, {password + "x", true}} {
		m, err := kafka.NewMember(unique("group"), kgo.SeedBrokers(brokers...), kgo.SASL(scram.Auth{User: user, Pass: tt.password}.AsSha256Mechanism()))
		if err != nil {
			t.Fatalf("new member: %v", err)
		}
		closing(t, m)
		err = m.Subscribe([]string{in}, nil)
		var access *kafka.AccessError
		if errors.As(err, &access) != tt.refused || err != nil && access.Resource != "cluster" {
			t.Errorf("Subscribe = %v, want an AccessError of the cluster: %v", err, tt.refused)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// TestMain makes runners without a logger of their own silent, so that a failure is
// not lost among what they report.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	kafkatest.Programs{"member": runMember, "heavy": runHeavy, "publisher": runPublisher}.Run()
	goleak.VerifyTestMain(m)
}

// startBroker starts a fake broker in a process of its own.
func startBroker(t testing.TB) cluster {
	t.Helper()
	return cluster{brokers: []string{kafkatest.StartFake(t)}}
}

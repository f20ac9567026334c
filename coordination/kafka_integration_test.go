// SPDX-License-Identifier: Apache-2.0

//go:build integration

package coordination_test

import (
	"testing"

	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// sharedStage is the broker that all integration tests share. It moves the
// epoch of a producer with each transaction, as newer clients ask it to.
func sharedStage(t *testing.T) *stage { return &stage{brokers: kafkatest.Brokers(t)} }

func TestKafkaTransportSuiteOnKafka(t *testing.T) { runSuite(t, sharedStage(t)) }

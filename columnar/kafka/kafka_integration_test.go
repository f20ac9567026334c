// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kafka_test

import (
	"testing"

	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

func TestOnRealCluster(t *testing.T) {
	for _, tt := range suite {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, cluster{brokers: kafkatest.Brokers(t)}) })
	}
}

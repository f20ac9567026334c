// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"testing"

	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

func TestCountsSurviveTheKillOnKafka(t *testing.T) {
	checkStory(t, "-brokers", kafkatest.Brokers(t)[0])
}

// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kafka_test

import (
	"os"
	"strings"
	"testing"
)

// newReal reaches the brokers that KAFKA_BROKERS names.
func newReal(t testing.TB) cluster {
	t.Helper()
	brokers := os.Getenv("KAFKA_BROKERS")
	if brokers == "" {
		t.Fatal("KAFKA_BROKERS is not set")
	}
	return cluster{brokers: strings.Split(brokers, ",")}
}

func TestOnRealCluster(t *testing.T) {
	for _, tt := range suite {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, newReal(t)) })
	}
}

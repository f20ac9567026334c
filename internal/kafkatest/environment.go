// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"os"
	"strings"
	"testing"
)

// Names of the variables that tell integration tests where the services are.
const (
	BrokersVariable      = "KAFKA_BROKERS"
	SASLBrokersVariable  = "KAFKA_SASL_BROKERS"
	SASLUserVariable     = "KAFKA_SASL_USER"
	SASLPasswordVariable = "KAFKA_SASL_PASSWORD"
	RegistryURLVariable  = "SCHEMA_REGISTRY_URL"
	LibraryVariable      = "KAFKA_LIB"
)

// Brokers returns the addresses of the shared broker. Without one the test
// fails at once.
func Brokers(tb testing.TB) []string {
	tb.Helper()
	return strings.Split(variable(tb, BrokersVariable), ",")
}

// SASLBrokers returns the addresses at which the shared broker asks for
// SCRAM-SHA-256 over plaintext, with a user and password that it accepts.
// Without them the test fails at once.
func SASLBrokers(tb testing.TB) (brokers []string, user, password string) {
	tb.Helper()
	brokers = strings.Split(variable(tb, SASLBrokersVariable), ",")
	return brokers, variable(tb, SASLUserVariable), variable(tb, SASLPasswordVariable)
}

// RegistryURL returns the address of the shared schema registry. Without one
// the test fails at once.
func RegistryURL(tb testing.TB) string {
	tb.Helper()
	return variable(tb, RegistryURLVariable)
}

func variable(tb testing.TB, name string) string {
	tb.Helper()
	value := os.Getenv(name)
	if value == "" {
		tb.Fatalf("%s is not set: run integration tests with make integration", name)
	}
	return value
}

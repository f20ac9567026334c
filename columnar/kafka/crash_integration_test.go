// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kafka_test

import (
	"testing"

	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// newReal reaches the brokers of the integration tests.
func newReal(t testing.TB) cluster {
	t.Helper()
	return cluster{brokers: kafkatest.Brokers(t)}
}

func TestRealCountsAreExactThroughKills(t *testing.T) {
	testKills(t, newReal(t), memberConfig{Exact: true})
}

func TestRealCountsLoseNothingThroughKills(t *testing.T) {
	testKills(t, newReal(t), memberConfig{})
}

func TestRealCountsAreExactWhileMembersJoinAndLeave(t *testing.T) {
	testSecondMember(t, newReal(t), memberConfig{Exact: true})
}

func TestRealCountsLoseNothingWhileMembersJoinAndLeave(t *testing.T) {
	testSecondMember(t, newReal(t), memberConfig{})
}

func TestRealCountsAreExactThroughCrashesInARound(t *testing.T) {
	testSeams(t, newReal(t), memberConfig{Exact: true})
}

func TestRealCountsLoseNothingThroughCrashesInARound(t *testing.T) {
	testSeams(t, newReal(t), memberConfig{})
}

func TestRealAdvancesAreExactThroughCrashes(t *testing.T) {
	testAdvanceSeams(t, newReal(t), memberConfig{Exact: true}, exactAdvanceSeams...)
}

func TestRealAdvancesLoseNothingThroughCrashes(t *testing.T) {
	testAdvanceSeams(t, newReal(t), memberConfig{}, looseAdvanceSeams...)
}

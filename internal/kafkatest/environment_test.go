// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// failRecorder is a test that records how it failed.
type failRecorder struct {
	testing.TB
	failure string
}

func (*failRecorder) Helper() {}

func (r *failRecorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failureOf runs what a test does and returns how that test fails.
func failureOf(test func(testing.TB)) string {
	var r failRecorder
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(&r)
	}()
	<-done
	return r.failure
}

func TestMissingServicesFailTheTest(t *testing.T) {
	for _, name := range []string{BrokersVariable, SASLBrokersVariable, SASLUserVariable, SASLPasswordVariable, RegistryURLVariable, LibraryVariable} {
		t.Setenv(name, "")
	}
	got := map[string]string{
		"brokers":  failureOf(func(tb testing.TB) { Brokers(tb) }),
		"sasl":     failureOf(func(tb testing.TB) { SASLBrokers(tb) }),
		"registry": failureOf(func(tb testing.TB) { RegistryURL(tb) }),
	}
	want := map[string]string{
		"brokers":  "KAFKA_BROKERS is not set: run integration tests with make integration",
		"sasl":     "KAFKA_SASL_BROKERS is not set: run integration tests with make integration",
		"registry": "SCHEMA_REGISTRY_URL is not set: run integration tests with make integration",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failures mismatch (-want +got):\n%s", diff)
	}
}

func TestServicesComeFromTheEnvironment(t *testing.T) {
	t.Setenv(BrokersVariable, "127.0.0.1:1,127.0.0.1:2")
	t.Setenv(SASLBrokersVariable, "127.0.0.1:3")
	t.Setenv(SASLUserVariable, "user")
	t.Setenv(SASLPasswordVariable, "secret")
	t.Setenv(RegistryURLVariable, "http://127.0.0.1:4")
	sasl, user, password := SASLBrokers(t)
	got := [][]string{Brokers(t), sasl, {user, password}, {RegistryURL(t)}}
	want := [][]string{{"127.0.0.1:1", "127.0.0.1:2"}, {"127.0.0.1:3"}, {"user", "secret"}, {"http://127.0.0.1:4"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("services mismatch (-want +got):\n%s", diff)
	}
}

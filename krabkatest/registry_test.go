// SPDX-License-Identifier: Apache-2.0

package krabkatest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/krabkatest"
	"github.com/krabka-io/krabka-streams-go/schema"
)

const (
	orderV1 = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}`
	orderV2 = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"cents","type":"long","default":0}]}`
	orderV3 = `{"type":"record","name":"Order","fields":[{"name":"number","type":"long"}]}`
)

// startRegistry starts a stub and a client of it without retries.
func startRegistry(t *testing.T, options ...schema.RegistryClientOption) (*krabkatest.SchemaRegistryStub, *schema.RegistryClient) {
	t.Helper()
	stub, err := krabkatest.NewSchemaRegistryStub()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stub.Close(); err != nil {
			t.Errorf("close the registry: %v", err)
		}
	})
	client, err := schema.NewRegistryClient(stub.URL(), append([]schema.RegistryClientOption{schema.WithMaxRetries(0)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return stub, client
}

// wantCode checks the error code of a registry's refusal.
func wantCode(t *testing.T, what string, err error, code int) {
	t.Helper()
	var refused *schema.RegistryError
	if !errors.As(err, &refused) || refused.ErrorCode != code {
		t.Errorf("%s: %v, want the error code %d", what, err, code)
	}
}

func TestRegistryHasIDsAndVersions(t *testing.T) {
	stub, client := startRegistry(t)
	ctx := t.Context()
	register := func(subject, text string) int {
		t.Helper()
		id, err := client.Register(ctx, subject, schema.KindAvro, text, "")
		if err != nil {
			t.Fatalf("register: %v", err)
		}
		return id
	}
	ids := []int{
		register("a/b-value", orderV1), register("a/b-value", orderV2), register("a/b-value", orderV1),
		register("other", orderV1), register(":.ctx:other", orderV2),
		stub.Register("other", schema.KindAvro, orderV3, ""),
	}
	if diff := cmp.Diff([]int{1, 2, 1, 1, 1, 3}, ids); diff != "" {
		t.Errorf("ids mismatch (-want +got):\n%s", diff)
	}
	latest, err := client.Latest(ctx, "a/b-value")
	if err != nil || latest.Schema != orderV2 || latest.Version != 2 || latest.ID != 2 {
		t.Errorf("latest is %+v, %v; want version 2 with id 2", latest, err)
	}
	if fetched, err := client.SchemaByID(ctx, 1); err != nil || fetched.Schema != orderV1 {
		t.Errorf("schema 1 is %+v, %v", fetched, err)
	}
	if fetched, err := client.FindSchemaByID(ctx, 1, schema.WithSubject(":.ctx:")); err != nil || fetched.Schema != orderV2 {
		t.Errorf("schema 1 of the other context is %+v, %v", fetched, err)
	}
	if id, err := client.Lookup(ctx, "other", schema.KindAvro, orderV3, ""); err != nil || id != 3 {
		t.Errorf("look-up finds id %d, %v", id, err)
	}
	_, err = client.Lookup(ctx, "other", schema.KindAvro, orderV2, "")
	wantCode(t, "look-up of a schema of another subject", err, 40403)
	_, err = client.Lookup(ctx, "nobody", schema.KindAvro, orderV2, "")
	wantCode(t, "look-up in an unknown subject", err, 40401)
	_, err = client.Latest(ctx, "nobody")
	wantCode(t, "latest of an unknown subject", err, 40401)
	_, err = client.SchemaByID(ctx, 9)
	wantCode(t, "unknown id", err, 40403)
	if n := stub.RequestCount(http.MethodPost, "/subjects/a%2Fb-value/versions"); n != 3 {
		t.Errorf("%d registrations were counted, want 3", n)
	}
	if n := stub.RequestCount(http.MethodGet, "/schemas/ids/1"); n != 2 {
		t.Errorf("%d requests for schema 1 were counted, want 2", n)
	}
}

func TestRegistryDeletesSoftlyFirst(t *testing.T) {
	stub, client := startRegistry(t)
	ctx := t.Context()
	stub.Register("s", schema.KindAvro, orderV1, "")
	stub.Register("s", schema.KindAvro, orderV2, "")
	_, err := client.DeleteVersion(ctx, "s", 1, true)
	wantCode(t, "permanent delete of a version that is live", err, 40407)
	if n, err := client.DeleteVersion(ctx, "s", 1, false); err != nil || n != 1 {
		t.Errorf("delete of version 1: %d, %v", n, err)
	}
	if numbers, err := client.Versions(ctx, "s"); err != nil || !cmp.Equal(numbers, []int{2}) {
		t.Errorf("versions are %v, %v; want 2 alone", numbers, err)
	}
	if numbers, err := client.DeleteSubject(ctx, "s", false); err != nil || !cmp.Equal(numbers, []int{2}) {
		t.Errorf("delete of the subject: %v, %v; want version 2", numbers, err)
	}
	if subjects, err := client.Subjects(ctx); err != nil || len(subjects) != 0 {
		t.Errorf("subjects are %v, %v; want none", subjects, err)
	}
	if numbers, err := client.DeleteSubject(ctx, "s", true); err != nil || !cmp.Equal(numbers, []int{1, 2}) {
		t.Errorf("permanent delete: %v, %v; want both versions", numbers, err)
	}
	_, err = client.DeleteSubject(ctx, "s", true)
	wantCode(t, "delete of what is gone", err, 40401)
}

func TestRegistryChecksCompatibilityOnDemand(t *testing.T) {
	stub, client := startRegistry(t)
	ctx := t.Context()
	stub.Register("s", schema.KindAvro, orderV1, "")
	if _, err := client.Register(ctx, "s", schema.KindAvro, orderV3, ""); err != nil {
		t.Errorf("a registry that does not check refuses: %v", err)
	}
	if _, err := client.DeleteVersion(ctx, "s", 2, false); err != nil {
		t.Fatal(err)
	}
	stub.CheckCompatibility()
	_, err := client.Register(ctx, "s", schema.KindAvro, orderV3, "")
	wantCode(t, "incompatible schema", err, 40901)
	if _, err := client.Register(ctx, "s", schema.KindAvro, orderV2, ""); err != nil {
		t.Errorf("a compatible schema is refused: %v", err)
	}
	if _, err := client.SetSubjectCompatibility(ctx, "s", "NONE"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Register(ctx, "s", schema.KindAvro, orderV3, ""); err != nil {
		t.Errorf("level NONE refuses: %v", err)
	}
	_, err = client.Register(ctx, "s", schema.KindAvro, orderV1, "", schema.SchemaReference{Name: "x", Subject: "nobody", Version: 1})
	wantCode(t, "reference to nothing", err, 42201)
}

func TestRegistryFailsOnDemand(t *testing.T) {
	stub, client := startRegistry(t)
	ctx := t.Context()
	stub.Register("s", schema.KindAvro, orderV1, "")
	stub.FailNext(2, http.StatusServiceUnavailable, 50001)
	stub.FailNext(1, http.StatusTooManyRequests, 42901)
	for _, code := range []int{50001, 50001, 42901} {
		_, err := client.Latest(ctx, "s")
		wantCode(t, "call with a fault", err, code)
	}
	if _, err := client.Latest(ctx, "s"); err != nil {
		t.Errorf("call behind the faults: %v", err)
	}

	stub.FailNext(-1, http.StatusInternalServerError, 50001)
	for range 3 {
		_, err := client.Latest(ctx, "s")
		wantCode(t, "call with a lasting fault", err, 50001)
	}
	stub.Delay(time.Hour)
	waits, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := client.Latest(waits, "s"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call of a slow registry: %v, want the end of the context", err)
	}
	stub.Recover()
	if _, err := client.Latest(ctx, "s"); err != nil {
		t.Errorf("call behind the recovery: %v", err)
	}
}

func TestRegistryRestartsAtItsAddress(t *testing.T) {
	stub, client := startRegistry(t)
	ctx := t.Context()
	stub.Register("s", schema.KindAvro, orderV1, "")
	if err := stub.Stop(); err != nil {
		t.Fatal(err)
	}
	var failed *schema.RegistryError
	if _, err := client.Latest(ctx, "s"); !errors.As(err, &failed) || !failed.Retriable() {
		t.Errorf("call of a stopped registry: %v, want an error that may be retried", err)
	}
	for range 2 { // a second start does nothing
		if err := stub.Start(); err != nil {
			t.Fatalf("start: %v", err)
		}
	}
	if latest, err := client.Latest(ctx, "s"); err != nil || latest.Schema != orderV1 {
		t.Errorf("latest behind the restart is %+v, %v", latest, err)
	}
	if err := stub.Close(); err != nil {
		t.Fatal(err)
	}
	if err := stub.Start(); err == nil {
		t.Error("a closed registry starts")
	}
	if n := stub.RequestCount(http.MethodGet, "/subjects/s/versions/latest"); n != 1 {
		t.Errorf("%d requests were counted behind the end, want 1", n)
	}
}

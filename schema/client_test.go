// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// answering returns a client whose registry always gives one answer.
func answering(tb testing.TB, status int, body string, options ...RegistryClientOption) (*RegistryClient, *registryDouble) {
	tb.Helper()
	double := newInProcessRegistry(tb)
	double.failing(status, body)
	return double.client(options...), double
}

func TestRegisterSendsWhatTheKindNeeds(t *testing.T) {
	client, double := answering(t, http.StatusOK, `{"id":42}`)
	tests := []struct {
		kind        Kind
		text, typ   string
		references  []SchemaReference
		wantBody    string
		wantPathFor string
	}{
		{KindAvro, `"string"`, "", nil, `{"schema":"\"string\""}`, "orders-value"},
		{Kind(9), `"int"`, "", nil, `{"schema":"\"int\""}`, "orders-value"},
		{KindProtobuf, `syntax = "proto3";`, "demo.Order", nil, `{"schema":"syntax = \"proto3\";","schemaType":"PROTOBUF","messageType":"demo.Order"}`, "orders-value"},
		{KindJSON, `{}`, "", []SchemaReference{{"a", "b", 3}}, `{"schema":"{}","schemaType":"JSON","references":[{"name":"a","subject":"b","version":3}]}`, "orders-value"},
	}
	for i, tt := range tests {
		id, err := client.Register(t.Context(), "orders-value", tt.kind, tt.text, tt.typ, tt.references...)
		if err != nil || id != 42 {
			t.Fatalf("Register = %d, %v", id, err)
		}
		request := double.request(i)
		if diff := cmp.Diff(tt.wantBody, request.Body); diff != "" {
			t.Errorf("body mismatch (-want +got):\n%s", diff)
		}
		if request.Method != http.MethodPost || request.Path != "/subjects/orders-value/versions" {
			t.Errorf("request is %s %s", request.Method, request.Path)
		}
		for key, want := range map[string]string{"Accept": mediaType, "Content-Type": mediaType, "User-Agent": "krabka-streams-go", "Authorization": ""} {
			if got := request.Header.Get(key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
	}
	if id, err := client.Lookup(t.Context(), "orders-value", KindAvro, `"string"`, ""); err != nil || id != 42 {
		t.Fatalf("Lookup = %d, %v", id, err)
	}
	if got := double.recorded()[4]; got != "POST /subjects/orders-value" {
		t.Errorf("lookup request is %s", got)
	}
}

func TestSubjectsArePathSegments(t *testing.T) {
	client, double := answering(t, http.StatusOK, `{"id":1}`)
	for subject, want := range map[string]string{
		"a/b": "a%2Fb", "a b": "a%20b", "100%": "100%25", "a?b": "a%3Fb", "a+b:c@d": "a+b:c@d", ":.ctx:orders": ":.ctx:orders",
	} {
		before := len(double.recorded())
		if _, err := client.LatestID(t.Context(), subject); err != nil {
			t.Fatal(err)
		}
		if got := double.request(before).Path; got != "/subjects/"+want+"/versions/latest" {
			t.Errorf("subject %q: path is %s", subject, got)
		}
	}
	if _, err := client.Latest(t.Context(), ""); err == nil || err.Error() != "subject must not be empty" {
		t.Errorf("error of an empty subject is %v", err)
	}
	if _, err := client.Versions(t.Context(), ""); err == nil || err.Error() != "subject must not be empty" {
		t.Errorf("error of an empty subject is %v", err)
	}
}

func TestEveryCallAsksForItsResource(t *testing.T) {
	schema := NewSchema{Kind: KindAvro, Schema: `"int"`}
	object := `{"id":7,"version":2,"schema":"s","compatibilityLevel":"FULL","compatibility":"FULL","mode":"READONLY","is_compatible":true}`
	tests := []struct {
		request, body, answer string
		call                  func(context.Context, *RegistryClient) (any, error)
		want                  any
	}{
		{"GET /subjects", "", `["a","b"]`, func(ctx context.Context, c *RegistryClient) (any, error) { return c.Subjects(ctx) }, []string{"a", "b"}},
		{"GET /subjects?deleted=true&subjectPrefix=%3A.x%3A", "", `[]`, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.FindSubjects(ctx, WithDeleted(), WithSubjectPrefix(":.x:"))
		}, []string{}},
		{"GET /subjects/a/versions", "", `[1,3]`, func(ctx context.Context, c *RegistryClient) (any, error) { return c.Versions(ctx, "a") }, []int{1, 3}},
		{"GET /subjects/a/versions?deletedOnly=true", "", `[2]`, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.FindVersions(ctx, "a", WithDeletedOnly())
		}, []int{2}},
		{"GET /subjects/a/versions/2", "", object, func(ctx context.Context, c *RegistryClient) (any, error) { return c.Version(ctx, "a", 2) }, RegisteredSchema{ID: 7, Version: 2, Schema: "s"}},
		{"GET /subjects/a/versions/latest", "", object, func(ctx context.Context, c *RegistryClient) (any, error) { return c.Latest(ctx, "a") }, RegisteredSchema{ID: 7, Version: 2, Schema: "s"}},
		{"GET /subjects/a/versions/latest", "", `{"id":4294967295}`, func(ctx context.Context, c *RegistryClient) (any, error) { return c.LatestID(ctx, "a") }, 1<<32 - 1},
		{"GET /subjects/a/versions/2/referencedby", "", `[9]`, func(ctx context.Context, c *RegistryClient) (any, error) { return c.ReferencedBy(ctx, "a", 2) }, []int{9}},
		{"POST /subjects/a/versions?normalize=true", `{"schema":"\"int\""}`, object, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.RegisterSchema(ctx, "a", schema, WithNormalize())
		}, RegisteredSchema{ID: 7, Version: 2, Schema: "s"}},
		{"POST /subjects/a/versions", `{"schema":"s","metadata":{"owner":"x"},"ruleSet":{}}`, `{"id":1,"guid":"g","metadata":{"owner":"x"},"ruleSet":{},"subject":"a"}`, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.RegisterSchema(ctx, "a", NewSchema{Schema: "s", Metadata: []byte(`{"owner":"x"}`), RuleSet: []byte(`{}`)})
		}, RegisteredSchema{ID: 1, GUID: "g", Metadata: []byte(`{"owner":"x"}`), RuleSet: []byte(`{}`), Subject: "a"}},
		{"POST /subjects/a?deleted=true", `{"schema":"\"int\""}`, object, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.LookupSchema(ctx, "a", schema, WithDeleted())
		}, RegisteredSchema{ID: 7, Version: 2, Schema: "s"}},
		{"DELETE /subjects/a", "", `[1,2]`, func(ctx context.Context, c *RegistryClient) (any, error) { return c.DeleteSubject(ctx, "a", false) }, []int{1, 2}},
		{"DELETE /subjects/a?permanent=true", "", `[1]`, func(ctx context.Context, c *RegistryClient) (any, error) { return c.DeleteSubject(ctx, "a", true) }, []int{1}},
		{"DELETE /subjects/a/versions/2", "", `2`, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.DeleteVersion(ctx, "a", 2, false)
		}, 2},
		{"DELETE /subjects/a/versions/2?permanent=true", "", ` 2 `, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.DeleteVersion(ctx, "a", 2, true)
		}, 2},
		{"GET /schemas/ids/4294967295", "", object, func(ctx context.Context, c *RegistryClient) (any, error) { return c.SchemaByID(ctx, -1) }, FetchedSchema{Schema: "s"}},
		{"GET /schemas/ids/7?subject=%3A.x%3A", "", `{"schema":"s","schemaType":"AVRO","references":[]}`, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.FindSchemaByID(ctx, 7, WithSubject(":.x:"))
		}, FetchedSchema{Schema: "s"}},
		{"GET /schemas/guids/ab000000-0000-0000-0000-000000000001?format=resolved", "", object, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.SchemaByGUID(ctx, GUID{0: 0xab, 15: 1}, WithQuery("format", "resolved"))
		}, FetchedSchema{Schema: "s"}},
		{"GET /schemas/ids/7/versions", "", `[{"subject":"a","version":1}]`, func(ctx context.Context, c *RegistryClient) (any, error) { return c.SchemaVersions(ctx, 7) }, []SubjectVersion{{"a", 1}}},
		{"GET /schemas/ids/7/subjects", "", `["a"]`, func(ctx context.Context, c *RegistryClient) (any, error) { return c.SchemaSubjects(ctx, 7) }, []string{"a"}},
		{"GET /schemas/types", "", `["AVRO"]`, func(ctx context.Context, c *RegistryClient) (any, error) { return c.SchemaTypes(ctx) }, []string{"AVRO"}},
		{"GET /contexts", "", `["."]`, func(ctx context.Context, c *RegistryClient) (any, error) { return c.Contexts(ctx) }, []string{"."}},
		{"GET /config", "", object, func(ctx context.Context, c *RegistryClient) (any, error) { return c.Compatibility(ctx) }, "FULL"},
		{"GET /config/a", "", object, func(ctx context.Context, c *RegistryClient) (any, error) { return c.SubjectCompatibility(ctx, "a") }, "FULL"},
		{"GET /config/a?defaultToGlobal=true", "", object, func(ctx context.Context, c *RegistryClient) (any, error) { return c.EffectiveCompatibility(ctx, "a") }, "FULL"},
		{"PUT /config", `{"compatibility":"FULL"}`, object, func(ctx context.Context, c *RegistryClient) (any, error) { return c.SetCompatibility(ctx, "FULL") }, "FULL"},
		{"PUT /config/a", `{"compatibility":"FULL"}`, object, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.SetSubjectCompatibility(ctx, "a", "FULL")
		}, "FULL"},
		{"DELETE /config/a", "", `{"compatibilityLevel":"FULL"}`, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.DeleteSubjectCompatibility(ctx, "a")
		}, "FULL"},
		{"DELETE /config", "", `"NONE"`, func(ctx context.Context, c *RegistryClient) (any, error) { return c.DeleteCompatibility(ctx) }, "NONE"},
		{"DELETE /config", "", `{"compatibility":"NONE"}`, func(ctx context.Context, c *RegistryClient) (any, error) { return c.DeleteCompatibility(ctx) }, "NONE"},
		{"GET /mode", "", object, func(ctx context.Context, c *RegistryClient) (any, error) { return c.Mode(ctx) }, "READONLY"},
		{"GET /mode/a", "", object, func(ctx context.Context, c *RegistryClient) (any, error) { return c.SubjectMode(ctx, "a") }, "READONLY"},
		{"GET /mode/a?defaultToGlobal=true", "", object, func(ctx context.Context, c *RegistryClient) (any, error) { return c.EffectiveMode(ctx, "a") }, "READONLY"},
		{"PUT /mode", `{"mode":"READONLY"}`, object, func(ctx context.Context, c *RegistryClient) (any, error) { return c.SetMode(ctx, "READONLY") }, "READONLY"},
		{"PUT /mode/a", `{"mode":"READONLY"}`, object, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.SetSubjectMode(ctx, "a", "READONLY")
		}, "READONLY"},
		{"DELETE /mode/a", "", object, func(ctx context.Context, c *RegistryClient) (any, error) { return c.DeleteSubjectMode(ctx, "a") }, "READONLY"},
		{"POST /compatibility/subjects/a/versions?verbose=true", `{"schema":"\"int\""}`, `{"is_compatible":false,"messages":["why"]}`, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.CheckCompatibility(ctx, "a", schema)
		}, CompatibilityResult{Incompatibilities: []string{"why"}}},
		{"POST /compatibility/subjects/a/versions/latest?verbose=true", `{"schema":"\"int\""}`, `{"messages":[],"is_compatible":true}`, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.CheckVersionCompatibility(ctx, "a", 0, schema)
		}, CompatibilityResult{Compatible: true}},
		{"POST /compatibility/subjects/a/versions/3?normalize=true&verbose=true", `{"schema":"\"int\""}`, `{"is_compatible":false}`, func(ctx context.Context, c *RegistryClient) (any, error) {
			return c.CheckVersionCompatibility(ctx, "a", 3, schema, WithNormalize())
		}, CompatibilityResult{}},
	}
	for _, tt := range tests {
		t.Run(tt.request, func(t *testing.T) {
			client, double := answering(t, http.StatusOK, tt.answer)
			got, err := tt.call(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("result mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{tt.request}, double.recorded()); diff != "" {
				t.Errorf("request mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.body, double.request(0).Body); diff != "" {
				t.Errorf("body mismatch (-want +got):\n%s", diff)
			}

			refused, _ := answering(t, http.StatusNotFound, `{"error_code":40401,"message":"no"}`)
			if _, err := tt.call(t.Context(), refused); !errors.Is(err, ErrSubjectNotFound) {
				t.Errorf("a refusal became %v", err)
			}
			garbage, _ := answering(t, http.StatusOK, `<html>`)
			_, err = tt.call(t.Context(), garbage)
			if registry, ok := errors.AsType[*RegistryError](err); !ok || registry.StatusCode != -1 || !registry.Retriable() {
				t.Errorf("garbage became %#v", err)
			}
		})
	}
}

func TestLatestReadsEveryMember(t *testing.T) {
	client, _ := answering(t, http.StatusOK,
		`{"id":43,"version":2,"schema":"syntax = \"proto3\";","schemaType":"PROTOBUF","messageType":"demo.Order","unknown":{}}`)
	got, err := client.Latest(t.Context(), "orders-value")
	if err != nil {
		t.Fatal(err)
	}
	want := RegisteredSchema{ID: 43, Version: 2, Schema: `syntax = "proto3";`, SchemaType: "PROTOBUF", MessageType: "demo.Order"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
	if got.References != nil {
		t.Errorf("absent references are %#v, want nil", got.References)
	}
}

func TestUnusableAnswers(t *testing.T) {
	latest := func(c *RegistryClient) error { _, err := c.Latest(t.Context(), "s"); return err }
	byID := func(c *RegistryClient) error { _, err := c.SchemaByID(t.Context(), 1); return err }
	subjects := func(c *RegistryClient) error { _, err := c.Subjects(t.Context()); return err }
	tests := []struct {
		name, answer, want string
		call               func(*RegistryClient) error
	}{
		{"empty body", ``, "cannot parse schema registry response", latest},
		{"not an object", `[]`, "cannot parse schema registry response", latest},
		{"no id", `{}`, "schema registry response has no integer id", latest},
		{"text id", `{"id":"1"}`, "schema registry response has no integer id", latest},
		{"fractional id", `{"id":1.5}`, "schema registry response has no integer id", latest},
		{"null id", `{"id":null}`, "schema registry response has no integer id", latest},
		{"negative id", `{"id":-1}`, "schema registry response has no integer id", latest},
		{"id beyond a frame", `{"id":4294967296}`, "schema registry response has no integer id", latest},
		{"text version", `{"id":1,"version":"x"}`, "schema registry response has no integer version", latest},
		{"numeric schema", `{"id":1,"schema":5}`, "schema registry response has no text schema", latest},
		{"references of another type", `{"id":1,"references":"x"}`, "schema registry response has no array references", latest},
		{"reference without a name", `{"id":1,"references":[{"subject":"s","version":1}]}`, "schema registry response has no text name", latest},
		{"reference with an empty subject", `{"id":1,"references":[{"name":"n","subject":"","version":1}]}`, "schema registry response has no text subject", latest},
		{"reference without a version", `{"id":1,"references":[{"name":"n","subject":"s"}]}`, "schema registry response has no integer version", latest},
		{"no schema", `{"messageType":"x"}`, "schema registry response has no text schema", byID},
		{"empty schema", `{"schema":""}`, "schema registry response has no text schema", byID},
		{"not an array", `{"a":1}`, "schema registry response is not an array", subjects},
		{"array of another type", `[1]`, "cannot parse schema registry response", subjects},
		{"array with a null", `["a",null]`, "cannot parse schema registry response: element 1 is null", subjects},
		{"null", `null`, "schema registry response is not an array", subjects},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, double := answering(t, http.StatusOK, tt.answer)
			err := tt.call(client)
			registry, ok := errors.AsType[*RegistryError](err)
			if !ok || registry.StatusCode != -1 || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error is %#v, want %q and status -1", err, tt.want)
			}
			if n := len(double.recorded()); n != 1 {
				t.Errorf("an unusable answer was asked for %d times, want once", n)
			}
		})
	}
}

func TestStatusErrors(t *testing.T) {
	client, double := answering(t, http.StatusNotFound, `missing schema`)
	_, err := client.SchemaByID(t.Context(), 7)
	want := RegistryError{StatusCode: 404, Method: "GET", URL: double.url + "/schemas/ids/7", text: "schema registry returned HTTP 404: missing schema"}
	var registry *RegistryError
	if !errors.As(err, &registry) {
		t.Fatalf("error is %T", err)
	}
	if diff := cmp.Diff(want, *registry, cmp.AllowUnexported(RegistryError{})); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
	if registry.Error() != "schema registry returned HTTP 404: missing schema" || registry.Unwrap() != nil {
		t.Errorf("text is %q, cause %v", registry, registry.Unwrap())
	}

	client, _ = answering(t, http.StatusBadRequest, strings.Repeat("x", 100_000))
	if _, err = client.SchemaByID(t.Context(), 7); len(err.Error()) > 5000 || !strings.HasSuffix(err.Error(), "xxx...") {
		t.Errorf("a long body became an error of %d bytes", len(err.Error()))
	}
	if built := (&RegistryError{StatusCode: 409, Message: "no"}).Error(); built != "schema registry returned HTTP 409: no" {
		t.Errorf("an error made outside the package reads %q", built)
	}
}

func TestErrorBodiesOfOtherShapes(t *testing.T) {
	for body, want := range map[string]RegistryError{
		`{"error_code":40403,"message":{"reason":"x"}}`: {ErrorCode: 40403},
		`{"error_code":"E1","message":"gone"}`:          {Message: "gone"},
		`{"message":null,"error_code":40403}`:           {ErrorCode: 40403},
		`[{"error_code":40403}]`:                        {},
	} {
		client, double := answering(t, http.StatusNotFound, body)
		_, err := client.SchemaByID(t.Context(), 7)
		want.StatusCode, want.Method, want.URL = 404, "GET", double.url+"/schemas/ids/7"
		want.text = "schema registry returned HTTP 404: " + body
		registry, _ := errors.AsType[*RegistryError](err)
		if diff := cmp.Diff(&want, registry, cmp.AllowUnexported(RegistryError{})); diff != "" {
			t.Errorf("%s: mismatch (-want +got):\n%s", body, diff)
		}
	}
}

// endless is the body of an answer that becomes another protocol.
type endless struct{ t *testing.T }

func (e endless) Read([]byte) (int, error) {
	e.t.Error("the body is read")
	return 0, io.EOF
}

func (endless) Close() error { return nil }

func TestASwitchOfProtocolsIsNotWaitedFor(t *testing.T) {
	client, err := NewRegistryClient("http://h", WithHTTPClient(&http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: endless{t}}, nil
	})}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Subjects(t.Context())
	if registry, ok := errors.AsType[*RegistryError](err); !ok || registry.StatusCode != 101 || registry.Retriable() {
		t.Errorf("error is %v", err)
	}
}

func TestErrorCodesMatchSentinels(t *testing.T) {
	all := []error{
		ErrNotFound, ErrSubjectNotFound, ErrVersionNotFound, ErrSchemaNotFound, ErrNotConfigured,
		ErrIncompatible, ErrInvalidSchema,
		ErrReferenceExists, ErrUnauthorized,
	}
	tests := []struct {
		status, code int
		want         []error
		retriable    bool
	}{
		{404, 40401, []error{ErrNotFound, ErrSubjectNotFound}, false},
		{404, 40402, []error{ErrNotFound, ErrVersionNotFound}, false},
		{404, 40403, []error{ErrNotFound, ErrSchemaNotFound}, false},
		{404, 40404, []error{ErrNotFound}, false},
		{404, 40405, []error{ErrNotFound}, false},
		{404, 40406, []error{ErrNotFound}, false},
		{404, 40407, []error{ErrNotFound}, false},
		{404, 40408, []error{ErrNotFound, ErrNotConfigured}, false},
		{404, 40409, []error{ErrNotFound, ErrNotConfigured}, false},
		{404, 0, []error{ErrNotFound}, false},
		{409, 409, []error{ErrIncompatible}, false},
		{409, 40901, []error{ErrIncompatible}, false},
		{422, 42201, []error{ErrInvalidSchema}, false},
		{422, 42202, nil, false},
		{422, 42203, nil, false},
		{422, 42204, nil, false},
		{422, 42205, nil, false},
		{422, 42206, []error{ErrReferenceExists}, false},
		{401, 40101, []error{ErrUnauthorized}, false},
		{403, 40301, []error{ErrUnauthorized}, false},
		{408, 0, nil, true},
		{429, 42901, nil, true},
		{500, 50001, nil, true},
		{501, 0, nil, false},
		{503, 50004, nil, true},
		{505, 0, nil, false},
	}
	for _, tt := range tests {
		client, _ := answering(t, tt.status, fmt.Sprintf(`{"message":"why","error_code":%d}`, tt.code), WithMaxRetries(0))
		_, err := client.Latest(t.Context(), "s")
		registry, ok := errors.AsType[*RegistryError](err)
		if !ok || registry.StatusCode != tt.status || registry.ErrorCode != tt.code || registry.Message != "why" {
			t.Fatalf("error is %#v", err)
		}
		var matched []error
		for _, sentinel := range all {
			if errors.Is(err, sentinel) {
				matched = append(matched, sentinel)
			}
		}
		if !cmp.Equal(tt.want, matched, cmpopts.EquateErrors()) || registry.Retriable() != tt.retriable {
			t.Errorf("%d/%d matches %v and is retriable %v", tt.status, tt.code, matched, registry.Retriable())
		}
	}
}

func TestRetriesFollowTheStatus(t *testing.T) {
	for _, tt := range []struct{ status, retries, want int }{
		{500, 2, 3}, {503, 0, 1}, {429, 1, 2}, {408, 2, 3}, {501, 2, 1}, {505, 2, 1}, {404, 2, 1}, {409, 2, 1}, {401, 2, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, double := answering(t, tt.status, `no`, WithMaxRetries(tt.retries))
			if _, err := client.Subjects(t.Context()); err == nil {
				t.Fatal("no error")
			}
			if got := len(double.recorded()); got != tt.want {
				t.Errorf("status %d with %d retries: %d requests, want %d", tt.status, tt.retries, got, tt.want)
			}
		})
	}
}

func TestDefaultRetriesAreThreeQuickAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, double := answering(t, http.StatusInternalServerError, `down`)
		start := time.Now()
		_, err := client.Subjects(t.Context())
		if registry, ok := errors.AsType[*RegistryError](err); !ok || registry.StatusCode != 500 {
			t.Fatalf("error is %v", err)
		}
		if n := len(double.recorded()); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("three attempts took %v", took)
		}
	})
}

func TestPausesGrowAndFollowRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Time
		double := newInProcessRegistry(t)
		retryAfter := ""
		double.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			times = append(times, time.Now())
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		client := double.client(WithMaxRetries(4), WithRetryBackoff(time.Second, 3*time.Second))
		_, _ = client.Subjects(t.Context())
		for i, limit := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
			if pause := times[i+1].Sub(times[i]); pause < limit/2 || pause > limit {
				t.Errorf("pause %d is %v, want %v to %v", i, pause, limit/2, limit)
			}
		}

		times, retryAfter = nil, "20"
		_, _ = client.Subjects(t.Context())
		if pause := times[1].Sub(times[0]); pause != 20*time.Second {
			t.Errorf("with Retry-After: 20 the pause is %v", pause)
		}

		times, retryAfter = nil, time.Now().Add(12*time.Second).UTC().Format(http.TimeFormat)
		_, _ = client.Subjects(t.Context())
		if pause := times[1].Sub(times[0]); pause < 11*time.Second || pause > 12*time.Second {
			t.Errorf("with a date 12 seconds ahead the pause is %v", pause)
		}

		times, retryAfter = nil, "3600"
		_, err := client.Subjects(t.Context())
		registry, ok := errors.AsType[*RegistryError](err)
		if !ok || len(times) != 1 || registry.RetryAfter != time.Hour {
			t.Errorf("an hour of Retry-After: %d attempts, error %#v", len(times), err)
		}
	})
	for value, want := range map[string]time.Duration{"": 0, "soon": 0, "-5": 0, "7": 7 * time.Second, "99999999999999999999": 1 << 30 * time.Second, "-99999999999999999999": 0} {
		if got := retryAfter(value); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", value, got, want)
		}
	}
}

func TestCancelDuringAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := answering(t, http.StatusInternalServerError, `down`, WithRetryBackoff(time.Minute, time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Subjects(ctx)
		registry, ok := errors.AsType[*RegistryError](err)
		if !ok || registry.StatusCode != 500 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v, want the last answer and the end of the context", err)
		}
	})
	client, double := answering(t, http.StatusOK, `[]`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.Subjects(ctx)
	if registry, ok := errors.AsType[*RegistryError](err); !ok || registry.StatusCode != -1 || !errors.Is(err, context.Canceled) ||
		!strings.HasPrefix(err.Error(), "schema registry request failed: ") {
		t.Errorf("error is %#v", err)
	}
	if n := len(double.recorded()); n > 1 {
		t.Errorf("a canceled call made %d requests", n)
	}
}

func TestAnUnansweredAttemptTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		double.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		})
		start := time.Now()
		_, err := double.client(WithRequestTimeout(2*time.Second), WithMaxRetries(1)).Subjects(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 2s") {
			t.Errorf("error is %v", err)
		}
		if registry, ok := errors.AsType[*RegistryError](err); !ok || !registry.Retriable() {
			t.Errorf("a time-out is not retriable: %#v", err)
		}
		if took := time.Since(start); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("two attempts of 2s took %v", took)
		}
		start = time.Now()
		if _, err := double.client().Subjects(t.Context()); err == nil {
			t.Error("no error")
		}
		if took := time.Since(start); took > 16*time.Second {
			t.Errorf("without options an unanswered call took %v", took)
		}
	})
}

func TestLostConnectionsAreRetried(t *testing.T) {
	double := newRegistryDouble(t)
	double.register("orders", NewSchema{Schema: `"int"`})
	var lost atomic.Int32
	double.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if lost.Add(1) > 2 {
			return false
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
		return true
	})
	// A transport that keeps connections would itself retry the first one.
	client, err := NewRegistryClient(double.url, WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
	if err != nil {
		t.Fatal(err)
	}
	subjects, err := client.Subjects(t.Context())
	if err != nil || !cmp.Equal(subjects, []string{"orders"}) {
		t.Errorf("got %v, %v", subjects, err)
	}
	if lost.Load() != 3 {
		t.Errorf("%d attempts, want 3", lost.Load())
	}
}

func TestFailoverToAnAddressThatAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // accepts in the backlog and never answers
	good := newRegistryDouble(t)
	good.register("orders", NewSchema{Schema: `"int"`})
	var attempts []string
	client, err := NewRegistryClient("http://127.0.0.1:1, http://"+listener.Addr().String()+"/,"+good.url,
		WithRequestTimeout(3*time.Second), WithMaxRetries(0), WithRegistryHooks(RegistryHooks{
			Attempt: func(a RegistryAttempt) { attempts = append(attempts, fmt.Sprint(a.Status)) },
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	for range 2 {
		subjects, err := client.Subjects(t.Context())
		if err != nil || !cmp.Equal(subjects, []string{"orders"}) {
			t.Fatalf("got %v, %v", subjects, err)
		}
	}
	if diff := cmp.Diff([]string{"-1", "-1", "200", "200"}, attempts); diff != "" {
		t.Errorf("attempts mismatch (-want +got):\n%s", diff)
	}
}

func TestShuffledURLsStartAnywhere(t *testing.T) {
	const list = "http://a,http://b,http://c,http://d"
	first := map[string]bool{}
	for range 200 {
		client, err := NewRegistryClient(list, WithShuffledURLs())
		if err != nil {
			t.Fatal(err)
		}
		first[client.bases[0].Host] = true
	}
	if len(first) < 3 {
		t.Errorf("200 clients of 4 addresses begin only at %v", first)
	}
	client, err := NewRegistryClient(list)
	if err != nil || client.bases[0].Host != "a" {
		t.Errorf("without the option the order changed: %v, %v", client.bases, err)
	}
}

func TestBaseURLKeepsAContextPath(t *testing.T) {
	double := newInProcessRegistry(t)
	double.failing(http.StatusOK, `[]`)
	double.url += "/registry%2Fx//"
	client := double.client()
	if _, err := client.Versions(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := double.recorded()[0]; got != "GET /registry%2Fx/subjects/a/versions" {
		t.Errorf("request is %s", got)
	}
}

func TestBaseURLsOfIPv6Addresses(t *testing.T) {
	for base, want := range map[string]string{
		"http://[::1]:8081/x/":           "http://[::1]:8081/x/subjects",
		"http://u:p@[fe80::1%25eth0]:80": "http://[fe80::1%25eth0]:80/subjects",
	} {
		var requested string
		client, err := NewRegistryClient(base, WithHTTPClient(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			requested = r.URL.String()
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`["s"]`))}, nil
		})}))
		if err != nil {
			t.Fatal(err)
		}
		if subjects, err := client.Subjects(t.Context()); err != nil || len(subjects) != 1 || requested != want {
			t.Errorf("%s: %v, %v, requested %s, want %s", base, subjects, err, requested, want)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestBaseURLAndOptionErrorsAreJoined(t *testing.T) {
	tests := []struct {
		base    string
		options []RegistryClientOption
		want    string
	}{
		{"localhost", nil, `registry base URL "localhost" has no scheme or host`},
		{"", nil, `registry base URL "" has no scheme or host`},
		{"http://", nil, `registry base URL "http://" has no scheme or host`},
		{"ftp://host", nil, `registry base URL "ftp://host" is neither http nor https`},
		{"http://host?x=1", nil, `registry base URL "http://host?x=1" has a query or a fragment`},
		{"http://host#x", nil, `registry base URL "http://host#x" has a query or a fragment`},
		{"http://user:secret@host?x", nil, `registry base URL "http://user:xxxxx@host?x" has a query or a fragment`},
		{"http://user:secret@ho st", nil, `invalid registry base URL "http://ho st": invalid character " " in host name`},
		{"http://h", []RegistryClientOption{WithMaxRetries(-1)}, `maxRetries must not be negative`},
		{"http://h", []RegistryClientOption{WithHTTPClient(nil)}, `HTTP client must not be nil`},
		{"http://h", []RegistryClientOption{WithTLSConfig(nil)}, `TLS configuration must not be nil`},
		{"http://h", []RegistryClientOption{WithProxy(nil)}, `proxy must not be nil`},
		{"http://h", []RegistryClientOption{WithTokenSource(nil)}, `token source must not be nil`},
		{"http://h", []RegistryClientOption{WithRequestHook(nil)}, `request hook must not be nil`},
		{"http://h", []RegistryClientOption{WithLogger(nil)}, `logger must not be nil`},
		{"http://h", []RegistryClientOption{WithRequestTimeout(0)}, `request timeout 0s is not positive`},
		{"http://h", []RegistryClientOption{WithMaxAnswerBytes(0)}, `answer limit 0 is not positive`},
		{"http://h", []RegistryClientOption{WithRetryBackoff(2, 1)}, `retry backoff 2ns to 1ns is not a positive range`},
		{"http://h", []RegistryClientOption{WithBasicAuth("a", "b"), WithBearerToken("t")}, `more than one credential option: [WithBasicAuth WithBearerToken]`},
		{"http://h", []RegistryClientOption{WithHTTPClient(&http.Client{}), WithTLSConfig(&tls.Config{})}, `WithHTTPClient excludes WithTLSConfig and WithProxy: set them on its transport`},
		{"nope, http://h ,ftp://x", []RegistryClientOption{WithMaxRetries(-1)}, "maxRetries must not be negative\n" +
			"registry base URL \"nope\" has no scheme or host\nregistry base URL \"ftp://x\" is neither http nor https"},
	}
	for _, tt := range tests {
		client, err := NewRegistryClient(tt.base, tt.options...)
		if err == nil || err.Error() != tt.want || client != nil {
			t.Errorf("NewRegistryClient(%q): error is %v, want %s", tt.base, err, tt.want)
		}
		if len(tt.options) > 0 && !errors.Is(err, ErrInvalidOption) {
			t.Errorf("error %v does not match ErrInvalidOption", err)
		}
	}
}

func TestCredentials(t *testing.T) {
	issued := 0
	tests := []struct {
		name, user string
		option     RegistryClientOption
		want       []string
	}{
		{"none", "", WithMaxRetries(1), []string{"", ""}},
		{"basic", "", WithBasicAuth("alice", "pw"), []string{"Basic YWxpY2U6cHc=", "Basic YWxpY2U6cHc="}},
		{"in the address", "alice:pw@", WithMaxRetries(1), []string{"Basic YWxpY2U6cHc=", "Basic YWxpY2U6cHc="}},
		{"option over address", "bob:x@", WithBearerToken("t"), []string{"Bearer t", "Bearer t"}},
		{"token source", "", WithTokenSource(func(context.Context) (string, error) {
			issued++
			return fmt.Sprint("t", issued), nil
		}), []string{"Bearer t1", "Bearer t2"}},
		{"hook", "", WithRequestHook(func(r *http.Request) error {
			r.Header.Set("Authorization", "AWS4 "+r.Method+" "+r.URL.Path)
			return nil
		}), []string{"AWS4 GET /subjects", "AWS4 GET /subjects"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			double := newInProcessRegistry(t)
			double.failing(http.StatusInternalServerError, "")
			double.url = "http://" + tt.user + "registry.test"
			_, err := double.client(tt.option, WithMaxRetries(1), WithHeader("X-Tenant", "blue")).Subjects(t.Context())
			var got []string
			for i := range tt.want {
				got = append(got, double.request(i).Header.Get("Authorization"))
				if tenant := double.request(i).Header.Get("X-Tenant"); tenant != "blue" {
					t.Errorf("X-Tenant is %q", tenant)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Authorization mismatch (-want +got):\n%s", diff)
			}
			if strings.Contains(err.Error(), "pw") {
				t.Errorf("the error shows a password: %v", err)
			}
			if registry, _ := errors.AsType[*RegistryError](err); registry.URL != "http://registry.test/subjects" {
				t.Errorf("URL of the error is %s", registry.URL)
			}
		})
	}
	broken := errors.New("no token")
	client, double := answering(t, http.StatusOK, `[]`, WithTokenSource(func(context.Context) (string, error) { return "", broken }))
	if _, err := client.Subjects(t.Context()); !errors.Is(err, broken) || len(double.recorded()) != 0 {
		t.Errorf("error of the token source is %v after %d requests", err, len(double.recorded()))
	}
}

func TestTLSConfigAndProxy(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `["tls"]`) }))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	client, err := NewRegistryClient(server.URL, WithTLSConfig(&tls.Config{RootCAs: roots}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	if subjects, err := client.Subjects(t.Context()); err != nil || !cmp.Equal(subjects, []string{"tls"}) {
		t.Errorf("got %v, %v", subjects, err)
	}
	untrusting, err := NewRegistryClient(server.URL, WithMaxRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(untrusting.CloseIdleConnections)
	if _, err := untrusting.Subjects(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error without the server's root is %v", err)
	}

	var proxied atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxied.Store(r.URL.String())
		_, _ = io.WriteString(w, `[]`)
	}))
	t.Cleanup(proxy.Close)
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	client, err = NewRegistryClient("http://registry.invalid", WithProxy(address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	if _, err := client.Subjects(t.Context()); err != nil || proxied.Load() != "http://registry.invalid/subjects" {
		t.Errorf("the proxy got %v, error %v", proxied.Load(), err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	client, double := answering(t, http.StatusOK, `["`+strings.Repeat("x", 100)+`"]`, WithMaxAnswerBytes(100))
	_, err := client.Subjects(t.Context())
	registry, ok := errors.AsType[*RegistryError](err)
	if !ok || err.Error() != "schema registry response is larger than 100 bytes" || registry.Retriable() {
		t.Errorf("error is %#v", err)
	}
	if n := len(double.recorded()); n != 1 {
		t.Errorf("a large answer was asked for %d times", n)
	}
	client, _ = answering(t, http.StatusOK, `["`+strings.Repeat("x", 96)+`"]`, WithMaxAnswerBytes(100))
	if _, err := client.Subjects(t.Context()); err != nil {
		t.Errorf("an answer of exactly the limit: %v", err)
	}
}

func TestRedirectsKeepTheMethod(t *testing.T) {
	double := newRegistryDouble(t)
	for _, tt := range []struct {
		status int
		method string
	}{{http.StatusMovedPermanently, ""}, {http.StatusFound, ""}, {http.StatusSeeOther, ""}, {http.StatusTemporaryRedirect, "POST"}, {http.StatusPermanentRedirect, "POST"}} {
		double.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/moved") {
				_ = json.NewEncoder(w).Encode(map[string]int{"id": 5})
				return true
			}
			http.Redirect(w, r, "/moved"+r.URL.Path, tt.status)
			return true
		})
		id, err := double.client().Register(t.Context(), "s", KindAvro, `"int"`, "")
		if tt.method != "" {
			if err != nil || id != 5 {
				t.Errorf("status %d: %d, %v", tt.status, id, err)
			}
			continue
		}
		registry, ok := errors.AsType[*RegistryError](err)
		if !ok || registry.StatusCode != tt.status || !strings.Contains(err.Error(), "redirect to /moved/subjects/s/versions would change the method") {
			t.Errorf("status %d: error is %v", tt.status, err)
		}
	}
	double.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "/x"+r.URL.Path, http.StatusFound)
		return true
	})
	if _, err := double.client(WithMaxRetries(0)).Subjects(t.Context()); err == nil || !strings.Contains(err.Error(), "stopped after 10 redirects") {
		t.Errorf("error of a redirect loop is %v", err)
	}
	own := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("never") }}
	client, err := NewRegistryClient(double.url, WithHTTPClient(own), WithMaxRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Subjects(t.Context()); err == nil || !strings.Contains(err.Error(), "never") {
		t.Errorf("the caller's redirect policy was replaced: %v", err)
	}
	own.CloseIdleConnections()
}

func TestAttemptsAreObserved(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var attempts []RegistryAttempt
	client, double := answering(t, http.StatusServiceUnavailable, `{"error_code":50002,"message":"busy"}`, WithLogger(logger), WithMaxRetries(1),
		WithRegistryHooks(RegistryHooks{Attempt: func(a RegistryAttempt) { attempts = append(attempts, a) }}))
	_, err := client.Subjects(t.Context())
	double.recover()
	if _, err := client.Subjects(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []RegistryAttempt{
		{Method: "GET", URL: double.url + "/subjects", Round: 0, Status: 503, ErrorCode: 50002, Err: ErrNotFound},
		{Method: "GET", URL: double.url + "/subjects", Round: 1, Status: 503, ErrorCode: 50002, Err: err},
		{Method: "GET", URL: double.url + "/subjects", Round: 0, Status: 200},
	}
	if diff := cmp.Diff(want, attempts, cmpopts.IgnoreFields(RegistryAttempt{}, "Duration", "Err")); diff != "" {
		t.Errorf("attempts mismatch (-want +got):\n%s", diff)
	}
	if !errors.Is(attempts[1].Err, err) || attempts[2].Err != nil {
		t.Errorf("errors of the attempts are %v", attempts)
	}
	for _, part := range []string{"level=WARN", "level=DEBUG", "method=GET", "status=503", "error_code=50002", "status=200"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %s:\n%s", part, &log)
		}
	}
}

// A hook may keep the error of an attempt: the end of the call does not change it.
func TestErrorsOfAttemptsStayAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept error
		var text string
		client, _ := answering(t, http.StatusServiceUnavailable, `{"error_code":50002,"message":"busy"}`, WithRetryBackoff(time.Hour, time.Hour),
			WithRegistryHooks(RegistryHooks{Attempt: func(a RegistryAttempt) { kept, text = a.Err, a.Err.Error() }}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Subjects(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(kept, context.DeadlineExceeded) || kept.Error() != text {
			t.Errorf("the call ended with %v, and the attempt with %v, want %s", err, kept, text)
		}
	})
}

func TestClientIsSafeForConcurrentUse(t *testing.T) {
	double := newRegistryDouble(t)
	client := double.client(WithBasicAuth("a", "b"), WithHeader("X-A", "1"))
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			subject := fmt.Sprint("s", i%8)
			if _, err := client.Register(t.Context(), subject, KindJSON, `{}`, ""); err != nil {
				t.Error(err)
			}
			if _, err := client.Latest(t.Context(), subject); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	subjects, err := client.Subjects(t.Context())
	if err != nil || len(subjects) != 8 {
		t.Errorf("got %v, %v", subjects, err)
	}
}

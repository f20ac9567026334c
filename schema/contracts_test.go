// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ruleSet(rule string) string {
	return `{"domainRules":[` + rule + `]}`
}

const encryptRule = `{"name":"hide","kind":"TRANSFORM","mode":"WRITEREAD","type":"ENCRYPT","tags":["PII"]}`

// A value that a rule has encrypted is not handed out as if it were the value.
func TestRulesThatHaveToRunAreErrors(t *testing.T) {
	for i, tc := range []struct {
		rules, read, write string // the mode of the error
	}{
		{ruleSet(encryptRule), "WRITEREAD", "WRITEREAD"},
		{ruleSet(`{"name":"hide","mode":"READ","type":"CEL"}`), "READ", ""},
		{ruleSet(`{"name":"hide","mode":"WRITE","type":"CEL"}`), "", "WRITE"},
		{`{"encodingRules":[` + encryptRule + `]}`, "WRITEREAD", "WRITEREAD"},
		{ruleSet(`{"name":"hide","mode":"WRITEREAD","type":"CEL","onFailure":"ERROR,NONE"}`), "", "WRITEREAD"},
		{ruleSet(`{"name":"hide","mode":"WRITEREAD","type":"CEL","onFailure":"NONE"}`), "", ""},
		{ruleSet(`{"name":"hide","mode":"WRITEREAD","type":"ENCRYPT","disabled":true}`), "", ""},
		{`{"migrationRules":[{"name":"up","mode":"UPGRADE","type":"JSONATA"}]}`, "", ""},
		{`null`, "", ""},
	} {
		registry := &pathRegistry{answers: map[string]string{
			"GET /schemas/ids/7":                         `{"schema":"\"string\"","ruleSet":` + tc.rules + `}`,
			"GET /subjects/orders-value/versions/latest": `{"id":8,"version":1,"schema":"\"string\"","ruleSet":` + tc.rules + `}`,
		}}
		cache := newPathCache(t, registry, WithRegisterMode(UseLatest))
		s, err := NewGenericAvroSerde(`"string"`, cache, RoleValue)
		if err != nil {
			t.Fatal(err)
		}
		s.RegisterSubject("orders")
		if err := cache.Prewarm(t.Context()); err != nil {
			t.Fatal(err)
		}
		modeOf := func(err error) string {
			rule, ok := errors.AsType[*SchemaRuleError](err)
			if err != nil && (!ok || rule.Rule != "hide") {
				t.Errorf("%d: error is %v", i, err)
				return ""
			}
			if !ok {
				return ""
			}
			return rule.Mode
		}
		value, readErr := s.DeserializeContext(t.Context(), "orders", Encode(7, []byte("\x02x")))
		_, writeErr := s.Serialize("orders", "x")
		if read, write := modeOf(readErr), modeOf(writeErr); read != tc.read || write != tc.write || (read == "" && value != "x") {
			t.Errorf("%s: reading %q is %q, writing %q, want %q and %q", tc.rules, value, read, write, tc.read, tc.write)
		}
		own, err := NewGenericAvroSerde(`"string"`, cache, RoleValue, WithoutRules())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := own.Deserialize("orders", Encode(7, []byte("\x02x"))); got != "x" || err != nil {
			t.Errorf("%s: WithoutRules reads %q, %v", tc.rules, got, err)
		}
	}
	cache := newPathCache(t, &pathRegistry{answers: map[string]string{"GET /schemas/ids/7": `{"schema":"\"string\"","ruleSet":[]}`}})
	s, err := NewGenericAvroSerde(`"string"`, cache, RoleValue)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.DeserializeContext(t.Context(), "orders", Encode(7, []byte("\x02x")))
	if err == nil || !strings.Contains(err.Error(), "invalid rule set of the schema: ") || !strings.HasSuffix(err.Error(), "(AVRO schema 7, subject orders-value)") {
		t.Errorf("a rule set that is none: %v", err)
	}
}

// A fetched schema keeps the data contract.
func TestFetchedSchemasKeepTheirContract(t *testing.T) {
	cache := newPathCache(t, &pathRegistry{answers: map[string]string{
		"GET /schemas/ids/7": `{"schema":"\"string\"","metadata":{"properties":{"owner":"a"}},"ruleSet":` + ruleSet(encryptRule) + `}`,
	}})
	got, err := cache.client.ResolvedSchemaByID(t.Context(), 7)
	if err != nil || string(got.Metadata) != `{"properties":{"owner":"a"}}` || string(got.RuleSet) != ruleSet(encryptRule) {
		t.Errorf("metadata %s, rule set %s, %v", got.Metadata, got.RuleSet, err)
	}
}

func TestSerdesWriteUnderAGivenSchema(t *testing.T) {
	const wide = `{"type":"record","name":"R","fields":[{"name":"a","type":"long"},{"name":"b","type":"int","default":9}]}`
	const local = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`
	registry := &pathRegistry{answers: map[string]string{
		"GET /schemas/ids/21":                                               answerOf(wide),
		"GET /schemas/ids/21?subject=%3A.ctx%3Aorders-value":                answerOf(wide),
		"GET /schemas/ids/22":                                               answerOf(`"string"`),
		"GET /subjects/orders-value/metadata?key=env&value=prod":            `{"id":23,"version":4,"schema":` + jsonText(wide) + `}`,
		"GET /subjects/orders-value/metadata?key=a&key=env&value=b&value=x": `{"id":24,"version":5,"schema":` + jsonText(local) + `}`,
	}}
	cache := newPathCache(t, registry)
	for _, tc := range []struct {
		option  SerdeOption
		context string
		want    string // payload, or the failure
	}{
		{WithSchemaID(21), "", "00000000150212"},
		{WithSchemaID(21), ".ctx", "00000000150212"},
		{WithSchemaID(22), "", "orders-value: schema 22 cannot read what the local schema describes: BACKWARD: reader string cannot read writer record R"},
		{WithLatestMetadata(map[string]string{"env": "prod"}), "", "00000000170212"},
		{WithLatestMetadata(map[string]string{"env": "x", "a": "b"}), "", "000000001802"},
		{WithLatestMetadata(map[string]string{"env": "test"}), "", `orders-value: schema registry returned HTTP 404: {"error_code":40403,"message":"GET /subjects/orders-value/metadata?key=env&value=test"}`},
	} {
		own := NewSchemaCache(cache.client)
		t.Cleanup(func() { _ = own.Close() })
		options := []SerdeOption{tc.option}
		if tc.context != "" {
			options = append(options, WithStrategy(inContext(tc.context)))
		}
		s, err := NewGenericAvroSerde(local, own, RoleValue, options...)
		if err != nil {
			t.Fatal(err)
		}
		s.RegisterSubject("orders")
		got := ""
		if err := own.Prewarm(t.Context()); err != nil {
			got = err.Error()
		} else if data, err := s.Serialize("orders", map[string]any{"a": 1}); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprintf("%x", data)
		}
		if got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
	for _, options := range [][]SerdeOption{{WithSchemaID(0)}, {WithSchemaID(-1)}, {WithLatestMetadata(nil)}, {WithSchemaID(1), WithLatestMetadata(map[string]string{"a": "b"})}} {
		if _, err := NewGenericAvroSerde(local, cache, RoleValue, options...); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("error is %v, want %v", err, ErrInvalidOption)
		}
	}
}

func TestConfigurationCalls(t *testing.T) {
	var body string
	registry := &pathRegistry{answers: map[string]string{
		"GET /config":                                 `{"compatibilityLevel":"FULL","normalize":true}`,
		"GET /config/s":                               `{"compatibilityLevel":"NONE","compatibilityGroup":"major","alias":"t","defaultMetadata":{"properties":{"a":"b"}},"overrideMetadata":null,"defaultRuleSet":{"domainRules":[]},"overrideRuleSet":{"migrationRules":[]}}`,
		"GET /config/s?defaultToGlobal=true":          `{"compatibilityLevel":"FULL"}`,
		"GET /subjects/s/metadata?key=env&value=prod": `{"id":3,"subject":"s","version":2,"schema":"\"int\"","metadata":{"properties":{"env":"prod"}}}`,
	}}
	client, err := NewRegistryClient("http://registry.test", WithHTTPClient(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPut {
			data := make([]byte, 4096)
			n, _ := r.Body.Read(data)
			body = r.URL.Path + " " + string(data[:n])
			registry.answers["PUT "+r.URL.Path] = string(data[:n])
			r.Body = http.NoBody
		}
		return handlerTransport{registry}.RoundTrip(r)
	})}), WithMaxRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	ctx, yes, no := t.Context(), true, false
	full := Config{
		Compatibility: "NONE", CompatibilityGroup: "major", Alias: "t",
		DefaultMetadata: []byte(`{"properties":{"a":"b"}}`), DefaultRuleSet: []byte(`{"domainRules":[]}`), OverrideRuleSet: []byte(`{"migrationRules":[]}`),
	}
	for name, tc := range map[string]struct {
		call func() (Config, error)
		want Config
		body string
	}{
		"global":     {func() (Config, error) { return client.Config(ctx) }, Config{Compatibility: "FULL", Normalize: &yes}, ""},
		"of subject": {func() (Config, error) { return client.SubjectConfig(ctx, "s") }, full, ""},
		"effective":  {func() (Config, error) { return client.EffectiveConfig(ctx, "s") }, Config{Compatibility: "FULL"}, ""},
		"set": {func() (Config, error) { return client.SetConfig(ctx, Config{Normalize: &no}) }, Config{Normalize: &no},
			`/config {"normalize":false}`},
		"set for subject": {func() (Config, error) { return client.SetSubjectConfig(ctx, "s", full) }, full,
			`/config/s {"compatibility":"NONE","compatibilityGroup":"major","alias":"t","defaultMetadata":{"properties":{"a":"b"}},"defaultRuleSet":{"domainRules":[]},"overrideRuleSet":{"migrationRules":[]}}`},
	} {
		body = ""
		got, err := tc.call()
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil || body != tc.body {
			t.Errorf("%s: %v, sent %s, want %s; mismatch (-want +got):\n%s", name, err, body, tc.body, diff)
		}
	}
	latest, err := client.LatestWithMetadata(ctx, "s", map[string]string{"env": "prod"})
	if err != nil || latest.ID != 3 || latest.Version != 2 || string(latest.Metadata) != `{"properties":{"env":"prod"}}` {
		t.Errorf("LatestWithMetadata = %+v, %v", latest, err)
	}
	if _, err := client.LatestWithMetadata(ctx, "s", map[string]string{"env": "test"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("no version with the metadata: %v", err)
	}
}

// A token that the registry refuses is asked for once more.
func TestTokensAreFetchedAgainAfterARefusal(t *testing.T) {
	for _, tc := range []struct {
		valid  string
		asked  int
		status int
	}{{"token-2", 2, 0}, {"token-1", 1, 0}, {"none", 2, http.StatusUnauthorized}} {
		asked := 0
		client, err := NewRegistryClient("http://registry.test", WithTokenSource(func(context.Context) (string, error) {
			asked++
			return fmt.Sprintf("token-%d", asked), nil
		}), WithHTTPClient(&http.Client{Transport: handlerTransport{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+tc.valid {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = w.Write([]byte(`["orders-value"]`))
		})}}))
		if err != nil {
			t.Fatal(err)
		}
		subjects, err := client.Subjects(t.Context())
		status := 0
		if registry, ok := errors.AsType[*RegistryError](err); ok {
			status = registry.StatusCode
		}
		if asked != tc.asked || status != tc.status || (status == 0) != (len(subjects) == 1) {
			t.Errorf("%s is valid: asked %d times, want %d; status %d, want %d; %q", tc.valid, asked, tc.asked, status, tc.status, subjects)
		}
	}
}

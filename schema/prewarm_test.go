// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/krabka-io/krabka-streams-go/internal/registrydouble"
)

func TestRegisterModes(t *testing.T) {
	tests := []struct {
		mode    RegisterMode
		answer  string
		request string
		id      int
		message string
	}{
		{AutoRegister, `{"id":50}`, "POST /subjects/orders-value/versions", 50, ""},
		{LookupOnly, `{"id":51}`, "POST /subjects/orders-value", 51, ""},
		{UseLatest, `{"id":52,"messageType":"demo.Latest"}`, "GET /subjects/orders-value/versions/latest", 52, "demo.Latest"},
	}
	for _, tt := range tests {
		double := newInProcessRegistry(t)
		double.failing(http.StatusOK, tt.answer)
		cache := double.cache(WithRegisterMode(tt.mode))
		cache.Intern("orders-value", KindAvro, `"string"`, "")
		if err := cache.Prewarm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if id, ok := cache.IDForSubject("orders-value"); !ok || id != tt.id {
			t.Errorf("mode %d: IDForSubject = %d, %v", tt.mode, id, ok)
		}
		if got := cache.WriterMessageType(tt.id); got != tt.message {
			t.Errorf("mode %d: message type %q", tt.mode, got)
		}
		if diff := cmp.Diff([]string{tt.request}, double.recorded()); diff != "" {
			t.Errorf("mode %d: requests mismatch (-want +got):\n%s", tt.mode, diff)
		}
	}
	double := newInProcessRegistry(t)
	cache := double.cache(WithRegisterMode(9))
	cache.Intern("s", KindAvro, `"string"`, "")
	if err := cache.Prewarm(t.Context()); err == nil || err.Error() != "s: unknown register mode 9" {
		t.Errorf("error of an unknown mode is %v", err)
	}
	offline := offlineCache(t)
	if report := offline.PrewarmReport(t.Context()); !report.Successful() || report.Resolved == nil || report.Failures == nil {
		t.Errorf("the report of nothing is %+v", report)
	}
	offline.Intern("s", KindAvro, `"string"`, "")
	if err := offline.Prewarm(t.Context()); err == nil || err.Error() != "s: the cache has no registry client" {
		t.Errorf("error without a client is %v", err)
	}
}

func TestPrewarmReportsEachSubject(t *testing.T) {
	double := newInProcessRegistry(t)
	for i := range 7 {
		double.register("filler", NewSchema{Schema: fmt.Sprint(i)})
	}
	double.register("good-value", NewSchema{Schema: `"string"`})
	var seen []string
	var mu sync.Mutex
	cache := double.cache(WithRegisterMode(LookupOnly), WithCacheHooks(CacheHooks{Resolve: func(p PrewarmedSchema) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, p.Subject)
	}}))
	cache.Intern("good-value", KindAvro, `"string"`, "")
	cache.Intern("bad-value", KindAvro, `"string"`, "")
	cache.Intern("also-bad", KindJSON, `{}`, "")
	report := cache.PrewarmReport(t.Context())
	if diff := cmp.Diff(map[string]int{"good-value": 8}, report.Resolved); diff != "" {
		t.Errorf("resolved mismatch (-want +got):\n%s", diff)
	}
	if report.Successful() || len(report.Failures) != 2 || !errors.Is(report.Failures["bad-value"], ErrSubjectNotFound) {
		t.Errorf("failures are %v", report.Failures)
	}
	want := []PrewarmedSchema{
		{Subject: "also-bad", Kind: KindJSON, Requested: true, Err: ErrSubjectNotFound},
		{Subject: "bad-value", Requested: true, Err: ErrSubjectNotFound},
		{Subject: "good-value", ID: 8, Requested: true},
	}
	matches := cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) || errors.Is(b, a) })
	if diff := cmp.Diff(want, report.Schemas, cmpopts.IgnoreFields(PrewarmedSchema{}, "Duration"), matches); diff != "" {
		t.Errorf("schemas mismatch (-want +got):\n%s", diff)
	}
	if len(seen) != 3 {
		t.Errorf("the hook saw %v", seen)
	}

	err := cache.Prewarm(t.Context())
	text := strings.Split(err.Error(), "\n")
	if len(text) != 2 || !strings.HasPrefix(text[0], "also-bad: ") || !strings.HasPrefix(text[1], "bad-value: ") || !errors.Is(err, ErrNotFound) {
		t.Errorf("joined failures are %q", text)
	}
	if n := double.count("POST /subjects/good-value"); n != 1 {
		t.Errorf("a resolved schema was requested %d times", n)
	}
	if n := double.count("POST /subjects/bad-value"); n != 2 {
		t.Errorf("a failed schema was requested %d times, want again by the second prewarm", n)
	}
	report = cache.PrewarmReport(t.Context())
	if report.Resolved["good-value"] != 8 || report.Schemas[2].Requested {
		t.Errorf("a later report is %+v", report)
	}
	if stats := cache.Stats(); stats.Resolutions != 7 || stats.ResolveFailures != 6 {
		t.Errorf("stats are %+v", stats)
	}
}

func TestPrewarmIsBoundedAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		var mu sync.Mutex
		running, most := 0, 0
		double.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			_ = pause(r.Context(), time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return false
		})
		cache := double.cache(WithConcurrency(3))
		for i := range 9 {
			cache.Intern(fmt.Sprint("s", i), KindAvro, `"int"`, "")
		}
		start := time.Now()
		if err := cache.Prewarm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); most != 3 || took != 3*time.Second {
			t.Errorf("%d requests ran at once and 9 took %v, want 3 and 3s", most, took)
		}

		for i := range 9 {
			cache.Intern(fmt.Sprint("t", i), KindAvro, `"int"`, "")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		report := cache.PrewarmReport(ctx)
		if len(report.Resolved) != 9+3 || len(report.Failures) != 6 || !errors.Is(report.Failures["t8"], context.DeadlineExceeded) {
			t.Errorf("the report has %d resolved and these failures: %v", len(report.Resolved), report.Failures)
		}
	})
}

func TestConcurrentPrewarmsDoNotRepeatRequests(t *testing.T) {
	double := newRegistryDouble(t)
	cache := double.cache()
	for i := range 5 {
		cache.Intern(fmt.Sprint("s", i), KindAvro, `"int"`, "")
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := cache.Prewarm(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := len(double.recorded()); n != 5 {
		t.Errorf("8 prewarms of 5 schemas made %d requests", n)
	}
}

func TestPrewarmedSchemasNeedNoFetch(t *testing.T) {
	double := newInProcessRegistry(t)
	cache := double.cache()
	cache.Intern("s", KindProtobuf, "text", "demo.A")
	cache.Intern("s", KindProtobuf, "text", "demo.A")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, _ := cache.IDForSubject("s")
	if text, err := cache.WriterSchema(id); err != nil || text != "text" || cache.WriterMessageType(id) != "demo.A" {
		t.Errorf("WriterSchema = %q, %v, %q", text, err, cache.WriterMessageType(id))
	}
	if n := len(double.recorded()); n != 1 {
		t.Errorf("%d requests, want the registration alone", n)
	}
}

func TestTwoMessagesOfOneFileShareAnID(t *testing.T) {
	double := newInProcessRegistry(t)
	double.failing(http.StatusOK, `{"id":7}`)
	cache := double.cache()
	cache.Intern("s", KindProtobuf, "file", "demo.A")
	cache.Intern("s", KindProtobuf, "file", "demo.B")
	report := cache.PrewarmReport(t.Context())
	if !report.Successful() || len(report.Conflicts) != 0 || len(report.Schemas) != 2 {
		t.Errorf("report is %+v", report)
	}
	if got := cache.WriterMessageType(7); got != "" {
		t.Errorf("the id of two messages has message type %q", got)
	}
}

func TestLocalReferencesAreRegisteredFirstAndOnce(t *testing.T) {
	for _, plain := range []bool{false, true} {
		double := newInProcessRegistry(t, registrydouble.Settings{Plain: plain})
		cache := double.cache()
		base := Reference{Name: "base", Subject: "base", Schema: `"base"`}
		left := Reference{Name: "left", Subject: "left", Schema: `"left"`, References: []Reference{base}}
		right := Reference{Name: "right", Subject: "right", Schema: `"right"`, References: []Reference{base}}
		fixed := Reference{Name: "fixed", Subject: "base", Version: 1, Schema: `"base"`}
		for _, subject := range []string{"one", "two"} {
			if err := cache.InternWithReferences(subject, KindAvro, `"root"`, "", left, right, fixed); err != nil {
				t.Fatal(err)
			}
		}
		if err := cache.Prewarm(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, subject := range []string{"base", "left", "right", "one", "two"} {
			if n := double.count("POST /subjects/" + subject + "/versions"); n != 1 {
				t.Errorf("plain %v: %s was registered %d times", plain, subject, n)
			}
		}
		version, err := double.client().Latest(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		want := []SchemaReference{{"left", "left", 1}, {"right", "right", 1}, {"fixed", "base", 1}}
		if diff := cmp.Diff(want, version.References); diff != "" {
			t.Errorf("references mismatch (-want +got):\n%s", diff)
		}
		id, _ := cache.IDForSubject("one")
		var names []string
		for _, dependency := range cache.WriterDependencies(id) {
			names = append(names, dependency.Name)
		}
		if diff := cmp.Diff([]string{"base", "left", "right", "fixed"}, names); diff != "" {
			t.Errorf("dependencies mismatch (-want +got):\n%s", diff)
		}
	}
	double := newInProcessRegistry(t)
	cache := double.cache(WithRegisterMode(LookupOnly))
	missing := Reference{Name: "base", Subject: "base", Schema: `"base"`}
	if err := cache.InternWithReferences("s", KindAvro, `"root"`, "", missing); err != nil {
		t.Fatal(err)
	}
	err := cache.Prewarm(t.Context())
	if !errors.Is(err, ErrSubjectNotFound) || !strings.HasPrefix(err.Error(), "s: reference base in subject base: ") {
		t.Errorf("error of a missing reference is %v", err)
	}
	if err := cache.InternWithReferences("s", KindAvro, `"root"`, "", missing, Reference{Name: "base", Schema: "x"}); !errors.Is(err, ErrReferenceConflict) {
		t.Errorf("error of conflicting references is %v", err)
	}
}

func TestUseLatestWritesUnderTheRegistrysSchema(t *testing.T) {
	double := newInProcessRegistry(t)
	double.register("money", NewSchema{Kind: KindJSON, Schema: `{"type":"number"}`})
	latest := double.register("t-value", NewSchema{
		Kind: KindJSON, Schema: `{"properties":{"a":{"$ref":"money"}}}`,
		References: []SchemaReference{{Name: "money", Subject: "money", Version: 1}},
	})
	cache := double.cache(WithRegisterMode(UseLatest))
	serde := newJSONSerde[any](t, `{"properties":{"a":{"type":"integer"}}}`, cache, true)
	serde.RegisterSubject("t")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, err := cache.WriterSchema(latest); err != nil || text != `{"properties":{"a":{"$ref":"money"}}}` {
		t.Errorf("the id stands for %q, %v", text, err)
	}
	if _, err := serde.Serialize("t", map[string]any{"a": 1.5}); err != nil {
		t.Errorf("a value of the latest schema: %v", err)
	}
	if _, err := serde.Serialize("t", map[string]any{"a": "x"}); err == nil {
		t.Error("a value that the latest schema refuses was written")
	}
}

func TestUseLatestRefusesASchemaThatCannotReadTheLocalOne(t *testing.T) {
	double := newInProcessRegistry(t)
	double.register("t-value", NewSchema{Kind: KindJSON, Schema: `{"type":"string"}`})
	double.register("avro", NewSchema{Kind: KindAvro, Schema: `"int"`})
	strict := double.cache(WithRegisterMode(UseLatest))
	strict.Intern("t-value", KindJSON, `{"type":"integer"}`, "")
	strict.Intern("avro", KindJSON, `{}`, "")
	report := strict.PrewarmReport(t.Context())
	if err := report.Failures["t-value"]; err == nil || !strings.HasPrefix(err.Error(), "latest schema 1 cannot read what the local schema describes: ") {
		t.Errorf("error is %v", err)
	}
	if err := report.Failures["avro"]; err == nil || err.Error() != "latest schema 2 is AVRO, the local one is JSON" {
		t.Errorf("error is %v", err)
	}
	loose := double.cache(WithRegisterMode(UseLatest), WithoutLatestCheck())
	loose.Intern("t-value", KindJSON, `{"type":"integer"}`, "")
	if err := loose.Prewarm(t.Context()); err != nil {
		t.Errorf("without the check: %v", err)
	}
}

// A tuple in the array form of items is one up to 2019-09, and no schema in
// 2020-12; prefixItems are the other way round.
func TestUseLatestComparesInTheDialectOfTheSerde(t *testing.T) {
	double := newInProcessRegistry(t)
	double.register("t-value", NewSchema{Kind: KindJSON, Schema: `{"prefixItems":[{"type":"integer"}]}`})
	double.register("p-value", NewSchema{Kind: KindJSON, Schema: `{"type":"string","pattern":"^(?=a)"}`})
	const local = `{"type":"array","prefixItems":[{"type":"string"}]}`
	for name, tt := range map[string]struct {
		topic, text string
		options     []SerdeOption
		want        string
	}{
		"default":      {"t", local, nil, ""},
		"2020-12":      {"t", local, []SerdeOption{WithJSONDialect(JSONDraft2020)}, "latest schema 1 cannot read what the local schema describes: BACKWARD: "},
		"own patterns": {"p", `{"const":"abc"}`, []SerdeOption{WithJSONRegexp(prefixPattern)}, ""},
		"own patterns that differ": {"p", `{"const":"xbc"}`, []SerdeOption{WithJSONRegexp(prefixPattern)},
			"latest schema 2 cannot read what the local schema describes: BACKWARD: "},
	} {
		cache := double.cache(WithRegisterMode(UseLatest))
		newJSONSerde[any](t, tt.text, cache, true, tt.options...).RegisterSubject(tt.topic)
		err := cache.Prewarm(t.Context())
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: error is %v, want %q", name, err, tt.want)
		}
	}

	// One text in two dialects is no conflict, and each is compared in its own.
	cache := double.cache(WithRegisterMode(UseLatest))
	newJSONSerde[any](t, local, cache, true).RegisterSubject("t")
	newJSONSerde[any](t, local, cache, true, WithJSONDialect(JSONDraft2020)).RegisterSubject("t")
	report := cache.PrewarmReport(t.Context())
	if len(report.Schemas) != 2 || len(report.Conflicts) != 0 || report.Failures["t-value"] == nil || report.Resolved["t-value"] != 1 {
		t.Errorf("report is %+v", report)
	}
}

// prefixPattern knows the patterns ^(?=x) alone.
func prefixPattern(pattern string) (JSONRegexp, error) {
	return lookAhead(pattern), nil
}

type lookAhead string

func (l lookAhead) MatchString(s string) bool { return strings.HasPrefix(s, string(l)[4:5]) }
func (l lookAhead) String() string            { return string(l) }

func TestUseLatestWithoutATextLeavesReadingToTheID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		id := double.register("t-value", NewSchema{Kind: KindJSON, Schema: `{"title":"Registry"}`})
		double.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/latest") {
				return false
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"id": id, "messageType": "demo.Latest"})
			return true
		})
		cache := double.cache(WithRegisterMode(UseLatest))
		serde := newJSONSerde[any](t, `{"title":"Local"}`, cache, true)
		serde.RegisterSubject("t")
		if err := cache.Prewarm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := serde.Serialize("t", 1); err != nil {
			t.Error(err)
		}
		if text, err := cache.AwaitWriterSchema(t.Context(), id); err != nil || text != `{"title":"Registry"}` {
			t.Errorf("the id stands for %q, %v, not for the local schema", text, err)
		}
		if got := cache.WriterMessageType(id); got != "demo.Latest" {
			t.Errorf("message type is %q", got)
		}
	})
}

func TestRefreshFollowsTheLatestVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		first := double.register("t-value", NewSchema{Kind: KindJSON, Schema: `{"title":"one"}`})
		cache := double.cache(WithRegisterMode(UseLatest), WithRefreshInterval(time.Minute))
		serde := newJSONSerde[any](t, `{}`, cache, false)
		serde.RegisterSubject("t")
		if err := cache.Prewarm(t.Context()); err != nil {
			t.Fatal(err)
		}
		written := func() int {
			t.Helper()
			payload, err := serde.Serialize("t", 1)
			if err != nil {
				t.Fatal(err)
			}
			frame, err := Decode(payload)
			if err != nil {
				t.Fatal(err)
			}
			return frame.SchemaID
		}
		second := double.register("t-value", NewSchema{Kind: KindJSON, Schema: `{"title":"two"}`})
		if got := written(); got != first {
			t.Errorf("before the interval values are written under %d", got)
		}
		advance(61 * time.Second)
		if got := written(); got != second {
			t.Errorf("after the interval values are written under %d, want %d", got, second)
		}
		if id, _ := cache.IDForSubject("t-value"); id != second {
			t.Errorf("IDForSubject = %d", id)
		}

		double.failing(http.StatusInternalServerError, `down`)
		advance(time.Minute)
		if got := written(); got != second {
			t.Errorf("with the registry down values are written under %d", got)
		}
		report := cache.Refresh(t.Context())
		if report.Successful() {
			t.Errorf("refresh of a registry that is down reports %+v", report)
		}
		double.recover()
		third := double.register("t-value", NewSchema{Kind: KindJSON, Schema: `{"title":"three"}`})
		report = cache.Refresh(t.Context())
		if !report.Successful() || report.Resolved["t-value"] != third || written() != third {
			t.Errorf("refresh by hand: %+v, values under %d", report, written())
		}
	})
}

func TestNormalizedSchemasAreAskedFor(t *testing.T) {
	double := newInProcessRegistry(t)
	for mode, want := range map[RegisterMode]string{
		AutoRegister: "POST /subjects/s/versions?normalize=true", LookupOnly: "POST /subjects/s?normalize=true",
	} {
		cache := double.cache(WithRegisterMode(mode), WithNormalizedSchemas())
		cache.Intern("s", KindAvro, `"int"`, "")
		_ = cache.Prewarm(t.Context())
		if double.count(want) != 1 {
			t.Errorf("mode %d: requests are %v, want %s", mode, double.recorded(), want)
		}
	}
}

// A registry that stores the normal form knows the text that was registered only
// when it is asked in the same way.
func TestTheVersionOfAReferenceIsAskedForInNormalForm(t *testing.T) {
	double := newInProcessRegistry(t, registrydouble.Settings{Plain: true})
	double.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || r.URL.Query().Get("normalize") == "true" {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error_code":40403,"message":"Schema not found"}`)
		return true
	})
	cache := double.cache(WithNormalizedSchemas())
	base := Reference{Name: "base", Subject: "base", Schema: `"base"`}
	if err := cache.InternWithReferences("s", KindAvro, `"root"`, "", base); err != nil {
		t.Fatal(err)
	}
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Error(err)
	}
	want := []string{
		"POST /subjects/base/versions?normalize=true", "POST /subjects/base?normalize=true", "POST /subjects/s/versions?normalize=true",
	}
	if diff := cmp.Diff(want, double.recorded()); diff != "" {
		t.Errorf("requests mismatch (-want +got):\n%s", diff)
	}
}

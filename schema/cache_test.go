// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/dynamicpb"
)

// advance moves the clock of a synctest bubble.
func advance(d time.Duration) { <-time.After(d) }

// pollWriter calls WriterSchema, as a poll loop does, until the error is not
// retriable or there is none.
func pollWriter(tb testing.TB, cache *SchemaCache, id int) (string, error) {
	tb.Helper()
	for range 1000 {
		text, err := cache.WriterSchema(id)
		pending, ok := errors.AsType[*FetchPendingError](err)
		if !ok {
			return text, err
		}
		if pending.Done() != nil {
			<-pending.Done()
		} else if pause(tb.Context(), cache.untilDue(writerID{id: uint32(id)})) != nil {
			return "", err
		}
	}
	tb.Fatal("the schema stays pending")
	return "", nil
}

func TestOneFetchServesEveryCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		release := make(chan struct{})
		double.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			<-release
			_, _ = w.Write([]byte(`{"schema":"\"string\"","messageType":"demo.Value"}`))
			return true
		})
		cache := double.cache()
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				text, err := cache.WriterSchema(7)
				if pending, ok := err.(*FetchPendingError); !ok || pending.SchemaID != 7 || text != "" {
					t.Errorf("WriterSchema = %q, %v", text, err)
				}
			})
		}
		group.Wait()
		synctest.Wait()
		if stats := cache.Stats(); stats.SchemasInProgress != 1 {
			t.Errorf("%d fetches run, want 1", stats.SchemasInProgress)
		}
		close(release)
		synctest.Wait()
		text, err := cache.WriterSchema(7)
		if err != nil || text != `"string"` || cache.WriterMessageType(7) != "demo.Value" {
			t.Errorf("WriterSchema = %q, %v, message type %q", text, err, cache.WriterMessageType(7))
		}
		if got := double.recorded(); !cmp.Equal(got, []string{"GET /schemas/ids/7"}) {
			t.Errorf("requests are %v", got)
		}
	})
}

func TestARefusedSchemaIsRememberedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		cache := double.cache(WithNegativeTTL(30 * time.Second))
		_, err := pollWriter(t, cache, 1)
		unavailable, ok := errors.AsType[*SchemaUnavailableError](err)
		if !ok || unavailable.SchemaID != 1 || unavailable.Retriable() || !errors.Is(err, ErrSchemaNotFound) ||
			!strings.HasPrefix(err.Error(), "writer schema for id 1 is not available: schema registry returned HTTP 404: ") {
			t.Fatalf("error is %v", err)
		}
		if wait := time.Until(unavailable.RetryAt); wait != 30*time.Second {
			t.Errorf("the registry is asked again in %v", wait)
		}
		asked := len(double.recorded())
		if asked > unknownSchemaTries {
			t.Errorf("an unknown schema took %d requests", asked)
		}
		for range 10_000 {
			if _, err := cache.WriterSchema(1); !errors.As(err, &unavailable) {
				t.Fatalf("error is %v", err)
			}
		}
		if n := len(double.recorded()); n != asked {
			t.Errorf("10000 records made %d more requests", n-asked)
		}
		double.register("late", NewSchema{Schema: `"int"`})
		advance(29 * time.Second)
		if _, err := cache.WriterSchema(1); !errors.As(err, &unavailable) {
			t.Errorf("before the TTL the error is %v", err)
		}
		advance(2 * time.Second)
		if text, err := pollWriter(t, cache, 1); err != nil || text != `"int"` {
			t.Errorf("after the TTL: %q, %v", text, err)
		}
		if stats := cache.Stats(); stats.FetchRefusals != 1 || stats.Fetches != 2 || stats.FailedSchemas != 0 || stats.WriterSchemas != 1 {
			t.Errorf("stats are %+v", stats)
		}
	})
}

func TestASchemaThatFollowersLearnLateIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		double.register("s", NewSchema{Schema: `"int"`})
		asked := 0
		double.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			if asked++; asked > 1 {
				return false
			}
			w.WriteHeader(http.StatusNotFound)
			return true
		})
		cache := double.cache()
		if text, err := pollWriter(t, cache, 1); err != nil || text != `"int"` {
			t.Errorf("WriterSchema = %q, %v", text, err)
		}
	})
}

func TestPermanentAndTransientFailures(t *testing.T) {
	tests := []struct {
		name      string
		status    int
		body      string
		permanent bool
	}{
		{"unknown id", 404, `{"error_code":40403}`, true},
		{"bad credentials", 401, `{}`, true},
		{"bad request", 400, `{}`, true},
		{"unknown language", 200, `{"schema":"s","schemaType":"THRIFT"}`, true},
		{"server error", 500, `{}`, false},
		{"rate limit", 429, `{}`, false},
		{"gateway page", 200, `<html>`, false},
		{"answer without a schema", 200, `{}`, false},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			double := newInProcessRegistry(t)
			double.failing(tt.status, tt.body)
			cache := double.cache()
			_, err := cache.WriterSchema(5)
			pending, ok := errors.AsType[*FetchPendingError](err)
			if !ok {
				t.Fatalf("%s: error is %v", tt.name, err)
			}
			<-pending.Done()
			_, err = cache.WriterSchema(5)
			if _, permanent := errors.AsType[*SchemaUnavailableError](err); permanent != tt.permanent {
				t.Errorf("%s: error is %v, want permanent %v", tt.name, err, tt.permanent)
			}
			if errors.Unwrap(err) == nil {
				t.Errorf("%s: the error %v hides its cause", tt.name, err)
			}
		})
	}
}

func TestFailedFetchesBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		double.failing(http.StatusInternalServerError, `down`)
		var mu sync.Mutex
		var fetches []CacheFetch
		cache := NewSchemaCache(double.client(WithMaxRetries(0)), WithFetchBackoff(time.Second, 4*time.Second),
			WithCacheHooks(CacheHooks{Fetch: func(f CacheFetch) {
				mu.Lock()
				defer mu.Unlock()
				fetches = append(fetches, f)
			}}))
		start := time.Now()
		for time.Since(start) < 60*time.Second {
			_, err := cache.WriterSchema(5)
			if _, ok := errors.AsType[*FetchPendingError](err); !ok {
				t.Fatalf("error is %v", err)
			}
			advance(10 * time.Millisecond)
		}
		// 1 + 2 seconds, then 4 each, all jittered down to half.
		if n := len(double.recorded()); n < 60/4 || n > 2+60/2 {
			t.Errorf("6000 polls in a minute made %d requests", n)
		}
		_, err := cache.WriterSchema(5)
		if registry, ok := errors.AsType[*RegistryError](err); !ok || registry.StatusCode != 500 ||
			err.Error() != "writer schema for id 5 is pending fetch: schema registry returned HTTP 500: down" {
			t.Errorf("error is %v", err)
		}
		_ = cache.Close()
		if fetches[0].SchemaID != 5 || fetches[0].Permanent || fetches[0].Err == nil {
			t.Errorf("first fetch is %+v", fetches[0])
		}
		if stats := cache.Stats(); stats.FetchFailures != int64(len(fetches)) || stats.FetchRefusals != 0 {
			t.Errorf("stats are %+v after %d fetches", stats, len(fetches))
		}
	})
}

func TestRetryAfterDelaysTheNextFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		double.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "25")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		})
		cache := NewSchemaCache(double.client(WithMaxRetries(0)))
		defer func() { _ = cache.Close() }()
		_, _ = cache.WriterSchema(5)
		synctest.Wait()
		if due := cache.untilDue(writerID{id: 5}); due != 25*time.Second {
			t.Errorf("the next fetch is due in %v", due)
		}
	})
}

func TestAHungRegistryEndsTheFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		double.register("s", NewSchema{Schema: `"int"`})
		double.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		})
		cache := double.cache(WithFetchTimeout(3 * time.Second))
		start := time.Now()
		_, err := cache.WriterSchema(1)
		<-err.(*FetchPendingError).Done()
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("the fetch took %v", took)
		}
		_, err = cache.WriterSchema(1)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no schema within 3s") {
			t.Errorf("error is %v, want the time-out as its cause", err)
		}
		double.recover()
		if text, err := pollWriter(t, cache, 1); err != nil || text != `"int"` {
			t.Errorf("after recovery: %q, %v", text, err)
		}
	})
}

func TestAwaitWriterSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		double.register("s", NewSchema{Schema: `"int"`})
		double.failing(http.StatusServiceUnavailable, `down`)
		cache := double.cache()
		go func() {
			advance(time.Minute)
			double.recover()
		}()
		start := time.Now()
		text, err := cache.AwaitWriterSchema(t.Context(), 1)
		if err != nil || text != `"int"` {
			t.Errorf("AwaitWriterSchema = %q, %v", text, err)
		}
		if took := time.Since(start); took < time.Minute || took > time.Minute+defaultMaxFetchBackoff+time.Second {
			t.Errorf("waited %v for a registry that was down for a minute", took)
		}
		if _, err := cache.AwaitWriterSchema(t.Context(), 2); !errors.Is(err, ErrSchemaNotFound) {
			t.Errorf("error of an unknown id is %v", err)
		}
		double.failing(http.StatusServiceUnavailable, `down`)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = cache.AwaitWriterSchema(ctx, 3)
		if registry, ok := errors.AsType[*RegistryError](err); !ok || registry.StatusCode != 503 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v, want the end of the context and the last failure", err)
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		double.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		})
		cache := NewSchemaCache(double.client(), WithConcurrency(1), WithRegisterMode(UseLatest), WithRefreshInterval(time.Hour))
		cache.SeedWriterSchema(9, "seeded")
		for id := range 5 {
			_, _ = cache.WriterSchema(id)
		}
		synctest.Wait()
		start := time.Now()
		for range 2 {
			if err := cache.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("Close took %v", took)
		}
		if stats := cache.Stats(); stats.SchemasInProgress != 0 {
			t.Errorf("%d fetches run after Close", stats.SchemasInProgress)
		}
		_, err := cache.WriterSchema(77)
		unavailable, ok := errors.AsType[*SchemaUnavailableError](err)
		if !ok || !errors.Is(err, ErrCacheClosed) || unavailable.SchemaID != 77 {
			t.Errorf("error after Close is %v", err)
		}
		if text, err := cache.WriterSchema(9); err != nil || text != "seeded" {
			t.Errorf("a cached schema after Close: %q, %v", text, err)
		}
	})
}

func TestMadeUpIDsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		release := make(chan struct{})
		double.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			<-release
			w.WriteHeader(http.StatusBadRequest)
			return true
		})
		cache := double.cache()
		for id := range 3 * maxRunningFetches {
			if _, err := cache.WriterSchema(id); err == nil {
				t.Fatal("no error")
			}
		}
		synctest.Wait()
		if stats := cache.Stats(); stats.SchemasInProgress != maxRunningFetches {
			t.Errorf("%d fetches run, want %d", stats.SchemasInProgress, maxRunningFetches)
		}
		if n := len(double.recorded()); n != defaultConcurrency {
			t.Errorf("%d requests run, want %d", n, defaultConcurrency)
		}
		close(release)
		synctest.Wait()
		for id := range maxFailedFetches + 3*maxRunningFetches {
			_, _ = cache.WriterSchema(id)
			if id%maxRunningFetches == 0 {
				synctest.Wait()
			}
		}
		if stats := cache.Stats(); stats.FailedSchemas > maxFailedFetches {
			t.Errorf("%d failures are remembered", stats.FailedSchemas)
		}
	})
}

func TestTheOldestFetchedSchemasAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		for i := range 4 {
			double.register("s", NewSchema{Kind: KindProtobuf, Schema: fmt.Sprint("text ", i+1)})
		}
		cache := double.cache(WithMaxWriterSchemas(2))
		cache.SeedWriterSchema(100, "seeded")
		f := &plainFormat{}
		serde := newPlainSerde(t, cache, f)
		for _, id := range []int{1, 2, 3, 4} {
			if _, err := pollWriter(t, cache, id); err != nil {
				t.Fatal(err)
			}
			if _, err := serde.Deserialize("t", Encode(id, nil)); err != nil {
				t.Fatal(err)
			}
		}
		if stats := cache.Stats(); stats.WriterSchemas != 3 || stats.Evictions != 2 {
			t.Errorf("stats are %+v, want two evictions", stats)
		}
		if _, err := cache.WriterSchema(1); err == nil {
			t.Error("the oldest schema is still cached")
		}
		if _, err := serde.Deserialize("t", Encode(100, nil)); err != nil {
			t.Error(err)
		}
		if n := len(serde.decoders.Load().byID); n > 3 {
			t.Errorf("the serde keeps %d decoders", n)
		}
		if _, err := cache.AwaitWriterSchema(t.Context(), 1); err != nil {
			t.Errorf("an evicted schema is not fetched again: %v", err)
		}
	})
}

func TestSeedsAreVisibleAtOnce(t *testing.T) {
	cache := offlineCache(t)
	if _, ok := cache.IDForSubject("s"); ok {
		t.Error("an unknown subject has an id")
	}
	if cache.WriterMessageType(1) != "" || cache.WriterDependencies(1) != nil {
		t.Error("an unknown schema has a message type or dependencies")
	}
	if references := cache.WriterReferences(1); references == nil || len(references) != 0 {
		t.Errorf("references are %#v, want an empty map", references)
	}
	if _, err := cache.WriterSchema(1); !errors.Is(err, errNoClient) {
		t.Errorf("a miss without a client is %v", err)
	}
	cache.SeedSubjectID("s", 4)
	cache.SeedWriterMessageType(1, "demo.A")
	if _, err := cache.WriterSchema(1); err == nil {
		t.Error("a message type alone is taken for a schema")
	}
	cache.SeedWriterSchema(1, "text")
	b := Reference{Name: "b", Schema: "B"}
	if err := cache.SeedWriterReferences(1, Reference{Name: "a", Schema: "A", References: []Reference{b}}); err != nil {
		t.Fatal(err)
	}
	if err := cache.SeedWriterReferences(1, b, Reference{Name: "b", Schema: "other"}); !errors.Is(err, ErrReferenceConflict) {
		t.Errorf("conflicting references: %v", err)
	}
	text, err := cache.WriterSchema(1)
	if err != nil || text != "text" || cache.WriterMessageType(1) != "demo.A" {
		t.Errorf("WriterSchema = %q, %v, %q", text, err, cache.WriterMessageType(1))
	}
	references := cache.WriterReferences(1)
	if diff := cmp.Diff(map[string]string{"a": "A", "b": "B"}, references); diff != "" {
		t.Errorf("references mismatch (-want +got):\n%s", diff)
	}
	references["a"] = "changed"
	if cache.WriterReferences(1)["a"] != "A" {
		t.Error("changing the returned map changes the cache")
	}
	var names []string
	for _, dependency := range cache.WriterDependencies(1) {
		names = append(names, dependency.Name)
	}
	if !cmp.Equal(names, []string{"b", "a"}) {
		t.Errorf("dependencies are %v, want b before a", names)
	}
	if id, ok := cache.IDForSubject("s"); !ok || id != 4 {
		t.Errorf("IDForSubject = %d, %v", id, ok)
	}
	cache.SeedSubjectID("s", 5)
	cache.SeedWriterSchema(1, "newer")
	if id, _ := cache.IDForSubject("s"); id != 5 {
		t.Errorf("a seed does not overwrite: %d", id)
	}
	if text, _ := cache.WriterSchema(1); text != "newer" {
		t.Errorf("a seed does not overwrite: %q", text)
	}
}

func TestASeedBeatsARunningFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		double := newInProcessRegistry(t)
		double.register("s", NewSchema{Schema: "registry"})
		release := make(chan struct{})
		double.Intercept(func(http.ResponseWriter, *http.Request) bool { <-release; return false })
		cache := double.cache()
		_, _ = cache.WriterSchema(1)
		cache.SeedWriterSchema(1, "seed")
		close(release)
		synctest.Wait()
		if text, err := cache.WriterSchema(1); err != nil || text != "seed" {
			t.Errorf("WriterSchema = %q, %v", text, err)
		}
	})
}

// What a seed or a prewarm has told stays, in whatever order it came with the
// fetch of the same schema.
func TestSeededAndPrewarmedSchemasAreNotEvicted(t *testing.T) {
	fetch := func(t *testing.T, cache *SchemaCache) {
		if _, err := pollWriter(t, cache, 1); err != nil {
			t.Fatal(err)
		}
	}
	seed := func(_ *testing.T, cache *SchemaCache) { cache.SeedWriterSchema(1, "text 1") }
	name := func(_ *testing.T, cache *SchemaCache) { cache.SeedWriterMessageType(1, "demo.A") }
	prewarm := func(t *testing.T, cache *SchemaCache) {
		cache.Intern("s", KindProtobuf, "text 1", "")
		if err := cache.Prewarm(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	during := func(step func(*testing.T, *SchemaCache)) func(*testing.T, *SchemaCache) {
		return func(t *testing.T, cache *SchemaCache) {
			_, err := cache.WriterSchema(1)
			pending, ok := errors.AsType[*FetchPendingError](err)
			if !ok {
				t.Fatalf("error is %v", err)
			}
			synctest.Wait()
			step(t, cache)
			<-pending.Done()
		}
	}
	for _, tt := range []struct {
		name  string
		steps []func(*testing.T, *SchemaCache)
		named string
	}{
		{"fetched, then its text seeded", []func(*testing.T, *SchemaCache){fetch, seed}, ""},
		{"fetched, then its message seeded", []func(*testing.T, *SchemaCache){fetch, name}, "demo.A"},
		{"fetched, then prewarmed", []func(*testing.T, *SchemaCache){fetch, prewarm}, ""},
		{"text seeded during the fetch", []func(*testing.T, *SchemaCache){during(seed)}, ""},
		{"message seeded during the fetch", []func(*testing.T, *SchemaCache){during(name)}, "demo.A"},
		{"prewarmed during the fetch", []func(*testing.T, *SchemaCache){during(prewarm)}, ""},
		{"message seeded, then fetched", []func(*testing.T, *SchemaCache){name, fetch}, "demo.A"},
		{"text seeded twice", []func(*testing.T, *SchemaCache){fetch, seed, seed}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				double := newInProcessRegistry(t)
				for i := range 4 {
					double.register("s", NewSchema{Kind: KindProtobuf, Schema: fmt.Sprint("text ", i+1)})
				}
				double.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
					if r.Method == http.MethodGet {
						advance(time.Second)
					}
					return false
				})
				cache := double.cache(WithMaxWriterSchemas(2))
				for _, step := range tt.steps {
					step(t, cache)
				}
				for _, id := range []int{2, 3, 4} {
					if _, err := pollWriter(t, cache, id); err != nil {
						t.Fatal(err)
					}
				}
				if text, err := cache.WriterSchema(1); err != nil || text != "text 1" || cache.WriterMessageType(1) != tt.named {
					t.Errorf("WriterSchema = %q, %v, message %q", text, err, cache.WriterMessageType(1))
				}
				if stats := cache.Stats(); stats.WriterSchemas != 3 || stats.Evictions != 1 {
					t.Errorf("stats are %+v, want two of three fetched schemas beside the first", stats)
				}
			})
		})
	}
}

func TestCacheOptionsThatCannotBeObeyed(t *testing.T) {
	double := newInProcessRegistry(t)
	for want, option := range map[string]SchemaCacheOption{
		"subject name strategy must not be nil":           WithSubjectNameStrategy(nil),
		"concurrency 0 is not positive":                   WithConcurrency(0),
		"fetch timeout -1ns is not positive":              WithFetchTimeout(-1),
		"fetch backoff 1s to 1ms is not a positive range": WithFetchBackoff(time.Second, time.Millisecond),
		"negative TTL 0s is not positive":                 WithNegativeTTL(0),
		"writer schema limit 0 is not positive":           WithMaxWriterSchemas(0),
		"refresh interval 0s is not positive":             WithRefreshInterval(0),
	} {
		cache := double.cache(option)
		cache.Intern("s", KindAvro, `"int"`, "")
		err := cache.Prewarm(t.Context())
		if !errors.Is(err, ErrInvalidOption) || err.Error() != "s: "+want {
			t.Errorf("prewarm error is %v, want %s", err, want)
		}
		_, err = cache.WriterSchema(1)
		if _, ok := errors.AsType[*SchemaUnavailableError](err); !ok || !errors.Is(err, ErrInvalidOption) {
			t.Errorf("fetch error is %v, want %s", err, want)
		}
		if got := cache.Subject("t", RoleKey); got != "t-key" {
			t.Errorf("subject is %q", got)
		}
	}
	if n := len(double.recorded()); n != 0 {
		t.Errorf("a cache with bad options made %d requests", n)
	}
}

// pollFormats are the formats of records in a poll loop. Each has a schema that
// is known and one that comes late, and a body of both.
var pollFormats = []struct {
	name        string
	kind        Kind
	known, late string
	body        string
	reader      func(tb testing.TB, cache *SchemaCache) func(data []byte) error
}{
	{"JSON", KindJSON, `{"type":"object"}`, `{"type":"object","title":"Late"}`, "{}",
		func(tb testing.TB, cache *SchemaCache) func(data []byte) error {
			return reading(newJSONSerde[any](tb, `{}`, cache, true))
		}},
	{"Avro", KindAvro, `"int"`, `"long"`, "\x02",
		func(tb testing.TB, cache *SchemaCache) func(data []byte) error {
			serde, err := NewGenericAvroSerde(`"long"`, cache, RoleValue)
			if err != nil {
				tb.Fatal(err)
			}
			return reading(serde)
		}},
	{"Protobuf", KindProtobuf, "message A {}", "message A {} message B {}", "\x00\x08\x01",
		func(tb testing.TB, cache *SchemaCache) func(data []byte) error {
			return reading(newProtobuf[*dynamicpb.Message](tb, nil, cache))
		}},
}

// reading returns what reads a record with a serde.
func reading[T any](serde Serde[T]) func(data []byte) error {
	return func(data []byte) error {
		_, err := serde.Deserialize("t", data)
		return err
	}
}

// A poll loop reads a mix of good records and records of an unknown schema while
// the registry goes through every kind of trouble. Each call must return at
// once; what the errors say and when reading recovers is part of the outcome.
func TestThePollLoopIsNeverBlocked(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
	slow := func(w http.ResponseWriter, r *http.Request) bool {
		_ = pause(r.Context(), 4*time.Second)
		return false
	}
	flap := 0
	troubles := []struct {
		name      string
		intercept func(http.ResponseWriter, *http.Request) bool
		want      string // in the errors of the good, uncached schema
	}{
		{"down", func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(502); return true }, "schema registry returned HTTP 502"},
		{"hung", hang, "no schema within 10s"},
		{"slow", slow, ""},
		{"flapping", func(w http.ResponseWriter, _ *http.Request) bool {
			flap++
			if flap%4 == 0 {
				return false
			}
			w.WriteHeader(503)
			return true
		}, ""},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte("\x00\xff<html>"))
			return true
		}, "cannot parse schema registry response"},
		{"lying", func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(`{"schema":{"a":1}}`))
			return true
		}, "schema registry response has no text schema"},
	}
	for i := range len(troubles) * len(pollFormats) {
		trouble, format := troubles[i/len(pollFormats)], pollFormats[i%len(pollFormats)]
		t.Run(trouble.name+"/"+format.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				double := newInProcessRegistry(t)
				known := double.register("known-value", NewSchema{Kind: format.kind, Schema: format.known})
				late := double.register("late-value", NewSchema{Kind: format.kind, Schema: format.late})
				cache := double.cache()
				reader := format.reader(t, cache)
				if _, err := cache.AwaitWriterSchema(t.Context(), known); err != nil {
					t.Fatal(err)
				}
				double.Intercept(trouble.intercept)
				var longest time.Duration
				var lastErr error
				read := func(id int) error {
					start := time.Now()
					err := reader(Encode(id, []byte(format.body)))
					longest = max(longest, time.Since(start))
					return err
				}
				for range 6000 { // ten minutes of polls
					if err := read(known); err != nil {
						t.Fatalf("a cached schema fails: %v", err)
					}
					if err := read(late); err != nil {
						if retriable, ok := err.(interface{ Retriable() bool }); !ok || !retriable.Retriable() {
							t.Fatalf("trouble of the registry is not retriable: %v", err)
						}
						lastErr = err
					}
					advance(100 * time.Millisecond)
				}
				if trouble.want != "" && (lastErr == nil || !strings.Contains(lastErr.Error(), trouble.want)) {
					t.Errorf("the errors end with %v, want %s", lastErr, trouble.want)
				}
				if n := len(double.recorded()); n > 600 {
					t.Errorf("ten minutes of trouble made %d requests", n)
				}
				if longest != 0 {
					t.Errorf("the longest Deserialize took %v", longest)
				}

				double.recover()
				healed := time.Now()
				for read(late) != nil {
					if time.Since(healed) > time.Minute {
						t.Fatal("reading does not recover")
					}
					advance(100 * time.Millisecond)
				}
				t.Logf("%s: longest call %v, %d requests, recovered after %v", trouble.name, longest, len(double.recorded()), time.Since(healed))
			})
		})
	}
}

// 10000 records, every tenth of an unknown schema: its error ends the record's
// chances, so a policy can skip it; the registry hears of it a few times.
func TestRecordsOfAnUnknownSchemaDoNotHammerTheRegistry(t *testing.T) {
	for _, format := range pollFormats {
		t.Run(format.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				double := newInProcessRegistry(t)
				good := double.register("good-value", NewSchema{Kind: format.kind, Schema: format.known})
				cache := double.cache()
				reader := format.reader(t, cache)
				read := func(id int) error {
					for {
						err := reader(Encode(id, []byte(format.body)))
						pending, ok := errors.AsType[*FetchPendingError](err)
						if !ok {
							return err
						}
						if pending.Done() != nil {
							<-pending.Done()
							continue
						}
						advance(10 * time.Millisecond) // the runner's next round
					}
				}
				skipped := 0
				for i := range 10_000 {
					id := good
					if i%10 == 0 {
						id = 999
					}
					err := read(id)
					if retriable, ok := errors.AsType[*SchemaUnavailableError](err); ok && !retriable.Retriable() && id == 999 {
						skipped++
					} else if err != nil || id == 999 {
						t.Fatalf("record %d of schema %d: %v", i, id, err)
					}
				}
				if skipped != 1000 {
					t.Errorf("%d records were skipped, want 1000", skipped)
				}
				if n := double.count("GET /schemas/ids/999"); n > unknownSchemaTries {
					t.Errorf("the unknown schema was asked for %d times", n)
				}
				if n := double.count(fmt.Sprint("GET /schemas/ids/", good)); n != 1 {
					t.Errorf("the good schema was asked for %d times", n)
				}
			})
		})
	}
}

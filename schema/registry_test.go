// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/krabka-io/krabka-streams-go/internal/registrydouble"
)

// registryDouble is a [registrydouble.Registry] at an address, in the types of
// this package.
type registryDouble struct {
	*registrydouble.Registry
	tb        testing.TB
	url       string
	transport http.RoundTripper // nil for a registry behind a loopback server
}

// newRegistryDouble returns a registry behind a loopback server.
func newRegistryDouble(tb testing.TB) *registryDouble {
	d := &registryDouble{Registry: registrydouble.New(registrydouble.Settings{}), tb: tb}
	server := httptest.NewServer(d)
	tb.Cleanup(server.Close)
	d.url = server.URL
	return d
}

// newInProcessRegistry returns a registry without a network, which a test can run
// in a synctest bubble.
func newInProcessRegistry(tb testing.TB, settings ...registrydouble.Settings) *registryDouble {
	d := &registryDouble{
		Registry: registrydouble.New(append(settings, registrydouble.Settings{})[0]), tb: tb, url: "http://registry.test",
	}
	d.transport = handlerTransport{d}
	return d
}

// handlerTransport answers requests from a handler.
type handlerTransport struct{ handler http.Handler }

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	received := r.Clone(r.Context())
	if received.Body == nil {
		received.Body = http.NoBody
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.handler.ServeHTTP(recorder, received)
	}()
	<-done // a handler that waits ends with the context of its request
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return recorder.Result(), nil
}

// client returns a client of the registry.
func (d *registryDouble) client(options ...RegistryClientOption) *RegistryClient {
	d.tb.Helper()
	if d.transport != nil {
		options = append([]RegistryClientOption{WithHTTPClient(&http.Client{Transport: d.transport})}, options...)
	}
	client, err := NewRegistryClient(d.url, options...)
	if err != nil {
		d.tb.Fatal(err)
	}
	d.tb.Cleanup(client.CloseIdleConnections)
	return client
}

// cache returns a cache over a client of the registry, closed with the test.
func (d *registryDouble) cache(options ...SchemaCacheOption) *SchemaCache {
	d.tb.Helper()
	cache := NewSchemaCache(d.client(), options...)
	d.tb.Cleanup(func() { _ = cache.Close() })
	return cache
}

// register stores a schema without a request and returns its id.
func (d *registryDouble) register(subject string, s NewSchema) int {
	stored := registrydouble.Schema{
		Text: s.Schema, Kind: s.Kind.String(), MessageType: s.MessageType, Metadata: s.Metadata, RuleSet: s.RuleSet,
	}
	for _, reference := range s.References {
		stored.References = append(stored.References, registrydouble.Reference(reference))
	}
	return d.Register(subject, stored)
}

// doubleGUID returns the GUID that the registry gives to the nth schema.
func doubleGUID(n int) GUID { return GUID{0: 0xab, 6: 0x40, 8: 0x80, 15: byte(n)} }

// failing answers every request with status and body until recover is called.
func (d *registryDouble) failing(status int, body string) {
	d.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	})
}

// recover ends all interception.
func (d *registryDouble) recover() { d.Intercept(nil) }

// recorded returns the requests so far, as "METHOD path?query".
func (d *registryDouble) recorded() []string {
	var lines []string
	for _, r := range d.Requests() {
		lines = append(lines, r.Method+" "+r.Path)
	}
	return lines
}

// count returns how many requests were exactly "METHOD path?query".
func (d *registryDouble) count(request string) int {
	n := 0
	for _, line := range d.recorded() {
		if line == request {
			n++
		}
	}
	return n
}

// request returns the nth request, counted from 0.
func (d *registryDouble) request(n int) registrydouble.Request {
	d.tb.Helper()
	requests := d.Requests()
	if n >= len(requests) {
		d.tb.Fatalf("the registry got %d requests, want more than %d", len(requests), n)
	}
	return requests[n]
}

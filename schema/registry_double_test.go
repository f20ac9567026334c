// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// registryDouble is a stateful schema registry for tests: subjects, versions,
// references, soft and hard deletes, levels, modes, GUIDs. It answers over
// loopback HTTP (newRegistryDouble) or in process (newInProcessRegistry), where
// a test can run it in a synctest bubble.
type registryDouble struct {
	tb  testing.TB
	url string
	// transport is set for an in-process double.
	transport http.RoundTripper

	mu       sync.Mutex // guards the fields below
	subjects map[string][]*doubleVersion
	ids      []*doubleSchema // index is id-1
	levels   map[string]string
	modes    map[string]string
	requests []doubleRequest
	// intercept answers a request instead of the double when it returns true.
	// It runs without the lock held.
	intercept func(w http.ResponseWriter, r *http.Request) bool
	// incompatibilities decides on a candidate; nil accepts all.
	incompatibilities func(subject string, history []string, candidate string) []string
	// plain leaves out what old registries do not know: GUIDs, and the version in
	// the answer to a registration.
	plain bool
	// standard ignores message types, as registries other than this library's
	// stub do.
	standard bool
}

type doubleSchema struct {
	id   int
	guid GUID
	body schemaBody
}

type doubleVersion struct {
	number  int
	schema  *doubleSchema
	deleted bool
}

type doubleRequest struct {
	Method string
	Path   string // escaped, with the query
	Header http.Header
	Body   string
}

// newRegistryDouble returns a double behind a loopback server.
func newRegistryDouble(tb testing.TB) *registryDouble {
	d := newDouble(tb)
	server := httptest.NewServer(d)
	tb.Cleanup(server.Close)
	d.url = server.URL
	return d
}

// newInProcessRegistry returns a double without a network.
func newInProcessRegistry(tb testing.TB) *registryDouble {
	d := newDouble(tb)
	d.url = "http://registry.test"
	d.transport = handlerTransport{d}
	return d
}

func newDouble(tb testing.TB) *registryDouble {
	return &registryDouble{
		tb: tb, subjects: map[string][]*doubleVersion{},
		levels: map[string]string{"": "BACKWARD"}, modes: map[string]string{"": "READWRITE"},
	}
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
	select {
	case <-done:
		if r.Context().Err() != nil {
			return nil, r.Context().Err()
		}
		return recorder.Result(), nil
	case <-r.Context().Done():
		<-done
		return nil, r.Context().Err()
	}
}

// client returns a client of the double.
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

// cache returns a cache over a client of the double, closed with the test.
func (d *registryDouble) cache(options ...SchemaCacheOption) *SchemaCache {
	d.tb.Helper()
	cache := NewSchemaCache(d.client(), options...)
	d.tb.Cleanup(func() { _ = cache.Close() })
	return cache
}

// register stores a schema without a request and returns its id.
func (d *registryDouble) register(subject string, schema NewSchema) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.store(subject, schema.body()).schema.id
}

// onRequest sets the interceptor.
func (d *registryDouble) onRequest(intercept func(w http.ResponseWriter, r *http.Request) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.intercept = intercept
}

// failing answers every request with status and body until recover is called.
func (d *registryDouble) failing(status int, body string) {
	d.onRequest(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	})
}

// recover ends all interception.
func (d *registryDouble) recover() { d.onRequest(nil) }

// recorded returns the requests so far, as "METHOD path?query".
func (d *registryDouble) recorded() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines []string
	for _, r := range d.requests {
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
func (d *registryDouble) request(n int) doubleRequest {
	d.tb.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if n >= len(d.requests) {
		d.tb.Fatalf("the registry got %d requests, want more than %d", len(d.requests), n)
	}
	return d.requests[n]
}

func (d *registryDouble) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	d.mu.Lock()
	d.requests = append(d.requests, doubleRequest{
		Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header.Clone(), Body: string(body),
	})
	intercept := d.intercept
	d.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	status, answer := d.answer(r, body)
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func refusal(code int, message string) (int, any) {
	return code / 100, map[string]any{"error_code": code, "message": message}
}

// answer routes one request. Path segments arrive unescaped.
func (d *registryDouble) answer(r *http.Request, body []byte) (int, any) {
	var segments []string
	for segment := range strings.SplitSeq(strings.Trim(r.URL.EscapedPath(), "/"), "/") {
		unescaped := segment
		if u, err := http.NewRequest(http.MethodGet, "http://x/"+segment, nil); err == nil {
			unescaped = strings.TrimPrefix(u.URL.Path, "/")
		}
		segments = append(segments, unescaped)
	}
	at := func(i int) string {
		if i < len(segments) {
			return segments[i]
		}
		return ""
	}
	query := r.URL.Query()
	switch {
	case at(0) == "subjects" && len(segments) == 1:
		return http.StatusOK, d.subjectNames(query.Get("subjectPrefix"), query.Get("deleted") == "true")
	case at(0) == "subjects" && len(segments) == 2 && r.Method == http.MethodPost:
		return d.lookUp(at(1), body)
	case at(0) == "subjects" && len(segments) == 2 && r.Method == http.MethodDelete:
		return d.deleteSubject(at(1), query.Get("permanent") == "true")
	case at(0) == "subjects" && len(segments) == 3 && r.Method == http.MethodPost:
		return d.registerBody(at(1), body)
	case at(0) == "subjects" && len(segments) == 3:
		return d.versionNumbers(at(1), query.Get("deleted") == "true")
	case at(0) == "subjects" && at(4) == "referencedby":
		return d.referencedBy(at(1), at(3))
	case at(0) == "subjects" && len(segments) == 4:
		return d.version(r.Method, at(1), at(3), query.Get("deleted") == "true", query.Get("permanent") == "true")
	case at(0) == "schemas" && at(1) == "types":
		return http.StatusOK, []string{"JSON", "PROTOBUF", "AVRO"}
	case at(0) == "schemas" && at(1) == "ids":
		return d.byID(at(2), at(3))
	case at(0) == "schemas" && at(1) == "guids":
		return d.byGUID(at(2))
	case at(0) == "contexts":
		return http.StatusOK, []string{"."}
	case at(0) == "config":
		return d.setting(r, at(1), body, d.levels, "compatibilityLevel", "compatibility", 40408)
	case at(0) == "mode":
		return d.setting(r, at(1), body, d.modes, "mode", "mode", 40409)
	case at(0) == "compatibility":
		return d.check(at(2), at(4), body)
	}
	return refusal(40400, "HTTP 404 Not Found")
}

func (d *registryDouble) live(subject string) []*doubleVersion {
	var live []*doubleVersion
	for _, v := range d.subjects[subject] {
		if !v.deleted {
			live = append(live, v)
		}
	}
	return live
}

func (d *registryDouble) subjectNames(prefix string, deleted bool) []string {
	names := []string{}
	for name, versions := range d.subjects {
		if strings.HasPrefix(name, prefix) && len(versions) > 0 && (deleted || len(d.live(name)) > 0) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sameBody is the identity of a schema across subjects.
func sameBody(a, b schemaBody) bool {
	a.SchemaType, b.SchemaType = strings.TrimPrefix(a.SchemaType, "AVRO"), strings.TrimPrefix(b.SchemaType, "AVRO")
	return a.Schema == b.Schema && a.SchemaType == b.SchemaType && a.MessageType == b.MessageType &&
		slices.Equal(a.References, b.References)
}

func (d *registryDouble) store(subject string, body schemaBody) *doubleVersion {
	for _, v := range d.live(subject) {
		if sameBody(v.schema.body, body) {
			return v
		}
	}
	var schema *doubleSchema
	for _, known := range d.ids {
		if sameBody(known.body, body) {
			schema = known
		}
	}
	if schema == nil {
		schema = &doubleSchema{id: len(d.ids) + 1, body: body}
		schema.guid = GUID{0: 0xab, 15: byte(schema.id)}
		d.ids = append(d.ids, schema)
	}
	version := &doubleVersion{number: len(d.subjects[subject]) + 1, schema: schema}
	d.subjects[subject] = append(d.subjects[subject], version)
	return version
}

func (d *registryDouble) describe(subject string, v *doubleVersion) map[string]any {
	m := d.describeSchema(v.schema)
	m["id"], m["version"], m["subject"] = v.schema.id, v.number, subject
	return m
}

func (d *registryDouble) describeSchema(s *doubleSchema) map[string]any {
	m := map[string]any{"schema": s.body.Schema}
	if s.body.SchemaType != "" {
		m["schemaType"] = s.body.SchemaType
	}
	if s.body.MessageType != "" {
		m["messageType"] = s.body.MessageType
	}
	if len(s.body.References) > 0 {
		m["references"] = s.body.References
	}
	if len(s.body.Metadata) > 0 {
		m["metadata"] = s.body.Metadata
	}
	if len(s.body.RuleSet) > 0 {
		m["ruleSet"] = s.body.RuleSet
	}
	if !d.plain {
		m["guid"] = s.guid.String()
	}
	return m
}

func (d *registryDouble) registerBody(subject string, raw []byte) (int, any) {
	var body schemaBody
	if json.Unmarshal(raw, &body) != nil || body.Schema == "" {
		return refusal(42201, "Invalid schema")
	}
	if d.standard {
		body.MessageType = ""
	}
	for _, reference := range body.References {
		if _, ok := d.find(reference.Subject, reference.Version); !ok {
			return refusal(42201, fmt.Sprintf("No schema reference found for subject %q and version %d", reference.Subject, reference.Version))
		}
	}
	if d.incompatibilities != nil {
		var history []string
		for _, v := range d.live(subject) {
			history = append(history, v.schema.body.Schema)
		}
		if found := d.incompatibilities(subject, history, body.Schema); len(found) > 0 {
			return refusal(40901, "Schema being registered is incompatible with an earlier schema for subject "+strconv.Quote(subject)+": "+strings.Join(found, "; "))
		}
	}
	v := d.store(subject, body)
	if d.plain {
		return http.StatusOK, map[string]any{"id": v.schema.id}
	}
	return http.StatusOK, d.describe(subject, v)
}

func (d *registryDouble) lookUp(subject string, raw []byte) (int, any) {
	var body schemaBody
	if json.Unmarshal(raw, &body) != nil || body.Schema == "" {
		return refusal(42201, "Invalid schema")
	}
	if d.standard {
		body.MessageType = ""
	}
	if len(d.live(subject)) == 0 {
		return refusal(40401, "Subject '"+subject+"' not found.")
	}
	for _, v := range d.live(subject) {
		if sameBody(v.schema.body, body) {
			return http.StatusOK, d.describe(subject, v)
		}
	}
	return refusal(40403, "Schema not found")
}

func (d *registryDouble) versionNumbers(subject string, deleted bool) (int, any) {
	numbers := []int{}
	for _, v := range d.subjects[subject] {
		if deleted || !v.deleted {
			numbers = append(numbers, v.number)
		}
	}
	if len(numbers) == 0 {
		return refusal(40401, "Subject '"+subject+"' not found.")
	}
	return http.StatusOK, numbers
}

func (d *registryDouble) find(subject string, number int) (*doubleVersion, bool) {
	for _, v := range d.subjects[subject] {
		if v.number == number {
			return v, true
		}
	}
	return nil, false
}

func (d *registryDouble) version(method, subject, which string, deleted, permanent bool) (int, any) {
	live := d.live(subject)
	if len(live) == 0 && !deleted && !permanent {
		return refusal(40401, "Subject '"+subject+"' not found.")
	}
	number, err := strconv.Atoi(which)
	if which == "latest" || which == "-1" {
		number = live[len(live)-1].number
	} else if err != nil || number < 1 {
		return refusal(42202, "The specified version '"+which+"' is not a valid version id.")
	}
	v, ok := d.find(subject, number)
	switch {
	case !ok, v.deleted && !deleted && !permanent:
		return refusal(40402, "Version "+which+" not found.")
	case method != http.MethodDelete:
		return http.StatusOK, d.describe(subject, v)
	case len(d.referrers(subject, number)) > 0:
		return refusal(42206, "One or more references exist to the schema")
	case permanent && !v.deleted:
		return refusal(40407, "Subject '"+subject+"' Version "+which+" was not deleted first before being permanently deleted")
	case permanent:
		d.subjects[subject] = slices.DeleteFunc(d.subjects[subject], func(other *doubleVersion) bool { return other == v })
	}
	v.deleted = true
	return http.StatusOK, number
}

func (d *registryDouble) referrers(subject string, number int) []int {
	ids := []int{}
	for _, s := range d.ids {
		for _, reference := range s.body.References {
			if reference.Subject == subject && reference.Version == number {
				ids = append(ids, s.id)
			}
		}
	}
	return ids
}

func (d *registryDouble) referencedBy(subject, which string) (int, any) {
	number, _ := strconv.Atoi(which)
	return http.StatusOK, d.referrers(subject, number)
}

func (d *registryDouble) deleteSubject(subject string, permanent bool) (int, any) {
	numbers := []int{}
	for _, v := range d.subjects[subject] {
		switch {
		case permanent && !v.deleted:
			return refusal(40405, "Subject '"+subject+"' was not deleted first before being permanently deleted")
		case permanent || !v.deleted:
			numbers = append(numbers, v.number)
		}
	}
	if len(numbers) == 0 {
		return refusal(40401, "Subject '"+subject+"' not found.")
	}
	for _, v := range d.subjects[subject] {
		v.deleted = true
	}
	if permanent {
		delete(d.subjects, subject)
	}
	return http.StatusOK, numbers
}

func (d *registryDouble) byID(which, rest string) (int, any) {
	id, _ := strconv.Atoi(which)
	if id < 1 || id > len(d.ids) {
		return refusal(40403, "Schema "+which+" not found")
	}
	schema := d.ids[id-1]
	places := []SubjectVersion{}
	subjects := []string{}
	for _, subject := range d.subjectNames("", false) {
		for _, v := range d.live(subject) {
			if v.schema == schema {
				places = append(places, SubjectVersion{Subject: subject, Version: v.number})
				subjects = append(subjects, subject)
			}
		}
	}
	switch rest {
	case "versions":
		return http.StatusOK, places
	case "subjects":
		return http.StatusOK, subjects
	default:
		return http.StatusOK, d.describeSchema(schema)
	}
}

func (d *registryDouble) byGUID(which string) (int, any) {
	for _, schema := range d.ids {
		if schema.guid.String() == which {
			return http.StatusOK, d.describeSchema(schema)
		}
	}
	return refusal(40403, "Schema not found")
}

func (d *registryDouble) setting(r *http.Request, subject string, raw []byte, values map[string]string, getKey, putKey string, missing int) (int, any) {
	switch r.Method {
	case http.MethodPut:
		var body map[string]string
		if json.Unmarshal(raw, &body) != nil || body[putKey] == "" {
			return refusal(42203, "Invalid compatibility level. Valid values are none, backward, forward and full")
		}
		values[subject] = body[putKey]
		return http.StatusOK, body
	case http.MethodDelete:
		old := values[subject]
		delete(values, subject)
		return http.StatusOK, map[string]string{getKey: old}
	}
	value, ok := values[subject]
	if !ok && r.URL.Query().Get("defaultToGlobal") == "true" {
		value, ok = values[""], true
	}
	if !ok {
		return refusal(missing, "Subject '"+subject+"' does not have subject-level configuration")
	}
	return http.StatusOK, map[string]string{getKey: value}
}

func (d *registryDouble) check(subject, version string, raw []byte) (int, any) {
	var body schemaBody
	if json.Unmarshal(raw, &body) != nil || body.Schema == "" {
		return refusal(42201, "Invalid schema")
	}
	live := d.live(subject)
	if version != "" && len(live) == 0 {
		return refusal(40401, "Subject '"+subject+"' not found.")
	}
	var history []string
	for _, v := range live {
		history = append(history, v.schema.body.Schema)
	}
	found := []string{}
	if d.incompatibilities != nil {
		found = append(found, d.incompatibilities(subject, history, body.Schema)...)
	}
	return http.StatusOK, map[string]any{"is_compatible": len(found) == 0, "messages": found}
}

// SPDX-License-Identifier: Apache-2.0

// Package registrydouble is a schema registry in the process of a test: the calls
// of a Confluent-compatible registry, over state that lives in memory.
//
// Package krabkatest offers it to users, and the tests of package schema use it
// directly, since they cannot import krabkatest. It knows the protocol alone:
// schemas are texts to it, and nothing is parsed.
package registrydouble

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// MediaType is the content type of all answers.
const MediaType = "application/vnd.schemaregistry.v1+json"

// Reference is a schema that another one refers to by Name.
type Reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// Schema is a schema as it is registered. The text of its kind is AVRO, PROTOBUF
// or JSON; empty stands for AVRO.
type Schema struct {
	Text        string          `json:"schema"`
	Kind        string          `json:"schemaType,omitempty"`
	MessageType string          `json:"messageType,omitempty"`
	References  []Reference     `json:"references,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	RuleSet     json.RawMessage `json:"ruleSet,omitempty"`
}

// same reports whether two schemas are one to the registry.
func (s Schema) same(other Schema) bool {
	return s.Text == other.Text && s.Kind == other.Kind && s.MessageType == other.MessageType &&
		slices.Equal(s.References, other.References) &&
		bytes.Equal(s.Metadata, other.Metadata) && bytes.Equal(s.RuleSet, other.RuleSet)
}

// Settings are what a registry may do otherwise than others. They are set before
// the first request.
type Settings struct {
	// Plain leaves out what old registries do not know: GUIDs, and the version in
	// the answer to a registration.
	Plain bool
	// WithoutMessageTypes ignores message types, as most registries do.
	WithoutMessageTypes bool
	// Incompatibilities decides on a candidate by the versions before, oldest first,
	// and the compatibility level of the subject; nil accepts every schema.
	Incompatibilities func(level string, history []Schema, candidate Schema) []string
}

// Request is one request that the registry got.
type Request struct {
	Method string
	Path   string // escaped, with the query
	Header http.Header
	Body   string
}

// Registry is the registry. It is an [http.Handler] and safe for concurrent use.
// Make one with [New].
type Registry struct {
	settings Settings

	mu        sync.Mutex // guards what follows
	contexts  map[string]*idSpace
	subjects  map[string][]*version // by full name
	levels    map[string]string     // by subject; "" is the default
	modes     map[string]string
	requests  []Request
	intercept func(w http.ResponseWriter, r *http.Request) bool
}

// idSpace is the schemas of one context; the index is the id less one.
type idSpace struct{ schemas []*stored }

type stored struct {
	id     int
	guid   string
	schema Schema
}

type version struct {
	number  int
	schema  *stored
	deleted bool
}

// New returns an empty registry.
func New(settings Settings) *Registry {
	return &Registry{
		settings: settings,
		contexts: map[string]*idSpace{defaultContext: {}},
		subjects: map[string][]*version{},
		levels:   map[string]string{"": "BACKWARD"},
		modes:    map[string]string{"": "READWRITE"},
	}
}

// Register stores a schema without a request, and returns its id.
func (r *Registry) Register(subject string, schema Schema) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store(subject, r.normal(schema)).schema.id
}

// Intercept makes intercept see every request before the registry: where it returns
// true it has answered. It runs without a lock held. Nil ends that.
func (r *Registry) Intercept(intercept func(w http.ResponseWriter, request *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intercept = intercept
}

// Requests returns all requests so far, those that were intercepted among them.
func (r *Registry) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// ServeHTTP answers one request.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // the client has gone
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	r.requests = append(r.requests, Request{
		Method: request.Method, Path: request.URL.RequestURI(), Header: request.Header.Clone(), Body: string(body),
	})
	intercept := r.intercept
	r.mu.Unlock()
	if intercept != nil && intercept(w, request) {
		return
	}
	status, answer := r.answer(request, body)
	w.Header().Set("Content-Type", MediaType)
	w.WriteHeader(status)
	// The client may have gone; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(answer)
}

// refusal is an answer with an error code, whose first three digits are the HTTP
// status.
func refusal(code int, message string, args ...any) (int, any) {
	return code / 100, map[string]any{"error_code": code, "message": fmt.Sprintf(message, args...)}
}

// answer routes one request.
func (r *Registry) answer(request *http.Request, body []byte) (int, any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var path []string
	for segment := range strings.SplitSeq(strings.Trim(request.URL.EscapedPath(), "/"), "/") {
		if plain, err := url.PathUnescape(segment); err == nil {
			segment = plain
		}
		path = append(path, segment)
	}
	length := len(path)
	path = append(path, make([]string, 6)...)
	query := request.URL.Query()
	deleted, permanent := query.Get("deleted") == "true", query.Get("permanent") == "true"
	get, post, remove := request.Method == http.MethodGet, request.Method == http.MethodPost, request.Method == http.MethodDelete
	switch path[0] {
	case "subjects":
		subject := path[1]
		switch {
		case length == 1 && get:
			return http.StatusOK, r.names(query.Get("subjectPrefix"), deleted)
		case length == 2 && post:
			return r.lookUp(subject, body)
		case length == 2 && remove:
			return r.deleteSubject(subject, permanent)
		case length == 3 && path[2] == "versions" && post:
			return r.register(subject, body)
		case length == 3 && path[2] == "versions" && get:
			return r.numbers(subject, deleted)
		case length == 4 && path[2] == "versions" && (get || remove):
			return r.version(remove, subject, path[3], deleted, permanent)
		case length == 5 && path[4] == "referencedby" && get:
			number, _ := strconv.Atoi(path[3])
			return http.StatusOK, r.referrers(subject, number)
		}
	case "schemas":
		switch {
		case path[1] == "types" && get:
			return http.StatusOK, []string{"JSON", "PROTOBUF", "AVRO"}
		case path[1] == "ids" && get:
			return r.byID(path[2], path[3], query.Get("subject"))
		case path[1] == "guids" && get:
			return r.byGUID(path[2])
		}
	case "contexts":
		if get {
			return http.StatusOK, r.contextNames()
		}
	case "config":
		return r.setting(request, path[1], body, r.levels, "compatibilityLevel", "compatibility", 40408)
	case "mode":
		return r.setting(request, path[1], body, r.modes, "mode", "mode", 40409)
	case "compatibility":
		if post {
			return r.check(path[2], path[4], body)
		}
	}
	return refusal(40401, "HTTP 404 Not Found")
}

// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/registrydouble"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// SchemaRegistryStub is a schema registry in the process of the test, at an address
// of the loopback interface. It answers the calls of a Confluent-compatible
// registry: subjects, versions, schemas by id and GUID, references, contexts, soft
// and permanent deletes, compatibility, modes. It parses no schema, so every text
// is accepted unless [SchemaRegistryStub.CheckCompatibility] says otherwise.
//
// A SchemaRegistryStub is safe for concurrent use by multiple goroutines.
type SchemaRegistryStub struct {
	registry *registrydouble.Registry
	address  string

	mu     sync.Mutex // guards what follows
	server *http.Server
	served chan struct{} // closed when server has ended
	closed bool
	faults []*registryFault
	delay  time.Duration
	checks bool
}

// registryFault is an answer in place of that of the registry.
type registryFault struct {
	status, code int
	left         int // requests; negative for all
}

// NewSchemaRegistryStub starts an empty registry. The caller closes it.
func NewSchemaRegistryStub() (*SchemaRegistryStub, error) {
	s := &SchemaRegistryStub{}
	s.registry = registrydouble.New(registrydouble.Settings{Incompatibilities: s.incompatibilities})
	s.registry.Intercept(s.disturb)
	if err := s.listen("127.0.0.1:0"); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *SchemaRegistryStub) listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("krabkatest: start the schema registry stub: %w", err)
	}
	s.address = listener.Addr().String()
	server, served := &http.Server{Handler: s.registry}, make(chan struct{})
	s.server, s.served = server, served
	go func() {
		defer close(served)
		// Serve returns when the server is closed, and has nothing else to say.
		_ = server.Serve(listener)
	}()
	return nil
}

// URL returns the address of the registry, without a slash at its end.
func (s *SchemaRegistryStub) URL() string { return "http://" + s.address }

// Close ends the registry at once; requests that are not answered fail. Counts of
// requests stay readable. A second Close does nothing.
func (s *SchemaRegistryStub) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.Stop()
}

// Stop makes the registry unreachable until [SchemaRegistryStub.Start]: connections
// are refused. Its schemas are kept.
func (s *SchemaRegistryStub) Stop() error {
	s.mu.Lock()
	server, served := s.server, s.served
	s.server = nil
	s.mu.Unlock()
	if server == nil {
		return nil
	}
	err := server.Close()
	<-served
	return err
}

// Start makes the registry reachable again at its address.
func (s *SchemaRegistryStub) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errors.New("krabkatest: the schema registry stub is closed")
	case s.server != nil:
		return nil
	}
	return s.listen(s.address)
}

// Register stores a schema without a request, and returns its id. References are
// not checked.
func (s *SchemaRegistryStub) Register(subject string, kind schema.Kind, text, messageType string, references ...schema.SchemaReference) int {
	stored := registrydouble.Schema{Text: text, Kind: kind.String(), MessageType: messageType}
	for _, reference := range references {
		stored.References = append(stored.References, registrydouble.Reference(reference))
	}
	return s.registry.Register(subject, stored)
}

// RequestCount returns how many requests had the method and the path, which is
// escaped and has no query. Requests that failed count too.
func (s *SchemaRegistryStub) RequestCount(method, path string) int {
	n := 0
	for _, request := range s.registry.Requests() {
		got, _, _ := strings.Cut(request.Path, "?")
		if request.Method == method && got == path {
			n++
		}
	}
	return n
}

// FailNext makes the next requests, times of them, fail with an HTTP status and the
// registry's own error code. Several calls queue up. With a negative number all
// requests fail until [SchemaRegistryStub.Recover].
func (s *SchemaRegistryStub) FailNext(times, status, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if times != 0 {
		s.faults = append(s.faults, &registryFault{status: status, code: code, left: times})
	}
}

// Delay makes every answer wait so long, or until the client gives up.
func (s *SchemaRegistryStub) Delay(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = delay
}

// Recover ends all faults and delays.
func (s *SchemaRegistryStub) Recover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.delay = nil, 0
}

// CheckCompatibility makes the registry refuse schemas that the compatibility level
// of their subject does not allow, with the error code 40901. The level is BACKWARD
// unless a request has set another one. Schemas with references are not checked.
func (s *SchemaRegistryStub) CheckCompatibility() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks = true
}

func (s *SchemaRegistryStub) incompatibilities(level string, history []registrydouble.Schema, candidate registrydouble.Schema) []string {
	s.mu.Lock()
	checks := s.checks
	s.mu.Unlock()
	if !checks || len(history) == 0 || len(candidate.References) > 0 {
		return nil
	}
	mode, err := schema.ParseCompatibilityMode(level)
	if err != nil {
		return []string{err.Error()}
	}
	var before []schema.ResolvedSchema
	for _, earlier := range history {
		if earlier.Kind != candidate.Kind {
			return []string{"the schemas before are of another kind"}
		}
		before = append(before, schema.ResolvedSchema{Schema: earlier.Text})
	}
	var result schema.CompatibilityResult
	next := schema.ResolvedSchema{Schema: candidate.Text}
	switch candidate.Kind {
	case schema.KindProtobuf.String():
		result, err = schema.CheckProtobufCompatibility(before, next, mode)
	case schema.KindJSON.String():
		result, err = schema.CheckJSONCompatibility(before, next, mode)
	default:
		result, err = schema.CheckAvroCompatibility(before, next, mode)
	}
	if err != nil {
		return []string{err.Error()}
	}
	return result.Incompatibilities
}

// disturb answers a request in place of the registry where a fault waits.
func (s *SchemaRegistryStub) disturb(w http.ResponseWriter, request *http.Request) bool {
	s.mu.Lock()
	delay := s.delay
	var fault *registryFault
	if len(s.faults) > 0 {
		fault = s.faults[0]
		if fault.left--; fault.left == 0 {
			s.faults = s.faults[1:]
		}
	}
	s.mu.Unlock()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-request.Context().Done():
			return true
		}
	}
	if fault == nil {
		return false
	}
	w.Header().Set("Content-Type", registrydouble.MediaType)
	w.WriteHeader(fault.status)
	// The client may have gone; there is nobody else to tell.
	_, _ = io.WriteString(w, fmt.Sprintf(`{"error_code":%d,"message":"fault of the test"}`, fault.code))
	return true
}

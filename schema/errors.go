// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// What a registry refuses, to be matched with [errors.Is] against a
// [*RegistryError] anywhere in the chain.
var (
	// ErrNotFound matches every answer with status 404.
	ErrNotFound = errors.New("not found in the schema registry")
	// ErrSubjectNotFound matches error code 40401.
	ErrSubjectNotFound = errors.New("subject not found")
	// ErrVersionNotFound matches error code 40402.
	ErrVersionNotFound = errors.New("version not found")
	// ErrSchemaNotFound matches error code 40403.
	ErrSchemaNotFound = errors.New("schema not found")
	// ErrNotConfigured matches error codes 40408 and 40409: the subject has no
	// compatibility level or mode of its own.
	ErrNotConfigured = errors.New("not configured for the subject")
	// ErrIncompatible matches status 409: the schema breaks the subject's
	// compatibility level.
	ErrIncompatible = errors.New("incompatible schema")
	// ErrInvalidSchema matches error code 42201.
	ErrInvalidSchema = errors.New("invalid schema")
	// ErrReferenceExists matches error code 42206: another schema still refers to
	// the version.
	ErrReferenceExists = errors.New("schema is referenced")
	// ErrUnauthorized matches statuses 401 and 403.
	ErrUnauthorized = errors.New("not authorized")
)

var (
	// ErrInvalidOption is wrapped by every error about an option.
	ErrInvalidOption = errors.New("invalid option")
	// ErrCacheClosed says that a schema is not cached and the cache has been
	// closed.
	ErrCacheClosed = errors.New("schema cache is closed")
	// ErrReferenceConflict says that two different schemas carry one reference
	// name.
	ErrReferenceConflict = errors.New("conflicting schema references")
)

var sentinelByCode = map[int]error{
	40401: ErrSubjectNotFound,
	40402: ErrVersionNotFound,
	40403: ErrSchemaNotFound,
	40408: ErrNotConfigured,
	40409: ErrNotConfigured,
	42201: ErrInvalidSchema,
	42206: ErrReferenceExists,
}

// RegistryError is a request that did not get a usable answer.
type RegistryError struct {
	// StatusCode is the HTTP status, or -1 when there was no answer or it could
	// not be read.
	StatusCode int
	// ErrorCode is the registry's own code, such as 40401, or 0.
	ErrorCode int
	// Message is the registry's explanation, or "".
	Message string
	// Method and URL are the last request, without credentials.
	Method string
	URL    string
	// RetryAfter is how long the registry asked to wait, or 0.
	RetryAfter time.Duration

	text      string
	cause     error
	retriable bool // for StatusCode -1; other statuses speak for themselves
}

// Error returns the status and the body, or what was wrong with the request or
// the answer.
func (e *RegistryError) Error() string {
	text := e.text
	if text == "" {
		text = fmt.Sprintf("schema registry returned HTTP %d", e.StatusCode)
		if e.Message != "" {
			text += ": " + e.Message
		}
	}
	if e.cause != nil {
		return text + ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns the underlying cause, or nil.
func (e *RegistryError) Unwrap() error { return e.cause }

// Is matches the sentinels of this package by error code and status.
func (e *RegistryError) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.StatusCode == http.StatusNotFound
	case ErrIncompatible:
		return e.StatusCode == http.StatusConflict
	case ErrUnauthorized:
		return e.StatusCode == http.StatusUnauthorized || e.StatusCode == http.StatusForbidden
	}
	sentinel, ok := sentinelByCode[e.ErrorCode]
	return ok && sentinel == target
}

// Retriable reports whether the same request may succeed later: no answer or
// one that could not be read, status 408 or 429, and server errors other than
// 501 and 505.
func (e *RegistryError) Retriable() bool {
	if e.StatusCode == -1 {
		return e.retriable
	}
	switch e.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return e.StatusCode >= 500
}

// FetchPendingError says that a writer schema is not cached yet and is being
// fetched in the background. The record may be read again later; Unwrap tells
// why an earlier attempt failed.
type FetchPendingError struct {
	SchemaID int
	Context  string // of the registry that the id belongs to; "" is the default one

	guid  string
	cause error
	done  <-chan struct{}
}

// Error names the schema and the last failure, if there was one.
func (e *FetchPendingError) Error() string {
	return withCause(fmt.Sprintf("writer schema for id %s is pending fetch", schemaNameIn(e.Context, e.SchemaID, e.guid)), e.cause)
}

// Retriable is always true.
func (e *FetchPendingError) Retriable() bool { return true }

// Unwrap returns why the last attempt failed, or nil.
func (e *FetchPendingError) Unwrap() error { return e.cause }

// Done returns a channel that is closed when the running attempt ends, well or
// not. It is nil when no attempt runs, as between two attempts.
func (e *FetchPendingError) Done() <-chan struct{} { return e.done }

// SchemaUnavailableError says that the registry refused a writer schema, as it
// does for an unknown id or bad credentials. The record cannot be read; the
// cache asks the registry again only after RetryAt.
type SchemaUnavailableError struct {
	SchemaID int
	Context  string // of the registry that the id belongs to; "" is the default one
	GUID     string // set when the record named a GUID instead of an id
	RetryAt  time.Time

	// The serde that asked; unset where the cache was asked itself.
	Subject string // of the serde for the record's topic
	Kind    Kind

	cause error
}

// Error names the schema, the registry's refusal, and whose record it is.
func (e *SchemaUnavailableError) Error() string {
	text := withCause(fmt.Sprintf("writer schema for id %s is not available", schemaNameIn(e.Context, e.SchemaID, e.GUID)), e.cause)
	if e.Subject == "" {
		return text
	}
	return fmt.Sprintf("%s (%v, subject %s)", text, e.Kind, e.Subject)
}

// Retriable is always false.
func (e *SchemaUnavailableError) Retriable() bool { return false }

// Unwrap returns the registry's refusal.
func (e *SchemaUnavailableError) Unwrap() error { return e.cause }

// UnresolvedSubjectError says that a serde has no id to write under. Unwrap
// tells why the last prewarm failed, if one ran.
type UnresolvedSubjectError struct {
	Subject string
	Kind    Kind // of the serde

	cause error
}

// Error names the subject and what to call.
func (e *UnresolvedSubjectError) Error() string {
	return fmt.Sprintf("schema ID for %s is not resolved; call RegisterSubject and prewarm first", e.Subject)
}

// Unwrap returns why the last prewarm failed, or nil.
func (e *UnresolvedSubjectError) Unwrap() error { return e.cause }

// SerializeError says that a value cannot be written under the schema of its
// subject. Unwrap tells why, and which element of the value it is: an
// [*AvroValueError], a [*ProtobufValueError], a [*ProtobufMessageError], a
// [*ValidationError], or an error of the codec.
type SerializeError struct {
	Subject  string // of the serde for the topic
	SchemaID int    // that the payload would carry; 0 when the serde has no schema for the value
	Kind     Kind   // of the serde

	cause error
}

// Error tells the cause, and whose value it is.
func (e *SerializeError) Error() string {
	schema := e.Kind.String()
	if e.SchemaID != 0 {
		schema += " schema " + schemaName(e.SchemaID, "")
	}
	return fmt.Sprintf("cannot serialize schema value: %v (%s, subject %s)", e.cause, schema, e.Subject)
}

// Unwrap returns what is wrong with the value or the schema.
func (e *SerializeError) Unwrap() error { return e.cause }

// FrameError says that a payload or header is not a frame.
type FrameError struct {
	Offset int // where reading stopped, in bytes from the start of the part named by the message

	// The serde that was reading; unset where a frame was decoded without one.
	Subject string // of the serde for the record's topic
	Kind    Kind

	// What the frame names, once a serde has read it.
	SchemaID int
	GUID     string // set when the record named a GUID instead of an id

	identified bool // SchemaID or GUID is set
	reason     string
}

// Error tells what is wrong with the frame, and whose it is.
func (e *FrameError) Error() string {
	switch {
	case e.Subject == "":
		return e.reason
	case !e.identified:
		return fmt.Sprintf("%s at byte %d (%v, subject %s)", e.reason, e.Offset, e.Kind, e.Subject)
	default:
		return fmt.Sprintf("%s at byte %d (%v schema %s, subject %s)",
			e.reason, e.Offset, e.Kind, schemaName(e.SchemaID, e.GUID), e.Subject)
	}
}

// DeserializeError says that a payload cannot be read although its frame is
// good: the body is not what the writer's schema says, or that schema is none
// that the serde can read. Unwrap tells which.
type DeserializeError struct {
	Subject  string // of the serde for the record's topic
	SchemaID int    // the writer's, as the record states it
	GUID     string // set when the record named a GUID instead of an id
	Kind     Kind   // of the serde

	cause error
}

// Error tells the cause, and whose payload it is.
func (e *DeserializeError) Error() string {
	return fmt.Sprintf("cannot deserialize schema value: %v (%v schema %s, subject %s)",
		e.cause, e.Kind, schemaName(e.SchemaID, e.GUID), e.Subject)
}

// Unwrap returns what is wrong with the body or the writer's schema.
func (e *DeserializeError) Unwrap() error { return e.cause }

func schemaName(id int, guid string) string {
	if guid != "" {
		return guid
	}
	return fmt.Sprint(uint32(id))
}

// schemaNameIn is schemaName with the registry context of an id.
func schemaNameIn(context string, id int, guid string) string {
	if context == "" {
		return schemaName(id, guid)
	}
	return schemaName(id, guid) + " in context " + context
}

func withCause(text string, cause error) string {
	if cause == nil {
		return text
	}
	return text + ": " + cause.Error()
}

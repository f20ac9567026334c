// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// RequestOption adds a query parameter to one request.
type RequestOption func(url.Values)

// WithNormalize has the registry compare and store the schema in its normal
// form, in which the order of fields that do not matter is fixed.
func WithNormalize() RequestOption { return WithQuery("normalize", "true") }

// WithDeleted includes soft-deleted subjects, versions and schemas.
func WithDeleted() RequestOption { return WithQuery("deleted", "true") }

// WithDeletedOnly lists soft-deleted subjects or versions alone.
func WithDeletedOnly() RequestOption { return WithQuery("deletedOnly", "true") }

// WithSubjectPrefix lists subjects that begin with prefix. The prefix of a
// context is ":.name:".
func WithSubjectPrefix(prefix string) RequestOption { return WithQuery("subjectPrefix", prefix) }

// WithSubject names the subject, and so the context, in which an id is looked
// up.
func WithSubject(subject string) RequestOption { return WithQuery("subject", subject) }

// WithQuery sets any other query parameter that the registry knows.
func WithQuery(key, value string) RequestOption {
	return func(query url.Values) { query.Set(key, value) }
}

func queryOf(options []RequestOption) url.Values {
	if len(options) == 0 {
		return nil
	}
	query := url.Values{}
	for _, option := range options {
		option(query)
	}
	return query
}

// schemaBody is a schema as requests carry it.
type schemaBody struct {
	Schema      string            `json:"schema"`
	SchemaType  string            `json:"schemaType,omitempty"`
	MessageType string            `json:"messageType,omitempty"`
	References  []SchemaReference `json:"references,omitempty"`
	Metadata    json.RawMessage   `json:"metadata,omitempty"`
	RuleSet     json.RawMessage   `json:"ruleSet,omitempty"`
}

func (s NewSchema) body() schemaBody {
	return schemaBody{
		Schema:      s.Schema,
		SchemaType:  s.Kind.wireName(),
		MessageType: s.MessageType,
		References:  s.References,
		Metadata:    s.Metadata,
		RuleSet:     s.RuleSet,
	}
}

// callFor is call for a path with a subject in it. The empty name, which would
// address another resource, is an error.
func (c *RegistryClient) callFor(ctx context.Context, method, prefix, subject, rest string, query url.Values, body any) ([]byte, error) {
	if subject == "" {
		return nil, errors.New("subject must not be empty")
	}
	return c.call(ctx, request{method: method, path: prefix + url.PathEscape(subject) + rest, query: query, body: body})
}

// Register makes a schema the latest version of subject and returns its global
// id. An identical schema keeps its id. The errors [ErrIncompatible] and
// [ErrInvalidSchema] match the registry's refusals.
func (c *RegistryClient) Register(ctx context.Context, subject string, kind Kind, schemaText, messageType string, references ...SchemaReference) (int, error) {
	registered, err := c.RegisterSchema(ctx, subject, NewSchema{
		Kind: kind, Schema: schemaText, MessageType: messageType, References: references,
	})
	return registered.ID, err
}

// RegisterSchema is [RegistryClient.Register] that returns everything the
// registry answers: at least the ID, in newer registries also version and GUID.
func (c *RegistryClient) RegisterSchema(ctx context.Context, subject string, schema NewSchema, options ...RequestOption) (RegisteredSchema, error) {
	return c.registered(c.callFor(ctx, http.MethodPost, "/subjects/", subject, "/versions", queryOf(options), schema.body()))
}

// Lookup returns the global id of an identical schema in subject. Without one
// the error matches [ErrNotFound].
func (c *RegistryClient) Lookup(ctx context.Context, subject string, kind Kind, schemaText, messageType string, references ...SchemaReference) (int, error) {
	registered, err := c.LookupSchema(ctx, subject, NewSchema{
		Kind: kind, Schema: schemaText, MessageType: messageType, References: references,
	})
	return registered.ID, err
}

// LookupSchema is [RegistryClient.Lookup] that returns the version as well.
func (c *RegistryClient) LookupSchema(ctx context.Context, subject string, schema NewSchema, options ...RequestOption) (RegisteredSchema, error) {
	return c.registered(c.callFor(ctx, http.MethodPost, "/subjects/", subject, "", queryOf(options), schema.body()))
}

// Latest returns the latest version of subject.
func (c *RegistryClient) Latest(ctx context.Context, subject string) (RegisteredSchema, error) {
	return c.registered(c.callFor(ctx, http.MethodGet, "/subjects/", subject, "/versions/latest", nil, nil))
}

// LatestID returns the global id of the latest version of subject.
func (c *RegistryClient) LatestID(ctx context.Context, subject string) (int, error) {
	latest, err := c.Latest(ctx, subject)
	return latest.ID, err
}

// LatestWithMetadata returns the latest version of subject whose metadata has all
// of the properties. Without one the error matches [ErrNotFound].
func (c *RegistryClient) LatestWithMetadata(ctx context.Context, subject string, properties map[string]string, options ...RequestOption) (RegisteredSchema, error) {
	query := queryOf(options)
	if query == nil {
		query = url.Values{}
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		query.Add("key", key)
		query.Add("value", properties[key])
	}
	return c.registered(c.callFor(ctx, http.MethodGet, "/subjects/", subject, "/metadata", query, nil))
}

// Version returns one version of subject.
func (c *RegistryClient) Version(ctx context.Context, subject string, version int) (RegisteredSchema, error) {
	return c.FindVersion(ctx, subject, version)
}

// FindVersion is [RegistryClient.Version] with options: [WithDeleted] finds a
// soft-deleted version too.
func (c *RegistryClient) FindVersion(ctx context.Context, subject string, version int, options ...RequestOption) (RegisteredSchema, error) {
	return c.registered(c.callFor(ctx, http.MethodGet, "/subjects/", subject, "/versions/"+strconv.Itoa(version), queryOf(options), nil))
}

func (c *RegistryClient) registered(data []byte, err error) (RegisteredSchema, error) {
	if err != nil {
		return RegisteredSchema{}, err
	}
	object, err := parseObject(data)
	if err != nil {
		return RegisteredSchema{}, err
	}
	return object.registered()
}

// ReferencedBy returns the ids of the schemas that refer to a version.
func (c *RegistryClient) ReferencedBy(ctx context.Context, subject string, version int, options ...RequestOption) ([]int, error) {
	return arrayOf[int](c.callFor(ctx, http.MethodGet, "/subjects/", subject, "/versions/"+strconv.Itoa(version)+"/referencedby", queryOf(options), nil))
}

// Subjects returns the names of all subjects.
func (c *RegistryClient) Subjects(ctx context.Context) ([]string, error) {
	return c.FindSubjects(ctx)
}

// FindSubjects is [RegistryClient.Subjects] with options: [WithSubjectPrefix],
// [WithDeleted], [WithDeletedOnly].
func (c *RegistryClient) FindSubjects(ctx context.Context, options ...RequestOption) ([]string, error) {
	return listOf[string](ctx, c, "/subjects", options)
}

// Versions returns the version numbers of subject.
func (c *RegistryClient) Versions(ctx context.Context, subject string) ([]int, error) {
	return c.FindVersions(ctx, subject)
}

// FindVersions is [RegistryClient.Versions] with options: [WithDeleted],
// [WithDeletedOnly].
func (c *RegistryClient) FindVersions(ctx context.Context, subject string, options ...RequestOption) ([]int, error) {
	return arrayOf[int](c.callFor(ctx, http.MethodGet, "/subjects/", subject, "/versions", queryOf(options), nil))
}

// listOf gets an array.
func listOf[T any](ctx context.Context, c *RegistryClient, path string, options []RequestOption) ([]T, error) {
	return arrayOf[T](c.call(ctx, request{method: http.MethodGet, path: path, query: queryOf(options)}))
}

// arrayOf reads an answer that is an array.
func arrayOf[T any](data []byte, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return parseArray[T](data)
}

func permanently(permanent bool) url.Values {
	if !permanent {
		return nil
	}
	return url.Values{"permanent": {"true"}}
}

// DeleteSubject soft-deletes all versions of subject, or removes for good what
// is soft-deleted already, and returns the version numbers.
func (c *RegistryClient) DeleteSubject(ctx context.Context, subject string, permanent bool) ([]int, error) {
	return arrayOf[int](c.callFor(ctx, http.MethodDelete, "/subjects/", subject, "", permanently(permanent), nil))
}

// DeleteVersion soft-deletes one version, or removes for good a soft-deleted
// one, and returns its number.
func (c *RegistryClient) DeleteVersion(ctx context.Context, subject string, version int, permanent bool) (int, error) {
	data, err := c.callFor(ctx, http.MethodDelete, "/subjects/", subject, "/versions/"+strconv.Itoa(version), permanently(permanent), nil)
	if err != nil {
		return 0, err
	}
	deleted, err := parseInteger(data)
	if err != nil {
		return 0, unreadable("cannot parse schema registry response", errors.New(strings.ToValidUTF8(err.Error(), "?")))
	}
	return deleted, nil
}

// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
)

const (
	// maxReferenceDepth bounds how deeply schemas may refer to each other.
	maxReferenceDepth = 64
	// maxReferences bounds how many schemas one schema may reach.
	maxReferences = 1024
)

func idPath(schemaID int) string {
	return "/schemas/ids/" + strconv.FormatUint(uint64(uint32(schemaID)), 10)
}

// SchemaByID returns a schema by its global id, without what it refers to.
func (c *RegistryClient) SchemaByID(ctx context.Context, schemaID int) (FetchedSchema, error) {
	return c.FindSchemaByID(ctx, schemaID)
}

// FindSchemaByID is [RegistryClient.SchemaByID] with options: [WithSubject]
// names the context of the id.
func (c *RegistryClient) FindSchemaByID(ctx context.Context, schemaID int, options ...RequestOption) (FetchedSchema, error) {
	return c.fetch(ctx, idPath(schemaID), options)
}

// SchemaByGUID returns a schema by its GUID, without what it refers to.
func (c *RegistryClient) SchemaByGUID(ctx context.Context, guid GUID, options ...RequestOption) (FetchedSchema, error) {
	return c.fetch(ctx, "/schemas/guids/"+guid.String(), options)
}

func (c *RegistryClient) fetch(ctx context.Context, path string, options []RequestOption) (FetchedSchema, error) {
	data, err := c.call(ctx, request{method: http.MethodGet, path: path, query: queryOf(options)})
	if err != nil {
		return FetchedSchema{}, err
	}
	object, err := parseObject(data)
	if err != nil {
		return FetchedSchema{}, err
	}
	return object.fetched()
}

// ResolvedSchemaByID returns a schema by its global id with everything that it
// refers to. Each version is fetched once, soft-deleted ones included, and
// reference cycles are cut. Two different schemas under one reference name are
// an error that wraps [ErrReferenceConflict].
func (c *RegistryClient) ResolvedSchemaByID(ctx context.Context, schemaID int) (ResolvedSchema, error) {
	return c.resolvedSchemaFor(ctx, schemaID, "")
}

// resolvedSchemaFor is ResolvedSchemaByID for an id of the context that subject,
// where it is not empty, is in. What the schema refers to is in the same context,
// unless it says otherwise.
func (c *RegistryClient) resolvedSchemaFor(ctx context.Context, schemaID int, subject string) (ResolvedSchema, error) {
	var options []RequestOption
	if subject != "" {
		options = append(options, WithSubject(subject))
	}
	fetched, err := c.FindSchemaByID(ctx, schemaID, options...)
	if err != nil {
		return ResolvedSchema{}, err
	}
	return c.resolveReferences(ctx, contextOf(subject), fetched)
}

// ResolvedSchemaByGUID is [RegistryClient.ResolvedSchemaByID] for a GUID.
func (c *RegistryClient) ResolvedSchemaByGUID(ctx context.Context, guid GUID) (ResolvedSchema, error) {
	fetched, err := c.SchemaByGUID(ctx, guid)
	if err != nil {
		return ResolvedSchema{}, err
	}
	return c.ResolveReferences(ctx, fetched)
}

// ResolveReferences fetches everything that a schema refers to, as
// [RegistryClient.ResolvedSchemaByID] does.
func (c *RegistryClient) ResolveReferences(ctx context.Context, schema FetchedSchema) (ResolvedSchema, error) {
	return c.resolveReferences(ctx, "", schema)
}

// resolveReferences is ResolveReferences for a schema in a context.
func (c *RegistryClient) resolveReferences(ctx context.Context, context string, schema FetchedSchema) (ResolvedSchema, error) {
	resolver := referenceResolver{client: c, seen: map[SchemaReference]*Reference{}}
	direct, err := resolver.resolve(ctx, context, schema.References, 1)
	if err != nil {
		return ResolvedSchema{}, err
	}
	dependencies, err := dependencyOrder(direct)
	if err != nil {
		return ResolvedSchema{}, err
	}
	resolved := ResolvedSchema{
		Schema:       schema.Schema,
		MessageType:  schema.MessageType,
		References:   make(map[string]string, len(dependencies)),
		Dependencies: dependencies,
		SchemaType:   schema.SchemaType,
		GUID:         schema.GUID,
		Metadata:     schema.Metadata,
		RuleSet:      schema.RuleSet,
	}
	for _, dependency := range dependencies {
		resolved.References[dependency.Name] = dependency.Schema
	}
	return resolved, nil
}

// referenceResolver fetches each subject version once.
type referenceResolver struct {
	client *RegistryClient
	seen   map[SchemaReference]*Reference // by subject and version; nil while on the path
}

// resolve returns the references of a schema in a registry context.
func (r *referenceResolver) resolve(ctx context.Context, context string, references []SchemaReference, depth int) ([]Reference, error) {
	if len(references) > 0 && depth > maxReferenceDepth {
		return nil, fmt.Errorf("schema references are nested more than %d deep", maxReferenceDepth)
	}
	var resolved []Reference
	for _, reference := range references {
		key := SchemaReference{Subject: inContextOf(context, reference.Subject), Version: reference.Version}
		known, ok := r.seen[key]
		if !ok {
			var err error
			if known, err = r.fetch(ctx, key, depth); err != nil {
				return nil, fmt.Errorf("reference %s to version %d of subject %s: %w",
					reference.Name, reference.Version, key.Subject, err)
			}
		}
		if known == nil {
			continue // a cycle: the schema is being resolved further up
		}
		named := *known
		named.Name = reference.Name
		resolved = append(resolved, named)
	}
	return resolved, nil
}

func (r *referenceResolver) fetch(ctx context.Context, key SchemaReference, depth int) (*Reference, error) {
	if len(r.seen) >= maxReferences {
		return nil, fmt.Errorf("more than %d schemas are reachable", maxReferences)
	}
	r.seen[key] = nil
	version, err := r.client.FindVersion(ctx, key.Subject, key.Version, WithDeleted())
	if err != nil {
		return nil, err
	}
	if version.Schema == "" {
		return nil, unreadable("schema registry response has no text schema", nil)
	}
	nested, err := r.resolve(ctx, contextOf(key.Subject), version.References, depth+1)
	if err != nil {
		return nil, err
	}
	known := &Reference{Subject: key.Subject, Version: key.Version, Schema: version.Schema, References: nested}
	r.seen[key] = known
	return known, nil
}

// dependencyOrder flattens references: each name once, after everything that
// its schema refers to.
func dependencyOrder(references []Reference) ([]Reference, error) {
	var ordered []Reference
	byName := map[string]int{}
	var add func(references []Reference, depth int) error
	add = func(references []Reference, depth int) error {
		if len(references) > 0 && depth > maxReferenceDepth {
			return fmt.Errorf("schema references are nested more than %d deep", maxReferenceDepth)
		}
		for _, reference := range references {
			if at, ok := byName[reference.Name]; ok {
				if ordered[at].Schema != reference.Schema {
					return fmt.Errorf("%w: %s names version %d of subject %s and version %d of subject %s",
						ErrReferenceConflict, reference.Name, ordered[at].Version, ordered[at].Subject,
						reference.Version, reference.Subject)
				}
				continue
			}
			if err := add(reference.References, depth+1); err != nil {
				return err
			}
			byName[reference.Name] = len(ordered)
			ordered = append(ordered, reference)
		}
		return nil
	}
	if err := add(references, 1); err != nil {
		return nil, err
	}
	return ordered, nil
}

// SchemaVersions returns where the schema with a global id is registered.
func (c *RegistryClient) SchemaVersions(ctx context.Context, schemaID int, options ...RequestOption) ([]SubjectVersion, error) {
	return listOf[SubjectVersion](ctx, c, idPath(schemaID)+"/versions", options)
}

// SchemaSubjects returns the subjects that hold the schema with a global id.
func (c *RegistryClient) SchemaSubjects(ctx context.Context, schemaID int, options ...RequestOption) ([]string, error) {
	return listOf[string](ctx, c, idPath(schemaID)+"/subjects", options)
}

// SchemaTypes returns the schema languages that the registry supports.
func (c *RegistryClient) SchemaTypes(ctx context.Context) ([]string, error) {
	return listOf[string](ctx, c, "/schemas/types", nil)
}

// Contexts returns the names of the registry's contexts; the default one is
// ".".
func (c *RegistryClient) Contexts(ctx context.Context) ([]string, error) {
	return listOf[string](ctx, c, "/contexts", nil)
}

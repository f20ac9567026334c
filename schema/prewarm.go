// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// PrewarmReport is the outcome of a prewarm or refresh. The caller owns its
// maps and slices; the maps are never nil.
type PrewarmReport struct {
	// Resolved maps each subject to the id of its first interned schema, also
	// where an earlier prewarm found it.
	Resolved map[string]int
	// Failures maps a subject to why one of its schemas has no id.
	Failures map[string]error
	// Schemas lists every interned schema, sorted by subject.
	Schemas []PrewarmedSchema
	// Conflicts names the subjects that hold different schemas, sorted. That is
	// what record-name strategies want, and a mistake otherwise.
	Conflicts []string
}

// PrewarmedSchema is the outcome for one interned schema.
type PrewarmedSchema struct {
	Subject     string
	Kind        Kind
	MessageType string
	ID          int // 0 with Err
	Requested   bool
	Duration    time.Duration // 0 when no request was needed
	Err         error
}

// Successful reports whether every interned schema has an id.
func (r PrewarmReport) Successful() bool { return len(r.Failures) == 0 }

// Prewarm resolves every interned schema that has no id yet, and returns nil or
// the failures, joined in the order of their subjects, each as "subject: cause".
// What resolved stays resolved. It blocks until all requests have ended, with a
// bounded number at a time; when ctx ends the rest fails with its cause.
func (c *SchemaCache) Prewarm(ctx context.Context) error {
	report := c.PrewarmReport(ctx)
	var failures []error
	for _, subject := range slices.Sorted(maps.Keys(report.Failures)) {
		failures = append(failures, fmt.Errorf("%s: %w", subject, report.Failures[subject]))
	}
	return errors.Join(failures...)
}

// PrewarmReport is [SchemaCache.Prewarm] with the outcome for each subject.
func (c *SchemaCache) PrewarmReport(ctx context.Context) PrewarmReport {
	return c.resolveAll(ctx, func(entry *subjectEntry) bool { return entry.resolved.Load() == nil })
}

// Refresh resolves every interned schema again, which under [UseLatest] moves
// serdes to the latest version. A schema that fails keeps the id it has.
func (c *SchemaCache) Refresh(ctx context.Context) PrewarmReport {
	return c.resolveAll(ctx, func(*subjectEntry) bool { return true })
}

func (c *SchemaCache) refreshLoop() {
	ticker := time.NewTicker(c.refreshInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.Refresh(c.ctx)
		case <-c.ctx.Done():
			return
		}
	}
}

// resolveAll resolves the interned entries that are due, one resolveAll at a
// time.
func (c *SchemaCache) resolveAll(ctx context.Context, due func(*subjectEntry) bool) PrewarmReport {
	c.mu.Lock()
	entries := slices.Clone(c.interned)
	c.mu.Unlock()

	outcomes := make([]PrewarmedSchema, len(entries))
	for i, entry := range entries {
		outcomes[i] = PrewarmedSchema{
			Subject: entry.local.subject, Kind: entry.local.kind, MessageType: entry.local.messageType,
		}
	}
	select {
	case c.prewarming <- struct{}{}:
		c.resolveDue(ctx, entries, outcomes, due)
		<-c.prewarming
	case <-ctx.Done():
		for i := range outcomes {
			outcomes[i].Err = context.Cause(ctx)
		}
	}
	return report(entries, outcomes)
}

func (c *SchemaCache) resolveDue(ctx context.Context, entries []*subjectEntry, outcomes []PrewarmedSchema, due func(*subjectEntry) bool) {
	var group sync.WaitGroup
	slots := make(chan struct{}, c.concurrency)
	shared := &referenceRegistrar{cache: c, calls: map[string]*referenceCall{}}
	for i, entry := range entries {
		outcome := &outcomes[i]
		if !due(entry) {
			outcome.ID = int(entry.resolved.Load().id)
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			c.resolveEntry(ctx, entry, shared, outcome)
		})
	}
	group.Wait()
}

func (c *SchemaCache) resolveEntry(ctx context.Context, entry *subjectEntry, shared *referenceRegistrar, outcome *PrewarmedSchema) {
	start := time.Now()
	resolved, stated, err := c.resolve(ctx, entry.local, shared)
	outcome.Requested, outcome.Duration, outcome.Err = true, time.Since(start), err

	c.mu.Lock()
	entry.failure = err
	if err == nil {
		c.settleLocked(entry, resolved, stated)
		outcome.ID = int(resolved.id)
	}
	c.mu.Unlock()

	c.stats.resolutions.Add(1)
	if err != nil {
		c.stats.resolveFailures.Add(1)
		c.logger.LogAttrs(ctx, slog.LevelWarn, "schema not resolved", slog.String("subject", outcome.Subject),
			slog.Duration("duration", outcome.Duration), slog.Any("error", err))
	}
	if c.hooks.Resolve != nil {
		c.hooks.Resolve(*outcome)
	}
}

// settleLocked makes a resolution the one that serdes write under. An equal one
// stays, and with it what serdes have compiled.
func (c *SchemaCache) settleLocked(entry *subjectEntry, resolved *resolution, stated string) {
	c.adoptLocked(entry.local, resolved, stated)
	state := c.subjects[entry.local.subject]
	if c.firstInternedLocked(entry) {
		state.id, state.known = int(resolved.id), true
	}
	if old := entry.resolved.Load(); old == nil || !old.same(resolved) {
		entry.resolved.Store(resolved)
	}
}

func (r *resolution) same(other *resolution) bool {
	return r.id == other.id && r.guid == other.guid && r.assumed == other.assumed && r.target.text == other.target.text
}

func (c *SchemaCache) firstInternedLocked(entry *subjectEntry) bool {
	for _, other := range c.interned {
		if other.local.subject == entry.local.subject {
			return other == entry
		}
	}
	return false
}

// resolve asks the registry for the id of a local schema. It returns the
// message type that the registry states as well.
func (c *SchemaCache) resolve(ctx context.Context, local localSchema, shared *referenceRegistrar) (*resolution, string, error) {
	switch {
	case c.problems != nil:
		return nil, "", c.problems
	case local.broken != nil:
		return nil, "", local.broken
	case c.client == nil:
		return nil, "", errNoClient
	case local.schemaID != 0:
		return c.resolveID(ctx, local)
	case local.metadata != nil:
		return c.resolveLatest(ctx, local)
	}
	switch c.mode {
	case AutoRegister, LookupOnly:
		references, err := shared.versions(ctx, contextOf(local.subject), local.kind, local.references)
		if err != nil {
			return nil, "", err
		}
		registered, err := c.settle(ctx, local.subject, NewSchema{
			Kind: local.kind, Schema: local.text, MessageType: local.messageType, References: references,
		})
		if err != nil {
			return nil, "", err
		}
		target := localTarget(local, uint32(registered.ID))
		target.ruleSet = registered.RuleSet
		return resolutionOf(registered, target), registered.MessageType, nil
	case UseLatest:
		return c.resolveLatest(ctx, local)
	default:
		return nil, "", fmt.Errorf("unknown register mode %d", c.mode)
	}
}

// settle registers a schema or looks it up, as the mode says.
func (c *SchemaCache) settle(ctx context.Context, subject string, schema NewSchema) (RegisteredSchema, error) {
	if c.mode == LookupOnly {
		return c.lookUp(ctx, subject, schema)
	}
	return c.client.RegisterSchema(ctx, subject, schema, c.requestOptions()...)
}

func (c *SchemaCache) lookUp(ctx context.Context, subject string, schema NewSchema) (RegisteredSchema, error) {
	return c.client.LookupSchema(ctx, subject, schema, c.requestOptions()...)
}

func (c *SchemaCache) requestOptions() []RequestOption {
	if c.normalize {
		return []RequestOption{WithNormalize()}
	}
	return nil
}

func resolutionOf(registered RegisteredSchema, target *writerSchema) *resolution {
	resolved := &resolution{id: uint32(registered.ID), target: target}
	if guid, err := ParseGUID(registered.GUID); err == nil {
		resolved.guid, resolved.hasGUID = guid, true
	}
	return resolved
}

// resolveLatest takes the subject's latest version, or the latest one that has
// the metadata. Without its text, which no standard registry leaves out, values
// are written under the local schema, and readers fetch the text by its id.
func (c *SchemaCache) resolveLatest(ctx context.Context, local localSchema) (*resolution, string, error) {
	var latest RegisteredSchema
	var err error
	if local.metadata != nil {
		latest, err = c.client.LatestWithMetadata(ctx, local.subject, local.metadata)
	} else {
		latest, err = c.client.Latest(ctx, local.subject)
	}
	if err != nil {
		return nil, "", err
	}
	if latest.Schema == "" {
		resolved := resolutionOf(latest, localTarget(local, uint32(latest.ID)))
		resolved.assumed = true
		return resolved, latest.MessageType, nil
	}
	schema, err := c.client.resolveReferences(ctx, contextOf(local.subject), FetchedSchema{
		Schema: latest.Schema, MessageType: latest.MessageType, References: latest.References, SchemaType: latest.SchemaType,
		RuleSet: latest.RuleSet,
	})
	if err != nil {
		return nil, "", err
	}
	return c.resolveTo(local, latest, schema, "latest schema")
}

// resolveID takes the schema of the id that a serde is to write under.
func (c *SchemaCache) resolveID(ctx context.Context, local localSchema) (*resolution, string, error) {
	subject := local.subject
	if contextOf(subject) == "" {
		subject = ""
	}
	schema, err := c.client.resolvedSchemaFor(ctx, local.schemaID, subject)
	if err != nil {
		return nil, "", err
	}
	given := RegisteredSchema{ID: local.schemaID, GUID: schema.GUID, MessageType: schema.MessageType}
	return c.resolveTo(local, given, schema, "schema")
}

// resolveTo has values written under a schema of the registry.
func (c *SchemaCache) resolveTo(local localSchema, registered RegisteredSchema, schema ResolvedSchema, what string) (*resolution, string, error) {
	target, err := writerOf(writerID{id: uint32(registered.ID), context: contextOf(local.subject)}, schema)
	if err != nil {
		return nil, "", err
	}
	if target.kind != local.kind {
		return nil, "", fmt.Errorf("%s %d is %v, the local one is %v", what, registered.ID, target.kind, local.kind)
	}
	if c.checkLatest {
		if err := latestReads(target, local); err != nil {
			return nil, "", fmt.Errorf("%s %d cannot read what the local schema describes: %w", what, registered.ID, err)
		}
	}
	return resolutionOf(registered, target), registered.MessageType, nil
}

// referenceRegistrar finds the versions of local references, each once, for all
// schemas of one prewarm.
type referenceRegistrar struct {
	cache *SchemaCache

	mu    sync.Mutex // guards calls
	calls map[string]*referenceCall
}

type referenceCall struct {
	done    chan struct{}
	version int
	err     error
}

// versions returns the references of a schema with their versions, after
// registering or looking up those that have none. The subjects are in the
// context of the schema, unless they name another.
func (r *referenceRegistrar) versions(ctx context.Context, context string, kind Kind, references []Reference) ([]SchemaReference, error) {
	var found []SchemaReference
	for _, reference := range references {
		reference.Subject = inContextOf(context, reference.Subject)
		version := reference.Version
		if version == 0 {
			var err error
			if version, err = r.version(ctx, kind, reference); err != nil {
				return nil, fmt.Errorf("reference %s in subject %s: %w", reference.Name, reference.Subject, err)
			}
		}
		found = append(found, SchemaReference{Name: reference.Name, Subject: reference.Subject, Version: version})
	}
	return found, nil
}

func (r *referenceRegistrar) version(ctx context.Context, kind Kind, reference Reference) (int, error) {
	key := reference.Subject + "\x00" + localSchema{kind: kind, text: reference.Schema, references: reference.References}.identity()
	r.mu.Lock()
	call, running := r.calls[key]
	if !running {
		call = &referenceCall{done: make(chan struct{})}
		r.calls[key] = call
	}
	r.mu.Unlock()
	if !running {
		call.version, call.err = r.settle(ctx, kind, reference)
		close(call.done)
	}
	select {
	case <-call.done:
		return call.version, call.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (r *referenceRegistrar) settle(ctx context.Context, kind Kind, reference Reference) (int, error) {
	nested, err := r.versions(ctx, contextOf(reference.Subject), kind, reference.References)
	if err != nil {
		return 0, err
	}
	schema := NewSchema{Kind: kind, Schema: reference.Schema, References: nested}
	registered, err := r.cache.settle(ctx, reference.Subject, schema)
	if err == nil && registered.Version == 0 {
		// Not every registry tells the version of what it has just registered.
		registered, err = r.cache.lookUp(ctx, reference.Subject, schema)
	}
	if err == nil && registered.Version == 0 {
		err = unreadable("schema registry response has no integer version", nil)
	}
	return registered.Version, err
}

// report collects the outcomes by subject. Entries and outcomes are in the
// order of interning.
func report(entries []*subjectEntry, outcomes []PrewarmedSchema) PrewarmReport {
	r := PrewarmReport{Resolved: map[string]int{}, Failures: map[string]error{}}
	first := map[string]localSchema{}
	for i, outcome := range outcomes {
		subject, local := outcome.Subject, entries[i].local
		earlier, again := first[subject]
		if !again {
			first[subject] = local
		} else if earlier.differs(local) && !slices.Contains(r.Conflicts, subject) {
			r.Conflicts = append(r.Conflicts, subject)
		}
		switch {
		case outcome.Err == nil:
			if !again {
				r.Resolved[subject] = outcome.ID
			}
		case r.Failures[subject] == nil:
			r.Failures[subject] = outcome.Err
		default:
			r.Failures[subject] = errors.Join(r.Failures[subject], outcome.Err)
		}
	}
	slices.Sort(r.Conflicts)
	slices.SortStableFunc(outcomes, func(a, b PrewarmedSchema) int { return cmp.Compare(a.Subject, b.Subject) })
	r.Schemas = outcomes
	return r
}

// differs reports whether two schemas of a subject are more than two messages of
// one file, or one text in two dialects.
func (l localSchema) differs(other localSchema) bool {
	l.messageType, other.messageType = "", ""
	l.dialect, other.dialect = nil, nil
	return l.identity() != other.identity()
}

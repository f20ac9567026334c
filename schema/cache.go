// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultConcurrency       = 8
	defaultFetchTimeout      = 10 * time.Second
	defaultFetchBackoff      = 100 * time.Millisecond
	defaultMaxFetchBackoff   = 10 * time.Second
	defaultNegativeTTL       = 10 * time.Second
	defaultMaxWriterSchemas  = 10_000
	maxRunningFetches        = 1024   // schemas fetched or queued at one time
	maxFailedFetches         = 10_000 // failures remembered
	unknownSchemaTries       = 3      // a follower may not know a new id yet
	unknownSchemaBackoff     = 50 * time.Millisecond
	crowdedFetchPollInterval = 50 * time.Millisecond
)

// SchemaCache keeps schema ids and writer schemas in memory, so that serdes
// never do I/O. [SchemaCache.Prewarm] resolves local schemas before processing
// starts; an unknown writer schema is fetched once in the background while its
// readers get a [*FetchPendingError].
//
// A schema that the registry refuses is remembered as a
// [*SchemaUnavailableError] for a while. Other failures are tried again, with
// growing pauses, when the schema is asked for again.
//
// One cache serves an application. Close ends its goroutines; what is cached
// stays readable.
//
// A SchemaCache is safe for concurrent use by multiple goroutines. The zero
// value is not usable.
type SchemaCache struct {
	client          *RegistryClient // nil when everything is seeded
	mode            RegisterMode
	strategy        SubjectNameStrategy
	concurrency     int
	fetchTimeout    time.Duration
	fetchBackoff    time.Duration
	maxFetchBackoff time.Duration
	negativeTTL     time.Duration
	maxWriters      int
	refreshInterval time.Duration // 0 without a refresh in the background
	checkLatest     bool
	normalize       bool
	hooks           CacheHooks
	logger          *slog.Logger
	problems        error // options that cannot be obeyed

	writers atomic.Pointer[writerTable]
	// generation grows when a writer schema is replaced or dropped, which
	// outdates what serdes have compiled.
	generation atomic.Uint64
	stats      cacheCounters

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
	fetchSlots chan struct{} // bounds concurrent fetches
	prewarming chan struct{} // held by the running prewarm

	mu       sync.Mutex // guards the fields below, and changes of writers
	closed   bool
	subjects map[string]*subjectState
	interned []*subjectEntry // in the order of interning
	fetches  map[writerID]*fetchState
	running  int        // fetches that have a goroutine
	fetched  []writerID // evictable schemas, oldest first
}

// CacheHooks are optional callbacks for metrics. They run on the cache's
// goroutines, several at a time, without locks held, and must not block.
type CacheHooks struct {
	// Fetch runs after each fetch of a writer schema.
	Fetch func(CacheFetch)
	// Resolve runs after each local schema that a prewarm or refresh resolved, or
	// failed to.
	Resolve func(PrewarmedSchema)
}

// CacheFetch is the outcome of one fetch of a writer schema.
type CacheFetch struct {
	SchemaID  int
	Context   string // of the registry that the id belongs to; "" is the default one
	GUID      string // set when the record named a GUID instead of an id
	Duration  time.Duration
	Err       error
	Permanent bool // the registry refused, and is not asked again for a while
}

// CacheStats counts since the cache was made, except for the last three fields,
// which are what it holds.
type CacheStats struct {
	Fetches           int64 // fetches of writer schemas that ended
	FetchFailures     int64 // those that failed, refusals included
	FetchRefusals     int64 // those that the registry refused
	Resolutions       int64 // local schemas resolved by prewarm or refresh
	ResolveFailures   int64
	Evictions         int64
	WriterSchemas     int
	FailedSchemas     int // remembered failures
	SchemasInProgress int // running fetches
}

type cacheCounters struct {
	fetches, fetchFailures, fetchRefusals, resolutions, resolveFailures, evictions atomic.Int64
}

// NewSchemaCache returns a cache over client, which stays the caller's. It may
// be nil when every schema is seeded: anything else is then unavailable. An
// option that cannot be obeyed is reported by every later prewarm and fetch.
func NewSchemaCache(client *RegistryClient, options ...SchemaCacheOption) *SchemaCache {
	c := &SchemaCache{
		client:          client,
		strategy:        TopicNameStrategy,
		concurrency:     defaultConcurrency,
		fetchTimeout:    defaultFetchTimeout,
		fetchBackoff:    defaultFetchBackoff,
		maxFetchBackoff: defaultMaxFetchBackoff,
		negativeTTL:     defaultNegativeTTL,
		maxWriters:      defaultMaxWriterSchemas,
		checkLatest:     true,
		logger:          slog.New(slog.DiscardHandler),
		prewarming:      make(chan struct{}, 1),
		subjects:        map[string]*subjectState{},
		fetches:         map[writerID]*fetchState{},
	}
	if client != nil {
		c.logger = client.logger
	}
	writers := newIDTable[*writerSchema]()
	c.writers.Store(&writers)
	for _, option := range options {
		option(c)
	}
	c.fetchSlots = make(chan struct{}, c.concurrency)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if c.refreshInterval > 0 && client != nil {
		c.goroutines.Go(c.refreshLoop)
	}
	return c
}

// Close ends background fetches and refreshes and waits for them. A schema that
// is not cached is then an error that wraps [ErrCacheClosed]. Closing again
// does nothing. The error is always nil.
func (c *SchemaCache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.goroutines.Wait()
	return nil
}

// Stats returns a snapshot of the counters.
func (c *SchemaCache) Stats() CacheStats {
	c.mu.Lock()
	running, failed := c.running, len(c.fetches)-c.running
	c.mu.Unlock()
	return CacheStats{
		Fetches:           c.stats.fetches.Load(),
		FetchFailures:     c.stats.fetchFailures.Load(),
		FetchRefusals:     c.stats.fetchRefusals.Load(),
		Resolutions:       c.stats.resolutions.Load(),
		ResolveFailures:   c.stats.resolveFailures.Load(),
		Evictions:         c.stats.evictions.Load(),
		WriterSchemas:     c.writers.Load().size(),
		FailedSchemas:     failed,
		SchemasInProgress: running,
	}
}

// Subject names the subject of topic and role by the cache's strategy.
func (c *SchemaCache) Subject(topic string, role Role) string {
	return c.strategy(topic, role)
}

// SubjectWith names the subject of topic and role by strategy, which must not
// be nil.
func (c *SchemaCache) SubjectWith(topic string, role Role, strategy SubjectNameStrategy) string {
	return strategy(topic, role)
}

// subjectState is what the cache knows about one subject.
type subjectState struct {
	id      int // of the first interned schema, or seeded
	known   bool
	seeded  bool
	entries map[string]*subjectEntry // by identity
}

// subjectEntry is one local schema in one subject. Serdes keep it and read its
// resolution without a lock.
type subjectEntry struct {
	local    localSchema
	resolved atomic.Pointer[resolution]

	// Guarded by SchemaCache.mu.
	interned bool
	failure  error // of the last prewarm or refresh
}

// resolution is the id that a local schema is written under. It is immutable.
type resolution struct {
	id   uint32
	guid GUID
	// hasGUID is false where the registry did not state a GUID.
	hasGUID bool
	// target is the schema that values are written under.
	target *writerSchema
	// assumed says that the registry gave an id without the text behind it, so
	// target is the local schema.
	assumed bool
}

// entry returns the one entry of a local schema.
func (c *SchemaCache) entry(local localSchema) *subjectEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entryLocked(local)
}

func (c *SchemaCache) entryLocked(local localSchema) *subjectEntry {
	state := c.subjects[local.subject]
	if state == nil {
		state = &subjectState{entries: map[string]*subjectEntry{}}
		c.subjects[local.subject] = state
	}
	identity := local.identity()
	entry := state.entries[identity]
	if entry == nil {
		entry = &subjectEntry{local: local}
		if state.seeded {
			entry.resolved.Store(seededResolution(local, uint32(state.id)))
		}
		state.entries[identity] = entry
	}
	return entry
}

func (c *SchemaCache) intern(local localSchema) *subjectEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.entryLocked(local)
	if !entry.interned {
		entry.interned = true
		c.interned = append(c.interned, entry)
	}
	return entry
}

// failureOf returns why the last attempt to resolve entry failed, or nil.
func (c *SchemaCache) failureOf(entry *subjectEntry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return entry.failure
}

func seededResolution(local localSchema, id uint32) *resolution {
	return &resolution{id: id, target: localTarget(local, id)}
}

// Intern remembers a local schema for the next prewarm. The same schema may be
// interned again. A subject may hold several schemas, each with its own id; a
// prewarm reports such a subject in [PrewarmReport.Conflicts].
func (c *SchemaCache) Intern(subject string, kind Kind, schemaText, messageType string) {
	c.intern(localSchema{subject: subject, kind: kind, text: schemaText, messageType: messageType})
}

// InternWithReferences is [SchemaCache.Intern] for a schema that refers to
// others. Prewarm takes care of those first. Two different schemas under one
// reference name are an error that wraps [ErrReferenceConflict].
func (c *SchemaCache) InternWithReferences(subject string, kind Kind, schemaText, messageType string, references ...Reference) error {
	if _, err := dependencyOrder(references); err != nil {
		return err
	}
	c.intern(localSchema{
		subject: subject, kind: kind, text: schemaText, messageType: messageType,
		references: append([]Reference(nil), references...),
	})
	return nil
}

// IDForSubject returns the id of the first schema that was interned for
// subject, once it is resolved or seeded. It does no I/O.
func (c *SchemaCache) IDForSubject(subject string) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.subjects[subject]
	if state == nil || !state.known {
		return 0, false
	}
	return state.id, true
}

// WriterSchema returns the text of the schema with a global id. When it is not
// cached, one fetch runs in the background and the error is a
// [*FetchPendingError]; a schema that the registry refused is a
// [*SchemaUnavailableError]. It does no I/O on the caller's goroutine.
func (c *SchemaCache) WriterSchema(schemaID int) (string, error) {
	w, err := c.writer(writerID{id: uint32(schemaID)}, "")
	if err != nil {
		return "", err
	}
	return w.text, nil
}

// WriterMessageType returns the Protobuf message that the registry or a seed
// states for a cached schema, or the one message that local schemas with this
// id have, or "".
func (c *SchemaCache) WriterMessageType(schemaID int) string {
	w := c.writers.Load().byID[uint32(schemaID)]
	switch {
	case w == nil:
		return ""
	case w.messageType != "":
		return w.messageType
	default:
		return w.localType
	}
}

// WriterReferences returns the texts that a cached schema refers to, directly
// or not, by reference name. The caller owns the map, which is never nil.
func (c *SchemaCache) WriterReferences(schemaID int) map[string]string {
	return referenceTexts(c.WriterDependencies(schemaID))
}

// WriterDependencies returns what a cached schema refers to, directly or not,
// dependencies first. The caller owns the slice.
func (c *SchemaCache) WriterDependencies(schemaID int) []Reference {
	w := c.writers.Load().byID[uint32(schemaID)]
	if w == nil {
		return nil
	}
	return append([]Reference(nil), w.references...)
}

// SeedSubjectID sets the id for every schema of subject, as if a prewarm had
// found it. Values are written under the local schema.
func (c *SchemaCache) SeedSubjectID(subject string, schemaID int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.subjects[subject]
	if state == nil {
		state = &subjectState{entries: map[string]*subjectEntry{}}
		c.subjects[subject] = state
	}
	state.id, state.known, state.seeded = int(uint32(schemaID)), true, true
	for _, entry := range state.entries {
		entry.resolved.Store(seededResolution(entry.local, uint32(schemaID)))
	}
}

// SeedWriterSchema sets the text of the schema with a global id.
func (c *SchemaCache) SeedWriterSchema(schemaID int, schemaText string) {
	c.change(writerID{id: uint32(schemaID)}, func(w *writerSchema) {
		w.text, w.kindKnown = schemaText, false
	})
}

// SeedWriterMessageType sets the Protobuf message of the schema with a global
// id.
func (c *SchemaCache) SeedWriterMessageType(schemaID int, messageType string) {
	c.change(writerID{id: uint32(schemaID)}, func(w *writerSchema) { w.messageType = messageType })
}

// SeedWriterReferences sets what the schema with a global id refers to. Two
// different schemas under one reference name are an error that wraps
// [ErrReferenceConflict].
func (c *SchemaCache) SeedWriterReferences(schemaID int, references ...Reference) error {
	ordered, err := dependencyOrder(references)
	if err != nil {
		return err
	}
	c.change(writerID{id: uint32(schemaID)}, func(w *writerSchema) { w.references = ordered })
	return nil
}

// change pins a changed copy of a writer schema and outdates what was
// compiled from the one before.
func (c *SchemaCache) change(id writerID, edit func(*writerSchema)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pinLocked(id, edit) {
		c.generation.Add(1)
	}
}

// changeLocked stores a changed copy and reports whether there was one before.
func (c *SchemaCache) changeLocked(id writerID, edit func(*writerSchema)) bool {
	table := c.writers.Load().clone()
	changed := &writerSchema{id: id}
	old := table.get(id)
	if old != nil {
		*changed = *old
	}
	edit(changed)
	table.put(id, changed)
	c.writers.Store(table)
	return old != nil
}

// pinLocked is changeLocked for what does not come from a fetch: the schema does
// not count among the fetched ones, and is not evicted.
func (c *SchemaCache) pinLocked(id writerID, edit func(*writerSchema)) bool {
	return c.changeLocked(id, func(w *writerSchema) {
		edit(w)
		if w.pinned {
			return
		}
		w.pinned = true
		if i := slices.Index(c.fetched, id); i >= 0 {
			c.fetched = slices.Delete(c.fetched, i, i+1)
		}
	})
}

// adoptLocked stores what a local schema says about the id it resolved to. A
// text that is cached for the id stays, so nothing that serdes have compiled is
// outdated.
func (c *SchemaCache) adoptLocked(local localSchema, resolved *resolution, stated string) {
	c.pinLocked(writerID{id: resolved.id, context: contextOf(local.subject)}, func(w *writerSchema) {
		if target := resolved.target; w.text == "" && !resolved.assumed {
			w.kind, w.kindKnown, w.text, w.references, w.ruleSet = target.kind, true, target.text, target.references, target.ruleSet
		}
		if w.messageType == "" {
			w.messageType = stated
		}
		switch {
		case local.messageType == "" || w.localMixed:
		case w.localType == "":
			w.localType = local.messageType
		case w.localType != local.messageType:
			w.localType, w.localMixed = "", true
		}
	})
}

var errNoClient = errors.New("the cache has no registry client")

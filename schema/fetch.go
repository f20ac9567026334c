// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// fetchState is what the cache knows about a schema that it does not have.
type fetchState struct {
	running  chan struct{} // closed when the running fetch ends; nil between fetches
	cause    error         // of the last failure
	refused  bool          // the registry said no, as opposed to nothing
	until    time.Time     // no new fetch before
	failures int           // in a row
}

// writer returns a writer schema, or the error that says where its fetch
// stands, and starts a fetch when one is due. The subject is that of the record;
// it is asked for where it names the context of the id. It does not block on I/O.
func (c *SchemaCache) writer(id writerID, subject string) (*writerSchema, error) {
	if w := c.writers.Load().get(id); w != nil && w.text != "" {
		return w, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.writers.Load().get(id); w != nil && w.text != "" {
		return w, nil
	}
	state := c.fetches[id]
	switch {
	case state != nil && state.running != nil:
		return nil, pendingError(id, state)
	case state != nil && state.refused && time.Now().Before(state.until):
		return nil, unavailableError(id, state)
	case c.closed:
		return nil, unavailableError(id, &fetchState{cause: ErrCacheClosed})
	case c.client == nil:
		return nil, unavailableError(id, &fetchState{cause: errNoClient})
	case c.problems != nil:
		return nil, unavailableError(id, &fetchState{cause: c.problems})
	case state != nil && time.Now().Before(state.until), c.running >= maxRunningFetches:
		return nil, pendingError(id, state)
	}
	if state == nil {
		c.trimFailuresLocked()
		state = &fetchState{}
		c.fetches[id] = state
	}
	state.running = make(chan struct{})
	c.running++
	c.goroutines.Go(func() { c.runFetch(id, subject, state) })
	return nil, pendingError(id, state)
}

func pendingError(id writerID, state *fetchState) *FetchPendingError {
	pending := &FetchPendingError{SchemaID: int(id.id), Context: id.context, guid: id.guidText()}
	if state != nil {
		pending.cause, pending.done = state.cause, state.running
	}
	return pending
}

func unavailableError(id writerID, state *fetchState) *SchemaUnavailableError {
	return &SchemaUnavailableError{SchemaID: int(id.id), Context: id.context, GUID: id.guidText(), RetryAt: state.until, cause: state.cause}
}

// trimFailuresLocked keeps records with made-up ids from filling the memory.
func (c *SchemaCache) trimFailuresLocked() {
	if len(c.fetches)-c.running < maxFailedFetches {
		return
	}
	now := time.Now()
	for id, state := range c.fetches {
		if state.running == nil && now.After(state.until) {
			delete(c.fetches, id)
		}
	}
	for id, state := range c.fetches {
		if len(c.fetches)-c.running < maxFailedFetches {
			return
		}
		if state.running == nil {
			delete(c.fetches, id)
		}
	}
}

// runFetch fetches one schema and records the outcome.
func (c *SchemaCache) runFetch(id writerID, subject string, state *fetchState) {
	var (
		resolved ResolvedSchema
		err      error
		duration time.Duration
	)
	select {
	case c.fetchSlots <- struct{}{}:
		start := time.Now()
		resolved, err = c.fetch(id, subject)
		duration = time.Since(start)
		<-c.fetchSlots
	case <-c.ctx.Done():
		err = ErrCacheClosed
	}
	var fetched *writerSchema
	if err == nil {
		fetched, err = writerOf(id, resolved)
	}
	refused := err != nil && isRefusal(err)
	c.finishFetch(id, state, fetched, err, refused)
	c.reportFetch(id, duration, err, refused)
}

func writerOf(id writerID, resolved ResolvedSchema) (*writerSchema, error) {
	kind, err := kindOf(resolved.SchemaType)
	if err != nil {
		return nil, err
	}
	return &writerSchema{
		id: id, kind: kind, kindKnown: true,
		text: resolved.Schema, references: resolved.Dependencies, messageType: resolved.MessageType, ruleSet: resolved.RuleSet,
	}, nil
}

// fetch asks the registry, and again when it does not know a schema: one that
// was registered a moment ago may not have reached every node.
func (c *SchemaCache) fetch(id writerID, subject string) (ResolvedSchema, error) {
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.fetchTimeout,
		fmt.Errorf("no schema within %v: %w", c.fetchTimeout, context.DeadlineExceeded))
	defer cancel()
	for try := 0; ; try++ {
		var (
			resolved ResolvedSchema
			err      error
		)
		switch {
		case id.byGUID:
			resolved, err = c.client.ResolvedSchemaByGUID(ctx, id.guid)
		case id.context != "":
			resolved, err = c.client.resolvedSchemaFor(ctx, int(id.id), subject)
		default:
			resolved, err = c.client.ResolvedSchemaByID(ctx, int(id.id))
		}
		if err == nil || !errors.Is(err, ErrNotFound) || try+1 == unknownSchemaTries {
			return resolved, err
		}
		if pause(ctx, jittered(unknownSchemaBackoff, unknownSchemaBackoff<<try, try)) != nil {
			return resolved, err
		}
	}
}

// isRefusal reports whether asking the registry again cannot help for now.
func isRefusal(err error) bool {
	if registry, ok := errors.AsType[*RegistryError](err); ok {
		return !registry.Retriable()
	}
	return !errors.Is(err, ErrCacheClosed)
}

func (c *SchemaCache) finishFetch(id writerID, state *fetchState, fetched *writerSchema, err error, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	close(state.running)
	state.running = nil
	if err == nil {
		delete(c.fetches, id)
		c.storeFetchedLocked(fetched)
		return
	}
	state.cause, state.refused = err, refused
	wait := c.negativeTTL
	if !refused {
		wait = jittered(c.fetchBackoff, c.maxFetchBackoff, state.failures)
		if registry, ok := errors.AsType[*RegistryError](err); ok {
			wait = max(wait, min(registry.RetryAfter, maxRetryAfter))
		}
	}
	state.failures++
	state.until = time.Now().Add(wait)
}

// storeFetchedLocked stores a schema unless a text has come first, and evicts
// the oldest fetched ones beyond the limit. Pinned ones are not among them.
func (c *SchemaCache) storeFetchedLocked(fetched *writerSchema) {
	c.changeLocked(fetched.id, func(w *writerSchema) {
		if w.text != "" {
			return
		}
		seededType := w.messageType
		*w = writerSchema{
			id: fetched.id, kind: fetched.kind, kindKnown: true, text: fetched.text, references: fetched.references, ruleSet: fetched.ruleSet,
			messageType: fetched.messageType, localType: w.localType, localMixed: w.localMixed,
			pinned: w.pinned,
		}
		if seededType != "" {
			w.messageType = seededType
		}
	})
	if c.writers.Load().get(fetched.id).pinned {
		return
	}
	c.fetched = append(c.fetched, fetched.id)
	if excess := len(c.fetched) - c.maxWriters; excess > 0 {
		table := c.writers.Load().clone()
		for _, id := range c.fetched[:excess] {
			table.drop(id)
		}
		c.fetched = append([]writerID(nil), c.fetched[excess:]...)
		c.writers.Store(table)
		c.generation.Add(1)
		c.stats.evictions.Add(int64(excess))
	}
}

func (c *SchemaCache) reportFetch(id writerID, duration time.Duration, err error, refused bool) {
	c.stats.fetches.Add(1)
	switch {
	case err == nil:
		c.logger.LogAttrs(c.ctx, slog.LevelDebug, "writer schema fetched",
			slog.String("schema_id", id.String()), slog.Duration("duration", duration))
	case errors.Is(err, ErrCacheClosed) || c.ctx.Err() != nil:
		c.stats.fetchFailures.Add(1)
	default:
		c.stats.fetchFailures.Add(1)
		if refused {
			c.stats.fetchRefusals.Add(1)
		}
		c.logger.LogAttrs(c.ctx, slog.LevelWarn, "writer schema not fetched",
			slog.String("schema_id", id.String()), slog.Bool("refused", refused),
			slog.Duration("duration", duration), slog.Any("error", err))
	}
	if c.hooks.Fetch != nil {
		c.hooks.Fetch(CacheFetch{SchemaID: int(id.id), Context: id.context, GUID: id.guidText(), Duration: duration, Err: err, Permanent: refused})
	}
}

// AwaitWriterSchema returns the text of the schema with a global id, waiting for
// it across failed fetches until ctx ends. A refusal of the registry ends the
// wait with a [*SchemaUnavailableError]; when ctx ends the error tells the last
// failure as well.
func (c *SchemaCache) AwaitWriterSchema(ctx context.Context, schemaID int) (string, error) {
	return c.awaitText(ctx, writerID{id: uint32(schemaID)})
}

// AwaitWriterSchemaByGUID is [SchemaCache.AwaitWriterSchema] for a GUID.
func (c *SchemaCache) AwaitWriterSchemaByGUID(ctx context.Context, guid GUID) (string, error) {
	return c.awaitText(ctx, writerID{guid: guid, byGUID: true})
}

func (c *SchemaCache) awaitText(ctx context.Context, id writerID) (string, error) {
	return awaiting(ctx, c, func() (string, error) {
		w, err := c.writer(id, "")
		if err != nil {
			return "", err
		}
		return w.text, nil
	})
}

// awaiting repeats a call until no writer schema is pending, or ctx ends.
func awaiting[V any](ctx context.Context, c *SchemaCache, call func() (V, error)) (V, error) {
	for {
		value, err := call()
		pending, ok := errors.AsType[*FetchPendingError](err)
		if !ok {
			return value, err
		}
		if ended := c.awaitAttempt(ctx, pending); ended != nil {
			var zero V
			return zero, joinCauses(ended, pending)
		}
	}
}

// awaitAttempt waits for the running fetch to end, or for the next one to be
// due.
func (c *SchemaCache) awaitAttempt(ctx context.Context, pending *FetchPendingError) error {
	if pending.done != nil {
		select {
		case <-pending.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	id := writerID{context: pending.Context, id: uint32(pending.SchemaID)}
	if pending.guid != "" {
		guid, err := ParseGUID(pending.guid)
		if err != nil {
			return err
		}
		id = writerID{guid: guid, byGUID: true}
	}
	return pause(ctx, c.untilDue(id))
}

// untilDue returns how long no fetch of id will start.
func (c *SchemaCache) untilDue(id writerID) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running >= maxRunningFetches {
		return crowdedFetchPollInterval
	}
	if state := c.fetches[id]; state != nil {
		return max(0, time.Until(state.until))
	}
	return 0
}

// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"time"
)

// SchemaCacheOption configures a [SchemaCache].
type SchemaCacheOption func(*SchemaCache)

func (c *SchemaCache) refuse(format string, args ...any) {
	c.problems = errors.Join(c.problems, badOption(format, args...))
}

// WithRegisterMode sets how prewarm turns local schemas into ids. The default is
// [AutoRegister].
func WithRegisterMode(mode RegisterMode) SchemaCacheOption {
	return func(c *SchemaCache) { c.mode = mode }
}

// WithSubjectNameStrategy sets how serdes of the cache name subjects, unless
// they have a strategy of their own. The default is [TopicNameStrategy].
func WithSubjectNameStrategy(strategy SubjectNameStrategy) SchemaCacheOption {
	return func(c *SchemaCache) {
		if strategy == nil {
			c.refuse("subject name strategy must not be nil")
			return
		}
		c.strategy = strategy
	}
}

// WithConcurrency bounds how many schemas a prewarm resolves at a time, and how
// many the background fetches at a time. The default is 8. It must be positive.
func WithConcurrency(limit int) SchemaCacheOption {
	return func(c *SchemaCache) { setPositive(&c.concurrency, limit, "concurrency", c.refuse) }
}

// WithFetchTimeout bounds one background fetch with its retries and references.
// The default is 10 seconds. It must be positive.
func WithFetchTimeout(timeout time.Duration) SchemaCacheOption {
	return func(c *SchemaCache) { setPositive(&c.fetchTimeout, timeout, "fetch timeout", c.refuse) }
}

// WithFetchBackoff sets the pause after the first failed fetch of a schema and
// the longest one; pauses double in between and are jittered down to half. The
// defaults are 100 milliseconds and 10 seconds. Both must be positive, and
// initial not above longest.
func WithFetchBackoff(initial, longest time.Duration) SchemaCacheOption {
	return func(c *SchemaCache) {
		setBackoff(&c.fetchBackoff, &c.maxFetchBackoff, initial, longest, "fetch backoff", c.refuse)
	}
}

// WithNegativeTTL sets how long a refused schema, such as an unknown id, stays
// an error before the registry is asked again. The default is 10 seconds. It
// must be positive.
func WithNegativeTTL(ttl time.Duration) SchemaCacheOption {
	return func(c *SchemaCache) { setPositive(&c.negativeTTL, ttl, "negative TTL", c.refuse) }
}

// WithMaxWriterSchemas bounds how many fetched schemas are kept; the oldest go
// first. Seeded and prewarmed ones do not count. The default is 10000. It must
// be positive.
func WithMaxWriterSchemas(limit int) SchemaCacheOption {
	return func(c *SchemaCache) { setPositive(&c.maxWriters, limit, "writer schema limit", c.refuse) }
}

// WithRefreshInterval has the cache call [SchemaCache.Refresh] on an interval,
// until it is closed. The default is never. It must be positive. It serves
// [UseLatest]; in the other modes a refresh finds the same ids again.
func WithRefreshInterval(interval time.Duration) SchemaCacheOption {
	return func(c *SchemaCache) { setPositive(&c.refreshInterval, interval, "refresh interval", c.refuse) }
}

// WithoutLatestCheck accepts, under [UseLatest], a latest version that cannot
// read everything that the local schema describes. Values that it cannot hold
// then fail one by one.
func WithoutLatestCheck() SchemaCacheOption {
	return func(c *SchemaCache) { c.checkLatest = false }
}

// WithNormalizedSchemas has the registry compare schemas in their normal form
// when prewarm registers or looks them up.
func WithNormalizedSchemas() SchemaCacheOption {
	return func(c *SchemaCache) { c.normalize = true }
}

// WithCacheHooks sets callbacks for metrics.
func WithCacheHooks(hooks CacheHooks) SchemaCacheOption {
	return func(c *SchemaCache) { c.hooks = hooks }
}

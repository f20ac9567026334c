// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/krabka-io/krabka-streams-go/internal/metacols"
)

// metadataSchemas makes the schemas of decoded batches, and remembers those of
// the last payload schema: batches of one source then share a schema object.
type metadataSchemas struct {
	last atomic.Pointer[metadataSchemaPair]
}

type metadataSchemaPair struct {
	payload *arrow.Schema
	full    [2]*arrow.Schema // the second with a tombstone column
}

func (c *metadataSchemas) of(payload *arrow.Schema, tombstones bool) *arrow.Schema {
	pair := c.last.Load()
	if pair == nil || pair.payload != payload {
		pair = &metadataSchemaPair{payload, [2]*arrow.Schema{withMetadataSchema(payload, false), withMetadataSchema(payload, true)}}
		c.last.Store(pair)
	}
	if tombstones {
		return pair.full[1]
	}
	return pair.full[0]
}

// payloadPlans tells the payload columns of batches, and remembers those of the
// last schema.
type payloadPlans struct {
	last atomic.Pointer[payloadPlan]
}

type payloadPlan struct {
	schema  *arrow.Schema
	payload *arrow.Schema
	indexes []int
}

func newPayloadPlan(schema *arrow.Schema) *payloadPlan {
	plan := &payloadPlan{schema: schema}
	fields := make([]arrow.Field, 0, schema.NumFields())
	for i, field := range schema.Fields() {
		if !metacols.IsReserved(field.Name) {
			fields = append(fields, metacols.Restore(field))
			plan.indexes = append(plan.indexes, i)
		}
	}
	metadata := schema.Metadata()
	plan.payload = arrow.NewSchema(fields, &metadata)
	return plan
}

// batch returns the payload columns of a batch, which the caller owns.
func (p *payloadPlan) batch(batch arrow.RecordBatch) arrow.RecordBatch {
	columns := make([]arrow.Array, len(p.indexes))
	for i, index := range p.indexes {
		columns[i] = batch.Column(index)
	}
	return array.NewRecordBatch(p.payload, columns, batch.NumRows())
}

// batch is [PayloadBatch] with a schema object that batches share.
func (c *payloadPlans) batch(batch arrow.RecordBatch) arrow.RecordBatch {
	plan := c.last.Load()
	if plan == nil || plan.schema != batch.Schema() {
		plan = newPayloadPlan(batch.Schema())
		c.last.Store(plan)
	}
	return plan.batch(batch)
}

// maxRememberedTopics bounds how many topics a codec remembers schemas of.
const maxRememberedTopics = 256

// topicSchemas remembers the last payload schema of each topic, for batches of
// nothing but tombstones.
type topicSchemas struct {
	mu    sync.Mutex // guards the map
	known map[string]*arrow.Schema
}

func (t *topicSchemas) remember(topic string, schema *arrow.Schema) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) == maxRememberedTopics {
		t.known = make(map[string]*arrow.Schema)
	}
	t.known[topic] = schema
}

// recall returns the topic's schema, or one without fields.
func (t *topicSchemas) recall(topic string) *arrow.Schema {
	t.mu.Lock()
	defer t.mu.Unlock()
	if schema := t.known[topic]; schema != nil {
		return schema
	}
	return noFields
}

var noFields = arrow.NewSchema(nil, nil)

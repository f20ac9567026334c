// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// localEncoder is a format that can tell before a schema has an id what it will
// write under the local schema.
type localEncoder interface{ localPlan() encodePlan }

// Schema returns the payload columns of decoded batches, as ArrowSchema does. It
// is nil where the codec cannot decode.
func (c *recordCodec) Schema() *arrow.Schema {
	if c.check() != nil {
		return nil
	}
	return c.payload
}

// CheckSchema reports why batches of a schema cannot be encoded under the codec's
// own: with a [*MismatchError] that lists the columns.
func (c *recordCodec) CheckSchema(all *arrow.Schema) error {
	if err := c.check(); err != nil {
		return err
	}
	empty := emptyBatch(all)
	defer empty.Release()
	payload := columnar.PayloadBatch(empty)
	defer payload.Release()
	err := c.value.checkBatch(payload)
	if c.options.key != nil {
		keys := keyBatch(payload, c.options.keyPrefix)
		defer keys.Release()
		err = errors.Join(err, c.options.key.checkBatch(keys))
	}
	return err
}

// checkBatch reports why the columns of a batch cannot be written.
func (p *part) checkBatch(batch arrow.RecordBatch) error {
	local, ok := p.format.(localEncoder)
	if !ok {
		return nil
	}
	plain, err := plainer{memory.DefaultAllocator, p.format.dictionaries()}.batch(batch)
	if err != nil {
		return err
	}
	defer plain.Release()
	_, err = local.localPlan().bind(plain)
	return err
}

// emptyBatch returns a batch without rows.
func emptyBatch(s *arrow.Schema) arrow.RecordBatch {
	columns := make([]arrow.Array, s.NumFields())
	for i, field := range s.Fields() {
		columns[i] = array.MakeArrayOfNull(memory.DefaultAllocator, field.Type, 0)
		defer columns[i].Release()
	}
	return array.NewRecordBatch(s, columns, 0)
}

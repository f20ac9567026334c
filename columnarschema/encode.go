// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// Encode makes a record of each row: the payload columns under the schema that
// the topic's subject has resolved to, with key, timestamp and headers from the
// metadata columns, or the key from the columns of [WithKey]. A row that
// [columnar.TombstoneColumn] marks has no value.
//
// Columns are found by name; others are ignored. Columns that cannot be written
// are a [*MismatchError] and a value that cannot is a [columnar.RowError] with a
// [schema.SerializeError]. A subject without an id is a
// [schema.UnresolvedSubjectError]: RegisterSubject and
// [schema.SchemaCache.Prewarm] come first.
//
// The keys and values that are written lie in a few large pieces of memory, which
// the caller owns: one that is kept keeps those around it.
func (c *recordCodec) Encode(topic string, batch arrow.RecordBatch) ([]columnar.ProduceRecord, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	payload := columnar.PayloadBatch(batch)
	defer payload.Release()
	value, err := c.value.writer(topic, payload, c.mem, c.options.headers)
	if err != nil {
		return nil, err
	}
	defer value.close()
	var key *partWriter
	if c.options.key != nil {
		keys := keyBatch(payload, c.options.keyPrefix)
		defer keys.Release()
		if key, err = c.options.key.writer(topic, keys, c.mem, c.options.headers); err != nil {
			return nil, err
		}
		defer key.close()
	}
	w := batchWriter{value: value, key: key, perRow: max(int(c.perRow.Load()), leastPerRow)}
	records := make([]columnar.ProduceRecord, batch.NumRows())
	metadata := columnar.NewRowMetadata(batch)
	for row := range records {
		w.reserve(row, len(records)-row)
		if records[row], err = metadata.Record(row); err != nil {
			return nil, err
		}
		if err := w.record(&records[row], row, metadata.Tombstone(row)); err != nil {
			return nil, err
		}
	}
	if len(records) > 0 {
		c.perRow.Store(int64(w.size / len(records)))
	}
	return records, nil
}

// batchWriter writes the rows of one batch.
type batchWriter struct {
	value, key *partWriter // key is nil where the key's bytes are a column
	arena      []byte      // of this record and of some before
	size       int         // bytes of all records
	perRow     int         // bytes that a record is expected to take
}

// leastPerRow is the size that the records of a first batch are expected to have.
const leastPerRow = 64

// reserve takes memory for all rows that are left where there may be too little for
// the next one. The records before it stay where they are.
func (w *batchWriter) reserve(done, left int) {
	if cap(w.arena)-len(w.arena) >= 2*w.perRow {
		return
	}
	if done > 0 {
		w.perRow = max(w.size/done, leastPerRow)
	}
	w.arena = make([]byte, 0, (left+2)*w.perRow*17/16)
}

// record writes the key and the value of a row, which has no value if it is a
// tombstone.
func (w *batchWriter) record(record *columnar.ProduceRecord, row int, tombstone bool) error {
	if w.key != nil {
		record.Key = nil
		if !w.key.null(row) {
			if err := w.write(w.key, record, &record.Key, row); err != nil {
				return err
			}
		}
	}
	if tombstone {
		return nil
	}
	return w.write(w.value, record, &record.Value, row)
}

func (w *batchWriter) write(part *partWriter, record *columnar.ProduceRecord, target *[]byte, row int) error {
	start := len(w.arena)
	grown, err := part.encoder.appendRow(append(w.arena, part.prefix...), row)
	if err != nil {
		return &columnar.RowError{Row: row, Cause: part.frames.Failure(err)}
	}
	w.size += len(grown) - start
	w.arena, *target = grown, grown[start:len(grown):len(grown)]
	if part.header != nil {
		record.Headers = append(record.Headers[:len(record.Headers):len(record.Headers)], *part.header)
	}
	return nil
}

// keyBatch returns the columns whose names begin with prefix, without it.
func keyBatch(payload arrow.RecordBatch, prefix string) arrow.RecordBatch {
	var fields []arrow.Field
	var columns []arrow.Array
	for i, field := range payload.Schema().Fields() {
		if len(field.Name) >= len(prefix) && field.Name[:len(prefix)] == prefix {
			field.Name = field.Name[len(prefix):]
			fields, columns = append(fields, field), append(columns, payload.Column(i))
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, payload.NumRows())
}

// writer returns what writes this part of the rows of a batch. The caller closes it.
func (p *part) writer(topic string, batch arrow.RecordBatch, mem memory.Allocator, headers bool) (*partWriter, error) {
	frames, err := p.framer.Writer(topic)
	if err != nil {
		return nil, err
	}
	plain, err := plainer{mem, p.format.dictionaries()}.batch(batch)
	if err != nil {
		return nil, err
	}
	encoder, err := frames.Plan.bind(plain)
	if err != nil {
		plain.Release()
		return nil, err
	}
	w := &partWriter{frames: frames, encoder: encoder, plain: plain}
	if headers {
		w.header = &columnar.RecordHeader{Key: p.header, Value: frames.Header}
	} else {
		w.prefix = frames.Prefix
	}
	if p.framer.Role() == schema.RoleKey {
		w.columns = batch.Columns()
	}
	return w, nil
}

// partWriter writes one part of the rows of one batch.
type partWriter struct {
	frames  schema.FrameWriter[encodePlan]
	encoder rowEncoder
	prefix  []byte                 // of each payload
	header  *columnar.RecordHeader // nil where prefix carries the schema id
	columns []arrow.Array          // of a key
	plain   arrow.RecordBatch      // that encoder borrows
}

// close ends the use of the batch.
func (w *partWriter) close() { w.plain.Release() }

// null reports whether every column of a key is null.
func (w *partWriter) null(row int) bool {
	for _, column := range w.columns {
		if !column.IsNull(row) {
			return false
		}
	}
	return true
}

// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/hamba/avro/v2"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
	"github.com/krabka-io/krabka-streams-go/internal/avrovalue"
	"github.com/krabka-io/krabka-streams-go/internal/columnset"
)

// AvroRowBridge converts generic Avro rows to and from columns. Rows are
// map[string]any in the mapping that package schema documents: decimals are
// *big.Rat, dates and timestamps time.Time in UTC, values of unions bare, and so
// on. Rows may also give the value of a union in a map of one entry with the
// name of the branch.
//
// The bridge is for programs that work on rows; an [AvroBatchCodec] has no need
// of it. It is a [columnar.RowBridge] and safe for concurrent use by multiple
// goroutines.
type AvroRowBridge struct {
	format *avroFormat

	// A row becomes a datum on the way to columns and back.
	toDatum   func(dst []byte, row any) ([]byte, error)
	fromDatum func(datum []byte) (any, error)
	decode    decodePlan
	encode    encodePlan
}

var _ columnar.RowBridge[any] = (*AvroRowBridge)(nil)

// NewAvroRowBridge returns a bridge for the rows of a record schema.
func NewAvroRowBridge(schema avro.Schema) (*AvroRowBridge, error) {
	local, err := planSchema(schema)
	if err != nil {
		return nil, err
	}
	b := new(AvroRowBridge)
	if b.format, err = newAvroFormat(local, new(codecOptions)); err != nil {
		return nil, err
	}
	if err := b.compile(local); err != nil {
		return nil, textPrefix.Wrap(err, "Avro row bridge")
	}
	return b, nil
}

func (b *AvroRowBridge) compile(local *avroplan.Schema) error {
	node, err := avroplan.Resolve(local, local)
	if err != nil {
		return err
	}
	rows := avrovalue.NewCodec[any](local, avrovalue.Options{})
	if b.toDatum, err = rows.Encoder(); err != nil {
		return err
	}
	if b.fromDatum, err = rows.Decoder(node); err != nil {
		return err
	}
	b.encode = &avroEncodePlan{schema: local}
	b.decode, err = compileAvro(local, local, b.format.spec)
	return err
}

// ArrowSchema returns the schema of the columns.
func (b *AvroRowBridge) ArrowSchema() *arrow.Schema { return b.format.spec.Schema() }

// RowsToBatch returns a batch with a row for each of rows. A row that does not
// fit the schema is a [columnar.RowError]. The caller owns the batch.
func (b *AvroRowBridge) RowsToBatch(rows []any, mem memory.Allocator) (arrow.RecordBatch, error) {
	set := columnset.New(b.format.spec, mem)
	defer set.Discard()
	set.Scratch = b.format.newScratch()
	set.Begin(mem, len(rows), 0)
	var datum []byte
	for i, row := range rows {
		var err error
		if datum, err = b.appendRow(set, datum[:0], row); err != nil {
			return nil, &columnar.RowError{Row: i, Cause: err}
		}
		if !set.Commit() {
			return nil, &BatchTooLargeError{Column: set.Overflow().Field.Name, Fits: i}
		}
	}
	columns := set.Finish()
	batch := array.NewRecordBatch(b.format.spec.Schema(), columns, int64(len(rows)))
	for _, column := range columns {
		column.Release()
	}
	return batch, nil
}

// appendRow appends the values of a row to the columns, with datum as scratch.
func (b *AvroRowBridge) appendRow(set *columnset.Set, datum []byte, row any) ([]byte, error) {
	if _, ok := row.(map[string]any); !ok {
		return datum, fmt.Errorf("columnarschema: a row of Go type %T is no record, which is a map[string]any", row)
	}
	datum, err := b.toDatum(datum, row)
	if err != nil {
		return datum, err
	}
	return datum, b.decode.decode(set, nil, datum)
}

// BatchToRows returns a row for each row of a batch, whose columns are found by
// name. The rows share no memory with the batch.
func (b *AvroRowBridge) BatchToRows(batch arrow.RecordBatch) ([]any, error) {
	plain, err := plainer{memory.DefaultAllocator, true}.batch(batch)
	if err != nil {
		return nil, err
	}
	defer plain.Release()
	encoder, err := b.encode.bind(plain)
	if err != nil {
		return nil, err
	}
	rows := make([]any, batch.NumRows())
	var datum []byte
	for i := range rows {
		if datum, err = encoder.appendRow(datum[:0], i); err == nil {
			rows[i], err = b.fromDatum(datum)
		}
		if err != nil {
			return nil, &columnar.RowError{Row: i, Cause: err}
		}
	}
	return rows, nil
}

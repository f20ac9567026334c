// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// Decode reads records into one batch: the payload columns of
// [recordCodec.ArrowSchema], then the metadata columns. No records give a batch
// without rows.
//
// Records that cannot be read are reported together in a
// [columnar.DecodeError], unless [WithPoisonHandler] takes them. While the
// schema of a record is being fetched, the error is retriable and names the
// records that wait, and the fetches of all their schemas have begun: the call
// is to be repeated with the same records. Values beyond what a batch can hold
// are a [*BatchTooLargeError].
//
// The caller owns the returned batch, which shares no memory with the records.
func (c *recordCodec) Decode(topic string, records []columnar.ConsumedRecord) (arrow.RecordBatch, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	d := batchDecoder{codec: c, topic: topic, records: records, value: c.value.reader(topic, c.mem)}
	defer d.value.close()
	size := 0
	for i := range records {
		size += len(records[i].Value)
	}
	d.value.Begin(c.mem, len(records), size)
	if key := c.options.key; key != nil {
		d.key = key.reader(topic, c.mem)
		defer d.key.close()
		size = 0
		for i := range records {
			size += len(records[i].Key)
		}
		d.key.Begin(c.mem, len(records), size)
	}
	if err := d.run(); err != nil {
		return nil, err
	}
	return d.batch()
}

// batchDecoder is one call of Decode.
type batchDecoder struct {
	codec      *recordCodec
	topic      string
	records    []columnar.ConsumedRecord
	value, key *partReader // key is nil without a key codec

	failed  []*columnar.RecordError // for good
	pending []*columnar.RecordError // to be read again
	omitted []int                   // indexes of records without a row, ascending
}

func (d *batchDecoder) run() error {
	for i := range d.records {
		record := &d.records[i]
		if len(d.pending) > 0 {
			d.request(i)
			continue
		}
		if record.Value == nil && d.codec.options.tombstones == TombstoneSkip {
			d.omitted = append(d.omitted, i)
			continue
		}
		if err := d.record(record); err != nil {
			d.value.Rollback()
			if d.key != nil {
				d.key.Rollback()
			}
			d.fail(i, err)
			continue
		}
		if !d.commit() {
			return d.tooLarge(i)
		}
	}
	switch {
	case len(d.pending) > 0:
		return &columnar.DecodeError{Records: d.pending}
	case len(d.failed) > 0 && d.codec.options.onPoison == nil:
		return &columnar.DecodeError{Records: d.failed}
	}
	for _, failure := range d.failed {
		d.codec.options.onPoison(failure)
	}
	return nil
}

// record appends the values of one record.
func (d *batchDecoder) record(record *columnar.ConsumedRecord) error {
	switch {
	case record.Value != nil:
		if err := d.value.read(record.Value, record.Headers); err != nil {
			return err
		}
	case d.codec.options.tombstones == TombstoneReject:
		return errTombstone
	default:
		d.value.AppendNulls()
	}
	switch {
	case d.key == nil:
		return nil
	case record.Key == nil:
		d.key.AppendNulls()
		return nil
	}
	return d.key.read(record.Key, record.Headers)
}

// request asks for the schemas of a record that is not read in this call.
func (d *batchDecoder) request(index int) {
	record := &d.records[index]
	if record.Value != nil {
		if _, _, _, err := d.value.plan(record.Value, record.Headers); columnar.IsRetriable(err) {
			d.fail(index, err)
		}
	}
	if d.key != nil && record.Key != nil {
		if _, _, _, err := d.key.plan(record.Key, record.Headers); columnar.IsRetriable(err) {
			d.fail(index, err)
		}
	}
}

func (d *batchDecoder) fail(index int, cause error) {
	record := &d.records[index]
	failure := &columnar.RecordError{
		Topic: d.topic, Partition: record.Partition, Offset: record.Offset, Index: index, Cause: cause,
	}
	if columnar.IsRetriable(cause) {
		d.pending = append(d.pending, failure)
		return
	}
	d.failed, d.omitted = append(d.failed, failure), append(d.omitted, index)
}

// commit ends the row of a record in all columns, or takes it back in all.
func (d *batchDecoder) commit() bool {
	if d.key != nil && d.key.Overflow() != nil {
		d.value.Rollback()
		d.key.Rollback()
		return false
	}
	if !d.value.Commit() {
		return false
	}
	return d.key == nil || d.key.Commit()
}

// tooLarge returns the error of a record that does not fit into the batch: of the
// batch, or of the record where it does not fit alone.
func (d *batchDecoder) tooLarge(index int) error {
	err := &BatchTooLargeError{Topic: d.topic, Column: d.overflowing(), Fits: index}
	if d.value.Rows() > 0 {
		return err
	}
	err.Fits = 0
	d.fail(index, err)
	return &columnar.DecodeError{Records: d.failed}
}

// overflowing names the first column without room.
func (d *batchDecoder) overflowing() string {
	if c := d.value.Overflow(); c != nil {
		return c.Field.Name
	}
	return d.codec.options.keyPrefix + d.key.Overflow().Field.Name
}

// batch makes a batch of what has been read.
func (d *batchDecoder) batch() (arrow.RecordBatch, error) {
	rows := d.value.Rows()
	columns := d.value.Finish()
	if d.key != nil {
		columns = append(columns, d.key.Finish()...)
	}
	payload := array.NewRecordBatch(d.codec.payload, columns, int64(rows))
	for _, column := range columns {
		column.Release()
	}
	if d.codec.options.bare {
		return payload, nil
	}
	defer payload.Release()
	kept := d.records
	if len(d.omitted) > 0 {
		omitted := d.omitted
		kept = slices.DeleteFunc(slices.Clone(kept), func() func(columnar.ConsumedRecord) bool {
			at := -1
			return func(columnar.ConsumedRecord) bool {
				at++
				if len(omitted) == 0 || omitted[0] != at {
					return false
				}
				omitted = omitted[1:]
				return true
			}
		}())
	}
	attached, err := columnar.AttachMetadata(d.codec.mem, payload, kept)
	if err != nil {
		return nil, err
	}
	return d.codec.share(attached), nil
}

// share gives a batch the schema object of earlier batches, by which operators
// and sinks know that they can go on with what they have found out about its
// columns. It takes the batch over.
func (c *recordCodec) share(batch arrow.RecordBatch) arrow.RecordBatch {
	known := &c.full[0]
	if batch.Schema().HasField(columnar.TombstoneColumn) {
		known = &c.full[1]
	}
	if known.CompareAndSwap(nil, batch.Schema()) {
		return batch
	}
	defer batch.Release()
	return array.NewRecordBatch(known.Load(), batch.Columns(), batch.NumRows())
}

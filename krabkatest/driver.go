// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// ColumnarTestDriver feeds records to a topology, without a broker, and queues the
// records that its sinks produce, by topic.
//
// A call that returns an error has not happened: it produces nothing, changes no
// state and uses no offset. The driver does not close the topology. It is not safe
// for concurrent use.
type ColumnarTestDriver struct {
	topology   *columnar.BuiltTopology
	faults     []error
	next       map[columnar.TopicPartition]int64 // offset of the next piped record
	partitions map[int]bool                      // that have been fed
	outputs    map[string][]columnar.ProduceRecord
}

// NewColumnarTestDriver returns a driver of topology, whose state is used as it is.
func NewColumnarTestDriver(topology *columnar.BuiltTopology) *ColumnarTestDriver {
	return &ColumnarTestDriver{
		topology:   topology,
		next:       map[columnar.TopicPartition]int64{},
		partitions: map[int]bool{},
		outputs:    map[string][]columnar.ProduceRecord{},
	}
}

// PipeInput processes one record, as [columnar.NewConsumedRecord] makes it, with
// the next offset of its partition: 0, 1, 2 and so on, where a record that failed
// leaves its offset to the next one. timestamp is in milliseconds since the Unix
// epoch. The driver copies key, value and headers.
func (d *ColumnarTestDriver) PipeInput(topic string, partition int, key, value []byte, timestamp int64, headers ...columnar.RecordHeader) error {
	at := columnar.TopicPartition{Topic: topic, Partition: partition}
	record := columnar.NewConsumedRecord(bytes.Clone(key), bytes.Clone(value), timestamp, partition, d.next[at], cloneHeaders(headers)...)
	return d.pipeOne(at, record)
}

// PipeTombstone is [ColumnarTestDriver.PipeInput] for a record without a value.
func (d *ColumnarTestDriver) PipeTombstone(topic string, partition int, key []byte, timestamp int64, headers ...columnar.RecordHeader) error {
	at := columnar.TopicPartition{Topic: topic, Partition: partition}
	record := columnar.NewConsumedTombstone(bytes.Clone(key), timestamp, partition, d.next[at], cloneHeaders(headers)...)
	return d.pipeOne(at, record)
}

// PipeJSON is [ColumnarTestDriver.PipeInput] for a record without a key, in
// partition 0, whose value is the JSON text of a Go value.
func (d *ColumnarTestDriver) PipeJSON(topic string, timestamp int64, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("krabkatest: write a %T as JSON: %w", value, err)
	}
	return d.PipeInput(topic, 0, nil, text, timestamp)
}

func (d *ColumnarTestDriver) pipeOne(at columnar.TopicPartition, record columnar.ConsumedRecord) error {
	if err := d.PipeBatch(at.Topic, []columnar.ConsumedRecord{record}); err != nil {
		return err
	}
	d.next[at]++
	return nil
}

// PipeBatch processes records of one topic as one fetch, by
// [columnar.BuiltTopology.RunBatch]. Where faults of [ColumnarTestDriver.FailNext]
// wait, it returns the oldest one instead. The records have the offsets that the
// caller gave them, which do not move those of [ColumnarTestDriver.PipeInput].
func (d *ColumnarTestDriver) PipeBatch(topic string, records []columnar.ConsumedRecord) error {
	if len(d.faults) > 0 {
		fault := d.faults[0]
		d.faults = slices.Delete(d.faults, 0, 1)
		return fault
	}
	outputs, err := d.topology.RunBatch(topic, records)
	if err != nil {
		return err
	}
	for _, record := range records {
		d.partitions[record.Partition] = true
	}
	d.queue(outputs)
	return nil
}

// AdvanceTime tells one logical partition that no record before timestamp, in
// milliseconds since the Unix epoch, is expected, and queues what the windows
// that this closes produce. A runner does so for partitions without records; see
// [columnar.WithIdleTimeout].
func (d *ColumnarTestDriver) AdvanceTime(partition int, timestamp int64) error {
	outputs, err := d.topology.AdvanceTime(partition, timestamp)
	if err != nil {
		return err
	}
	d.queue(outputs)
	return nil
}

// Restart does to the state of all partitions that were fed what the end of a
// process and its next start do: the state is saved, dropped and restored.
func (d *ColumnarTestDriver) Restart() error {
	for _, partition := range slices.Sorted(maps.Keys(d.partitions)) {
		saved, err := d.topology.SnapshotPartition(partition)
		if err != nil {
			return err
		}
		d.topology.ReleasePartition(partition)
		if err := d.topology.RestorePartition(partition, saved); err != nil {
			return err
		}
	}
	return nil
}

// FailNext makes the next batch, of this driver, fail with fault and not run.
// Several faults are queued, each for one batch. It panics if fault is nil.
func (d *ColumnarTestDriver) FailNext(fault error) {
	if fault == nil {
		panic("krabkatest: FailNext of a nil error")
	}
	d.faults = append(d.faults, fault)
}

// IsOutputEmpty reports whether no record to topic is queued.
func (d *ColumnarTestDriver) IsOutputEmpty(topic string) bool { return d.OutputSize(topic) == 0 }

// OutputSize returns how many records to topic are queued.
func (d *ColumnarTestDriver) OutputSize(topic string) int { return len(d.outputs[topic]) }

// ReadOutput takes the oldest record to topic out of the queue. It is an error
// that there is none.
func (d *ColumnarTestDriver) ReadOutput(topic string) (columnar.ProduceRecord, error) {
	queued := d.outputs[topic]
	if len(queued) == 0 {
		return columnar.ProduceRecord{}, fmt.Errorf("krabkatest: topic `%s` has no output", topic)
	}
	first := queued[0]
	d.outputs[topic] = slices.Delete(queued, 0, 1)
	return first, nil
}

// DrainOutput takes all records to topic out of the queue, in the order in which
// they were produced; nil where there is none.
func (d *ColumnarTestDriver) DrainOutput(topic string) []columnar.ProduceRecord {
	queued := d.outputs[topic]
	delete(d.outputs, topic)
	if len(queued) == 0 {
		return nil
	}
	return queued
}

func (d *ColumnarTestDriver) queue(outputs []columnar.ProducedToTopic) {
	for _, out := range outputs {
		d.outputs[out.Topic] = append(d.outputs[out.Topic], out.Record)
	}
}

// RowsOf reads the values of records, which are JSON objects, as values of T. A
// tombstone is the zero value. A member that T does not have is an error, so that
// a test notices columns that it does not expect.
func RowsOf[T any](records []columnar.ProduceRecord) ([]T, error) {
	rows := make([]T, len(records))
	for i, record := range records {
		if record.Value == nil {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(record.Value))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&rows[i])
		if err == nil && decoder.More() {
			err = errors.New("text behind the JSON value")
		}
		if err != nil {
			return nil, fmt.Errorf("krabkatest: record %d, %q, as a %T: %w", i, record.Value, rows[i], err)
		}
	}
	return rows, nil
}

func cloneHeaders(headers []columnar.RecordHeader) []columnar.RecordHeader {
	headers = slices.Clone(headers)
	for i := range headers {
		headers[i].Value = bytes.Clone(headers[i].Value)
	}
	return headers
}

// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// simCodec makes one text column of the values of records. The records of a sink have
// the first word of the text as key.
type simCodec struct{}

var simSchema = arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String}}, nil)

func simBatch(texts []string) arrow.RecordBatch {
	builder := array.NewStringBuilder(memory.DefaultAllocator)
	defer builder.Release()
	builder.AppendValues(texts, nil)
	column := builder.NewArray()
	defer column.Release()
	return array.NewRecordBatch(simSchema, []arrow.Array{column}, int64(len(texts)))
}

func (simCodec) Decode(_ string, records []columnar.ConsumedRecord) (arrow.RecordBatch, error) {
	texts := make([]string, len(records))
	for i, record := range records {
		texts[i] = string(record.Value)
	}
	return simBatch(texts), nil
}

func (simCodec) Encode(_ string, batch arrow.RecordBatch) ([]columnar.ProduceRecord, error) {
	column := batch.Column(0).(*array.String)
	records := make([]columnar.ProduceRecord, column.Len())
	for i := range records {
		text := column.Value(i)
		records[i] = columnar.ProduceRecord{Key: []byte(text[:2]), Value: []byte(text), Timestamp: 1}
	}
	return records, nil
}

// simChain is a state that tells every history from every other: the number of
// records and a hash over all of them in order.
type simChain struct{ count, hash uint64 }

func (c simChain) next(text string) simChain {
	hash := fnv.New64a()
	hash.Write(binary.BigEndian.AppendUint64(nil, c.hash))
	hash.Write([]byte(text))
	return simChain{c.count + 1, hash.Sum64()}
}

// text is the output for the record that made the state: partition, count and hash.
func (c simChain) text(partition string) string {
	return partition + " " + strconv.FormatUint(c.count, 10) + " " + strconv.FormatUint(c.hash, 16)
}

func (c simChain) bytes() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, c.count), c.hash)
}

// simChainer passes on the state behind each record.
type simChainer struct{ chain simChain }

func (s *simChainer) Process(ctx *columnar.Context, batch arrow.RecordBatch) error {
	column := batch.Column(0).(*array.String)
	texts := make([]string, column.Len())
	for i := range texts {
		s.chain = s.chain.next(column.Value(i))
		texts[i] = s.chain.text(column.Value(i)[:2])
	}
	ctx.Forward(simBatch(texts))
	return nil
}

func (s *simChainer) Snapshot() ([]byte, error) { return s.chain.bytes(), nil }

func (s *simChainer) Restore(snapshot []byte) error {
	if len(snapshot) != 16 {
		return fmt.Errorf("%d bytes of state", len(snapshot))
	}
	s.chain = simChain{binary.BigEndian.Uint64(snapshot), binary.BigEndian.Uint64(snapshot[8:])}
	return nil
}

// simTopology is in -> chain -> out.
func simTopology() (*columnar.Topology, error) {
	topology := columnar.NewTopology(memory.DefaultAllocator)
	source, err := topology.AddSource("source", []string{"in"}, simCodec{})
	if err != nil {
		return nil, err
	}
	chain, err := topology.AddProcessor("chain", func() columnar.Processor { return &simChainer{} }, source)
	if err != nil {
		return nil, err
	}
	_, err = topology.AddSink("sink", "out", simCodec{}, chain)
	return topology, err
}

// simInput is what is in one partition: the states behind its records, from the empty
// one on, and the offsets of the records.
type simInput struct {
	chains  []simChain
	offsets []int64
}

func newSimInput() *simInput { return &simInput{chains: []simChain{{}}} }

func (in *simInput) add(text string, offset int64) {
	in.chains = append(in.chains, in.chains[len(in.chains)-1].next(text))
	in.offsets = append(in.offsets, offset)
}

// below returns the state behind the records below an offset.
func (in *simInput) below(offset int64) simChain {
	n, _ := slices.BinarySearch(in.offsets, offset)
	return in.chains[n]
}

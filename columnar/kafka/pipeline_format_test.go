// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/twmb/avro"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
	"github.com/krabka-io/krabka-streams-go/columnarschema"
	"github.com/krabka-io/krabka-streams-go/internal/nexgen"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// recordFormat is the form of the records of a pipeline benchmark.
type recordFormat struct {
	bid func(*nexgen.Bid) []byte
	// decode and encode are what the naive loop does with a row, whose pointer is
	// given.
	decode func(value []byte, row any) error
	encode func(row any) ([]byte, error)
	// topology is the query of a pass on columns.
	topology func(testing.TB, pass) *columnar.Topology
}

// bid and its answers are what the naive loop decodes into and encodes.
type (
	bidRow struct {
		Auction int64  `json:"auction" avro:"auction"`
		Bidder  int64  `json:"bidder" avro:"bidder"`
		Price   int64  `json:"price" avro:"price"`
		Channel string `json:"channel" avro:"channel"`
		URL     string `json:"url" avro:"url"`
		TS      int64  `json:"ts" avro:"ts"`
		Extra   string `json:"extra" avro:"extra"`
	}
	priceRow struct {
		Auction int64 `json:"auction" avro:"auction"`
		Price   int64 `json:"price" avro:"price"`
	}
	countRow struct {
		Bidder int64 `json:"bidder" avro:"bidder"`
		Start  int64 `json:"__window_start" avro:"__window_start"`
		Count  int64 `json:"count" avro:"count"`
	}
)

func jsonRecords() recordFormat {
	return recordFormat{
		bid:    func(bid *nexgen.Bid) []byte { return bid.AppendJSON(nil) },
		decode: json.Unmarshal, encode: json.Marshal, topology: jsonTopology,
	}
}

// jsonTopology builds a query on columns of JSON.
func jsonTopology(b testing.TB, p pass) *columnar.Topology {
	b.Helper()
	mem := memory.DefaultAllocator
	field := func(name string, dataType arrow.DataType) arrow.Field { return arrow.Field{Name: name, Type: dataType} }
	bid := []arrow.Field{
		field("auction", arrow.PrimitiveTypes.Int64), field("bidder", arrow.PrimitiveTypes.Int64), field("price", arrow.PrimitiveTypes.Int64),
		field("channel", arrow.BinaryTypes.String), field("url", arrow.BinaryTypes.String), field("ts", arrow.PrimitiveTypes.Int64),
		field("extra", arrow.BinaryTypes.String),
	}
	topology := columnar.NewTopology(mem)
	must := func(node columnar.Node, err error) columnar.Node {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return node
	}
	codec := func(fields []arrow.Field, options ...columnar.JSONCodecOption) *columnar.JSONCodec {
		b.Helper()
		var schema *arrow.Schema
		if fields != nil {
			schema = arrow.NewSchema(fields, nil)
		}
		c, err := columnar.NewJSONCodec(mem, schema, options...)
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	source := func(fields ...arrow.Field) columnar.Node {
		return must(topology.AddSource("bids", []string{p.bids}, codec(fields)))
	}
	switch p.query {
	case "q0":
		must(topology.AddSink("answer", p.out, codec(nil), source(bid...)))
	case "q2":
		every123rd := columnar.FilterWhere(mem, columnar.Column("auction").Mod(int64(123)).Equal(int64(0)))
		kept := must(topology.AddOperator("every 123rd auction", every123rd, source(bid[0], bid[2])))
		must(topology.AddSink("answer", p.out, codec(nil), kept))
	case "q12e":
		counting, err := memberConfig{Bids: p.bids, Counts: p.out}.topology()
		if err != nil {
			b.Fatal(err)
		}
		return counting
	}
	return topology
}

// The schemas of Avro records, with their ids.
const (
	priceSchema = `{"type":"record","name":"Price","fields":[{"name":"auction","type":"long"},{"name":"price","type":"long"}]}`
	countSchema = `{"type":"record","name":"Count","fields":[{"name":"bidder","type":"long"},
		{"name":"__window_start","type":"long"},{"name":"count","type":"long"}]}`

	bidID, priceID, countID = 1, 2, 3
)

func avroRecords() recordFormat {
	type rowSchema struct {
		id     int
		schema *avro.Schema
	}
	rows := map[reflect.Type]rowSchema{
		reflect.TypeFor[*bidRow]():   {bidID, avro.MustParse(nexgen.AvroSchema)},
		reflect.TypeFor[*priceRow](): {priceID, avro.MustParse(priceSchema)},
		reflect.TypeFor[*countRow](): {countID, avro.MustParse(countSchema)},
	}
	return recordFormat{
		bid: func(bid *nexgen.Bid) []byte { return bid.AppendAvro([]byte{0, 0, 0, 0, bidID}) },
		decode: func(value []byte, row any) error {
			if len(value) < 5 {
				return fmt.Errorf("the frame has %d bytes", len(value))
			}
			_, err := rows[reflect.TypeOf(row)].schema.Decode(value[5:], row)
			return err
		},
		encode: func(row any) ([]byte, error) {
			known := rows[reflect.TypeOf(row)]
			return known.schema.AppendEncode([]byte{0, 0, 0, 0, byte(known.id)}, row)
		},
		topology: avroTopology,
	}
}

// avroTopology builds a query on columns of Avro.
func avroTopology(b testing.TB, p pass) *columnar.Topology {
	b.Helper()
	cache := schema.NewSchemaCache(nil)
	b.Cleanup(func() { _ = cache.Close() })
	cache.SeedWriterSchema(bidID, nexgen.AvroSchema)
	codec := func(text string, id int) stream.Format {
		cache.SeedSubjectID(p.out+"-value", id)
		made, err := columnarschema.NewAvroBatchCodec(text, cache, memory.DefaultAllocator)
		if err != nil {
			b.Fatal(err)
		}
		return stream.Using(made)
	}
	bids := stream.New().From(codec(nexgen.AvroSchema, bidID), p.bids)
	var ended *stream.Builder
	switch p.query {
	case "q0":
		ended = bids.To(p.out, codec(nexgen.AvroSchema, bidID))
	case "q2":
		ended = bids.Where(columnar.Column("auction").Mod(int64(123)).Equal(int64(0))).Select("auction", "price").
			To(p.out, codec(priceSchema, priceID))
	default:
		ended = bids.GroupBy("bidder").Tumbling(nexgen.WindowMillis*time.Millisecond).Aggregate(stream.Count().As("count")).
			WithKey(columnar.Column("bidder").BigEndian()).To(p.out, codec(countSchema, countID))
	}
	topology, err := ended.Topology()
	if err != nil {
		b.Fatal(err)
	}
	return topology
}

// forgetPeak makes [peakMB] count from now on.
func forgetPeak(b testing.TB) {
	b.Helper()
	debug.FreeOSMemory() // what the check of the pass before has used
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200); err != nil && !os.IsNotExist(err) {
		b.Log("the peak of memory counts from the start:", err)
	}
}

// peakMB is the most memory that this process has had, 0 where the system does not
// tell.
func peakMB(b testing.TB) float64 {
	b.Helper()
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		var kilobytes float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kilobytes); n == 1 {
			return kilobytes / 1024
		}
	}
	return 0
}

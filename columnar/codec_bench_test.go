// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/headercol"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
)

// perRow reports the time for each of rows.
func perRow(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
}

// sales returns a payload of four columns, one of them text.
func sales(rows int) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "customer", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "amount", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "paid", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := range rows {
		builder.Field(0).(*array.Int64Builder).Append(int64(i))
		builder.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("customer-%06d", i%1000))
		builder.Field(2).(*array.Float64Builder).Append(float64(i) / 7)
		builder.Field(3).(*array.BooleanBuilder).Append(i%3 == 0)
	}
	return builder.NewRecordBatch()
}

func BenchmarkAttachMetadata(b *testing.B) {
	const rows = 4096
	payload := sales(rows)
	records := make([]ConsumedRecord, rows)
	for i := range records {
		records[i] = ConsumedRecord{Key: fmt.Appendf(nil, "key-%05d", i), Value: []byte{}, Timestamp: int64(i), Offset: int64(i)}
	}
	schema := withMetadataSchema(payload.Schema(), false)
	b.Run("bulk", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			batch, err := attachMetadata(memory.DefaultAllocator, payload, records, nil, schema)
			if err != nil {
				b.Fatal(err)
			}
			batch.Release()
		}
		perRow(b, rows)
	})
	b.Run("builders", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			builder := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(metacols.Fields(false), nil))
			for i := range records {
				builder.Field(0).(*array.BinaryBuilder).Append(records[i].Key)
				builder.Field(1).(*array.Int64Builder).Append(records[i].Timestamp)
				builder.Field(2).(*array.Int32Builder).Append(int32(records[i].Partition))
				builder.Field(3).(*array.Int64Builder).Append(records[i].Offset)
				builder.Field(4).(*array.BinaryBuilder).Append(headercol.Append(nil, records[i].Headers))
			}
			builder.NewRecordBatch().Release()
			builder.Release()
		}
		perRow(b, rows)
	})
}

func BenchmarkIPCDecode(b *testing.B) {
	for _, rows := range []int{1, 1000, 65536} {
		data := arrowtest.Stream(b, []arrow.RecordBatch{sales(rows)})
		b.Run(fmt.Sprintf("verified/rows=%d", rows), func(b *testing.B) {
			serde := NewIPCSerde(memory.DefaultAllocator)
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				batch, err := serde.Deserialize("t", data)
				if err != nil {
					b.Fatal(err)
				}
				batch.Release()
			}
			perRow(b, rows)
		})
		b.Run(fmt.Sprintf("arrow reader/rows=%d", rows), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				reader, err := ipc.NewReader(bytes.NewReader(data))
				if err != nil {
					b.Fatal(err)
				}
				if !reader.Next() {
					b.Fatal(reader.Err())
				}
				reader.Release()
			}
			perRow(b, rows)
		})
	}
}

func BenchmarkIPCEncode(b *testing.B) {
	for _, rows := range []int{1, 1000, 65536} {
		batch := sales(rows)
		size := len(arrowtest.Stream(b, []arrow.RecordBatch{batch}))
		b.Run(fmt.Sprintf("serde/rows=%d", rows), func(b *testing.B) {
			serde := NewIPCSerde(memory.DefaultAllocator)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := serde.Serialize("t", batch); err != nil {
					b.Fatal(err)
				}
			}
			perRow(b, rows)
		})
		b.Run(fmt.Sprintf("arrow writer of known size/rows=%d", rows), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var stream bytes.Buffer
				stream.Grow(size)
				writer := ipc.NewWriter(&stream, ipc.WithSchema(batch.Schema()))
				if err := writer.Write(batch); err != nil {
					b.Fatal(err)
				}
				if err := writer.Close(); err != nil {
					b.Fatal(err)
				}
			}
			perRow(b, rows)
		})
	}
}

func BenchmarkBlobDecodeOfOneRowRecords(b *testing.B) {
	const count = 1000
	records := make([]ConsumedRecord, count)
	for i := range records {
		records[i] = ConsumedRecord{Value: arrowtest.Stream(b, []arrow.RecordBatch{sales(1)}), Offset: int64(i)}
	}
	b.Run("blob codec", func(b *testing.B) {
		codec := NewBlobCodec(memory.DefaultAllocator)
		b.ReportAllocs()
		for b.Loop() {
			batch, err := codec.Decode("t", records)
			if err != nil {
				b.Fatal(err)
			}
			batch.Release()
		}
		perRow(b, count)
	})
	b.Run("arrow reader and concatenate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			columns := make([][]arrow.Array, 4)
			for i := range records {
				reader, err := ipc.NewReader(bytes.NewReader(records[i].Value))
				if err != nil {
					b.Fatal(err)
				}
				if !reader.Next() {
					b.Fatal(reader.Err())
				}
				for j, column := range reader.RecordBatch().Columns() {
					column.Retain()
					columns[j] = append(columns[j], column)
				}
				reader.Release()
			}
			for _, parts := range columns {
				joined, err := array.Concatenate(parts, memory.DefaultAllocator)
				if err != nil {
					b.Fatal(err)
				}
				joined.Release()
				arrays.Release(parts)
			}
		}
		perRow(b, count)
	})
}

func BenchmarkBlobPack(b *testing.B) {
	const rows = 65536
	batch := sales(rows)
	b.Run("many rows a record", func(b *testing.B) {
		codec := NewBlobCodec(memory.DefaultAllocator)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := codec.Encode("t", batch); err != nil {
				b.Fatal(err)
			}
		}
		perRow(b, rows)
	})
	records := make([]ConsumedRecord, 1000)
	for i := range records {
		records[i] = ConsumedRecord{Key: fmt.Append(nil, i), Value: []byte{}}
	}
	few := batch.NewSlice(0, 1000)
	keyed, err := AttachMetadata(memory.DefaultAllocator, few, records)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("one row a record", func(b *testing.B) {
		codec := NewBlobCodec(memory.DefaultAllocator)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := codec.Encode("t", keyed); err != nil {
				b.Fatal(err)
			}
		}
		perRow(b, 1000)
	})
	b.Run("many rows a record by binary search with the arrow writer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for from := int64(0); from < rows; {
				fits, over := from, min(from+rows, rows)+1
				for over-fits > 1 {
					middle := (fits + over) / 2
					part := batch.NewSlice(from, middle)
					if len(arrowtest.Stream(b, []arrow.RecordBatch{part})) <= DefaultMaxRecordBytes {
						fits = middle
					} else {
						over = middle
					}
					part.Release()
				}
				from = fits
			}
		}
		perRow(b, rows)
	})
}

func BenchmarkJSONEncode(b *testing.B) {
	const rows = 4096
	codec := newTestJSONCodec(b, memory.DefaultAllocator, bidSchema)
	batch, err := codec.Decode("t", bids(rows))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("codec", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := codec.Encode("t", batch); err != nil {
				b.Fatal(err)
			}
		}
		perRow(b, rows)
	})
	b.Run("boxed rows by encoding json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for row := range rows {
				object := make(map[string]any)
				for i, field := range bidSchema.Fields() {
					object[field.Name] = arrays.Value(batch.Column(i), row)
				}
				if _, err := json.Marshal(object); err != nil {
					b.Fatal(err)
				}
			}
		}
		perRow(b, rows)
	})
}

func BenchmarkJSONBridge(b *testing.B) {
	const count = 4096
	type order struct {
		ID       int64    `json:"id"`
		Amount   float64  `json:"amount"`
		Quantity int64    `json:"quantity"`
		Customer string   `json:"customer"`
		Paid     bool     `json:"paid"`
		Tags     []string `json:"tags"`
	}
	rows := make([]order, count)
	for i, record := range orders(count) {
		if err := json.Unmarshal(record.Value, &rows[i]); err != nil {
			b.Fatal(err)
		}
	}
	bridge := NewJSONRowBridge[order]()
	b.Run("rows to batch", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			batch, err := bridge.RowsToBatch(rows, memory.DefaultAllocator)
			if err != nil {
				b.Fatal(err)
			}
			batch.Release()
		}
		perRow(b, count)
	})
	batch, err := bridge.RowsToBatch(rows, memory.DefaultAllocator)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("batch to rows", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := bridge.BatchToRows(batch); err != nil {
				b.Fatal(err)
			}
		}
		perRow(b, count)
	})
	b.Run("rows to boxed values to builders", func(b *testing.B) {
		schema := batch.Schema()
		b.ReportAllocs()
		for b.Loop() {
			builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
			for i := range rows {
				text, err := json.Marshal(&rows[i])
				if err != nil {
					b.Fatal(err)
				}
				members := make(map[string]json.RawMessage)
				if err := json.Unmarshal(text, &members); err != nil {
					b.Fatal(err)
				}
				for j, field := range schema.Fields() {
					var value any
					if field.Name == "tags" {
						value = string(members[field.Name])
					} else if err := json.Unmarshal(members[field.Name], &value); err != nil {
						b.Fatal(err)
					}
					if err := arrays.AppendValue(builder.Field(j), value); err != nil {
						b.Fatal(err)
					}
				}
			}
			builder.NewRecordBatch().Release()
			builder.Release()
		}
		perRow(b, count)
	})
}

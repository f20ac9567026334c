// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// bids returns records of auction bids of about 234 bytes.
func bids(count int) []ConsumedRecord {
	records := make([]ConsumedRecord, count)
	for i := range records {
		value := fmt.Sprintf(`{"auction":%d,"bidder":%d,"price":%d,"channel":"channel-%d",`+
			`"url":"https://www.nexmark.com/c%d/d%d/e/item.htm?query=1&channel_id=%d","ts":%d,"extra":"%s"}`,
			1000+i%997, 1000+i*7%1009, 100+i*7919%1000000, i%10000, i%100, i%7, i*7919, 1_700_000_000_000+i/10, strings.Repeat("x", 40+i%20))
		records[i] = ConsumedRecord{Value: []byte(value), Offset: int64(i), Timestamp: 1_700_000_000_000 + int64(i)}
	}
	return records
}

var bidSchema = arrow.NewSchema([]arrow.Field{
	{Name: "auction", Type: arrow.PrimitiveTypes.Int64},
	{Name: "bidder", Type: arrow.PrimitiveTypes.Int64},
	{Name: "price", Type: arrow.PrimitiveTypes.Int64},
	{Name: "channel", Type: arrow.BinaryTypes.String},
	{Name: "url", Type: arrow.BinaryTypes.String},
	{Name: "ts", Type: &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}},
	{Name: "extra", Type: arrow.BinaryTypes.String},
}, nil)

// orders returns documents of about 106 bytes with a list.
func orders(count int) []ConsumedRecord {
	records := make([]ConsumedRecord, count)
	for i := range records {
		value := fmt.Sprintf(`{"id":%d,"amount":%.2f,"quantity":%d,"customer":"customer-%06d","paid":%t,"tags":["new","gift-%d"]}`,
			1_000_000+i, float64(i)*1.37, i%9, i*31, i%2 == 0, i%5)
		records[i] = ConsumedRecord{Value: []byte(value)}
	}
	return records
}

var orderSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "amount", Type: arrow.PrimitiveTypes.Float64},
	{Name: "quantity", Type: arrow.PrimitiveTypes.Int64},
	{Name: "customer", Type: arrow.BinaryTypes.String},
	{Name: "paid", Type: arrow.FixedWidthTypes.Boolean},
	{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String)},
}, nil)

func BenchmarkJSONDecode(b *testing.B) {
	const rows = 4096
	projection := arrow.NewSchema(bidSchema.Fields()[:2], nil)
	for _, bench := range []struct {
		name    string
		records []ConsumedRecord
		schema  *arrow.Schema
	}{
		{"bid 2 of 7 columns", bids(rows), projection},
		{"bid 7 of 7 columns", bids(rows), bidSchema},
		{"order 6 of 6 columns", orders(rows), orderSchema},
	} {
		codec, err := NewJSONCodec(memory.DefaultAllocator, bench.schema)
		if err != nil {
			b.Fatal(err)
		}
		size := 0
		for _, record := range bench.records {
			size += len(record.Value)
		}
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				batch, err := codec.Decode("bids", bench.records)
				if err != nil {
					b.Fatal(err)
				}
				batch.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
		})
	}
	b.Run("bid struct by encoding json", func(b *testing.B) {
		records := bids(rows)
		b.ReportAllocs()
		for b.Loop() {
			for i := range records {
				var bid struct {
					Auction int64  `json:"auction"`
					Bidder  int64  `json:"bidder"`
					Price   int64  `json:"price"`
					Channel string `json:"channel"`
					URL     string `json:"url"`
					TS      int64  `json:"ts"`
					Extra   string `json:"extra"`
				}
				if err := json.Unmarshal(records[i].Value, &bid); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
	})
}

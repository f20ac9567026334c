// SPDX-License-Identifier: Apache-2.0

package nexgen_test

import (
	"encoding/json"
	"testing"

	"github.com/krabka-io/krabka-streams-go/internal/nexgen"
)

func BenchmarkBidJSON(b *testing.B) {
	b.Run("append", func(b *testing.B) {
		var buf []byte
		eachBid(b, func(bid nexgen.Bid) { buf = bid.AppendJSON(buf[:0]) })
	})
	b.Run("encoding-json", func(b *testing.B) {
		eachBid(b, func(bid nexgen.Bid) {
			if _, err := json.Marshal(rowOf(bid)); err != nil {
				b.Fatal(err)
			}
		})
	})
}

func BenchmarkBidAvro(b *testing.B) {
	var buf []byte
	eachBid(b, func(bid nexgen.Bid) { buf = bid.AppendAvro(buf[:0]) })
}

// eachBid measures what encode costs a bid, the generator included.
func eachBid(b *testing.B, encode func(nexgen.Bid)) {
	b.Helper()
	b.ReportAllocs()
	id := int64(0)
	for b.Loop() {
		bid, ok := nexgen.BidAt(id)
		for ; !ok; bid, ok = nexgen.BidAt(id) {
			id++
		}
		encode(bid)
		id++
	}
}

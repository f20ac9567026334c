// SPDX-License-Identifier: Apache-2.0

package nexgen_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro"

	"github.com/krabka-io/krabka-streams-go/internal/nexgen"
)

// row has every column of a bid, as a consumer sees them.
type row struct {
	Auction int64  `json:"auction" avro:"auction"`
	Bidder  int64  `json:"bidder" avro:"bidder"`
	Price   int64  `json:"price" avro:"price"`
	Channel string `json:"channel" avro:"channel"`
	URL     string `json:"url" avro:"url"`
	TS      int64  `json:"ts" avro:"ts"`
	Extra   string `json:"extra" avro:"extra"`
}

// rowOf takes a bid's columns from its methods.
func rowOf(b nexgen.Bid) row {
	return row{
		Auction: b.Auction, Bidder: b.Bidder, Price: b.Price, TS: b.TS,
		Channel: string(b.AppendChannel(nil)), URL: string(b.AppendURL(nil)), Extra: string(b.AppendExtra(nil)),
	}
}

func TestBidsAreThoseOfTheWorkload(t *testing.T) {
	tests := []struct {
		name string
		id   int64
		want row
	}{
		{"the first bid", 4, row{
			Auction: 1004, Bidder: 1001, Price: 171285, TS: 1700000000000,
			Channel: "Facebook", URL: "https://www.nexmark.com/hot1/a/b/item.htm?query=1",
		}},
		{"the last bid of a million events", 999_999, row{
			Auction: 60900, Bidder: 20213, Price: 47035, TS: 1700000099999,
			Channel: "Apple", URL: "https://www.nexmark.com/hot3/a/b/item.htm?query=1",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, ok := nexgen.BidAt(tt.id)
			if !ok {
				t.Fatalf("BidAt(%d) found no bid", tt.id)
			}
			got := rowOf(b)
			got.Extra = ""
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("BidAt(%d) mismatch (-want +got):\n%s", tt.id, diff)
			}
		})
	}
}

func TestEventsKeepTheirProportions(t *testing.T) {
	bids, total := 0, int64(0)
	for id := range int64(1_000_000) {
		if b, ok := nexgen.BidAt(id); ok {
			bids++
			total += b.Price
		}
	}
	if bids != 920_000 || total != 9_321_688_140_186 {
		t.Errorf("a million events have %d bids with prices of %d in all, want 920000 and 9321688140186", bids, total)
	}
}

func TestBidsKeepTheirColumnsInJSONAndAvro(t *testing.T) {
	schema, err := avro.Parse(nexgen.AvroSchema)
	if err != nil {
		t.Fatal(err)
	}
	var cold, jsonBytes, bids int
	for id := range int64(10_000) {
		b, ok := nexgen.BidAt(id)
		if !ok {
			continue
		}
		want := rowOf(b)
		if n := len(want.Extra); n < 54 || n > 81 {
			t.Fatalf("event %d has %d letters of padding, want 54 to 81", id, n)
		}
		if want.Channel[:4] == "chan" {
			cold++
		}
		var got row
		text := b.AppendJSON([]byte("kept"))
		if err := json.Unmarshal(text[len("kept"):], &got); err != nil {
			t.Fatalf("event %d: %v in %s", id, err, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("event %d in JSON mismatch (-want +got):\n%s", id, diff)
		}
		got = row{}
		left, err := schema.Decode(b.AppendAvro([]byte("kept"))[len("kept"):], &got)
		if err != nil || len(left) > 0 {
			t.Fatalf("event %d in Avro: %v, %d bytes left", id, err, len(left))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("event %d in Avro mismatch (-want +got):\n%s", id, diff)
		}
		bids++
		jsonBytes += len(text) - len("kept")
	}
	if mean := jsonBytes / bids; mean < 225 || mean > 240 {
		t.Errorf("a bid has %d bytes of JSON on average, want about 232", mean)
	}
	if cold < bids*45/100 || cold > bids*55/100 {
		t.Errorf("%d of %d bids came through a cold channel, want half", cold, bids)
	}
}

func TestBidsAreMadeWithoutAllocation(t *testing.T) {
	buf := make([]byte, 0, 512)
	id := int64(0)
	allocs := testing.AllocsPerRun(1000, func() {
		if b, ok := nexgen.BidAt(id); ok {
			buf = b.AppendJSON(buf[:0])
			buf = b.AppendAvro(buf[:0])
		}
		id++
	})
	if allocs != 0 {
		t.Errorf("a bid and its encodings allocate %v times, want 0", allocs)
	}
}

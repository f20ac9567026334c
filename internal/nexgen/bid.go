// SPDX-License-Identifier: Apache-2.0

package nexgen

import (
	"encoding/binary"
	"slices"
	"strconv"
)

const (
	// BaseMillis is the event time of event 0, in milliseconds since 1970.
	BaseMillis = 1_700_000_000_000
	// EventsPerSecond is the rate of all events in event time.
	EventsPerSecond = 10_000
)

const (
	seed      = 42
	cycle     = 50 // events of a cycle: one person, three auctions, bids
	persons   = 1
	auctions  = 3
	firstID   = 1000 // of persons and of auctions
	idsAhead  = 10   // ids that bids name before their owner exists
	hotEvery  = 100  // one in so many persons and auctions is hot
	active    = 1000 // persons that still bid
	inFlight  = 100  // auctions that are still open
	channels  = 10_000
	minExtra  = 54
	moreExtra = 28
)

// hotChannels get half of the bids.
var hotChannels = [...]string{"Google", "Facebook", "Baidu", "Apple"}

// AvroSchema is the Avro schema of what [Bid.AppendAvro] writes.
const AvroSchema = `{"type":"record","name":"Bid","namespace":"nexmark","fields":[` +
	`{"name":"auction","type":"long"},{"name":"bidder","type":"long"},{"name":"price","type":"long"},` +
	`{"name":"channel","type":"string"},{"name":"url","type":"string"},` +
	`{"name":"ts","type":"long"},{"name":"extra","type":"string"}]}`

// Bid is one bid on an auction. Beside its fields it has a channel, a URL and
// padding, which exist only in its encodings.
type Bid struct {
	Auction int64
	Bidder  int64
	Price   int64 // in cents
	TS      int64 // event time in milliseconds since 1970

	hot     bool
	channel int64      // index into hotChannels, or the number of a cold channel
	rest    splitMix64 // draws the padding
}

// BidAt returns the bid with an event's number, or false where that event is a
// person or an auction. Numbers begin at 0.
func BidAt(id int64) (Bid, bool) {
	if id%cycle < persons+auctions {
		return Bid{}, false
	}
	var (
		r           = splitMix64(seed ^ uint64(id)*0xD1342543DE82EF95)
		lastPerson  = id / cycle
		lastAuction = id/cycle*auctions + auctions - 1
		b           = Bid{TS: BaseMillis + id*1000/EventsPerSecond}
	)
	b.Auction = firstID + lastAuction/hotEvery*hotEvery
	if r.below(2) == 0 {
		oldest := max(lastAuction-inFlight, 0)
		b.Auction = firstID + oldest + r.below(lastAuction-oldest+1+idsAhead)
	}
	b.Bidder = firstID + lastPerson/hotEvery*hotEvery + 1
	if r.below(4) == 0 {
		bidding := min(lastPerson+1, active)
		b.Bidder = firstID + lastPerson + 1 - bidding + r.below(bidding+idsAhead)
	}
	b.Price = r.price()
	b.hot = r.below(2) > 0
	if b.hot {
		b.channel = r.below(int64(len(hotChannels)))
	} else {
		b.channel = r.below(channels)
	}
	b.rest = r
	return b, true
}

// AppendChannel appends the name of the channel that the bid came through.
func (b *Bid) AppendChannel(dst []byte) []byte {
	if b.hot {
		return append(dst, hotChannels[b.channel]...)
	}
	return strconv.AppendInt(append(dst, "channel-"...), b.channel, 10)
}

// AppendURL appends the URL that the bid was made at.
func (b *Bid) AppendURL(dst []byte) []byte {
	const item = "/item.htm?query=1"
	dst = append(dst, "https://www.nexmark.com/"...)
	if b.hot {
		dst = strconv.AppendInt(append(dst, "hot"...), b.channel, 10)
		return append(append(dst, "/a/b"...), item...)
	}
	dst = strconv.AppendInt(append(dst, 'c'), b.channel%100, 10)
	dst = strconv.AppendInt(append(dst, "/d"...), b.channel%7, 10)
	dst = append(append(dst, "/e"...), item...)
	if b.channel%10 > 0 {
		dst = strconv.AppendInt(append(dst, "&channel_id="...), b.channel*7919, 10)
	}
	return dst
}

// AppendExtra appends 54 to 81 letters of padding.
func (b *Bid) AppendExtra(dst []byte) []byte {
	r := b.rest
	for range minExtra + r.below(moreExtra) {
		dst = append(dst, 'a'+byte(r.below(26)))
	}
	return dst
}

// AppendJSON appends the bid as a JSON object: auction, bidder, price, channel,
// url, ts and extra, about 230 bytes.
func (b *Bid) AppendJSON(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"auction":`...), b.Auction, 10)
	dst = strconv.AppendInt(append(dst, `,"bidder":`...), b.Bidder, 10)
	dst = strconv.AppendInt(append(dst, `,"price":`...), b.Price, 10)
	dst = b.AppendChannel(append(dst, `,"channel":"`...))
	dst = b.AppendURL(append(dst, `","url":"`...))
	dst = strconv.AppendInt(append(dst, `","ts":`...), b.TS, 10)
	dst = b.AppendExtra(append(dst, `,"extra":"`...))
	return append(dst, `"}`...)
}

// AppendAvro appends the bid in Avro's binary encoding by [AvroSchema], without
// a registry's frame, about 150 bytes.
func (b *Bid) AppendAvro(dst []byte) []byte {
	dst = binary.AppendVarint(dst, b.Auction)
	dst = binary.AppendVarint(dst, b.Bidder)
	dst = binary.AppendVarint(dst, b.Price)
	dst = prefixLength(b.AppendChannel(dst), len(dst))
	dst = prefixLength(b.AppendURL(dst), len(dst))
	dst = binary.AppendVarint(dst, b.TS)
	return prefixLength(b.AppendExtra(dst), len(dst))
}

// prefixLength inserts the length of what stands behind start there.
func prefixLength(dst []byte, start int) []byte {
	var length [binary.MaxVarintLen64]byte
	return slices.Insert(dst, start, binary.AppendVarint(length[:0], int64(len(dst)-start))...)
}

// splitMix64 is the state of a SplitMix64 generator.
type splitMix64 uint64

func (s *splitMix64) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// below draws a number from 0 up to, but not including, limit.
func (s *splitMix64) below(limit int64) int64 { return int64(s.next()>>1) % limit }

// price draws a price in cents, spread evenly over six orders of magnitude.
func (s *splitMix64) price() int64 {
	scale := int64(1)
	for range s.below(6) {
		scale *= 10
	}
	return (100_000 + s.below(900_000)) * scale / 1000
}

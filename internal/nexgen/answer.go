// SPDX-License-Identifier: Apache-2.0

package nexgen

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
)

// WindowMillis is the length of the tumbling windows of query q12e.
const WindowMillis = 10_000

// PublishedEvents is the number of events that [Published] is about.
const PublishedEvents = 1_000_000

// Published holds the digests of the answers for [PublishedEvents] events, by
// query.
var Published = map[string]string{
	"q0":   "dbd0e42e279e3db9",
	"q2":   "0b0d9c8b5b69cd7a",
	"q12e": "2e1c7fd10d9c48db",
}

// Answer returns the right answer to a query over the first events events, as
// unordered lines of comma-separated numbers:
//
//   - q0: auction, bidder, price, ts of every bid.
//   - q2: auction, price of the bids on auctions that 123 divides.
//   - q12e: bidder, start of the window, number of bids, for tumbling windows
//     of [WindowMillis] in event time.
//
// Any other query is an error.
func Answer(query string, events int64) ([]string, error) {
	switch query {
	case "q0":
		return eachBid(events, func(b *Bid) string { return Line(b.Auction, b.Bidder, b.Price, b.TS) }), nil
	case "q2":
		return eachBid(events, func(b *Bid) string {
			if b.Auction%123 != 0 {
				return ""
			}
			return Line(b.Auction, b.Price)
		}), nil
	case "q12e":
		return countPerWindow(events), nil
	}
	return nil, fmt.Errorf("nexgen: no query %q", query)
}

// eachBid collects the lines that row makes, without the empty ones.
func eachBid(events int64, row func(*Bid) string) []string {
	var lines []string
	for id := range events {
		if b, ok := BidAt(id); ok {
			if line := row(&b); line != "" {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func countPerWindow(events int64) []string {
	type group struct{ bidder, window int64 }
	var bids []group
	for id := range events {
		if b, ok := BidAt(id); ok {
			bids = append(bids, group{b.Bidder, b.TS / WindowMillis * WindowMillis})
		}
	}
	slices.SortFunc(bids, func(x, y group) int {
		return cmp.Or(cmp.Compare(x.bidder, y.bidder), cmp.Compare(x.window, y.window))
	})
	var lines []string
	for from, to := 0, 0; from < len(bids); from = to {
		for to < len(bids) && bids[to] == bids[from] {
			to++
		}
		lines = append(lines, Line(bids[from].bidder, bids[from].window, int64(to-from)))
	}
	return lines
}

// Line returns a row of an answer as [Answer] writes it.
func Line(columns ...int64) string {
	var text [96]byte
	line := text[:0]
	for i, c := range columns {
		if i > 0 {
			line = append(line, ',')
		}
		line = strconv.AppendInt(line, c, 10)
	}
	return string(line)
}

// Digest returns the first 16 hexadecimal digits of SHA-256 over the lines in
// order, each with a line feed behind it. The order of lines does not matter,
// how often a line is there does. Digest leaves lines as they are.
func Digest(lines []string) string {
	hash := sha256.New()
	var text []byte
	for _, line := range slices.Sorted(slices.Values(lines)) {
		text = append(append(text[:0], line...), '\n')
		hash.Write(text)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

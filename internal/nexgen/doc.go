// SPDX-License-Identifier: Apache-2.0

// Package nexgen makes the input of the module's benchmarks, examples and crash
// tests, and knows the right answers.
//
// Its events are those of the Nexmark auction site: of every 50, one is a
// person, three are auctions and 46 are bids, at 10 000 events a second of
// event time. Everything is computed from the event's number, so that any
// event can be made on its own, in any order, and so that every engine that
// reads the same number of events has the same answer. The package makes the
// bids; the other kinds only take up their numbers.
//
// The answers are computed from the generator alone, by sorting and scanning.
// [Digest] makes them short enough to be compared and published.
package nexgen

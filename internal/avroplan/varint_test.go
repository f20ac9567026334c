// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

func TestVarintsAreReadAsTheCursorReadsThem(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 3))
	for range 20_000 {
		data := make([]byte, 1+r.IntN(16))
		for i := range data {
			data[i] = byte(r.Uint32() >> r.IntN(32)) // many that end a number
		}
		at := r.IntN(len(data))
		c := Cursor{data: data, pos: at}
		want, err := c.longLong()
		got, next := ReadVarint(data, at)
		short := len(data)-at >= varintWord && err == nil && c.pos-at <= varintWord
		if short != (next != 0) || short && (got != want || next != c.pos) {
			t.Fatalf("seed %d: % x from %d is %d up to %d, want %d up to %d (%v)", seed, data, at, got, next, want, c.pos, err)
		}
	}
}

func TestVarintsAreWrittenInTheirShortestForm(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 4))
	for i := range 20_000 {
		u := r.Uint64() >> r.IntN(64)
		if i < 130 {
			u = 1<<(i/2) - uint64(i%2) // both sides of each power of two
		}
		want := binary.AppendUvarint([]byte("before"), u)
		for _, room := range []int{0, 32} {
			dst := append(make([]byte, 0, len("before")+room), "before"...)
			if got := AppendLong(dst, int64(u>>1)^-int64(u&1)); !bytes.Equal(got, want) {
				t.Fatalf("seed %d: %d with room for %d is % x, want % x", seed, u, room, got, want)
			}
		}
	}
}

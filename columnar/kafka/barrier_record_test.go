// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

func at(topic string, partition int) columnar.TopicPartition {
	return columnar.TopicPartition{Topic: topic, Partition: partition}
}

func TestBarrierRecordsHaveTheFrozenLayout(t *testing.T) {
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"cut key", encodeBarrierKey(barrierCutKind, "orders-cut", 7), "00000002000a6f72646572732d6375740000000000000007"},
		{"group key", encodeBarrierKey(barrierGroupKind, "audit", barrierGroupEpoch), "0000000000056175646974ffffffffffffffff"},
		{"start key", encodeBarrierKey(barrierStartKind, "audit", 7), "00000001000561756469740000000000000007"},
		{"start without targets", encodeBarrierStart(barrierStart{term: 2, triggered: 11}), "000000000002000000000000000b00000000"},
		{"start", encodeBarrierStart(barrierStart{term: 2, triggered: 11, counts: map[string]int{"orders": 2}}), "000000000002000000000000000b0000000100066f726465727300000002"},
		{"cut of two partitions", encodeBarrierCut(columnar.BarrierCut{
			TriggeredAt: 1724500000000, CompletedAt: 1724500000042,
			Offsets: map[columnar.TopicPartition]int64{at("orders", 1): 2048, at("orders", 0): 1024},
		}), "0000000001918435bd00000001918435bd2a000000000100066f72646572730000000200000000000000000000040000000001000000000000080000000000"},
		{"cut of two topics", encodeBarrierCut(columnar.BarrierCut{
			TriggeredAt: 11, CompletedAt: 22,
			Offsets: map[columnar.TopicPartition]int64{at("payments", 0): 7, at("orders", 0): 100, at("orders", 1): 250},
		}), "0000000000000000000b0000000000000016000000000200066f7264657273000000020000000000000000000000640000000100000000000000fa00087061796d656e74730000000100000000000000000000000700000000"},
		{"partial cut", encodeBarrierCut(columnar.BarrierCut{
			TriggeredAt: 31, CompletedAt: 42, Status: columnar.CutPartial,
			Offsets: map[columnar.TopicPartition]int64{at("orders", 0): 100},
			Missing: []columnar.TopicPartition{at("orders", 1)},
		}), "0000000000000000001f000000000000002a010000000100066f7264657273000000010000000000000000000000640000000100066f726465727300000001"},
		{"group without topics", encodeBarrierGroup(barrierGroup{retained: 3, lastEpoch: 4}),
			"000000000000ffffffffffffffff000000030000000000000004"},
		{"group with an interval", encodeBarrierGroup(barrierGroup{topics: []string{"orders"}, interval: time.Minute, retained: 100, lastEpoch: 7}),
			"00000000000100066f7264657273000000000000ea60000000640000000000000007"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, hex.EncodeToString(tt.got)); diff != "" {
				t.Errorf("bytes mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBarrierCutDecodesToWhatWasEncoded(t *testing.T) {
	want := columnar.BarrierCut{
		Group: "g", Epoch: 9, TriggeredAt: 1, CompletedAt: 2, Status: columnar.CutPartial,
		Offsets: map[columnar.TopicPartition]int64{at("b", 10): 1, at("b", 9): 2, at("a", 0): 3},
		Missing: []columnar.TopicPartition{at("a", 1), at("c", 0)},
	}
	got, err := columnar.DecodeBarrierCut(encodeBarrierKey(barrierCutKind, "g", 9), encodeBarrierCut(want))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("cut mismatch (-want +got):\n%s", diff)
	}
}

func TestEpochHistory(t *testing.T) {
	h := newEpochHistory("g")
	cut := func(group string, epoch int64, value string) {
		h.take(encodeBarrierKey(barrierCutKind, group, epoch), []byte(value))
	}
	cut("g", 3, "x")
	cut("g", 4, "x")
	cut("gg", 90, "x")
	cut("g", 5, "")
	h.take(encodeBarrierKey(3, "g", 80), []byte("x"))
	h.take([]byte{0}, nil)
	h.take(encodeBarrierKey(barrierGroupKind, "other", barrierGroupEpoch), encodeBarrierGroup(barrierGroup{lastEpoch: 70}))
	if h.last != 5 {
		t.Errorf("last epoch = %d, want the deleted 5", h.last)
	}
	if diff := cmp.Diff([]int64{3, 4}, h.outdated(6, 2)); diff != "" {
		t.Errorf("outdated mismatch (-want +got):\n%s", diff)
	}
	h.take(encodeBarrierKey(barrierGroupKind, "g", barrierGroupEpoch), encodeBarrierGroup(barrierGroup{topics: []string{"a"}, lastEpoch: 8}))
	if h.last != 8 {
		t.Errorf("last epoch = %d, want 8 of the group record", h.last)
	}
	h.take(encodeBarrierKey(barrierStartKind, "g", 9), []byte("x"))
	h.take(encodeBarrierKey(barrierStartKind, "g", 10), []byte("x"))
	h.take(encodeBarrierKey(barrierStartKind, "g", 9), nil)
	if h.last != 10 {
		t.Errorf("last epoch = %d, want 10 of a start", h.last)
	}
	if diff := cmp.Diff([]int64{10}, h.answered(10)); diff != "" {
		t.Errorf("answered starts mismatch (-want +got):\n%s", diff)
	}
	if got := h.answered(9); len(got) != 0 {
		t.Errorf("starts up to the deleted one: %v, want none", got)
	}
	h.take(encodeBarrierKey(barrierGroupKind, "g", barrierGroupEpoch), nil)
	if h.last != 10 {
		t.Errorf("last epoch = %d after the group's deletion, want 10", h.last)
	}
}

func TestBarrierStringsThatDoNotFitAreRefused(t *testing.T) {
	for _, s := range []string{"", "\xff", strings.Repeat("x", 1<<15)} {
		if err := checkBarrierString("group", s); err == nil {
			t.Errorf("checkBarrierString(%.10q) = nil, want an error", s)
		}
	}
	if err := checkBarrierString("group", strings.Repeat("x", 1<<15-1)); err != nil {
		t.Errorf("checkBarrierString of the longest name = %v", err)
	}
}

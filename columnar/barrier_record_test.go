// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	ordersCutKey   = "00000002000a6f72646572732d6375740000000000000007"
	ordersCutValue = "0000000001918435bd00000001918435bd2a000000000100066f72646572730000000200000000000000000000040000000001000000000000080000000000"
	auditKey5      = "00000002000561756469740000000000000005"
	auditValue5    = "0000000000000000000b0000000000000016000000000200066f7264657273000000020000000000000000000000640000000100000000000000fa00087061796d656e74730000000100000000000000000000000700000000"
	auditKey6      = "00000002000561756469740000000000000006"
	auditValue6    = "0000000000000000001f000000000000002a010000000100066f7264657273000000010000000000000000000000640000000100066f726465727300000001"
	auditKey7      = "00000002000561756469740000000000000007"
	auditValue7    = "000000000000000003e800000000000004b0000000000100066f72646572730000000100000000000000000000106800000000"
	groupKey       = "0000000000056175646974ffffffffffffffff"
	groupValue4    = "000000000000ffffffffffffffff000000030000000000000004"
	groupValue7    = "00000000000100066f7264657273000000000000ea60000000640000000000000007"
	startKey       = "00000001000561756469740000000000000007"
	startValue     = "000000000002000000000000000b00000000"
	startValue2    = "000000000002000000000000000b0000000100066f726465727300000002"
)

func unhex(tb testing.TB, text string) []byte {
	tb.Helper()
	decoded, err := hex.DecodeString(text)
	if err != nil {
		tb.Fatal(err)
	}
	return decoded
}

func TestDecodeBarrierCutReadsRecordedBytes(t *testing.T) {
	tests := []struct {
		name, key, value string
		want             *BarrierCut
	}{
		{"orders", ordersCutKey, ordersCutValue, &BarrierCut{
			Group: "orders-cut", Epoch: 7, TriggeredAt: 1724500000000, CompletedAt: 1724500000042,
			Offsets: map[TopicPartition]int64{{"orders", 0}: 1024, {"orders", 1}: 2048},
		}},
		{"two topics", auditKey5, auditValue5, &BarrierCut{
			Group: "audit", Epoch: 5, TriggeredAt: 11, CompletedAt: 22,
			Offsets: map[TopicPartition]int64{{"orders", 0}: 100, {"orders", 1}: 250, {"payments", 0}: 7},
		}},
		{"partial", auditKey6, auditValue6, &BarrierCut{
			Group: "audit", Epoch: 6, TriggeredAt: 31, CompletedAt: 42, Status: CutPartial,
			Offsets: map[TopicPartition]int64{{"orders", 0}: 100},
			Missing: []TopicPartition{{"orders", 1}},
		}},
		{"group", groupKey, groupValue4, nil},
		{"group with topics", groupKey, groupValue7, nil},
		{"group with any value", groupKey, "ff", nil},
		{"group tombstone", groupKey, "", nil},
		{"injection start", startKey, startValue, nil},
		{"injection start with targets", startKey, startValue2, nil},
		{"unknown kind", "00000009000561756469740000000000000007", "01", nil},
		{"cut without value", auditKey7, "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := DecodeBarrierCut(unhex(t, test.key), unhex(t, test.value))
			if err != nil {
				t.Fatalf("DecodeBarrierCut: %v", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("DecodeBarrierCut mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeBarrierCutNamesWhatIsMalformed(t *testing.T) {
	tests := []struct{ name, key, value, part, text string }{
		{"short key", "00", "", "key", "truncated barrier state key"},
		{"key version", "00010002000561756469740000000000000005", auditValue5, "key", "unsupported barrier state key version 1"},
		{"long key", auditKey5 + "00", auditValue5, "key", "trailing bytes in barrier state key"},
		{"negative group length", "00000002ffff", "", "key", "negative string length -1 in barrier state key"},
		{"group that is not UTF-8", "000000020001ff0000000000000005", auditValue5, "key", "non-UTF-8 string in barrier state key"},
		{"bad key of a group", "0000000000", "", "key", "truncated barrier state key"},
		{"short value", auditKey5, "00", "cut value", "truncated barrier state cut value"},
		{"value version", auditKey5, "0001" + auditValue5[4:], "cut value", "unsupported barrier state cut value version 1"},
		{"status", auditKey5, "0000000000000000000b00000000000000160200000000", "cut value", "unknown barrier cut status 2"},
		{"topic count", auditKey5, "0000000000000000000b000000000000001600ffffffff", "cut value", "negative array length -1 in barrier state cut value"},
		{"topic count beyond the bytes", auditKey5, "0000000000000000000b0000000000000016007fffffff", "cut value", "truncated barrier state cut value"},
		{"long value", auditKey5, auditValue5 + "00", "cut value", "trailing bytes in barrier state cut value"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cut, err := DecodeBarrierCut(unhex(t, test.key), unhex(t, test.value))
			var format *BarrierFormatError
			if !errors.As(err, &format) {
				t.Fatalf("DecodeBarrierCut = %v, %v; want a *BarrierFormatError", cut, err)
			}
			if format.Part != test.part || format.Error() != test.text {
				t.Errorf("error = part %q, %q; want part %q, %q", format.Part, format, test.part, test.text)
			}
		})
	}
}

func TestEncodeBarrierCutWritesRecordedBytes(t *testing.T) {
	for _, golden := range [][2]string{{ordersCutKey, ordersCutValue}, {auditKey5, auditValue5}, {auditKey6, auditValue6}, {auditKey7, auditValue7}} {
		key, value := unhex(t, golden[0]), unhex(t, golden[1])
		cut, err := DecodeBarrierCut(key, value)
		if err != nil {
			t.Fatal(err)
		}
		gotKey, gotValue, err := EncodeBarrierCut(*cut)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(key, gotKey) || !bytes.Equal(value, gotValue) {
			t.Errorf("EncodeBarrierCut(%v) = %x, %x; want %x, %x", cut, gotKey, gotValue, key, value)
		}
	}
}

func TestEncodeBarrierCutRefusesWhatNoReaderAlignsOn(t *testing.T) {
	at := func(partition int, offset int64) map[TopicPartition]int64 {
		return map[TopicPartition]int64{{"in", partition}: offset}
	}
	tests := []struct {
		cut  BarrierCut
		text string
	}{
		{BarrierCut{Group: "g", Epoch: -1, Offsets: at(0, 1)}, "negative epoch -1"},
		{BarrierCut{Group: "g", Offsets: at(0, -2)}, "negative partition or offset in in/0 at -2"},
		{BarrierCut{Group: "g", Offsets: at(-3, 2)}, "negative partition or offset in in/-3 at 2"},
		{BarrierCut{Group: "g"}, "complete without a partition"},
		{BarrierCut{Group: "g", Offsets: at(0, 1), Missing: []TopicPartition{{"in", 1}}}, "complete with 1 missing partitions"},
		{BarrierCut{Group: "g", Status: CutPartial, Offsets: at(0, 1)}, "partial without a missing partition"},
		{BarrierCut{Group: "g", Status: CutPartial, Offsets: at(0, 1), Missing: []TopicPartition{{"in", 0}}}, "in/0 has an offset and is missing"},
		{BarrierCut{Group: "g", Status: CutPartial, Missing: []TopicPartition{{"in", -1}}}, "negative partition in missing in/-1"},
		{BarrierCut{Group: "g", Status: 3, Offsets: at(0, 1)}, "unknown status CutStatus(3)"},
		{BarrierCut{Group: strings.Repeat("g", math.MaxInt16+1), Offsets: at(0, 1)}, "is longer than 32767 bytes or not UTF-8"},
		{BarrierCut{Group: "g\xff", Offsets: at(0, 1)}, "is longer than 32767 bytes or not UTF-8"},
		{BarrierCut{Group: "g", Offsets: at(math.MaxInt32+1, 1)}, "2147483648 does not fit into 32 bits"},
	}
	for _, test := range tests {
		_, _, err := EncodeBarrierCut(test.cut)
		if err == nil || !strings.HasSuffix(err.Error(), test.text) {
			t.Errorf("EncodeBarrierCut(%+v) error = %v; want suffix %q", test.cut, err, test.text)
		}
	}
}

func TestCutStatusNamesItself(t *testing.T) {
	got := fmt.Sprint(CutComplete, " ", CutPartial, " ", CutStatus(9))
	if want := "complete partial CutStatus(9)"; got != want {
		t.Errorf("statuses = %q; want %q", got, want)
	}
}

func TestBarrierCutOffsetOfUnnamedPartition(t *testing.T) {
	cut := BarrierCut{Offsets: map[TopicPartition]int64{{"in", 0}: 0}}
	if offset, ok := cut.Offset(TopicPartition{"in", 0}); offset != 0 || !ok {
		t.Errorf("Offset(in/0) = %d, %v; want 0, true", offset, ok)
	}
	if offset, ok := cut.Offset(TopicPartition{"in", 1}); offset != 0 || ok {
		t.Errorf("Offset(in/1) = %d, %v; want 0, false", offset, ok)
	}
}

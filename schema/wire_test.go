// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func unhex(tb testing.TB, text string) []byte {
	tb.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestFrameIsMagicAndBigEndianID(t *testing.T) {
	frame := Encode(258, []byte("xy"))
	if diff := cmp.Diff(unhex(t, "00 00 00 01 02 78 79"), frame); diff != "" {
		t.Fatalf("Encode mismatch (-want +got):\n%s", diff)
	}
	decoded, err := Decode(frame)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Frame{SchemaID: 258, Body: []byte("xy")}, decoded); diff != "" {
		t.Fatalf("Decode mismatch (-want +got):\n%s", diff)
	}
	frame[5] = 'z'
	if string(decoded.Body) != "xy" {
		t.Errorf("the decoded body aliases the frame: %q", decoded.Body)
	}
}

func TestFrameViewAliasesWithoutRoomToGrow(t *testing.T) {
	data := append(Encode(7, []byte("body")), "tail"...)
	view, err := DecodeView(data[:9])
	if err != nil {
		t.Fatal(err)
	}
	_ = append(view.Body, 'X')
	if got := string(data[5:]); got != "bodytail" {
		t.Errorf("appending to the view changed the record: %q", got)
	}
	data[5] = 'B'
	if string(view.Body) != "Body" {
		t.Errorf("view is %q, want it to alias the record", view.Body)
	}
}

func TestFrameIDsAreUnsigned(t *testing.T) {
	frame, err := Decode(unhex(t, "00 ff ff ff ff"))
	if err != nil {
		t.Fatal(err)
	}
	if frame.SchemaID != 1<<32-1 || frame.Body == nil {
		t.Errorf("got %#v, want id 4294967295 and an empty body that is not nil", frame)
	}
	for _, id := range []int{-1, 1 << 32} {
		prefix := []byte("kept")
		out, err := AppendEncode(prefix, id, []byte("x"))
		if err == nil || string(out) != "kept" {
			t.Errorf("AppendEncode(%d) = %q, %v, want an error and dst as it was", id, out, err)
		}
		if _, err := EncodeProtobuf(id, []int{0}, nil); err == nil {
			t.Errorf("EncodeProtobuf(%d) succeeded", id)
		}
	}
}

func TestFrameErrors(t *testing.T) {
	tests := []struct {
		name, data, want string
		offset           int
	}{
		{"empty", "", "schema frame is shorter than 5 bytes", 0},
		{"four bytes", "01 00 00 00", "schema frame is shorter than 5 bytes", 4},
		{"other magic", "01 00 00 00 01", "invalid schema frame magic byte 0x01", 0},
		{"upper magic", "fe 00 00 00 01 02", "invalid schema frame magic byte 0xfe", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			frame, err := Decode(unhex(t, tt.data))
			var frameErr *FrameError
			if !errors.As(err, &frameErr) || err.Error() != tt.want || frameErr.Offset != tt.offset {
				t.Errorf("Decode error is %#v, want %q at %d", err, tt.want, tt.offset)
			}
			if frame.SchemaID != 0 || frame.Body != nil {
				t.Errorf("a failed Decode returned %#v", frame)
			}
			if _, err := DecodeProtobuf(unhex(t, tt.data)); err == nil || err.Error() != tt.want {
				t.Errorf("DecodeProtobuf error is %v, want %q", err, tt.want)
			}
		})
	}
}

func TestMessageIndexesOnTheWire(t *testing.T) {
	tests := []struct {
		path []int
		want string
	}{
		{[]int{0}, "00"},
		{[]int{0, 0}, "04 00 00"},
		{[]int{1, 0}, "04 02 00"},
		{[]int{0, 1}, "04 00 02"},
		{[]int{2}, "02 04"},
		{[]int{5}, "02 0a"},
		{[]int{64}, "02 80 01"},
		{[]int{300}, "02 d8 04"},
		{[]int{1<<31 - 1}, "02 fe ff ff ff 0f"},
	}
	for _, tt := range tests {
		frame, err := EncodeProtobuf(7, tt.path, []byte("pb"))
		if err != nil {
			t.Fatal(err)
		}
		want := append(unhex(t, "00 00 00 00 07"+tt.want), "pb"...)
		if diff := cmp.Diff(want, frame); diff != "" {
			t.Errorf("EncodeProtobuf(%v) mismatch (-want +got):\n%s", tt.path, diff)
		}
		decoded, err := DecodeProtobuf(frame)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ProtobufFrame{SchemaID: 7, MessageIndexes: tt.path, Body: []byte("pb")}, decoded); diff != "" {
			t.Errorf("DecodeProtobuf(%v) mismatch (-want +got):\n%s", tt.path, diff)
		}
	}
	long, err := DecodeProtobuf(unhex(t, "00 00 00 00 07 02 00 aa"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ProtobufFrame{SchemaID: 7, MessageIndexes: []int{0}, Body: []byte{0xaa}}, long); diff != "" {
		t.Errorf("long form of [0] mismatch (-want +got):\n%s", diff)
	}
}

func TestMessageIndexErrors(t *testing.T) {
	huge := binary.AppendVarint(nil, 1<<31-1)
	tests := []struct {
		name string
		list []byte
		want string
	}{
		{"no list", nil, "truncated Protobuf message-index varint"},
		{"count without indexes", unhex(t, "04 02"), "truncated Protobuf message-index varint"},
		{"unfinished varint", unhex(t, "02 80"), "truncated Protobuf message-index varint"},
		{"negative count", unhex(t, "01"), "invalid Protobuf message-index count: -1"},
		{"count of 2^31-1", huge, "invalid Protobuf message-index count: 2147483647"},
		{"count above the bound", unhex(t, "82 01"), "invalid Protobuf message-index count: 65"},
		{"negative index", unhex(t, "02 01"), "Protobuf message index -1 (1 of 1) is negative"},
		{"index above int32", append([]byte{2}, binary.AppendVarint(nil, 1<<31)...), "Protobuf message index is outside the int32 range"},
		{"ten bytes without an end", bytes.Repeat([]byte{0x80}, 11), "Protobuf message-index varint is too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			frame, err := DecodeProtobuf(append(unhex(t, "00 00 00 00 07"), tt.list...))
			var frameErr *FrameError
			if !errors.As(err, &frameErr) || err.Error() != tt.want {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
			if diff := cmp.Diff(ProtobufFrame{}, frame); diff != "" {
				t.Errorf("a failed decode returned (-want +got):\n%s", diff)
			}
		})
	}
	refused := []struct {
		path []int
		want string
	}{
		{nil, "messageIndexes must not be empty"},
		{[]int{0, -1}, "messageIndexes[1] is -1, outside 0 to 2147483647"},
		{[]int{1 << 31}, "messageIndexes[0] is 2147483648, outside 0 to 2147483647"},
		{make([]int, 65), "messageIndexes has 65 elements, more than 64"},
	}
	for _, tt := range refused {
		if frame, err := EncodeProtobuf(1, tt.path, nil); err == nil || err.Error() != tt.want || frame != nil {
			t.Errorf("EncodeProtobuf(%v) = %v, %v, want error %q", tt.path, frame, err, tt.want)
		}
	}
}

func TestMessageIndexBombAllocatesLittle(t *testing.T) {
	bomb := append(unhex(t, "00 00 00 00 07"), binary.AppendVarint(nil, 1<<27)...)
	allocated := testing.AllocsPerRun(100, func() {
		if _, err := DecodeProtobuf(bomb); err == nil {
			t.Fatal("the bomb decoded")
		}
	})
	if allocated > 4 {
		t.Errorf("a list that claims 2^27 indexes allocates %v objects", allocated)
	}
}

func TestGUIDText(t *testing.T) {
	const text = "89791762-2336-4186-9674-299b90a802e2"
	guid, err := ParseGUID(strings.ToUpper(text))
	if err != nil {
		t.Fatal(err)
	}
	if guid[0] != 0x89 || guid[15] != 0xe2 || guid.String() != text {
		t.Errorf("ParseGUID(%q) = %v", text, guid)
	}
	for _, bad := range []string{"", text[1:], text + "0", strings.Replace(text, "-", "_", 1), "z" + text[1:]} {
		if guid, err := ParseGUID(bad); err == nil || guid != (GUID{}) {
			t.Errorf("ParseGUID(%q) = %v, %v, want an error", bad, guid, err)
		}
	}
}

func TestWriterIDOfEveryPrefix(t *testing.T) {
	numeric := Encode(9, []byte("twelve bytes"))
	for n := range len(numeric) {
		id, body, err := splitWriterID(numeric[:n])
		if n < 5 {
			var frameErr *FrameError
			if !errors.As(err, &frameErr) {
				t.Errorf("%d bytes: error %v, want a FrameError", n, err)
			}
			continue
		}
		if err != nil || id != (writerID{id: 9}) || string(body) != "twelve bytes"[:n-5] {
			t.Errorf("%d bytes: %v %q %v", n, id, body, err)
		}
	}
	guid := append([]byte{MagicGUID}, bytes.Repeat([]byte{0xcd}, 16)...)
	for n := 1; n <= len(guid); n++ {
		id, body, err := splitWriterID(guid[:n])
		if n < 17 {
			var frameErr *FrameError
			if !errors.As(err, &frameErr) || !strings.Contains(err.Error(), "invalid schema frame magic byte 0x01") {
				t.Errorf("%d bytes: error %v, want one that names the magic byte", n, err)
			}
			continue
		}
		if err != nil || !id.byGUID || id.guid[0] != 0xcd || len(body) != 0 {
			t.Errorf("%d bytes: %v %q %v", n, id, body, err)
		}
	}
}

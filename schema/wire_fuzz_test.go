// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func FuzzDecodeFrame(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte{0, 0, 0, 1, 2, 'x', 'y'})
	f.Add([]byte{1, 0, 0, 0, 1})
	f.Add(append([]byte{1}, make([]byte, 17)...))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := Decode(data)
		if err != nil {
			if wrong := new(*FrameError); !errors.As(err, wrong) || frame.Body != nil || frame.SchemaID != 0 {
				t.Fatalf("Decode = %#v, %v", frame, err)
			}
		} else if again := Encode(frame.SchemaID, frame.Body); !bytes.Equal(again, data) {
			t.Fatalf("% x became % x", data, again)
		}
		id, rest, err := splitWriterID(data)
		if err == nil && !bytes.Equal(append(id.appendPrefix(nil), rest...), data) {
			t.Fatalf("% x became %v and % x", data, id, rest)
		}
	})
}

func FuzzDecodeProtobufFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 7, 0, 'p', 'b'})
	f.Add([]byte{0, 0, 0, 0, 7, 4, 2, 0})
	f.Add([]byte{0, 0, 0, 0, 7, 2, 1})
	f.Add(append([]byte{0, 0, 0, 0, 7}, binary.AppendVarint(nil, 1<<31-1)...))
	f.Add(append([]byte{0, 0, 0, 0, 7, 2}, bytes.Repeat([]byte{0x80}, 12)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := DecodeProtobuf(data)
		if err != nil {
			if wrong := new(*FrameError); !errors.As(err, wrong) || frame.Body != nil || frame.MessageIndexes != nil {
				t.Fatalf("DecodeProtobuf = %#v, %v", frame, err)
			}
			return
		}
		if len(frame.MessageIndexes) == 0 || len(frame.MessageIndexes) > maxMessageIndexes {
			t.Fatalf("the path has %d indexes", len(frame.MessageIndexes))
		}
		// A list can be spelt in more than one way, so compare what it means.
		again, err := EncodeProtobuf(frame.SchemaID, frame.MessageIndexes, frame.Body)
		if err != nil {
			t.Fatal(err)
		}
		second, err := DecodeProtobuf(again)
		if err != nil || second.SchemaID != frame.SchemaID || !bytes.Equal(second.Body, frame.Body) ||
			len(second.MessageIndexes) != len(frame.MessageIndexes) {
			t.Fatalf("%#v became %#v, %v", frame, second, err)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/krabka-io/krabka-streams-go/internal/testpb"
)

func BenchmarkProtobufSerialize(b *testing.B) {
	s, cache := seededProtobuf(b, &testpb.Placed{}, 7)
	value := samePlaced()
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			var err error
			if dst, err = s.AppendSerialize(dst[:0], "t", value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append-naive", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		header := append(Encode(7, nil), 0)
		for b.Loop() {
			var err error
			if dst, err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(append(dst[:0], header...), value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("serialize", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Serialize("t", value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("serialize-naive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			id, ok := cache.IDForSubject(cache.Subject("t", RoleValue))
			if !ok {
				b.Fatal("no id")
			}
			body, err := proto.MarshalOptions{Deterministic: true}.Marshal(value)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := EncodeProtobuf(id, []int{0}, body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkProtobufDeserialize(b *testing.B) {
	s, cache := seededProtobuf(b, &testpb.Placed{}, 7)
	data, err := s.Serialize("t", samePlaced())
	if err != nil {
		b.Fatal(err)
	}
	dynamic := newProtobuf[*dynamicpb.Message](b, nil, cache)
	read := func(name string, call func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := call(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	read("typed", func() error { _, err := s.Deserialize("t", data); return err })
	read("typed-naive", func() error { return proto.Unmarshal(data[6:], new(testpb.Placed)) })
	read("dynamic", func() error { _, err := dynamic.Deserialize("t", data); return err })
	read("dynamic-naive", func() error {
		return proto.Unmarshal(data[6:], dynamicpb.NewMessage((&testpb.Placed{}).ProtoReflect().Descriptor()))
	})
	// What a serde without compiled schemas does for each record.
	read("dynamic-parsing", func() error {
		frame, err := DecodeProtobuf(data)
		if err != nil {
			return err
		}
		file, err := parseProtobuf(s.local.text, s.local.references)
		if err != nil {
			return err
		}
		m, wrong := messageAt(file, frame.MessageIndexes)
		if wrong != nil {
			return wrong
		}
		return proto.Unmarshal(frame.Body, dynamicpb.NewMessage(m))
	})
}

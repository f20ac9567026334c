// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"cmp"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/krabka-io/krabka-streams-go/internal/testpb"
)

// FuzzProtobufRecord reads random payloads as messages of several files, in Go
// types and by the texts alone.
func FuzzProtobufRecord(f *testing.F) {
	cache := NewSchemaCache(nil)
	f.Cleanup(func() { _ = cache.Close() })
	prototypes := []proto.Message{&testpb.Placed{}, &testpb.Cancelled{}, &testpb.Legacy{}, &testpb.Scalars{}}
	for id, prototype := range prototypes {
		s := newProtobuf(f, prototype, cache)
		seedLocal(f, cache, id, s.local)
	}
	typed := newProtobuf[proto.Message](f, nil, cache)
	dynamic := newProtobuf[*dynamicpb.Message](f, nil, cache)
	for _, m := range randomTestMessages(1, 40) {
		body, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		s := newProtobuf(f, m, cache)
		for id := range prototypes {
			if s.local.text == newProtobuf(f, prototypes[id], cache).local.text {
				f.Add(append(append(Encode(id, nil), s.local.indexes...), body...))
			}
		}
	}
	f.Add(Encode(0, []byte("\x0a\x03o-1")))
	f.Add(Encode(1, []byte("\x04\x04\x02")))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		one, oneErr := typed.Deserialize("t", data)
		two, twoErr := dynamic.Deserialize("t", data)
		if !bytes.Equal(before, data) {
			t.Fatal("the input is changed")
		}
		if twoErr != nil && strings.Contains(twoErr.Error(), "the Protobuf library fails") {
			wantLocatedError(t, twoErr)
			return
		}
		if (oneErr == nil) != (twoErr == nil) {
			t.Fatalf("%x: as a Go type %v, as a dynamic message %v", data, oneErr, twoErr)
		}
		if oneErr != nil {
			wantLocatedError(t, oneErr)
			wantLocatedError(t, twoErr)
			return
		}
		if len(data) == 0 {
			return
		}
		written := proto.MarshalOptions{Deterministic: true, AllowPartial: true}
		first, err := written.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		second, err := written.Marshal(two)
		if err != nil {
			t.Fatal(err)
		}
		for name, body := range map[string][]byte{"dynamic": second, "typed": first} {
			again := one.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(body, again); err != nil || !proto.Equal(one, again) {
				// NaN is equal to nothing, and proto.Equal knows it.
				t.Fatalf("%x: the %s message is written as %x, which is read as %v, %v, want %v", data, name, body, again, err, one)
			}
		}
	})
}

// wantLocatedError accepts errors that tell what is wrong and where.
func wantLocatedError(t *testing.T, err error) {
	t.Helper()
	if frame, ok := errors.AsType[*FrameError](err); ok && frame.Offset >= 0 {
		return
	}
	if unavailable, ok := errors.AsType[*SchemaUnavailableError](err); ok && !unavailable.Retriable() {
		return
	}
	located, ok := errors.AsType[*DeserializeError](err)
	if !ok || located.Subject != "t-value" {
		t.Fatalf("error is %T %v", err, err)
	}
	if body, ok := errors.AsType[*ProtobufDataError](err); ok && body.Offset >= 0 && body.Message != "" && body.Unwrap() != nil {
		return
	}
	if message, ok := errors.AsType[*ProtobufMessageError](err); !ok || len(message.Indexes) == 0 {
		t.Fatalf("cause is %v", err)
	}
}

// FuzzProtobufFault looks for the fault in random bodies, also in good ones,
// where it must find none.
func FuzzProtobufFault(f *testing.F) {
	for _, m := range randomTestMessages(2, 40) {
		body, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
		f.Add(body[:len(body)/2])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, m := range []proto.Message{&testpb.Placed{}, &testpb.Legacy{}, &testpb.Scalars{}, &testpb.Node{}} {
			err := proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(body, m)
			cause := cmp.Or(err, errors.New("none"))
			wrong := dataError(m.ProtoReflect().Descriptor(), body, 0, cause)
			if err == nil && wrong.Path != "" {
				t.Fatalf("%T: %x: the fault of a good body is at %s", m, body, wrong.Path)
			}
			if wrong.Offset < 0 || wrong.Offset > len(body) || wrong.reason == "" {
				t.Fatalf("%T: %x: the fault is %q at byte %d", m, body, wrong.reason, wrong.Offset)
			}
		}
	})
}

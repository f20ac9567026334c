// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/hex"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/dynamicpb"
)

// goldenMessage is a line of testdata/protobuf/cases.txt with the frames that
// others have made of it.
type goldenMessage struct {
	name    string
	message proto.Message
	frames  map[string][]byte // by file
}

func goldenLines(t *testing.T, file string) [][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/protobuf/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.SplitN(strings.TrimSuffix(line, "\n"), "|", 3))
	}
	return lines
}

// readGoldenMessages reads the frames of protobuf-go and of Protobuf for Java;
// testdata/golden-go and testdata/golden-java-protobuf tell how they are made.
func readGoldenMessages(t *testing.T) []goldenMessage {
	t.Helper()
	var golden []goldenMessage
	for _, line := range goldenLines(t, "cases.txt") {
		golden = append(golden, goldenMessage{line[0], messageFromText(t, line[1], line[2]), map[string][]byte{}})
	}
	for _, file := range []string{"go.txt", "java.txt"} {
		for i, line := range goldenLines(t, file) {
			frame, err := hex.DecodeString(line[1])
			if err != nil || line[0] != golden[i].name {
				t.Fatalf("line %d of %s: %v", i+1, file, err)
			}
			golden[i].frames[file] = frame
		}
	}
	return golden
}

func messageFromText(t *testing.T, name, text string) proto.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
	if err != nil {
		t.Fatal(err)
	}
	m := kind.New().Interface()
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFramesOfOtherLibrariesAreReadAndWritten(t *testing.T) {
	golden := readGoldenMessages(t)
	if len(golden) < 19 {
		t.Fatalf("only %d messages", len(golden))
	}
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			typed, cache := seededProtobuf(t, g.message, 258)
			dynamic := newProtobuf[*dynamicpb.Message](t, nil, cache)
			for file, frame := range g.frames {
				got, err := typed.Deserialize("t", frame)
				if diff := cmp.Diff(g.message, got, protocmp.Transform(), cmpopts.EquateNaNs()); err != nil || diff != "" {
					t.Errorf("%s: %v, mismatch (-want +got):\n%s", file, err, diff)
				}
				generic, err := dynamic.Deserialize("t", frame)
				if diff := cmp.Diff(g.message, generic, protocmp.Transform(), cmpopts.EquateNaNs()); err != nil || diff != "" {
					t.Errorf("%s: %v, dynamic mismatch (-want +got):\n%s", file, err, diff)
				}
			}
			if data, err := typed.Serialize("t", g.message); err != nil || string(data) != string(g.frames["go.txt"]) {
				t.Errorf("Serialize = %x, %v, want %x", data, err, g.frames["go.txt"])
			}
			// Java has the same message indexes; it writes fields and entries in
			// another order.
			list, _, err := splitMessageIndexes(g.frames["java.txt"][5:])
			if err != nil || string(list) != string(typed.local.indexes) {
				t.Errorf("Java's indexes are %x, %v, want %x", list, err, typed.local.indexes)
			}
		})
	}
}

// randomProtobuf fills the fields of a message at random.
func randomProtobuf(rng *rand.Rand, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		nests := field.Message() != nil && !field.IsMap()
		if field.Cardinality() != protoreflect.Required && (rng.IntN(2) == 0 || depth == 0 && nests) {
			continue
		}
		switch {
		case field.IsMap():
			entries := m.Mutable(field).Map()
			value := field.MapValue()
			for range rng.IntN(3) {
				if value.Message() != nil && depth == 0 {
					break
				}
				entries.Set(randomValue(rng, field.MapKey(), protoreflect.Value{}, depth).MapKey(), randomValue(rng, value, entries.NewValue(), depth))
			}
		case field.IsList():
			list := m.Mutable(field).List()
			for range rng.IntN(3) {
				list.Append(randomValue(rng, field, list.NewElement(), depth))
			}
		default:
			m.Set(field, randomValue(rng, field, m.NewField(field), depth))
		}
	}
}

// randomValue returns a value of a field; empty is a new message where the field
// has messages.
func randomValue(rng *rand.Rand, field protoreflect.FieldDescriptor, empty protoreflect.Value, depth int) protoreflect.Value {
	bits := rng.Uint64() >> rng.IntN(64)
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(bits&1 == 1)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(field.Enum().Values().Get(rng.IntN(field.Enum().Values().Len())).Number())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(bits))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(bits))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(bits))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(bits)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(rng.NormFloat64()))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rng.NormFloat64() * math.Pow(10, float64(rng.IntN(40)-20)))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.Repeat(string(rune('a'+bits%1000)), rng.IntN(5)))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(hex.EncodeToString([]byte{byte(bits)}))[:rng.IntN(3)])
	default:
		randomProtobuf(rng, empty.Message(), depth-1)
		return empty
	}
}

// randomTestMessages returns messages of every kind in testpb.
func randomTestMessages(seed uint64, n int) []proto.Message {
	rng := rand.New(rand.NewPCG(seed, 0))
	names := []protoreflect.FullName{"shop.Placed", "shop.Placed.Line", "shop.Shipped", "shop.Cancelled", "shop.Cancelled.Reason",
		"shop.Cancelled.Refund", "shop.Legacy", "shop.Legacy.Part", "shop.Node", "shop.Scalars", "google.protobuf.StringValue"}
	var messages []proto.Message
	for i := range n {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(names[i%len(names)])
		if err != nil {
			panic(err)
		}
		m := kind.New()
		randomProtobuf(rng, m, 4)
		messages = append(messages, m.Interface())
	}
	return messages
}

func TestRandomMessagesRoundTripInEveryForm(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, m := range randomTestMessages(seed, 400) {
		typed, cache := seededProtobuf(t, m, 1)
		dynamic := newProtobuf[*dynamicpb.Message](t, nil, cache)
		text := dynamicProtobuf(t, typed.local.text, typed.local.spec().messageType, cache, WithReferences(typed.local.references...))
		data, err := typed.Serialize("t", m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := typed.Deserialize("t", data)
		if err != nil || !proto.Equal(got, m) {
			t.Fatalf("seed %d: %T: %x is read as %v, %v, want %v", seed, m, data, got, err, m)
		}
		for name, s := range map[string]*ProtobufSerde[*dynamicpb.Message]{"writer's": dynamic, "own": text} {
			got, err := s.Deserialize("t", data)
			if diff := cmp.Diff(m, got, protocmp.Transform()); err != nil || diff != "" {
				t.Fatalf("seed %d: %T under the %s schema: %v, mismatch (-want +got):\n%s", seed, m, name, err, diff)
			}
			if s.Descriptor() == nil {
				continue
			}
			again, err := s.Serialize("t", got)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := typed.Deserialize("t", again); err != nil || !proto.Equal(back, m) {
				t.Fatalf("seed %d: %T: a dynamic message is written as %x, %v", seed, m, again, err)
			}
		}
	}
}

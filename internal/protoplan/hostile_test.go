// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/columnset"
	"github.com/krabka-io/krabka-streams-go/internal/testpb"
)

// samples are messages that between them have every kind of field.
func samples() []proto.Message {
	return []proto.Message{
		&testpb.Scalars{
			Double: 1.5, Float: -2, Int32: -1, Int64: 1 << 40, Uint32: 1 << 31, Uint64: 1 << 63, Sint32: -7, Sint64: 9, Fixed32: 1, Fixed64: 2,
			Sfixed32: -3, Sfixed64: -4, Bool: true, String_: "text", Bytes: []byte{0xff}, Size: testpb.Size_SIZE_LARGE,
			Packed: []int64{1, -300}, Loose: []float64{0.5}, Sizes: []testpb.Size{1, 77},
			Texts: map[int32]string{1: "a", -1: ""}, Flags: map[bool]testpb.Size{true: 1}, Wrapped: wrapperspb.Int64(5), Maybe: proto.Uint32(0),
			Nested: map[string]*testpb.Scalars{"k": {Int32: 1}},
		},
		&testpb.Legacy{Id: proto.String("l"), Header: &testpb.Legacy_Header{Name: proto.String("h")}, Parts: []*testpb.Legacy_Part{{}, {Name: proto.String("p")}}},
		&testpb.Basket{
			Id: "b", Person: &testpb.Basket_Person{Age: 3, Address: &testpb.Basket_Address{Zip: proto.Int32(0)}}, Tags: []string{"x", ""},
			Counts: map[string]int64{"k": 1, "l": 300}, Voucher: wrapperspb.String(""), Either: &testpb.Basket_Text{Text: "t"},
			Items: []*testpb.Basket_Item{{Sku: "s", Price: 1}, {}}, At: &timestamppb.Timestamp{Seconds: -1, Nanos: 5000}, Sizes: []int32{1, -1},
		},
	}
}

// longSample is the size from which bytes are not replaced by every other one.
const longSample = 150

// damaged returns every truncation of a body, and the body with each of its bytes
// replaced by every other one, or in long bodies by those of one other bit and by
// each seventh.
func damaged(body []byte) [][]byte {
	var all [][]byte
	for n := range body {
		all = append(all, body[:n:n])
	}
	for i := range body {
		for change := 1; change < 256; change++ {
			if len(body) > longSample && change%7 != 0 && change&(change-1) != 0 {
				continue
			}
			mutant := bytes.Clone(body)
			mutant[i] ^= byte(change)
			all = append(all, mutant)
		}
	}
	return all
}

func TestDamagedMessagesAreReadAsTheLibraryReadsThem(t *testing.T) {
	for _, sample := range samples() {
		p := Compile(sample.ProtoReflect().Descriptor())
		d := newDecoding(t, p, ReaderOptions{})
		body := marshal(t, sample)
		var accepted [][]byte
		var messages []protoreflect.Message
		for _, mutant := range damaged(body) {
			m, err := readReference(p.Descriptor(), mutant)
			if errors.Is(err, errLibrary) {
				continue
			}
			got := d.row(t, mutant)
			if err == nil && got != nil { // it may have no row
				_, err = referenceOf(p, []protoreflect.Message{m})
			}
			if (err == nil) != (got == nil) {
				t.Fatalf("the library says %v, the plan %v, of %x", err, got, mutant)
			}
			var fault *DataError
			switch {
			case err == nil:
				accepted, messages = append(accepted, mutant), append(messages, m)
			case !errors.As(got, &fault) || fault.Offset > len(mutant):
				t.Fatalf("%x gives %v", mutant, got)
			}
		}
		batch := d.batch(t, arrow.NewSchema(p.Fields(), nil))
		want, err := referenceOf(p, messages)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range p.Fields() {
			for row := range messages {
				// Maps print with their keys in order, and NaN like NaN.
				if a, b := fmt.Sprint(columnar.Value(want.Column(i), row)), fmt.Sprint(columnar.Value(batch.Column(i), row)); a != b {
					t.Fatalf("column %s of %x is %s, want %s", f.Name, accepted[row], b, a)
				}
			}
		}
		if len(accepted) < len(body) {
			t.Errorf("of %s, %d damaged bodies are accepted, which cannot be all", p.Descriptor().FullName(), len(accepted))
		}
		// The rows in between left no trace.
		again := newDecoding(t, p, ReaderOptions{})
		for _, body := range accepted {
			if err := again.row(t, body); err != nil {
				t.Fatal(err)
			}
		}
		if other := again.batch(t, batch.Schema()); !array.RecordApproxEqual(batch, other, array.WithNaNsEqual(true)) {
			t.Errorf("bodies that fail leave a trace in the columns of %s", p.Descriptor().FullName())
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	legacy := Compile((&testpb.Legacy{}).ProtoReflect().Descriptor())
	deep := append(bytes.Repeat(protowire.AppendTag(nil, 9, protowire.StartGroupType), 50_000), bytes.Repeat(protowire.AppendTag(nil, 9, protowire.EndGroupType), 50_000)...)
	if err := newDecoding(t, legacy, ReaderOptions{}).row(t, deep); err == nil || !strings.Contains(err.Error(), "field 9: ") {
		t.Errorf("groups in 50000 levels give %v", err)
	}
	var list []byte
	for range 12_000 { // a list in a value in a list
		list = protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), list)
		list = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), list)
	}
	value := Compile((&structpb.ListValue{}).ProtoReflect().Descriptor())
	if err := newDecoding(t, value, ReaderOptions{}).row(t, list); err == nil || !strings.Contains(err.Error(), "field values[0]: ") {
		t.Errorf("lists in 24000 levels give %v", err)
	}
}

func TestMemoryIsBoundedByTheBody(t *testing.T) {
	p := Compile((&testpb.Scalars{}).ProtoReflect().Descriptor())
	entry := []byte{0xa2, 1, 4, 0x08, 1, 0x12, 0} // of the map texts, with key 1
	for name, body := range map[string][]byte{
		"a packed list without end":  protowire.AppendVarint([]byte{0x8a, 1}, 1<<40),
		"a text without end":         protowire.AppendVarint([]byte{0x72}, 1<<62),
		"the most packed numbers":    protowire.AppendBytes([]byte{0x8a, 1}, make([]byte, 100_000)),
		"the same key over and over": bytes.Repeat(entry, 20_000),
	} {
		mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
		r := p.NewReader(ReaderOptions{})
		set := columnset.New(r.Spec(), mem)
		set.Begin(mem, 1, len(body))
		before := mem.CurrentAlloc()
		err := r.NewDecoder(set).Append(body)
		if grown := mem.CurrentAlloc() - before; grown > 20*len(body)+1024 {
			t.Errorf("%s: %d bytes take %d (%v)", name, len(body), grown, err)
		}
		set.Discard()
		mem.AssertSize(t, 0)
	}
}

func TestOneOfEqualKeysStays(t *testing.T) {
	p := Compile((&testpb.Scalars{}).ProtoReflect().Descriptor())
	var body []byte
	for i := range 40 { // more than are compared with each other
		entry := protowire.AppendVarint([]byte{0x08}, uint64(i%30))
		entry = protowire.AppendString(append(entry, 0x12), fmt.Sprint(i))
		body = protowire.AppendBytes(append(body, 0xa2, 1), entry)
	}
	d := newDecoding(t, p, ReaderOptions{})
	if err := d.row(t, body); err != nil {
		t.Fatal(err)
	}
	batch := d.batch(t, arrow.NewSchema(p.Fields(), nil))
	entries := batch.Column(batch.Schema().FieldIndices("texts")[0]).(*array.Map)
	if got := entries.Keys().String(); got != "[10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 0 1 2 3 4 5 6 7 8 9]" {
		t.Errorf("keys are %s", got)
	}
	if got := entries.Items().String(); !strings.HasSuffix(got, `"29" "30" "31" "32" "33" "34" "35" "36" "37" "38" "39"]`) {
		t.Errorf("values are %s", got)
	}
}

func TestMessageWithoutRoomIsTakenBack(t *testing.T) {
	for _, sample := range samples() {
		p := Compile(sample.ProtoReflect().Descriptor())
		body := marshal(t, sample)
		r := p.NewReader(ReaderOptions{})
		for limit := 64; limit < 4096; limit += 61 {
			mem := checkedAllocator(t)
			set := columnset.New(r.Spec(), mem)
			set.Limit(limit)
			set.Begin(mem, 0, 0)
			d := r.NewDecoder(set)
			rows := 0
			for ; rows < 1000; rows++ {
				if err := d.Append(body); err != nil {
					t.Fatal(err)
				}
				if !set.Commit() {
					break
				}
			}
			if rows == 1000 || set.Overflow() == nil || set.Rows() != rows {
				t.Fatalf("within %d bytes a column holds %d of %d rows", limit, set.Rows(), rows)
			}
			columns := set.Finish()
			set.Begin(mem, 0, 0)
			set.Limit(1 << 20)
			for range rows {
				if err := d.Append(body); err != nil || !set.Commit() {
					t.Fatalf("a decoder that had no room: %v", err)
				}
			}
			for i, column := range set.Finish() {
				if !array.Equal(columns[i], column) {
					t.Fatalf("column %s within %d bytes is %v, want %v", p.Fields()[i].Name, limit, columns[i], column)
				}
				column.Release()
				columns[i].Release()
			}
		}
	}
}

func FuzzMessagesAreReadAsTheLibraryReadsThem(f *testing.F) {
	for i, sample := range samples() {
		f.Add(uint8(i), marshal(f, sample))
	}
	plans := make([]*Plan, len(samples()))
	for i, sample := range samples() {
		plans[i] = Compile(sample.ProtoReflect().Descriptor())
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		p := plans[int(which)%len(plans)]
		m, err := readReference(p.Descriptor(), body)
		d := newDecoding(t, p, ReaderOptions{})
		got := d.row(t, body)
		if errors.Is(err, errLibrary) {
			return
		}
		var want arrow.RecordBatch
		if err == nil {
			want, err = referenceOf(p, []protoreflect.Message{m})
		}
		if err == nil && got != nil && strings.Contains(got.Error(), "].value") {
			return // a value of a map that another one replaces
		}
		if (err == nil) != (got == nil) {
			t.Fatalf("the library says %v, the plan %v", err, got)
		}
		if err != nil {
			return
		}
		batch := d.batch(t, want.Schema())
		sameRows(t, want, batch)
		checkWritten(t, p, batch)
	})
}

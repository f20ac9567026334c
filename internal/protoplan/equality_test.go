// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/columnset"
)

// checkedAllocator fails the test for memory that is not released.
func checkedAllocator(t testing.TB) memory.Allocator {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

// decoding reads messages into one batch.
type decoding struct {
	*Decoder
	set *columnset.Set
}

func newDecoding(t testing.TB, p *Plan, options ReaderOptions) *decoding {
	t.Helper()
	mem := checkedAllocator(t)
	r := p.NewReader(options)
	set := columnset.New(r.Spec(), mem)
	set.Begin(mem, 8, 100)
	t.Cleanup(set.Discard)
	return &decoding{r.NewDecoder(set), set}
}

// row reads a message as a row, and takes it back if it fails.
func (d *decoding) row(t testing.TB, body []byte) error {
	t.Helper()
	err := d.Append(body)
	if err != nil {
		d.set.Rollback()
	} else if !d.set.Commit() {
		t.Fatal("the row does not fit")
	}
	return err
}

// batch ends the batch.
func (d *decoding) batch(t testing.TB, schema *arrow.Schema) arrow.RecordBatch {
	t.Helper()
	rows := int64(d.set.Rows())
	columns := d.set.Finish()
	batch := array.NewRecordBatch(schema, columns, rows)
	for _, c := range columns {
		c.Release()
	}
	t.Cleanup(batch.Release)
	return batch
}

// referenceOf makes a batch of messages by way of builders.
func referenceOf(p *Plan, messages []protoreflect.Message) (arrow.RecordBatch, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(p.Fields(), nil))
	defer b.Release()
	for _, m := range messages {
		for i, f := range p.Fields() {
			if err := appendReference(b.Field(i), f, p.Descriptor().Fields().Get(i), m); err != nil {
				return nil, err
			}
		}
	}
	return b.NewRecordBatch(), nil
}

// sameRows compares two batches value by value. The order of a map's entries does
// not count.
func sameRows(t testing.TB, want, got arrow.RecordBatch) {
	t.Helper()
	if want.NumRows() != got.NumRows() {
		t.Fatalf("%d rows, want %d", got.NumRows(), want.NumRows())
	}
	for i, f := range want.Schema().Fields() {
		if !arrow.TypeEqual(f.Type, got.Column(i).DataType(), arrow.CheckMetadata()) {
			t.Fatalf("column %s is a %s, want %s", f.Name, got.Column(i).DataType(), f.Type)
		}
		if want.Column(i).NullN() != got.Column(i).NullN() {
			t.Errorf("column %s has %d nulls, want %d", f.Name, got.Column(i).NullN(), want.Column(i).NullN())
		}
		for row := range int(want.NumRows()) {
			a, b := columnar.Value(want.Column(i), row), columnar.Value(got.Column(i), row)
			if diff := cmp.Diff(a, b, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("column %s row %d (-want +got):\n%s", f.Name, row, diff)
			}
		}
	}
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	body, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// randomBody returns wire bytes of the file's first message: of one message, or of
// parts that merge, with lists packed and not.
func randomBody(t testing.TB, r *rand.Rand, descriptors ...protoreflect.MessageDescriptor) []byte {
	t.Helper()
	var body []byte
	for range 1 + r.IntN(3) {
		m := dynamicpb.NewMessage(descriptors[r.IntN(len(descriptors))])
		fill(r, m, 0)
		body = append(body, marshal(t, m)...)
	}
	return body
}

var seeds = flag.Uint64("seeds", 150, "how many random schemas the test of equality reads")

func TestColumnsHoldWhatTheLibraryReads(t *testing.T) {
	for seed := range *seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		file, loosened := newRandomFile(t, r)
		p := Compile(file.Messages().Get(0))
		d := newDecoding(t, p, ReaderOptions{})
		var messages []protoreflect.Message
		for range 12 {
			body := randomBody(t, r, file.Messages().Get(0), loosened.Messages().Get(0))
			if r.IntN(4) == 0 && len(body) > 0 {
				body = bytes.Clone(body)
				body[r.IntN(len(body))] ^= 1 << r.IntN(8)
			}
			m, err := readReference(p.Descriptor(), body)
			if errors.Is(err, errLibrary) {
				continue
			}
			if err == nil {
				_, err = referenceOf(p, []protoreflect.Message{m})
			}
			got := d.row(t, body)
			if err == nil && got != nil && strings.Contains(got.Error(), "].value") {
				// The plan refuses entries of maps whose values lack a required field
				// or a JSON form, also those that a later entry replaces.
				got = d.row(t, marshal(t, m.Interface()))
			}
			if (err == nil) != (got == nil) {
				t.Fatalf("seed %d: the library says %v, the plan %v, of body %x", seed, err, got, body)
			}
			if err == nil {
				messages = append(messages, m)
			}
		}
		batch := d.batch(t, arrow.NewSchema(p.Fields(), nil))
		want, err := referenceOf(p, messages)
		if err != nil {
			t.Fatal(err)
		}
		sameRows(t, want, batch)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		checkWritten(t, p, batch)
	}
}

// checkWritten writes the rows of a batch and reads them with the library.
func checkWritten(t testing.TB, p *Plan, batch arrow.RecordBatch) {
	t.Helper()
	w, err := p.NewWriter(batch.Schema(), WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := w.NewEncoder(batch)
	var messages []protoreflect.Message
	for row := range int(batch.NumRows()) {
		body, err := e.AppendRow(nil, row)
		if err != nil {
			t.Fatal(err)
		}
		m, err := readReference(p.Descriptor(), body)
		if err != nil {
			t.Fatalf("row %d is written as %x: %v", row, body, err)
		}
		messages = append(messages, m)
	}
	again, err := referenceOf(p, messages)
	if err != nil {
		t.Fatal(err)
	}
	sameRows(t, batch, again)
}

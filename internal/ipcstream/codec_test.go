// SPDX-License-Identifier: Apache-2.0

package ipcstream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

func newCodec(tb testing.TB, mem memory.Allocator) *Codec {
	tb.Helper()
	codec, err := NewCodec(mem, Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return codec
}

func TestIPCRoundTripsEveryType(t *testing.T) {
	r := arrowtest.NewRand(t)
	mem := arrowtest.NewAllocator(t)
	whole := arrowtest.EveryTypeBatch(r, mem, 150)
	defer whole.Release()
	serde := newCodec(t, mem)
	for _, bounds := range [][2]int64{{0, 150}, {13, 140}, {7, 8}, {20, 20}, {0, 0}} {
		t.Run(fmt.Sprint(bounds), func(t *testing.T) {
			batch := whole.NewSlice(bounds[0], bounds[1])
			defer batch.Release()
			data, err := serde.Encode(batch)
			if err != nil {
				t.Fatal(err)
			}
			back, err := serde.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			defer back.Release()
			arrowtest.CheckSameBatch(t, batch, back)
			if got := back.Schema().Metadata(); !got.Equal(batch.Schema().Metadata()) {
				t.Errorf("schema metadata %v", got)
			}

			reader, err := ipc.NewReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Release()
			if !reader.Next() {
				t.Fatalf("arrow-go reads no batch: %v", reader.Err())
			}
			arrowtest.CheckSameBatch(t, batch, reader.RecordBatch())
			if reader.Next() || reader.Err() != nil {
				t.Errorf("arrow-go reads more than one batch, or fails: %v", reader.Err())
			}
		})
	}
}

func TestIPCReadsWhatArrowWrites(t *testing.T) {
	r := arrowtest.NewRand(t)
	mem := arrowtest.NewAllocator(t)
	batch := arrowtest.EveryTypeBatch(r, mem, 100)
	defer batch.Release()
	for name, options := range map[string][]ipc.Option{
		"plain": nil,
		"lz4":   {ipc.WithLZ4()},
		"zstd":  {ipc.WithZstd()},
		"some":  {ipc.WithZstd(), ipc.WithMinSpaceSavings(0.5)},
	} {
		t.Run(name, func(t *testing.T) {
			back, err := newCodec(t, mem).Decode(arrowtest.Stream(t, []arrow.RecordBatch{batch}, options...))
			if err != nil {
				t.Fatal(err)
			}
			defer back.Release()
			arrowtest.CheckSameBatch(t, batch, back)
		})
	}
}

func TestIPCJoinsTheBatchesOfAStream(t *testing.T) {
	r := arrowtest.NewRand(t)
	mem := arrowtest.NewAllocator(t)
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String}
	for name, options := range map[string][]ipc.Option{"replaced dictionaries": nil, "dictionary deltas": {ipc.WithDictionaryDeltas(true)}} {
		t.Run(name, func(t *testing.T) {
			var batches []arrow.RecordBatch
			var words []string
			dictionaryBuilder := array.NewDictionaryBuilder(mem, dictionary).(*array.BinaryDictionaryBuilder)
			defer dictionaryBuilder.Release()
			for i := range 3 {
				for j := range 5 {
					word := fmt.Sprint("word ", i, r.IntN(j+1))
					words = append(words, word)
					if err := dictionaryBuilder.AppendString(word); err != nil {
						t.Fatal(err)
					}
				}
				column := dictionaryBuilder.NewArray()
				batch := array.NewRecordBatch(arrowtest.Fields("v", dictionary), []arrow.Array{column}, 5)
				column.Release()
				defer batch.Release()
				batches = append(batches, batch)
			}
			back, err := newCodec(t, mem).Decode(arrowtest.Stream(t, batches, options...))
			if err != nil {
				t.Fatal(err)
			}
			defer back.Release()
			if diff := cmp.Diff(words, arrowtest.Texts(back.Column(0))); diff != "" {
				t.Errorf("values mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIPCRefusesBrokenStreams(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	batch := arrowtest.TwoColumns(mem, "a", "bc")
	defer batch.Release()
	serde := newCodec(t, mem)
	stream, err := serde.Encode(batch)
	if err != nil {
		t.Fatal(err)
	}
	schemaSize := 8 + int(binary.LittleEndian.Uint32(stream[4:]))
	schema := stream[:schemaSize]
	end := endOfStream[:]
	change := func(at int, value byte) []byte {
		changed := bytes.Clone(stream)
		changed[schemaSize+8+at] = value
		return changed
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"empty":             {[]byte{}, "cannot read Arrow IPC stream: truncated message"},
		"a file":            {[]byte("ARROW1\x00\x00\xff\xff\xff\xff"), "cannot read Arrow IPC stream: the value looks like an Arrow file, which is not an IPC stream: write it with a stream writer"},
		"no stream":         {[]byte{1, 2, 3}, "cannot read Arrow IPC stream: truncated message"},
		"only the end":      {end, "cannot read Arrow IPC stream: the stream does not begin with a schema"},
		"no batch":          {join(schema, end), "Arrow IPC stream has no record batch"},
		"no batch, no end":  {schema, "Arrow IPC stream has no record batch"},
		"batch first":       {stream[schemaSize:], "cannot read Arrow IPC stream: the stream does not begin with a schema"},
		"two schemas":       {join(schema, stream), "cannot read Arrow IPC stream: the stream does not begin with a schema"},
		"trailing byte":     {join(stream, []byte{0}), "trailing bytes behind the Arrow IPC stream"},
		"second stream":     {join(stream, stream), "trailing bytes behind the Arrow IPC stream"},
		"cut in the body":   {stream[:len(stream)-20], "cannot read Arrow IPC stream: truncated message"},
		"cut in a prefix":   {stream[:schemaSize+6], "cannot read Arrow IPC stream: truncated message"},
		"huge metadata":     {join(schema, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}), "cannot read Arrow IPC stream: truncated message"},
		"huge body":         {change(messageTable+12, 8), "cannot read Arrow IPC stream: truncated message"},
		"huge row count":    {change(messageEnd+20+8+4, 1), "cannot read Arrow IPC stream: invalid field node"},
		"odd vtable":        {change(messageVtable, 11), "cannot read Arrow IPC stream: malformed message metadata"},
		"version 3":         {change(messageTable+16, 2), "cannot read Arrow IPC stream: unsupported metadata version"},
		"tensor":            {change(messageTable+18, 4), "cannot read Arrow IPC stream: unexpected message type"},
		"wrong row count":   {change(messageEnd+20+8, 1), `cannot read Arrow IPC stream: column "text": columns of different lengths`},
		"negative nulls":    {change(88+8+7, 0xff), `cannot read Arrow IPC stream: column "text": invalid field node`},
		"nulls, no bitmap":  {change(88+8, 1), `cannot read Arrow IPC stream: column "text": a buffer is too short for its column`},
		"buffer outside":    {change(128+16+1, 0xff), `cannot read Arrow IPC stream: column "text": a buffer is outside the message body`},
		"huge buffer":       {change(128+16+8+7, 0x7f), `cannot read Arrow IPC stream: column "text": a buffer is outside the message body`},
		"many buffers":      {change(124, 0xff), "cannot read Arrow IPC stream: malformed message metadata"},
		"few buffers":       {change(124, 2), `cannot read Arrow IPC stream: column "text": buffers are missing`},
		"few nodes":         {change(84, 1), `cannot read Arrow IPC stream: column "at": invalid field node`},
		"large offset":      {change(128+16*5+4, 0xff), `cannot read Arrow IPC stream: column "text": offsets are not ascending or outside the values`},
		"last offset":       {change(128+16*5+8, 0xff), `cannot read Arrow IPC stream: column "text": offsets are not ascending or outside the values`},
		"text that is not":  {change(128+16*5+16, 0xff), `cannot read Arrow IPC stream: column "text": text is not valid UTF-8`},
		"text across bytes": {join(change(128+16*5+16, 0xc3)[:schemaSize+8+128+16*5+17], []byte{0xa9}, stream[schemaSize+8+128+16*5+18:]), `cannot read Arrow IPC stream: column "text": text is not valid UTF-8`},
	} {
		back, err := serde.Decode(test.data)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if back != nil {
			t.Errorf("%s: got a batch", name)
			back.Release()
		}
	}
}

func TestIPCSchemasThatReferToThemselvesStayBounded(t *testing.T) {
	// A vector of many references to one field whose children are again such a
	// vector would expand without end.
	m := make([]byte, 4096)
	word := func(at, v int) { binary.LittleEndian.PutUint32(m[at:], uint32(v)) }
	word(0, 16)
	putVtable(m[4:], 20, 16, 18, 4, 8)
	word(16, 12)
	word(20, 64-20) // header: the schema table at 64
	m[32], m[34] = version5, schemaMessage
	putVtable(m[48:], 12, 0, 4) // endianness absent, fields
	word(64, 64-48)
	word(68, 100-68) // fields: the vector at 100
	word(100, 200)
	for i := range 200 {
		word(104+4*i, 1200-(104+4*i)) // every element is the field at 1200
	}
	putVtable(m[1180:], 12, 0, 0, 0, 0, 0, 4) // children
	word(1200, 20)
	word(1204, 1300-1204)
	word(1300, 200)
	for i := range 200 {
		word(1304+4*i, 0x7fffffff)
		word(1304+4*i, -(104 + 4*i)) // out of range
	}
	for i := range 200 {
		binary.LittleEndian.PutUint32(m[1304+4*i:], uint32(int32(1200-(1304+4*i))))
	}
	if _, err := parseSchema(m); err == nil {
		t.Error("a schema that contains itself was accepted")
	}
}

func TestIPCSchemaCacheSharesSchemas(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	serde := newCodec(t, mem)
	var first *arrow.Schema
	for i := range 3 {
		batch := arrowtest.TwoColumns(mem, strings.Repeat("x", i))
		data, err := serde.Encode(batch)
		batch.Release()
		if err != nil {
			t.Fatal(err)
		}
		back, err := serde.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = back.Schema()
		}
		if back.Schema() != first {
			t.Errorf("stream %d has a schema object of its own", i)
		}
		back.Release()
	}
	for i := range 3 * maxCachedSchemas {
		schema := arrow.NewSchema([]arrow.Field{{Name: fmt.Sprint("field", i), Type: arrow.PrimitiveTypes.Int64}}, nil)
		batch := array.NewRecordBatch(schema, []arrow.Array{array.MakeFromData(arrays.EmptyData(arrow.PrimitiveTypes.Int64))}, 0)
		back, err := serde.Decode(arrowtest.Stream(t, []arrow.RecordBatch{batch}))
		if err != nil {
			t.Fatal(err)
		}
		if name := back.ColumnName(0); name != fmt.Sprint("field", i) {
			t.Errorf("stream %d has field %q", i, name)
		}
		back.Release()
	}
	if size := len(serde.reader.schemas.known); size > maxCachedSchemas {
		t.Errorf("%d schemas are kept, want at most %d", size, maxCachedSchemas)
	}
}

func TestIPCLimitsBoundWhatIsRead(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	texts := make([]string, 2000)
	for i := range texts {
		texts[i] = "the same text again and again"
	}
	batch := arrowtest.TwoColumns(mem, texts...)
	defer batch.Release()
	nothing := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 1<<20)
	defer nothing.Release()
	plain := arrowtest.Stream(t, []arrow.RecordBatch{batch})
	for name, test := range map[string]struct {
		limits Limits
		data   []byte
		want   string
	}{
		"value":        {Limits{ValueBytes: 1000}, plain, fmt.Sprintf("cannot read Arrow IPC stream: %d bytes exceed the limit of 1000", len(plain))},
		"lz4":          {Limits{UncompressedBytes: 1000}, arrowtest.Stream(t, []arrow.RecordBatch{batch}, ipc.WithLZ4()), "decompressed buffers exceed the limit"},
		"zstd":         {Limits{UncompressedBytes: 20_000}, arrowtest.Stream(t, []arrow.RecordBatch{batch}, ipc.WithZstd()), "decompressed buffers exceed the limit"},
		"rows":         {Limits{Rows: 1 << 19}, arrowtest.Stream(t, []arrow.RecordBatch{nothing}), "invalid field node"},
		"rows allowed": {Limits{Rows: 1 << 20}, arrowtest.Stream(t, []arrow.RecordBatch{nothing}), ""},
		"lz4 allowed":  {Limits{UncompressedBytes: 100_000}, arrowtest.Stream(t, []arrow.RecordBatch{batch}, ipc.WithLZ4()), ""},
		"zstd allowed": {Limits{UncompressedBytes: 100_000}, arrowtest.Stream(t, []arrow.RecordBatch{batch}, ipc.WithZstd()), ""},
	} {
		serde, err := NewCodec(mem, test.limits)
		if err != nil {
			t.Fatal(err)
		}
		back, err := serde.Decode(test.data)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if back != nil {
			back.Release()
		}
	}
	if _, err := NewCodec(mem, Limits{Rows: -1}); err == nil {
		t.Error("a negative limit was accepted")
	}
}

func TestIPCDictionariesLeaveNoMemory(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	column := arrowtest.RandomArray(arrowtest.NewRand(t), mem, dt, 20)
	defer column.Release()
	batch := array.NewRecordBatch(arrowtest.Fields("v", dt), []arrow.Array{column}, 20)
	defer batch.Release()
	data := arrowtest.Stream(t, []arrow.RecordBatch{batch, batch}, ipc.WithDictionaryDeltas(true))
	serde := newCodec(t, mem)
	for range 1000 {
		back, err := serde.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if back.NumRows() != 40 {
			t.Fatalf("%d rows, want 40", back.NumRows())
		}
		back.Release()
	}
}

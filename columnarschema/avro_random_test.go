// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/hamba/avro/v2"
	twmb "github.com/twmb/avro"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
	"github.com/krabka-io/krabka-streams-go/internal/columnset"
)

var avroSeed = flag.Uint64("avro-seed", 0, "seed of the randomised Avro tests; 0 takes one from the clock")

// randomAvro makes schemas, as trees of JSON, and data of them.
type randomAvro struct {
	*rand.Rand
	names int
	// untidy writes blocks in all the ways that Avro allows.
	untidy bool
}

// eachSeed runs a test with n seeds, of which it logs the first.
func eachSeed(t *testing.T, n int, test func(r *randomAvro)) {
	first := *avroSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	for seed := first; seed < first+uint64(n); seed++ {
		test(&randomAvro{Rand: rand.New(rand.NewPCG(seed, 1))})
		if t.Failed() {
			t.Fatalf("failed with -avro-seed %d", seed)
		}
	}
}

func (r *randomAvro) name() string {
	r.names++
	return fmt.Sprintf("N%d", r.names)
}

func (r *randomAvro) record(depth int) map[string]any {
	var fields []any
	for i := range 1 + r.IntN(5) {
		fields = append(fields, map[string]any{"name": fmt.Sprintf("f%d", i), "type": r.schema(depth - 1)})
	}
	return map[string]any{"type": "record", "name": r.name(), "fields": fields}
}

func logical(typ, name string) map[string]any {
	return map[string]any{"type": typ, "logicalType": name}
}

// schema returns a random type other than null.
func (r *randomAvro) schema(depth int) any {
	if depth > 0 && r.IntN(3) == 0 {
		switch r.IntN(4) {
		case 0:
			return r.record(depth)
		case 1:
			return map[string]any{"type": "array", "items": r.schema(depth - 1)}
		case 2:
			return map[string]any{"type": "map", "values": r.schema(depth - 1)}
		default:
			return r.union(depth)
		}
	}
	switch r.IntN(24) {
	case 0:
		return "boolean"
	case 1, 2:
		return "int"
	case 3, 4:
		return "long"
	case 5:
		return "float"
	case 6:
		return "double"
	case 7, 8:
		return "string"
	case 9:
		return "bytes"
	case 10:
		return logical("int", "date")
	case 11:
		return logical("int", "time-millis")
	case 12:
		return logical("long", []string{"time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos"}[r.IntN(4)])
	case 13:
		return logical("long", []string{"local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"}[r.IntN(3)])
	case 14:
		return logical("string", "uuid")
	case 15, 16:
		precision := 1 + r.IntN(76)
		return map[string]any{"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": r.IntN(precision + 1)}
	case 17:
		size := 1 + r.IntN(40)
		precision := 1 + r.IntN(min(76, int(math.Log10(2)*float64(8*size-1))+1))
		return map[string]any{"type": "fixed", "name": r.name(), "size": size, "logicalType": "decimal", "precision": precision}
	case 18:
		return map[string]any{"type": "fixed", "name": r.name(), "size": 1 + r.IntN(20)}
	case 19:
		return map[string]any{"type": "fixed", "name": r.name(), "size": 12, "logicalType": "duration"}
	case 20, 21:
		return map[string]any{"type": "enum", "name": r.name(), "symbols": []any{"A", "B", "C"}[:1+r.IntN(3)]}
	default:
		return r.union(depth)
	}
}

func (r *randomAvro) union(depth int) any {
	if r.IntN(3) > 0 {
		inner := r.schema(depth - 1)
		if _, nested := inner.([]any); nested {
			return inner
		}
		if r.IntN(4) == 0 {
			return []any{inner, "null"}
		}
		return []any{"null", inner}
	}
	branches := []any{"int", "string", map[string]any{"type": "enum", "name": r.name(), "symbols": []any{"X", "Y"}},
		map[string]any{"type": "array", "items": "long"}, map[string]any{"type": "map", "values": "double"}, "null",
		map[string]any{"type": "fixed", "name": r.name(), "size": 3}, "bytes", "boolean"}
	if depth > 0 {
		branches = append(branches, r.record(depth-1), r.record(depth-1))
	}
	r.Shuffle(len(branches), func(i, j int) { branches[i], branches[j] = branches[j], branches[i] })
	return branches[:2+r.IntN(4)]
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// withoutLogicalTypes returns a copy of a schema without logical types, as
// which other libraries read the numbers and bytes that stand on the wire.
func withoutLogicalTypes(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutLogicalTypes(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any)
		for key, value := range v {
			if key != "logicalType" && key != "precision" && key != "scale" {
				out[key] = withoutLogicalTypes(value)
			}
		}
		return out
	}
	return v
}

// datum appends a random datum of s.
func (r *randomAvro) datum(dst []byte, s *avroplan.Schema) []byte {
	switch s.Kind {
	case avroplan.Boolean:
		return append(dst, byte(r.IntN(2)))
	case avroplan.Int:
		return avroplan.AppendLong(dst, int64(int32(r.Uint32())>>r.IntN(32)))
	case avroplan.Long:
		return avroplan.AppendLong(dst, int64(r.Uint64())>>r.IntN(64))
	case avroplan.Float:
		return avroplan.AppendFloat(dst, float32(r.NormFloat64()))
	case avroplan.Double:
		return avroplan.AppendDouble(dst, r.NormFloat64())
	case avroplan.String:
		return avroplan.AppendString(dst, []string{"", "a", "word", "\u00e9\u20ac", "a longer text, which goes on for more than sixty-three bytes of UTF-8"}[r.IntN(5)])
	case avroplan.Bytes, avroplan.Fixed:
		return r.bytes(dst, s)
	case avroplan.Enum:
		return avroplan.AppendLong(dst, int64(r.IntN(len(s.Symbols))))
	case avroplan.Array, avroplan.Map:
		return r.items(dst, s)
	case avroplan.Union:
		i := r.IntN(len(s.Branches))
		return r.datum(avroplan.AppendLong(dst, int64(i)), s.Branches[i])
	case avroplan.Record:
		for _, f := range s.Fields {
			dst = r.datum(dst, f.Type)
		}
	}
	return dst
}

func (r *randomAvro) bytes(dst []byte, s *avroplan.Schema) []byte {
	raw := make([]byte, s.Size)
	if s.Kind == avroplan.Bytes {
		raw = make([]byte, r.IntN(10))
	}
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	if s.Logical == avroplan.Decimal {
		var wide [40]byte
		for i := range wide {
			wide[i] = byte(r.Uint32())
		}
		number := new(big.Int).SetBytes(wide[:])
		number.Mod(number, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(1+r.IntN(s.Precision))), nil))
		if r.IntN(2) == 0 {
			number.Neg(number)
		}
		raw = twosComplement(number, s.Size)
	}
	if s.Kind == avroplan.Bytes {
		return avroplan.AppendBytes(dst, raw)
	}
	return append(dst, raw...)
}

// twosComplement returns a number in size bytes, or as few as it takes where
// size is 0.
func twosComplement(n *big.Int, size int) []byte {
	if size == 0 {
		size = 1
		for new(big.Int).Rsh(n, uint(8*size-1)).BitLen() > 0 && new(big.Int).Rsh(n, uint(8*size-1)).Cmp(big.NewInt(-1)) != 0 {
			size++
		}
	}
	modulus := new(big.Int).Lsh(big.NewInt(1), uint(8*size))
	return new(big.Int).Mod(n, modulus).FillBytes(make([]byte, size))
}

func (r *randomAvro) items(dst []byte, s *avroplan.Schema) []byte {
	count := r.IntN(4)
	for written := 0; written < count; {
		block := count - written
		if r.untidy {
			block = 1 + r.IntN(block)
		}
		var body []byte
		for i := range block {
			if s.Kind == avroplan.Map {
				body = avroplan.AppendString(body, fmt.Sprintf("key%d", written+i))
			}
			body = r.datum(body, s.Items)
		}
		if r.untidy && r.IntN(2) == 0 {
			dst = avroplan.AppendLong(avroplan.AppendLong(dst, -int64(block)), int64(len(body)))
		} else {
			dst = avroplan.AppendLong(dst, int64(block))
		}
		dst, written = append(dst, body...), written+block
	}
	return append(dst, 0)
}

// differs compares a value of a column with the value that another library has
// read without logical types.
func differs(s *avroplan.Schema, values arrow.Array, row int, v any) error {
	if s.Kind == avroplan.Union {
		return unionDiffers(s, values, row, v)
	}
	if values.IsNull(row) {
		return fmt.Errorf("null, want %v", v)
	}
	want := reflect.ValueOf(v)
	equal := func(got any) error {
		if !reflect.DeepEqual(got, v) {
			return fmt.Errorf("%v (%T), want %v (%T)", got, got, v, v)
		}
		return nil
	}
	switch s.Kind {
	case avroplan.Int, avroplan.Long:
		if got := rawInteger(values, row); !want.CanInt() || got != want.Int() {
			return fmt.Errorf("%d, want %v", got, v)
		}
		return nil
	case avroplan.Boolean:
		return equal(values.(*array.Boolean).Value(row))
	case avroplan.Float:
		return equal(values.(*array.Float32).Value(row))
	case avroplan.Double:
		return equal(values.(*array.Float64).Value(row))
	case avroplan.String, avroplan.Enum:
		return equal(values.(*array.String).Value(row))
	case avroplan.Bytes, avroplan.Fixed:
		raw := make([]byte, want.Len())
		reflect.Copy(reflect.ValueOf(raw), want)
		if got := rawBytes(values, row, len(raw)); !bytes.Equal(got, raw) {
			return fmt.Errorf("bytes %x, want %x", got, raw)
		}
		return nil
	case avroplan.Array:
		return itemsDiffer(s, values.(*array.List), row, v)
	case avroplan.Map:
		return entriesDiffer(s, values.(*array.Map), row, v)
	}
	fields, ok := v.(map[string]any)
	if !ok || len(fields) != len(s.Fields) {
		return fmt.Errorf("struct, want %v", v)
	}
	for i, f := range s.Fields {
		if err := differs(f.Type, values.(*array.Struct).Field(i), row, fields[f.Name]); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// rawInteger returns the number that a column of integers, dates or times holds.
func rawInteger(values arrow.Array, row int) int64 {
	buffer := values.Data().Buffers()[1].Bytes()
	at := values.Data().Offset() + row
	if values.DataType().(arrow.FixedWidthDataType).Bytes() == 4 {
		return int64(int32(binary.NativeEndian.Uint32(buffer[4*at:])))
	}
	return int64(binary.NativeEndian.Uint64(buffer[8*at:]))
}

// rawBytes returns the bytes of a column of bytes, or the big-endian number of a
// decimal in size bytes.
func rawBytes(values arrow.Array, row, size int) []byte {
	switch values := values.(type) {
	case *array.Binary:
		return values.Value(row)
	case *array.FixedSizeBinary:
		return values.Value(row)
	case *array.Decimal128:
		return twosComplement(values.Value(row).BigInt(), size)
	case *array.Decimal256:
		return twosComplement(values.Value(row).BigInt(), size)
	}
	return nil
}

func itemsDiffer(s *avroplan.Schema, values *array.List, row int, v any) error {
	want, ok := v.([]any)
	from, to := values.ValueOffsets(row)
	if !ok || int(to-from) != len(want) {
		return fmt.Errorf("%d items, want %v", to-from, v)
	}
	for i := range want {
		if err := differs(s.Items, values.ListValues(), int(from)+i, want[i]); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

func entriesDiffer(s *avroplan.Schema, values *array.Map, row int, v any) error {
	want, ok := v.(map[string]any)
	from, to := values.ValueOffsets(row)
	if !ok || int(to-from) != len(want) {
		return fmt.Errorf("%d entries, want %v", to-from, v)
	}
	for at := int(from); at < int(to); at++ {
		key := values.Keys().(*array.String).Value(at)
		if err := differs(s.Items, values.Items(), at, want[key]); err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
	}
	return nil
}

func unionDiffers(s *avroplan.Schema, values arrow.Array, row int, v any) error {
	branches := valueBranches(s)
	if values.IsNull(row) || v == nil {
		if !values.IsNull(row) || v != nil {
			return fmt.Errorf("null is %v, want %v", values.IsNull(row), v)
		}
		return nil
	}
	chosen, branch := values, branches[0]
	if len(branches) > 1 {
		set := slices.IndexFunc(branches, func(b *avroplan.Schema) bool {
			return values.(*array.Struct).Field(slices.Index(branches, b)).IsValid(row)
		})
		if set < 0 {
			return fmt.Errorf("no branch is set, want %v", v)
		}
		chosen, branch = values.(*array.Struct).Field(set), branches[set]
	}
	// Other libraries name the branch of some values.
	if named, ok := v.(map[string]any); ok && len(named) == 1 {
		if inner, ok := named[branch.BranchName()]; ok && differs(branch, chosen, row, inner) == nil {
			return nil
		}
	}
	return differs(branch, chosen, row, v)
}

// decodeBodies reads bodies of writer into the columns of reader.
func decodeBodies(mem memory.Allocator, writer, reader *avroplan.Schema, bodies [][]byte) (arrow.RecordBatch, error) {
	f, err := newAvroFormat(reader, new(codecOptions))
	if err != nil {
		return nil, err
	}
	plan, err := compileAvro(writer, f.reader, f.spec)
	if err != nil {
		return nil, err
	}
	set := columnset.New(f.spec, mem)
	defer set.Discard()
	set.Scratch = f.newScratch()
	set.Begin(mem, len(bodies), 0)
	for _, body := range bodies {
		if err := plan.decode(set, nil, body); err != nil {
			return nil, err
		}
		set.Commit()
	}
	columns := set.Finish()
	batch := array.NewRecordBatch(f.spec.Schema(), columns, int64(len(bodies)))
	for _, c := range columns {
		c.Release()
	}
	return batch, nil
}

func TestRandomRecordsAgreeWithTwoLibraries(t *testing.T) {
	compared := map[string]int{}
	eachSeed(t, 600, func(r *randomAvro) {
		tree := r.record(3)
		text, raw := jsonText(tree), jsonText(withoutLogicalTypes(tree))
		s, err := avroplan.Parse(text)
		if err != nil {
			return // two branches of a union have one name
		}
		r.untidy = r.IntN(2) == 0
		bodies := make([][]byte, 5)
		for i := range bodies {
			bodies[i] = r.datum(nil, s)
		}
		batch, err := decodeBodies(checkedTestAllocator(t), s, s, bodies)
		if err != nil {
			t.Errorf("%s: %x: %v", text, bodies, err)
			return
		}
		defer batch.Release()
		if !r.untidy {
			encoder, err := (&avroEncodePlan{schema: s}).bind(batch)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				return
			}
			for i := range bodies {
				if again, err := encoder.appendRow(nil, i); err != nil || !bytes.Equal(again, bodies[i]) {
					t.Errorf("%s: %x is written as %x, %v", text, bodies[i], again, err)
				}
			}
		}
		decoders := map[string]func(body []byte, v any) error{}
		if other, err := twmb.Parse(raw); err == nil {
			decoders["twmb"] = func(body []byte, v any) error { _, err := other.Decode(body, v); return err }
		}
		if other, err := avro.ParseWithCache(raw, "", &avro.SchemaCache{}); err == nil {
			decoders["hamba"] = func(body []byte, v any) error { return avro.Unmarshal(other, body, v) }
		}
		for library, decode := range decoders {
			for i, body := range bodies {
				var v any
				if err := decode(body, &v); err != nil {
					continue
				}
				compared[library]++
				fields, _ := v.(map[string]any)
				for j, f := range s.Fields {
					if err := differs(f.Type, batch.Column(j), i, fields[f.Name]); err != nil {
						t.Errorf("%s: %x: column %s differs from %s: %v", text, body, f.Name, library, err)
					}
				}
			}
		}
	})
	t.Logf("records compared: %v", compared)
	for _, library := range []string{"twmb", "hamba"} {
		if compared[library] < 2000 {
			t.Errorf("only %d records were compared with %s", compared[library], library)
		}
	}
}

// evolve returns a schema that reads what tree writes, mostly.
func (r *randomAvro) evolve(v any) any {
	switch v := v.(type) {
	case string:
		wider := map[string][]string{
			"int": {"long", "float", "double"}, "long": {"float", "double"}, "float": {"double"}, "string": {"bytes"}, "bytes": {"string"},
		}[v]
		if len(wider) > 0 && r.IntN(3) == 0 {
			return wider[r.IntN(len(wider))]
		}
		return v
	case []any:
		out := slices.Clone(v)
		r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out
	}
	out := map[string]any{}
	for key, value := range v.(map[string]any) {
		out[key] = value
	}
	switch out["type"] {
	case "record":
		var fields []any
		for _, f := range out["fields"].([]any) {
			if r.IntN(5) == 0 {
				continue
			}
			field := map[string]any{"name": f.(map[string]any)["name"], "type": r.evolve(f.(map[string]any)["type"])}
			if _, union := field["type"].([]any); !union && r.IntN(5) == 0 {
				field["type"] = []any{"null", field["type"]}
			}
			fields = append(fields, field)
		}
		more := []any{
			map[string]any{"name": "g1", "type": "long", "default": 5}, map[string]any{"name": "g2", "type": []any{"null", "string"}, "default": nil},
			map[string]any{"name": "g3", "type": map[string]any{"type": "array", "items": "string"}, "default": []any{"x", "y"}},
			map[string]any{"name": "g4", "type": "string", "default": "word"}, map[string]any{"name": "g5", "type": "boolean", "default": true},
		}
		fields = append(fields, more[r.IntN(len(more))])
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		out["fields"] = fields
	case "array":
		out["items"] = r.evolve(out["items"])
	case "map":
		out["values"] = r.evolve(out["values"])
	case "enum":
		out["symbols"] = []any{"C", "B", "A", "Y", "X"}
	}
	return out
}

func TestRandomEvolutionsAgreeWithAnotherLibrary(t *testing.T) {
	compared := 0
	eachSeed(t, 1500, func(r *randomAvro) {
		tree := withoutLogicalTypes(r.record(2))
		evolved := r.evolve(tree)
		writer, err := avroplan.Parse(jsonText(tree))
		if err != nil {
			return
		}
		reader, err := avroplan.Parse(jsonText(evolved))
		if err != nil {
			return
		}
		w, err := twmb.Parse(jsonText(tree))
		if err != nil {
			return
		}
		rd, err := twmb.Parse(jsonText(evolved))
		if err != nil {
			return
		}
		other, err := twmb.Resolve(w, rd)
		if err != nil {
			return
		}
		for range 3 {
			body := r.datum(nil, writer)
			var v any
			_, otherErr := other.Decode(body, &v)
			batch, err := decodeBodies(checkedTestAllocator(t), writer, reader, [][]byte{body})
			if err != nil || otherErr != nil {
				if batch != nil {
					batch.Release()
				}
				continue // avroplan's own tests compare which data can be read
			}
			compared++
			for j, f := range reader.Fields {
				if err := differs(f.Type, batch.Column(j), 0, v.(map[string]any)[f.Name]); err != nil {
					t.Errorf("%s as %s: %x: column %s: %v", jsonText(tree), jsonText(evolved), body, f.Name, err)
				}
			}
			batch.Release()
		}
	})
	t.Logf("%d records compared", compared)
	if compared < 1500 {
		t.Errorf("only %d records were compared", compared)
	}
}

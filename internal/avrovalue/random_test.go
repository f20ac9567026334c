// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	twmb "github.com/twmb/avro"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

var avroSeed = flag.Uint64("avro-seed", 0, "seed of the randomised Avro tests; 0 takes one from the clock")

// randomSeeds returns n seeds, the first of which is given by the flag or the
// clock and logged.
func randomSeeds(t *testing.T, n int) []uint64 {
	first := *avroSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	t.Logf("seeds from -avro-seed %d", first)
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return seeds
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// randomType is an Avro type that is not a text yet, so that it can be changed.
type randomType struct {
	kind       avroplan.Kind
	attributes string // logical type and its parameters, as JSON members
	name       string
	aliases    []string
	fields     []randomField
	symbols    []string
	symbol     string // default of an enum
	size       int
	items      *randomType
	branches   []*randomType
}

type randomField struct {
	name, alias string
	typ         *randomType
	value       string // default as JSON, or empty
}

// text returns the schema as JSON. A named type is defined where it comes
// first.
func (s *randomType) text(seen map[*randomType]bool) string {
	switch {
	case seen[s]:
		return strconv.Quote(s.name)
	case s.kind == avroplan.Union:
		parts := make([]string, len(s.branches))
		for i, b := range s.branches {
			parts[i] = b.text(seen)
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	b := `{"type":"` + s.kind.String() + `"` + s.attributes
	if s.name != "" {
		seen[s] = true
		b += `,"name":"` + s.name + `"`
		if s.aliases != nil {
			b += `,"aliases":["` + strings.Join(s.aliases, `","`) + `"]`
		}
	}
	switch s.kind {
	case avroplan.Array:
		b += `,"items":` + s.items.text(seen)
	case avroplan.Map:
		b += `,"values":` + s.items.text(seen)
	case avroplan.Fixed:
		b += fmt.Sprintf(`,"size":%d`, s.size)
	case avroplan.Enum:
		b += `,"symbols":["` + strings.Join(s.symbols, `","`) + `"]`
		if s.symbol != "" {
			b += `,"default":"` + s.symbol + `"`
		}
	case avroplan.Record:
		fields := make([]string, len(s.fields))
		for i, f := range s.fields {
			fields[i] = `{"name":"` + f.name + `","type":` + f.typ.text(seen)
			if f.alias != "" {
				fields[i] += `,"aliases":["` + f.alias + `"]`
			}
			if f.value != "" {
				fields[i] += `,"default":` + f.value
			}
			fields[i] += "}"
		}
		b += `,"fields":[` + strings.Join(fields, ",") + `]`
	}
	return b + "}"
}

// schemaMaker makes random types.
type schemaMaker struct {
	*rand.Rand
	named []*randomType // complete and enclosing ones
	open  map[*randomType]bool
	count int
}

func newSchemaMaker(seed uint64) *schemaMaker {
	return &schemaMaker{Rand: newRandom(seed), open: make(map[*randomType]bool)}
}

var randomLogicals = map[avroplan.Kind][]string{
	avroplan.Int:    {"date", "time-millis"},
	avroplan.Long:   {"time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"},
	avroplan.String: {"uuid"},
}

// make returns a type. With optional set it can be one that encloses it.
func (m *schemaMaker) make(depth int, optional bool) *randomType {
	if len(m.named) > 0 && m.IntN(5) == 0 {
		if s := m.named[m.IntN(len(m.named))]; optional || !m.open[s] {
			return s
		}
	}
	kind := avroplan.Kind(m.IntN(int(avroplan.Union) + 1))
	if depth <= 0 && kind >= avroplan.Array {
		kind = avroplan.Kind(m.IntN(int(avroplan.Array)))
	}
	s := &randomType{kind: kind}
	if names := randomLogicals[kind]; names != nil && m.IntN(2) == 0 {
		s.attributes = `,"logicalType":"` + names[m.IntN(len(names))] + `"`
	}
	if kind.Named() {
		m.count++
		s.name = fmt.Sprintf("n%d.T%d", m.IntN(2), m.count)
	}
	decimal := `,"logicalType":"decimal","precision":9,"scale":` + strconv.Itoa(m.IntN(9))
	switch kind {
	case avroplan.Bytes:
		if m.IntN(2) == 0 {
			s.attributes = decimal
		}
	case avroplan.Fixed:
		s.size = m.IntN(6)
		if m.IntN(3) == 0 {
			s.size, s.attributes = 4+m.IntN(5), decimal
		}
	case avroplan.Enum:
		for i := range 1 + m.IntN(4) {
			s.symbols = append(s.symbols, fmt.Sprintf("S%d", i))
		}
	case avroplan.Array, avroplan.Map:
		s.items = m.make(depth-1, true)
	case avroplan.Record:
		m.named, m.open[s] = append(m.named, s), true
		for i := range m.IntN(5) {
			s.fields = append(s.fields, randomField{name: fmt.Sprintf("f%d", i), typ: m.make(depth-1, false)})
		}
		delete(m.open, s)
		return s
	case avroplan.Union:
		return m.union(depth)
	}
	if kind.Named() {
		m.named = append(m.named, s)
	}
	return s
}

func (m *schemaMaker) union(depth int) *randomType {
	s := &randomType{kind: avroplan.Union}
	if m.IntN(2) == 0 {
		s.branches = append(s.branches, &randomType{kind: avroplan.Null})
	}
	for range 1 + m.IntN(3) {
		s.add(m.make(depth-1, len(s.branches) > 0 && s.branches[0].kind == avroplan.Null))
	}
	if len(s.branches) == 0 {
		s.add(&randomType{kind: avroplan.Double})
	}
	return s
}

// add appends a branch if the union can hold it.
func (s *randomType) add(branch *randomType) {
	if branch.kind == avroplan.Union {
		return
	}
	for _, b := range s.branches {
		if b.kind == branch.kind && b.name == branch.name {
			return
		}
	}
	s.branches = append(s.branches, branch)
}

// evolve returns a copy of s with changes that a reader's schema may have.
func (m *schemaMaker) evolve(s *randomType, seen map[*randomType]*randomType) *randomType {
	if known, ok := seen[s]; ok {
		return known
	}
	c := *s
	if s.name != "" {
		seen[s] = &c
		if m.IntN(6) == 0 {
			c.name, c.aliases = fmt.Sprintf("n3.U%d", m.IntN(100)+100*len(seen)), []string{s.name}
		}
	}
	switch s.kind {
	case avroplan.Int, avroplan.Long, avroplan.Float, avroplan.String, avroplan.Bytes:
		if m.IntN(4) == 0 {
			m.promote(&c)
		}
	case avroplan.Array, avroplan.Map:
		c.items = m.evolve(s.items, seen)
	case avroplan.Enum:
		c.symbols = append([]string(nil), s.symbols...)
		m.Shuffle(len(c.symbols), reflect.Swapper(c.symbols))
		if m.IntN(3) == 0 {
			c.symbols = append(c.symbols[1:len(c.symbols):len(c.symbols)], "NEW")
		}
		if m.IntN(2) == 0 {
			c.symbol = c.symbols[0]
		}
	case avroplan.Union:
		c.branches = nil
		for _, b := range s.branches {
			if m.IntN(8) > 0 {
				c.add(m.evolve(b, seen))
			}
		}
		if m.IntN(4) == 0 || len(c.branches) == 0 {
			c.add(&randomType{kind: avroplan.Boolean})
		}
		m.Shuffle(len(c.branches), reflect.Swapper(c.branches))
		if m.IntN(8) == 0 {
			return c.branches[0]
		}
		return &c
	case avroplan.Record:
		m.evolveFields(&c, s, seen)
	}
	if m.IntN(6) == 0 {
		u := &randomType{kind: avroplan.Union}
		u.add(&randomType{kind: avroplan.Null})
		u.add(&c)
		return u
	}
	return &c
}

func (m *schemaMaker) promote(c *randomType) {
	to := map[avroplan.Kind][]avroplan.Kind{
		avroplan.Int:   {avroplan.Long, avroplan.Float, avroplan.Double},
		avroplan.Long:  {avroplan.Float, avroplan.Double},
		avroplan.Float: {avroplan.Double}, avroplan.String: {avroplan.Bytes}, avroplan.Bytes: {avroplan.String},
	}[c.kind]
	c.kind, c.attributes = to[m.IntN(len(to))], ""
}

func (m *schemaMaker) evolveFields(c, s *randomType, seen map[*randomType]*randomType) {
	c.fields = nil
	for _, f := range s.fields {
		if m.IntN(6) == 0 {
			continue
		}
		f.typ = m.evolve(f.typ, seen)
		if m.IntN(6) == 0 {
			f.alias, f.name = f.name, f.name+"_renamed"
		}
		c.fields = append(c.fields, f)
	}
	for i := range m.IntN(3) {
		added := []randomField{
			{typ: &randomType{kind: avroplan.Int}, value: "7"},
			{typ: &randomType{kind: avroplan.String}, value: `"d"`},
			{typ: &randomType{kind: avroplan.Array, items: &randomType{kind: avroplan.Long}}, value: "[1,2]"},
			{typ: &randomType{kind: avroplan.Map, items: &randomType{kind: avroplan.Bytes}}, value: `{"k":"\u00ff"}`},
			{typ: &randomType{kind: avroplan.Union, branches: []*randomType{{kind: avroplan.Null}, {kind: avroplan.Int}}}, value: "null"},
		}[m.IntN(5)]
		added.name = fmt.Sprintf("new%d", i)
		c.fields = append(c.fields, added)
	}
	m.Shuffle(len(c.fields), reflect.Swapper(c.fields))
}

// value returns a value of the schema in the mapping of generic values.
func (m *schemaMaker) value(s *avroplan.Schema, depth int) any {
	switch s.Kind {
	case avroplan.Null:
		return nil
	case avroplan.Boolean:
		return m.IntN(2) == 0
	case avroplan.Int, avroplan.Long:
		n := m.Int64() >> m.IntN(64)
		if m.IntN(2) == 0 {
			n = -n
		}
		if s.Kind == avroplan.Int {
			n = int64(int32(n))
		}
		switch {
		case s.Logical >= avroplan.TimestampMillis && s.Logical <= avroplan.LocalTimestampNanos, s.Logical == avroplan.Date:
			return timeOf(s.Logical, n)
		case isClock(s.Logical):
			return time.Duration(n%86400000) * clockUnit(s.Logical)
		case s.Kind == avroplan.Int:
			return int(n)
		}
		return n
	case avroplan.Float:
		return float32(m.NormFloat64())
	case avroplan.Double:
		return m.NormFloat64()
	case avroplan.String:
		return []string{"", "a", "\u00e9t\u00e9", strings.Repeat("long ", m.IntN(300))}[m.IntN(4)]
	case avroplan.Bytes, avroplan.Fixed:
		if s.Logical == avroplan.Decimal {
			return big.NewRat(m.Int64N(1999999999)-999999999, int64(math.Pow10(s.Scale)))
		}
		raw := make([]byte, s.Size)
		if s.Kind == avroplan.Bytes {
			raw = make([]byte, m.IntN(20))
		}
		for i := range raw {
			raw[i] = byte(m.Uint32())
		}
		if s.Kind == avroplan.Bytes {
			return raw
		}
		array := reflect.New(reflect.ArrayOf(s.Size, reflect.TypeFor[byte]())).Elem()
		reflect.Copy(array, reflect.ValueOf(raw))
		return array.Interface()
	case avroplan.Enum:
		return s.Symbols[m.IntN(len(s.Symbols))]
	case avroplan.Array:
		items := []any{}
		for range m.items(depth) {
			items = append(items, m.value(s.Items, depth-1))
		}
		return items
	case avroplan.Map:
		entries := map[string]any{}
		for i := range m.items(depth) {
			entries[strings.Repeat("k", i)] = m.value(s.Items, depth-1)
		}
		return entries
	case avroplan.Record:
		record := map[string]any{}
		for _, f := range s.Fields {
			record[f.Name] = m.value(f.Type, depth-1)
		}
		return record
	}
	branch := s.Branches[m.IntN(len(s.Branches))]
	for _, b := range s.Branches {
		if depth <= 0 && b.Kind == avroplan.Null {
			branch = b
		}
	}
	v := m.value(branch, depth-1)
	if s.Values() < 2 || branch.Kind == avroplan.Null {
		return v
	}
	return map[string]any{branch.BranchName(): v}
}

func (m *schemaMaker) items(depth int) int {
	if depth <= 0 {
		return 0
	}
	return m.IntN(4)
}

// plainValue maps values of this package and of twmb/avro to common ones.
func plainValue(v any) any {
	switch v := v.(type) {
	case nil, bool, string:
		return v
	case float32:
		return math.Float32bits(v)
	case float64:
		return math.Float64bits(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case time.Duration:
		return v.String()
	case *big.Rat:
		return v.RatString()
	case []any:
		items := make([]any, len(v))
		for i := range v {
			items[i] = plainValue(v[i])
		}
		return items
	case map[string]any:
		entries := make(map[string]any, len(v))
		for key := range v {
			entries[key] = plainValue(v[key])
		}
		return entries
	}
	value := reflect.ValueOf(v)
	switch {
	case value.CanInt():
		return value.Int()
	case isByteSlice(value.Type()), isByteArray(value.Type()):
		raw := make([]byte, value.Len())
		reflect.Copy(reflect.ValueOf(raw), value)
		return hex.EncodeToString(raw)
	}
	return fmt.Sprintf("%T %v", v, v)
}

// randomSchema returns a type, mostly a record, and its text.
func (m *schemaMaker) randomSchema() (*randomType, string) {
	s := m.make(4, false)
	for m.IntN(5) > 0 && s.kind != avroplan.Record {
		s = m.make(4, false)
	}
	return s, s.text(make(map[*randomType]bool))
}

func TestRandomValuesRoundTrip(t *testing.T) {
	for _, seed := range randomSeeds(t, 1500) {
		m := newSchemaMaker(seed)
		_, text := m.randomSchema()
		c := newTestCodec[any](t, text, taggedUnions)
		want := m.value(c.schema, 6)
		data, err := c.encode(want)
		if err != nil {
			t.Fatalf("-avro-seed %d: %s: encode(%v): %v", seed, text, want, err)
		}
		got, err := c.decode("", data)
		if diff := cmp.Diff(want, got, compareRats); diff != "" || err != nil {
			t.Fatalf("-avro-seed %d: %s: decode: %v, mismatch (-want +got):\n%s", seed, text, err, diff)
		}
		if again, err := c.encode(got); again != data || err != nil {
			t.Fatalf("-avro-seed %d: %s: second encode = %s, %v, want %s", seed, text, again, err, data)
		}
		for i := 0; i < len(data); i += 2 * (1 + len(data)/200) {
			if v, err := c.decode("", data[:i]); err == nil {
				t.Fatalf("-avro-seed %d: %s: %d of %d bytes are read as %v", seed, text, i/2, len(data)/2, v)
			}
		}
		if _, err := c.decode("", data+"00"); err == nil {
			t.Fatalf("-avro-seed %d: %s: one byte more is read", seed, text)
		}
	}
}

// twmbDecode decodes with the twmb library, whose union values are bare.
func twmbDecode(s *twmb.Schema, data string) (any, error) {
	body, err := hex.DecodeString(data)
	if err != nil {
		return nil, err
	}
	var v any
	rest, err := s.Decode(body, &v)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow", len(rest))
	}
	return v, err
}

func TestRandomValuesAgreeWithAnotherLibrary(t *testing.T) {
	compared := 0
	for _, seed := range randomSeeds(t, 1500) {
		m := newSchemaMaker(seed)
		_, text := m.randomSchema()
		other, err := twmb.Parse(text)
		if err != nil {
			t.Logf("-avro-seed %d: twmb refuses %s: %v", seed, text, err)
			continue
		}
		tagged, bare := newTestCodec[any](t, text, taggedUnions), newTestCodec[any](t, text)
		data, err := tagged.encode(m.value(tagged.schema, 6))
		if err != nil {
			t.Fatalf("-avro-seed %d: %s: encode: %v", seed, text, err)
		}
		got, err := bare.decode("", data)
		if err != nil {
			t.Fatalf("-avro-seed %d: %s: decode: %v", seed, text, err)
		}
		want, err := twmbDecode(other, data)
		if err != nil {
			t.Fatalf("-avro-seed %d: %s: twmb does not read %s: %v", seed, text, data, err)
		}
		if diff := cmp.Diff(plainValue(want), plainValue(got)); diff != "" {
			t.Fatalf("-avro-seed %d: %s: %s mismatch (-twmb +plan):\n%s", seed, text, data, diff)
		}
		compared++
	}
	if compared < 1000 {
		t.Errorf("only %d schemas compared", compared)
	}
}

func TestRandomResolutionsAgreeWithAnotherLibrary(t *testing.T) {
	resolved, compared := 0, 0
	for _, seed := range randomSeeds(t, 4000) {
		m := newSchemaMaker(seed)
		writer, writerText := m.randomSchema()
		readerText := m.evolve(writer, make(map[*randomType]*randomType)).text(make(map[*randomType]bool))
		reader, err := avroplan.Parse(readerText)
		if err != nil {
			continue // an enclosing type has become a union in a place where none can stand
		}
		tagged := newTestCodec[any](t, writerText, taggedUnions)
		if _, err := avroplan.Resolve(tagged.schema, reader); err != nil {
			continue
		}
		resolved++
		data, err := tagged.encode(m.value(tagged.schema, 6))
		if err != nil {
			t.Fatalf("-avro-seed %d: %s: encode: %v", seed, writerText, err)
		}
		got, gotErr := newTestCodec[any](t, readerText).decode(writerText, data)
		if avroplan.Check(tagged.schema, reader) == nil && gotErr != nil && !unfit(gotErr) {
			t.Fatalf("-avro-seed %d: %s as %s: all data can be read, but not %s: %v", seed, writerText, readerText, data, gotErr)
		}
		other, err := twmbResolve(writerText, readerText)
		if err != nil {
			continue
		}
		want, wantErr := twmbDecode(other, data)
		if gotErr != nil || wantErr != nil {
			// That library takes values that do not fit their type.
			if (gotErr == nil) != (wantErr == nil) && !unfit(gotErr) {
				t.Fatalf("-avro-seed %d: %s as %s: %s: %v, twmb %v", seed, writerText, readerText, data, gotErr, wantErr)
			}
			continue
		}
		compared++
		if diff := cmp.Diff(plainValue(want), plainValue(got)); diff != "" {
			t.Fatalf("-avro-seed %d: %s as %s: %s mismatch (-twmb +plan):\n%s", seed, writerText, readerText, data, diff)
		}
	}
	t.Logf("%d pairs resolve, %d compared", resolved, compared)
	if compared < 500 {
		t.Errorf("only %d pairs compared", compared)
	}
}

// otherMeaning is how the plan refuses to promote one logical type to another,
// such as a date to a timestamp.
var otherMeaning = regexp.MustCompile(`reader \w+( [a-z-]+)? cannot read writer \w+ [a-z-]+`)

// unfit reports whether a datum was refused because its bytes are no text, are a
// decimal of more digits than its type has, or mean something else: it is read
// as a type for which the writer did not make it.
func unfit(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "UTF-8") || strings.Contains(text, "digits") || otherMeaning.MatchString(text)
}

func twmbResolve(writer, reader string) (*twmb.Schema, error) {
	w, err := twmb.Parse(writer)
	if err != nil {
		return nil, err
	}
	r, err := twmb.Parse(reader)
	if err != nil {
		return nil, err
	}
	return twmb.Resolve(w, r)
}

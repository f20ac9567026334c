// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// soon runs f, which must not take long.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s takes too long", what)
	}
}

// nestedTrials is a schema whose default nests so deep, in a record that each
// of two branches holds.
func nestedTrials(depth int, innermost string) string {
	return `{"type":"record","name":"A","fields":[{"name":"f","type":["null","A",` +
		`{"type":"record","name":"B","fields":[{"name":"f","type":["null","A","B"]}]}],"default":` +
		strings.Repeat(`{"f":`, depth) + innermost + strings.Repeat("}", depth) + `}]}`
}

func TestParseBoundsTheTrialsOfUnionBranches(t *testing.T) {
	text := nestedTrials(60, "5")
	var err error
	soon(t, "Parse", func() { _, err = Parse(text) })
	want := fmt.Sprintf("A.f: invalid default: the defaults take more than %d steps to encode", 1<<20+8*len(text))
	var parseError *ParseError
	if !errors.As(err, &parseError) || err.Error() != want {
		t.Errorf("Parse = %v, want %s", err, want)
	}
	var s *Schema
	soon(t, "ParseWriter", func() { s, err = ParseWriter(text) })
	if err != nil || s.Fields[0].HasDefault {
		t.Errorf("ParseWriter = %v, want the field without a default", err)
	}

	// The first fitting branch is found at any depth, and a small misfit is
	// reported as one.
	s = mustParse(t, nestedTrials(60, "null"))
	if got, want := hex.EncodeToString(s.Fields[0].Default), strings.Repeat("02", 60)+"00"; got != want {
		t.Errorf("default of 60 levels: got %s, want %s", got, want)
	}
	if _, err := Parse(nestedTrials(3, "5")); err == nil || err.Error() != "A.f: invalid default: a JSON object fits no branch of union [null A B]" {
		t.Errorf("default of 3 levels: %v", err)
	}
}

func TestParseEncodesUnionItemsInPlace(t *testing.T) {
	const items = 20_000
	text := `{"type":"record","name":"R","fields":[{"name":"f","type":{"type":"array","items":["null","boolean","string"]},"default":[` +
		strings.TrimSuffix(strings.Repeat(`"x",`, items), ",") + `]}]}`
	value, err := parseJSON(text, false)
	if err != nil {
		t.Fatal(err)
	}
	list := value.get("fields").items[0].get("default")
	array := mustParse(t, text).Fields[0].Type
	e := defaultEncoder{steps: 10 * items, maxValues: 3 * items}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	data, err := e.append(nil, array, list)
	runtime.ReadMemStats(&after)
	if want := 3 + 3*items + 1; err != nil || len(data) != want || string(data[3:9]) != "\x04\x02x\x04\x02x" {
		t.Fatalf("got %d bytes % x..., %v, want %d", len(data), data[:min(9, len(data))], err, want)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 100*items {
		t.Errorf("encoding %d bytes allocates %d", len(data), allocated)
	}
}

func TestParseFindsMembersOfLargeObjects(t *testing.T) {
	const members = 200_000
	var b strings.Builder
	for i := range members {
		fmt.Fprintf(&b, `,"f%06d":%d`, i, i)
	}
	soon(t, "finding members", func() {
		v, err := parseJSON("{"+b.String()[1:]+"}", false)
		if err != nil {
			t.Error(err)
			return
		}
		for i := range members {
			if m := v.get(fmt.Sprintf("f%06d", i)); m == nil || m.text != fmt.Sprint(i) {
				t.Errorf("member %d is %v", i, m)
				return
			}
		}
		if m := v.get("f"); m != nil {
			t.Errorf("an absent member is %v", m)
		}
	})
}

func TestParseBoundsNames(t *testing.T) {
	long := strings.Repeat("n", MaxNameBytes)
	shown := strings.Repeat("n", 40)
	tooLong := func(start string) string {
		return fmt.Sprintf("the name that starts with %q is longer than 2048 bytes", start)
	}
	for _, tc := range []struct{ text, want string }{
		{`{"type":"fixed","name":"` + long + `","size":1}`, ""},
		{`{"type":"fixed","name":"` + long + `n","size":1}`, tooLong(shown)},
		{`{"type":"fixed","name":"F","namespace":"` + long[2:] + `","size":1}`, ""},
		{`{"type":"fixed","name":"F","namespace":"` + long[1:] + `","size":1}`, tooLong(shown)},
		{`{"type":"fixed","name":"F","namespace":"` + long + `n","size":1}`, tooLong(shown)},
		{`{"type":"fixed","name":"F","aliases":["` + long + `n"],"size":1}`, tooLong(shown)},
		{`{"type":"fixed","name":"F","namespace":"` + long[10:] + `","aliases":["aliasalias"],"size":1}`, tooLong(shown)},
		{`{"type":"enum","name":"E","symbols":["` + long + `"]}`, ""},
		{`{"type":"enum","name":"E","symbols":["` + long + `n"]}`, tooLong(shown)},
		{`{"type":"record","name":"R","fields":[{"name":"` + long + `","type":"int"}]}`, ""},
		{`{"type":"record","name":"R","fields":[{"name":"` + long + `n","type":"int"}]}`, tooLong(shown)},
		{`{"type":"record","name":"R","fields":[{"name":"a","type":"int","aliases":["` + long + `n"]}]}`, "R.a: " + tooLong(shown)},
	} {
		_, err := Parse(tc.text)
		var parseError *ParseError
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("Parse(%.60s...) = %v", tc.text, err)
		case tc.want != "" && (!errors.As(err, &parseError) || err.Error() != tc.want):
			t.Errorf("Parse(%.60s...) = %.200v, want %s", tc.text, err, tc.want)
		}
	}
}

func TestParseBoundsFullNamesTogether(t *testing.T) {
	const aliases = 5_000
	text := func(namespace string) string {
		var names []string
		for i := range aliases {
			names = append(names, fmt.Sprintf(`"a%d"`, i))
		}
		return `{"type":"fixed","name":"F","namespace":"` + namespace + `","size":1,"aliases":[` + strings.Join(names, ",") + `]}`
	}
	_, err := Parse(text(strings.Repeat("n", 2000)))
	var parseError *ParseError
	if !errors.As(err, &parseError) || !strings.HasPrefix(err.Error(), `the full names are out of proportion to the size of the schema, from that of "a`) {
		t.Errorf("a long namespace: Parse = %v", err)
	}
	s := mustParse(t, text(strings.Repeat("n", 200)))
	if got, want := s.Aliases[aliases-1], strings.Repeat("n", 200)+".a4999"; got != want {
		t.Errorf("a common namespace: last alias %s, want %s", got, want)
	}
}

// The paths of fields take no memory in proportion to the names around them.
func TestParseKeepsPathsShort(t *testing.T) {
	const levels, fields = 50, 5_000
	var b strings.Builder
	for i := range levels {
		fmt.Fprintf(&b, `{"type":"record","name":"R%d","fields":[{"name":"%s","type":`, i, strings.Repeat("n", MaxNameBytes))
	}
	b.WriteString(`{"type":"record","name":"S","fields":[`)
	for i := range fields {
		fmt.Fprintf(&b, `{"name":"f%d","type":"int","default":1},`, i)
	}
	text := b.String() + `{"name":"last","type":"%s"}]}` + strings.Repeat("}]}", levels)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	mustParse(t, strings.Replace(text, "%s", "int", 1))
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<20 {
		t.Errorf("parsing %d bytes allocates %d", len(text), allocated)
	}

	_, err := Parse(strings.Replace(text, "%s", "T", 1))
	var parseError *ParseError
	if !errors.As(err, &parseError) || parseError.Reason != `unknown type "T"` {
		t.Fatalf("Parse = %.200v", err)
	}
	if p := parseError.Path; !strings.HasPrefix(p, "R0.nnn") || !strings.HasSuffix(p, "nnn.last") || len(p) > 33*(MaxNameBytes+1) {
		t.Errorf("path of %d bytes %.20s", len(p), p)
	}
}

// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAvroCompatibilityListsEveryViolationWithItsDirection(t *testing.T) {
	record := func(fields string) string { return `{"type":"record","name":"R","fields":[` + fields + `]}` }
	const a = `{"name":"a","type":"long"}`
	for _, tc := range []struct {
		name, previous, candidate string
		backward, forward         []string
	}{
		{"same", record(a), record(a), nil, nil},
		{"other type", record(a), record(`{"name":"a","type":"string"}`),
			[]string{"BACKWARD: a: reader string cannot read writer long"},
			[]string{"FORWARD: a: reader long cannot read writer string"}},
		{"new field with a default", record(a), record(a + `,{"name":"b","type":["null","string"],"default":null}`), nil, nil},
		{"new field without a default", record(a), record(a + `,{"name":"b","type":"string"}`),
			[]string{"BACKWARD: b: writer record R does not have the field, and it has no default"}, nil},
		{"dropped field", record(a + `,{"name":"b","type":"string"}`), record(a), nil,
			[]string{"FORWARD: b: writer record R does not have the field, and it has no default"}},
		{"renamed with an alias", record(a), record(`{"name":"b","type":"long","aliases":["a"]}`), nil,
			[]string{"FORWARD: a: writer record R does not have the field, and it has no default"}},
		{"widened", record(`{"name":"a","type":"int"}`), record(a), nil, []string{"FORWARD: a: reader int cannot read writer long"}},
		{"several", record(a + `,{"name":"b","type":{"type":"array","items":"int"}}`),
			record(`{"name":"a","type":"int"},{"name":"b","type":{"type":"array","items":"string"}},{"name":"c","type":"int"}`),
			[]string{
				"BACKWARD: c: writer record R does not have the field, and it has no default",
				"BACKWARD: a: reader int cannot read writer long",
				"BACKWARD: b[]: reader string cannot read writer int",
			},
			[]string{"FORWARD: b[]: reader int cannot read writer string"}},
		{"symbols", `{"type":"enum","name":"E","symbols":["A","B"]}`, `{"type":"enum","name":"E","symbols":["A"]}`,
			[]string{"BACKWARD: reader enum E lacks the writer's symbols B and has no default"}, nil},
		{"symbols with a default", `{"type":"enum","name":"E","symbols":["A","B"]}`, `{"type":"enum","name":"E","symbols":["A"],"default":"A"}`, nil, nil},
		{"union grows", `["null","int"]`, `["null","int","string"]`, nil, []string{"FORWARD: reader union [null int] has no branch for writer string"}},
		{"no longer null", `["null","int"]`, `"int"`, []string{"BACKWARD: reader int cannot read writer null"}, nil},
		{"scale", `{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, `{"type":"bytes","logicalType":"decimal","precision":4,"scale":1}`,
			[]string{"BACKWARD: reader decimal(4,1) cannot read writer decimal(4,2)"},
			[]string{"FORWARD: reader decimal(4,2) cannot read writer decimal(4,1)"}},
		{"recursive", `{"type":"record","name":"N","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","N"]}]}`,
			`{"type":"record","name":"N","fields":[{"name":"v","type":"long"},{"name":"next","type":["null","N"]}]}`,
			nil, []string{"FORWARD: v: reader int cannot read writer long"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for mode, want := range map[CompatibilityMode][]string{
				Backward: tc.backward, Forward: tc.forward, Full: append(tc.backward[:len(tc.backward):len(tc.backward)], tc.forward...), None: nil,
			} {
				got, err := AvroCompatibility(tc.previous, tc.candidate, mode)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(CompatibilityResult{Compatible: len(want) == 0, Incompatibilities: want}, got); diff != "" {
					t.Errorf("%v mismatch (-want +got):\n%s", mode, diff)
				}
			}
		})
	}
}

func TestAvroCompatibilityRefusesWhatIsNoSchema(t *testing.T) {
	if _, err := AvroCompatibility(`"nope"`, `"int"`, Full); err == nil || err.Error() != `invalid previous Avro schema: unknown type "nope"` {
		t.Errorf("previous: %v", err)
	}
	if _, err := AvroCompatibility(`"int"`, `{`, Full); err == nil || !strings.HasPrefix(err.Error(), "invalid candidate Avro schema: ") {
		t.Errorf("candidate: %v", err)
	}
	const wrongDefault = `{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}`
	if got, err := AvroCompatibility(wrongDefault, `{"type":"record","name":"R","fields":[]}`, Backward); err != nil || !got.Compatible {
		t.Errorf("wrong default in an older version: %v, %v", got, err)
	}
	if _, err := AvroCompatibility(`"int"`, wrongDefault, Backward); err == nil {
		t.Error("a candidate with a wrong default is taken")
	}
}

func TestAvroCompatibilityFollowsHistoryAndReferences(t *testing.T) {
	money := Reference{Name: "m.Money", Subject: "money", Version: 1, Schema: `{"type":"record","name":"m.Money","fields":[{"name":"cents","type":"long"}]}`}
	wide := Reference{Name: "m.Money", Subject: "money", Version: 2, Schema: `{"type":"record","name":"m.Money","fields":[{"name":"cents","type":"double"}]}`}
	const text = `{"type":"record","name":"R","fields":[{"name":"price","type":"m.Money"}]}`
	history := []ResolvedSchema{
		{Schema: `{"type":"record","name":"R","fields":[{"name":"price","type":"long"}]}`},
		{Schema: text, Dependencies: []Reference{money}},
	}
	candidate := ResolvedSchema{Schema: text, Dependencies: []Reference{wide}}
	for mode, want := range map[CompatibilityMode][]string{
		Backward: nil,
		Forward:  {"FORWARD: price.cents: reader long cannot read writer double"},
		BackwardTransitive: {
			"BACKWARD: against schema 1 of 2: price: reader record m.Money cannot read writer long",
		},
	} {
		got, err := CheckAvroCompatibility(history, candidate, mode)
		if diff := cmp.Diff(CompatibilityResult{Compatible: want == nil, Incompatibilities: want}, got); diff != "" || err != nil {
			t.Errorf("%v: %v, mismatch (-want +got):\n%s", mode, err, diff)
		}
	}
	if _, err := CheckAvroCompatibility(history, ResolvedSchema{Schema: text}, Backward); err == nil || err.Error() != `invalid candidate Avro schema: R.price: unknown type "m.Money"` {
		t.Errorf("without the reference: %v", err)
	}
}

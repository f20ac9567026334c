// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

func TestErrorPolicyValidation(t *testing.T) {
	const mismatch = "deadLetterTopic requires ActionDeadLetter"
	tests := []struct {
		policy ErrorPolicy
		want   string
	}{
		{FailPolicy(), ""},
		{SkipPolicy(), ""},
		{DeadLetterPolicy("dlq"), ""},
		{DeadLetterPolicy(""), "ActionDeadLetter requires a DeadLetterTopic, the topic for the records that fail"},
		{ErrorPolicy{Action: ActionSkip, DeadLetterTopic: "dlq"}, mismatch},
		{ErrorPolicy{Action: ActionFail, DeadLetterTopic: "dlq"}, mismatch},
		{ErrorPolicy{Action: 3}, "unknown error policy action 3"},
	}
	for _, test := range tests {
		got := ""
		if err := test.policy.validate(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("validate(%+v) = %q; want %q", test.policy, got, test.want)
		}
	}
}

func TestDeadLetterKeepsTheRecordAndSaysWhy(t *testing.T) {
	record := ConsumedRecord{
		Key: []byte("k"), Value: []byte{1, 2}, Timestamp: 77, Partition: 3, Offset: 41,
		Headers: []RecordHeader{{Key: "trace-id", Value: []byte("abc")}, {Key: "nil"}},
	}
	_, malformed := DecodeBarrierCut(nil, nil)
	cause := fmt.Errorf("node count: %w", errors.Join(malformed))
	got := DeadLetterPolicy("dlq").deadLetter("orders", record, cause)
	want := ProducedToTopic{Topic: "dlq", Record: ProduceRecord{
		Key: []byte("k"), Value: []byte{1, 2}, Timestamp: 77,
		Headers: []RecordHeader{
			{Key: "trace-id", Value: []byte("abc")},
			{Key: "nil"},
			{Key: "krabka.error.class", Value: []byte("columnar.BarrierFormatError")},
			{Key: "krabka.error.message", Value: []byte("node count: truncated barrier state key")},
			{Key: "krabka.source.topic", Value: []byte("orders")},
			{Key: "krabka.source.partition", Value: []byte("3")},
			{Key: "krabka.source.offset", Value: []byte("41")},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dead letter mismatch (-want +got):\n%s", diff)
	}
	if len(record.Headers) != 2 {
		t.Errorf("the record has %d headers; want its own 2", len(record.Headers))
	}
}

func TestDeadLetterOfATombstoneIsATombstone(t *testing.T) {
	got := DeadLetterPolicy("dlq").deadLetter("orders", ConsumedRecord{}, errors.New("boom"))
	if got.Record.Key != nil || got.Record.Value != nil {
		t.Errorf("key %v, value %v; want nil, nil", got.Record.Key, got.Record.Value)
	}
}

func TestDeadLetterMessageIsBounded(t *testing.T) {
	// The bound falls into the middle of a two-byte character.
	text := strings.Repeat("x", maxDeadLetterMessage-1) + "\u00e9 and more"
	got := DeadLetterPolicy("dlq").deadLetter("orders", ConsumedRecord{}, errors.New(text))
	if want := text[:maxDeadLetterMessage-1]; string(got.Record.Headers[1].Value) != want {
		t.Errorf("message has %d bytes; want %d", len(got.Record.Headers[1].Value), len(want))
	}
}

type orderError struct{ cause error }

func (e orderError) Error() string { return "order: " + e.cause.Error() }

func (e orderError) Unwrap() error { return e.cause }

// UnpaidError is an error of a processor.
type UnpaidError struct{ cause error }

func (e UnpaidError) Error() string { return "unpaid: " + e.cause.Error() }

func (e UnpaidError) Unwrap() error { return e.cause }

func TestDeadLettersNameTheClassOfTheirError(t *testing.T) {
	boom := errors.New("boom")
	column := &ColumnError{Column: "x", Row: namedcols.NoRow, Cause: boom}
	node := func(cause error) error { return &NodeError{Node: "n", Cause: cause} }
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"text":                      {boom, "errors.errorString"},
		"node":                      {node(boom), "columnar.NodeError"},
		"decoder":                   {node(&DecodeError{Records: []*RecordError{{Cause: boom}}}), "columnar.DecodeError"},
		"record":                    {&RecordError{Cause: fmt.Errorf("wrapped: %w", boom)}, "columnar.DecodeError"},
		"type behind a record":      {&RecordError{Cause: fmt.Errorf("wrapped: %w", &JSONError{Cause: boom})}, "columnar.JSONError"},
		"column":                    {node(column), "columnar.ColumnError"},
		"row":                       {node(&RowError{Cause: boom}), "columnar.RowError"},
		"type behind a row":         {node(&RowError{Cause: column}), "columnar.ColumnError"},
		"limit":                     {node(errors.Join(&StateLimitError{}, column)), "columnar.StateLimitError"},
		"layout":                    {node(&StateLayoutError{}), "columnar.StateLayoutError"},
		"processor's own":           {node(fmt.Errorf("wrapped: %w", UnpaidError{column})), "columnar.UnpaidError"},
		"processor's own, pointer":  {node(&UnpaidError{boom}), "columnar.UnpaidError"},
		"processor's own, internal": {node(orderError{boom}), "columnar.NodeError"},
		"no records":                {node(&DecodeError{}), "columnar.DecodeError"},
	} {
		letter := DeadLetterPolicy("dlq").deadLetter("orders", ConsumedRecord{}, test.err)
		if got := string(letter.Record.Headers[0].Value); got != test.want {
			t.Errorf("%s: class = %s; want %s", name, got, test.want)
		}
	}
}

// A dead letter that fails again carries one set of headers, of its latest failure.
func TestDeadLetterOfADeadLetterHasOneSetOfHeaders(t *testing.T) {
	record := ConsumedRecord{Value: []byte("!"), Partition: 1, Offset: 7, Headers: []RecordHeader{{Key: "trace", Value: []byte("a")}}}
	policy := DeadLetterPolicy("dlq")
	for i := range 3 {
		letter := policy.deadLetter("in", record, errUnreadable)
		record = ConsumedRecord{Value: letter.Record.Value, Partition: 0, Offset: int64(i), Headers: letter.Record.Headers}
	}
	var keys []string
	for _, header := range record.Headers {
		keys = append(keys, header.Key)
	}
	want := []string{"trace", "krabka.error.class", "krabka.error.message", "krabka.source.topic", "krabka.source.partition", "krabka.source.offset"}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("headers mismatch (-want +got):\n%s", diff)
	}
	if got := string(record.Headers[5].Value); got != "1" {
		t.Errorf("source offset %s; want 1, the latest", got)
	}
}

// Every error type of the package that is another name of one in a room has its class.
func TestErrorsOfRoomsHaveTheirClass(t *testing.T) {
	aliases := map[string]error{
		"ColumnError": &ColumnError{Cause: errUnreadable}, "JSONError": &JSONError{Cause: errUnreadable},
		"BarrierFormatError": &BarrierFormatError{}, "RowError": &RowError{Cause: errUnreadable}, "StateLimitError": &StateLimitError{}, "StateLayoutError": &StateLayoutError{},
	}
	for name, err := range aliases {
		if got := errorClass(&NodeError{Cause: fmt.Errorf("wrapped: %w", err)}); got != "columnar."+name {
			t.Errorf("class of a %s = %s", name, got)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range parsed.Decls {
			types, ok := declared.(*ast.GenDecl)
			if !ok || types.Tok != token.TYPE {
				continue
			}
			for _, spec := range types.Specs {
				named := spec.(*ast.TypeSpec)
				if _, known := aliases[named.Name.Name]; named.Assign.IsValid() && strings.HasSuffix(named.Name.Name, "Error") && !known {
					t.Errorf("%s: %s is an alias that errorClass does not name", file, named.Name.Name)
				}
			}
		}
	}
}

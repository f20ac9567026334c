// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
)

// JSONDialect is a version of the JSON Schema language.
type JSONDialect int

// The supported dialects.
const (
	JSONDraft4 JSONDialect = iota + 4
	_
	JSONDraft6
	JSONDraft7
	JSONDraft2019
	JSONDraft2020
)

var jsonDialects = map[JSONDialect]struct {
	name  string
	draft *jsonschema.Draft
}{
	JSONDraft4: {"draft-04", jsonschema.Draft4}, JSONDraft6: {"draft-06", jsonschema.Draft6}, JSONDraft7: {"draft-07", jsonschema.Draft7},
	JSONDraft2019: {"2019-09", jsonschema.Draft2019}, JSONDraft2020: {"2020-12", jsonschema.Draft2020},
}

// String returns the dialect's name, such as "draft-07" or "2020-12".
func (d JSONDialect) String() string {
	return cmp.Or(jsonDialects[d].name, fmt.Sprintf("JSONDialect(%d)", int(d)))
}

// draft returns the dialect as the library has it, or nil.
func (d JSONDialect) draft() *jsonschema.Draft { return jsonDialects[d].draft }

// JSONRegexp is a compiled pattern of a JSON Schema.
type JSONRegexp interface {
	// MatchString reports whether s contains a match of the pattern.
	MatchString(s string) bool
	// String returns the pattern.
	String() string
}

// jsonOptions are the options of JSON Schema serdes.
type jsonOptions struct {
	jsoncheck.Dialect
	readerValidation bool
	exactNumbers     bool
	knownFields      bool
	marshal          func(any) ([]byte, error)
	unmarshal        func([]byte, any) error
}

// WithJSONDialect sets the dialect of schemas that do not name one in $schema.
// The default is [JSONDraft7].
func WithJSONDialect(dialect JSONDialect) SerdeOption {
	return optionOf(KindJSON, "WithJSONDialect", func(o *jsonOptions, refuse optionRefusal) {
		if o.Draft = dialect.draft(); o.Draft == nil {
			refuse("unknown JSON Schema dialect %d", dialect)
		}
	})
}

// WithFormatAssertion checks the format keyword in every dialect. By default it
// is checked up to draft-07 and is an annotation in later dialects.
func WithFormatAssertion() SerdeOption {
	return optionOf(KindJSON, "WithFormatAssertion", func(o *jsonOptions, refuse optionRefusal) {
		o.AssertFormats = true
		o.checkFormats(refuse)
	})
}

// WithoutFormatAssertion checks no format but "regex", in any dialect.
func WithoutFormatAssertion() SerdeOption {
	return optionOf(KindJSON, "WithoutFormatAssertion", func(o *jsonOptions, refuse optionRefusal) {
		o.IgnoreFormats = true
		o.checkFormats(refuse)
	})
}

func (o *jsonOptions) checkFormats(refuse optionRefusal) {
	if o.AssertFormats && o.IgnoreFormats {
		refuse("WithFormatAssertion excludes WithoutFormatAssertion")
	}
}

// WithJSONRegexp compiles the patterns of schemas with compile, which must be
// safe for concurrent use. The default is package regexp, which has no
// look-ahead or back-references: a schema that uses them cannot be compiled. The
// escapes \uXXXX and \cX of ECMA-262 are translated for it.
func WithJSONRegexp(compile func(pattern string) (JSONRegexp, error)) SerdeOption {
	return optionOf(KindJSON, "WithJSONRegexp", func(o *jsonOptions, refuse optionRefusal) {
		if compile == nil {
			refuse("regexp compiler must not be nil")
			return
		}
		o.CompileRegexp = func(pattern string) (jsonschema.Regexp, error) { return compile(pattern) }
	})
}

// WithReaderValidation validates documents that are read against the serde's
// own schema. By default they are validated against the schema that they were
// written with. Reading then needs no schema of the registry.
func WithReaderValidation() SerdeOption {
	return optionOf(KindJSON, "WithReaderValidation", func(o *jsonOptions, _ optionRefusal) {
		o.readerValidation = true
	})
}

// WithExactNumbers reads numbers in interface values as json.Number. By default
// they are float64, which holds integers exactly up to 2^53.
func WithExactNumbers() SerdeOption {
	return optionOf(KindJSON, "WithExactNumbers", func(o *jsonOptions, refuse optionRefusal) {
		o.exactNumbers = true
		o.checkJSONCodec(refuse)
	})
}

// WithKnownFieldsOnly refuses documents with members that the Go struct has no
// field for. By default they are ignored.
func WithKnownFieldsOnly() SerdeOption {
	return optionOf(KindJSON, "WithKnownFieldsOnly", func(o *jsonOptions, refuse optionRefusal) {
		o.knownFields = true
		o.checkJSONCodec(refuse)
	})
}

// WithJSONCodec replaces encoding/json for values. Both functions must be safe
// for concurrent use; unmarshal gets a pointer to the value.
func WithJSONCodec(marshal func(v any) ([]byte, error), unmarshal func(data []byte, v any) error) SerdeOption {
	return optionOf(KindJSON, "WithJSONCodec", func(o *jsonOptions, refuse optionRefusal) {
		if marshal == nil || unmarshal == nil {
			refuse("JSON codec must not be nil")
			return
		}
		o.marshal, o.unmarshal = marshal, unmarshal
		o.checkJSONCodec(refuse)
	})
}

func (o *jsonOptions) checkJSONCodec(refuse optionRefusal) {
	if o.marshal != nil && (o.exactNumbers || o.knownFields) {
		refuse("WithJSONCodec excludes WithExactNumbers and WithKnownFieldsOnly")
	}
}

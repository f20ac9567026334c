// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// ValidationError says that a JSON document breaks its schema, or that it can be
// understood in a way which the schema did not see: a member is repeated or goes
// by another name, or the text is not Unicode.
type ValidationError struct {
	// Violations lists what is wrong, sorted by pointer. It has one element at
	// least, and 1000 at most.
	Violations []Violation

	more int // violations that are not listed
}

// Violation is one place of a document that breaks a schema.
type Violation struct {
	Pointer string // JSON pointer into the document; "" is the root
	Message string // of 1024 bytes at most
	Keyword string // address of the broken keyword in the schema; "" when none is
}

// within puts a violation into a member or element.
func (v *Violation) within(token string) *Violation {
	v.Pointer = pointer(token) + v.Pointer
	return v
}

// Error tells the first violation, where it is, and how many more there are.
func (e *ValidationError) Error() string {
	first := e.Violations[0]
	text := fmt.Sprintf("JSON Schema validation failed: %s at %q", first.Message, shortText(first.Pointer))
	if more := len(e.Violations) - 1 + e.more; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// collect adds the leaves of an error of the library, which are about the value
// at a place of the document.
func (e *ValidationError) collect(failed *jsonschema.ValidationError, place string) {
	if misnamed, ok := failed.ErrorKind.(*kind.PropertyNames); ok {
		place = pointer(failed.InstanceLocation...) + pointer(misnamed.Property)
	}
	for _, cause := range failed.Causes {
		e.collect(cause, place)
	}
	switch {
	case len(failed.Causes) > 0:
	case len(e.Violations) == maxViolations:
		e.more++
	default:
		unit := failed.BasicOutput()
		e.Violations = append(e.Violations, Violation{
			Pointer: place + unit.InstanceLocation,
			Message: shortText(unit.Error.String()),
			Keyword: strings.Join(append([]string{failed.SchemaURL}, failed.ErrorKind.KeywordPath()...), "/"),
		})
	}
}

// maxViolations bounds the list of a [ValidationError].
const maxViolations = 1000

// MaxShownText bounds what messages show of a document.
const MaxShownText = 1024

// shortText cuts off what is too long to be shown.
func shortText(text string) string {
	if len(text) <= MaxShownText {
		return text
	}
	return strings.ToValidUTF8(text[:MaxShownText-len("...")], "") + "..."
}

// pointer returns the address of a value.
func pointer(tokens ...string) string {
	var pointer strings.Builder
	for _, token := range tokens {
		pointer.WriteByte('/')
		pointer.WriteString(strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1"))
	}
	return pointer.String()
}

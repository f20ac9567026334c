// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
)

const (
	// maxNumberDigits bounds the text of a JSON number. Exact arithmetic on
	// longer ones would cost far more than reading them.
	maxNumberDigits = 1000
	// maxNumberExponent bounds a JSON number's power of ten: 1e1000000000 is
	// twelve bytes of text and half a gigabyte as an integer.
	maxNumberExponent = 1000

	// maxDepth and maxSchemaDepth bound how deeply the values of a
	// document and of a schema nest. Validating and compiling take time that
	// grows faster than the depth.
	maxDepth       = 1000
	maxSchemaDepth = 256

	// maxSchemaObjects bounds the objects of a schema. The library compiles a schema
	// in a time that grows with the square of the schemas in it.
	maxSchemaObjects = 50_000
)

// ParseSchema reads a schema with exact numbers, each a json.Number within the
// bounds.
func ParseSchema(data []byte) (any, error) {
	value, _, wrong, err := parseNumbers(data, valueBounds{depth: maxSchemaDepth, objects: maxSchemaObjects})
	if wrong != nil {
		err = fmt.Errorf("%s at %q", wrong.Message, shortText(wrong.Pointer))
	}
	return value, err
}

// ParseDocument is ParseSchema for a document that is to be validated. What
// readers understand in different ways is a [*ValidationError]: a member that is
// repeated, and text that is not Unicode. So is what exceeds the bounds.
func ParseDocument(data []byte) (any, error) {
	value, members, wrong, err := parseNumbers(data, valueBounds{depth: maxDepth, objects: math.MaxInt})
	if err != nil {
		return nil, AtByte(err)
	}
	if wrong == nil {
		wrong = surveyJSON(data).violation(data, members)
	}
	if wrong != nil {
		return nil, &ValidationError{Violations: []Violation{*wrong}}
	}
	return value, nil
}

// parseNumbers returns a value, the number of members in it, and what is out of
// bounds or nil.
func parseNumbers(data []byte, bounds valueBounds) (value any, members int, wrong *Violation, err error) {
	in := json.NewDecoder(bytes.NewReader(data))
	in.UseNumber()
	if err := in.Decode(&value); err != nil {
		return nil, 0, nil, err
	}
	if _, err := in.Token(); err != io.EOF {
		return nil, 0, nil, errors.New("data follows the JSON value")
	}
	left := bounds
	wrong = left.check(value, left.depth)
	if left.objects < 0 {
		wrong = &Violation{Message: fmt.Sprintf("it has more than %d objects", bounds.objects)}
	}
	return value, left.members, wrong, nil
}

// AtByte adds the place to an error of encoding/json, which keeps it to itself.
func AtByte(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%w at byte %d", err, syntax.Offset)
	}
	if unsuited, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && unsuited.Offset > 0 {
		return fmt.Errorf("%w at byte %d", err, unsuited.Offset)
	}
	return err
}

// valueBounds looks at a value for what is out of bounds, and counts the members
// of its objects.
type valueBounds struct {
	depth   int
	objects int // that there may still be
	members int
}

// check returns what is out of bounds, or nil. The value may nest so many levels
// more.
func (b *valueBounds) check(value any, levels int) *Violation {
	switch v := value.(type) {
	case json.Number:
		if reason := checkNumber(string(v)); reason != "" {
			return &Violation{Message: reason}
		}
		return nil
	case []any:
		if levels > 0 {
			for i, element := range v {
				if wrong := b.check(element, levels-1); wrong != nil {
					return wrong.within(strconv.Itoa(i))
				}
			}
			return nil
		}
	case map[string]any:
		if levels > 0 {
			b.members += len(v)
			if b.objects--; b.objects < 0 {
				return &Violation{}
			}
			for name, member := range v {
				if wrong := b.check(member, levels-1); wrong != nil {
					return wrong.within(name)
				}
			}
			return nil
		}
	default:
		return nil
	}
	return &Violation{Message: fmt.Sprintf("values are nested more than %d deep", b.depth)}
}

func checkNumber(number string) string {
	if len(number) > maxNumberDigits {
		return fmt.Sprintf("JSON number %s... has more than %d digits", number[:16], maxNumberDigits)
	}
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return ""
	}
	exponent, err := strconv.Atoi(number[at+1:])
	if err != nil || exponent > maxNumberExponent || exponent < -maxNumberExponent {
		return fmt.Sprintf("JSON number %s has an exponent beyond %d", number, maxNumberExponent)
	}
	return ""
}

// FloatNumbers replaces every json.Number by a float64, as encoding/json reads
// numbers into interfaces. It changes value in place.
func FloatNumbers(value any) (any, error) {
	switch v := value.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return nil, &json.UnmarshalTypeError{Value: "number " + string(v), Type: reflect.TypeFor[float64]()}
		}
		return f, nil
	case []any:
		for i := range v {
			element, err := FloatNumbers(v[i])
			if err != nil {
				return nil, err
			}
			v[i] = element
		}
	case map[string]any:
		for name := range v {
			member, err := FloatNumbers(v[name])
			if err != nil {
				return nil, err
			}
			v[name] = member
		}
	}
	return value, nil
}

// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
)

// parseJSON reads one JSON value with exact numbers, each a json.Number within
// the bounds.
func parseJSON(data []byte) (any, error) {
	in := json.NewDecoder(bytes.NewReader(data))
	in.UseNumber()
	var value any
	if err := in.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := in.Token(); err != io.EOF {
		return nil, errors.New("data follows the JSON value")
	}
	return value, checkNumbers(value)
}

func checkNumbers(value any) error {
	switch v := value.(type) {
	case json.Number:
		return checkNumber(string(v))
	case []any:
		for _, element := range v {
			if err := checkNumbers(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, member := range v {
			if err := checkNumbers(member); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkNumber(number string) error {
	if len(number) > maxNumberDigits {
		return fmt.Errorf("JSON number %s... has more than %d digits", number[:16], maxNumberDigits)
	}
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return nil
	}
	exponent, err := strconv.Atoi(number[at+1:])
	if err != nil || exponent > maxNumberExponent || exponent < -maxNumberExponent {
		return fmt.Errorf("JSON number %s has an exponent beyond %d", number, maxNumberExponent)
	}
	return nil
}

// floatNumbers replaces every json.Number by a float64, as encoding/json reads
// numbers into interfaces. It changes value in place.
func floatNumbers(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case json.Number:
		return v.Float64()
	case []any:
		for i := range v {
			if v[i], err = floatNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range v {
			if v[name], err = floatNumbers(v[name]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

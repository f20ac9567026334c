// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// sources holds the documents of compiled schemas by their address. An
// address that stands for two documents holds nil.
type sources map[string]any

func (s sources) add(documents map[string]any) {
	for address, document := range documents {
		if known, ok := s[address]; ok && !reflect.DeepEqual(known, document) {
			document = nil
		}
		s[address] = document
	}
}

// same reports whether two schemas are spelt alike and refer to nothing, so that
// they allow the same documents.
func (s sources) same(a, b *jsonschema.Schema) bool {
	if a.DraftVersion != b.DraftVersion {
		return false
	}
	source := s.of(a)
	return source != nil && reflect.DeepEqual(source, s.of(b)) && !refers(source)
}

// of returns the source of a compiled schema, or nil.
func (s sources) of(schema *jsonschema.Schema) any {
	address, pointer, _ := strings.Cut(schema.Location, "#")
	value := s[address]
	for token := range strings.SplitSeq(pointer, "/") {
		if token == "" {
			continue
		}
		name, err := url.PathUnescape(token)
		if err != nil {
			return nil
		}
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// refers reports whether a schema points anywhere.
func refers(source any) bool {
	switch v := source.(type) {
	case map[string]any:
		for key, member := range v {
			if key == "$ref" || key == "$recursiveRef" || key == "$dynamicRef" || refers(member) {
				return true
			}
		}
	case []any:
		for _, element := range v {
			if refers(element) {
				return true
			}
		}
	}
	return false
}

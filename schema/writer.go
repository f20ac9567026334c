// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"iter"
	"maps"

	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
)

// writerSchema is a schema that data was written with, or is about to be. It is
// immutable: whoever changes one stores a changed copy.
type writerSchema struct {
	id   writerID
	kind Kind
	// kindKnown is false for a seeded text, which does not tell its language.
	kindKnown bool
	text      string // "" while only the message type is known
	// references is everything that text refers to, dependencies first.
	references []Reference
	// ruleSet is the JSON of the data contract's rules, or nil.
	ruleSet []byte
	// messageType is what the registry or a seed states.
	messageType string
	// localType is the message type of the local schemas that resolved to this
	// id; "" when they differ.
	localType  string
	localMixed bool
	// pinned keeps what a seed or a local schema says from being evicted.
	pinned bool
}

// sources returns the schema in the form that the compatibility checks take.
func (w *writerSchema) sources() ResolvedSchema {
	return ResolvedSchema{
		Schema:       w.text,
		MessageType:  w.messageType,
		References:   referenceTexts(w.references),
		Dependencies: w.references,
		SchemaType:   w.kind.wireName(),
	}
}

func referenceTexts(references []Reference) map[string]string {
	texts := make(map[string]string, len(references))
	for _, reference := range references {
		texts[reference.Name] = reference.Schema
	}
	return texts
}

// namedTexts returns references in the form that compiling takes.
func namedTexts(references []Reference) []jsoncheck.Source {
	named := make([]jsoncheck.Source, len(references))
	for i, reference := range references {
		named[i] = jsoncheck.Source{Name: reference.Name, Text: reference.Schema}
	}
	return named
}

// writerTable holds the known writer schemas. It is copied to be changed, so
// that readers need no lock.
type writerTable = idTable[*writerSchema]

// idTable holds values by the identity of a writer schema. The ids of the
// default context, which most records have, have a map of their own.
type idTable[V any] struct {
	byID      map[uint32]V
	byContext map[writerID]V
	byGUID    map[GUID]V
}

func newIDTable[V any]() idTable[V] {
	return idTable[V]{byID: map[uint32]V{}, byContext: map[writerID]V{}, byGUID: map[GUID]V{}}
}

// get returns the value of id, or the zero value.
func (t *idTable[V]) get(id writerID) V {
	switch {
	case id.byGUID:
		return t.byGUID[id.guid]
	case id.context != "":
		return t.byContext[id]
	default:
		return t.byID[id.id]
	}
}

func (t *idTable[V]) clone() *idTable[V] {
	return &idTable[V]{byID: maps.Clone(t.byID), byContext: maps.Clone(t.byContext), byGUID: maps.Clone(t.byGUID)}
}

func (t *idTable[V]) put(id writerID, value V) {
	switch {
	case id.byGUID:
		t.byGUID[id.guid] = value
	case id.context != "":
		t.byContext[id] = value
	default:
		t.byID[id.id] = value
	}
}

func (t *idTable[V]) drop(id writerID) {
	switch {
	case id.byGUID:
		delete(t.byGUID, id.guid)
	case id.context != "":
		delete(t.byContext, id)
	default:
		delete(t.byID, id.id)
	}
}

func (t *idTable[V]) size() int { return len(t.byID) + len(t.byContext) + len(t.byGUID) }

// all yields every value.
func (t *idTable[V]) all(yield func(V) bool) {
	for _, values := range []iter.Seq[V]{maps.Values(t.byID), maps.Values(t.byContext), maps.Values(t.byGUID)} {
		for value := range values {
			if !yield(value) {
				return
			}
		}
	}
}

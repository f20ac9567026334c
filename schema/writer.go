// SPDX-License-Identifier: Apache-2.0

package schema

import (
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
type writerTable struct {
	byID   map[uint32]*writerSchema
	byGUID map[GUID]*writerSchema
}

func (t *writerTable) get(id writerID) *writerSchema {
	if id.byGUID {
		return t.byGUID[id.guid]
	}
	return t.byID[id.id]
}

func (t *writerTable) clone() *writerTable {
	return &writerTable{byID: maps.Clone(t.byID), byGUID: maps.Clone(t.byGUID)}
}

func (t *writerTable) put(w *writerSchema) {
	if w.id.byGUID {
		t.byGUID[w.id.guid] = w
		return
	}
	t.byID[w.id.id] = w
}

func (t *writerTable) drop(id writerID) {
	if id.byGUID {
		delete(t.byGUID, id.guid)
		return
	}
	delete(t.byID, id.id)
}

func (t *writerTable) size() int { return len(t.byID) + len(t.byGUID) }

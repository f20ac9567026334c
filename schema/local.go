// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
)

// localSchema is a schema of this process and the subject that it belongs to.
type localSchema struct {
	subject     string
	kind        Kind
	text        string
	messageType string
	references  []Reference
	dialect     *jsoncheck.Dialect // of a JSON Schema; nil: the default
	schemaID    int                // to write under; 0: as the cache's mode says
	metadata    map[string]string  // of the latest version to write under; nil: as the mode says
	broken      error              // why the schema cannot be resolved; nil in order
}

// identity tells local schemas apart. White space in JSON does not count.
func (l localSchema) identity() string {
	var b strings.Builder
	write := func(parts ...string) {
		for _, part := range parts {
			fmt.Fprintf(&b, "%d:%s,", len(part), part)
		}
	}
	write(l.kind.String(), compacted(l.kind, l.text), l.messageType)
	if l.dialect != nil {
		write(l.dialect.Key())
	}
	if l.schemaID != 0 || l.metadata != nil {
		write(fmt.Sprint(l.schemaID, l.metadata))
	}
	if l.broken != nil {
		write(l.broken.Error())
	}
	written := map[string]bool{}
	var walk func([]Reference)
	walk = func(references []Reference) {
		for _, r := range references {
			write(r.Name, r.Subject, fmt.Sprint(r.Version))
			// A name stands for one schema, which many others may refer to.
			if written[r.Name] {
				continue
			}
			written[r.Name] = true
			write(compacted(l.kind, r.Schema))
			b.WriteByte('(')
			walk(r.References)
			b.WriteByte(')')
		}
	}
	walk(l.references)
	return b.String()
}

func compacted(kind Kind, text string) string {
	if kind == KindProtobuf {
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(text)) != nil {
		return text
	}
	return compact.String()
}

// localTarget is the local schema in the role of the schema that id stands for.
func localTarget(local localSchema, id uint32) *writerSchema {
	// References that conflict were refused when the schema was made local.
	references, _ := dependencyOrder(local.references)
	return &writerSchema{
		id: writerID{id: id, context: contextOf(local.subject)}, kind: local.kind, kindKnown: true, text: local.text, references: references,
	}
}

// understoodAs reads schemas as a serde with a dialect does.
func understoodAs(dialect *jsoncheck.Dialect) JSONCompatibilityOption {
	return func(c *jsonCompatibility) {
		if dialect != nil {
			c.dialect = *dialect
		}
	}
}

// latestReads reports why the latest schema of a subject cannot read what the
// local one describes; nil when it can.
func latestReads(latest *writerSchema, local localSchema) error {
	history := []ResolvedSchema{localTarget(local, latest.id.id).sources()}
	var result CompatibilityResult
	var err error
	switch latest.kind {
	case KindAvro:
		result, err = CheckAvroCompatibility(history, latest.sources(), Backward)
	case KindJSON:
		result, err = CheckJSONCompatibility(history, latest.sources(), Backward, understoodAs(local.dialect))
	default:
		result, err = CheckProtobufCompatibility(history, latest.sources(), Backward)
	}
	if err == nil && !result.Compatible {
		err = errors.New(strings.Join(result.Incompatibilities, "; "))
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/columnset"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// format is one schema language with one local schema, as the codec sees it. It
// compiles plans; the codec finds out which schema a record has, splits frames,
// and handles tombstones, failures and metadata. A format is immutable and safe
// for concurrent use.
type format interface {
	// columns describes the payload columns. They depend on the local schema
	// alone, never on a writer's.
	columns() *columnset.Spec

	// dictionaries reports whether encoders read columns of dictionaries.
	dictionaries() bool

	// newScratch returns what decoding needs for itself, to be found in
	// [columnset.Set]'s Scratch. One goroutine uses it at a time, for many batches.
	newScratch() any

	// compileDecoder prepares to read bodies of a writer schema. It runs once for
	// each writer schema; an error is kept and returned for every record.
	compileDecoder(writer schema.ResolvedSchema) (decodePlan, error)

	// compileEncoder prepares to write bodies under target, which is the local
	// schema or the registry's latest. It returns the message indexes of Protobuf
	// as well.
	compileEncoder(target schema.ResolvedSchema) (encodePlan, []int, error)
}

// decodePlan reads the bodies of one writer schema. It is immutable and safe for
// concurrent use.
type decodePlan interface {
	// decode appends one value to every column of the set's top level. It keeps
	// neither indexes, the message-index list in wire form, nor body. After an
	// error the columns hold parts of the record, which the caller takes back.
	// Memory that it takes is bounded by the size of body.
	decode(set *columnset.Set, indexes, body []byte) error
}

// encodePlan writes bodies under one schema. It is immutable and safe for
// concurrent use.
type encodePlan interface {
	// bind finds the columns of a batch of payload columns and checks that each
	// can be written, else the error is a [*MismatchError]. The columns are plain, see
	// [plainer]. The result borrows the
	// batch and belongs to one goroutine.
	bind(batch arrow.RecordBatch) (rowEncoder, error)
}

// rowEncoder writes the rows of one batch.
type rowEncoder interface {
	// appendRow appends the body of a row to dst and returns the extended slice.
	appendRow(dst []byte, row int) ([]byte, error)
}

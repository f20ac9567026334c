// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"math"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/columnset"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// framer knows the schemas and frames of one format.
type framer = schema.Framer[decodePlan, encodePlan]

// part reads and writes one part of the records, the key or the value.
type part struct {
	format format
	framer *framer
	header string    // key of the record header that carries the schema id
	sets   sync.Pool // of *columnset.Set
	limit  int       // bytes of a column's buffer
}

// planner lets a framer compile with a format.
type planner struct{ format format }

func (p planner) CompileDecoder(writer schema.ResolvedSchema) (decodePlan, error) {
	return p.format.compileDecoder(writer)
}

func (p planner) CompileEncoder(target schema.ResolvedSchema) (encodePlan, []int, error) {
	return p.format.compileEncoder(target)
}

func newPart(f format, spec schema.FramerSpec, cache *schema.SchemaCache, role schema.Role, options []schema.SerdeOption) (*part, error) {
	p := &part{format: f, header: schema.ValueSchemaIDHeader, limit: math.MaxInt32}
	if role == schema.RoleKey {
		p.header = schema.KeySchemaIDHeader
	}
	var err error
	p.framer, err = schema.NewFramer[decodePlan, encodePlan](spec, cache, role, planner{f}, options...)
	return p, err
}

// reader returns what reads this part of the records of one call into columns
// with memory of mem. The caller gives it back with close.
func (p *part) reader(topic string, mem memory.Allocator) *partReader {
	set, _ := p.sets.Get().(*columnset.Set)
	if set == nil {
		set = columnset.New(p.format.columns(), mem)
		set.Scratch = p.format.newScratch()
		set.Limit(p.limit)
	}
	return &partReader{part: p, Set: set, frames: p.framer.Reader(topic)}
}

// partReader reads one part of the records of one call.
type partReader struct {
	*columnset.Set
	part   *part
	frames *schema.FrameReader[decodePlan, encodePlan]
}

// close frees what finish has not handed over, and keeps the rest for the next
// call.
func (r *partReader) close() {
	r.Discard()
	r.part.sets.Put(r.Set)
}

// plan finds what reads a payload: by the record's header where it has one,
// otherwise by the frame.
func (r *partReader) plan(payload []byte, headers []columnar.RecordHeader) (plan decodePlan, indexes, body []byte, err error) {
	for i := len(headers) - 1; i >= 0; i-- {
		if headers[i].Key == r.part.header {
			plan, indexes, err = r.frames.SplitHeader(headers[i].Value)
			return plan, indexes, payload, err
		}
	}
	return r.frames.Split(payload)
}

// read appends the values of a payload to the columns. The caller commits the
// row or rolls it back.
func (r *partReader) read(payload []byte, headers []columnar.RecordHeader) error {
	plan, indexes, body, err := r.plan(payload, headers)
	if err != nil {
		return err
	}
	if err := plan.decode(r.Set, indexes, body); err != nil {
		return r.frames.Failure(err)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/krabka-io/krabka-streams-go/internal/columnset"
	"github.com/krabka-io/krabka-streams-go/internal/protoplan"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// ProtobufBatchCodec is a [columnar.BatchCodec] for Protobuf records in the frames
// of a schema registry. It reads the bytes of records straight into columns and
// writes columns straight to bytes, with the fields in ascending order of their
// numbers; T only names the message.
//
// Records are read as the codec's own message says, by Protobuf's rules: the last
// value of a field wins, parts of a message merge, and fields that the message does
// not declare are dropped, unless [WithUnknownFields] keeps them. The message
// indexes of a record are resolved against its writer's schema, and a record of
// another message is a [*schema.ProtobufMessageError]. The page on columns of
// schemas lists the Arrow type of each Protobuf type.
//
// A ProtobufBatchCodec is safe for concurrent use by multiple goroutines.
type ProtobufBatchCodec[T proto.Message] struct{ *recordCodec }

// WithUnknownFields adds a nullable Binary column "__unknown" behind the columns
// of the message. It holds the fields of the message itself, not of messages inside
// of it, that the codec's schema does not declare, as they were on the wire. Encode
// writes them again where a batch has the column, so that a program passes on what
// only newer producers and consumers know. It is an option of Protobuf codecs.
func WithUnknownFields() CodecOption {
	return func(o *codecOptions) {
		o.needsFormat = append(o.needsFormat, limitedOption{"WithUnknownFields", schema.KindProtobuf})
		o.unknown = true
	}
}

// NewProtobufBatchCodec returns a codec for the message of prototype, which may be
// a nil pointer of a generated type, or a [*dynamicpb.Message]. The schema is the
// file of the message, printed by [schema.PrintProtoFile], with its imports as
// references. It does no I/O. What is wrong with the parameters is returned by Err
// and by every call.
func NewProtobufBatchCodec[T proto.Message](prototype T, cache *schema.SchemaCache, mem memory.Allocator, options ...CodecOption) *ProtobufBatchCodec[T] {
	o, err := codecOptionsFor(schema.KindProtobuf, options)
	var c *recordCodec
	if err == nil {
		c, err = newProtobufCodec(prototype, cache, mem, o)
	}
	if err != nil {
		c = &recordCodec{broken: err, payload: arrow.NewSchema(nil, nil)}
	}
	return &ProtobufBatchCodec[T]{c}
}

// Err returns why the codec cannot work, or nil.
func (c *ProtobufBatchCodec[T]) Err() error { return c.broken }

func newProtobufCodec(prototype proto.Message, cache *schema.SchemaCache, mem memory.Allocator, o *codecOptions) (*recordCodec, error) {
	descriptor, err := descriptorOf(prototype)
	if err != nil {
		return nil, textPrefix.Wrap(err, "Protobuf codec")
	}
	spec, err := schema.ProtobufFramerSpec(descriptor, o.serde...)
	if err != nil {
		return nil, textPrefix.Wrap(err, "Protobuf codec")
	}
	f, err := newProtobufFormat(protoplan.Compile(descriptor), o)
	if err != nil {
		return nil, err
	}
	c, err := newRecordCodec(f, spec, cache, mem, o)
	if err != nil {
		return nil, err
	}
	c.remake = func(o *codecOptions) (*recordCodec, error) { return newProtobufCodec(prototype, cache, mem, o) }
	return c, nil
}

// descriptorOf returns the message of a prototype.
func descriptorOf(prototype proto.Message) (protoreflect.MessageDescriptor, error) {
	if dynamic, ok := prototype.(*dynamicpb.Message); prototype == nil || ok && dynamic == nil {
		return nil, errors.New("the prototype is nil and names no message; pass a message, or a nil pointer of a generated type")
	}
	return prototype.ProtoReflect().Descriptor(), nil
}

// protobufFormat is Protobuf with one local message.
type protobufFormat struct {
	plan    *protoplan.Plan
	reader  *protoplan.Reader
	unknown bool
}

func newProtobufFormat(plan *protoplan.Plan, o *codecOptions) (*protobufFormat, error) {
	fields := plan.Fields()
	if o.unknown {
		if slices.ContainsFunc(fields, func(f arrow.Field) bool { return f.Name == protoplan.UnknownField.Name }) {
			return nil, fmt.Errorf("columnarschema: WithUnknownFields: message %s has a field %s of its own", plan.Descriptor().FullName(), protoplan.UnknownField.Name)
		}
		fields = append(slices.Clone(fields), protoplan.UnknownField)
	}
	chosen, err := o.project(arrow.NewSchema(fields, nil))
	if err != nil {
		return nil, err
	}
	options := protoplan.ReaderOptions{Unknown: o.unknown && chosen.HasField(protoplan.UnknownField.Name)}
	if o.projected {
		for _, field := range plan.Fields() {
			options.Needed = append(options.Needed, chosen.HasField(field.Name))
		}
	}
	return &protobufFormat{plan: plan, reader: plan.NewReader(options), unknown: o.unknown}, nil
}

func (f *protobufFormat) columns() *columnset.Spec { return f.reader.Spec() }

func (f *protobufFormat) dictionaries() bool { return false }

// newScratch returns the place of the decoder, which is made with its columns.
func (f *protobufFormat) newScratch() any { return new(*protoplan.Decoder) }

func (f *protobufFormat) compileDecoder(writer schema.ResolvedSchema) (decodePlan, error) {
	location, err := schema.LocateProtobuf(writer, f.plan.Descriptor().FullName())
	if err != nil {
		return nil, err
	}
	return &protobufDecodePlan{f.reader, location}, nil
}

func (f *protobufFormat) compileEncoder(target schema.ResolvedSchema) (encodePlan, []int, error) {
	location, err := schema.LocateProtobuf(target, f.plan.Descriptor().FullName())
	if err != nil {
		return nil, nil, err
	}
	indexes, err := location.Indexes()
	return &protobufEncodePlan{f}, indexes, err
}

// localPlan implements [localEncoder].
func (f *protobufFormat) localPlan() encodePlan { return &protobufEncodePlan{f} }

// protobufDecodePlan reads the records of one writer schema.
type protobufDecodePlan struct {
	reader   *protoplan.Reader
	location *schema.ProtobufLocation
}

func (p *protobufDecodePlan) decode(set *columnset.Set, indexes, body []byte) error {
	if err := p.location.Check(indexes); err != nil {
		return err
	}
	decoder := set.Scratch.(**protoplan.Decoder)
	if *decoder == nil {
		*decoder = p.reader.NewDecoder(set)
	}
	return (*decoder).Append(body)
}

// protobufEncodePlan writes the local message.
type protobufEncodePlan struct{ format *protobufFormat }

func (p *protobufEncodePlan) bind(batch arrow.RecordBatch) (rowEncoder, error) {
	w, err := p.format.plan.NewWriter(batch.Schema(), protoplan.WriterOptions{Unknown: p.format.unknown})
	if err != nil {
		return nil, mismatchOf(err)
	}
	return &protobufEncoder{w.NewEncoder(batch)}, nil
}

// mismatchOf makes one error of the columns that a plan cannot write.
func mismatchOf(err error) error {
	var columns protoplan.ColumnErrors
	if !errors.As(err, &columns) {
		return err
	}
	mismatch := new(MismatchError)
	for _, column := range columns {
		mismatch.Columns = append(mismatch.Columns, ColumnMismatch{Column: column.Path, Reason: column.Reason})
	}
	return mismatch
}

// protobufEncoder writes the rows of one batch.
type protobufEncoder struct{ encoder *protoplan.Encoder }

func (e *protobufEncoder) appendRow(dst []byte, row int) ([]byte, error) {
	out, err := e.encoder.AppendRow(dst, row)
	if err == nil {
		return out, nil
	}
	var value *protoplan.ValueError
	if errors.As(err, &value) {
		err = &ValueError{Column: value.Path, Cause: value}
	}
	return dst, err
}

// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/krabka-io/krabka-streams-go/internal/protoplan"
)

// ProtobufArrowSchema returns the columns of a message, in the order in which its
// text declares the fields. A message that contains itself is a column of JSON
// text where it comes again, and so is what is nested more than 64 deep or would
// make more than 10000 columns. Extensions have no column.
func ProtobufArrowSchema(descriptor protoreflect.MessageDescriptor) *arrow.Schema {
	return arrow.NewSchema(protoplan.Compile(descriptor).Fields(), nil)
}

// ProtobufArrowField returns the column of one field of a message.
func ProtobufArrowField(field protoreflect.FieldDescriptor) arrow.Field {
	return protoplan.CompileField(field)
}

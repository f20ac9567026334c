// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// jsonType is a message that stands in a column as JSON text.
type jsonType struct {
	message protoreflect.MessageType
}

func newJSONType(descriptor protoreflect.MessageDescriptor) *jsonType {
	return &jsonType{message: dynamicpb.NewMessageType(descriptor)}
}

// read reads a message in wire form. Required fields may be unset in a part of a
// message.
func (t *jsonType) read(wire []byte, part bool) (m proto.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			// The library panics for a second key of another wire type in a map.
			m, err = nil, dataFault(-1, "the Protobuf library fails: %v", p)
		}
	}()
	m = t.message.New().Interface()
	if err := (proto.UnmarshalOptions{AllowPartial: part}).Unmarshal(wire, m); err != nil {
		return nil, &DataError{Offset: -1, Reason: fmt.Sprintf("%s is not valid: %v", t.name(), err), cause: err}
	}
	return m, nil
}

// text appends the JSON text of a message in wire form to dst. The text has no
// white space outside of strings.
func (t *jsonType) text(dst, wire []byte) ([]byte, error) {
	m, err := t.read(wire, false)
	if err != nil {
		return nil, err
	}
	loose, err := protojson.Marshal(m)
	if err != nil {
		return nil, &DataError{Offset: -1, Reason: fmt.Sprintf("%s has no JSON form: %v", t.name(), err), cause: err}
	}
	compact := bytes.NewBuffer(dst)
	if err := json.Compact(compact, loose); err != nil {
		return nil, &DataError{Offset: -1, Reason: fmt.Sprintf("%s has no JSON form: %v", t.name(), err), cause: err}
	}
	return compact.Bytes(), nil
}

// wire appends the wire form of a message in JSON text to dst.
func (t *jsonType) wire(dst, text []byte) ([]byte, error) {
	m := t.message.New().Interface()
	if err := protojson.Unmarshal(text, m); err != nil {
		return dst, &ValueError{Reason: fmt.Sprintf("the text is no JSON form of %s: %v", t.name(), err), cause: err}
	}
	out, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
	if err != nil {
		return dst, &ValueError{Reason: fmt.Sprintf("%s cannot be written: %v", t.name(), err), cause: err}
	}
	return out, nil
}

func (t *jsonType) name() protoreflect.FullName { return t.message.Descriptor().FullName() }

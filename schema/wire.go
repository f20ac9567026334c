// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
)

const (
	// Magic is the first byte of a frame that carries a numeric schema id.
	Magic byte = 0
	// MagicGUID is the first byte of a frame or header that carries a GUID.
	MagicGUID byte = 1

	// KeySchemaIDHeader is the record header with the schema id of the key.
	KeySchemaIDHeader = "__key_schema_id"
	// ValueSchemaIDHeader is the record header with the schema id of the value.
	ValueSchemaIDHeader = "__value_schema_id"

	idFrameBytes   = 5  // magic and a 32-bit id
	guidFrameBytes = 17 // magic and a GUID

	// maxMessageIndexes bounds the nesting depth that a record may claim.
	maxMessageIndexes = 64
)

// rootIndexes is the short form of the message-index list [0].
var rootIndexes = []byte{0}

// GUID identifies a schema across registries.
type GUID [16]byte

// String returns the GUID in the 8-4-4-4-12 form.
func (g GUID) String() string {
	h := hex.EncodeToString(g[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ParseGUID reads the 8-4-4-4-12 form, in either case.
func ParseGUID(text string) (GUID, error) {
	var g GUID
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return GUID{}, fmt.Errorf("invalid schema GUID %q", text)
	}
	digits := text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	if _, err := hex.Decode(g[:], []byte(digits)); err != nil {
		return GUID{}, fmt.Errorf("invalid schema GUID %q", text)
	}
	return g, nil
}

// Header is a record header. It converts to and from the header type of a
// Kafka client that has the same two fields.
type Header struct {
	Key   string
	Value []byte
}

// Frame is a payload in the standard framing.
type Frame struct {
	SchemaID int // 0 to 2^32-1
	Body     []byte
}

// ProtobufFrame is a Protobuf payload in the standard framing.
type ProtobufFrame struct {
	SchemaID       int   // 0 to 2^32-1
	MessageIndexes []int // declaration indexes of the message, outermost first; never empty
	Body           []byte
}

// Encode returns body behind the five-byte prefix of schemaID. The caller owns
// the returned slice. Only the low 32 bits of schemaID are written; use
// [AppendEncode] to have other ids refused.
func Encode(schemaID int, body []byte) []byte {
	frame := make([]byte, 0, idFrameBytes+len(body))
	return append(appendIDPrefix(frame, uint32(schemaID)), body...)
}

// AppendEncode appends the frame of body to dst and returns the extended
// slice. It does not keep body. An id outside 0 to 2^32-1 is an error, and dst
// is returned as it was.
func AppendEncode(dst []byte, schemaID int, body []byte) ([]byte, error) {
	id, err := wireID(schemaID)
	if err != nil {
		return dst, err
	}
	return append(appendIDPrefix(dst, id), body...), nil
}

// Decode reads a frame. The caller owns the returned body, which is a copy and
// never nil. Errors are [*FrameError].
func Decode(data []byte) (Frame, error) {
	frame, err := DecodeView(data)
	if err != nil {
		return Frame{}, err
	}
	frame.Body = append(make([]byte, 0, len(frame.Body)), frame.Body...)
	return frame, nil
}

// DecodeView is [Decode] without the copy: the body is a part of data, and
// valid as long as data is. It does not allocate.
func DecodeView(data []byte) (Frame, error) {
	if err := checkPrefix(data); err != nil {
		return Frame{}, err
	}
	return Frame{
		SchemaID: int(binary.BigEndian.Uint32(data[1:])),
		Body:     data[idFrameBytes:len(data):len(data)],
	}, nil
}

// EncodeProtobuf returns body behind the prefix of schemaID and the
// message-index list. The caller owns the returned slice. It returns an error
// for an empty path, an index outside 0 to 2^31-1, a path of more than 64
// indexes, and an id outside 0 to 2^32-1.
func EncodeProtobuf(schemaID int, messageIndexes []int, body []byte) ([]byte, error) {
	size := idFrameBytes + (1+len(messageIndexes))*binary.MaxVarintLen32 + len(body)
	frame, err := AppendEncodeProtobuf(make([]byte, 0, size), schemaID, messageIndexes, body)
	if err != nil {
		return nil, err
	}
	return frame, nil
}

// AppendEncodeProtobuf is [EncodeProtobuf] that appends to dst and returns the
// extended slice; with an error it returns dst as it was. It does not keep
// body.
func AppendEncodeProtobuf(dst []byte, schemaID int, messageIndexes []int, body []byte) ([]byte, error) {
	id, err := wireID(schemaID)
	if err != nil {
		return dst, err
	}
	framed, err := appendMessageIndexes(appendIDPrefix(dst, id), messageIndexes)
	if err != nil {
		return dst, err
	}
	return append(framed, body...), nil
}

// DecodeProtobuf reads a Protobuf frame. The caller owns the returned slices,
// which are copies; the body is never nil. Errors are [*FrameError].
func DecodeProtobuf(data []byte) (ProtobufFrame, error) {
	if err := checkPrefix(data); err != nil {
		return ProtobufFrame{}, err
	}
	list, body, err := splitMessageIndexes(data[idFrameBytes:])
	if err != nil {
		return ProtobufFrame{}, err
	}
	return ProtobufFrame{
		SchemaID:       int(binary.BigEndian.Uint32(data[1:])),
		MessageIndexes: messageIndexes(list),
		Body:           append(make([]byte, 0, len(body)), body...),
	}, nil
}

func wireID(schemaID int) (uint32, error) {
	if schemaID < 0 || uint64(schemaID) > math.MaxUint32 {
		return 0, fmt.Errorf("schema id %d is outside 0 to 4294967295", schemaID)
	}
	return uint32(schemaID), nil
}

func appendIDPrefix(dst []byte, id uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, Magic), id)
}

func checkPrefix(data []byte) error {
	if len(data) < idFrameBytes {
		return &FrameError{Offset: len(data), reason: "schema frame is shorter than 5 bytes"}
	}
	if data[0] != Magic {
		return &FrameError{reason: fmt.Sprintf("invalid schema frame magic byte 0x%02x", data[0])}
	}
	return nil
}

// writerID is the identity of a writer schema as a frame or header states it.
type writerID struct {
	guid    GUID
	context string // that the id belongs to; "" is the default one, and that of a GUID
	id      uint32
	byGUID  bool
}

func (w writerID) String() string {
	switch {
	case w.byGUID:
		return w.guid.String()
	case w.context != "":
		return fmt.Sprintf("%d in context %s", w.id, w.context)
	default:
		return fmt.Sprint(w.id)
	}
}

// guidText returns the GUID, or "".
func (w writerID) guidText() string {
	if !w.byGUID {
		return ""
	}
	return w.guid.String()
}

// splitWriterID reads magic and identity, numeric or GUID, and returns the
// rest of data.
func splitWriterID(data []byte) (writerID, []byte, error) {
	if len(data) == 0 || data[0] != MagicGUID {
		if err := checkPrefix(data); err != nil {
			return writerID{}, nil, err
		}
		return writerID{id: binary.BigEndian.Uint32(data[1:])}, data[idFrameBytes:], nil
	}
	if len(data) < guidFrameBytes {
		return writerID{}, nil, &FrameError{
			Offset: len(data),
			reason: fmt.Sprintf("invalid schema frame magic byte 0x01: %d bytes are too few for a GUID", len(data)),
		}
	}
	w := writerID{byGUID: true}
	copy(w.guid[:], data[1:guidFrameBytes])
	return w, data[guidFrameBytes:], nil
}

// appendPrefix appends magic and identity.
func (w writerID) appendPrefix(dst []byte) []byte {
	if w.byGUID {
		return append(append(dst, MagicGUID), w.guid[:]...)
	}
	return appendIDPrefix(dst, w.id)
}

// appendMessageIndexes appends the wire form of a path.
func appendMessageIndexes(dst []byte, path []int) ([]byte, error) {
	switch {
	case len(path) == 0:
		return dst, fmt.Errorf("messageIndexes must not be empty")
	case len(path) > maxMessageIndexes:
		return dst, fmt.Errorf("messageIndexes has %d elements, more than %d", len(path), maxMessageIndexes)
	case len(path) == 1 && path[0] == 0:
		return append(dst, rootIndexes...), nil
	}
	out := binary.AppendVarint(dst, int64(len(path)))
	for i, index := range path {
		if index < 0 || index > math.MaxInt32 {
			return dst, fmt.Errorf("messageIndexes[%d] is %d, outside 0 to 2147483647", i, index)
		}
		out = binary.AppendVarint(out, int64(index))
	}
	return out, nil
}

// splitMessageIndexes returns the message-index list at the start of data,
// checked but still in wire form, and what follows it. Nothing is allocated
// before the whole list has been seen.
func splitMessageIndexes(data []byte) (list, rest []byte, err error) {
	count, n, err := indexVarint(data, 0)
	if err != nil {
		return nil, nil, err
	}
	if count < 0 || count > maxMessageIndexes {
		return nil, nil, &FrameError{reason: fmt.Sprintf("invalid Protobuf message-index count: %d", count)}
	}
	for i := range count {
		index, next, err := indexVarint(data, n)
		switch {
		case err != nil:
			return nil, nil, err
		case index < math.MinInt32 || index > math.MaxInt32:
			return nil, nil, &FrameError{Offset: n, reason: "Protobuf message index is outside the int32 range"}
		case index < 0:
			return nil, nil, &FrameError{
				Offset: n,
				reason: fmt.Sprintf("Protobuf message index %d (%d of %d) is negative", index, i+1, count),
			}
		}
		n = next
	}
	return data[:n], data[n:len(data):len(data)], nil
}

// messageIndexes expands a list that splitMessageIndexes returned.
func messageIndexes(list []byte) []int {
	count, n := binary.Varint(list)
	if count == 0 {
		return []int{0}
	}
	path := make([]int, count)
	for i := range path {
		index, size := binary.Varint(list[n:])
		path[i] = int(index)
		n += size
	}
	return path
}

func indexVarint(data []byte, at int) (value int64, next int, err error) {
	value, n := binary.Varint(data[at:])
	switch {
	case n > 0:
		return value, at + n, nil
	case n == 0 && len(data)-at < binary.MaxVarintLen64:
		return 0, 0, &FrameError{Offset: len(data), reason: "truncated Protobuf message-index varint"}
	default:
		return 0, 0, &FrameError{Offset: at, reason: "Protobuf message-index varint is too long"}
	}
}

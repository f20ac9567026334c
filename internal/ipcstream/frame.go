// SPDX-License-Identifier: Apache-2.0

package ipcstream

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// The metadata of a message with a record batch is a flatbuffer of fixed
// layout: the reference to the message table, its vtable and the table; for a
// dictionary the vtable and table of the dictionary batch; then the vtable and
// table of the record batch, and the vectors of nodes, buffers and counts.
const (
	messageVtable    = 4
	messageTable     = 16
	messageEnd       = 36
	dictionaryTable  = 48
	dictionaryEnd    = 64
	batchVtableSize  = 14
	batchTableSize   = 24
	vectorPrefixSize = 8 // padding and count in front of elements
)

// batchTable returns where the record batch's vtable and table are.
func (p *messagePlan) batchTable(kind byte) (vtable, table int) {
	vtable = messageEnd
	if kind == dictionaryMessage {
		vtable = dictionaryEnd
	}
	return vtable, (vtable + batchVtableSize + 7) &^ 7
}

func (p *messagePlan) metadataSize(kind byte) int {
	_, table := p.batchTable(kind)
	size := table + batchTableSize + vectorPrefixSize + 8*len(p.nodes) + vectorPrefixSize + 16*len(p.parts)
	if len(p.variadic) > 0 {
		size += vectorPrefixSize + 8*len(p.variadic)
	}
	return size
}

// messageSize returns the size of the message with its body.
func (p *messagePlan) messageSize(kind byte) int { return 8 + p.metadataSize(kind) + p.body }

// append appends the message to dst, which has room for it.
func (p *messagePlan) append(dst []byte, kind byte, rows int, dictionary int64) []byte {
	start := len(dst)
	dst = dst[:start+p.messageSize(kind)]
	message := dst[start:]
	clear(message)
	size := p.metadataSize(kind)
	copy(message, endOfStream[:4])
	binary.LittleEndian.PutUint32(message[4:], uint32(size))
	p.putMetadata(message[8:8+size], kind, rows, dictionary)
	body := message[8+size:]
	for i := range p.parts {
		part := &p.parts[i]
		part.copyTo(body[:part.size])
		body = body[(part.size+7)&^7:]
	}
	return dst
}

func (p *messagePlan) putMetadata(m []byte, kind byte, rows int, dictionary int64) {
	word := binary.LittleEndian.PutUint32
	long := binary.LittleEndian.PutUint64
	vtable, table := p.batchTable(kind)

	word(m, messageTable)
	putVtable(m[messageVtable:], 20, 16, 18, 4, 8) // version, type, header, body length
	word(m[messageTable:], messageTable-messageVtable)
	header := table
	if kind == dictionaryMessage {
		header = dictionaryTable
		putVtable(m[messageEnd:], 16, 8, 4) // id, data
		word(m[header:], dictionaryTable-messageEnd)
		word(m[header+4:], uint32(table-header-4))
		long(m[header+8:], uint64(dictionary))
	}
	word(m[messageTable+4:], uint32(header-messageTable-4))
	long(m[messageTable+8:], uint64(p.body))
	m[messageTable+16] = version5
	m[messageTable+18] = kind

	variadic := 0
	if len(p.variadic) > 0 {
		variadic = 20
	}
	putVtable(m[vtable:], batchTableSize, 8, 4, 16, 0, variadic) // length, nodes, buffers, compression, variadic counts
	word(m[table:], uint32(table-vtable))
	long(m[table+8:], uint64(rows))
	at := table + batchTableSize
	vector := func(reference, count, size int) []byte {
		at += vectorPrefixSize
		word(m[reference:], uint32(at-4-reference))
		word(m[at-4:], uint32(count))
		elements := m[at : at+size]
		at += size
		return elements
	}
	nodes := vector(table+4, len(p.nodes)/2, 8*len(p.nodes))
	for i, number := range p.nodes {
		long(nodes[8*i:], uint64(number))
	}
	buffers := vector(table+16, len(p.parts), 16*len(p.parts))
	offset := 0
	for i := range p.parts {
		long(buffers[16*i:], uint64(offset))
		long(buffers[16*i+8:], uint64(p.parts[i].size))
		offset += (p.parts[i].size + 7) &^ 7
	}
	if variadic > 0 {
		counts := vector(table+20, len(p.variadic), 8*len(p.variadic))
		for i, number := range p.variadic {
			long(counts[8*i:], uint64(number))
		}
	}
}

// putVtable writes a vtable for a table of that size.
func putVtable(m []byte, size int, fields ...int) {
	binary.LittleEndian.PutUint16(m, uint16(4+2*len(fields)))
	binary.LittleEndian.PutUint16(m[2:], uint16(size))
	for i, field := range fields {
		binary.LittleEndian.PutUint16(m[4+2*i:], uint16(field))
	}
}

// endOfStream ends a stream.
var endOfStream = [8]byte{0xff, 0xff, 0xff, 0xff}

// messagePlan lists the nodes and buffers of a message.
type messagePlan struct {
	nodes    []int64 // length and null count of each
	parts    []bodyPart
	variadic []int64
	body     int
}

// bodyPart is one buffer of a message body: a range of an array's buffer, as it
// is or made relative to the first row.
type bodyPart struct {
	kind partKind
	data []byte
	base int   // first row, or bit
	rows int   // values
	size int   // bytes in the body
	move int64 // what is taken off each value
	ends []int64
}

// copyTo writes the buffer into the body of a message.
func (b *bodyPart) copyTo(target []byte) {
	switch b.kind {
	case bytesPart:
		copy(target, b.data)
	case bitsPart:
		bitutil.CopyBitmap(b.data, b.base, b.rows, target, 0)
	case offsets32Part:
		for i, offset := range arrays.Cast[int32](b.data)[b.base : b.base+b.rows] {
			binary.NativeEndian.PutUint32(target[i*4:], uint32(int64(offset)-b.move))
		}
	case offsets64Part:
		for i, offset := range arrays.Cast[int64](b.data)[b.base : b.base+b.rows] {
			binary.NativeEndian.PutUint64(target[i*8:], uint64(offset-b.move))
		}
	case viewsPart:
		copy(target, b.data)
		headers := arrays.Cast[arrow.ViewHeader](target)[:b.rows]
		for i := range headers {
			if header := &headers[i]; !header.IsInline() {
				header.SetIndexOffset(0, header.BufferOffset()-int32(b.move))
			}
		}
	case runEndsPart:
		for i, end := range b.ends {
			switch b.size / b.rows {
			case 2:
				binary.NativeEndian.PutUint16(target[i*2:], uint16(end))
			case 4:
				binary.NativeEndian.PutUint32(target[i*4:], uint32(end))
			default:
				binary.NativeEndian.PutUint64(target[i*8:], uint64(end))
			}
		}
	}
}

type partKind uint8

const (
	bytesPart     partKind = iota // data as it is
	bitsPart                      // bits from base on
	offsets32Part                 // int32 values less move
	offsets64Part                 // int64 values less move
	viewsPart                     // view headers, whose offsets lose move
	runEndsPart                   // ends, of size/rows bytes each
)

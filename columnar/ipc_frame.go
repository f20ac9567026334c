// SPDX-License-Identifier: Apache-2.0

package columnar

import "encoding/binary"

// The metadata of a message with a record batch is a flatbuffer of fixed
// layout: the reference to the message table, its vtable and the table; for a
// dictionary the vtable and table of the dictionary batch; then the vtable and
// table of the record batch, and the vectors of nodes, buffers and counts.
const (
	ipcMessageVtable    = 4
	ipcMessageTable     = 16
	ipcMessageEnd       = 36
	ipcDictionaryTable  = 48
	ipcDictionaryEnd    = 64
	ipcBatchVtableSize  = 14
	ipcBatchTableSize   = 24
	ipcVectorPrefixSize = 8 // padding and count in front of elements
)

// batchTable returns where the record batch's vtable and table are.
func (p *ipcPlan) batchTable(kind byte) (vtable, table int) {
	vtable = ipcMessageEnd
	if kind == ipcDictionaryMessage {
		vtable = ipcDictionaryEnd
	}
	return vtable, (vtable + ipcBatchVtableSize + 7) &^ 7
}

func (p *ipcPlan) metadataSize(kind byte) int {
	_, table := p.batchTable(kind)
	size := table + ipcBatchTableSize + ipcVectorPrefixSize + 8*len(p.nodes) + ipcVectorPrefixSize + 16*len(p.parts)
	if len(p.variadic) > 0 {
		size += ipcVectorPrefixSize + 8*len(p.variadic)
	}
	return size
}

// messageSize returns the size of the message with its body.
func (p *ipcPlan) messageSize(kind byte) int { return 8 + p.metadataSize(kind) + p.body }

// append appends the message to dst, which has room for it.
func (p *ipcPlan) append(dst []byte, kind byte, rows int, dictionary int64) []byte {
	start := len(dst)
	dst = dst[:start+p.messageSize(kind)]
	message := dst[start:]
	clear(message)
	size := p.metadataSize(kind)
	copy(message, ipcEndOfStream[:4])
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

func (p *ipcPlan) putMetadata(m []byte, kind byte, rows int, dictionary int64) {
	word := binary.LittleEndian.PutUint32
	long := binary.LittleEndian.PutUint64
	vtable, table := p.batchTable(kind)

	word(m, ipcMessageTable)
	putVtable(m[ipcMessageVtable:], 20, 16, 18, 4, 8) // version, type, header, body length
	word(m[ipcMessageTable:], ipcMessageTable-ipcMessageVtable)
	header := table
	if kind == ipcDictionaryMessage {
		header = ipcDictionaryTable
		putVtable(m[ipcMessageEnd:], 16, 8, 4) // id, data
		word(m[header:], ipcDictionaryTable-ipcMessageEnd)
		word(m[header+4:], uint32(table-header-4))
		long(m[header+8:], uint64(dictionary))
	}
	word(m[ipcMessageTable+4:], uint32(header-ipcMessageTable-4))
	long(m[ipcMessageTable+8:], uint64(p.body))
	m[ipcMessageTable+16] = ipcVersion5
	m[ipcMessageTable+18] = kind

	variadic := 0
	if len(p.variadic) > 0 {
		variadic = 20
	}
	putVtable(m[vtable:], ipcBatchTableSize, 8, 4, 16, 0, variadic) // length, nodes, buffers, compression, variadic counts
	word(m[table:], uint32(table-vtable))
	long(m[table+8:], uint64(rows))
	at := table + ipcBatchTableSize
	vector := func(reference, count, size int) []byte {
		at += ipcVectorPrefixSize
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

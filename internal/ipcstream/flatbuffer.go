// SPDX-License-Identifier: Apache-2.0

package ipcstream

import "encoding/binary"

// flatReader reads flatbuffers that may be malformed. An access outside the
// data reads as zero and sets bad.
type flatReader struct {
	data []byte
	bad  bool
}

// at reports whether size bytes at pos are inside the data.
func (r *flatReader) at(pos, size int) bool {
	if pos < 0 || size < 0 || pos > len(r.data)-size {
		r.bad = true
		return false
	}
	return true
}

func (r *flatReader) uint16(pos int) int {
	if !r.at(pos, 2) {
		return 0
	}
	return int(binary.LittleEndian.Uint16(r.data[pos:]))
}

func (r *flatReader) uint32(pos int) int {
	if !r.at(pos, 4) {
		return 0
	}
	return int(binary.LittleEndian.Uint32(r.data[pos:]))
}

func (r *flatReader) int64(pos int) int64 {
	if !r.at(pos, 8) {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(r.data[pos:]))
}

// root returns the table that the data begins with a reference to.
func (r *flatReader) root() flatTable { return r.table(r.uint32(0)) }

// table returns the table at pos, whose field positions are checked.
func (r *flatReader) table(pos int) flatTable {
	vtable := pos - int(int32(r.uint32(pos)))
	vsize := r.uint16(vtable)
	size := r.uint16(vtable + 2)
	if r.bad || vsize < 4 || vsize%2 != 0 || size < 4 || !r.at(vtable, vsize) || !r.at(pos, size) {
		r.bad = true
		return flatTable{r: r}
	}
	for i := 4; i < vsize; i += 2 {
		if r.uint16(vtable+i) >= size {
			r.bad = true
			return flatTable{r: r}
		}
	}
	return flatTable{r, pos, vtable, vsize}
}

// flatTable is a table in a flatbuffer.
type flatTable struct {
	r      *flatReader
	pos    int
	vtable int
	vsize  int
}

// field returns where a field is, if the table has it.
func (t flatTable) field(i int) (pos int, ok bool) {
	entry := 4 + 2*i
	if entry+2 > t.vsize {
		return 0, false
	}
	offset := t.r.uint16(t.vtable + entry)
	return t.pos + offset, offset != 0
}

func (t flatTable) uint8(i int) byte {
	if pos, ok := t.field(i); ok && t.r.at(pos, 1) {
		return t.r.data[pos]
	}
	return 0
}

func (t flatTable) uint16(i int) int {
	if pos, ok := t.field(i); ok {
		return t.r.uint16(pos)
	}
	return 0
}

func (t flatTable) int64(i int) int64 {
	if pos, ok := t.field(i); ok {
		return t.r.int64(pos)
	}
	return 0
}

// target returns where the field's reference leads.
func (t flatTable) target(i int) (pos int, ok bool) {
	pos, ok = t.field(i)
	if !ok {
		return 0, false
	}
	return pos + t.r.uint32(pos), true
}

// sub returns the table that a field refers to.
func (t flatTable) sub(i int) (flatTable, bool) {
	pos, ok := t.target(i)
	if !ok {
		return flatTable{r: t.r}, false
	}
	return t.r.table(pos), true
}

// vector returns the elements of size bytes that a field refers to.
func (t flatTable) vector(i, size int) (first, count int) {
	pos, ok := t.target(i)
	if !ok {
		return 0, 0
	}
	count = t.r.uint32(pos)
	if t.r.bad || count > (len(t.r.data)-pos-4)/size {
		t.r.bad = true
		return 0, 0
	}
	return pos + 4, count
}

// element returns a table that a vector of references refers to.
func (t flatTable) element(first, i int) flatTable {
	pos := first + 4*i
	return t.r.table(pos + t.r.uint32(pos))
}

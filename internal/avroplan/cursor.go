// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// Bounds of one datum.
const (
	// MaxDepth is the deepest nesting of records, arrays and maps in a datum.
	MaxDepth = 10_000

	// MaxEmptyItems is the number of array items in a datum that take no bytes,
	// such as those of an array of nulls.
	MaxEmptyItems = 4096

	// MaxEmptyFields is the number of record fields in a datum that take no
	// bytes, such as nulls and records without fields. Each byte of the datum
	// allows for emptyFieldsPerByte more: records of such records can double with
	// every type of the schema.
	MaxEmptyFields     = 1 << 16
	emptyFieldsPerByte = 16

	// defaultBytesPerByte is how many bytes of defaults, beyond MaxDefaultBytes,
	// each byte of a datum allows for in place of the fields that it lacks.
	defaultBytesPerByte = 256
)

// Cursor reads the elements of one datum from a byte slice. Every read checks
// what the datum claims against the bytes that remain. After an error the
// position is undefined.
//
// A Cursor is not safe for concurrent use. The zero value reads an empty datum.
type Cursor struct {
	data  []byte
	pos   int
	depth int
	empty int // array items that took no bytes

	size         int // of the datum, also while data is a default
	emptyFields  int
	defaultBytes int

	// text is a copy of data as a string, made when the first string is read.
	text string
}

// Reset makes the cursor read data from the start. It does not change data and
// keeps it until the next Reset.
func (c *Cursor) Reset(data []byte) {
	c.data, c.size = data, len(data)
	c.pos, c.depth, c.empty, c.emptyFields, c.defaultBytes = 0, 0, 0, 0, 0
	if c.text != "" {
		c.text = ""
	}
}

// Data returns the bytes that the cursor reads, which a caller may read itself, from
// Offset on. It then calls Seek with the position of the byte behind them.
func (c *Cursor) Data() []byte { return c.data }

// Seek makes a position within Data that of the next byte.
func (c *Cursor) Seek(pos int) { c.pos = pos }

// EnterDefault makes the cursor read the default of a field that the datum
// lacks, which counts against the bounds of the datum. LeaveDefault goes back to
// the datum.
func (c *Cursor) EnterDefault(data []byte) (datum Cursor, err *DatumError) {
	if c.defaultBytes += len(data); c.defaultBytes > MaxDefaultBytes+defaultBytesPerByte*c.size {
		return *c, c.Fail("more than %d bytes of defaults", MaxDefaultBytes+defaultBytesPerByte*c.size)
	}
	datum = *c
	c.data, c.pos, c.text = data, 0, ""
	return datum, nil
}

// LeaveDefault makes the cursor go on with the datum that EnterDefault returned.
// It returns err, which came up in the default, as an error of the datum.
func (c *Cursor) LeaveDefault(datum Cursor, err *DatumError) *DatumError {
	c.data, c.pos, c.text, c.depth = datum.data, datum.pos, datum.text, datum.depth
	if err != nil {
		err.Offset = c.pos
	}
	return err
}

// Empty counts record fields that take no bytes; see [Node.Empty].
func (c *Cursor) Empty(fields int) *DatumError {
	if c.emptyFields += fields; c.emptyFields > MaxEmptyFields+emptyFieldsPerByte*c.size {
		return c.Fail("more than %d fields without a width", MaxEmptyFields+emptyFieldsPerByte*c.size)
	}
	return nil
}

// Offset returns the position of the next byte.
func (c *Cursor) Offset() int { return c.pos }

// Remaining returns the number of bytes that are not read.
func (c *Cursor) Remaining() int { return len(c.data) - c.pos }

// Fail returns an error at the cursor's position.
func (c *Cursor) Fail(format string, args ...any) *DatumError {
	return &DatumError{Offset: c.pos, Reason: fmt.Sprintf(format, args...)}
}

func (c *Cursor) truncated(what string, need int) *DatumError {
	return c.Fail("truncated: %s needs %d bytes, %d remain", what, need, c.Remaining())
}

// End returns an error if bytes follow the datum.
func (c *Cursor) End() *DatumError {
	if c.pos != len(c.data) {
		return c.Fail("%d bytes follow the datum", c.Remaining())
	}
	return nil
}

// Enter counts one more level of nesting, which Leave takes back.
func (c *Cursor) Enter() *DatumError {
	if c.depth++; c.depth > MaxDepth {
		return c.Fail("nesting exceeds %d levels", MaxDepth)
	}
	return nil
}

// Leave takes back one Enter.
func (c *Cursor) Leave() { c.depth-- }

// Bool reads a boolean.
func (c *Cursor) Bool() (bool, *DatumError) {
	if c.pos < len(c.data) {
		if b := c.data[c.pos]; b <= 1 {
			c.pos++
			return b == 1, nil
		}
	}
	return false, c.badBool()
}

func (c *Cursor) badBool() *DatumError {
	if c.Remaining() == 0 {
		return c.truncated("a boolean", 1)
	}
	return c.Fail("boolean byte 0x%02x", c.data[c.pos])
}

// Short reads an int or a long that takes one byte, as most do. It reports
// whether there was one; if not, the position is unchanged and the method for
// the kind reads it. Unlike those methods, Short is compiled into its callers.
func (c *Cursor) Short() (v int64, ok bool) {
	if c.pos < len(c.data) {
		if b := c.data[c.pos]; b < 0x80 {
			c.pos++
			return int64(b>>1) ^ -int64(b&1), true
		}
	}
	return 0, false
}

// Int reads an int.
func (c *Cursor) Int() (int32, *DatumError) {
	if c.pos < len(c.data) {
		if b := c.data[c.pos]; b < 0x80 {
			c.pos++
			return int32(b>>1) ^ -int32(b&1), nil
		}
	}
	return c.longInt()
}

func (c *Cursor) longInt() (int32, *DatumError) {
	start := c.pos
	v, err := c.longLong()
	if err != nil {
		return 0, err
	}
	if v < math.MinInt32 || v > math.MaxInt32 || c.pos-start > binary.MaxVarintLen32 {
		c.pos = start
		return 0, c.Fail("int exceeds 32 bits")
	}
	return int32(v), nil
}

// Long reads a long.
func (c *Cursor) Long() (int64, *DatumError) {
	if c.pos < len(c.data) {
		if b := c.data[c.pos]; b < 0x80 {
			c.pos++
			return int64(b>>1) ^ -int64(b&1), nil
		}
	}
	return c.longLong()
}

func (c *Cursor) longLong() (int64, *DatumError) {
	if v, next := ReadVarint(c.data, c.pos); next != 0 {
		c.pos = next
		return v, nil
	}
	u, n := binary.Uvarint(c.data[c.pos:])
	if n <= 0 {
		if n < 0 {
			return 0, c.Fail("variable-length integer exceeds 64 bits")
		}
		return 0, c.Fail("truncated: integer ends after %d bytes", c.Remaining())
	}
	c.pos += n
	return int64(u>>1) ^ -int64(u&1), nil
}

// Float reads a float.
func (c *Cursor) Float() (float32, *DatumError) {
	if c.Remaining() < 4 {
		return 0, c.truncated("a float", 4)
	}
	v := math.Float32frombits(binary.LittleEndian.Uint32(c.data[c.pos:]))
	c.pos += 4
	return v, nil
}

// Double reads a double.
func (c *Cursor) Double() (float64, *DatumError) {
	if c.Remaining() < 8 {
		return 0, c.truncated("a double", 8)
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(c.data[c.pos:]))
	c.pos += 8
	return v, nil
}

// Fixed reads size bytes. The result is part of the slice that the cursor
// reads.
func (c *Cursor) Fixed(size int) ([]byte, *DatumError) {
	if size > c.Remaining() {
		return nil, c.truncated("a fixed", size)
	}
	v := c.data[c.pos : c.pos+size : c.pos+size]
	c.pos += size
	return v, nil
}

// Bytes reads bytes with their length. The result is part of the slice that the
// cursor reads.
func (c *Cursor) Bytes() ([]byte, *DatumError) {
	if c.pos < len(c.data) {
		// A length below 64 is one even byte.
		if b := c.data[c.pos]; b < 0x80 && b&1 == 0 {
			start := c.pos + 1
			if end := start + int(b>>1); end <= len(c.data) {
				c.pos = end
				return c.data[start:end:end], nil
			}
		}
	}
	return c.longBytes()
}

func (c *Cursor) longBytes() ([]byte, *DatumError) {
	start := c.pos
	n, err := c.Long()
	if err != nil {
		return nil, err
	}
	if uint64(n) > uint64(c.Remaining()) {
		remain := c.Remaining()
		c.pos = start
		if n < 0 {
			return nil, c.Fail("length %d is negative", n)
		}
		return nil, c.Fail("truncated: length %d exceeds the %d bytes that remain", n, remain)
	}
	v := c.data[c.pos : c.pos+int(n) : c.pos+int(n)]
	c.pos += int(n)
	return v, nil
}

// RawString reads a string as bytes, which are part of the slice that the
// cursor reads and are valid UTF-8.
func (c *Cursor) RawString() ([]byte, *DatumError) {
	v, err := c.Bytes()
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(v) {
		c.pos -= len(v)
		return nil, c.Fail("string is not valid UTF-8")
	}
	return v, nil
}

// shareText is the size up to which the strings of a datum share one copy of
// it: one allocation for all of them, and a string that is kept keeps at most
// this much alive.
const shareText = 512

// String reads a string. The result does not alias the slice that the cursor
// reads.
func (c *Cursor) String() (string, *DatumError) {
	v, err := c.RawString()
	if err != nil {
		return "", err
	}
	if len(c.data) > shareText {
		return string(v), nil
	}
	if len(v) == 0 {
		return "", nil
	}
	if c.text == "" {
		c.text = string(c.data)
	}
	return c.text[c.pos-len(v) : c.pos], nil
}

// Index reads the position of a union branch or enum symbol, which must be
// below n.
func (c *Cursor) Index(n int) (int, *DatumError) {
	start := c.pos
	i, err := c.Long()
	if err != nil {
		return 0, err
	}
	if uint64(i) >= uint64(n) {
		c.pos = start
		return 0, c.Fail("index %d is none of %d", i, n)
	}
	return int(i), nil
}

// Block is the head of a block of array items or map entries.
type Block struct {
	// Count is the number of items, zero after the last block.
	Count int

	sized bool  // the head gives the size in bytes
	size  int64 // for those who pass over the block
}

// Block reads the head of the next block of items that take at least minSize
// bytes each. The count fits into the bytes that remain, or into MaxEmptyItems
// for all empty items of the datum together. The size in bytes that the head may
// give is only for passing over the block: the items are not compared with it.
func (c *Cursor) Block(minSize int) (Block, *DatumError) {
	start := c.pos
	n, err := c.Long()
	if err != nil || n == 0 {
		return Block{}, err
	}
	var b Block
	if n < 0 {
		if b.size, err = c.Long(); err != nil {
			return Block{}, err
		}
		b.sized, n = true, -n
	}
	limit := MaxEmptyItems - c.empty
	if minSize > 0 {
		limit = c.Remaining() / minSize
	}
	if uint64(n) > uint64(limit) {
		c.pos = start
		if minSize > 0 {
			return Block{}, c.Fail("truncated: block of %d items where at most %d fit", uint64(n), limit)
		}
		return Block{}, c.Fail("more than %d items without a width", MaxEmptyItems)
	}
	b.Count = int(n)
	if minSize == 0 {
		c.empty += b.Count
	}
	return b, nil
}

// Skip passes over a datum of the schema.
func (c *Cursor) Skip(s *Schema) *DatumError {
	if s.fixedSize >= 0 {
		if s.fixedSize > c.Remaining() {
			return c.truncated(s.describe(), s.fixedSize)
		}
		c.pos += s.fixedSize
		return nil
	}
	switch s.Kind {
	case Int:
		_, err := c.Int()
		return err
	case Long:
		_, err := c.Long()
		return err
	case Bytes, String:
		_, err := c.Bytes()
		return err
	case Enum:
		_, err := c.Index(len(s.Symbols))
		return err
	case Union:
		i, err := c.Index(len(s.Branches))
		if err != nil {
			return err
		}
		return c.Skip(s.Branches[i])
	}
	if err := c.Enter(); err != nil {
		return err
	}
	defer c.Leave()
	if s.Kind == Record {
		for _, f := range s.Fields {
			if err := c.Skip(f.Type); err != nil {
				return err.In(f.Name)
			}
		}
		return nil
	}
	return c.skipItems(s)
}

// skipItems passes over an array or map. A block that gives its size is not
// looked into.
func (c *Cursor) skipItems(s *Schema) *DatumError {
	minSize := s.Items.minSize
	if s.Kind == Map {
		minSize++
	}
	for index := 0; ; {
		b, err := c.Block(minSize)
		if err != nil || b.Count == 0 {
			return err
		}
		if b.sized {
			if uint64(b.size) > uint64(c.Remaining()) {
				return c.Fail("block of %d bytes where %d remain", b.size, c.Remaining()).At(index)
			}
			c.pos += int(b.size)
			index += b.Count
			continue
		}
		for range b.Count {
			if s.Kind == Map {
				if _, err := c.Bytes(); err != nil {
					return err.At(index)
				}
			}
			if err := c.Skip(s.Items); err != nil {
				return err.At(index)
			}
			index++
		}
	}
}

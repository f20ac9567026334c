// SPDX-License-Identifier: Apache-2.0

package keytable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// Column is one key column of all groups, in the order in which the groups
// appeared. Null keys are flagged in the header of the group's row.
type Column interface {
	Placeable
	// Kind returns the kind of the keys.
	Kind() arrays.Kind
	// Load makes arr, a plain array, the batch that rows refer to.
	Load(arr arrow.Array) error
	// mix adds the keys of the rows from first on to their hashes.
	mix(hashes []uint64, first int)
	// mixGroups adds the keys of the groups from first on to their hashes.
	mixGroups(hashes []uint64, first uint32)
	// equal reports whether a row of the batch has the key of a group.
	equal(group uint32, row int) bool
	// equalGroups reports whether two groups have the same key.
	equalGroups(a, b uint32) bool
	// set makes the key of a row that of the latest group.
	set(group uint32, row int)
	// ExpectNulls says that groups may be flagged as null that were not set.
	ExpectNulls()
	// truncate removes the groups from a number on. Their rows are there still.
	truncate(groups int)
	// compact frees memory behind the removal of groups, whose rows are gone.
	compact(groups int)
	// Build returns the keys of groups as an array that the caller owns.
	Build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error)
	// EncodedSize is at least what encode appends, in bytes.
	EncodedSize(groups []uint32) int
	// Encode appends the keys of groups to a snapshot.
	Encode(w *statebytes.Writer, groups []uint32)
	// Decode reads the keys of groups whose rows are there and are zero.
	Decode(r *statebytes.Reader, groups int)
}

// NewColumn returns the key column of that index, without groups.
func NewColumn(kind arrays.Kind, index int) Column {
	flag := keyFlag(1) << (FirstNull + index)
	if kind.IsWord() || kind == arrays.AnyKind {
		return &WordColumn{keyFlag: flag, valueKind: kind}
	}
	return &byteColumn{keyFlag: flag, valueKind: kind, data: []byte{}}
}

// Hashes depend on the process, so that nobody can choose keys that collide.
var (
	byteSeed = maphash.MakeSeed()
	wordSeed = maphash.String(byteSeed, "words") ^ 0xd6e8feb86659fd93
)

const nullHash = 0x9e3779b97f4a7c15

// mixWord adds a word to a hash.
func mixWord(hash uint64, word int64) uint64 {
	high, low := bits.Mul64(hash^uint64(word), wordSeed)
	return high ^ low
}

func mixNull(hash uint64) uint64 { return mixWord(hash^nullHash, 0) }

// keyFlag is the bit of a header that says that a key is null.
type keyFlag uint64

func (f keyFlag) IsNull(rows *Rows, group uint32) bool {
	return *rows.Header(group)&uint64(f) != 0
}

func (f keyFlag) SetNull(rows *Rows, group uint32) { *rows.Header(group) |= uint64(f) }

// flag returns 1 for a null key and 0 for another.
func (f keyFlag) flag(rows *Rows, group uint32) byte {
	if f.IsNull(rows, group) {
		return 1
	}
	return 0
}

// decode returns how many keys are null.
func (f keyFlag) decode(r *statebytes.Reader, rows *Rows, groups int) (nulls int) {
	for group, flag := range r.Take(uint64(groups)) {
		if flag != 0 {
			f.SetNull(rows, uint32(group))
			nulls++
		}
	}
	return nulls
}

// WordColumn are keys of a word kind, a word in each row.
type WordColumn struct {
	Cell
	keyFlag
	valueKind arrays.Kind
	hasNulls  bool // some group may have a null key

	batch      []int64 // of the loaded array
	batchNulls arrays.Validity
	scratch    []int64
}

// Kind is [Column.Kind].
func (k *WordColumn) Kind() arrays.Kind { return k.valueKind }

// Width is [Placeable.Width].
func (*WordColumn) Width() int { return 1 }

// Load is [Column.Load].
func (k *WordColumn) Load(arr arrow.Array) (err error) {
	k.batchNulls = arrays.ValidityOf(arr)
	k.batch, err = arrays.ReadWords(arr, &k.scratch, equalityWord)
	return err
}

// LoadWords makes words without nulls the batch.
func (k *WordColumn) LoadWords(words []int64) {
	k.batch, k.batchNulls = words, arrays.Validity{}
}

// plain reports whether neither the batch nor the groups have null keys.
func (k *WordColumn) plain() bool { return !k.hasNulls && !k.batchNulls.HasNulls() }

func (k *WordColumn) mix(hashes []uint64, first int) {
	for i, word := range k.batch[first : first+len(hashes)] {
		if k.batchNulls.IsNull(first + i) {
			hashes[i] = mixNull(hashes[i])
		} else {
			hashes[i] = mixWord(hashes[i], word)
		}
	}
}

func (k *WordColumn) mixGroups(hashes []uint64, first uint32) {
	for i, hash := range hashes {
		if group := first + uint32(i); k.hasNulls && k.IsNull(k.Rows, group) {
			hashes[i] = mixNull(hash)
		} else {
			hashes[i] = mixWord(hash, k.At(group))
		}
	}
}

// At returns the key of a group as a word.
func (k *WordColumn) At(group uint32) int64 { return int64(*k.Word(group, 0)) }

func (k *WordColumn) equal(group uint32, row int) bool {
	null := k.IsNull(k.Rows, group)
	if k.batchNulls.IsNull(row) {
		return null
	}
	return !null && k.At(group) == k.batch[row]
}

func (k *WordColumn) equalGroups(a, b uint32) bool {
	return k.At(a) == k.At(b) && k.IsNull(k.Rows, a) == k.IsNull(k.Rows, b)
}

func (k *WordColumn) set(group uint32, row int) {
	if k.batchNulls.IsNull(row) {
		k.hasNulls = true
		k.SetNull(k.Rows, group)
		return
	}
	*k.Word(group, 0) = uint64(k.batch[row])
}

// ExpectNulls is [Column.ExpectNulls].
func (k *WordColumn) ExpectNulls() { k.hasNulls = true }

func (*WordColumn) truncate(int) {}

func (*WordColumn) compact(int) {}

// Build is [Column.Build].
func (k *WordColumn) Build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error) {
	column := arrays.Words{Kind: k.valueKind, Values: arrays.Resized(&k.scratch, len(groups))}
	if k.hasNulls {
		column.Nulls = make([]bool, len(groups))
	}
	for i, group := range groups {
		column.Values[i] = k.At(group)
		if k.hasNulls {
			column.Nulls[i] = k.IsNull(k.Rows, group)
		}
	}
	return column.Build(mem, dt)
}

// EncodedSize is [Column.EncodedSize].
func (*WordColumn) EncodedSize(groups []uint32) int { return 9 * len(groups) }

// Encode is [Column.Encode].
func (k *WordColumn) Encode(w *statebytes.Writer, groups []uint32) {
	flags := w.Extend(len(groups))
	clear(flags)
	if k.hasNulls {
		for i, group := range groups {
			flags[i] = k.flag(k.Rows, group)
		}
	}
	k.EncodeWords(w, groups, 0)
}

// Decode is [Column.Decode].
func (k *WordColumn) Decode(r *statebytes.Reader, groups int) {
	nulls := k.keyFlag.decode(r, k.Rows, groups)
	if k.hasNulls = nulls > 0; k.valueKind == arrays.AnyKind && nulls < groups {
		r.Fail(errors.New("keys of no kind are not null in snapshot"))
		return
	}
	k.DecodeWords(r, groups, 0)
	if !k.hasNulls {
		return
	}
	for group := range uint32(groups) {
		if k.IsNull(k.Rows, group) {
			*k.Word(group, 0) = 0
		}
	}
}

// byteColumn are keys of text and bytes, and of kinds that are compared in
// encoded form. The keys lie behind each other in data, a copy of their own,
// and the row holds where a key starts and ends.
type byteColumn struct {
	Cell
	keyFlag
	valueKind arrays.Kind
	data      []byte

	batch      arrays.Bytes // of the loaded array
	batchNulls arrays.Validity
	encoded    encodedValues
}

func (k *byteColumn) Kind() arrays.Kind { return k.valueKind }

func (*byteColumn) Width() int { return 2 }

// isEncoded reports whether keys are encoded values.
func (k *byteColumn) isEncoded() bool {
	return k.valueKind != arrays.TextKind && k.valueKind != arrays.BytesKind
}

func (k *byteColumn) Load(arr arrow.Array) (err error) {
	k.batchNulls = arrays.ValidityOf(arr)
	if k.isEncoded() {
		k.batch, err = k.encoded.read(arr)
	} else {
		k.batch, err = arrays.ReadBytes(arr)
	}
	return err
}

func (k *byteColumn) mix(hashes []uint64, first int) {
	for i := range hashes {
		if k.batchNulls.IsNull(first + i) {
			hashes[i] = mixNull(hashes[i])
		} else {
			hashes[i] = mixBytes(hashes[i], k.batch.At(first+i))
		}
	}
}

func mixBytes(hash uint64, value []byte) uint64 {
	return mixWord(hash, int64(maphash.Bytes(byteSeed, value)))
}

func (k *byteColumn) mixGroups(hashes []uint64, first uint32) {
	for i, hash := range hashes {
		if group := first + uint32(i); k.IsNull(k.Rows, group) {
			hashes[i] = mixNull(hash)
		} else {
			hashes[i] = mixBytes(hash, k.at(group))
		}
	}
}

// at returns the key of a group; it is never nil.
func (k *byteColumn) at(group uint32) []byte { return k.data[*k.Word(group, 0):*k.Word(group, 1)] }

func (k *byteColumn) equal(group uint32, row int) bool {
	null := k.IsNull(k.Rows, group)
	if k.batchNulls.IsNull(row) {
		return null
	}
	return !null && bytes.Equal(k.at(group), k.batch.At(row))
}

func (k *byteColumn) equalGroups(a, b uint32) bool {
	return k.IsNull(k.Rows, a) == k.IsNull(k.Rows, b) && bytes.Equal(k.at(a), k.at(b))
}

func (k *byteColumn) set(group uint32, row int) {
	*k.Word(group, 0) = uint64(len(k.data))
	if k.batchNulls.IsNull(row) {
		k.SetNull(k.Rows, group)
	} else {
		k.data = append(k.data, k.batch.At(row)...)
	}
	*k.Word(group, 1) = uint64(len(k.data))
}

func (*byteColumn) ExpectNulls() {}

func (k *byteColumn) truncate(groups int) {
	if len(k.Rows.Words) > groups*k.Rows.Stride {
		k.data = k.data[:*k.Word(uint32(groups), 0)]
	}
}

func (k *byteColumn) compact(groups int) {
	size := 0
	for group := range uint32(groups) {
		size += len(k.at(group))
	}
	data := make([]byte, 0, size+size/4)
	for group := range uint32(groups) {
		start := len(data)
		data = append(data, k.at(group)...)
		*k.Word(group, 0), *k.Word(group, 1) = uint64(start), uint64(len(data))
	}
	k.data = data
}

func (k *byteColumn) Build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error) {
	if k.isEncoded() {
		return arrays.Build(mem, dt, len(groups), func(i int) any {
			if k.IsNull(k.Rows, groups[i]) {
				return nil
			}
			reader := statebytes.NewReader(k.at(groups[i]))
			return readValue(reader, 0)
		})
	}
	return arrays.BuildBytes(mem, dt, len(groups), func(i int) []byte {
		if k.IsNull(k.Rows, groups[i]) {
			return nil
		}
		return k.at(groups[i])
	})
}

func (k *byteColumn) EncodedSize(groups []uint32) int { return 9*len(groups) + len(k.data) }

func (k *byteColumn) Encode(w *statebytes.Writer, groups []uint32) {
	out, size := w.Extend(9*len(groups)), uint64(0)
	flags, ends := out[:len(groups)], out[len(groups):]
	for i, group := range groups {
		flags[i] = k.flag(k.Rows, group)
		size += *k.Word(group, 1) - *k.Word(group, 0)
		binary.BigEndian.PutUint64(ends[:8], size)
		ends = ends[8:]
	}
	if size == uint64(len(k.data)) {
		// The keys lie one behind the other in the order of groups.
		w.Append(k.data)
		return
	}
	for _, group := range groups {
		w.Append(k.at(group))
	}
}

func (k *byteColumn) Decode(r *statebytes.Reader, groups int) {
	k.keyFlag.decode(r, k.Rows, groups)
	start, in := uint64(0), r.Take(uint64(groups)*8)
	for group := range uint32(len(in) / 8) {
		end := binary.BigEndian.Uint64(in[8*group:])
		if end < start {
			r.Fail(errors.New("a key has a negative length in snapshot"))
			return
		}
		*k.Word(group, 0), *k.Word(group, 1) = start, end
		start = end
	}
	k.data = append([]byte{}, r.Take(start)...)
	if k.isEncoded() && r.Err() == nil {
		k.checkEncoded(r, groups)
	}
}

// checkEncoded makes sure that encoded keys can be decoded, each to its end.
func (k *byteColumn) checkEncoded(r *statebytes.Reader, groups int) {
	for group := range uint32(groups) {
		if k.IsNull(k.Rows, group) {
			continue
		}
		reader := statebytes.NewReader(k.at(group))
		readValue(reader, 0)
		reader.End()
		r.Fail(reader.Err())
	}
}

// SPDX-License-Identifier: Apache-2.0

package columnar

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

// keyColumn is one key column of all groups, in the order in which the groups
// appeared. Null keys are flagged in the header of the group's row.
type keyColumn interface {
	placeable
	kind() arrays.Kind
	// load makes arr, a plain array, the batch that rows refer to.
	load(arr arrow.Array) error
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
	// expectNulls says that groups may be flagged as null that were not set.
	expectNulls()
	// truncate removes the groups from a number on. Their rows are there still.
	truncate(groups int)
	// compact frees memory behind the removal of groups, whose rows are gone.
	compact(groups int)
	// build returns the keys of groups as an array that the caller owns.
	build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error)
	// encodedSize is at least what encode appends, in bytes.
	encodedSize(groups []uint32) int
	encode(w *statebytes.Writer, groups []uint32)
	decode(r *statebytes.Reader, groups int)
}

// newKeyColumn returns the key column of that index, without groups.
func newKeyColumn(kind arrays.Kind, index int) keyColumn {
	flag := keyFlag(1) << (firstNull + index)
	if kind.IsWord() || kind == arrays.AnyKind {
		return &wordKeys{keyFlag: flag, valueKind: kind}
	}
	return &byteKeys{keyFlag: flag, valueKind: kind, data: []byte{}}
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

func (f keyFlag) isNull(rows *groupRows, group uint32) bool {
	return *rows.header(group)&uint64(f) != 0
}

func (f keyFlag) setNull(rows *groupRows, group uint32) { *rows.header(group) |= uint64(f) }

// flag returns 1 for a null key and 0 for another.
func (f keyFlag) flag(rows *groupRows, group uint32) byte {
	if f.isNull(rows, group) {
		return 1
	}
	return 0
}

// decode returns how many keys are null.
func (f keyFlag) decode(r *statebytes.Reader, rows *groupRows, groups int) (nulls int) {
	for group, flag := range r.Take(uint64(groups)) {
		if flag != 0 {
			f.setNull(rows, uint32(group))
			nulls++
		}
	}
	return nulls
}

// wordKeys are keys of a word kind, a word in each row.
type wordKeys struct {
	cell
	keyFlag
	valueKind arrays.Kind
	hasNulls  bool // some group may have a null key

	batch      []int64 // of the loaded array
	batchNulls arrays.Validity
	scratch    []int64
}

func (k *wordKeys) kind() arrays.Kind { return k.valueKind }

func (*wordKeys) width() int { return 1 }

func (k *wordKeys) load(arr arrow.Array) (err error) {
	k.batchNulls = arrays.ValidityOf(arr)
	k.batch, err = arrays.ReadWords(arr, &k.scratch, equalityWord)
	return err
}

// loadWords makes words without nulls the batch.
func (k *wordKeys) loadWords(words []int64) {
	k.batch, k.batchNulls = words, arrays.Validity{}
}

// plain reports whether neither the batch nor the groups have null keys.
func (k *wordKeys) plain() bool { return !k.hasNulls && !k.batchNulls.HasNulls() }

func (k *wordKeys) mix(hashes []uint64, first int) {
	for i, word := range k.batch[first : first+len(hashes)] {
		if k.batchNulls.IsNull(first + i) {
			hashes[i] = mixNull(hashes[i])
		} else {
			hashes[i] = mixWord(hashes[i], word)
		}
	}
}

func (k *wordKeys) mixGroups(hashes []uint64, first uint32) {
	for i, hash := range hashes {
		if group := first + uint32(i); k.hasNulls && k.isNull(k.rows, group) {
			hashes[i] = mixNull(hash)
		} else {
			hashes[i] = mixWord(hash, k.at(group))
		}
	}
}

func (k *wordKeys) at(group uint32) int64 { return int64(*k.word(group, 0)) }

func (k *wordKeys) equal(group uint32, row int) bool {
	null := k.isNull(k.rows, group)
	if k.batchNulls.IsNull(row) {
		return null
	}
	return !null && k.at(group) == k.batch[row]
}

func (k *wordKeys) equalGroups(a, b uint32) bool {
	return k.at(a) == k.at(b) && k.isNull(k.rows, a) == k.isNull(k.rows, b)
}

func (k *wordKeys) set(group uint32, row int) {
	if k.batchNulls.IsNull(row) {
		k.hasNulls = true
		k.setNull(k.rows, group)
		return
	}
	*k.word(group, 0) = uint64(k.batch[row])
}

func (k *wordKeys) expectNulls() { k.hasNulls = true }

func (*wordKeys) truncate(int) {}

func (*wordKeys) compact(int) {}

func (k *wordKeys) build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error) {
	column := arrays.Words{Kind: k.valueKind, Values: arrays.Resized(&k.scratch, len(groups))}
	if k.hasNulls {
		column.Nulls = make([]bool, len(groups))
	}
	for i, group := range groups {
		column.Values[i] = k.at(group)
		if k.hasNulls {
			column.Nulls[i] = k.isNull(k.rows, group)
		}
	}
	return column.Build(mem, dt)
}

func (*wordKeys) encodedSize(groups []uint32) int { return 9 * len(groups) }

func (k *wordKeys) encode(w *statebytes.Writer, groups []uint32) {
	flags := w.Extend(len(groups))
	clear(flags)
	if k.hasNulls {
		for i, group := range groups {
			flags[i] = k.flag(k.rows, group)
		}
	}
	k.encodeWords(w, groups, 0)
}

func (k *wordKeys) decode(r *statebytes.Reader, groups int) {
	nulls := k.keyFlag.decode(r, k.rows, groups)
	if k.hasNulls = nulls > 0; k.valueKind == arrays.AnyKind && nulls < groups {
		r.Fail(errors.New("keys of no kind are not null in snapshot"))
		return
	}
	k.decodeWords(r, groups, 0)
	if !k.hasNulls {
		return
	}
	for group := range uint32(groups) {
		if k.isNull(k.rows, group) {
			*k.word(group, 0) = 0
		}
	}
}

// byteKeys are keys of text and bytes, and of kinds that are compared in
// encoded form. The keys lie behind each other in data, a copy of their own,
// and the row holds where a key starts and ends.
type byteKeys struct {
	cell
	keyFlag
	valueKind arrays.Kind
	data      []byte

	batch      arrays.Bytes // of the loaded array
	batchNulls arrays.Validity
	encoded    encodedValues
}

func (k *byteKeys) kind() arrays.Kind { return k.valueKind }

func (*byteKeys) width() int { return 2 }

// isEncoded reports whether keys are encoded values.
func (k *byteKeys) isEncoded() bool {
	return k.valueKind != arrays.TextKind && k.valueKind != arrays.BytesKind
}

func (k *byteKeys) load(arr arrow.Array) (err error) {
	k.batchNulls = arrays.ValidityOf(arr)
	if k.isEncoded() {
		k.batch, err = k.encoded.read(arr)
	} else {
		k.batch, err = arrays.ReadBytes(arr)
	}
	return err
}

func (k *byteKeys) mix(hashes []uint64, first int) {
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

func (k *byteKeys) mixGroups(hashes []uint64, first uint32) {
	for i, hash := range hashes {
		if group := first + uint32(i); k.isNull(k.rows, group) {
			hashes[i] = mixNull(hash)
		} else {
			hashes[i] = mixBytes(hash, k.at(group))
		}
	}
}

// at returns the key of a group; it is never nil.
func (k *byteKeys) at(group uint32) []byte { return k.data[*k.word(group, 0):*k.word(group, 1)] }

func (k *byteKeys) equal(group uint32, row int) bool {
	null := k.isNull(k.rows, group)
	if k.batchNulls.IsNull(row) {
		return null
	}
	return !null && bytes.Equal(k.at(group), k.batch.At(row))
}

func (k *byteKeys) equalGroups(a, b uint32) bool {
	return k.isNull(k.rows, a) == k.isNull(k.rows, b) && bytes.Equal(k.at(a), k.at(b))
}

func (k *byteKeys) set(group uint32, row int) {
	*k.word(group, 0) = uint64(len(k.data))
	if k.batchNulls.IsNull(row) {
		k.setNull(k.rows, group)
	} else {
		k.data = append(k.data, k.batch.At(row)...)
	}
	*k.word(group, 1) = uint64(len(k.data))
}

func (*byteKeys) expectNulls() {}

func (k *byteKeys) truncate(groups int) {
	if len(k.rows.words) > groups*k.rows.stride {
		k.data = k.data[:*k.word(uint32(groups), 0)]
	}
}

func (k *byteKeys) compact(groups int) {
	size := 0
	for group := range uint32(groups) {
		size += len(k.at(group))
	}
	data := make([]byte, 0, size+size/4)
	for group := range uint32(groups) {
		start := len(data)
		data = append(data, k.at(group)...)
		*k.word(group, 0), *k.word(group, 1) = uint64(start), uint64(len(data))
	}
	k.data = data
}

func (k *byteKeys) build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error) {
	if k.isEncoded() {
		return arrays.Build(mem, dt, len(groups), func(i int) any {
			if k.isNull(k.rows, groups[i]) {
				return nil
			}
			reader := statebytes.NewReader(k.at(groups[i]))
			return readValue(reader, 0)
		})
	}
	return arrays.BuildBytes(mem, dt, len(groups), func(i int) []byte {
		if k.isNull(k.rows, groups[i]) {
			return nil
		}
		return k.at(groups[i])
	})
}

func (k *byteKeys) encodedSize(groups []uint32) int { return 9*len(groups) + len(k.data) }

func (k *byteKeys) encode(w *statebytes.Writer, groups []uint32) {
	out, size := w.Extend(9*len(groups)), uint64(0)
	flags, ends := out[:len(groups)], out[len(groups):]
	for i, group := range groups {
		flags[i] = k.flag(k.rows, group)
		size += *k.word(group, 1) - *k.word(group, 0)
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

func (k *byteKeys) decode(r *statebytes.Reader, groups int) {
	k.keyFlag.decode(r, k.rows, groups)
	start, in := uint64(0), r.Take(uint64(groups)*8)
	for group := range uint32(len(in) / 8) {
		end := binary.BigEndian.Uint64(in[8*group:])
		if end < start {
			r.Fail(errors.New("a key has a negative length in snapshot"))
			return
		}
		*k.word(group, 0), *k.word(group, 1) = start, end
		start = end
	}
	k.data = append([]byte{}, r.Take(start)...)
	if k.isEncoded() && r.Err() == nil {
		k.checkEncoded(r, groups)
	}
}

// checkEncoded makes sure that encoded keys can be decoded, each to its end.
func (k *byteKeys) checkEncoded(r *statebytes.Reader, groups int) {
	for group := range uint32(groups) {
		if k.isNull(k.rows, group) {
			continue
		}
		reader := statebytes.NewReader(k.at(group))
		readValue(reader, 0)
		reader.End()
		r.Fail(reader.Err())
	}
}

// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
)

// keyIndex numbers the keys of a join and holds, for each key, a list of the
// rows of each side. Changes to lists are remembered since the latest commit.
type keyIndex struct {
	table keytable.Table
	lists listCells
	// compactAt is the number of rows from which on it is worth looking for rows
	// that are not kept any more.
	compactAt int

	committed int // keys
	undo      []listUndo
	ids       []uint32
}

// listCells is the place of two lists in the row of a key: for each side the
// first and the last row, counted from 1, in one word.
type listCells struct{ keytable.Cell }

func (*listCells) Width() int { return 2 }

// unsorted is the flag in the header of a key that says that the list of a side
// is not in the order of time.
func unsorted(side int) uint64 { return 1 << (keytable.FirstNull + 1 + side) }

// rowList is the list of rows of one side with one key.
type rowList struct {
	head, tail uint32 // keytable.None if the list is empty
	sorted     bool   // by time
}

// listUndo is a list as it was.
type listUndo struct {
	id     uint32
	side   int
	former rowList
}

func newKeyIndex(kind arrays.Kind) *keyIndex {
	k := &keyIndex{compactAt: keytable.MinCompaction}
	k.table = keytable.New(keytable.MaxGroups)
	k.arrange(kind)
	return k
}

// arrange makes the keys ones of a kind; there are none yet.
func (k *keyIndex) arrange(kind arrays.Kind) {
	k.table.Keys = []keytable.Column{keytable.NewColumn(kind, 0)}
	k.table.Rows.Reshape(0)
	k.table.Rows.Relayout([]keytable.Placeable{k.table.Keys[0], &k.lists}, nil)
}

func (k *keyIndex) kind() arrays.Kind { return k.table.Keys[0].Kind() }

// accept makes the keys take values of a type. Both sides have keys of one
// kind.
func (k *keyIndex) accept(dt arrow.DataType) error {
	kind := arrays.KindOf(dt)
	switch {
	case kind == arrays.AnyKind || kind == k.kind():
		return nil
	case k.table.Groups > 0:
		return fmt.Errorf("the join key is of type %s, but keys so far are of kind %s", dt, k.kind())
	}
	k.arrange(kind)
	return nil
}

// lookup returns the numbers of the keys in a plain array without nulls. The
// result is valid until the next call.
func (k *keyIndex) lookup(arr arrow.Array) ([]uint32, error) {
	ids := arrays.Resized(&k.ids, arr.Len())
	if len(ids) == 0 {
		return ids, nil
	}
	if err := k.table.Keys[0].Load(arr); err != nil {
		return nil, err
	}
	for first := 0; first < len(ids); first += keytable.ChunkRows {
		if err := k.table.Lookup(ids[first:min(first+keytable.ChunkRows, len(ids))], first); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (k *keyIndex) list(side int, id uint32) rowList {
	word := *k.lists.Word(id, side)
	return rowList{
		head: uint32(word>>32) - 1, tail: uint32(word) - 1,
		sorted: *k.table.Rows.Header(id)&unsorted(side) == 0,
	}
}

// set changes a list.
func (k *keyIndex) set(side int, id uint32, list rowList) {
	if int(id) < k.committed {
		k.undo = append(k.undo, listUndo{id: id, side: side, former: k.list(side, id)})
	}
	k.put(side, id, list)
}

func (k *keyIndex) put(side int, id uint32, list rowList) {
	*k.lists.Word(id, side) = uint64(list.head+1)<<32 | uint64(list.tail+1)
	header := k.table.Rows.Header(id)
	if *header &^= unsorted(side); !list.sorted {
		*header |= unsorted(side)
	}
}

// link appends a row of a side to the list of its key.
func (k *keyIndex) link(side int, id, row uint32, of *sideRows) {
	list := k.list(side, id)
	if list.head == keytable.None {
		list.head, list.sorted = row, true
	} else {
		of.rows[list.tail].next = row
		list.sorted = list.sorted && of.rows[list.tail].time <= of.rows[row].time
	}
	list.tail = row
	k.set(side, id, list)
}

// skip takes rows off the beginning of a list as long as dead is true for them,
// and returns what is left.
func (k *keyIndex) skip(side int, id uint32, of *sideRows, dead func(row uint32) bool) rowList {
	list := k.list(side, id)
	head := list.head
	for head != keytable.None && dead(head) {
		head = of.rows[head].next
	}
	if head == list.head {
		return list
	}
	if list.head = head; head == keytable.None {
		list.tail = keytable.None
	}
	k.set(side, id, list)
	return list
}

func (k *keyIndex) mark() {
	k.committed = k.table.Groups
	k.undo = k.undo[:0]
}

func (k *keyIndex) rollback(sides [2]*sideRows) {
	for i := len(k.undo) - 1; i >= 0; i-- {
		undo := k.undo[i]
		k.put(undo.side, undo.id, undo.former)
		if undo.former.tail != keytable.None {
			sides[undo.side].rows[undo.former.tail].next = keytable.None
		}
	}
	k.table.Truncate(k.committed)
	k.mark()
}

// keep leaves only the keys that are used, with empty lists, and returns their
// numbers by the numbers that they had.
func (k *keyIndex) keep(used []bool) []uint32 {
	keys, numbers := numbered(used)
	k.table.Keep(keys)
	for id := range uint32(len(keys)) {
		k.put(0, id, rowList{head: keytable.None, tail: keytable.None, sorted: true})
		k.put(1, id, rowList{head: keytable.None, tail: keytable.None, sorted: true})
	}
	// What is remembered belongs to the numbers before.
	k.committed = 0
	return numbers
}

// numbered returns the positions that are used, and the number of each used
// position among them.
func numbered(used []bool) (positions, numbers []uint32) {
	numbers = make([]uint32, len(used))
	for i, isUsed := range used {
		if numbers[i] = math.MaxUint32; isUsed {
			numbers[i] = uint32(len(positions))
			positions = append(positions, uint32(i))
		}
	}
	return positions, numbers
}

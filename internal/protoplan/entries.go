// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"bytes"
	"cmp"
	"errors"
	"strconv"
)

// errNoRoom ends a message for which the set has no room.
var errNoRoom = errors.New("a column is full")

// fewEntries bounds the maps whose keys are compared with each other.
const fewEntries = 16

// parseEntry reads an entry of a map into the columns of keys and values.
func (f *field) parseEntry(body []byte, at int) (int, error) {
	from, to, err := block(body, at)
	if err != nil {
		return 0, err
	}
	if err := f.addEntry(body[:to], from); err != nil {
		return 0, f.keyed(err)
	}
	f.spans = append(f.spans, span{from, to})
	if f.column.Len() != f.list.ListStart()+len(f.spans) {
		return 0, errNoRoom
	}
	if keys := f.column.Len(); f.sorted && len(f.spans) > 1 && f.compareKeys(keys-2, keys-1) >= 0 {
		f.sorted = false
	}
	return to, nil
}

func (f *field) addEntry(body []byte, at int) error {
	if _, err := f.child.parse(body, at, 0); err != nil {
		return err
	}
	return f.child.commit(body)
}

// compareKeys compares the keys of two entries.
func (f *field) compareKeys(a, b int) int {
	if f.child.fields[0].storage == storeBytes {
		return bytes.Compare(f.column.Text(a), f.column.Text(b))
	}
	return cmp.Compare(f.column.Number(a), f.column.Number(b))
}

// keyed puts the place of an entry in front of the path of an error.
func (f *field) keyed(err error) error {
	return under(err, "["+strconv.Itoa(len(f.spans))+"]")
}

// commitMap ends a map. Of entries with equal keys the last one stays, at its own
// place.
func (f *field) commitMap(body []byte) error {
	if !f.sorted {
		if kept := f.lastEntries(); len(kept) < len(f.spans) {
			f.list.Truncate(f.list.Len())
			for _, at := range kept {
				if err := f.addEntry(body[:at.end], at.start); err != nil {
					return err
				}
			}
		}
	}
	f.spans, f.sorted = f.spans[:0], true
	f.list.EndList()
	return nil
}

// lastEntries returns the entries whose keys do not come again, in order.
func (f *field) lastEntries() []span {
	first := f.column.Len() - len(f.spans)
	again := make([]bool, len(f.spans))
	if len(f.spans) <= fewEntries {
		for i := range f.spans {
			for j := i + 1; j < len(f.spans) && !again[i]; j++ {
				again[i] = f.compareKeys(first+i, first+j) == 0
			}
		}
	} else {
		f.markRepeated(first, again)
	}
	var kept []span
	for i, at := range f.spans {
		if !again[i] {
			kept = append(kept, at)
		}
	}
	return kept
}

// markRepeated marks the keys from row first on that come again.
func (f *field) markRepeated(first int, again []bool) {
	if f.child.fields[0].storage == storeBytes {
		seen := make(map[string]struct{}, len(again))
		for i := len(again) - 1; i >= 0; i-- {
			key := string(f.column.Text(first + i))
			_, again[i] = seen[key]
			seen[key] = struct{}{}
		}
		return
	}
	seen := make(map[uint64]struct{}, len(again))
	for i := len(again) - 1; i >= 0; i-- {
		key := f.column.Number(first + i)
		_, again[i] = seen[key]
		seen[key] = struct{}{}
	}
}

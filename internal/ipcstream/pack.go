// SPDX-License-Identifier: Apache-2.0

package ipcstream

import (
	"fmt"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Packer cuts the rows of a batch into streams of a bounded size.
type Packer struct {
	mem     memory.Allocator
	layouts *Layouts
	batch   arrow.RecordBatch
	encoder *Encoder
	limit   int
}

// NewPacker returns a packer whose streams have limit bytes at most. It uses the batch
// until it is released.
func NewPacker(mem memory.Allocator, layouts *Layouts, batch arrow.RecordBatch, limit int) (*Packer, error) {
	encoder, err := NewEncoder(mem, layouts, batch)
	if err != nil {
		return nil, fmt.Errorf("cannot write Arrow IPC stream: %w", err)
	}
	return &Packer{mem: mem, layouts: layouts, batch: batch, encoder: encoder, limit: limit}, nil
}

// Release releases what the packer holds of the batch.
func (p *Packer) Release() { p.encoder.Release() }

// Pack calls add for each stream of the rows from up to, not including, to, with the
// first of its rows. A stream has as many rows as the limit allows; a row that exceeds
// the limit on its own is an error.
func (p *Packer) Pack(from, to int, add func(row int, stream []byte) error) error {
	for from < to {
		end := to
		if p.encoder.Size(from, to) > p.limit {
			// The largest number of rows whose stream is within the limit.
			end = from + sort.Search(to-from-1, func(i int) bool { return p.encoder.Size(from, from+i+1) > p.limit })
		}
		if end == from {
			return p.packApart(from, to, add)
		}
		if err := add(from, p.encoder.Encode(from, end)); err != nil {
			return err
		}
		from = end
	}
	return nil
}

// packApart packs rows whose dictionaries are too large for one stream: each stream
// then has dictionaries of its own.
func (p *Packer) packApart(from, to int, add func(row int, stream []byte) error) error {
	if !p.encoder.HasDictionaries() {
		return p.tooLarge()
	}
	rows := p.batch.NewSlice(int64(from), int64(to))
	defer rows.Release()
	encoder, err := NewEncoder(p.mem, p.layouts, rows)
	if err != nil {
		return fmt.Errorf("cannot write Arrow IPC stream: %w", err)
	}
	defer encoder.Release()
	if encoder.Size(0, to-from) <= p.limit {
		return add(from, encoder.Encode(0, to-from))
	}
	if to-from == 1 {
		return p.tooLarge()
	}
	middle := from + (to-from)/2
	if err := p.packApart(from, middle, add); err != nil {
		return err
	}
	return p.packApart(middle, to, add)
}

func (p *Packer) tooLarge() error {
	return fmt.Errorf("one Arrow row exceeds maxRecordBytes=%d", p.limit)
}

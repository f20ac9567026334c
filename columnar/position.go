// SPDX-License-Identifier: Apache-2.0

package columnar

// position is how far one topic partition has come: where the state stands, where
// the consumer stands, and what the group has committed.
//
// The three are not the same: a record waits between its delivery and the round
// that processes it, a failed round leaves the delivered offset ahead of the
// processed one, and offsets without a record move the consumer alone.
type position struct {
	// known says whether processed, ceiling and delivered are.
	known bool
	// processed is where the state stands: behind the last record that a committed
	// round processed, or at the last barrier. The first uncommitted record has
	// this offset or a later one.
	processed int64
	// ceiling is above the offset of every record in the state. It equals processed
	// where nobody can tell whether the offsets right below held records.
	ceiling int64
	// delivered is where the consumer stands: behind the last record that it
	// handed out, and behind the offsets without a record that follow.
	delivered int64

	// committed is the group's committed offset, if hasCommitted.
	committed    int64
	hasCommitted bool
}

// stand says that the state stands at offset, which is also the next one to be
// delivered: any offset below it may be that of a record in the state.
func (p *position) stand(offset int64) {
	p.known, p.processed, p.ceiling, p.delivered = true, offset, offset, offset
}

// begin says that delivery begins at offset and that the state has no record of
// the topic partition.
func (p *position) begin(offset int64) {
	p.stand(offset)
	p.ceiling = 0
}

// processedTo moves the state to offset. last is the offset of the last record
// that it takes in; -1 where it takes in none.
func (p *position) processedTo(offset, last int64) {
	p.ceiling = max(p.ceiling, last+1)
	p.processed = max(p.processed, offset)
	p.delivered = max(p.delivered, p.processed)
}

// commit notes what the group has committed.
func (p *position) commit(offset int64) { p.committed, p.hasCommitted = offset, true }

// contains reports whether the state may contain a record at offset or behind it.
func (p *position) contains(offset int64) bool { return p.known && p.ceiling > offset }

// uncommitted reports whether offset is above the committed one.
func (p *position) uncommitted(offset int64) bool { return !p.hasCommitted || offset > p.committed }

// idle reports whether everything that was delivered has been processed.
func (p *position) idle() bool { return p.delivered == p.processed }

// stored is the offset that a snapshot of the committed state stands for: the
// group's where it has committed, and the processed one elsewhere.
func (p *position) stored() int64 {
	if p.hasCommitted {
		return min(p.committed, p.processed)
	}
	return p.processed
}

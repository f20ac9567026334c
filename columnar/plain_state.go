// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/krabka-io/krabka-streams-go/internal/statefile"
)

// plainPositions is the entry in a snapshot of a plain [StateStore] that says at
// which committed offsets the state stands. No node has the name.
const plainPositions = "\x00positions"

// plainState returns the state of a partition for a store that knows no positions,
// with those that the group has committed. Where the consumer cannot tell them when
// the state is loaded, they are left out.
func (o *ownership) plainState(p *logicalPartition) (map[string][]byte, error) {
	state, err := o.topology.SnapshotPartition(p.number)
	if err != nil || o.committed == nil || !o.shape.stateful {
		return state, err
	}
	var positions []statefile.Position
	for _, progress := range p.inOrder() {
		if progress.hasCommitted {
			positions = append(positions, statefile.Position{Topic: progress.Topic, Partition: progress.Partition, Offset: progress.committed})
		}
	}
	text, err := json.Marshal(positions)
	if err != nil {
		return nil, err
	}
	state = maps.Clone(state)
	state[plainPositions] = text
	return state, nil
}

// splitPlainState takes the positions out of a snapshot of a plain store. They are
// nil where it has none.
func splitPlainState(stored map[string][]byte) (state map[string][]byte, positions []statefile.Position, err error) {
	text, ok := stored[plainPositions]
	if !ok {
		return stored, nil, nil
	}
	if err := json.Unmarshal(text, &positions); err != nil {
		return nil, nil, fmt.Errorf("positions of the stored state cannot be read: %w", err)
	}
	if positions == nil {
		positions = []statefile.Position{}
	}
	state = maps.Clone(stored)
	delete(state, plainPositions)
	return state, positions, nil
}

// stray returns why state that stands at positions is not that of the committed
// offsets, or nil.
func stray(positions []statefile.Position, committed map[TopicPartition]int64, p *logicalPartition) error {
	for _, tp := range p.partitions() {
		at := slices.IndexFunc(positions, func(s statefile.Position) bool { return s.Topic == tp.Topic && s.Partition == tp.Partition })
		offset, ok := committed[tp]
		switch {
		case at < 0 && ok:
			return fmt.Errorf("the stored state is from before the first commit of %s/%d", tp.Topic, tp.Partition)
		case at >= 0 && !ok:
			return fmt.Errorf("the stored state stands at offset %d of %s/%d, where nothing is committed", positions[at].Offset, tp.Topic, tp.Partition)
		case at >= 0 && positions[at].Offset != offset:
			return fmt.Errorf("the stored state stands at offset %d of %s/%d", positions[at].Offset, tp.Topic, tp.Partition)
		}
	}
	return nil
}

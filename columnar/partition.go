// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/joining"
)

// partitionState is what a topology holds for one logical partition.
type partitionState struct {
	mu sync.Mutex // held while the partition runs or is looked at; guards all below

	nodes []instance // by node index
	// committed says whether the partition existed at the latest commit.
	committed bool
	// pending says whether there are changes since the latest commit.
	pending bool
	// broken says why the partition cannot run before it is rolled back,
	// restored or released.
	broken error
	// gone says that the partition was released while a caller waited for mu.
	gone bool
}

// instance is one node in one logical partition. Nodes that need none of it
// have the zero value.
type instance struct {
	operator  *BuiltinOp
	processor Processor
	join      *joining.State
	state     keeper // nil for a node without state
}

// newInstances makes what one logical partition needs of each node. spares are
// processors of the user that exist already.
func newInstances(nodes []*node, spares map[int]Processor, mem memory.Allocator) []instance {
	instances := make([]instance, len(nodes))
	for i, n := range nodes {
		if spare, ok := spares[i]; ok {
			instances[i] = instanceOf(spare)
		} else {
			instances[i] = newInstance(n, mem)
		}
	}
	return instances
}

func newInstance(n *node, mem memory.Allocator) instance {
	switch n.kind {
	case operatorNode:
		operator := n.operator.fresh()
		return instance{operator: operator, state: operator.keeper()}
	case processorNode:
		return instanceOf(n.newProcessor())
	case joinNode:
		join := joining.New(n.join.spec(), mem)
		return instance{join: join, state: join}
	default:
		return instance{}
	}
}

// restore replaces the state of the instance, if it has any, as a pending
// change.
func (i instance) restore(snapshot []byte) error {
	switch {
	case i.state != nil:
		if err := i.state.Begin(); err != nil {
			return err
		}
		return i.state.Restore(snapshot)
	case i.operator != nil:
		return i.operator.Restore(snapshot)
	default:
		return nil
	}
}

func (p *partitionState) commit() {
	for _, n := range p.nodes {
		if n.state != nil {
			n.state.Commit()
		}
	}
	p.pending = false
	p.committed = true
}

func (p *partitionState) rollback() error {
	var failed error
	for _, n := range p.nodes {
		if n.state != nil {
			failed = errors.Join(failed, n.state.Rollback())
		}
	}
	p.pending = false
	p.broken = failed
	return failed
}

// processorState keeps the state of a processor that the user wrote.
type processorState struct {
	processor StatefulProcessor
	// reversible is processor if it can take back changes itself.
	reversible ReversibleProcessor
	// saved is the state of the latest commit, if taken.
	saved []byte
	taken bool
}

// instanceOf returns the instance for what a user's factory made. An operator
// of this package is run as one, so that its changes stay pending like those
// of other nodes.
func instanceOf(processor Processor) instance {
	if operator, ok := processor.(*BuiltinOp); ok && operator.check() == nil {
		return instance{processor: processor, operator: operator, state: operator.keeper()}
	}
	stateful, ok := processor.(StatefulProcessor)
	if !ok {
		return instance{processor: processor}
	}
	reversible, _ := processor.(ReversibleProcessor)
	return instance{processor: processor, state: &processorState{processor: stateful, reversible: reversible}}
}

func (s *processorState) Begin() error {
	if s.reversible != nil {
		return nil
	}
	return s.take()
}

func (s *processorState) take() error {
	if s.taken {
		return nil
	}
	saved, err := s.processor.Snapshot()
	if err != nil {
		return err
	}
	s.saved, s.taken = saved, true
	return nil
}

func (s *processorState) Commit() {
	s.saved, s.taken = nil, false
	if s.reversible != nil {
		s.reversible.Commit()
	}
}

func (s *processorState) Rollback() error {
	switch {
	case s.taken:
		if err := s.processor.Restore(s.saved); err != nil {
			return err
		}
		s.saved, s.taken = nil, false
		return nil
	case s.reversible != nil:
		return s.reversible.Rollback()
	default:
		return nil
	}
}

func (s *processorState) Snapshot() ([]byte, error) { return s.processor.Snapshot() }

func (s *processorState) Restore(snapshot []byte) error {
	if err := s.take(); err != nil {
		return err
	}
	return s.processor.Restore(snapshot)
}

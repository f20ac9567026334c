// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Processor is a step of a topology that is written by the user.
//
// Process is called once per incoming batch and forwards any number of
// batches, the input among them if it likes. The input belongs to the caller
// and is valid until Process returns; retain it to keep it. A forwarded batch
// is handed over: its creator must not release it. A batch that was created
// and not forwarded is the processor's to release. When Process returns an
// error, everything it forwarded is released and the records of the run are
// not produced.
//
// A topology makes one processor per logical partition and never calls it from
// two goroutines at a time. Process must not call the topology it runs in. A
// panic is not recovered: the batches of the run are released, the partition
// is rolled back, and the panic goes on.
type Processor interface {
	// Process handles one batch of the parent node and forwards what comes of it.
	Process(ctx *Context, batch arrow.RecordBatch) error
}

// ProcessorFunc is a [Processor] without state.
type ProcessorFunc func(ctx *Context, batch arrow.RecordBatch) error

// Process calls f.
func (f ProcessorFunc) Process(ctx *Context, batch arrow.RecordBatch) error { return f(ctx, batch) }

// StatefulProcessor is a [Processor] with state that belongs to a logical
// partition: the state is saved and restored with it, and returns to what it
// was when a run fails.
//
// A processor that cannot take back its changes itself is asked for a snapshot
// before the first run behind a commit, and is restored from it when the run
// fails. Implement [ReversibleProcessor] where that is too expensive.
type StatefulProcessor interface {
	Processor
	// Snapshot returns the state as bytes, which the caller owns.
	Snapshot() ([]byte, error)
	// Restore replaces the state by that of a snapshot, which it does not keep.
	// When it returns an error the state should be what it was.
	Restore(snapshot []byte) error
}

// ReversibleProcessor is a [StatefulProcessor] that remembers what it changed
// since the latest commit, so that a failed run costs what changed and not
// what is held.
type ReversibleProcessor interface {
	StatefulProcessor
	// Commit makes all changes so far permanent.
	Commit()
	// Rollback returns the state to what it was at the latest Commit, or when
	// the processor was made or restored, if that is later.
	Rollback() error
}

// TimeAdvancer is a [Processor] that acts on an advance of event time which no
// record brings: see [BuiltTopology.AdvanceTime].
type TimeAdvancer interface {
	Processor
	// AdvanceTime says that no record before timestamp, in milliseconds, is
	// expected. The rules for forwarding are those of Process.
	AdvanceTime(ctx *Context, timestamp int64) error
}

// Context is what a [Processor] is given besides its input. The zero value
// collects batches for [Context.Take], so that a processor can be called
// without a topology. A Context is not safe for concurrent use and is valid
// until the call that it was passed to returns.
type Context struct {
	forwarded []arrow.RecordBatch
	mem       memory.Allocator
	partition int
	pending   <-chan struct{}
}

// Forward passes batch to the children of the node and takes ownership of it,
// unless batch is the input of the call. A batch that is forwarded twice is
// processed twice and released once. Forwarding nil does nothing.
func (c *Context) Forward(batch arrow.RecordBatch) {
	if batch != nil {
		c.forwarded = append(c.forwarded, batch)
	}
}

// Take returns what was forwarded so far and forgets it. It is for calling a
// processor without a topology; the caller then owns each distinct batch but
// the input.
func (c *Context) Take() []arrow.RecordBatch {
	forwarded := c.forwarded
	c.forwarded = nil
	return forwarded
}

// Allocator returns the topology's allocator, or the default allocator outside
// a topology.
func (c *Context) Allocator() memory.Allocator {
	if c.mem == nil {
		return memory.DefaultAllocator
	}
	return c.mem
}

// RebalancePending returns a channel that is closed when a rebalance of the
// consumer group waits for the round to end: what takes long should be cut
// short, with a retriable error if need be. A member that lets the group wait
// for longer than the rebalance timeout loses its partitions, and its round is
// in vain. The channel is nil, so never ready, outside a [GroupRunner] and with a
// consumer that is no [RebalanceNotifier].
func (c *Context) RebalancePending() <-chan struct{} { return c.pending }

// Partition returns the logical partition that is processed.
func (c *Context) Partition() int { return c.partition }

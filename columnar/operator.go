// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/grouping"
)

// kernel is the work of an operator: one batch in, one batch out.
type kernel interface {
	// Process returns a batch that the caller owns. It does not release its
	// input and may return another reference to it.
	Process(batch arrow.RecordBatch) (arrow.RecordBatch, error)
}

// keeper is state of one node in one logical partition. Changes stay pending
// until Commit or Rollback.
type keeper interface {
	// Begin is called before changes are made.
	Begin() error
	// Commit makes the pending changes permanent.
	Commit()
	// Rollback takes all pending changes back.
	Rollback() error
	Snapshot() ([]byte, error)
	// Restore replaces the state. It is a pending change like any other, and
	// changes nothing when it fails.
	Restore(snapshot []byte) error
}

// timeKernel is a kernel that has results to give when time advances without
// records. A nil batch means that there are none.
type timeKernel interface {
	kernel
	Advance(timestamp int64) (arrow.RecordBatch, error)
}

// BuiltinOp is an operator of this package: a [StatefulProcessor] that
// forwards exactly one batch for each input batch. One BuiltinOp holds one
// state; a topology makes its own for each logical partition from the one that
// is passed to [Topology.AddOperator]. A BuiltinOp is not safe for concurrent
// use.
type BuiltinOp struct {
	kernel kernel
	// create makes the kernel of an independent operator.
	create func() kernel
	// layout identifies the form of the operator's state; empty without state.
	layout string
	// about says in a few words, for people, what the operator does.
	about string
	// err is what is wrong with the arguments, for constructors that return no
	// error themselves.
	err error
}

var _ StatefulProcessor = (*BuiltinOp)(nil)

func newOperator(about, layout string, create func() kernel) *BuiltinOp {
	return &BuiltinOp{kernel: create(), create: create, layout: layout, about: about}
}

// invalidOperator is an operator that reports err wherever it is used.
func invalidOperator(err error) *BuiltinOp {
	return &BuiltinOp{err: err}
}

// fresh returns an operator with the same configuration and no state.
func (o *BuiltinOp) fresh() *BuiltinOp {
	return newOperator(o.about, o.layout, o.create)
}

// groupBy returns the operator's kernel if it is a group-by.
func (o *BuiltinOp) groupBy() (*grouping.Operator, bool) {
	g, ok := o.kernel.(*grouping.Operator)
	return g, ok
}

// dropsLateRows reports whether the operator has windows.
func (o *BuiltinOp) dropsLateRows() bool {
	g, ok := o.groupBy()
	return ok && g.Windowed()
}

// check returns what keeps the operator from being used.
func (o *BuiltinOp) check() error {
	if o.err == nil && o.kernel == nil {
		return errors.New("operator was not made by a constructor")
	}
	return o.err
}

// keeper returns the operator's state, or nil.
func (o *BuiltinOp) keeper() keeper {
	state, _ := o.kernel.(keeper)
	return state
}

// Process computes the result for batch and forwards it. It does not release
// batch. When it returns an error, nothing is forwarded and the state is what
// it was before.
func (o *BuiltinOp) Process(ctx *Context, batch arrow.RecordBatch) error {
	if err := o.check(); err != nil {
		return err
	}
	result, err := atomically(o.keeper(), func() (arrow.RecordBatch, error) { return o.kernel.Process(batch) })
	if err != nil {
		return err
	}
	if result == batch {
		// The context takes no ownership of the input, so a result that is the
		// input travels under a handle of its own.
		result = batch.NewSlice(0, batch.NumRows())
		batch.Release()
	}
	ctx.Forward(result)
	return nil
}

// AdvanceTime tells the operator that no row before timestamp, in
// milliseconds, is expected, and forwards the windows that this closes, if the
// operator emits closed windows. Operators without windows do nothing.
func (o *BuiltinOp) AdvanceTime(ctx *Context, timestamp int64) error {
	if err := o.check(); err != nil {
		return err
	}
	timed, ok := o.kernel.(timeKernel)
	if !ok {
		return nil
	}
	result, err := atomically(o.keeper(), func() (arrow.RecordBatch, error) { return timed.Advance(timestamp) })
	if err != nil {
		return err
	}
	ctx.Forward(result)
	return nil
}

// atomically commits what change does to the state, or takes it back when
// change fails.
func atomically[T any](state keeper, change func() (T, error)) (T, error) {
	if state == nil {
		return change()
	}
	var none T
	if err := state.Begin(); err != nil {
		return none, err
	}
	result, err := change()
	if err != nil {
		return none, errors.Join(err, state.Rollback())
	}
	state.Commit()
	return result, nil
}

// Snapshot returns the operator's state as bytes that the caller owns. An
// operator without state returns nil.
func (o *BuiltinOp) Snapshot() ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if state := o.keeper(); state != nil {
		return state.Snapshot()
	}
	return nil, nil
}

// Restore replaces the operator's state by that of a snapshot. When it returns
// an error the state is what it was. An operator without state accepts only an
// empty snapshot.
func (o *BuiltinOp) Restore(snapshot []byte) error {
	if err := o.check(); err != nil {
		return err
	}
	state := o.keeper()
	if state == nil {
		if len(snapshot) > 0 {
			return errors.New("cannot restore state into a stateless operator")
		}
		return nil
	}
	_, err := atomically(state, func() (struct{}, error) { return struct{}{}, state.Restore(snapshot) })
	return err
}

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

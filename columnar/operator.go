// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"

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

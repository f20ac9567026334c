// SPDX-License-Identifier: Apache-2.0

package coordination

import "time"

// Observer is a set of functions that [WithObserver] calls. A nil function
// costs nothing.
//
// The functions run on the goroutine that did the work, with no lock held, and
// may be called by several goroutines at once. A function that blocks holds up
// the renewal of the lease. It may call any method of a [Leadership] that does
// not write.
type Observer struct {
	// Called runs after every call to the transport.
	Called func(CallEvent)

	// BackedOff runs before a challenger that lost several times in a row
	// waits.
	BackedOff func(BackoffEvent)

	// Acquired runs when a member holds the role.
	Acquired func(*Leadership)

	// Ended runs once when a leadership ends, with the reason that
	// [Leadership.Err] returns.
	Ended func(l *Leadership, reason error)

	// Regressed runs when a minted token does not rank above the token of the
	// lease in the log, which happens when the coordinator moved to a broker
	// with a smaller block of producer ids. Readers that compare tokens are
	// misled; readers that compare sequences are not.
	Regressed func(role Role, minted, logged FencingToken)

	// Duplicated runs when the log shows that another live process uses the
	// id of this member.
	Duplicated func(role Role, member MemberID, other FencingToken)
}

// Operation names a call to the transport.
type Operation string

// The calls that a [CallEvent] reports.
const (
	OperationRead         Operation = "read"
	OperationRegister     Operation = "register"
	OperationDeregister   Operation = "deregister"
	OperationMint         Operation = "mint"
	OperationDescribe     Operation = "describe"
	OperationWriteLease   Operation = "write lease"
	OperationClearLease   Operation = "clear lease"
	OperationWriteRecords Operation = "write records"
)

// CallEvent reports one call to the transport.
type CallEvent struct {
	Operation Operation
	Role      Role

	// Member is the member that made the call, and zero for a call of an
	// outsider.
	Member MemberID

	// Token is the token that the call was made under, or the one that it
	// returned, and [NoEpoch] for a call without one.
	Token FencingToken

	Duration time.Duration // the time the call took
	Records  int           // number of records read or written
	Bytes    int           // of the keys and values of those records

	// Err is the error of the call. It matches [ErrFenced] when the broker
	// rejected the token.
	Err error
}

// BackoffEvent reports a challenger that waits after several fences in a row.
type BackoffEvent struct {
	Role   Role          // the role that the member competes for
	Member MemberID      // the member that waits
	Fences int           // number of mints in a row that another member superseded
	Delay  time.Duration // how long the member waits
}

// observers calls the same function of several observers in order.
type observers []Observer

func (os observers) called(event CallEvent) {
	for _, o := range os {
		if o.Called != nil {
			o.Called(event)
		}
	}
}

func (os observers) backedOff(event BackoffEvent) {
	for _, o := range os {
		if o.BackedOff != nil {
			o.BackedOff(event)
		}
	}
}

func (os observers) acquired(l *Leadership) {
	for _, o := range os {
		if o.Acquired != nil {
			o.Acquired(l)
		}
	}
}

func (os observers) ended(l *Leadership, reason error) {
	for _, o := range os {
		if o.Ended != nil {
			o.Ended(l, reason)
		}
	}
}

func (os observers) regressed(role Role, minted, logged FencingToken) {
	for _, o := range os {
		if o.Regressed != nil {
			o.Regressed(role, minted, logged)
		}
	}
}

func (os observers) duplicated(role Role, member MemberID, other FencingToken) {
	for _, o := range os {
		if o.Duplicated != nil {
			o.Duplicated(role, member, other)
		}
	}
}

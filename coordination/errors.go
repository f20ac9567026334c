// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
)

// ErrFenced reports that the broker refused a write, because the epoch of the
// writer is not the newest epoch of its role.
//
// A fence is the expected end of a leadership. Another member minted an epoch,
// or the coordinator aborted a transaction of this member that stayed open
// past its timeout and moved the epoch on; the wrapped detail says which when
// the broker tells. A [LeaseWriter] wraps this error for the broker codes
// INVALID_PRODUCER_EPOCH (47), INVALID_PRODUCER_ID_MAPPING (49) and
// PRODUCER_FENCED (90). No clock takes part in the check. Every further write
// under the same epoch is rejected as well, so the caller stops the work of
// the role at once.
var ErrFenced = errors.New("fenced: another member holds the role")

// ErrNotHeld reports that a caller asked a [*Leadership] to act after the
// leadership ended. The end of a resigned leadership matches it too.
var ErrNotHeld = errors.New("the member no longer holds the role")

// ErrLeaseExpired reports that no renewal was acknowledged before the
// deadline of the lease. A leadership that ends for this reason was not
// necessarily superseded: standbys are free to challenge, and the broker
// accepts the epoch until one of them does.
var ErrLeaseExpired = errors.New("the lease expired before a renewal was acknowledged")

// ErrDuplicateMember reports that another live process competes for the role
// under the same member id. It matches [ErrFenced]. Give every instance an id
// of its own, and keep that id across restarts of the instance.
var ErrDuplicateMember = fmt.Errorf("another process uses the same member id: %w", ErrFenced)

// ErrTransportClosed reports a call on a [Transport] that its owner closed. A
// leadership whose transport is closed ends with a reason that matches it.
var ErrTransportClosed = errors.New("the coordination transport is closed")

// ErrOutcomeUnknown reports a write that the cluster may or may not have
// committed. [*OutcomeUnknownError] carries the detail.
var ErrOutcomeUnknown = errors.New("the outcome of the write is unknown")

// ErrInvalidOption is matched by every error that an [Option] or a
// combination of options causes.
var ErrInvalidOption = errors.New("invalid option")

// ErrCredentialConflict reports a [Credential] whose token and sequence
// contradict what the [DeviceGuard] recorded, for example because the
// coordination topic was created anew and its offsets started again. An
// operator decides what the device accepts from then on.
var ErrCredentialConflict = errors.New("the credential contradicts the recorded one")

// ErrInvalidArgument is matched by the error of a call that was given nobody
// or nothing to work with: a nil transport, context or store, the zero role or
// member, a value that its constructor did not build.
var ErrInvalidArgument = errors.New("invalid argument")

type argumentError string

const (
	errNoContext     argumentError = "the context is nil"
	errNoTransport   argumentError = "the transport is nil"
	errNoCoordinator argumentError = "the coordinator is nil"
	errNoReader      argumentError = "the state reader is nil"
	errNoRegistrar   argumentError = "the registrar is nil"
	errNoStore       argumentError = "the credential store is nil"
	errNoCallback    argumentError = "OnAcquired is nil"
	errZeroRole      argumentError = "the role is the zero value"
	errZeroMember    argumentError = "the member id is the zero value"
	errZeroGuard     argumentError = "the device guard was not built by NewDeviceGuard"
	errZeroBuilder   argumentError = "the role state builder is nil"
)

func (e argumentError) Error() string { return "coordination: " + string(e) }

// Is reports whether target is [ErrInvalidArgument].
func (argumentError) Is(target error) bool { return target == ErrInvalidArgument }

// checkContext refuses a nil context, before something far from the caller
// dereferences it.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	return nil
}

// FormatError reports a malformed record of [StateTopic].
type FormatError struct {
	// Part names the record part that failed to decode. It is "key",
	// "registration value", or "lease value".
	Part string

	fault error
}

// Error describes the fault and names the record part that carries it.
func (e *FormatError) Error() string {
	if e.fault == nil {
		return "malformed " + e.Part
	}
	return "malformed " + e.Part + ": " + e.fault.Error()
}

// Unwrap returns the fault.
func (e *FormatError) Unwrap() error { return e.fault }

// TopicConfigError reports a coordination topic that exists with other
// settings than coordination needs.
type TopicConfigError struct {
	Topic string

	// Setting is the name of the setting, such as "cleanup.policy" or
	// "partitions".
	Setting string

	Have string // the value of the topic
	Want string // the value that coordination needs
}

// Error names the topic, the setting and both values.
func (e *TopicConfigError) Error() string {
	return fmt.Sprintf("kafka: topic %q has %s %q, need %q", e.Topic, e.Setting, e.Have, e.Want)
}

// Retriable returns false: somebody has to change the topic or the options
// first.
func (e *TopicConfigError) Retriable() bool { return false }

const settingPartitions = "partitions"

// OutcomeUnknownError reports a guarded write that the cluster may or may not
// have committed: the request that ends its transaction was sent, and no
// answer settled it. It matches [ErrOutcomeUnknown]. It matches [ErrFenced]
// too when the leadership was superseded before the outcome was known.
//
// The caller finds out by reading the topic with read-committed isolation up
// to a stable offset at or above the end offset of the partition.
type OutcomeUnknownError struct {
	Role  Role         // the role that the write was guarded by
	Token FencingToken // the token that the write was sent under
	Err   error        // the failure that left the outcome open
}

// Error names the role, the token and the failure.
func (e *OutcomeUnknownError) Error() string {
	return fmt.Sprintf("role %q, token %s: %v: %v", e.Role, e.Token, ErrOutcomeUnknown, e.Err)
}

// Is reports whether target is [ErrOutcomeUnknown].
func (e *OutcomeUnknownError) Is(target error) bool { return target == ErrOutcomeUnknown }

// Unwrap returns the failure that left the outcome open.
func (e *OutcomeUnknownError) Unwrap() error { return e.Err }

// StaleCredentialError reports a command that a [DeviceGuard] refused, because
// the device accepted a command of a later leadership before. It matches
// [ErrFenced].
type StaleCredentialError struct {
	Presented Credential // the credential of the refused command
	Recorded  Credential // the highest credential that the device accepted
}

// Error names both credentials.
func (e *StaleCredentialError) Error() string {
	return fmt.Sprintf("coordination: stale command: credential %s was superseded by %s", e.Presented, e.Recorded)
}

// Is reports whether target is [ErrFenced].
func (e *StaleCredentialError) Is(target error) bool { return target == ErrFenced }

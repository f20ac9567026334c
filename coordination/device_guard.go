// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"fmt"
)

// Credential is what a holder attaches to a command for a device outside
// Kafka. [Leadership.Credential] builds one, and a [DeviceGuard] checks it.
type Credential struct {
	// Token is the token of the leadership when the command was issued.
	Token FencingToken `json:"token"`

	// Sequence is the sequence of the leadership. It grows strictly from one
	// leadership of a role to the next.
	Sequence int64 `json:"sequence"`
}

// String writes the sequence and the token.
func (c Credential) String() string { return fmt.Sprintf("%d (%s)", c.Sequence, c.Token) }

// check refuses what no leadership has.
func (c Credential) check() error {
	if c.Sequence < 0 || checkPair(c.Token.producerID, c.Token.producerEpoch) != nil {
		return fmt.Errorf("credential %s is not one of a leadership", c)
	}
	return nil
}

// CredentialStore keeps the highest credential that a device accepted. What
// Save stored survives a crash of the device. A [DeviceGuard] makes one call
// at a time.
type CredentialStore interface {
	// Load returns the stored credential, and false when there is none.
	Load(ctx context.Context) (Credential, bool, error)

	// Save stores a credential in place of the last one. It returns nil only
	// when the credential is durable.
	Save(ctx context.Context, credential Credential) error
}

// DeviceGuard refuses commands of a deposed leader at a device outside Kafka,
// where no broker stands in the way. One guard serves one role at one device.
//
// A leader can be suspended between its last look at its leadership and its
// command, for any length of time, so no check at the leader closes the gap.
// The device remembers the highest credential it accepted, durably, and
// refuses every command of an earlier leadership.
//
// A DeviceGuard is safe for concurrent use by multiple goroutines. The zero
// value admits nothing; build one with [NewDeviceGuard].
type DeviceGuard struct {
	store CredentialStore

	// turn holds one token; whoever took it owns the fields below.
	turn     chan struct{}
	recorded Credential
}

// NewDeviceGuard builds a guard that goes on from what the store holds.
func NewDeviceGuard(ctx context.Context, store CredentialStore) (*DeviceGuard, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if store == nil {
		return nil, errNoStore
	}
	recorded, found, err := store.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("coordination: load the recorded credential: %w", err)
	}
	if !found {
		recorded = Credential{Token: NoEpoch, Sequence: -1} // before all others
	} else if err := recorded.check(); err != nil {
		return nil, fmt.Errorf("coordination: the recorded credential: %w", err)
	}
	g := &DeviceGuard{store: store, turn: make(chan struct{}, 1), recorded: recorded}
	g.turn <- struct{}{}
	return g, nil
}

// Admit reports whether the device may carry out a command with this
// credential. It stores the credential of a later leadership before it returns
// nil, and after an error of the store the command is refused and nothing
// changed.
//
// The sequence decides: a lower one than recorded is refused with a
// [*StaleCredentialError], which matches [ErrFenced]. Commands of one
// leadership share a sequence and are all admitted; their order is up to the
// device. The token has to agree: under one producer id, a higher epoch with a
// lower sequence or the other way round matches [ErrCredentialConflict].
//
// The command is admitted and not carried out when Admit returns. The device
// carries it out before it admits the command of a later leadership, or hands
// the credential on to what does.
func (g *DeviceGuard) Admit(ctx context.Context, credential Credential) error {
	if g == nil || g.store == nil {
		return errZeroGuard
	}
	if err := checkContext(ctx); err != nil {
		return err
	}
	if err := credential.check(); err != nil {
		return fmt.Errorf("coordination: %w", err)
	}
	select {
	case <-g.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { g.turn <- struct{}{} }()
	if later, err := g.recorded.compare(credential); err != nil || !later {
		return err
	}
	if err := g.store.Save(ctx, credential); err != nil {
		return fmt.Errorf("coordination: store credential %s: %w", credential, err)
	}
	g.recorded = credential
	return nil
}

// compare reports whether a presented credential belongs to a later
// leadership than the recorded one, or why it is refused.
func (c Credential) compare(presented Credential) (later bool, err error) {
	sameID := c.Token.producerID == presented.Token.producerID
	switch {
	case presented.Sequence < c.Sequence && sameID && presented.Token.producerEpoch > c.Token.producerEpoch,
		presented.Sequence > c.Sequence && sameID && presented.Token.producerEpoch <= c.Token.producerEpoch:
		return false, fmt.Errorf("coordination: %w: %s presented, %s recorded", ErrCredentialConflict, presented, c)
	case presented.Sequence < c.Sequence:
		return false, &StaleCredentialError{Presented: presented, Recorded: c}
	}
	return presented.Sequence > c.Sequence, nil
}

// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// FencingToken is the proof that one member took a role: the producer id and
// the producer epoch that the transaction coordinator minted for the
// transactional id of the role.
//
// The quorum behind the coordinator picks the pair and the broker enforces
// it: a write under an older pair fails with a fenced error. Both numbers are
// load-bearing. The epoch is an int16 that runs out after 32766, and the
// coordinator then allocates another producer id and starts again at epoch 0,
// so two epochs compare only under one producer id. [FencingToken.Compare]
// reads the producer id first.
//
// Producer ids come from blocks that each broker reserves for itself, so after
// the coordinator moved, a fresh producer id can be smaller than the one it
// replaces. The broker's check is an equality check and does not care. A
// reader that needs an order that holds across such a rotation compares
// [Leadership.Sequence].
//
// The zero value is the pair 0:0, which a fresh cluster really mints.
// [NoEpoch] is the token that stands for none.
type FencingToken struct {
	producerID    int64
	producerEpoch int16
}

// NoEpoch is the token of a role that no member has taken. Kafka writes -1
// for "no producer", and that pair proves no leadership. NoEpoch ranks below
// every minted token, because [NewFencingToken] rejects a negative value.
// Treat NoEpoch as a constant.
var NoEpoch = FencingToken{producerID: -1, producerEpoch: -1}

// NewFencingToken builds a token from a minted producer id and producer
// epoch. It rejects a negative value in either position.
func NewFencingToken(producerID int64, producerEpoch int16) (FencingToken, error) {
	if err := checkPair(producerID, producerEpoch); err != nil {
		return NoEpoch, fmt.Errorf("coordination: %w", err)
	}
	return FencingToken{producerID: producerID, producerEpoch: producerEpoch}, nil
}

func checkPair(producerID int64, producerEpoch int16) error {
	if producerID < 0 {
		return fmt.Errorf("producer id %d must not be negative", producerID)
	}
	if producerEpoch < 0 {
		return fmt.Errorf("producer epoch %d must not be negative", producerEpoch)
	}
	return nil
}

// ParseFencingToken parses the producer_id:producer_epoch form that
// [FencingToken.String] writes. It rejects every other spelling of the same
// pair, such as a plus sign or a leading zero.
func ParseFencingToken(text string) (FencingToken, error) {
	id, epoch, found := strings.Cut(text, ":")
	if !found {
		return NoEpoch, fmt.Errorf("coordination: fencing token %q: want producer_id:producer_epoch", text)
	}
	producerID, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return NoEpoch, fmt.Errorf("coordination: fencing token %q: producer id: %w", text, err)
	}
	producerEpoch, err := strconv.ParseInt(epoch, 10, 16)
	if err != nil {
		return NoEpoch, fmt.Errorf("coordination: fencing token %q: producer epoch: %w", text, err)
	}
	if err := checkPair(producerID, int16(producerEpoch)); err != nil {
		return NoEpoch, fmt.Errorf("coordination: fencing token %q: %w", text, err)
	}
	token := FencingToken{producerID: producerID, producerEpoch: int16(producerEpoch)}
	if token.String() != text {
		return NoEpoch, fmt.Errorf("coordination: fencing token %q: the canonical form is %q", text, token)
	}
	return token, nil
}

// ProducerID returns the producer id that the transaction coordinator minted.
func (t FencingToken) ProducerID() int64 { return t.producerID }

// ProducerEpoch returns the producer epoch that the transaction coordinator
// minted.
func (t FencingToken) ProducerEpoch() int16 { return t.producerEpoch }

// Compare orders two tokens lexicographically, the producer id before the
// producer epoch. It returns -1 when t ranks below other, 0 for equal tokens,
// and 1 when t supersedes other.
func (t FencingToken) Compare(other FencingToken) int {
	if order := cmp.Compare(t.producerID, other.producerID); order != 0 {
		return order
	}
	return cmp.Compare(t.producerEpoch, other.producerEpoch)
}

// Supersedes reports whether t ranks above other under
// [FencingToken.Compare].
func (t FencingToken) Supersedes(other FencingToken) bool { return t.Compare(other) > 0 }

// String writes the producer_id:producer_epoch form.
func (t FencingToken) String() string {
	return strconv.FormatInt(t.producerID, 10) + ":" + strconv.FormatInt(int64(t.producerEpoch), 10)
}

// MarshalText writes the form of [FencingToken.String].
func (t FencingToken) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the form of [FencingToken.String], [NoEpoch] included.
func (t *FencingToken) UnmarshalText(text []byte) error {
	if string(text) == NoEpoch.String() {
		*t = NoEpoch
		return nil
	}
	token, err := ParseFencingToken(string(text))
	if err != nil {
		return err
	}
	*t = token
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// pinnedVersions are the newest versions of the requests of a lease. Later ones
// make the coordinator advance the epoch at the end of every transaction.
func pinnedVersions() *kversion.Versions {
	versions := kversion.V3_9_0()
	versions.SetMaxKeyVersion(int16(kmsg.Produce), 11)
	versions.SetMaxKeyVersion(int16(kmsg.AddPartitionsToTxn), 3)
	versions.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
	return versions
}

// The feature of a cluster that says which transaction protocol its brokers
// speak, and the level from which on a transaction can move the epoch. Below it
// a coordinator fails to log what the newer version of EndTxn asks for, and the
// role is stuck until the coordinator moves.
const (
	transactionFeature = "transaction.version"
	movingLevel        = 2
)

// learnMoves asks the coordinator of a role whether the epoch can move. Brokers
// can be replaced, so every term has its own answer. The question takes the
// connection of the mint that follows, which then waits for no dial.
func (t *KafkaTransport) learnMoves(ctx context.Context, role Role) (moves bool, err error) {
	ask := kmsg.NewPtrApiVersionsRequest()
	ask.ClientSoftwareName, ask.ClientSoftwareVersion = "kgo", "unknown"
	if values := t.clients.pinned.OptValues(kgo.SoftwareNameAndVersion); len(values) == 2 {
		ask.ClientSoftwareName, _ = values[0].(string)
		ask.ClientSoftwareVersion, _ = values[1].(string)
	}
	_, err = t.coordinated(ctx, t.clients.pinned, role, func(to kmsg.Requestor) (int16, error) {
		answer, err := ask.RequestWith(ctx, to)
		if err != nil {
			return 0, err
		}
		for _, feature := range answer.FinalizedFeatures {
			moves = moves || feature.Name == transactionFeature && feature.MaxVersionLevel >= movingLevel
		}
		return 0, nil
	})
	return moves, err
}

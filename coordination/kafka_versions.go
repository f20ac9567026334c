// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// The versions of the requests that belong to a lease. Later ones make the
// coordinator advance the epoch at the end of every transaction.
const (
	pinnedProduceVersion       = 11
	pinnedAddPartitionsVersion = 3
	pinnedEndVersion           = 4
)

// pinnedVersions are the newest versions of the requests of a lease.
func pinnedVersions() *kversion.Versions {
	versions := kversion.V3_9_0()
	versions.SetMaxKeyVersion(int16(kmsg.Produce), pinnedProduceVersion)
	versions.SetMaxKeyVersion(int16(kmsg.AddPartitionsToTxn), pinnedAddPartitionsVersion)
	versions.SetMaxKeyVersion(int16(kmsg.EndTxn), pinnedEndVersion)
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

// brokerVersions are what the coordinator of a role says about the requests of a
// lease: the oldest versions that it accepts, and whether the epoch can move.
type brokerVersions struct {
	produce, add, end int16
	moves             bool
}

// learnVersions asks the coordinator of a role for its versions. Brokers give up
// old versions with a major release, and take them back when that is undone, so
// every term has its own answer. The question takes the connection of the mint
// that follows, which then waits for no dial.
func (t *KafkaTransport) learnVersions(ctx context.Context, role Role) (brokerVersions, error) {
	ask := kmsg.NewPtrApiVersionsRequest()
	ask.ClientSoftwareName, ask.ClientSoftwareVersion = "kgo", "unknown"
	if values := t.clients.pinned.OptValues(kgo.SoftwareNameAndVersion); len(values) == 2 {
		ask.ClientSoftwareName, _ = values[0].(string)
		ask.ClientSoftwareVersion, _ = values[1].(string)
	}
	var versions brokerVersions
	_, err := t.coordinated(ctx, t.clients.pinned, role, func(to kmsg.Requestor) (int16, error) {
		answer, err := ask.RequestWith(ctx, to)
		if err != nil {
			return 0, err
		}
		for _, key := range answer.ApiKeys {
			switch kmsg.Key(key.ApiKey) {
			case kmsg.Produce:
				versions.produce = key.MinVersion
			case kmsg.AddPartitionsToTxn:
				versions.add = key.MinVersion
			case kmsg.EndTxn:
				versions.end = key.MinVersion
			}
		}
		for _, feature := range answer.FinalizedFeatures {
			versions.moves = versions.moves || feature.Name == transactionFeature && feature.MaxVersionLevel >= movingLevel
		}
		return 0, nil
	})
	return versions, err
}

// pinnable reports whether the brokers accept the pinned versions.
func (v brokerVersions) pinnable() bool {
	return v.produce <= pinnedProduceVersion && v.add <= pinnedAddPartitionsVersion && v.end <= pinnedEndVersion
}

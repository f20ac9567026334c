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

// versionFloor holds the oldest versions that the brokers accept of the
// requests of a lease.
type versionFloor struct{ produce, add, end int16 }

// learnVersions asks the coordinator of a role for its versions, once for the
// transport. Brokers give up old versions with a major release.
func (t *KafkaTransport) learnVersions(ctx context.Context, role Role) error {
	t.mu.Lock()
	known := t.floor != nil
	t.mu.Unlock()
	if known {
		return nil
	}
	ask := kmsg.NewPtrApiVersionsRequest()
	ask.ClientSoftwareName, ask.ClientSoftwareVersion = "kgo", "unknown"
	if values := t.clients.plain.OptValues(kgo.SoftwareNameAndVersion); len(values) == 2 {
		ask.ClientSoftwareName, _ = values[0].(string)
		ask.ClientSoftwareVersion, _ = values[1].(string)
	}
	floor := versionFloor{}
	_, err := t.coordinated(ctx, t.clients.plain, role, func(to kmsg.Requestor) (int16, error) {
		answer, err := ask.RequestWith(ctx, to)
		if err != nil {
			return 0, err
		}
		for _, key := range answer.ApiKeys {
			switch kmsg.Key(key.ApiKey) {
			case kmsg.Produce:
				floor.produce = key.MinVersion
			case kmsg.AddPartitionsToTxn:
				floor.add = key.MinVersion
			case kmsg.EndTxn:
				floor.end = key.MinVersion
			}
		}
		return 0, nil
	})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floor = &floor
	return nil
}

// versions returns what [KafkaTransport.learnVersions] learned.
func (t *KafkaTransport) versions() versionFloor {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.floor == nil {
		return versionFloor{}
	}
	return *t.floor
}

// pinnable reports whether the brokers accept the pinned versions.
func (t *KafkaTransport) pinnable() bool {
	floor := t.versions()
	return floor.produce <= pinnedProduceVersion && floor.add <= pinnedAddPartitionsVersion && floor.end <= pinnedEndVersion
}

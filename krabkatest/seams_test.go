// SPDX-License-Identifier: Apache-2.0

package krabkatest_test

import (
	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/krabkatest"
)

// The clients of the broker have every optional seam, as those of Kafka do.
var (
	_ columnar.PositionReader    = (*krabkatest.Reader)(nil)
	_ columnar.OffsetRangeReader = (*krabkatest.Reader)(nil)
	_ columnar.LogEndReader      = (*krabkatest.Reader)(nil)
	_ columnar.PollWaker         = (*krabkatest.Reader)(nil)
	_ columnar.Consumer          = (*krabkatest.Reader)(nil)

	_ columnar.Consumer          = (*krabkatest.Member)(nil)
	_ columnar.PositionReader    = (*krabkatest.Member)(nil)
	_ columnar.CommittedReader   = (*krabkatest.Member)(nil)
	_ columnar.OffsetRangeReader = (*krabkatest.Member)(nil)
	_ columnar.LogEndReader      = (*krabkatest.Member)(nil)
	_ columnar.PartitionCounter  = (*krabkatest.Member)(nil)
	_ columnar.Pauser            = (*krabkatest.Member)(nil)
	_ columnar.RebalanceNotifier = (*krabkatest.Member)(nil)
	_ columnar.PollBounder       = (*krabkatest.Member)(nil)
	_ columnar.PollWaker         = (*krabkatest.Member)(nil)
	_ columnar.StableEndReader   = (*krabkatest.Member)(nil)
	_ columnar.Producer          = (*krabkatest.Member)(nil)

	_ columnar.Consumer                     = (*krabkatest.TransactionalMember)(nil)
	_ columnar.PositionReader               = (*krabkatest.TransactionalMember)(nil)
	_ columnar.CommittedReader              = (*krabkatest.TransactionalMember)(nil)
	_ columnar.Pauser                       = (*krabkatest.TransactionalMember)(nil)
	_ columnar.ContextTransactionalProducer = (*krabkatest.TransactionalMember)(nil)
	_ columnar.OffsetNoter                  = (*krabkatest.TransactionalMember)(nil)

	_ columnar.Producer = (*krabkatest.Producer)(nil)
)

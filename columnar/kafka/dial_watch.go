// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// dialWatch is a hook of the client that knows when a host of a broker was known by
// name, whether or not it has answered.
type dialWatch struct{ known atomic.Pointer[time.Time] }

// OnBrokerConnect notes an attempt to connect.
func (w *dialWatch) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if errors.As(err, new(*net.DNSError)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return // the name is unknown, or nobody has found out
	}
	now := time.Now()
	w.known.Store(&now)
}

// latest returns when a host was known last, or start where that is later.
func (w *dialWatch) latest(start time.Time) time.Time {
	if known := w.known.Load(); known != nil && known.After(start) {
		return *known
	}
	return start
}

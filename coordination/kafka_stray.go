// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"net"
	"time"
)

// A request to end a transaction names the epoch and not the transaction. While
// the epoch stays, one that arrives late ends whatever transaction of the epoch
// is open by then, with the records it has so far and without those to come.
//
// The client closes the connection of a request without an answer, but that
// does not take the request back: a broker handles what it has read, also when
// the connection is gone, and the kernels deliver what was written before. The
// answer to the repeated request proves nothing, for it comes over another
// connection, and only the requests of one connection are handled in order. The
// coordinator that moved or was restarted since is no danger: it reads no old
// connection, and what an old one decides does not reach the partitions.
//
// A higher epoch would turn the late request away for certain, but the epoch is
// the token of the leadership, which must stay. So the transport looks at the
// coordinator before it repeats a request: a transaction that is not open any
// more was ended by the earlier one, which is then not on its way. Otherwise it
// waits before a transaction that such a request would tear apart. A network
// that delivered nothing for a time sends again at intervals that double, so
// the request arrives within as long a time again, and within the longest
// interval of the kernels.
const (
	straySlack = time.Second     // for brokers that are slow to handle what they read
	strayMost  = 2 * time.Minute // the longest interval at which kernels send again
)

var errStray = errors.New("a request to end an earlier transaction may still arrive")

// strays are the requests to end a transaction that had no answer.
type strays struct {
	count int       // of the transaction that is being ended
	first time.Time // when the first of them was sent
	gone  time.Time // when those of earlier transactions are not under way any more
}

// add counts a request that had no answer.
func (s *strays) add(sent time.Time) {
	if s.count == 0 {
		s.first = sent
	}
	s.count++
}

// settle is called once the transaction has ended. arrived says that one of the
// requests without an answer ended it.
func (s *strays) settle(arrived bool) {
	if arrived {
		s.count--
	}
	if s.count > 0 {
		now := time.Now()
		gone := now.Add(min(now.Sub(s.first)+straySlack, strayMost))
		if gone.After(s.gone) {
			s.gone = gone
		}
	}
	s.count = 0
}

// exposed reports whether a request to end an earlier transaction may end the
// next one. Where the epoch advances with every transaction, it cannot.
func (x *transaction) exposed() bool {
	return !x.term.tracking && time.Now().Before(x.term.strays.gone)
}

// outlast waits until the transaction is not exposed.
func (x *transaction) outlast(ctx context.Context) error {
	if x.exposed() && !pause(ctx, time.Until(x.term.strays.gone)) {
		return x.request("EndTxn").failed(ended(ctx, &transientError{err: errStray}))
	}
	return nil
}

// arrived reports whether one of the requests to end the transaction that had
// no answer has ended it. An error says that the coordinator is out of reach.
func (x *transaction) arrived(ctx context.Context) (bool, error) {
	if x.term.tracking || x.term.strays.count == 0 {
		return false, nil
	}
	state, code, err := x.look(ctx, x.term.role)
	if err != nil {
		return false, err
	}
	return code == 0 && state.pair == x.term.pair() && state.state != stateOngoing, nil
}

// unsent reports whether a request failed before it was sent: there was no
// connection.
func unsent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

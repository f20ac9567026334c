// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lossy is a network that loses requests or answers, and the connection with
// them.
type lossy struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex // guards the fields below
	losses map[kmsg.Key]*loss
	before map[request]func() // run before an answer is delivered
	late   map[kmsg.Key]*lateRequest
	conns  map[net.Conn]bool
	down   bool
}

// lateRequest is a request that is to stay on its way, without its connection.
type lateRequest struct {
	bytes []byte // nil until there is one
	dial  func() (net.Conn, error)
}

// request is a kind of request in one version.
type request struct {
	key     kmsg.Key
	version int16
}

// loss says what to lose next of one kind of request.
type loss struct {
	requests int // that do not arrive
	answers  int // of requests that arrive
	lost     int // so far
}

func newLossy() *lossy {
	return &lossy{dial: new(net.Dialer).DialContext, losses: make(map[kmsg.Key]*loss), before: make(map[request]func()), late: make(map[kmsg.Key]*lateRequest), conns: make(map[net.Conn]bool)}
}

// over puts the network between a stage and its clients.
func (l *lossy) over(s *stage) *stage {
	if s.dial != nil {
		l.dial = s.dial
	}
	return &stage{brokers: s.brokers, fake: s.fake, dial: l.DialContext, opts: []kgo.Opt{kgo.Dialer(l.DialContext)}}
}

// cut breaks all connections and refuses new ones, until mend.
func (l *lossy) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for conn := range l.conns {
		_ = conn.Close()
	}
	clear(l.conns)
}

func (l *lossy) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// lose arranges the next losses.
func (l *lossy) lose(key kmsg.Key, requests, answers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losses[key] = &loss{requests: requests, answers: answers}
}

// hold keeps the next request of one kind on its way and breaks its connection.
// The request arrives when the returned function is called.
func (l *lossy) hold(key kmsg.Key) (deliver func() error) {
	late := new(lateRequest)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late[key] = late
	return func() error {
		l.mu.Lock()
		request, dial := late.bytes, late.dial
		l.mu.Unlock()
		if request == nil {
			return errors.New("no request is on its way")
		}
		conn, err := dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.Write(request); err != nil {
			return err
		}
		size := make([]byte, 4)
		if _, err := io.ReadFull(conn, size); err != nil {
			return err
		}
		_, err = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size)))
		return err
	}
}

// calm forgets the losses that are still to come.
func (l *lossy) calm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.losses)
}

// lost returns how much of one kind was lost.
func (l *lossy) lost(key kmsg.Key) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.losses[key] == nil {
		return 0
	}
	return l.losses[key].lost
}

// interpose runs a function between every such request and its answer.
func (l *lossy) interpose(key kmsg.Key, version int16, run func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before[request{key, version}] = run
}

func (l *lossy) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Err: errLost}
	}
	l.conns[conn] = true
	again := func() (net.Conn, error) { return l.dial(context.Background(), network, address) }
	return &lossyConn{Conn: conn, network: l, again: again}, nil
}

type lossyConn struct {
	net.Conn
	network *lossy
	again   func() (net.Conn, error) // connects to the same address
	answer  atomic.Bool              // the next answer is lost
	run     atomic.Pointer[func()]   // before the next answer
}

var errLost = errors.New("lost")

// Write takes one whole request, which starts with its length and its key.
func (c *lossyConn) Write(request []byte) (int, error) {
	if len(request) >= 8 {
		key := kmsg.Key(binary.BigEndian.Uint16(request[4:]))
		c.network.mu.Lock()
		c.expect(key, int16(binary.BigEndian.Uint16(request[6:])))
		next := c.network.losses[key]
		late := c.network.late[key]
		switch {
		case late != nil && late.bytes == nil:
			late.bytes, late.dial = bytes.Clone(request), c.again
			c.network.mu.Unlock()
			_ = c.Conn.Close()
			return len(request), nil
		case next == nil:
		case next.requests > 0:
			next.requests--
			next.lost++
			c.network.mu.Unlock()
			_ = c.Conn.Close()
			return len(request), nil
		case next.answers > 0:
			next.answers--
			next.lost++
			c.answer.Store(true)
		}
		c.network.mu.Unlock()
	}
	return c.Conn.Write(request)
}

func (c *lossyConn) Close() error {
	c.network.mu.Lock()
	delete(c.network.conns, c.Conn)
	c.network.mu.Unlock()
	return c.Conn.Close()
}

func (c *lossyConn) expect(key kmsg.Key, version int16) {
	if run := c.network.before[request{key, version}]; run != nil {
		c.run.Store(&run)
	}
}

func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if run := c.run.Swap(nil); run != nil && n > 0 {
		(*run)()
	}
	if c.answer.Load() && n > 0 {
		_ = c.Conn.Close()
		return 0, errors.Join(errLost, io.EOF)
	}
	return n, err
}

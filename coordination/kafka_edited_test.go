// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"
)

// through returns the stage with its connections wrapped.
func (s *stage) through(wrap func(net.Conn) net.Conn) *stage {
	dial := s.dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	wrapped := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return wrap(conn), nil
	}
	return &stage{brokers: s.brokers, fake: s.fake, dial: wrapped, opts: []kgo.Opt{kgo.Dialer(wrapped)}}
}

// editedConn is a connection of a client to which answers arrive changed.
type editedConn struct {
	net.Conn
	edit func(answer []byte) []byte // length, correlation id, tags, body
	rest []byte                     // of the answer that is being read; of the reader
}

func (c *editedConn) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		answer := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, answer); err != nil {
			return 0, err
		}
		answer = append(answer, make([]byte, binary.BigEndian.Uint32(answer))...)
		if _, err := io.ReadFull(c.Conn, answer[4:]); err != nil {
			return 0, err
		}
		c.rest = c.edit(answer)
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"encoding/binary"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// versionFloors are the oldest versions of requests that brokers admit to
// accept. They make the brokers of today look like later ones, which gave older
// versions up.
type versionFloors map[kmsg.Key]int16

// under returns the stage with brokers that admit to no older versions.
func (f versionFloors) under(s *stage) *stage {
	return changing(s, func() versionFloors { return f })
}

// changing returns the stage with brokers whose oldest versions are those of the
// moment a connection is made.
func changing(s *stage, floors func() versionFloors) *stage {
	return s.through(func(conn net.Conn) net.Conn {
		c := &flooredConn{floors: floors(), asked: make(map[uint32]int16)}
		c.editedConn = editedConn{Conn: conn, edit: c.raise}
		return c
	})
}

// flooredConn changes the answers to ApiVersions on a connection.
type flooredConn struct {
	editedConn
	floors versionFloors

	mu    sync.Mutex       // guards asked
	asked map[uint32]int16 // versions of the ApiVersions requests without an answer, by correlation id
}

// Write takes one whole request: length, key, version, correlation id.
func (c *flooredConn) Write(request []byte) (int, error) {
	if len(request) >= 12 && kmsg.Key(binary.BigEndian.Uint16(request[4:])) == kmsg.ApiVersions {
		c.mu.Lock()
		c.asked[binary.BigEndian.Uint32(request[8:])] = int16(binary.BigEndian.Uint16(request[6:]))
		c.mu.Unlock()
	}
	return c.Conn.Write(request)
}

// raise raises the oldest versions in an answer: length, correlation id, body.
func (c *flooredConn) raise(answer []byte) []byte {
	id := binary.BigEndian.Uint32(answer[4:])
	c.mu.Lock()
	version, found := c.asked[id]
	delete(c.asked, id)
	c.mu.Unlock()
	versions := kmsg.NewPtrApiVersionsResponse()
	versions.Version = version
	if !found || versions.ReadFrom(answer[8:]) != nil || versions.ErrorCode != 0 {
		return answer
	}
	for i := range versions.ApiKeys {
		key := &versions.ApiKeys[i]
		key.MinVersion = max(key.MinVersion, c.floors[kmsg.Key(key.ApiKey)])
	}
	answer = versions.AppendTo(answer[:8])
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	return answer
}

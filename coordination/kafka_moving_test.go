// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// movingBrokers make brokers look like ones that advance the epoch with every
// transaction, whatever the version of the request that ends it.
type movingBrokers struct {
	// marked says that the markers carry the epoch after the transaction, as
	// they do where a coordinator writes them under it.
	marked bool
}

// under returns the stage with such brokers.
func (m movingBrokers) under(s *stage) *stage {
	return s.through(func(conn net.Conn) net.Conn {
		c := &movingConn{marked: m.marked, asked: make(map[uint32]request)}
		c.editedConn = editedConn{Conn: conn, edit: c.change}
		return c
	})
}

// movingConn asks for the version that moves the epoch in place of the pinned
// one, and answers in the pinned one.
type movingConn struct {
	editedConn
	marked bool

	mu    sync.Mutex         // guards asked
	asked map[uint32]request // without an answer, by correlation id
}

// Write takes one whole request: length, key, version, correlation id.
func (c *movingConn) Write(ask []byte) (int, error) {
	if len(ask) < 12 {
		return c.Conn.Write(ask)
	}
	kind := request{kmsg.Key(binary.BigEndian.Uint16(ask[4:])), int16(binary.BigEndian.Uint16(ask[6:]))}
	ends := kind == request{kmsg.EndTxn, pinnedEnd}
	if ends || c.marked && kind.key == kmsg.Fetch {
		c.mu.Lock()
		c.asked[binary.BigEndian.Uint32(ask[8:])] = kind
		c.mu.Unlock()
	}
	if ends {
		ask = append([]byte(nil), ask...)
		binary.BigEndian.PutUint16(ask[6:], pinnedEnd+1)
	}
	return c.Conn.Write(ask)
}

// change changes an answer: length, correlation id, tags, body.
func (c *movingConn) change(answer []byte) []byte {
	id := binary.BigEndian.Uint32(answer[4:])
	c.mu.Lock()
	kind, found := c.asked[id]
	delete(c.asked, id)
	c.mu.Unlock()
	const header = 9
	switch {
	case !found:
		return answer
	case kind.key == kmsg.EndTxn:
		moved, pinned := kmsg.NewPtrEndTxnResponse(), kmsg.NewPtrEndTxnResponse()
		moved.Version, pinned.Version = pinnedEnd+1, pinnedEnd
		if moved.ReadFrom(answer[header:]) != nil {
			return answer
		}
		pinned.ThrottleMillis, pinned.ErrorCode = moved.ThrottleMillis, moved.ErrorCode
		answer = pinned.AppendTo(answer[:header])
	default:
		fetched := kmsg.NewPtrFetchResponse()
		fetched.Version = kind.version
		if fetched.ReadFrom(answer[header:]) != nil {
			return answer
		}
		for _, topic := range fetched.Topics {
			for _, partition := range topic.Partitions {
				markLater(partition.RecordBatches)
			}
		}
		answer = fetched.AppendTo(answer[:header:header])
	}
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	return answer
}

// markLater raises the epochs of the markers in record batches by one.
func markLater(batches []byte) {
	const (
		lengthAt, crcAt, attributesAt, epochAt = 8, 17, 21, 51
		whole                                  = 61
		control                                = 1 << 5
	)
	for len(batches) >= whole {
		end := lengthAt + 4 + int(binary.BigEndian.Uint32(batches[lengthAt:]))
		if end > len(batches) {
			return
		}
		if batch := batches[:end]; binary.BigEndian.Uint16(batch[attributesAt:])&control != 0 {
			binary.BigEndian.PutUint16(batch[epochAt:], binary.BigEndian.Uint16(batch[epochAt:])+1)
			binary.BigEndian.PutUint32(batch[crcAt:], crc32.Checksum(batch[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
		}
		batches = batches[end:]
	}
}

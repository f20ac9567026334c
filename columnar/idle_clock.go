// SPDX-License-Identifier: Apache-2.0

package columnar

import "time"

// idleClock tells how long a partition has been without records.
type idleClock struct {
	since time.Time // when the latest record came, or a poll first found none
	// from is the stream time behind the latest record, if it is known.
	from  int64
	known bool
	// latest is the latest timestamp of a record, if one has come.
	latest int64
	come   bool
	tried  time.Time // when the latest advance was begun
}

// touch notes that records have come.
func (c *idleClock) touch(records []ConsumedRecord) {
	c.since, c.known = time.Now(), false
	for i := range records {
		if timestamp := records[i].Timestamp; !c.come || timestamp > c.latest {
			c.latest, c.come = timestamp, true
		}
	}
}

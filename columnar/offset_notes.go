// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"strconv"
	"strings"
)

// notedRounds returns how many journaled rounds of a partition are committed by
// the notes beside its offsets, or -1 where none of them says it.
func notedRounds(notes map[TopicPartition]string, p *logicalPartition) int64 {
	rounds := int64(-1)
	for _, tp := range p.partitions() {
		text, _, _ := strings.Cut(notes[tp], " ")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			rounds = max(rounds, n)
		}
	}
	return rounds
}

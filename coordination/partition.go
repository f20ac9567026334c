// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"encoding/binary"
	"fmt"
)

// DefaultPartitions is the partition count that this package assumes for
// [StateTopic]. Pass the real count of the cluster with [WithPartitions] when
// an operator created the topic with another count.
const DefaultPartitions = 16

// TopicPartition identifies one partition of one topic. This package declares
// its own copy, because it depends on no other package of this library.
type TopicPartition struct {
	Topic     string
	Partition int
}

// String writes the topic-partition form, such as __coordination_state-12.
func (p TopicPartition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }

// RolePartition returns the partition of [StateTopic] that holds every record
// of role. It rejects a partition count below one.
//
// The rule is Kafka's own key partitioning over the role name: murmur2 of the
// UTF-8 bytes, the sign bit cleared, the remainder of partitions. Clearing the
// sign bit is not the absolute value; the two differ for every negative hash.
// The Rust and Java libraries share the topic and compute the same rule.
//
// Every writer pins the partition with this rule. A partitioner that reads
// the record key puts the registrations and the lease of one role in
// different partitions, and the order that the succession rules rank on is
// gone.
func RolePartition(role Role, partitions int) (int, error) {
	if partitions < 1 {
		return 0, fmt.Errorf("coordination: role %q: partition count %d must be at least 1", role, partitions)
	}
	return int(murmur2(role.name)&0x7fffffff) % partitions, nil
}

// RoleTopicPartition returns the partition of the coordination topic that
// holds every record of the role. Only [WithTopic] and [WithPartitions] change
// the answer; an invalid option of another kind is an error all the same. It
// rejects the zero role.
func RoleTopicPartition(role Role, options ...Option) (TopicPartition, error) {
	if role == (Role{}) {
		return TopicPartition{}, errZeroRole
	}
	s, err := resolve(options, nil)
	if err != nil {
		return TopicPartition{}, err
	}
	return s.partition(role)
}

func murmur2(text string) uint32 {
	const (
		seed  = 0x9747b28c
		mix   = 0x5bd1e995
		shift = 24
	)
	data := []byte(text)
	h := seed ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * mix
		k ^= k >> shift
		h = h*mix ^ k*mix
	}
	if len(data) > 0 {
		for i, b := range data {
			h ^= uint32(b) << (8 * i)
		}
		h *= mix
	}
	h ^= h >> 13
	h *= mix
	return h ^ h>>15
}

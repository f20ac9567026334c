// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// committed returns the stable committed offsets of the connection's group.
func (c *connection) committed(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]int64, error) {
	stable, err := c.stableOffsets(ctx, partitions)
	if err != nil {
		return nil, err
	}
	committed := make(map[columnar.TopicPartition]int64, len(stable))
	for tp, found := range stable {
		committed[tp] = found.offset
	}
	return committed, nil
}

// committedOffset is a committed offset with what its writer noted.
type committedOffset struct {
	offset   int64
	metadata string
}

// stableOffsets waits until no committed offset is part of an open transaction.
func (c *connection) stableOffsets(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]committedOffset, error) {
	for {
		committed, err := c.fetchCommitted(ctx, partitions)
		if !errors.Is(err, kerr.UnstableOffsetCommit) || !sleep(ctx, retryPause) {
			return committed, err
		}
	}
}

// fetchCommitted asks for single partitions: an answer about all of a group
// leaves out partitions whose first commit is pending.
func (c *connection) fetchCommitted(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]committedOffset, error) {
	committed := make(map[columnar.TopicPartition]committedOffset, len(partitions))
	if len(partitions) == 0 {
		return committed, nil
	}
	doing := fmt.Sprintf("committed offsets of group %q", c.group)
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = c.group
	for topic, numbers := range byTopic(partitions) {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic = topic
		t.Partitions = numbers
		group.Topics = append(group.Topics, t)
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	req.Groups = append(req.Groups, group)
	resp, err := req.RequestWith(ctx, c.client)
	if err == nil && len(resp.Groups) != 1 {
		err = fmt.Errorf("answer about %d groups", len(resp.Groups))
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
	}
	if err != nil {
		return nil, c.typed(doing, err)
	}
	var problems []error
	for _, t := range resp.Groups[0].Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				problems = append(problems, topicError(t.Topic, int(p.Partition), err))
			} else if p.Offset >= 0 {
				found := committedOffset{offset: p.Offset}
				if p.Metadata != nil {
					found.metadata = *p.Metadata
				}
				committed[columnar.TopicPartition{Topic: t.Topic, Partition: int(p.Partition)}] = found
			}
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return committed, nil
}

// commitOutside commits for a group that the connection is not a member of,
// which brokers accept while the group has no members.
func (c *connection) commitOutside(ctx context.Context, offsets map[columnar.TopicPartition]int64) error {
	doing := fmt.Sprintf("commit offsets of group %q", c.group)
	list := kadm.Offsets{}
	for tp, offset := range offsets {
		list.AddOffset(tp.Topic, int32(tp.Partition), offset, -1)
	}
	responses, err := c.admin.CommitOffsets(ctx, c.group, list)
	if err != nil {
		return c.typed(doing, err)
	}
	var problems []error
	responses.Each(func(r kadm.OffsetResponse) {
		switch {
		case r.Err == nil:
		case isRebalance(r.Err) || isAccess(r.Err) && !errors.Is(r.Err, kerr.TopicAuthorizationFailed):
			problems = append(problems, c.typed(doing, r.Err))
		default:
			problems = append(problems, topicError(r.Topic, int(r.Partition), r.Err))
		}
	})
	return errors.Join(problems...)
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readCommands reads the commands that are committed, in the order of the log.
func readCommands(ctx context.Context, brokers, topic string) ([]command, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	end, err := settledEnd(ctx, kadm.NewClient(client), topic)
	if err != nil {
		return nil, err
	}
	var commands []command
	for next := int64(0); next < end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read commands: %w", err)
		}
		for _, record := range fetches.Records() {
			next = record.Offset + 1
			if record.Attrs.IsControl() {
				continue
			}
			var c command
			if err := json.Unmarshal(record.Value, &c); err != nil {
				return nil, fmt.Errorf("command at offset %d: %w", record.Offset, err)
			}
			commands = append(commands, c)
		}
	}
	return commands, nil
}

// settledEnd returns the end of the log once no transaction is open. A commit
// is answered before its marker is written, so the last stable offset may trail
// the end for a moment.
func settledEnd(ctx context.Context, admin *kadm.Client, topic string) (int64, error) {
	for {
		stable, err := admin.ListCommittedOffsets(ctx, topic)
		if err != nil {
			return 0, err
		}
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err != nil {
			return 0, err
		}
		at, _ := stable.Lookup(topic, 0)
		end, _ := ends.Lookup(topic, 0)
		if err := errors.Join(at.Err, end.Err); err != nil {
			return 0, err
		}
		if at.Offset == end.Offset {
			return end.Offset, nil
		}
	}
}

// term is the commands of one leadership.
type term struct {
	first, last command
	commands    int
}

// String is a line of the summary.
func (t term) String() string {
	return fmt.Sprintf("%-7s token %s, sequence %d: %d commands", t.first.Member, t.first.Token, t.first.Sequence, t.commands)
}

// checkCommands divides the log into leaderships. It returns an error unless
// the leaderships follow each other by sequence, which means that no command
// of a leader stands behind one of its successor, the commands of each are in
// the order in which they were issued, and every acknowledged one is there.
func checkCommands(log, acknowledged []command) ([]term, error) {
	type id struct {
		sequence int64
		number   int
	}
	missing := map[id]command{}
	for _, c := range acknowledged {
		missing[id{c.Sequence, c.Number}] = c
	}
	var terms []term
	for _, c := range log {
		delete(missing, id{c.Sequence, c.Number})
		if len(terms) == 0 || c.Sequence > terms[len(terms)-1].last.Sequence {
			terms = append(terms, term{first: c, last: c, commands: 1})
			continue
		}
		t := &terms[len(terms)-1]
		switch {
		case c.Sequence < t.last.Sequence:
			return terms, fmt.Errorf("command %d of %s, sequence %d, stands behind one of its successor %s, sequence %d",
				c.Number, c.Member, c.Sequence, t.last.Member, t.last.Sequence)
		case c.Member != t.last.Member, c.Number <= t.last.Number, t.last.Token.Supersedes(c.Token):
			return terms, fmt.Errorf("sequence %d: command %d of %s with token %s stands behind command %d of %s with token %s",
				c.Sequence, c.Number, c.Member, c.Token, t.last.Number, t.last.Member, t.last.Token)
		}
		t.last = c
		t.commands++
	}
	for _, c := range missing {
		return terms, fmt.Errorf("command %d of %s, sequence %d, was acknowledged and is not in the log", c.Number, c.Member, c.Sequence)
	}
	return terms, nil
}

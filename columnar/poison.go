// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/krabka-io/krabka-streams-go/internal/journal"
)

// maxIsolationRuns bounds how many parts of a batch are run in search of the
// records that make it fail.
const maxIsolationRuns = 256

// poisoned is a record that the error policy takes.
type poisoned struct {
	topic  string
	record ConsumedRecord
	cause  error
}

// outcome is what became of the records of one logical partition.
type outcome struct {
	outputs  []ProducedToTopic
	excluded []poisoned // by topic and offset
}

// runTolerant processes records of one logical partition and leaves the changes
// of state pending. Records that fail are left out where the error policy says
// so. After an error the partition is as it was.
func (e *environment) runTolerant(partition int, input map[string][]ConsumedRecord) (outcome, error) {
	var result outcome
	for len(input) > 0 {
		outputs, err := e.topology.runPartition(partition, input)
		if err == nil {
			result.outputs = outputs
			break
		}
		if rollback := e.topology.rollbackPartition(partition); rollback != nil {
			return outcome{}, &RollbackError{Partitions: []int{partition}, Cause: errors.Join(err, rollback)}
		}
		if isMisfit(err) {
			return outcome{}, &TopologyError{err}
		}
		if e.settings.policy.Action == ActionFail || IsRetriable(err) {
			return outcome{}, err
		}
		bad := named(input, err)
		if len(bad) == 0 && e.settings.isolate {
			if bad, err = e.search(partition, input, err); err != nil {
				return outcome{}, err
			}
		}
		if len(bad) == 0 {
			bad = everything(input, err)
		}
		result.excluded = append(result.excluded, bad...)
		input = without(input, bad)
	}
	slices.SortFunc(result.excluded, func(a, b poisoned) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.record.Offset, b.record.Offset))
	})
	return result, nil
}

// named returns the records of input that an error names as the failing ones.
func named(input map[string][]ConsumedRecord, err error) []poisoned {
	var decode *DecodeError
	if !errors.As(err, &decode) {
		return nil
	}
	var bad []poisoned
	for _, failure := range decode.Records {
		records := input[failure.Topic]
		at := slices.IndexFunc(records, func(record ConsumedRecord) bool {
			return record.Offset == failure.Offset && record.Partition == failure.Partition
		})
		if at < 0 {
			return nil
		}
		bad = append(bad, poisoned{failure.Topic, records[at], failure})
	}
	return bad
}

// everything returns all records of input.
func everything(input map[string][]ConsumedRecord, cause error) []poisoned {
	var all []poisoned
	for _, topic := range slices.Sorted(maps.Keys(input)) {
		for _, record := range input[topic] {
			all = append(all, poisoned{topic, record, cause})
		}
	}
	return all
}

// without returns input less the poisoned records.
func without(input map[string][]ConsumedRecord, bad []poisoned) map[string][]ConsumedRecord {
	type place struct {
		topic  string
		offset int64
	}
	drop := make(map[place]bool, len(bad))
	for _, one := range bad {
		drop[place{one.topic, one.record.Offset}] = true
	}
	left := map[string][]ConsumedRecord{}
	for topic, records := range input {
		kept := included(records, func(record *ConsumedRecord) bool { return !drop[place{topic, record.Offset}] })
		if len(kept) > 0 {
			left[topic] = kept
		}
	}
	return left
}

// included returns the records that keep selects, and records itself when that
// is all of them.
func included(records []ConsumedRecord, keep func(*ConsumedRecord) bool) []ConsumedRecord {
	for i := range records {
		if keep(&records[i]) {
			continue
		}
		kept := append([]ConsumedRecord(nil), records[:i]...)
		for j := i + 1; j < len(records); j++ {
			if keep(&records[j]) {
				kept = append(kept, records[j])
			}
		}
		return kept
	}
	return records
}

// search runs parts of a failing batch, taking each run back, until it has found
// the records that fail by themselves. A part that fails although neither of its
// halves does is bad as a whole, and so is what is left when the search has run
// often enough. A part that lacks columns, which its codec has learned from other
// records, has not failed by itself.
func (e *environment) search(partition int, input map[string][]ConsumedRecord, cause error) ([]poisoned, error) {
	runs := 0
	fails := func(part []poisoned) (failure, err error) {
		runs++
		_, failure = e.topology.runPartition(partition, batchOf(part))
		if rollback := e.topology.rollbackPartition(partition); rollback != nil {
			return nil, &RollbackError{Partitions: []int{partition}, Cause: errors.Join(failure, rollback)}
		}
		switch {
		case IsRetriable(failure):
			return nil, failure
		case isMisfit(failure):
			return nil, nil
		}
		return failure, nil
	}
	var narrow func(part []poisoned, cause error) ([]poisoned, error)
	narrow = func(part []poisoned, cause error) ([]poisoned, error) {
		if len(part) == 1 || runs >= maxIsolationRuns {
			return because(part, cause), nil
		}
		var bad []poisoned
		for _, half := range [][]poisoned{part[:len(part)/2], part[len(part)/2:]} {
			failure, err := fails(half)
			if err != nil {
				return nil, err
			}
			if failure == nil {
				continue
			}
			found, err := narrow(half, failure)
			if err != nil {
				return nil, err
			}
			bad = append(bad, found...)
		}
		if len(bad) == 0 {
			return because(part, cause), nil
		}
		return bad, nil
	}
	return narrow(everything(input, cause), cause)
}

func because(part []poisoned, cause error) []poisoned {
	bad := slices.Clone(part)
	for i := range bad {
		bad[i].cause = cause
	}
	return bad
}

func batchOf(part []poisoned) map[string][]ConsumedRecord {
	input := map[string][]ConsumedRecord{}
	for _, one := range part {
		input[one.topic] = append(input[one.topic], one.record)
	}
	return input
}

// deadLetters returns what the error policy sends for the records that it took.
func (e *environment) deadLetters(excluded []poisoned) []ProducedToTopic {
	if e.settings.policy.Action != ActionDeadLetter {
		return nil
	}
	letters := make([]ProducedToTopic, len(excluded))
	for i, one := range excluded {
		letters[i] = e.settings.policy.deadLetter(one.topic, one.record, one.cause)
	}
	return letters
}

// offsetRanges returns the offsets of excluded records, which are sorted, as
// ranges.
func offsetRanges(excluded []poisoned) []journal.Range {
	var ranges []journal.Range
	for _, one := range excluded {
		if n := len(ranges); n > 0 && ranges[n-1].Topic == one.topic && ranges[n-1].End == one.record.Offset {
			ranges[n-1].End++
			continue
		}
		ranges = append(ranges, journal.Range{Topic: one.topic, Start: one.record.Offset, End: one.record.Offset + 1})
	}
	return ranges
}

// setAside describes excluded records, which are sorted, by topic partition.
func setAside(excluded []poisoned, action ErrorPolicyAction) []SetAsideInfo {
	var infos []SetAsideInfo
	for _, one := range excluded {
		if n := len(infos); n > 0 && infos[n-1].Partition.Topic == one.topic {
			infos[n-1].Records++
			infos[n-1].Last = one.record.Offset
			continue
		}
		infos = append(infos, SetAsideInfo{
			Partition: TopicPartition{one.topic, one.record.Partition}, Records: 1,
			First: one.record.Offset, Last: one.record.Offset, Action: action, Err: one.cause,
		})
	}
	return infos
}

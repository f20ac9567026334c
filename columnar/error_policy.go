// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrorPolicyAction says what a runner does with records that fail.
type ErrorPolicyAction int

const (
	// ActionFail fails the round: its records are delivered again.
	ActionFail ErrorPolicyAction = iota
	// ActionSkip drops the failing records and goes on.
	ActionSkip
	// ActionDeadLetter sends the failing records to a topic and goes on.
	ActionDeadLetter
)

// ErrorPolicy says what a runner does with records that fail. An error with a
// Retriable method that returns true fails the round under every policy.
//
// Where the error names the failing records, only those are skipped or sent to
// the dead-letter topic. Otherwise it is the whole batch of the logical
// partition, unless [WithPoisonIsolation] searches for them.
type ErrorPolicy struct {
	Action          ErrorPolicyAction
	DeadLetterTopic string // for ActionDeadLetter
}

// FailPolicy returns the policy that fails the round.
func FailPolicy() ErrorPolicy { return ErrorPolicy{} }

// SkipPolicy returns the policy that drops failing records.
func SkipPolicy() ErrorPolicy { return ErrorPolicy{Action: ActionSkip} }

// DeadLetterPolicy returns the policy that sends failing records to topic, in
// the round's own transaction where there is one. A dead letter is the record
// as it came, with five headers behind its own: krabka.error.class,
// krabka.error.message, krabka.source.topic, krabka.source.partition and
// krabka.source.offset.
func DeadLetterPolicy(topic string) ErrorPolicy {
	return ErrorPolicy{Action: ActionDeadLetter, DeadLetterTopic: topic}
}

func (p ErrorPolicy) validate() error {
	if p.Action < ActionFail || p.Action > ActionDeadLetter {
		return fmt.Errorf("unknown error policy action %d", p.Action)
	}
	if (p.Action == ActionDeadLetter) != (p.DeadLetterTopic != "") {
		return errors.New("deadLetterTopic requires ActionDeadLetter")
	}
	return nil
}

const (
	deadLetterClassHeader     = "krabka.error.class"
	deadLetterMessageHeader   = "krabka.error.message"
	deadLetterTopicHeader     = "krabka.source.topic"
	deadLetterPartitionHeader = "krabka.source.partition"
	deadLetterOffsetHeader    = "krabka.source.offset"

	// maxDeadLetterMessage bounds the message header in bytes.
	maxDeadLetterMessage = 1024
)

// deadLetter returns the dead letter of a record of topic that failed with
// cause.
func (p ErrorPolicy) deadLetter(topic string, record ConsumedRecord, cause error) ProducedToTopic {
	headers := make([]RecordHeader, 0, len(record.Headers)+5)
	headers = append(headers, record.Headers...)
	headers = append(headers,
		RecordHeader{Key: deadLetterClassHeader, Value: fmt.Appendf(nil, "%T", rootCause(cause))},
		RecordHeader{Key: deadLetterMessageHeader, Value: truncateUTF8(cause.Error(), maxDeadLetterMessage)},
		RecordHeader{Key: deadLetterTopicHeader, Value: []byte(topic)},
		RecordHeader{Key: deadLetterPartitionHeader, Value: strconv.AppendInt(nil, int64(record.Partition), 10)},
		RecordHeader{Key: deadLetterOffsetHeader, Value: strconv.AppendInt(nil, record.Offset, 10)},
	)
	return ProducedToTopic{Topic: p.DeadLetterTopic, Record: ProduceRecord{
		Key: record.Key, Value: record.Value, Timestamp: record.Timestamp, Headers: headers,
	}}
}

// rootCause follows the first error of each wrapper to the one that wraps none.
func rootCause(err error) error {
	for {
		var next error
		switch wrapper := err.(type) {
		case interface{ Unwrap() error }:
			next = wrapper.Unwrap()
		case interface{ Unwrap() []error }:
			next = firstError(wrapper.Unwrap()...)
		}
		if next == nil {
			return err
		}
		err = next
	}
}

// truncateUTF8 returns at most limit bytes of text, cut between characters.
func truncateUTF8(text string, limit int) []byte {
	if len(text) > limit {
		end := limit
		for end > 0 && text[end]&0xC0 == 0x80 {
			end--
		}
		text = text[:end]
	}
	return []byte(text)
}

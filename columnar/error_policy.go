// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"go/token"
	"reflect"
	"strconv"
	"strings"
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
// Retriable method that returns true fails the round under every policy, and so
// does a [*TopologyError]: where a column is missing or has the wrong type, no record
// is to blame.
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
// krabka.source.offset. Headers of these names that the record came with are dropped.
//
// The class is the name of an error type with its package, for consumers of the
// topic to choose by. It is the outermost type that other packages can use, past
// those that only say where a record failed. So an error type of a processor of
// your own stands for itself, wrapped or not. The library's are:
//
//	columnar.DecodeError          a record could not be decoded, for a reason
//	                              without a type of its own
//	columnar.JSONError            it is not JSON, or not what the schema says
//	schema.DeserializeError       a serde of package schema refused it
//	columnar.ColumnError          an operator cannot work with a value of a column
//	columnar.StateLimitError      state would grow beyond its limit
//	columnar.RowError             a row could not be encoded for a sink
//	columnar.NodeError            a node failed, for a reason without a type
//	                              of its own
func DeadLetterPolicy(topic string) ErrorPolicy {
	return ErrorPolicy{Action: ActionDeadLetter, DeadLetterTopic: topic}
}

func (p ErrorPolicy) validate() error {
	if p.Action < ActionFail || p.Action > ActionDeadLetter {
		return fmt.Errorf("unknown error policy action %d", p.Action)
	}
	switch {
	case p.Action != ActionDeadLetter && p.DeadLetterTopic != "":
		return errors.New("deadLetterTopic requires ActionDeadLetter")
	case p.Action == ActionDeadLetter && p.DeadLetterTopic == "":
		return errors.New("ActionDeadLetter requires a DeadLetterTopic, the topic for the records that fail")
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

var deadLetterHeaders = map[string]bool{
	deadLetterClassHeader: true, deadLetterMessageHeader: true, deadLetterTopicHeader: true,
	deadLetterPartitionHeader: true, deadLetterOffsetHeader: true,
}

// deadLetter returns the dead letter of a record of topic that failed with
// cause.
func (p ErrorPolicy) deadLetter(topic string, record ConsumedRecord, cause error) ProducedToTopic {
	headers := make([]RecordHeader, 0, len(record.Headers)+5)
	for _, header := range record.Headers {
		// A dead letter that is replayed and fails again tells of its latest failure.
		if !deadLetterHeaders[header.Key] {
			headers = append(headers, header)
		}
	}
	headers = append(headers,
		RecordHeader{Key: deadLetterClassHeader, Value: []byte(errorClass(cause))},
		RecordHeader{Key: deadLetterMessageHeader, Value: truncateUTF8(cause.Error(), maxDeadLetterMessage)},
		RecordHeader{Key: deadLetterTopicHeader, Value: []byte(topic)},
		RecordHeader{Key: deadLetterPartitionHeader, Value: strconv.AppendInt(nil, int64(record.Partition), 10)},
		RecordHeader{Key: deadLetterOffsetHeader, Value: strconv.AppendInt(nil, record.Offset, 10)},
	)
	return ProducedToTopic{Topic: p.DeadLetterTopic, Record: ProduceRecord{
		Key: record.Key, Value: record.Value, Timestamp: record.Timestamp, Headers: headers,
	}}
}

// errorClass returns the class of an error, as [DeadLetterPolicy] describes it.
func errorClass(err error) string {
	class := strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
	for ; err != nil; err = firstCause(err) {
		switch err.(type) {
		case *NodeError:
			class = "columnar.NodeError"
		case *DecodeError, *RecordError:
			class = "columnar.DecodeError"
		case *RowError:
			class = "columnar.RowError"
		// Types that this package only has another name for.
		case *ColumnError:
			return "columnar.ColumnError"
		case *JSONError:
			return "columnar.JSONError"
		case *StateLimitError:
			return "columnar.StateLimitError"
		case *StateLayoutError:
			return "columnar.StateLayoutError"
		case *BarrierFormatError:
			return "columnar.BarrierFormatError"
		default:
			if name, ok := exportedType(err); ok {
				return name
			}
		}
	}
	return class
}

// exportedType returns the name of the type of err with its package, if other
// packages can use it.
func exportedType(err error) (name string, ok bool) {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.String(), token.IsExported(t.Name()) && !strings.Contains(t.PkgPath(), "/internal/")
}

// firstCause returns what err wraps, the first error of several.
func firstCause(err error) error {
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		return wrapper.Unwrap()
	case interface{ Unwrap() []error }:
		return firstError(wrapper.Unwrap()...)
	default:
		return nil
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

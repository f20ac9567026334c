// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

// objects reads and writes JSON objects.
type objects struct{}

func (objects) Serialize(_ string, value map[string]any) ([]byte, error) { return json.Marshal(value) }

func (objects) Deserialize(_ string, data []byte) (value map[string]any, err error) {
	return value, json.Unmarshal(data, &value)
}

// inferredJSON is a codec whose columns are those of the records of a batch,
// whatever was in the batch before.
type inferredJSON struct{}

func (inferredJSON) codec() BatchCodec {
	return NewRowCodec(objects{}, NewJSONRowBridge[map[string]any](), memory.DefaultAllocator)
}

func (c inferredJSON) Decode(topic string, records []ConsumedRecord) (arrow.RecordBatch, error) {
	return c.codec().Decode(topic, records)
}

func (c inferredJSON) Encode(topic string, batch arrow.RecordBatch) ([]ProduceRecord, error) {
	return c.codec().Encode(topic, batch)
}

// jsonTopology is in -> operator -> out, with the columns that the records have.
func jsonTopology(tb testing.TB, operator *BuiltinOp, sink ...JSONCodecOption) *Topology {
	tb.Helper()
	mem := memory.DefaultAllocator
	topology := NewTopology(mem)
	source := must[Node](tb)(topology.AddSource("source", []string{"in"}, inferredJSON{}))
	step := must[Node](tb)(topology.AddOperator("step", operator, source))
	must[Node](tb)(topology.AddSink("sink", "out", must[*JSONCodec](tb)(NewJSONCodec(mem, nil, sink...)), step))
	return topology
}

// tolerances are the ways to go on behind records that fail.
func tolerances() map[string][]GroupRunnerOption {
	return map[string][]GroupRunnerOption{
		"skip":             {WithErrorPolicy(SkipPolicy())},
		"dead letter":      {WithErrorPolicy(DeadLetterPolicy("dlq"))},
		"skip by search":   {WithErrorPolicy(SkipPolicy()), WithPoisonIsolation()},
		"letter by search": {WithErrorPolicy(DeadLetterPolicy("dlq")), WithPoisonIsolation()},
	}
}

// A column that does not exist, or has the wrong type, costs no record: it ends Run
// under any policy.
func TestErrorsOfTheTopologyTakeNoRecord(t *testing.T) {
	mem := memory.DefaultAllocator
	at := func(column string) *BuiltinOp {
		return must[*BuiltinOp](t)(NewGroupBy(mem, Grouping{Keys: []string{"id"}, Window: time.Minute, TimeColumn: column}))
	}
	two := []string{`{"id":1,"amount":2.5,"note":"a"}`, `{"id":2,"amount":1.5,"note":"b"}`}
	missing := "Arrow column does not exist: amuont (the columns are amount, id, note, __key, __timestamp, __partition, __offset, __headers)"
	for name, test := range map[string]struct {
		topology *Topology
		rounds   [][]string // the last one fails
		want     string
	}{
		"missing in a predicate": {jsonTopology(t, FilterWhere(mem, Column("amuont").Greater(1))), [][]string{two}, "column `amuont`: " + missing},
		"missing aggregate":      {jsonTopology(t, GroupBy(mem, []string{"id"}, Aggregation{InputColumn: "amuont", OutputColumn: "s", Function: Sum})), [][]string{two}, missing},
		"missing time":           {jsonTopology(t, at("amuont")), [][]string{two}, missing},
		"missing key of a sink":  {jsonTopology(t, Select(mem, "amount"), WithJSONKey("id")), [][]string{two}, "column `id`: Arrow column does not exist: id (the columns are amount, __key"},
		"missing in user code": {through(t, "user", func() Processor {
			return ProcessorFunc(func(_ *Context, batch arrow.RecordBatch) error {
				return fmt.Errorf("looking up: %w", &ColumnError{Column: "x", Row: 0, Cause: ErrNoColumn})
			})
		}, "in"), [][]string{{"ada 1", "bob 1"}}, "looking up: column `x`, row 0: column does not exist"},
		"predicate of text":  {jsonTopology(t, FilterWhere(mem, Column("note"))), [][]string{two}, "column `note`: predicate is not boolean"},
		"time of text":       {jsonTopology(t, at("note")), [][]string{two}, "column `note`: an event time is int64 (milliseconds) or a timestamp, not utf8"},
		"key of numbers":     {jsonTopology(t, WithKey(mem, Column("id"))), [][]string{two}, "cannot be made of values that are integer"},
		"text behind a key":  {jsonTopology(t, GroupBy(mem, []string{"id"})), [][]string{two, {`{"id":"x"}`, `{"id":"y"}`}}, "column `id`: the column is of type utf8, but the state holds values of kind integer"},
		"text below a least": {jsonTopology(t, GroupBy(mem, []string{"note"}, Aggregation{InputColumn: "id", OutputColumn: "m", Function: Min})), [][]string{two, {`{"note":"a","id":"x"}`}}, "but the state holds values of kind integer"},
	} {
		for policy, options := range tolerances() {
			consumer, producer := &scriptedConsumer{}, &recordingProducer{}
			offset := int64(0)
			for _, values := range test.rounds {
				consumer.add(fetch{in(0): rows(0, offset, values...)})
				offset += int64(len(values))
			}
			r := newTestRunner(t, test.topology, consumer, producer, options...)
			r.OnPartitionsAssigned([]TopicPartition{in(0)})
			ctx, cancel := context.WithCancel(t.Context())
			consumer.onPoll = func(context.Context) error {
				if consumer.polls > len(test.rounds) {
					cancel()
				}
				return nil
			}
			err := r.Run(ctx)
			cancel()
			var wrong *TopologyError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: Run = %v; want a TopologyError with %q in one line", name, policy, err, test.want)
			}
			if len(consumer.commits) != len(test.rounds)-1 || len(producer.values("dlq")) > 0 || r.Stats().RecordsSkipped > 0 {
				t.Errorf("%s, %s: commits %v, %d records skipped; want those of the %d rounds before and none", name, policy, consumer.commits, r.Stats().RecordsSkipped, len(test.rounds)-1)
			}
		}
	}
}

// Batches that a merge cannot join are an error of the topology, too.
func TestTopicsOfOtherColumnsTakeNoRecord(t *testing.T) {
	mem := memory.DefaultAllocator
	codec := inferredJSON{}
	topology := NewTopology(mem)
	left := must[Node](t)(topology.AddSource("left", []string{"in"}, codec))
	right := must[Node](t)(topology.AddSource("right", []string{"more"}, codec))
	both := must[Node](t)(topology.AddMerge("both", []Node{left, right}))
	must[Node](t)(topology.AddSink("sink", "out", codec, both))
	consumer := &scriptedConsumer{}
	consumer.add(fetch{in(0): rows(0, 0, `{"a":1}`), {"more", 0}: rows(0, 0, `{"b":1}`)})
	r := newTestRunner(t, topology, consumer, &recordingProducer{}, WithErrorPolicy(SkipPolicy()), WithPoisonIsolation())
	r.OnPartitionsAssigned([]TopicPartition{in(0), {"more", 0}})
	var wrong *TopologyError
	if _, err := r.RunOnce(t.Context(), 0); !errors.As(err, &wrong) || !errors.Is(err, ErrSchemaMismatch) || len(consumer.commits) > 0 {
		t.Errorf("RunOnce = %v with commits %v; want a TopologyError of the schemas and no commit", err, consumer.commits)
	}
}

// A part of a batch that lacks a column, because other records have it, does not
// make the search blame its records.
func TestTheSearchForBadRecordsBlamesNoneForMissingColumns(t *testing.T) {
	mem := memory.DefaultAllocator
	total := GroupBy(mem, []string{"note"}, Aggregation{InputColumn: "amount", OutputColumn: "total", Function: Sum})
	consumer, producer := &scriptedConsumer{}, &recordingProducer{}
	consumer.add(fetch{in(0): rows(0, 0, `{"note":"a"}`, `{"note":"b"}`, `{"note":"a","amount":"x"}`, `{"note":"a","amount":"7"}`)})
	r := newTestRunner(t, jsonTopology(t, total), consumer, producer, WithErrorPolicy(SkipPolicy()), WithPoisonIsolation())
	runOnce(t, r)
	if diff := cmp.Diff([]string{`{"note":"a","total":"7"}`, `{"note":"b","total":null}`}, producer.values("out")); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
	if got := r.Stats().RecordsSkipped; got != 1 {
		t.Errorf("%d records skipped; want 1, the one that is no number", got)
	}
}

// What a policy takes is logged, counted, and told to the hook once it is committed.
func TestRecordsThatThePolicyTakesAreTold(t *testing.T) {
	for action, text := range map[ErrorPolicyAction]string{ActionSkip: "records skipped", ActionDeadLetter: "records sent to the dead-letter topic"} {
		var log bytes.Buffer
		var told []string
		policy := ErrorPolicy{Action: action}
		if action == ActionDeadLetter {
			policy.DeadLetterTopic = "dlq"
		}
		consumer := &scriptedConsumer{failWith: map[string]error{"CommitOffsets": errUnreadable}}
		consumer.add(fetch{in(3): rows(3, 7, "ada 1", "!", "ada 2", "!", "ada 3")})
		r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithErrorPolicy(policy),
			WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))),
			WithHooks(Hooks{SetAside: func(info SetAsideInfo) {
				told = append(told, fmt.Sprintf("%v %d of %d to %d: %v", info.Partition, info.Records, info.First, info.Last, info.Err))
				if info.Action != action {
					t.Errorf("action %v; want %v", info.Action, action)
				}
			}}.Join(Hooks{})))
		r.OnPartitionsAssigned([]TopicPartition{in(3)})
		if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, errUnreadable) || len(told) > 0 || strings.Contains(log.String(), text) {
			t.Errorf("a round that failed: error %v, told %v, log %s; want the error of the commit alone", err, told, &log)
		}
		consumer.failWith = nil
		consumer.add(fetch{in(3): rows(3, 7, "ada 1", "!", "ada 2", "!", "ada 3")})
		runOnce(t, r)
		want := []string{"{in 3} 2 of 8 to 10: columnar: in/3: offset 8 (record 1): unreadable record"}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("hook mismatch (-want +got):\n%s", diff)
		}
		line := fmt.Sprintf(`msg=%q topic=in partition=3 records=2 first=8 last=10 error="columnar: in/3: offset 8 (record 1): unreadable record"`, text)
		if !strings.Contains(log.String(), line) || r.Stats().RecordsSkipped != 2 {
			t.Errorf("log %s with %d records counted; want %s and 2", &log, r.Stats().RecordsSkipped, line)
		}
	}
}

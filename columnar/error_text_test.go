// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// errPrefixed is an error as an adapter returns it: with the prefix of this
// package at its front, and once more behind the words of the adapter.
var errPrefixed = fmt.Errorf("adapter: %w", &TopicError{Topic: "in", Partition: 0, Cause: errors.New("columnar: moved")})

func TestErrorTextsHaveTheirPrefixOnce(t *testing.T) {
	const quoted = `adapter: in/0: moved`
	tests := map[string]struct {
		err  error
		want string
	}{
		"fenced":           {&FencedError{ID: "id", Cause: errPrefixed}, `"id" is fenced by a newer owner: `},
		"aborted":          {&TransactionAbortedError{TransactionalID: "id", Cause: errPrefixed}, `transaction of "id" aborted: `},
		"unknown commit":   {&CommitUnknownError{TransactionalID: "id", Cause: errPrefixed}, `outcome of the commit of "id" is unknown: `},
		"rebalanced":       {&RebalancedError{Group: "group", Cause: errPrefixed}, `group "group" rebalanced: `},
		"out of range":     {&OffsetOutOfRangeError{Partition: in(1), Offset: 3, Start: 4, End: 5, Cause: errPrefixed}, "in/1: offset 3 is outside [4, 5]: "},
		"topic":            {&TopicError{Topic: "in", Partition: -1, Cause: errPrefixed}, `topic "in": `},
		"topic partition":  {&TopicError{Topic: "in", Partition: 1, Cause: errPrefixed}, "in/1: "},
		"node":             {&NodeError{Node: "n", Partition: -1, Cause: errPrefixed}, "node `n`: "},
		"column":           {&ColumnError{Column: "c", Row: -1, Cause: errPrefixed}, "column `c`: "},
		"column row":       {&ColumnError{Column: "c", Row: 2, Cause: errPrefixed}, "column `c`, row 2: "},
		"record":           {&RecordError{Topic: "in", Offset: 4, Cause: errPrefixed}, "in/0: offset 4 (record 0): "},
		"records":          {&DecodeError{Records: []*RecordError{{Topic: "in", Offset: 4, Cause: errPrefixed}}}, "in/0: offset 4 (record 0): "},
		"damaged":          {&DamagedSnapshotError{Epoch: 7, Name: "f", Cause: errPrefixed}, "snapshot of partition 0 at epoch 7 is damaged: f: "},
		"damaged latest":   {&DamagedSnapshotError{Epoch: NoEpoch, Name: "f", Cause: errPrefixed}, "snapshot of partition 0 is damaged: f: "},
		"missing state":    {&MissingStateError{Cause: errPrefixed}, "no committed offset but no state for partition 0: "},
		"missing snapshot": {&MissingSnapshotError{Epoch: NoEpoch, Cause: errPrefixed}, "no complete cut has a snapshot of every partition: "},
		"rollback":         {&RollbackError{Partitions: []int{1}, Cause: errPrefixed}, "cannot take the round back in partitions [1]: "},
		"replay":           {&ReplayError{Partition: 1, Cause: errPrefixed}, "cannot repeat the history of partition 1: "},
		"one in another":   {&NodeError{Node: "n", Partition: -1, Cause: &ColumnError{Column: "c", Row: -1, Cause: errPrefixed}}, "node `n`: column `c`: "},
		"what was done":    {textPrefix.Wrap(errPrefixed, "polling %q", "in"), `polling "in": `},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, want := test.err.Error(), "columnar: "+test.want+quoted; got != want {
				t.Errorf("text is %q,\nwant %q", got, want)
			}
			if !errors.Is(test.err, errPrefixed) {
				t.Error("the cause is not in the chain")
			}
		})
	}
}

// failingCounts is a consumer that cannot tell partition counts.
type failingCounts struct{ scriptedConsumer }

func (c *failingCounts) PartitionCounts(context.Context, []string) (map[string]int, error) {
	return nil, errPrefixed
}

// failingProcessor is a processor whose every call fails.
type failingProcessor struct{}

func (failingProcessor) Process(*Context, arrow.RecordBatch) error { return errPrefixed }

func (failingProcessor) Snapshot() ([]byte, error) { return nil, errPrefixed }

func (failingProcessor) Restore([]byte) error { return errPrefixed }

// TestErrorTextsOfFailingSeamsHaveTheirPrefixOnce lets each call that the package
// makes fail, one after the other, with an error that has the prefix itself.
func TestErrorTextsOfFailingSeamsHaveTheirPrefixOnce(t *testing.T) {
	one := fetch{in(0): rows(0, 0, "ada 1")}
	failing := func(method string) *scriptedConsumer {
		return &scriptedConsumer{fetches: []fetch{one}, failWith: map[string]error{method: errPrefixed}}
	}
	round := func(consumer Consumer, producer Producer, options ...GroupRunnerOption) error {
		r, err := NewGroupRunner(ledgerTopology(t), consumer, producer, options...)
		if err != nil {
			return err
		}
		defer r.Close()
		r.OnPartitionsAssigned([]TopicPartition{in(0)})
		if _, ok := producer.(TransactionalProducer); ok {
			_, err = r.RunOnceTransactional(t.Context(), 0)
		} else {
			_, err = r.RunOnce(t.Context(), 0)
		}
		return err
	}
	cycle := func(consumer Consumer, producer Producer) error {
		built := must[*BuiltTopology](t)(ledgerTopology(t).Build())
		_, err := RunPartitionOnce(t.Context(), built, consumer, producer, "in", 0, 0, 0)
		return err
	}
	cuts := func(method string) error {
		consumer := &rangedConsumer{ends: map[TopicPartition]int64{barrierTP(0): 1}}
		consumer.failWith = map[string]error{method: errPrefixed}
		_, err := newReader(t, consumer, 1).LatestCompleteCut(t.Context(), "audit")
		return err
	}
	transactions := func(event string) *recordingTransactions {
		return &recordingTransactions{failWith: map[string]error{event: errPrefixed}}
	}
	failingNode := func(run func(b *BuiltTopology) error) error {
		built := must[*BuiltTopology](t)(through(t, "node", func() Processor { return failingProcessor{} }, "in").Build())
		return run(built)
	}
	tests := map[string]func() error{
		"a group's poll": func() error {
			return round(&scriptedConsumer{pollErrs: []error{errPrefixed}}, &recordingProducer{})
		},
		"a group's subscription":     func() error { return round(failing("Subscribe"), &recordingProducer{}) },
		"a group's partition counts": func() error { return round(&failingCounts{}, &recordingProducer{}) },
		"a group's commit":           func() error { return round(failing("CommitOffsets"), &recordingProducer{}) },
		"a group's outputs":          func() error { return round(failing(""), &recordingProducer{sendErr: errPrefixed}) },
		"a group's seek back": func() error {
			consumer := failing("Seek")
			consumer.failWith["CommitOffsets"] = errPrefixed
			return round(consumer, &recordingProducer{})
		},
		"a group's store": func() error {
			return round(failing(""), &recordingProducer{}, WithStateStore(&recordingStore{loadErr: errPrefixed}))
		},
		"a transaction's begin":   func() error { return round(failing(""), transactions("begin")) },
		"a transaction's offsets": func() error { return round(failing(""), transactions("send-offsets")) },
		"a transaction's commit":  func() error { return round(failing(""), transactions("commit")) },
		"a transaction's abort": func() error {
			producer := transactions("abort")
			producer.sendErr = errPrefixed
			return round(failing(""), producer)
		},
		"a partition's assignment": func() error { return cycle(failing("Assign"), &recordingProducer{}) },
		"a partition's seek":       func() error { return cycle(failing("Seek"), &recordingProducer{}) },
		"a partition's commit":     func() error { return cycle(failing("CommitOffsets"), &recordingProducer{}) },
		"a partition's outputs":    func() error { return cycle(failing(""), &recordingProducer{sendErr: errPrefixed}) },
		"a partition's poll": func() error {
			return cycle(&scriptedConsumer{pollErrs: []error{errPrefixed}}, &recordingProducer{})
		},
		"a partition's position": func() error {
			consumer := &positionedConsumer{}
			consumer.failWith = map[string]error{"Positions": errPrefixed}
			return cycle(consumer, &recordingProducer{})
		},
		"a cut's assignment": func() error { return cuts("Assign") },
		"a cut's seek":       func() error { return cuts("Seek") },
		"a cut's start":      func() error { return cuts("StartOffsets") },
		"a cut's end":        func() error { return cuts("EndOffsets") },
		"a cut's position":   func() error { return cuts("Positions") },
		"a processor": func() error {
			return failingNode(func(b *BuiltTopology) error { _, err := b.RunBatch("in", one[in(0)]); return err })
		},
		"a processor's snapshot": func() error {
			return failingNode(func(b *BuiltTopology) error {
				_ = b.RestorePartition(0, nil)
				_, err := b.SnapshotPartition(0)
				return err
			})
		},
		"a processor's restore": func() error {
			return failingNode(func(b *BuiltTopology) error { return b.RestorePartition(0, map[string][]byte{"node": {1}}) })
		},
		"a codec": func() error {
			topology := NewTopology(memory.DefaultAllocator)
			source := must[Node](t)(topology.AddSource("source", []string{"in"}, failingCodec{}))
			must[Node](t)(topology.AddSink("sink", "out", failingCodec{}, source))
			_, err := must[*BuiltTopology](t)(topology.Build()).RunBatch("in", one[in(0)])
			return err
		},
	}
	for name, run := range tests {
		t.Run(name, func(t *testing.T) {
			err := run()
			if !errors.Is(err, errPrefixed) {
				t.Fatalf("error = %v; want the cause of the failing call in it", err)
			}
			for line := range strings.Lines(err.Error()) {
				if strings.Count(line, "columnar: ") != 1 {
					t.Errorf("%q does not have the prefix once", line)
				}
			}
		})
	}
}

// failingCodec is a codec that decodes nothing.
type failingCodec struct{}

func (failingCodec) Decode(string, []ConsumedRecord) (arrow.RecordBatch, error) {
	return nil, errPrefixed
}

func (failingCodec) Encode(string, arrow.RecordBatch) ([]ProduceRecord, error) {
	return nil, errPrefixed
}

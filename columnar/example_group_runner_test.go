// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// A service: exactly once, with a snapshot at every cut of a barrier group.
func ExampleGroupRunner() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	broker, stopBroker := startBroker("words", "counts")
	defer stopBroker()
	produce(broker, "words", `{"word":"to"}`, `{"word":"be"}`, `{"word":"to"}`)

	// One process publishes cuts for all members of the group.
	publisher, err := kafka.NewCutPublisher("word-counts", []string{"words"}, broker)
	if err != nil {
		log.Fatal(err)
	}
	defer publisher.Close()
	if err := publisher.EnsureTopic(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := publisher.Publish(ctx); err != nil { // Run publishes on an interval
		log.Fatal(err)
	}

	directory, err := os.MkdirTemp("", "word-counts")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	store, err := columnar.OpenFileStateStore(directory)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	barriers, err := kafka.NewReader(broker)
	if err != nil {
		log.Fatal(err)
	}
	defer barriers.Close()
	cuts, err := columnar.NewCutReader(barriers, 1)
	if err != nil {
		log.Fatal(err)
	}
	member, err := kafka.NewTransactionalMember("word-counts", "word-counts-0", broker)
	if err != nil {
		log.Fatal(err)
	}
	defer member.Close() // after the runner
	runner, err := columnar.NewGroupRunner(wordCounts(), member, member,
		columnar.WithStateStore(store),
		columnar.WithBarrierGroup("word-counts", cuts),
		columnar.WithBarrierListener(func(barrier columnar.Barrier) {
			fmt.Printf("epoch %d at %v\n", barrier.Cut.Epoch, barrier.Offsets)
			stop() // a service goes on until it is told to end
		}))
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Run(ctx); err != nil {
		log.Fatal(err)
	}
	printValues(readAll(context.Background(), broker, "counts"))
	// Output:
	// epoch 1 at map[{words 0}:3]
	// {"word":"to","count":2}
	// {"word":"be","count":1}
}

// RestoreToEpoch goes back to a cut: its state, and its offsets as committed
// ones. What was produced behind it is produced again.
func ExampleGroupRunner_RestoreToEpoch() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	broker, stopBroker := startBroker("words", "counts")
	defer stopBroker()
	publisher, err := kafka.NewCutPublisher("word-counts", []string{"words"}, broker)
	if err != nil {
		log.Fatal(err)
	}
	defer publisher.Close()
	if err := publisher.EnsureTopic(ctx); err != nil {
		log.Fatal(err)
	}
	produce(broker, "words", `{"word":"be"}`)
	cut, err := publisher.Publish(ctx)
	if err != nil {
		log.Fatal(err)
	}

	directory, err := os.MkdirTemp("", "word-counts")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	barriers, err := kafka.NewReader(broker)
	if err != nil {
		log.Fatal(err)
	}
	defer barriers.Close()
	cuts, err := columnar.NewCutReader(barriers, 1)
	if err != nil {
		log.Fatal(err)
	}
	member, err := kafka.NewMember("word-counts", broker)
	if err != nil {
		log.Fatal(err)
	}
	defer member.Close()
	runner, err := columnar.NewGroupRunner(wordCounts(), member, member,
		columnar.WithStateStore(columnar.NewFileStateStore(directory)),
		columnar.WithBarrierGroup("word-counts", cuts))
	if err != nil {
		log.Fatal(err)
	}
	process(ctx, runner, 1)
	produce(broker, "words", `{"word":"be"}`, `{"word":"be"}`)
	process(ctx, runner, 3)

	if _, err := runner.RestoreToEpoch(ctx, cut.Epoch+5); err != nil {
		var missing *columnar.MissingCutError
		fmt.Println(err, errors.As(err, &missing))
	}
	restored, err := runner.RestoreToEpoch(ctx, cut.Epoch)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("restored to", restored.Offsets)
	process(ctx, runner, 5) // two of them for the second time
	if err := runner.Close(); err != nil {
		log.Fatal(err)
	}
	counts := readAll(ctx, broker, "counts")
	fmt.Printf("%s\n", counts[len(counts)-1].Value)
	// Output:
	// columnar: barrier group "word-counts" has no complete cut at epoch 6; complete are [1] true
	// restored to map[{words 0}:1]
	// {"word":"be","count":3}
}

// Records that cannot be processed go to a topic of their own, and the others
// go on.
func ExampleDeadLetterPolicy() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	broker, stopBroker := startBroker("words", "counts", "words-failed")
	defer stopBroker()
	produce(broker, "words", `{"word":"be"}`, `{"word":7}`, `{"word":"be"}`)
	member, err := kafka.NewMember("word-counts", broker)
	if err != nil {
		log.Fatal(err)
	}
	defer member.Close()
	runner, err := columnar.NewGroupRunner(wordCounts(), member, member,
		columnar.WithErrorPolicy(columnar.DeadLetterPolicy("words-failed")))
	if err != nil {
		log.Fatal(err)
	}
	process(ctx, runner, 3)
	if err := runner.Close(); err != nil {
		log.Fatal(err)
	}
	printValues(readAll(ctx, broker, "counts"))
	for _, letter := range readAll(ctx, broker, "words-failed") {
		fmt.Printf("%s\n", letter.Value)
		for _, header := range letter.Headers {
			fmt.Printf("  %s: %s\n", header.Key, header.Value)
		}
	}
	// Output:
	// {"word":"be","count":2}
	// {"word":7}
	//   krabka.error.class: columnar.JSONError
	//   krabka.error.message: columnar: words/0: offset 1 (record 1): found '7' in place of a text: word (at byte 8)
	//   krabka.source.topic: words
	//   krabka.source.partition: 0
	//   krabka.source.offset: 1
}

// Lag is what is left to do; Metrics and Stats are counters for a monitoring
// system to read on its own schedule.
func ExampleGroupRunner_Lag() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	broker, stopBroker := startBroker("words", "counts")
	defer stopBroker()
	produce(broker, "words", `{"word":"to"}`, `{"word":"be"}`)
	member, err := kafka.NewMember("word-counts", broker)
	if err != nil {
		log.Fatal(err)
	}
	defer member.Close()
	runner, err := columnar.NewGroupRunner(wordCounts(), member, member)
	if err != nil {
		log.Fatal(err)
	}
	process(ctx, runner, 2)
	produce(broker, "words", `{"word":"or"}`)

	lag, err := runner.Lag(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("lag:", lag)
	counters, stats := runner.Metrics().Snapshot(), runner.Stats()
	fmt.Println("records in and out:", counters.InputRecords, counters.OutputRecords)
	fmt.Println("partitions assigned:", stats.PartitionsAssigned, "rounds failed:", stats.RoundsFailed)
	if err := runner.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// lag: map[{words 0}:1]
	// records in and out: 2 2
	// partitions assigned: 1 rounds failed: 0
}

// Hooks tell of each event as it happens. They are the place for histograms,
// alarms and traces.
func ExampleHooks() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	broker, stopBroker := startBroker("words", "counts")
	defer stopBroker()
	produce(broker, "words", `{"word":"to"}`, `{"word":"be"}`)
	member, err := kafka.NewMember("word-counts", broker)
	if err != nil {
		log.Fatal(err)
	}
	defer member.Close()
	runner, err := columnar.NewGroupRunner(wordCounts(), member, member, columnar.WithHooks(columnar.Hooks{
		Rebalance: func(info columnar.RebalanceInfo) { fmt.Println("assigned", info.Assigned) },
		Round: func(info columnar.RoundInfo) {
			fmt.Println("round:", info.Records, "records,", info.Outputs, "outputs, committed", info.Offsets)
		},
	}))
	if err != nil {
		log.Fatal(err)
	}
	process(ctx, runner, 2)
	if err := runner.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// assigned [{words 0}]
	// round: 2 records, 2 outputs, committed map[{words 0}:2]
}

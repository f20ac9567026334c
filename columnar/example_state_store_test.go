// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// State of the members on one machine lies in files, a directory for each
// group. A runner that starts again finds it there.
func ExampleOpenFileStateStore() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	broker, stopBroker := startBroker("words", "counts")
	defer stopBroker()
	directory, err := os.MkdirTemp("", "state")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)

	serve := func(words ...string) {
		produce(broker, "words", words...)
		store, err := columnar.OpenFileStateStore(directory,
			columnar.WithStateGroup("word-counts"),
			columnar.WithRetainedEpochs(10))
		if err != nil {
			log.Fatal(err)
		}
		defer store.Close()
		member, err := kafka.NewMember("word-counts", broker)
		if err != nil {
			log.Fatal(err)
		}
		defer member.Close()
		runner, err := columnar.NewGroupRunner(wordCounts(), member, member, columnar.WithStateStore(store))
		if err != nil {
			log.Fatal(err)
		}
		process(ctx, runner, int64(len(words)))
		if err := runner.Close(); err != nil { // saves
			log.Fatal(err)
		}
	}
	serve(`{"word":"be"}`, `{"word":"be"}`)
	serve(`{"word":"be"}`)
	printValues(readAll(ctx, broker, "counts"))
	// Output:
	// {"word":"be","count":2}
	// {"word":"be","count":3}
}

// Without its state, a partition whose group has committed offsets does not
// start: counts would go on from zero. The options are to build it again from
// the log, or to go on without.
func ExampleWithMissingState() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	broker, stopBroker := startBroker("words", "counts")
	defer stopBroker()
	produce(broker, "words", `{"word":"be"}`, `{"word":"be"}`)

	serve := func(total int64, options ...columnar.GroupRunnerOption) error {
		member, err := kafka.NewMember("word-counts", broker)
		if err != nil {
			return err
		}
		defer member.Close()
		runner, err := columnar.NewGroupRunner(wordCounts(), member, member, options...)
		if err != nil {
			return err
		}
		for runner.Metrics().Snapshot().InputRecords < total {
			if _, err := runner.RunOnce(ctx, time.Second); err != nil {
				_ = runner.Close()
				return err
			}
		}
		return runner.Close()
	}
	if err := serve(2); err != nil {
		log.Fatal(err)
	}
	produce(broker, "words", `{"word":"be"}`)
	fmt.Println(serve(1))
	fmt.Println(serve(1, columnar.WithMissingState(columnar.MissingStateRebuild)))
	printValues(readAll(ctx, broker, "counts"))
	// Output:
	// columnar: committed offset words/0:2 but no state for partition 0
	// <nil>
	// {"word":"be","count":2}
	// {"word":"be","count":3}
}

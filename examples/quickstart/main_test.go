// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/examples/internal/program"
	"github.com/krabka-io/krabka-streams-go/internal/nexgen"
)

func TestMain(m *testing.M) { program.Main(m) }

// testEvents is a small number of events whose feeding still lasts for three
// seconds, so that one of the two services reports at least once.
const testEvents = 90_000

// checkStory runs the program and expects the right counts in the end.
func checkStory(t *testing.T, args ...string) {
	t.Helper()
	got := program.Run(t, append(args, "-n", fmt.Sprint(testEvents))...)
	if got.Code != 0 || got.Errors != "" {
		t.Errorf("exit code %d with errors %q, want 0 and none", got.Code, got.Errors)
	}
	want, err := nexgen.Answer("q12e", testEvents)
	if err != nil {
		t.Fatal(err)
	}
	for _, report := range []string{`^  broker:  +\d+ bids committed, lag \d+$`, `^  service: +\d+ records/s, epoch -?\d+$`} {
		progress := *got.Output
		progress.Next(report)
	}
	counts := fmt.Sprintf(" +%d counts, digest %s$", len(want), nexgen.Digest(want))
	got.Output.Next(fmt.Sprintf(`^feeding %d events to bids-\d+ at `, testEvents))
	first := got.Output.Next(`^service runs as process (\d+)$`)
	got.Output.Next(`^process ` + first[0] + ` killed with SIGKILL$`)
	if second := got.Output.Next(`^service runs as process (\d+)$`); second[0] == first[0] {
		t.Errorf("the service runs again as process %s", second[0])
	}
	got.Output.Next(`^expected:` + counts)
	got.Output.Next(`^in Kafka:` + counts)
	got.Output.Next(`^every bid counted exactly once$`)
}

func TestCountsSurviveTheKill(t *testing.T) { checkStory(t) }

func TestWrongCountFailsTheRun(t *testing.T) {
	brokers, stop, err := embed()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	// A stranger adds a count of its own once the service produces.
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.ConsumeRegex(), kgo.ConsumeTopics("^bidder-counts-"),
		kgo.MetadataMinAge(program.Glance), kgo.MetadataMaxAge(program.Glance), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	added := make(chan error, 1)
	go func() {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			added <- err
			return
		}
		record := fetches.Records()[0]
		added <- client.ProduceSync(ctx, &kgo.Record{
			Topic: record.Topic, Value: []byte(`{"bidder":-1,"__window_start":0,"count":1}`),
		}).FirstErr()
	}()
	got := program.Run(t, "-brokers", brokers, "-n", fmt.Sprint(testEvents))
	cancel()
	if err := <-added; err != nil {
		t.Fatalf("the stranger added nothing: %v", err)
	}
	if got.Code != 1 || got.Errors != "quickstart: the results differ\n" {
		t.Errorf("exit code %d with errors %q, want 1 because the results differ", got.Code, got.Errors)
	}
	want := got.Output.Next(`^expected: +(\d+) counts, digest (\w+)$`)
	have := got.Output.Next(`^in Kafka: +(\d+) counts, digest (\w+)$`)
	if have[1] == want[1] {
		t.Errorf("digest %s in spite of a wrong count", have[1])
	}
}

// SPDX-License-Identifier: Apache-2.0

// First-service counts visits per user: the program of the page that gets a
// newcomer started.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
)

func main() {
	brokers := flag.String("brokers", "localhost:9092", "address of a Kafka broker")
	state := flag.String("state", "state", "folder for the counts between two runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *brokers, *state); err != nil {
		log.Fatal(err)
	}
}

// topology counts the visits of each user.
func topology() (*columnar.Topology, error) {
	visits := stream.JSON(stream.Text("user"))
	return stream.New().
		From(visits, "visits").
		Named("count").GroupBy("user").
		Aggregate(stream.Count().As("visits")).
		To("visits-per-user", visits.Key("user")).
		Topology()
}

// serve counts until ctx ends.
func serve(ctx context.Context, brokers, state string) error {
	t, err := topology()
	if err != nil {
		return err
	}
	member, err := kafka.NewTransactionalMember("visits-per-user", "visits-per-user-0", kgo.SeedBrokers(brokers), kgo.InstanceID("0"))
	if err != nil {
		return err
	}
	defer member.Close()
	runner, err := columnar.NewGroupRunner(t, member, member,
		columnar.WithStateStore(columnar.NewFileStateStore(state)),
		columnar.WithErrorPolicy(columnar.DeadLetterPolicy("visits-failed")),
		columnar.WithHooks(columnar.Hooks{Round: func(info columnar.RoundInfo) {
			log.Printf("%d visits, %d counts, error %v", info.Records, info.Outputs, info.Err)
		}}))
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

// SPDX-License-Identifier: Apache-2.0

// Quickstart counts auction bids exactly, through a crash.
//
// It feeds bids to a Kafka topic, starts a service in a process of its own that
// counts them per bidder and ten seconds, kills that process in the middle with
// SIGKILL, starts it again, and at the end compares the results in Kafka with
// counts made without Kafka. It exits with status 1 if they differ.
//
// Without flags the broker is inside this process. With -brokers it is a real
// one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/internal/nexgen"
)

func main() {
	brokers := flag.String("brokers", "", "address of a Kafka broker; empty for one inside this process")
	events := flag.Int64("n", 250_000, "number of auction events, 92 % of which are bids")
	run := flag.String("service", "", "only run the service, for the run of this name")
	state := flag.String("state", "", "folder for the service's snapshots")
	flag.Parse()

	// The story is told on standard output; runners report only errors beside it.
	slog.SetLogLoggerLevel(slog.LevelError)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *run != "" {
		err = serve(ctx, *brokers, namesOf(*run), *state)
	} else {
		err = demonstrate(ctx, *brokers, *events)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func demonstrate(ctx context.Context, brokers string, events int64) error {
	if brokers == "" {
		address, stop, err := embed()
		if err != nil {
			return err
		}
		defer stop()
		brokers = address
	}
	state, err := os.MkdirTemp("", "quickstart")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	run := fmt.Sprint(time.Now().UnixMilli())
	n := namesOf(run)
	remove, err := createTopics(ctx, admin, n)
	if err != nil {
		return err
	}
	defer remove()

	// Whatever ends first with an error ends the rest.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	publisher, err := kafka.NewCutPublisher(n.group, []string{n.bids}, kgo.SeedBrokers(brokers))
	if err != nil {
		return err
	}
	defer publisher.Close()
	if err := publisher.EnsureTopic(ctx); err != nil {
		return err
	}
	go func() {
		if err := publisher.Run(ctx, time.Second); err != nil && ctx.Err() == nil {
			cancel(fmt.Errorf("publish cuts: %w", err))
		}
	}()
	fmt.Printf("feeding %d events to %s at %s, a cut every second\n", events, n.bids, brokers)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		if err := feed(ctx, brokers, n, events, max(30_000, events/10)); err != nil {
			cancel(fmt.Errorf("feed: %w", err))
		}
	}()

	first, err := start(brokers, run, state)
	if err != nil {
		return err
	}
	atHalf := func(done, _ int64) bool { return done >= events*46/100 }
	if err := first.await(ctx, admin, n, atHalf); err != nil {
		return err
	}
	_ = first.end(syscall.SIGKILL) // reports the signal
	fmt.Printf("process %d killed with SIGKILL\n", first.Process.Pid)

	second, err := start(brokers, run, state)
	if err != nil {
		return err
	}
	atEnd := func(done, total int64) bool {
		select {
		case <-fed:
			return done == total
		default:
			return false
		}
	}
	if err := second.await(ctx, admin, n, atEnd); err != nil {
		return err
	}
	if err := second.end(syscall.SIGTERM); err != nil {
		return fmt.Errorf("the service ended with: %w", err)
	}
	return compare(ctx, brokers, n, events)
}

func compare(ctx context.Context, brokers string, n names, events int64) error {
	got, err := readCounts(ctx, brokers, n)
	if err != nil {
		return err
	}
	want, err := nexgen.Answer("q12e", events)
	if err != nil {
		return err
	}
	fmt.Printf("expected: %6d counts, digest %s\n", len(want), nexgen.Digest(want))
	fmt.Printf("in Kafka: %6d counts, digest %s\n", len(got), nexgen.Digest(got))
	if nexgen.Digest(got) != nexgen.Digest(want) {
		return errors.New("the results differ")
	}
	fmt.Println("every bid counted exactly once")
	return nil
}

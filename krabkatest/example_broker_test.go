// SPDX-License-Identifier: Apache-2.0

package krabkatest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
	"github.com/krabka-io/krabka-streams-go/coordination"
	"github.com/krabka-io/krabka-streams-go/krabkatest"
)

// must returns a value of a test that cannot go on without it.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// A test of a windowed join: an order and its payment meet within an hour, and a
// restart of the program is in between.
func ExampleColumnarTestDriver_join() {
	builder := stream.New()
	payments := builder.From(stream.JSON(stream.Int("order"), stream.Float("amount")), "payments")
	topology := must(builder.From(stream.JSON(stream.Int("order"), stream.Text("item")), "orders").
		Join(payments, time.Hour, stream.On("order", "order")).
		To("paid", stream.JSON()).Topology())
	built := must(topology.Build())
	defer built.Close()
	driver := krabkatest.NewColumnarTestDriver(built)
	hour := time.Hour.Milliseconds()
	for _, err := range []error{
		driver.PipeJSON("orders", 0, map[string]any{"order": 7, "item": "pen"}),
		driver.Restart(),
		driver.PipeJSON("payments", hour, map[string]any{"order": 7, "amount": 1.5}),
		driver.PipeJSON("payments", hour+1, map[string]any{"order": 7, "amount": 9.0}), // too late
	} {
		if err != nil {
			log.Fatal(err)
		}
	}
	for _, record := range driver.DrainOutput("paid") {
		fmt.Printf("%s\n", record.Value)
	}
	// Output: {"left_order":7,"left_item":"pen","right_order":7,"right_amount":1.5}
}

// A test of an exactly-once service that crashes in the middle of a round: its
// successor counts each visit once.
func ExampleBroker() {
	ctx := context.Background()
	broker, store := krabkatest.NewBroker(), krabkatest.NewStateStore()
	broker.CreateTopic("visits", 2)
	broker.CreateTopic("counts", 1)
	start := func(process *krabkatest.Process) *columnar.GroupRunner {
		member := broker.NewTransactionalMember("counters", "counter-1", krabkatest.InProcess(process))
		topology := must(stream.New().From(stream.JSON(stream.Text("user")), "visits").
			GroupBy("user").Emit(columnar.EmitChanges).Aggregate(stream.Count()).To("counts", stream.JSON()).Topology())
		return must(columnar.NewGroupRunner(topology, member, member, columnar.WithStateStore(store.Open(process))))
	}
	visit := func(user string) { must(0, broker.ProduceJSON("visits", 0, 0, map[string]string{"user": user})) }

	process := krabkatest.NewProcess()
	first := start(process)
	visit("ada")
	must(first.RunOnceTransactional(ctx, time.Second))
	visit("ada")
	process.CrashAfter(3) // before the round has committed
	_, err := first.RunOnceTransactional(ctx, time.Second)
	fmt.Println("crashed:", errors.Is(err, krabkatest.ErrCrashed))
	first.Close()

	second := start(krabkatest.NewProcess())
	defer second.Close()
	for broker.Unread("counters", "visits") > 0 {
		must(second.RunOnceTransactional(ctx, time.Second))
	}
	for _, record := range broker.Output("counts") {
		fmt.Printf("%s\n", record.Value)
	}
	// Output:
	// crashed: true
	// {"user":"ada","count":1}
	// {"user":"ada","count":2}
}

// A test of a control plane whose leader is deposed: the broker refuses what the old
// leader still writes.
func ExampleElectionTransport() {
	ctx := context.Background()
	broker := krabkatest.NewBroker()
	broker.CreateTopic("commands", 1)
	role := must(coordination.NewRole("payments.dispatcher"))
	leader := must(coordination.AcquireLeadership(ctx, broker.NewElectionTransport(nil), role, must(coordination.NewMemberID("node-1"))))
	guard := must(leader.Guard())
	command := func(text string) coordination.GuardedRecord {
		return coordination.GuardedRecord{Topic: "commands", Value: []byte(text)}
	}
	fmt.Println("while it leads:", guard.Write(ctx, command("dispatch order 7")))

	broker.Depose(role) // as a standby does that takes the leader for dead
	err := guard.Write(ctx, command("dispatch order 8"))
	fmt.Println("deposed:", errors.Is(err, coordination.ErrFenced))
	<-leader.Done()

	successor := must(coordination.AcquireLeadership(ctx, broker.NewElectionTransport(nil), role, must(coordination.NewMemberID("node-1"))))
	fmt.Println("the successor supersedes it:", successor.Token().Supersedes(leader.Token()))
	if err := successor.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	for _, record := range broker.Output("commands") {
		fmt.Printf("%s\n", record.Value)
	}
	// Output:
	// while it leads: <nil>
	// deposed: true
	// the successor supersedes it: true
	// dispatch order 7
}

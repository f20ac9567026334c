// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// Every writer of a role pins the partition from the role name, so the records
// of one role keep a total order.
func ExampleRolePartition() {
	role, err := coordination.NewRole("controller")
	if err != nil {
		log.Fatal(err)
	}
	partition, err := coordination.RolePartition(role, 16)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("role %s writes to %s-%d\n", role, coordination.StateTopic, partition)
	// Output:
	// role controller writes to __coordination_state-12
}

// An epoch runs out, and the coordinator goes on with another producer id at
// epoch 0. A comparison of the epoch alone would keep a deposed leader.
func ExampleFencingToken_Compare() {
	exhausted, err := coordination.NewFencingToken(4, math.MaxInt16)
	if err != nil {
		log.Fatal(err)
	}
	fresh, err := coordination.NewFencingToken(5, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s supersedes %s: %t\n", fresh, exhausted, fresh.Supersedes(exhausted))
	fmt.Printf("the epoch alone would say: %t\n", fresh.ProducerEpoch() > exhausted.ProducerEpoch())
	// Output:
	// 5:0 supersedes 4:32767: true
	// the epoch alone would say: false
}

func ExampleDecodeLease() {
	member, err := coordination.NewMemberID("node-1")
	if err != nil {
		log.Fatal(err)
	}
	token, err := coordination.NewFencingToken(4242, 7)
	if err != nil {
		log.Fatal(err)
	}
	value := coordination.EncodeLease(coordination.Lease{
		Member: member, Token: token, GrantedAt: 1700000000000, Deadline: 1700000030000,
	})
	read, err := coordination.DecodeLease(value)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d bytes\n", len(value))
	fmt.Printf("%s holds the role with token %s until %d\n", read.Member, read.Token, read.Deadline)
	// Output:
	// 36 bytes
	// node-1 holds the role with token 4242:7 until 1700000030000
}

// At the deadline, the expired holder and the first standby challenge. The
// coordinator decides between them.
func ExampleEvaluate() {
	role, err := coordination.NewRole("controller")
	if err != nil {
		log.Fatal(err)
	}
	config, err := coordination.NewLeaseConfig(30*time.Second, 10*time.Second, 5*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	token, err := coordination.NewFencingToken(11, 1)
	if err != nil {
		log.Fatal(err)
	}

	var members []coordination.MemberID
	var records []coordination.StateRecord
	for i, name := range []string{"node-1", "node-2", "node-3"} {
		member, err := coordination.NewMemberID(name)
		if err != nil {
			log.Fatal(err)
		}
		members = append(members, member)
		records = append(records, coordination.StateRecord{
			Offset: int64(i),
			Key:    coordination.EncodeKey(coordination.RegistrationKey(role, member)),
			Value:  coordination.EncodeRegistration(coordination.Registration{Member: member}),
		})
	}
	records = append(records, coordination.StateRecord{
		Offset: 3,
		Key:    coordination.EncodeKey(coordination.LeaseKey(role)),
		Value:  coordination.EncodeLease(coordination.Lease{Member: members[0], Token: token, Deadline: 30000}),
	})
	state, err := coordination.BuildRoleState(role, records)
	if err != nil {
		log.Fatal(err)
	}

	for _, member := range members {
		rank, _ := state.RankOf(member)
		decision := coordination.Evaluate(state, member, 30000, config)
		fmt.Printf("%s rank %d: %s %d\n", member, rank, decision.Action, decision.WaitUntil)
	}
	// Output:
	// node-1 rank 0: challenge 0
	// node-2 rank 0: challenge 0
	// node-3 rank 1: wait 35000
}

// stubCoordinator answers with one token.
type stubCoordinator struct {
	token coordination.FencingToken
}

func (s stubCoordinator) AcquireEpoch(context.Context, coordination.Role) (coordination.FencingToken, error) {
	return s.token, nil
}

func (s stubCoordinator) DescribeEpoch(context.Context, coordination.Role) (coordination.FencingToken, bool, error) {
	return s.token, true, nil
}

// A third party checks the authority of a writer with one request. It reads no
// topic, joins no group and takes no epoch.
func ExampleDescribeLeadership() {
	role, err := coordination.NewRole("controller")
	if err != nil {
		log.Fatal(err)
	}
	token, err := coordination.NewFencingToken(4242, 7)
	if err != nil {
		log.Fatal(err)
	}
	stale, err := coordination.NewFencingToken(4242, 6)
	if err != nil {
		log.Fatal(err)
	}
	status, err := coordination.DescribeLeadership(context.Background(), stubCoordinator{token}, role)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status)
	fmt.Printf("the holder writes: %t\n", status.Authoritative(token))
	fmt.Printf("a deposed member writes: %t\n", status.Authoritative(stale))
	// Output:
	// role controller: epoch 4242:7
	// the holder writes: true
	// a deposed member writes: false
}

// The first member leads, and the second waits until its context ends. After
// the first one has left, the second leads at once. The fake stands for a
// coordination.KafkaTransport.
func ExampleAcquireLeadership() {
	transport := newFull()
	role, err := coordination.NewRole("payments.dispatcher")
	if err != nil {
		log.Fatal(err)
	}
	compete := func(name string, wait time.Duration) (*coordination.Leadership, error) {
		member, err := coordination.NewMemberID(name)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		return coordination.AcquireLeadership(ctx, transport, role, member)
	}

	first, err := compete("node-1", time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Member(), "leads with token", first.Token())
	_, err = compete("node-2", 10*time.Millisecond)
	fmt.Println("node-2 waits in vain:", errors.Is(err, context.DeadlineExceeded))

	if err := first.Leave(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("node-1 is out:", errors.Is(first.Err(), coordination.ErrNotHeld))
	second, err := compete("node-2", time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(second.Member(), "leads with token", second.Token())
	fmt.Println("the sequence grows:", second.Sequence() > first.Sequence())
	if err := second.Resign(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// node-1 leads with token 1:0
	// node-2 waits in vain: true
	// node-1 is out: true
	// node-2 leads with token 1:1
	// the sequence grows: true
}

// A leader writes through its guard. Once another process took the role, the
// broker refuses its write, and the leadership is over.
func ExampleLeadership_Guard() {
	transport := newFull()
	role, err := coordination.NewRole("payments.dispatcher")
	if err != nil {
		log.Fatal(err)
	}
	member, err := coordination.NewMemberID("node-1")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	leadership, err := coordination.AcquireLeadership(ctx, transport, role, member)
	if err != nil {
		log.Fatal(err)
	}
	guard, err := leadership.Guard()
	if err != nil {
		log.Fatal(err)
	}
	command := coordination.GuardedRecord{Topic: "commands", Partition: 3, Key: []byte("order-7"), Value: []byte("dispatch")}
	fmt.Println("while it leads:", guard.Write(ctx, command))

	transport.supersede(role) // as another process does
	err = guard.Write(ctx, command)
	fmt.Println("after that it is fenced:", errors.Is(err, coordination.ErrFenced))
	<-leadership.Done()
	fmt.Println("for good:", errors.Is(guard.Write(ctx, command), coordination.ErrNotHeld))
	// Output:
	// while it leads: <nil>
	// after that it is fenced: true
	// for good: true
}

// A service competes for a role and does its work while it holds it. The fake
// stands for a coordination.KafkaTransport.
func ExampleRun() {
	transport := newFull()
	role, err := coordination.NewRole("payments.dispatcher")
	if err != nil {
		log.Fatal(err)
	}
	member, err := coordination.NewMemberID("node-1") // stable across restarts
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	err = coordination.Run(ctx, transport, role, member, coordination.Callbacks{
		OnAcquired: func(ctx context.Context, l *coordination.Leadership) error {
			writer, err := l.Guard()
			if err != nil {
				return err
			}
			fmt.Println("leading with token", l.Token())
			err = writer.Write(ctx, coordination.GuardedRecord{Topic: "commands", Value: []byte("dispatch order 7")})
			if err != nil {
				return err
			}
			fmt.Println("the command is committed")
			stop() // the service shuts down
			<-ctx.Done()
			return nil
		},
		// Not for a leadership that Run resigns, as it does here in the end.
		OnLost: func(err error) { fmt.Println("lost:", err) },
	})
	fmt.Println("stopped:", err)
	// Output:
	// leading with token 1:0
	// the command is committed
	// stopped: <nil>
}

// A device remembers the highest leadership whose command it accepted.
func ExampleDeviceGuard() {
	ctx := context.Background()
	guard, err := coordination.NewDeviceGuard(ctx, new(memoryStore)) // a durable store, in a device
	if err != nil {
		log.Fatal(err)
	}
	old, err := coordination.NewFencingToken(4242, 7)
	if err != nil {
		log.Fatal(err)
	}
	// The producer id started over at a smaller one, so the token of the
	// successor ranks below; its sequence does not.
	successor, err := coordination.NewFencingToken(17, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(guard.Admit(ctx, coordination.Credential{Token: old, Sequence: 100}))
	fmt.Println(guard.Admit(ctx, coordination.Credential{Token: successor, Sequence: 230}))
	err = guard.Admit(ctx, coordination.Credential{Token: old, Sequence: 100})
	fmt.Println(err)
	fmt.Println("fenced:", errors.Is(err, coordination.ErrFenced))
	// Output:
	// <nil>
	// <nil>
	// coordination: stale command: credential 100 (4242:7) was superseded by 230 (17:0)
	// fenced: true
}

// An observer outside the election follows who leads.
func ExampleWatch() {
	transport := newFull()
	role, err := coordination.NewRole("controller")
	if err != nil {
		log.Fatal(err)
	}
	member, err := coordination.NewMemberID("node-1")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	leadership, err := coordination.AcquireLeadership(ctx, transport, role, member)
	if err != nil {
		log.Fatal(err)
	}
	for change, err := range coordination.Watch(ctx, transport, role, coordination.WithPollInterval(time.Millisecond)) {
		if err != nil {
			log.Fatal(err)
		}
		if !change.Held {
			fmt.Println("nobody leads")
			break
		}
		fmt.Println(change.Lease.Member, "leads with token", change.Lease.Token)
		if err := leadership.Resign(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// node-1 leads with token 1:0
	// nobody leads
}

// SPDX-License-Identifier: Apache-2.0

// Leader-election runs a control plane of three members, and takes two leaders
// away from it.
//
// Each member is a process of its own. They elect a leader, and the leader
// writes commands that the broker accepts only while it leads. The program
// kills the first leader with SIGKILL, so another takes over. It stops the
// second with SIGSTOP until its lease is over and the third leads, and lets it
// go on: the broker refuses its late renewal, and it loses the role. At the end the program reads the
// commands as a read-committed consumer does, and exits with status 1 unless
// each leader's commands end before the first one of its successor.
//
// Without flags the broker is inside this process. With -brokers it is a real
// one.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	brokers := flag.String("brokers", "", "address of a Kafka broker; empty for one inside this process")
	member := flag.String("member", "", "only run the member of this name")
	run := flag.String("run", "", "the run that the member belongs to")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *member != "" {
		ctx, cancel := untilClosed(ctx, os.Stdin)
		defer cancel()
		err = serve(ctx, *brokers, namesOf(*run), *member, reportTo(os.Stdout))
	} else {
		err = demonstrate(ctx, *brokers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "leader-election:", err)
		os.Exit(1)
	}
}

// commandsPerTerm is how many commands the program waits for before it takes a
// leader away.
const commandsPerTerm = 10

func demonstrate(ctx context.Context, brokers string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if brokers == "" {
		address, stop, err := embed()
		if err != nil {
			return err
		}
		defer stop()
		brokers = address
	}
	run := fmt.Sprint(time.Now().UnixMilli())
	n := namesOf(run)
	remove, err := createTopics(ctx, brokers, n)
	if err != nil {
		return err
	}
	defer remove()

	s := newStory()
	defer s.end()
	s.say("", "three members compete for role %s at %s", n.role, brokers)
	for _, member := range []string{"node-a", "node-b", "node-c"} {
		if err := s.start(member, brokers, run); err != nil {
			return err
		}
	}

	first, err := s.leader(ctx, "")
	if err != nil {
		return err
	}
	s.say(first, "is killed with SIGKILL")
	if err := s.kill(ctx, first); err != nil {
		return err
	}

	second, err := s.leader(ctx, first)
	if err != nil {
		return err
	}
	s.say(second, "is stopped with SIGSTOP")
	if err := s.members[second].pause(); err != nil {
		return err
	}

	third, err := s.leader(ctx, second)
	if err != nil {
		return err
	}
	s.say(second, "goes on with SIGCONT, and still believes that it leads")
	if err := s.members[second].resume(); err != nil {
		return err
	}
	refused := func(e event) bool { return e.Kind == eventRefused && e.Member == second }
	if _, err := s.await(ctx, second+" is refused", refused); err != nil {
		return err
	}
	if _, err := s.leader(ctx, second); err != nil {
		return err
	}
	for _, member := range []string{second, third} {
		if err := s.stop(ctx, member); err != nil {
			return err
		}
	}

	log, err := readCommands(ctx, brokers, n.commands)
	if err != nil {
		return err
	}
	terms, err := checkCommands(log, s.acknowledged)
	for _, t := range terms {
		fmt.Println("  " + t.String())
	}
	if err != nil {
		return err
	}
	if len(terms) < 3 {
		return fmt.Errorf("%d leaderships wrote commands, want 3", len(terms))
	}
	fmt.Printf("%d commands of %d leaderships are in order, and every acknowledged one is there\n", len(log), len(terms))
	return nil
}

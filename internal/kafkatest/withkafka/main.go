// SPDX-License-Identifier: Apache-2.0

// Command withkafka starts an Apache Kafka broker and a schema registry, runs a
// command that finds them in its environment, and stops them when the command
// has ended, also when it fails or withkafka is interrupted.
//
//	withkafka [-build DIR] COMMAND [ARGUMENT ...]
//
// Package kafkatest lists the variables. Where KAFKA_BROKERS or
// SCHEMA_REGISTRY_URL is set already, that service is used and none is
// started. The exit status is the command's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

func main() {
	build := flag.String("build", "build", "`folder` for what Maven fetches and for logs")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: withkafka [-build DIR] COMMAND [ARGUMENT ...]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	go watchParent(ctx, os.Getppid(), cancel)
	err := run(ctx, *build, flag.Args())
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "withkafka:", err)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
			os.Exit(exit.ExitCode())
		}
		os.Exit(1)
	}
}

// watchParent calls cancel when parent, the program that started this one, has
// ended.
func watchParent(ctx context.Context, parent int, cancel func()) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for os.Getppid() == parent {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	cancel()
}

// run starts what the environment lacks and runs the command.
func run(ctx context.Context, build string, command []string) error {
	build, err := filepath.Abs(build)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "withkafka: starting the services; the first time Maven fetches them")
	if os.Getenv(kafkatest.LibraryVariable) == "" {
		library, err := kafkatest.FetchKafka(ctx, build)
		if err != nil {
			return err
		}
		if err := os.Setenv(kafkatest.LibraryVariable, library); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(build, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(build, "services-")
	if err != nil {
		return err
	}
	kill, err := startServices(ctx, dir, build)
	if err == nil {
		err = runCommand(ctx, command)
	}
	kill()
	if err != nil {
		return fmt.Errorf("%w (logs of the services are in %s)", err, dir)
	}
	return os.RemoveAll(dir)
}

// startServices starts the services that the environment does not name, and
// names them there. The returned function ends them, and is never nil.
func startServices(ctx context.Context, dir, build string) (kill func(), err error) {
	kill = func() {}
	environment := map[string]string{}
	if os.Getenv(kafkatest.BrokersVariable) == "" {
		node, err := kafkatest.StartNode(ctx, dir, os.Getenv(kafkatest.LibraryVariable), kafkatest.Options{TransactionVersion: 2})
		if err != nil {
			return kill, err
		}
		kill = node.Kill
		environment[kafkatest.BrokersVariable] = node.Addr
		environment[kafkatest.SASLBrokersVariable] = node.SASLAddr
		environment[kafkatest.SASLUserVariable] = kafkatest.SASLUser
		environment[kafkatest.SASLPasswordVariable] = kafkatest.SASLPassword
	}
	if os.Getenv(kafkatest.RegistryURLVariable) == "" {
		registry, err := kafkatest.StartRegistry(ctx, dir, build)
		if err != nil {
			return kill, err
		}
		killNode := kill
		kill = func() { registry.Kill(); killNode() }
		environment[kafkatest.RegistryURLVariable] = registry.URL
	}
	for name, value := range environment {
		if err := os.Setenv(name, value); err != nil {
			return kill, err
		}
	}
	return kill, nil
}

// runCommand runs the command in a group of its own, so that an interrupt
// reaches the programs that it starts as well, and none is left behind.
func runCommand(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.WaitDelay = 10 * time.Second
	ownGroup(cmd)
	return cmd.Run()
}

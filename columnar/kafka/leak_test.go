// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"
)

// roleVariable makes the test binary another program than the tests.
const roleVariable = "KRABKA_TEST_ROLE"

// roles are the programs that the test binary can be.
var roles = map[string]func() error{
	"broker":    serveBroker,
	"member":    runMember,
	"heavy":     runHeavy,
	"publisher": runPublisher,
}

func TestMain(m *testing.M) {
	name := os.Getenv(roleVariable)
	if name == "" {
		goleak.VerifyTestMain(m)
		return
	}
	role, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no role %q\n", name)
		os.Exit(2)
	}
	if err := role(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// program returns the test binary as another program, with more environment.
func program(role string, environment ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), environment...)
	cmd.Stderr = os.Stderr
	return cmd
}

// serveBroker is a fake broker in a process of its own. It prints its address
// and ends with its standard input.
func serveBroker() error {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return err
	}
	defer fake.Close()
	fmt.Println(fake.ListenAddrs()[0])
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startBroker starts a fake broker in a process of its own, so that its cost is
// not the client's.
func startBroker(t testing.TB) cluster {
	t.Helper()
	cmd := program("broker")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("broker process: %v", err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("address of the broker process: %v", err)
	}
	return cluster{brokers: []string{strings.TrimSpace(address)}}
}

// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// programVariable makes a test binary another program than its tests.
const programVariable = "KAFKATEST_PROGRAM"

// fakeBroker is a program that every test binary can be.
const fakeBroker = "fake broker"

// Programs are the programs that a test binary can be, by name.
type Programs map[string]func() error

// Run is for TestMain, before the tests. It runs the program that [Program]
// asked for and ends the process, with status 1 if the program fails. It does
// nothing if none was asked for.
func (p Programs) Run() {
	name := os.Getenv(programVariable)
	if name == "" {
		return
	}
	run, ok := p[name]
	if name == fakeBroker {
		run, ok = serveFake, true
	}
	if !ok {
		fmt.Fprintf(os.Stderr, "no program %q\n", name)
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Program returns the test binary as another program, with more environment.
// Its package has [Programs] in TestMain.
func Program(name string, environment ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), programVariable+"="+name), environment...)
	cmd.Stderr = os.Stderr
	return cmd
}

// Converse starts a program and returns its standard input and output.
func Converse(tb testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out io.Reader) {
	tb.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err = cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	return in, out
}

// serveFake is a fake broker. It prints its address and ends with its standard
// input.
func serveFake() error {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return err
	}
	defer fake.Close()
	if _, err := fmt.Fprintln(os.Stdout, fake.ListenAddrs()[0]); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// StartFake starts a fake broker in a process of its own, so that its cost is
// not the client's, and returns its address. The broker ends with the test,
// whose package has [Programs] in TestMain.
func StartFake(tb testing.TB) string {
	tb.Helper()
	cmd := Program(fakeBroker)
	in, out := Converse(tb, cmd)
	tb.Cleanup(func() {
		if err := in.Close(); err != nil {
			tb.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			tb.Errorf("broker process: %v", err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatalf("address of the broker process: %v", err)
	}
	return strings.TrimSpace(address)
}

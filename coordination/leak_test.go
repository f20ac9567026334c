// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

// programVariable makes the test binary another program than the tests.
const programVariable = "COORDINATION_TEST_PROGRAM"

// programs are the programs that the test binary can be.
var programs = map[string]func() error{"broker": serveBroker, "rival": serveRival}

func TestMain(m *testing.M) {
	name := os.Getenv(programVariable)
	if name == "" {
		goleak.VerifyTestMain(m)
		return
	}
	run, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no program %q\n", name)
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// program returns the test binary as another program, with more environment.
func program(name string, environment ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), programVariable+"="+name), environment...)
	cmd.Stderr = os.Stderr
	return cmd
}

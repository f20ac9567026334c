// SPDX-License-Identifier: Apache-2.0

// Package program runs an example the way its readers do, for the example's
// own test: compiled, in a process of its own.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Glance is how often a test's client looks for the topics of a program.
const Glance = 50 * time.Millisecond

var binary string

// Main compiles the program in the folder of the test, and runs the tests.
func Main(m *testing.M) {
	code, err := compileAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func compileAndRun(m *testing.M) (int, error) {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	binary = filepath.Join(folder, "example")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// Transcript is what a program printed, to be read line by line.
type Transcript struct {
	tb    testing.TB
	lines []string
}

// Next passes lines until one matches the pattern, and returns what its groups
// matched. The test fails at once if no line does.
func (t *Transcript) Next(pattern string) []string {
	t.tb.Helper()
	for i, line := range t.lines {
		if match := regexp.MustCompile(pattern).FindStringSubmatch(line); match != nil {
			t.lines = t.lines[i+1:]
			return match[1:]
		}
	}
	t.tb.Fatalf("no further line matches %q", pattern)
	return nil
}

// Result is what a program printed, and how it ended.
type Result struct {
	Code   int
	Output *Transcript // the standard output
	Errors string      // the standard error
}

// Run runs the compiled program to its end. One that does not end in time has
// to print where its goroutines are.
func Run(tb testing.TB, args ...string) Result {
	tb.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(tb.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 5 * time.Second // processes that the program leaves behind hold its output open
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the program printed\n%s%s", out.String(), errs.String())
		}
	})
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		tb.Fatalf("run the program: %v", err)
	}
	return Result{
		Code:   cmd.ProcessState.ExitCode(),
		Output: &Transcript{tb: tb, lines: strings.Split(strings.TrimRight(out.String(), "\n"), "\n")},
		Errors: errs.String(),
	}
}

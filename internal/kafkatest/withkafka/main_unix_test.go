// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// mainVariable makes the test binary the command itself.
const mainVariable = "WITHKAFKA_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// withkafka returns the command with services that are named already, so that
// it starts none, and with the folder build for its files.
func withkafka(t *testing.T, build string, command ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-build", build}, command...)...)
	cmd.Env = append(os.Environ(), mainVariable+"=1",
		kafkatest.LibraryVariable+"=/jars", kafkatest.BrokersVariable+"=127.0.0.1:1", kafkatest.RegistryURLVariable+"=http://127.0.0.1:2")
	return cmd
}

func TestCommandRunsWithTheNamedServices(t *testing.T) {
	build := filepath.Join(t.TempDir(), "build")
	out, err := withkafka(t, build, "sh", "-c", "echo $KAFKA_BROKERS $SCHEMA_REGISTRY_URL $KAFKA_LIB").Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("127.0.0.1:1 http://127.0.0.1:2 /jars\n", string(out)); diff != "" {
		t.Errorf("environment mismatch (-want +got):\n%s", diff)
	}
	if left, err := os.ReadDir(build); err != nil || len(left) > 0 {
		t.Errorf("the folder holds %v (%v) after success, want nothing", left, err)
	}
}

func TestCommandsExitStatusIsKept(t *testing.T) {
	build := t.TempDir()
	err := withkafka(t, build, "sh", "-c", "exit 7").Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
		t.Errorf("withkafka ended with %v, want exit status 7", err)
	}
	if left, err := os.ReadDir(build); err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v (%v) after a failure, want the logs", left, err)
	}
}

func TestParentThatEndedBeforeItIsWatchedIsMissed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	missed := make(chan struct{})
	go watchParent(ctx, os.Getpid(), func() { close(missed) }) // nobody is its own parent
	select {
	case <-missed:
	case <-ctx.Done():
		t.Error("the end of the parent went unnoticed")
	}
}

// holdPipe is a shell script that names the folder's pipe, starts a program
// that holds it, and waits for that program.
const holdPipe = `{ echo up; sleep 600; } >"$0" & wait`

func TestNothingIsLeftBehind(t *testing.T) {
	tests := []struct {
		name string
		end  func(t *testing.T, shell *exec.Cmd, pid string)
	}{
		{"when it is asked to end", func(t *testing.T, _ *exec.Cmd, pid string) {
			if out, err := exec.CommandContext(t.Context(), "kill", "-TERM", pid).CombinedOutput(); err != nil {
				t.Fatalf("kill: %v: %s", err, out)
			}
		}},
		{"when its parent dies", func(t *testing.T, shell *exec.Cmd, _ string) {
			if err := shell.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			command := withkafka(t, t.TempDir(), "sh", "-c", holdPipe, fifo)
			// A shell between the test and the command, which dies alone.
			shell := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `"$@" & echo $!; wait`, "sh"}, command.Args...)...)
			shell.Env = command.Env
			stdout, err := shell.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := shell.Start(); err != nil {
				t.Fatal(err)
			}
			pid, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			pipe, err := os.Open(fifo)
			if err != nil {
				t.Fatal(err)
			}
			defer pipe.Close()
			if err := pipe.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(pipe, make([]byte, len("up\n"))); err != nil {
				t.Fatal(err)
			}
			tt.end(t, shell, pid[:len(pid)-1])
			// The pipe ends once nobody holds it.
			if rest, err := io.ReadAll(pipe); err != nil || len(rest) > 0 {
				t.Errorf("the pipe holds %q (%v), want its end", rest, err)
			}
			_ = shell.Wait() // killed, or with the status of the command that was
		})
	}
}

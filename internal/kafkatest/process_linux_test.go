// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// fifoVariable makes this test a program that starts a service, which holds
// the named pipe open, and then dies without stopping it.
const fifoVariable = "KAFKATEST_FIFO"

func TestServiceDoesNotOutliveItsParent(t *testing.T) {
	if fifo := os.Getenv(fifoVariable); fifo != "" {
		if _, err := startProcess("service", ".", os.DevNull, "sh", "-c", `exec 3>"$0"; echo up >&3; exec sleep 600`, fifo); err != nil {
			t.Fatal(err)
		}
		select {} // until it is killed
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestServiceDoesNotOutliveItsParent$")
	parent.Env = append(os.Environ(), fifoVariable+"="+fifo)
	if err := parent.Start(); err != nil {
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
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the parent ended with %v, want it killed", err)
	}
	// The pipe ends once nobody holds it: when the service is dead.
	if rest, err := io.ReadAll(pipe); err != nil || len(rest) > 0 {
		t.Errorf("the pipe holds %q (%v), want its end", rest, err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shell starts a shell script as a service.
func shell(t *testing.T, script string) *process {
	t.Helper()
	dir := t.TempDir()
	p, err := startProcess("service", dir, filepath.Join(dir, "log"), "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

func TestServiceThatEndsAtStartShowsItsLog(t *testing.T) {
	p := shell(t, "echo no room; exit 3")
	err := p.waitReady(t.Context(), func(context.Context) error { return errors.New("refused") })
	if err == nil || !strings.Contains(err.Error(), "service ended at start: exit status 3") || !strings.Contains(err.Error(), "no room") {
		t.Errorf("waitReady = %v, want an error with the exit status and the log", err)
	}
}

func TestServiceThatDoesNotAnswerShowsWhyAndItsLog(t *testing.T) {
	p := shell(t, "echo starting; exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	refused := errors.New("refused")
	err := p.waitReady(ctx, func(context.Context) error {
		if strings.Contains(p.logTail(), "starting") {
			cancel()
		}
		return refused
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, refused) || !strings.Contains(err.Error(), "starting") {
		t.Errorf("waitReady = %v, want an error with the last answer and the log", err)
	}
}

func TestStopEndsAServiceThatRefusesTo(t *testing.T) {
	p := shell(t, "trap '' TERM; echo deaf; while :; do sleep 0.1; done")
	if err := p.waitReady(t.Context(), func(context.Context) error {
		if !strings.Contains(p.logTail(), "deaf\n") {
			return errors.New("no trap yet")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	p.stop(time.Millisecond)
	if p.running() {
		t.Error("the service runs after stop")
	}
	if got := p.cmd.ProcessState.String(); got != "signal: killed" {
		t.Errorf("the service ended with %q, want it killed", got)
	}
}

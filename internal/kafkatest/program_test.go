// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"bytes"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
)

func TestProgramTellsWhyItEnded(t *testing.T) {
	for name, want := range map[string]struct {
		status int
		says   string
	}{"broken": {1, "broken: out of order"}, "unheard of": {2, `no program "unheard of"`}} {
		cmd := Program(name)
		var says bytes.Buffer
		cmd.Stderr = &says
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != want.status || !strings.Contains(says.String(), want.says) {
			t.Errorf("program %q ended with %v and %q, want status %d and %q", name, err, says.String(), want.status, want.says)
		}
	}
}

func TestFakeBrokerEndsWithItsTest(t *testing.T) {
	var address string
	t.Run("test", func(t *testing.T) {
		address = StartFake(t)
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	if conn, err := net.Dial("tcp", address); err == nil {
		t.Errorf("the broker at %s is there after its test: %v", address, conn.Close())
	}
}

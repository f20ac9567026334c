// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"os/exec"
	"syscall"
)

// isolate keeps a terminal's interrupt from a program, so that whoever started
// it ends it in order, and lets the kernel kill it when its parent dies.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import "syscall"

// pause stops the process where it is.
func (p *process) pause() error { return p.Process.Signal(syscall.SIGSTOP) }

// resume lets it go on.
func (p *process) resume() error { return p.Process.Signal(syscall.SIGCONT) }

// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "errors"

// pause stops the process where it is.
func (p *process) pause() error { return errors.ErrUnsupported }

// resume lets it go on.
func (p *process) resume() error { return errors.ErrUnsupported }

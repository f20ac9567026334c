// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"errors"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Programs{"broken": func() error { return errors.New("out of order") }}.Run()
	goleak.VerifyTestMain(m)
}

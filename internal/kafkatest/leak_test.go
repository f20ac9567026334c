// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"errors"
	"testing"
)

func TestMain(m *testing.M) {
	Programs{"broken": func() error { return errors.New("out of order") }}.Main(m)
}

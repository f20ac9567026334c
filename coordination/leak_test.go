// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

func TestMain(m *testing.M) {
	kafkatest.Programs{"rival": serveRival}.Run()
	goleak.VerifyTestMain(m)
}

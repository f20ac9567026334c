// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes runners without a logger of their own silent, so that a failure is
// not lost among what they report.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

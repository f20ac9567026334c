// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
)

var (
	int64Type = arrow.PrimitiveTypes.Int64
	textType  = arrow.BinaryTypes.String
)

// eventSchema is that of the events which the tests join.
var eventSchema = arrowtest.Fields("user", textType, "amount", int64Type, metacols.Timestamp, int64Type)

func byUser(window time.Duration) Spec {
	return Spec{LeftKey: "user", RightKey: "user", Window: window}
}

func must[T any](tb testing.TB) func(T, error) T {
	return func(value T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return value
	}
}

// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"math"
	"strings"
	"testing"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

func TestCountOverflow(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	operator := newAtomic(mem, Spec{Keys: []string{"user"}, Aggregations: countRows()})
	batch := arrowtest.JSONBatch(t, mem, amountSchema, `{"user":"a"}`)
	operator.rows(t, batch)
	*operator.state.aggregates[0].(*countState).Word(0, 0) = math.MaxInt64
	if _, err := operator.tryRows(batch); err == nil || !strings.Contains(err.Error(), "count overflow") {
		t.Errorf("error = %v, want a count overflow", err)
	}
}

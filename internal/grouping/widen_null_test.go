// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

// Groups whose keys are null stay when the column becomes one that cannot be null.
func TestWidenedStaysNullable(t *testing.T) {
	held := arrow.NewSchema([]arrow.Field{{Name: "k", Type: arrow.PrimitiveTypes.Int32, Nullable: true}}, nil)
	next := arrow.NewSchema([]arrow.Field{{Name: "k", Type: arrow.PrimitiveTypes.Int32}}, nil)
	if field := widened(next, held).Field(0); !field.Nullable {
		t.Errorf("%v cannot be null, but null keys are held", field)
	}
}

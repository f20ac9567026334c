// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

func TestIPCOfNothingIsNil(t *testing.T) {
	serde := NewIPCSerde(memory.DefaultAllocator)
	if data, err := serde.Serialize("any", nil); data != nil || err != nil {
		t.Errorf("Serialize(nil) = %v, %v", data, err)
	}
	if batch, err := serde.Deserialize("any", nil); batch != nil || err != nil {
		t.Errorf("Deserialize(nil) = %v, %v", batch, err)
	}
}

func TestIPCSerdeJoinsTheBatchesOfAStream(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	one, two := arrowtest.TwoColumns(mem, "a", "bc"), arrowtest.TwoColumns(mem, "d")
	defer one.Release()
	defer two.Release()
	back, err := NewIPCSerde(mem).Deserialize("any", arrowtest.Stream(t, []arrow.RecordBatch{one, two}))
	if err != nil {
		t.Fatal(err)
	}
	defer back.Release()
	if diff := cmp.Diff([]string{"a", "bc", "d"}, arrowtest.Texts(back.Column(0))); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}
}

func TestIPCLimitsAreNotNegative(t *testing.T) {
	want := "columnar: IPC limits: negative limit in {ValueBytes:0 UncompressedBytes:0 Rows:-1}"
	if _, err := NewIPCSerdeWithLimits(memory.DefaultAllocator, IPCLimits{Rows: -1}); err == nil || err.Error() != want {
		t.Errorf("NewIPCSerdeWithLimits = %v, want %q", err, want)
	}
	if _, err := NewBlobCodecWithLimits(memory.DefaultAllocator, 1, IPCLimits{Rows: -1}); err == nil || err.Error() != want {
		t.Errorf("NewBlobCodecWithLimits = %v, want %q", err, want)
	}
}

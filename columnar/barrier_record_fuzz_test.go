// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzDecodeBarrierCut(f *testing.F) {
	for _, seed := range [][2]string{
		{ordersCutKey, ordersCutValue}, {auditKey5, auditValue5}, {auditKey6, auditValue6}, {auditKey7, auditValue7},
		{groupKey, groupValue4}, {groupKey, groupValue7}, {startKey, startValue}, {startKey, startValue2}, {"00", ""},
	} {
		f.Add(unhex(f, seed[0]), unhex(f, seed[1]))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		cut, err := DecodeBarrierCut(key, value)
		var format *BarrierFormatError
		if err != nil && !errors.As(err, &format) {
			t.Fatalf("error %v is not a *BarrierFormatError", err)
		}
		if cut == nil || checkCut(cut) != nil {
			return
		}
		key, value, err = EncodeBarrierCut(*cut)
		if err != nil {
			t.Fatalf("EncodeBarrierCut(%+v): %v", cut, err)
		}
		again, err := DecodeBarrierCut(key, value)
		if err != nil {
			t.Fatalf("decoding an encoded cut: %v", err)
		}
		if diff := cmp.Diff(cut, again); diff != "" {
			t.Errorf("round trip mismatch (-want +got):\n%s", diff)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package arrays

import "testing"

func TestIsASCIISeesEveryByte(t *testing.T) {
	for size := range 20 {
		v := make([]byte, size)
		for i := range v {
			v[i] = 0x7f
		}
		if !IsASCII(v) {
			t.Errorf("%d bytes of 0x7f are not ASCII", size)
		}
		for i := range v {
			v[i] = 0x80
			if IsASCII(v) {
				t.Errorf("byte %d of %d is 0x80, and all are ASCII", i, size)
			}
			v[i] = 0x7f
		}
	}
}

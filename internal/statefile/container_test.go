// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"encoding/hex"
	"strings"
	"testing"
)

func unhex(tb testing.TB, text string) []byte {
	tb.Helper()
	decoded, err := hex.DecodeString(text)
	if err != nil {
		tb.Fatal(err)
	}
	return decoded
}

func TestReadContainerRefusesWhatItCannotTrust(t *testing.T) {
	tests := []struct{ data, cause string }{
		{"", "truncated snapshot"},
		{"00000001", "truncated snapshot"},
		{"0000000200000000", "unsupported state snapshot version"},
		{"00000001ffffffff", "truncated snapshot"},
		{"000000010000000100000001", "truncated snapshot"},
		{"0000000100000001ffffffff00000000", "truncated snapshot"},
		{"00000001000000010000000161000000ff", "truncated snapshot"},
		{"000000010000000000", "trailing bytes in state snapshot"},
		{"0000000100000002000000016100000000000000016100000000", `node "a" is in the state snapshot twice`},
	}
	for _, test := range tests {
		state, err := readContainer(unhex(t, test.data))
		if err == nil || !strings.Contains(err.Error(), test.cause) {
			t.Errorf("readContainer(%s) = %v, %v; want %q", test.data, state, err, test.cause)
		}
	}
}

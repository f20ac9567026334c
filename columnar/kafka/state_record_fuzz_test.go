// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzStateKey(f *testing.F) {
	f.Add(stateKey{kind: stateRound, partition: 1, writer: 2, sequence: 3}.encode())
	f.Add(stateKey{kind: stateChunk, generation: 1 << 40, node: 9, index: 1}.encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		key, err := decodeStateKey(b)
		if err != nil {
			return
		}
		if diff := cmp.Diff(b, key.encode()); diff != "" {
			t.Errorf("encode of the decoded key mismatch (-want +got):\n%s", diff)
		}
	})
}

func FuzzStateSnapshot(f *testing.F) {
	f.Add([]byte(`{"epoch":-1,"round":3,"positions":[{"topic":"a","partition":1,"offset":2}],"takenAt":5,"nodes":[{"name":"n","bytes":3,"chunks":1,"crc32c":7}],"first":1,"last":1}`))
	f.Add([]byte(`{"nodes":[{"name":"n","bytes":9223372036854775807,"chunks":17592186044416}],"last":9223372036854775807}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeStateSnapshot(b)
		if err != nil {
			return
		}
		value, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("marshal of a decoded manifest: %v", err)
		}
		again, err := decodeStateSnapshot(value)
		if err != nil {
			t.Fatalf("decode of %s: %v", value, err)
		}
		if diff := cmp.Diff(s.info(stateKey{}), again.info(stateKey{})); diff != "" {
			t.Errorf("second decode mismatch (-first +second):\n%s", diff)
		}
	})
}

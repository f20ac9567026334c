// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

func FuzzGzip(f *testing.F) {
	for _, seed := range gzipped(f, "", "a", strings.Repeat("long ", 100)) {
		f.Add(seed)
	}
	f.Add([]byte("\x1f\x8b"))
	codec, err := NewGzipBatchCodecWithMaxBytes(NewRowCodec(textSerde{}, textBridge{}, memory.DefaultAllocator), 1000)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		batch, err := codec.Decode("in", []ConsumedRecord{{Value: data}})
		if err != nil {
			return
		}
		defer batch.Release()
		if value := batch.Column(0).ValueStr(0); len(value) > 3000 {
			t.Errorf("a value of %d bytes was read", len(value))
		}
	})
}

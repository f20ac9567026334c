// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Whatever a coordinator answers about a role, the transport takes it for
// nobody, for a whole pair, or for a failure.
func FuzzDescribedState(f *testing.F) {
	for _, seed := range []struct {
		code  int16
		id    int64
		epoch int16
		state string
	}{{0, 7, 3, "Ongoing"}, {0, -1, -1, "Empty"}, {kerr.TransactionalIDNotFound.Code, 0, 0, ""}, {kerr.NotCoordinator.Code, 7, 3, ""}} {
		answer := kmsg.NewPtrDescribeTransactionsResponse()
		state := kmsg.NewDescribeTransactionsResponseTransactionState()
		state.ErrorCode, state.ProducerID, state.ProducerEpoch, state.State = seed.code, seed.id, seed.epoch, seed.state
		answer.TransactionStates = append(answer.TransactionStates, state)
		f.Add(answer.AppendTo(nil))
	}
	f.Add(kmsg.NewPtrDescribeTransactionsResponse().AppendTo(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		answer := kmsg.NewPtrDescribeTransactionsResponse()
		if err := answer.ReadFrom(data); err != nil {
			return
		}
		state, code := describedState(answer)
		switch {
		case code != 0 || state.pair == NoEpoch:
			if state.pair != NoEpoch || state.state != "" {
				t.Errorf("code %d comes with state %+v", code, state)
			}
		case checkPair(state.pair.producerID, state.pair.producerEpoch) != nil:
			t.Errorf("pair %s is none", state.pair)
		case state.pair.producerID != answer.TransactionStates[0].ProducerID || state.state != answer.TransactionStates[0].State:
			t.Errorf("state %+v of answer %+v", state, answer.TransactionStates[0])
		}
	})
}

// A record of a partition tells about the end of a transaction only if it is a
// marker of its producer.
func FuzzTrace(f *testing.F) {
	const control, data, batchAttributesAt = 0x20, 0, 22
	f.Add([]byte{0, 0, 0, 1}, control, int64(7), int16(3))
	f.Add([]byte{0, 0, 0, 0}, control, int64(7), int16(4))
	f.Add([]byte{0, 0}, control, int64(7), int16(3))
	f.Add([]byte("key"), data, int64(7), int16(4))
	pair, next := FencingToken{7, 3}, FencingToken{7, 4}
	f.Fuzz(func(t *testing.T, key []byte, attributes int, producerID int64, epoch int16) {
		records := kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Topic: "t", IsolationLevel: kgo.ReadUncommitted()}
		batch := &kafkaBatch{records: []GuardedRecord{{Key: key}}, count: 1}
		batch.seal(FencingToken{producerID, epoch}, 0, 1)
		if attributes&control != 0 {
			batch.bytes[batchAttributesAt] |= control
			binary.BigEndian.PutUint32(batch.bytes[17:], crc32.Checksum(batch.bytes[batchChecksumAt:], castagnoli))
		}
		found := kmsg.NewFetchResponseTopicPartition()
		found.RecordBatches, found.HighWatermark = batch.bytes, 1
		part, _ := kgo.ProcessFetchPartition(records, &found, kgo.DefaultDecompressor(), nil)
		if part.Err != nil || len(part.Records) != 1 {
			t.Fatalf("the batch does not decode: %d records, %v", len(part.Records), part.Err)
		}
		var got trace
		got.add(part.Records[0], pair, next)
		marks := attributes&control != 0 && producerID == pair.producerID && len(key) >= 4
		if (got.marker != markerNone) != marks {
			t.Errorf("marker %d of %+v", got.marker, part.Records[0])
		}
		if commits := marks && key[2] == 0 && key[3] == 1; (got.marker == markerCommit) != commits {
			t.Errorf("marker %d of key %x", got.marker, key)
		}
		if later := attributes&control == 0 && producerID == 7 && epoch > 3; got.later != later {
			t.Errorf("later %t of %d:%d", got.later, producerID, epoch)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

func init() {
	suite = append(suite, []suiteTest{
		{"cut is announced before its offsets are taken", testCutIsAnnounced},
		{"epoch of a start without a cut is not taken again", testStartWithoutCut},
	}...)
}

// barrierRecords reads the barrier topic as a runner does, in the order of the log,
// and calls seen with each record until seen returns true.
func (c cluster) barrierRecords(t testing.TB, topic string, seen func(record string) bool) {
	t.Helper()
	r := c.reader(t)
	if err := r.Assign([]columnar.TopicPartition{at(topic, 0)}); err != nil {
		t.Fatalf("assign: %v", err)
	}
	for ctx := within(t); ; {
		fetched, err := r.Poll(ctx, time.Second)
		if err != nil {
			t.Fatalf("poll %s: %v", topic, err)
		}
		for _, record := range fetched[at(topic, 0)] {
			if seen(describeBarrierRecord(record)) {
				return
			}
		}
	}
}

// describeBarrierRecord names kind and epoch of a record of the barrier topic, and
// says whether it is a tombstone.
func describeBarrierRecord(record columnar.ConsumedRecord) string {
	kind := []string{"group", "start", "cut"}[binary.BigEndian.Uint16(record.Key[2:])]
	text := fmt.Sprint(kind, " ", int64(binary.BigEndian.Uint64(record.Key[len(record.Key)-8:])))
	if len(record.Value) == 0 {
		text += " deleted"
	}
	return text
}

func testCutIsAnnounced(t *testing.T, c cluster) {
	in, barriers := c.topic(t, 1), unique("barriers")
	p := c.publisher(t, "audit", barriers, []string{in}, kafka.WithCutNotice(time.Second))
	c.produce(t, in, 0, "a")
	published := make(chan columnar.BarrierCut, 1)
	go func() { published <- publish(t, p) }()
	var records []string
	c.barrierRecords(t, barriers, func(record string) bool {
		if records = append(records, record); record == "start 1" {
			// The runner that has seen the start had read one record before.
			c.produce(t, in, 0, "b", "c")
		}
		return record == "start 1 deleted"
	})
	cut := <-published
	if diff := cmp.Diff([]string{"start 1", "cut 1", "group -1", "start 1 deleted"}, records); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
	if offset := cut.Offsets[at(in, 0)]; offset != 3 {
		t.Errorf("the cut is at offset %d, want 3: behind what was written after the start", offset)
	}
}

// A publisher ends between the start and the cut of an epoch.
func testStartWithoutCut(t *testing.T, c cluster) {
	in, barriers := c.topic(t, 1), unique("barriers")
	p := c.publisher(t, "audit", barriers, []string{in}, kafka.WithCutNotice(patience))
	ended := make(chan error, 1)
	go func() {
		_, err := p.Publish(within(t))
		ended <- err
	}()
	c.barrierRecords(t, barriers, func(record string) bool { return record == "start 1" })
	if err := p.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if err := <-ended; err == nil {
		t.Fatalf("a publisher that was closed in the notice has published")
	}
	next := c.publisher(t, "audit", barriers, []string{in}, kafka.WithCutNotice(0))
	if cut := publish(t, next); cut.Epoch != 2 {
		t.Errorf("the next cut has epoch %d, want 2", cut.Epoch)
	}
	var records []string
	c.barrierRecords(t, barriers, func(record string) bool {
		records = append(records, record)
		return record == "start 1 deleted"
	})
	if diff := cmp.Diff([]string{"start 1", "cut 2", "group -1", "start 1 deleted"}, records); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
}

func TestDefaultsOfTheClientSuitRounds(t *testing.T) {
	for _, tt := range []struct {
		name         string
		opts         []kgo.Opt
		linger, wait time.Duration
		bytes        int32
	}{
		{"none set", nil, 0, 500 * time.Millisecond, 2 << 20},
		{"set by the caller", []kgo.Opt{kgo.ProducerLinger(time.Second), kgo.FetchMaxWait(2 * time.Second), kgo.FetchMaxPartitionBytes(4096)},
			time.Second, 2 * time.Second, 4096},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var made clientWatch
			m, err := kafka.NewMember("group", append(tt.opts, kgo.SeedBrokers("127.0.0.1:1"), kgo.WithHooks(&made))...)
			if err != nil {
				t.Fatalf("new member: %v", err)
			}
			closing(t, m)
			if linger := made.client.OptValue(kgo.ProducerLinger); linger != tt.linger {
				t.Errorf("linger is %v, want %v", linger, tt.linger)
			}
			if wait := made.client.OptValue(kgo.FetchMaxWait); wait != tt.wait {
				t.Errorf("longest wait of a fetch is %v, want %v", wait, tt.wait)
			}
			if bytes := made.client.OptValue(kgo.FetchMaxPartitionBytes); bytes != tt.bytes {
				t.Errorf("a fetch brings %v bytes of a partition, want %d", bytes, tt.bytes)
			}
		})
	}
}

// clientWatch remembers the client that it is a hook of.
type clientWatch struct{ client *kgo.Client }

func (w *clientWatch) OnNewClient(client *kgo.Client) { w.client = client }

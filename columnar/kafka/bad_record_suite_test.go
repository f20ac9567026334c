// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

func init() {
	runnerSuite = append(runnerSuite, suiteTest{"records that do not decode stop the runner, or are set apart", eachMode(testBadRecords)})
}

// badRecords are the values that a tally cannot read, by offset of partition 1.
var badRecords = map[int64]string{30: "{", 31: "\x01\x00\x00\x00\x07{\"v\":\"a1\"}", 52: "[7]"}

// A runner that fails at bad records changes nothing. One that is told what to
// do about them takes all others.
func testBadRecords(t *testing.T, j *tallyJob) {
	j.fill(t, 30)
	j.produce(t, j.in, 1, badRecords[30], badRecords[31])
	j.fill(t, 20)
	j.produce(t, j.in, 1, badRecords[52])
	j.values(t, 1, 10)
	ends := j.ends()
	ends[at(j.in, 1)] += int64(len(badRecords))
	drained := func() bool { return cmp.Equal(ends, j.committed(t, j.group, j.in)) }

	failed := j.start(t)
	for range 2 {
		err := failed.failing(t)
		var node *columnar.NodeError
		var record *columnar.RecordError
		if !errors.As(err, &node) || !errors.As(err, &record) || columnar.IsRetriable(err) {
			t.Fatalf("round = %v, want a lasting NodeError of a record", err)
		}
		got := fmt.Sprintf("node %s, topic %s, partition %d, offset %d", node.Node, node.Topic, record.Partition, record.Offset)
		if want := fmt.Sprintf("node values, topic %s, partition 1, offset 30", j.in); got != want {
			t.Errorf("error names %s; want %s", got, want)
		}
		if at := j.committed(t, j.group, j.in)[at(j.in, 1)]; at > 30 {
			t.Errorf("offset %d is committed, behind the bad record", at)
		}
	}
	if err := errors.Join(failed.Close(), failed.client.Close()); err != nil {
		t.Fatalf("close: %v", err)
	}

	letters := j.topic(t, 1)
	dead := j.start(t, columnar.WithErrorPolicy(columnar.DeadLetterPolicy(letters)))
	dead.rounds(t, drained)
	if diff := cmp.Diff(j.counted(), dead.state(t)); diff != "" {
		t.Errorf("state behind dead letters mismatch (-want +got):\n%s", diff)
	}
	j.check(t)
	got := map[int64]string{}
	for _, record := range j.readCommitted(t, letters) {
		headers := map[string]string{}
		for _, h := range record.Headers {
			headers[h.Key] = string(h.Value)
		}
		var offset int64
		if _, err := fmt.Sscan(headers["krabka.source.offset"], &offset); err != nil || headers["krabka.source.topic"] != j.in || headers["krabka.source.partition"] != "1" {
			t.Errorf("dead letter from %v, want partition 1 of %s", headers, j.in)
		}
		got[offset] = string(record.Value)
	}
	if diff := cmp.Diff(badRecords, got); diff != "" {
		t.Errorf("dead letters mismatch (-want +got):\n%s", diff)
	}
	if err := errors.Join(dead.Close(), dead.client.Close()); err != nil {
		t.Fatalf("close: %v", err)
	}

	again := newTallyJob(t, j.cluster, j.exact)
	again.in, again.want = j.in, maps.Clone(j.want)
	skipping := again.start(t, columnar.WithErrorPolicy(columnar.SkipPolicy()))
	skipping.rounds(t, func() bool { return cmp.Equal(ends, again.committed(t, again.group, again.in)) })
	if got := skipping.Stats().RecordsSkipped; got != int64(len(badRecords)) {
		t.Errorf("%d records were skipped, want %d", got, len(badRecords))
	}
	if diff := cmp.Diff(again.counted(), skipping.state(t)); diff != "" {
		t.Errorf("state behind skipped records mismatch (-want +got):\n%s", diff)
	}
	again.check(t)
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// The tests of this file are about many members of one process that read one
// partition.

// readers are a transport and a partition that many read.
type readers struct {
	*stage
	requests  wire
	transport *coordination.KafkaTransport
	at        coordination.TopicPartition
}

func newReaders(t *testing.T) *readers {
	t.Helper()
	x := &readers{stage: virtualStage(t)}
	x.at = at(x.compacted(t, 1), 0)
	x.transport = x.stage.transport(t, standardConfig(t), reporting(&x.requests))
	return x
}

func (x *readers) append(t *testing.T, key string) {
	t.Helper()
	if err := x.transport.Append(t.Context(), x.at, []byte(key), []byte("1")); err != nil {
		t.Error(err)
	}
}

// read returns the keys of the records.
func (x *readers) read(t *testing.T) (keys []string, complete bool) {
	t.Helper()
	records, complete, err := x.transport.ReadCommitted(t.Context(), x.at)
	if err != nil {
		t.Error(err)
	}
	for _, record := range records {
		keys = append(keys, string(record.Key))
	}
	return keys, complete
}

// slow makes the brokers take their time for every fetch. They do nothing else
// meanwhile: to let them is a data race in the fake.
func (x *readers) slow(extent time.Duration) {
	x.fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		x.fake.KeepControl()
		time.Sleep(extent)
		return nil, nil, false
	})
}

// Many members that poll one partition, each once a second, cost fetches by the
// time and not by their number.
func TestMembersOfOneProcessShareTheirPolls(t *testing.T) {
	const bound = 50 // that is documented
	for _, members := range []int{1, 10, 1000} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newReaders(t)
				x.slow(time.Millisecond)
				x.append(t, "a")
				x.read(t)
				const seconds = 10
				before := x.requests.of(kmsg.Fetch)
				var group sync.WaitGroup
				for n := range members {
					group.Go(func() {
						time.Sleep(time.Duration(n) * time.Second / time.Duration(members))
						for range seconds {
							began := time.Now()
							if keys, _ := x.read(t); len(keys) != 1 {
								t.Errorf("a read shows %q, want one record", keys)
							}
							if took := time.Since(began); took > 50*time.Millisecond {
								t.Errorf("a read took %v", took)
							}
							time.Sleep(time.Until(began.Add(time.Second)))
						}
					})
				}
				group.Wait()
				got := x.requests.of(kmsg.Fetch) - before
				t.Logf("%d members: %.1f fetches a second", members, float64(got)/seconds)
				if want := min(members, bound) * seconds; got > want*11/10 || got < seconds {
					t.Errorf("%d fetches, want %d and a tenth more at most", got, want)
				}
				x.stop(x.transport)
			})
		})
	}
}

func TestReadersAtOneTimeShareAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newReaders(t)
		x.append(t, "a")
		x.read(t)
		x.slow(100 * time.Millisecond)
		before := x.requests.of(kmsg.Fetch)
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if keys, complete := x.read(t); len(keys) != 1 || !complete {
					t.Errorf("a read shows %q, complete %v", keys, complete)
				}
			})
		}
		group.Wait()
		// The first one began before the others asked.
		if got := x.requests.of(kmsg.Fetch) - before; got != 2 {
			t.Errorf("%d fetches, want 2", got)
		}
		x.stop(x.transport)
	})
}

// A read does not take the result of a fetch that began before it.
func TestReadShowsWhatWasWrittenBeforeItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newReaders(t)
		x.append(t, "a")
		network := newLossy()
		reader := network.over(x.stage).transport(t, standardConfig(t))
		late := &readers{stage: x.stage, transport: reader, at: x.at}
		late.read(t)
		var group sync.WaitGroup
		var once sync.Once
		shown := make(chan []string, 3)
		network.interpose(kmsg.Fetch, newestFetch(t), func() {
			once.Do(func() {
				// The fetch of the first reader is answered and did not arrive yet.
				x.append(t, "b")
				for range 3 {
					group.Go(func() {
						keys, _ := late.read(t)
						shown <- keys
					})
				}
				time.Sleep(10 * time.Millisecond) // they wait for their turn
			})
		})
		if keys, _ := late.read(t); len(keys) != 1 {
			t.Errorf("the first read shows %q, want what was there when it was answered", keys)
		}
		group.Wait()
		for range cap(shown) {
			if diff := cmp.Diff([]string{"a", "b"}, <-shown); diff != "" {
				t.Errorf("a read after the append (-want +got):\n%s", diff)
			}
		}
		x.stop(x.transport, reader)
	})
}

// newestFetch returns the version in which the client fetches.
func newestFetch(t *testing.T) int16 {
	t.Helper()
	return kmsg.NewPtrFetchRequest().MaxVersion()
}

// One reader waits for an open transaction, and the others with it.
func TestReadersShareTheGraceOfAnOpenTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newReaders(t)
		open := x.hang(t, x.at, "open", 10*time.Second)
		began := time.Now()
		var group sync.WaitGroup
		for range 62 {
			group.Go(func() {
				if _, complete := x.read(t); complete {
					t.Error("a read behind an open transaction is complete")
				}
				if took := time.Since(began); took < time.Second || took > time.Second+2*stableSlack {
					t.Errorf("a read took %v, want a second", took)
				}
			})
		}
		group.Wait()
		for range 3 {
			began := time.Now()
			if _, complete := x.read(t); complete || time.Since(began) > stableSlack {
				t.Errorf("a later read: complete %v after %v, want an incomplete one at once", complete, time.Since(began))
			}
		}
		time.Sleep(11 * time.Second) // the transaction ends
		if _, complete := x.read(t); !complete {
			t.Error("a read behind a transaction that ended is not complete")
		}
		next := x.hang(t, x.at, "next", time.Minute)
		began = time.Now()
		if _, complete := x.read(t); complete || time.Since(began) < time.Second {
			t.Errorf("a read behind the next transaction: complete %v after %v, want a second of grace", complete, time.Since(began))
		}
		open.Close()
		next.Close()
		x.stop(x.transport)
	})
}

// A partition in which there is always an open transaction holds no read up for
// longer than one that stands still.
func TestReadEndsInAPartitionThatIsNeverStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newReaders(t)
		var offset atomic.Int64
		x.fake.ControlKey(int16(kmsg.Fetch), func(ask kmsg.Request) (kmsg.Response, error, bool) {
			x.fake.KeepControl()
			time.Sleep(30 * time.Millisecond)
			stable := offset.Add(1)
			return emptyFetch(ask, stable, stable+1), nil, true
		})
		began := time.Now()
		if _, complete := x.read(t); complete || time.Since(began) > time.Second+stableSlack {
			t.Errorf("read: complete %v after %v, want an incomplete one after a second", complete, time.Since(began))
		}
		x.stop(x.transport)
	})
}

// emptyFetch is an answer without records.
func emptyFetch(ask kmsg.Request, stable, high int64) kmsg.Response {
	asked := ask.(*kmsg.FetchRequest).Topics[0]
	partition := kmsg.NewFetchResponseTopicPartition()
	partition.Partition = asked.Partitions[0].Partition
	partition.HighWatermark, partition.LastStableOffset = high, stable
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
	topic.Partitions = append(topic.Partitions, partition)
	answer := ask.ResponseKind().(*kmsg.FetchResponse)
	answer.Topics = append(answer.Topics, topic)
	return answer
}

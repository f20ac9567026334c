// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// serveBroker is a fake broker in a process of its own. It prints its address
// and ends with its standard input.
func serveBroker() error {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return err
	}
	defer fake.Close()
	fmt.Println(fake.ListenAddrs()[0])
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// distantStage is a fake cluster in a process of its own, so that its cost is
// not the client's.
func distantStage(tb testing.TB) *stage {
	tb.Helper()
	cmd := program("broker")
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := in.Close(); err != nil {
			tb.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			tb.Errorf("broker process: %v", err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatalf("address of the broker process: %v", err)
	}
	return &stage{brokers: []string{strings.TrimSpace(address)}}
}

// footprint is what a process uses.
type footprint struct {
	bytes      int64 // of the heap and of stacks
	goroutines int
}

func takeFootprint() footprint {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return footprint{int64(stats.HeapAlloc + stats.StackInuse), runtime.NumGoroutine()}
}

// holdRoles takes roles over one transport and returns what each costs the
// process while all are held and renewed.
func holdRoles(tb testing.TB, s *stage, count int) footprint {
	tb.Helper()
	topic := s.compacted(tb, coordination.DefaultPartitions)
	lease := leaseConfig(tb, 10*time.Minute, 3*time.Second, time.Second) // long, for a machine that is busy
	transport := s.transport(tb, lease)
	before := takeFootprint()
	held := make([]*coordination.Leadership, count)
	var group sync.WaitGroup
	const together = 32
	for first := range together {
		group.Go(func() {
			for n := first; n < count; n += together {
				l, err := coordination.AcquireLeadership(tb.Context(), transport, role(tb, fmt.Sprint("orders.shard-", n)), member(tb, "node-1"),
					coordination.WithTopic(topic), coordination.WithLeaseConfig(lease))
				if err != nil {
					tb.Errorf("role %d: %v", n, err)
					return
				}
				held[n] = l
			}
		})
	}
	group.Wait()
	if tb.Failed() {
		return footprint{}
	}
	// Every role is renewed while the others are.
	taken := time.Now().UnixMilli()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n, l := range held {
		for l.Lease().GrantedAt < taken {
			select {
			case <-tick.C:
			case <-l.Done():
				tb.Fatalf("role %d ended: %v", n, l.Err())
			}
		}
	}
	after := takeFootprint()
	for first := range together {
		group.Go(func() {
			for n := first; n < count; n += together {
				if err := held[n].Resign(tb.Context()); err != nil {
					tb.Errorf("resign role %d: %v", n, err)
				}
			}
		})
	}
	group.Wait()
	return footprint{(after.bytes - before.bytes) / int64(count), (after.goroutines - before.goroutines) / count}
}

// What a role costs its process: the bounds that are documented.
const (
	bytesPerRole      = 16 << 10
	goroutinesPerRole = 2
)

func TestOneProcessHoldsAThousandRoles(t *testing.T) {
	count, bytes := 1000, int64(bytesPerRole)
	if raceEnabled {
		count, bytes = 100, 3*bytes
	}
	cost := holdRoles(t, distantStage(t), count)
	t.Logf("%d roles, each %d bytes and %d goroutines", count, cost.bytes, cost.goroutines)
	if cost.bytes > bytes || cost.bytes <= 0 || cost.goroutines > goroutinesPerRole {
		t.Errorf("a role takes %d bytes and %d goroutines, want at most %d and %d", cost.bytes, cost.goroutines, bytes, goroutinesPerRole)
	}
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// distantStage is a fake cluster in a process of its own, so that its cost is
// not the client's.
func distantStage(tb testing.TB) *stage {
	tb.Helper()
	return &stage{brokers: []string{kafkatest.StartFake(tb)}}
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

// rolesVariable marks the process that [TestOneProcessHoldsAThousandRoles] measures.
const rolesVariable = "COORDINATION_TEST_ROLES"

func TestOneProcessHoldsAThousandRoles(t *testing.T) {
	if os.Getenv(rolesVariable) == "" {
		// What other tests leave behind ends some time, so they are not in the process.
		alone := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
		alone.Env = append(os.Environ(), rolesVariable+"=alone")
		out, err := alone.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Errorf("the process that holds the roles: %v", err)
		}
		return
	}
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

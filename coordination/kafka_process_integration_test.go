// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package coordination_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func TestGuardedWritesOfProcessesAreLinearizableOnKafka(t *testing.T) {
	t.Parallel()
	contestOfProcesses.run(t, sharedStage(t))
}

func TestGuardedWritesOfElectedProcessesAreLinearizableOnKafka(t *testing.T) {
	t.Parallel()
	contestOfElected.run(t, sharedStage(t))
}

func TestStandbyTakesOverFromAProcessOnKafka(t *testing.T) { takeOvers(t, sharedStage(t)) }

var killCount = flag.Int("kills", 1, "number of holders to kill, with and without earlier outages; from 20 on, the time of take-overs is bounded")

// Processes that lead are killed, and a standby that uses Run takes over, also
// after its own connection broke several times. Never before the deadline; how
// late depends on the machine, so that only make take-overs bounds it.
func TestStandbysTakeOverFromKilledProcessesOnKafka(t *testing.T) {
	s := sharedStage(t)
	for _, outages := range []int{0, 3} {
		var mu sync.Mutex
		var lates []time.Duration
		t.Run(fmt.Sprintf("%d earlier outages", outages), func(t *testing.T) {
			for n := range *killCount {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					t.Parallel()
					late := killedAndReplaced(t, s, outages)
					mu.Lock()
					defer mu.Unlock()
					lates = append(lates, late)
				})
			}
		})
		if slices.Sort(lates); len(lates) == 0 {
			continue
		}
		longest := lates[len(lates)-1]
		t.Logf("%d kills after %d outages: take-overs %v to %v past the deadline, median %v", len(lates), outages, lates[0], longest, lates[len(lates)/2])
		if lates[0] < 0 {
			t.Errorf("a standby took over %v before the deadline", -lates[0])
		}
		// Two polls, for the one that is late and the one that finds the lease over,
		// and the requests of a take-over.
		if bound := 2*(rivalConfig{Lease: killedLease}).poll() + time.Second; len(lates) >= 20 && longest > bound {
			t.Errorf("a standby took over %v past the deadline, want %v at most", longest, bound)
		}
	}
}

// killedLease is the lease of a process that is going to be killed.
const killedLease = 6 * time.Second

// killedAndReplaced kills a holder and returns how long after the deadline of its
// last lease the standby took its first one.
func killedAndReplaced(t *testing.T, s *stage, outages int) time.Duration {
	config := rivalConfig{Brokers: s.brokers, Role: unique("role"), Member: "process", Topic: s.compacted(t, 1), Lease: killedLease}
	lease, err := config.lease()
	if err != nil {
		t.Fatal(err)
	}
	s.ready(t, role(t, config.Role))
	p := startRival(t, config)
	defer p.close()
	first := p.must(t, rivalOrder{Do: takeRole})

	network := newLossy()
	reads, retries := make(chan struct{}, 1), make(chan struct{}, 1)
	tell := func(told chan struct{}) {
		select {
		case told <- struct{}{}:
		default:
		}
	}
	await := func(told chan struct{}) {
		t.Helper()
		select {
		case <-told: // perhaps of before
		default:
		}
		select {
		case <-told:
		case <-within(t, patience).Done():
			t.Fatal("the standby neither reads nor tries to")
		}
	}
	standby := network.over(s).transport(t, lease, func(options *coordination.KafkaOptions) {
		options.Hooks.Fetched = func(coordination.TopicPartition, int, int) { tell(reads) }
		options.Hooks.Retried = func(string, error) { tell(retries) }
	})
	ctx, cancel := context.WithCancel(within(t, patience))
	defer cancel()
	led, ended := make(chan coordination.Lease, 1), make(chan error, 1)
	r, id := role(t, config.Role), member(t, "standby")
	go func() {
		ended <- coordination.Run(ctx, standby, r, id, coordination.Callbacks{
			OnAcquired: func(_ context.Context, l *coordination.Leadership) error {
				led <- l.Lease()
				return nil
			},
		}, config.options(lease)...)
	}()
	await(reads)
	for range outages {
		network.cut()
		await(retries)
		network.mend()
		await(reads)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("Run: %v", err)
	}
	return time.Duration((<-led).GrantedAt-s.lastDeadline(t, config.Topic, r, first.Token)) * time.Millisecond
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// simMember is one member of one role: a service that competes, works while it
// leads, and gives up now and then.
type simMember struct {
	world   *simWorld
	process *simProcess
	role    coordination.Role
	random  *rand.Rand
	runs    bool // with Run instead of a loop of its own
	options []coordination.Option
	written int
}

func newSimMember(w *simWorld, p *simProcess, role coordination.Role) *simMember {
	m := &simMember{
		world: w, process: p, role: role,
		random: rand.New(rand.NewPCG(w.plan.Uint64(), w.plan.Uint64())),
		runs:   w.plan.IntN(2) == 0,
		options: []coordination.Option{
			coordination.WithClock(p), coordination.WithPartitions(1), coordination.WithPollInterval(simPoll),
			coordination.WithLeaseDuration(simLease), coordination.WithRenewInterval(simRenew),
			coordination.WithChallengeStagger(simStagger),
		},
	}
	for _, option := range []coordination.Option{
		coordination.WithDeregisterOnCancel(), coordination.WithFormerLeaseWait(), coordination.WithPollJitter(0.2),
	} {
		if w.plan.IntN(4) == 0 {
			m.options = append(m.options, option)
		}
	}
	return m
}

// chance is true with a probability, and never once the faults are over.
func (m *simMember) chance(of float64) bool {
	return m.random.Float64() < of && !m.world.calm.Load()
}

// sleep waits on the clock of the process.
func (m *simMember) sleep(ctx context.Context, extent time.Duration) {
	due, stop := m.process.StopAfter(extent)
	defer stop()
	select {
	case <-due:
	case <-ctx.Done():
	case <-m.world.over:
	}
}

func (m *simMember) upTo(extent time.Duration) time.Duration {
	return time.Duration(m.random.Int64N(int64(extent)))
}

// live competes until the simulation ends.
func (m *simMember) live() {
	ctx := m.world.running
	m.sleep(ctx, m.upTo(2*time.Second))
	for ctx.Err() == nil {
		if m.runs {
			err := coordination.Run(ctx, m.process, m.role, m.process.id, coordination.Callbacks{
				OnAcquired: func(ctx context.Context, l *coordination.Leadership) error {
					m.work(ctx, m.world.check.acquired(m.process, l))
					return nil
				},
			}, m.options...)
			if err != nil {
				m.world.check.note("%s: Run failed", m.process.name)
			}
		} else if h := m.acquire(ctx); h != nil {
			m.work(ctx, h)
			m.resign(h)
		}
		m.sleep(ctx, m.upTo(time.Second))
	}
}

func (m *simMember) acquire(ctx context.Context) *simHandle {
	if m.chance(0.2) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.upTo(2*simLease))
		defer cancel()
	}
	l, err := coordination.AcquireLeadership(ctx, m.process, m.role, m.process.id, m.options...)
	if err != nil {
		if l != nil {
			m.world.check.wrong(invAcquired, "an acquisition returned a leadership and error %v", err)
		}
		m.world.check.note("%s did not acquire %s", m.process.name, m.role)
		return nil
	}
	return m.world.check.acquired(m.process, l)
}

// work does what leaders do, until the leadership ends.
func (m *simMember) work(ctx context.Context, h *simHandle) {
	guard, err := h.Guard()
	if err != nil {
		m.world.check.wrong(invHarness, "guard: %v", err)
		return
	}
	for h.Err() == nil && ctx.Err() == nil {
		m.sleep(ctx, m.upTo(800*time.Millisecond))
		switch m.random.IntN(8) {
		case 0, 1, 2:
			m.write(ctx, h, guard)
		case 3, 4, 5:
			m.command(h)
		case 6:
			if err := h.Renew(ctx); errors.Is(err, coordination.ErrFenced) && h.Err() == nil {
				m.world.check.wrong(invEnds, "mint %d is held after a fenced renewal: %v", h.engine.mint, err)
			}
		case 7:
			if m.chance(0.3) {
				return
			}
		}
	}
}

func (m *simMember) write(ctx context.Context, h *simHandle, guard *coordination.GuardedWriter) {
	if m.chance(0.1) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.upTo(time.Second))
		defer cancel()
	}
	m.written++
	value := fmt.Sprintf("%s-%d-%d", m.process.name, h.engine.mint, m.written)
	op := m.world.check.write(m.role, h.engine.mint, value)
	err := guard.Write(ctx, coordination.GuardedRecord{Topic: simRegisterOf(m.role).Topic, Key: []byte("register"), Value: []byte(value)})
	m.world.check.wrote(op, h.Token(), err)
	if errors.Is(err, coordination.ErrFenced) && h.Err() == nil {
		m.world.check.wrong(invEnds, "mint %d is held after a fenced write: %v", h.engine.mint, err)
	}
}

// command sends a command to two devices. It may arrive much later.
func (m *simMember) command(h *simHandle) {
	credential, err := h.Credential()
	if err != nil || !m.process.run() {
		return
	}
	journey := m.upTo(20 * time.Millisecond)
	if m.chance(0.2) {
		journey = m.upTo(2 * simLease)
	}
	time.AfterFunc(journey, func() {
		w := m.world
		w.mu.Lock()
		defer w.mu.Unlock()
		err := w.guards[m.role].Admit(context.Background(), credential)
		if errors.Is(err, coordination.ErrCredentialConflict) {
			w.check.wrong(invDevice, "mint %d: %v", h.engine.mint, err)
		}
		byPair := !w.highest[m.role].Supersedes(credential.Token)
		if byPair {
			w.highest[m.role] = credential.Token
		}
		w.check.command(h, err == nil, byPair)
	})
}

// resign gives the role up, from several goroutines at times.
func (m *simMember) resign(h *simHandle) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if m.chance(0.1) {
		cancel()
	}
	give := h.Resign
	if m.chance(0.2) {
		give = h.Leave
	}
	var others sync.WaitGroup
	if m.chance(0.3) {
		// Not at the same instant, which would leave the order open.
		early, late := m.upTo(10*time.Millisecond), 10*time.Millisecond+m.upTo(10*time.Millisecond)
		others.Go(func() {
			<-time.After(early)
			if err := h.Renew(ctx); err == nil && h.Err() != nil {
				m.world.check.wrong(invResigned, "mint %d was renewed after its end", h.engine.mint)
			}
		})
		others.Go(func() {
			<-time.After(late)
			if h.Resign(ctx) == nil {
				m.world.check.resignation(h)
			}
		})
	}
	if give(ctx) == nil {
		m.world.check.resignation(h)
	}
	others.Wait()
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

var (
	daysSeeds = flag.Int("sim.days", 3, "number of simulated eighths of a day")
	daysSeed  = flag.Uint64("sim.day", 0, "simulate this eighth of a day alone")
)

// The timings of simulated days.
const (
	dayLength  = 3 * time.Hour
	dayLease   = 30 * time.Second
	dayStagger = 5 * time.Second
	dayPoll    = 2 * time.Second
)

// dayWorld is a control plane that lives long: its members mostly stand by, over
// networks of different speed, and now and then a read fails, a topic takes no
// records, a leader dies or resigns. A healthy leader keeps the role through all
// of that.
type dayWorld struct {
	t       *testing.T
	random  *rand.Rand
	cluster *full
	role    coordination.Role
	members []*dayMember
	started int
	running sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	count    int        // partitions of the topic
	leader   *dayMember // or nil
	since    time.Time  // when the leader took the role, or the role lost it
	due      time.Time  // when somebody has to lead again
	resigned bool       // the last leader resigned
	mints    int        // since the role lost its leader
	problems []string
}

func (w *dayWorld) wrong(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// dayMember is one process with one member.
type dayMember struct {
	*full
	world  *dayWorld
	name   string
	trip   time.Duration
	cancel context.CancelFunc
	result chan error

	mu     sync.Mutex // guards the fields below
	random *rand.Rand
	dead   bool
	deaf   time.Time // reads fail until then
	stuck  time.Time // guarded writes hang until then
}

// travel carries a request to the brokers or an answer back. A dead process
// sends nothing any more.
func (m *dayMember) travel(ctx context.Context) error {
	m.mu.Lock()
	dead := m.dead
	m.mu.Unlock()
	if dead {
		return errBroken
	}
	select {
	case <-time.After(m.trip / 2):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *dayMember) EnsureTopic(ctx context.Context, topic string, partitions int) error {
	if err := m.travel(ctx); err != nil {
		return err
	}
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.world.count != partitions {
		return &coordination.TopicConfigError{Topic: topic, Setting: "partitions", Have: fmt.Sprint(m.world.count), Want: fmt.Sprint(partitions)}
	}
	return nil
}

func (m *dayMember) ReadCommitted(ctx context.Context, at coordination.TopicPartition) ([]coordination.StateRecord, bool, error) {
	records, err := m.ReadPartition(ctx, at)
	return records, true, err
}

func (m *dayMember) ReadPartition(ctx context.Context, at coordination.TopicPartition) ([]coordination.StateRecord, error) {
	if err := m.travel(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	fails := time.Now().Before(m.deaf) || m.random.IntN(500) == 0
	m.mu.Unlock()
	if fails {
		return nil, errBroken
	}
	records, err := m.full.ReadPartition(ctx, at)
	return records, errors.Join(err, m.travel(ctx))
}

func (m *dayMember) AcquireEpochWhile(ctx context.Context, role coordination.Role, still func(context.Context) error) (coordination.FencingToken, error) {
	if err := errors.Join(still(ctx), m.travel(ctx)); err != nil {
		return coordination.NoEpoch, err
	}
	w := m.world
	w.mu.Lock()
	if w.leader != nil && w.leader != m && time.Since(w.since) > dayStagger {
		w.wrong("%s mints beside %s, which has led for %v", m.name, w.leader.name, time.Since(w.since))
	}
	w.mints++
	w.mu.Unlock()
	token, err := m.fake.AcquireEpoch(ctx, role)
	return token, errors.Join(err, m.travel(ctx))
}

func (m *dayMember) WriteLeaseAt(ctx context.Context, at coordination.TopicPartition, token coordination.FencingToken, key, value []byte) (int64, error) {
	for range 5 {
		if err := m.travel(ctx); err != nil {
			return -1, err
		}
	}
	offset, err := m.fake.writeLease(ctx, at, token, key, value)
	return offset, errors.Join(err, m.travel(ctx))
}

func (m *dayMember) WriteRecords(ctx context.Context, role coordination.Role, token coordination.FencingToken, records []coordination.GuardedRecord) error {
	m.mu.Lock()
	stuck := time.Until(m.stuck)
	m.mu.Unlock()
	if stuck > 0 {
		select {
		case <-time.After(stuck):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(m.travel(ctx), m.full.WriteRecords(ctx, role, token, records))
}

func (m *dayMember) Superseded(coordination.Role, coordination.FencingToken) <-chan struct{} {
	return nil
}

// start runs a new member. Its wall clock is right when it starts, because a
// member that never saw a lease has nothing else to go by, and fast later.
func (w *dayWorld) start(partitions int) *dayMember {
	w.started++
	m := &dayMember{
		full: w.cluster, world: w, name: fmt.Sprint("node-", w.started), result: make(chan error, 1),
		trip:   []time.Duration{4 * time.Millisecond, 50 * time.Millisecond, 700 * time.Millisecond}[w.random.IntN(3)],
		random: rand.New(rand.NewPCG(w.random.Uint64(), 1)),
	}
	w.members = append(w.members, m)
	ctx, cancel := context.WithCancel(w.t.Context())
	m.cancel = cancel
	clock, skew := newSkewedClock(0), time.Duration(w.random.Int64N(int64(4*time.Minute)))
	time.AfterFunc(2*dayLease, func() { clock.step(skew) })
	id := member(w.t, m.name)
	w.running.Go(func() {
		m.result <- coordination.Run(ctx, m, w.role, id, coordination.Callbacks{OnAcquired: m.lead},
			coordination.WithClock(clock), coordination.WithPartitions(partitions), coordination.WithPollInterval(dayPoll),
			coordination.WithLeaseDuration(dayLease), coordination.WithChallengeStagger(dayStagger), coordination.WithDeregisterOnCancel())
	})
	return m
}

// lead writes guarded records until the leadership ends.
func (m *dayMember) lead(ctx context.Context, l *coordination.Leadership) error {
	w := m.world
	w.mu.Lock()
	if late := time.Since(w.due); late > 0 && w.leader == nil {
		w.wrong("%s leads %v late, after %v without a leader", m.name, late, time.Since(w.since))
	}
	if w.leader == nil && w.resigned && w.mints > 4 {
		w.wrong("%d mints after a resignation", w.mints)
	}
	w.leader, w.since = m, time.Now()
	w.mu.Unlock()
	guard, err := l.Guard()
	for ctx.Err() == nil && err == nil {
		_ = guard.Write(ctx, coordination.GuardedRecord{Topic: "commands", Value: []byte("v")})
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.leader != m:
	case time.Since(w.since) < dayStagger+dayPoll: // a duel
		w.leader = nil
	default:
		w.wrong("the healthy leader %s lost the role: %v", m.name, l.Err())
		w.leader = nil
	}
	return err
}

// takeLeader ends the leader, by death or resignation.
func (w *dayWorld) takeLeader(dies bool) {
	w.mu.Lock()
	m := w.leader
	if m == nil || time.Since(w.since) < 2*dayLease {
		w.mu.Unlock()
		return
	}
	// One poll and the turns of the others, and a read of two that fail meanwhile.
	slack := time.Duration(len(w.members))*dayStagger + 4*dayPoll + 12*700*time.Millisecond
	w.leader, w.since, w.mints, w.resigned = nil, time.Now(), 0, !dies
	w.due = w.since.Add(slack)
	if dies {
		w.due = w.due.Add(dayLease)
	}
	w.members = slices.DeleteFunc(w.members, func(other *dayMember) bool { return other == m })
	w.mu.Unlock()
	if dies {
		m.mu.Lock()
		m.dead = true
		m.mu.Unlock()
	}
	m.cancel()
	<-time.After(time.Minute)
	w.start(6)
}

// live simulates an eighth of a day.
func (w *dayWorld) live() {
	for range 3 + w.random.IntN(3) {
		w.start(6)
	}
	w.mu.Lock()
	w.due = time.Now().Add(time.Minute)
	w.mu.Unlock()
	for began := time.Now(); time.Since(began) < dayLength; {
		<-time.After(time.Minute + time.Duration(w.random.Int64N(int64(8*time.Minute))))
		if w.random.IntN(4) == 0 {
			w.takeLeader(w.random.IntN(2) == 0)
			continue
		}
		w.mu.Lock()
		m, until := w.members[w.random.IntN(len(w.members))], time.Now().Add(time.Duration(w.random.Int64N(int64(40*time.Second))))
		healthy := w.leader != nil && time.Since(w.since) > 2*dayLease
		w.mu.Unlock()
		m.mu.Lock()
		switch fault := w.random.IntN(6); {
		case fault < 2 && healthy:
			m.deaf = until
		case fault == 2:
			m.stuck = until.Add(10 * time.Minute)
		}
		m.mu.Unlock()
	}
	<-time.After(3 * time.Minute)
	w.mu.Lock()
	w.count = 12 // the topic grows, and the role has another partition
	w.mu.Unlock()
	late := w.start(12)
	<-time.After(3 * time.Minute)
	var refused *coordination.TopicConfigError
	select {
	case err := <-late.result:
		if !errors.As(err, &refused) {
			w.wrong("a member that counts 12 partitions ended with %v, want the count refused", err)
		}
	default:
		w.wrong("a member that counts 12 partitions competes")
	}
	w.mu.Lock()
	if w.leader == nil {
		w.wrong("nobody leads at the end")
	}
	w.leader = nil
	w.mu.Unlock()
	for _, m := range w.members {
		m.cancel()
	}
	w.running.Wait()
	<-time.After(2 * time.Minute)
}

func simulateDay(t *testing.T, seed uint64) (problems []string) {
	synctest.Test(t, func(t *testing.T) {
		w := &dayWorld{t: t, random: rand.New(rand.NewPCG(seed, 0xda7)), cluster: newFull(), role: role(t, "controller"), count: 6}
		w.live()
		problems = w.problems
	})
	return problems
}

func TestSimulatedDays(t *testing.T) {
	seeds := []uint64{*daysSeed}
	if *daysSeed == 0 {
		seeds = nil
		count := *daysSeeds
		if raceEnabled || testing.Short() {
			count = max(count/4, 1)
		}
		for seed := range count {
			seeds = append(seeds, uint64(seed+1))
		}
	}
	for _, seed := range seeds {
		if problems := simulateDay(t, seed); len(problems) > 0 {
			t.Errorf("seed %d (go test -run '^TestSimulatedDays$' -sim.day %[1]d):\n%s", seed, strings.Join(problems, "\n"))
		}
	}
}

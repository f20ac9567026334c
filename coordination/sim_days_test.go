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

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

var (
	daysSeeds = flag.Int("sim.days", 3, "number of simulated eighths of a day")
	daysSeed  = flag.Uint64("sim.day", 0, "simulate this eighth of a day alone and print what happens")
)

// The timings of simulated days.
const (
	dayLength  = 3 * time.Hour
	dayLease   = 30 * time.Second
	dayStagger = 5 * time.Second
	dayPoll    = 2 * time.Second
	daySlowest = 700 * time.Millisecond // a request there and back

	// dayCalm is how long a leader has to lead before something happens to it.
	dayCalm = 2 * dayLease
)

// dayWorld is a control plane that lives long: its members mostly stand by, over
// networks of different speed, and now and then a read fails, a topic takes no
// records, a standby restarts, a leader dies or resigns. A healthy leader keeps
// the role through all of that, and a role without a leader gets one in time.
// Late in the day the topic grows, which lets nobody in any more.
//
// A seed repeats itself: the goroutine of live makes all choices but those of a
// member's reads, which come from a source of that member, and no two members
// have requests under way that end at one instant.
type dayWorld struct {
	t       *testing.T
	random  *rand.Rand
	begin   time.Time
	cluster *full
	role    coordination.Role
	started int
	running sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	members  []*dayMember
	dead     int // members that died and may still be in the roster
	count    int // partitions of the topic
	term     *dayTerm
	newest   coordination.FencingToken // of all terms
	vacated  time.Time                 // when the role lost its leader
	due      time.Time                 // when somebody has to lead again
	resigned bool                      // the last leader resigned
	mints    int                       // since the role lost its leader
	problems []string
	story    []string
}

// dayTerm is the leadership of a member that was the newest when it began.
type dayTerm struct {
	*coordination.Leadership
	member *dayMember
	since  time.Time
}

// note and wrong run under the mutex.
func (w *dayWorld) note(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%12v  %s", time.Since(w.begin), fmt.Sprintf(format, args...)))
}

func (w *dayWorld) wrong(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf("%v: ", time.Since(w.begin))+fmt.Sprintf(format, args...))
	w.note("WRONG: "+format, args...)
}

// healthy returns the term that has lasted for long enough to be left alone by
// everybody, or nil. It runs under the mutex.
func (w *dayWorld) healthy() *dayTerm {
	if w.term == nil || time.Since(w.term.since) < dayCalm {
		return nil
	}
	return w.term
}

// dayMember is one process with one member.
type dayMember struct {
	*full
	world  *dayWorld
	name   string
	clock  *skewedClock
	cancel context.CancelFunc
	result chan error

	mu     sync.Mutex // guards the fields below
	trip   time.Duration
	random *rand.Rand
	dead   bool
	fails  bool      // the next read fails
	deaf   time.Time // reads fail until then
	stuck  time.Time // guarded writes hang until then
}

// travel carries a request to the brokers or an answer back. A dead process
// sends nothing any more.
func (m *dayMember) travel(ctx context.Context) error {
	m.mu.Lock()
	dead, trip := m.dead, m.trip
	m.mu.Unlock()
	if dead {
		return errBroken
	}
	select {
	case <-time.After(trip / 2):
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
	fails := m.fails || time.Now().Before(m.deaf) || m.random.IntN(500) == 0
	m.fails = false
	m.mu.Unlock()
	if fails {
		return nil, errBroken
	}
	records, err := m.full.ReadPartition(ctx, at)
	return records, errors.Join(err, m.travel(ctx))
}

func (m *dayMember) AcquireEpochWhile(ctx context.Context, role coordination.Role, still func(context.Context) error) (coordination.FencingToken, error) {
	if err := still(ctx); err != nil {
		return coordination.NoEpoch, err
	}
	if err := m.travel(ctx); err != nil {
		return coordination.NoEpoch, err
	}
	w := m.world
	w.mu.Lock()
	if t := w.term; t != nil && t.member != m && time.Since(t.since) > dayStagger {
		w.wrong("%s mints beside %s, which has led for %v", m.name, t.member.name, time.Since(t.since))
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

// start runs a new process. A member that never saw the holder renew has nothing
// but wall clocks to go by: its own is right when it starts, and no clock is ever
// slow, which would make the leases of its member look old.
func (w *dayWorld) start(name string, partitions int) *dayMember {
	w.started++
	m := &dayMember{
		full: w.cluster, world: w, name: name, clock: newSkewedClock(0), result: make(chan error, 1),
		trip: []time.Duration{4 * time.Millisecond, 50 * time.Millisecond, daySlowest}[w.random.IntN(3)] -
			time.Duration(w.started)*2*time.Microsecond, // of this member alone
		random: rand.New(rand.NewPCG(w.random.Uint64(), 1)),
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	m.cancel = cancel
	skew := time.Duration(w.random.Int64N(int64(4 * time.Minute)))
	time.AfterFunc(dayCalm, func() { m.clock.step(skew) })
	w.mu.Lock()
	w.members = append(w.members, m)
	w.note("%s starts with requests of %v", name, m.trip)
	w.mu.Unlock()
	id := member(w.t, name)
	w.running.Go(func() {
		m.result <- coordination.Run(ctx, m, w.role, id, coordination.Callbacks{OnAcquired: m.lead},
			coordination.WithClock(m.clock), coordination.WithPartitions(partitions), coordination.WithPollInterval(dayPoll),
			coordination.WithLeaseDuration(dayLease), coordination.WithChallengeStagger(dayStagger), coordination.WithDeregisterOnCancel())
	})
	return m
}

// name returns a name that no member had before.
func (w *dayWorld) name() string { return fmt.Sprint("node-", w.started+1) }

// lead writes guarded records until the leadership ends.
func (m *dayMember) lead(ctx context.Context, l *coordination.Leadership) error {
	term := m.world.begun(m, l)
	guard, err := l.Guard()
	for ctx.Err() == nil && err == nil {
		_ = guard.Write(ctx, coordination.GuardedRecord{Topic: "commands", Value: []byte("v")})
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
	}
	m.world.ended(term)
	return err
}

// begun takes note of a term. A duel may be over before its loser hears of its
// own term.
func (w *dayWorld) begun(m *dayMember, l *coordination.Leadership) *dayTerm {
	w.mu.Lock()
	defer w.mu.Unlock()
	term := &dayTerm{l, m, time.Now()}
	w.note("%s leads under %s", m.name, l.Token())
	if w.newest.Supersedes(l.Token()) {
		return term
	}
	if late := time.Since(w.due); late > 0 && w.term == nil {
		w.wrong("%s leads %v late, after %v without a leader", m.name, late, time.Since(w.vacated))
	}
	if w.term == nil && w.resigned && w.mints > 4 {
		w.wrong("%d mints after a resignation", w.mints)
	}
	w.term, w.newest = term, l.Token()
	return term
}

// ended takes note of the end of a term that nobody took.
func (w *dayWorld) ended(term *dayTerm) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("%s does not lead any more: %v", term.member.name, term.Err())
	if w.term != term {
		return
	}
	if time.Since(term.since) >= dayStagger+dayPoll { // not a duel
		w.wrong("the healthy leader %s lost the role: %v", term.member.name, term.Err())
	}
	w.term = nil
}

// remove ends the process of a member that leads or stands by. It runs under the
// mutex.
func (w *dayWorld) remove(m *dayMember, dies bool) {
	w.members = slices.DeleteFunc(w.members, func(other *dayMember) bool { return other == m })
	if dies {
		w.dead++
		m.mu.Lock()
		m.dead = true
		m.mu.Unlock()
	}
	m.cancel()
}

// vacate takes the leader away, by death or resignation. Some of the others fail
// to read once before the role has its next leader.
func (w *dayWorld) vacate() {
	dies, next := w.random.IntN(2) == 0, w.name()
	w.mu.Lock()
	term := w.healthy()
	if term == nil {
		w.mu.Unlock()
		return
	}
	// Those that died have their turns before the one that lives, which reads and
	// mints at the end of a poll, again after its failed read, and again after a
	// duel with the next of them.
	slack := time.Duration(w.dead+1)*dayStagger + 3*dayPoll + 20*daySlowest
	w.term, w.vacated, w.mints, w.resigned = nil, time.Now(), 0, !dies
	w.due = w.vacated.Add(slack)
	unheard := slack / 2
	if dies {
		left := time.Duration(term.Lease().Deadline-term.member.clock.NowMillis()) * time.Millisecond
		w.due = w.due.Add(left)
		unheard += left
		if w.random.IntN(2) == 0 {
			next = term.member.name
		}
	}
	w.note("%s is taken away, dies: %v", term.member.name, dies)
	w.remove(term.member, dies)
	for _, m := range w.members {
		if w.random.IntN(2) == 0 {
			time.AfterFunc(time.Duration(w.random.Int64N(int64(unheard))), func() {
				m.mu.Lock()
				m.fails = true
				m.mu.Unlock()
			})
		}
	}
	w.mu.Unlock()
	<-time.After(time.Second + time.Duration(w.random.Int64N(int64(time.Minute))))
	w.start(next, 6)
}

// restart ends a standby, which comes back with the same name and no memory.
func (w *dayWorld) restart() {
	w.mu.Lock()
	m := w.members[w.random.IntN(len(w.members))]
	if term := w.healthy(); term == nil || term.member == m {
		w.mu.Unlock()
		return
	}
	w.note("%s restarts", m.name)
	w.remove(m, true)
	w.dead-- // it comes back
	w.mu.Unlock()
	<-time.After(time.Second + time.Duration(w.random.Int64N(int64(time.Minute))))
	w.start(m.name, 6)
}

// disturb makes something happen to one member that its leadership outlives.
func (w *dayWorld) disturb() {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, extent := w.members[w.random.IntN(len(w.members))], time.Duration(w.random.Int64N(int64(40*time.Second)))
	fault := w.random.IntN(6)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case fault < 2 && w.healthy() != nil:
		w.note("%s reads nothing for %v", m.name, extent)
		m.deaf = time.Now().Add(extent)
	case fault == 2:
		extent += 10 * time.Minute
		w.note("guarded writes of %s hang for %v", m.name, extent)
		m.stuck = time.Now().Add(extent)
	case fault == 3:
		m.trip = min(m.trip*4, daySlowest-time.Duration(w.random.IntN(int(daySlowest/8))))
		w.note("requests of %s take %v", m.name, m.trip)
	}
}

// live simulates an eighth of a day.
func (w *dayWorld) live() {
	w.begin, w.newest = time.Now(), coordination.NoEpoch
	w.due = w.begin.Add(time.Minute)
	for range 3 + w.random.IntN(3) {
		w.start(w.name(), 6)
	}
	grows := dayLength/2 + time.Duration(w.random.Int64N(int64(dayLength/2)))
	for time.Since(w.begin) < dayLength {
		<-time.After(time.Minute + time.Duration(w.random.Int64N(int64(8*time.Minute))))
		if grown := w.count != 6; !grown && time.Since(w.begin) >= grows {
			w.grow()
			continue
		} else if choice := w.random.IntN(8); !grown && choice < 2 {
			w.vacate()
		} else if !grown && choice == 2 {
			w.restart()
		} else {
			w.disturb()
		}
	}
	if w.count == 6 {
		w.grow()
	}
	<-time.After(3 * time.Minute)
	w.mu.Lock()
	if w.term == nil {
		w.wrong("nobody has led for %v, and somebody had to since %v", time.Since(w.vacated), time.Since(w.due))
	}
	w.term = nil
	w.note("all members stop")
	w.mu.Unlock()
	for _, m := range w.members {
		m.cancel()
	}
	w.running.Wait()
	for _, m := range w.members {
		if err := <-m.result; err != nil && !errors.As(err, new(*coordination.TopicConfigError)) {
			w.wrong("%s ended with %v", m.name, err)
		}
	}
	<-time.After(2 * time.Minute)
}

// grow gives the topic more partitions, and the role another one of them. That
// refuses members that count as before, and those that count anew.
func (w *dayWorld) grow() {
	<-time.After(3 * time.Minute) // the role has a leader again
	w.mu.Lock()
	w.count = 12
	w.note("the topic grows")
	w.mu.Unlock()
	var late []*dayMember
	for _, count := range []int{6, 12} {
		late = append(late, w.start(w.name(), count))
	}
	<-time.After(3 * time.Minute)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range late {
		select {
		case err := <-m.result:
			if !errors.As(err, new(*coordination.TopicConfigError)) {
				w.wrong("%s ended with %v, want its count of partitions refused", m.name, err)
			}
		default:
			w.wrong("%s competes with a count of partitions that is not that of the topic", m.name)
		}
		w.remove(m, false)
	}
}

func simulateDay(t *testing.T, seed uint64) (problems, story []string) {
	synctest.Test(t, func(t *testing.T) {
		w := &dayWorld{t: t, random: rand.New(rand.NewPCG(seed, 0xda7)), cluster: newFull(), role: role(t, "controller"), count: 6}
		w.cluster.compacts = true
		w.live()
		problems, story = w.problems, w.story
	})
	return problems, story
}

func TestSimulatedDays(t *testing.T) {
	if *daysSeed != 0 {
		problems, story := simulateDay(t, *daysSeed)
		t.Log("\n" + strings.Join(story, "\n"))
		for _, problem := range problems {
			t.Error(problem)
		}
		return
	}
	count := *daysSeeds
	if raceEnabled || testing.Short() {
		count = max(count/4, 1)
	}
	for seed := range uint64(count) {
		if problems, _ := simulateDay(t, seed+1); len(problems) > 0 {
			t.Errorf("seed %d (go test -run '^TestSimulatedDays$' -sim.day %[1]d):\n%s", seed+1, strings.Join(problems, "\n"))
		}
	}
}

// A day that went wrong can be looked at again.
func TestSimulatedDaysRepeatThemselves(t *testing.T) {
	for seed := range uint64(2) {
		_, first := simulateDay(t, seed+1)
		_, second := simulateDay(t, seed+1)
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("seed %d tells two stories (-first +second):\n%s", seed+1, diff)
		}
	}
}

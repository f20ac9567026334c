// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

var (
	errSimTimeout = errors.New("simulated: no answer")
	errSimBusy    = errors.New("simulated: the coordinator moves")
	errSimGivesUp = errors.New("simulated: the client gave up")
	errSimNotDue  = errors.New("simulated: the mint is not due")
)

// simProcess is one process with its clocks, its network and its Kafka client.
// It can be paused and killed at every call to the outside.
type simProcess struct {
	name    string
	id      coordination.MemberID // of its members
	died    chan struct{}
	world   *simWorld
	cluster *simCluster
	skewedClock

	mu        sync.Mutex    // guards the fields below
	gate      chan struct{} // closed while the process runs
	blocked   int           // goroutines that wait for the gate
	dead      bool          // killed, not to run again
	resumed   time.Duration // when the last pause ended
	looked    time.Duration // when it last learnt who holds a role
	cut       time.Duration // the network is down until then
	random    map[string]*rand.Rand
	engines   map[coordination.FencingToken]*simEngine // by minted token
	newest    map[coordination.Role]*simEngine
	calls     int // in the current poll interval
	interval  int64
	registers int // registrations that its members appended
}

var (
	_ coordination.MonotonicClock = (*simProcess)(nil)
	_ coordination.StoppableClock = (*simProcess)(nil)
	_ coordination.TermTransport  = (*simProcess)(nil)
	_ coordination.TopicTransport = (*simProcess)(nil)
)

func newSimProcess(w *simWorld, name string, id coordination.MemberID) *simProcess {
	p := &simProcess{
		name: name, id: id, world: w, cluster: w.cluster,
		died:    make(chan struct{}),
		gate:    make(chan struct{}),
		random:  make(map[string]*rand.Rand),
		engines: make(map[coordination.FencingToken]*simEngine),
		newest:  make(map[coordination.Role]*simEngine),
	}
	p.start = time.Now()
	close(p.gate)
	return p
}

// run blocks while the process is paused. It returns false when the process
// was killed and the simulation is over.
func (p *simProcess) run() bool {
	for {
		p.mu.Lock()
		gate, dead := p.gate, p.dead
		select {
		case <-gate:
			if !dead {
				p.mu.Unlock()
				return true
			}
		default:
		}
		p.blocked++
		place := p.blocked
		p.mu.Unlock()
		if dead {
			<-p.world.over
			return false
		}
		select {
		case <-gate:
			// The goroutines of a process wake one after another, so that a
			// seed repeats itself.
			<-time.After(time.Duration(place) * time.Microsecond)
		case <-p.world.over:
			return false
		}
	}
}

func (p *simProcess) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate, p.blocked = make(chan struct{}), 0
}

func (p *simProcess) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resumed = p.world.now()
	select {
	case <-p.gate:
	default:
		close(p.gate)
	}
}

// kill stops the process for good. What it sent is on its way.
func (p *simProcess) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	p.gate = make(chan struct{})
	close(p.died)
}

// state reports whether the process runs, and since when.
func (p *simProcess) state() (running bool, since time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gate:
		return !p.dead, p.resumed
	default:
		return false, 0
	}
}

func (p *simProcess) isolate(until time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = until
}

// NowMillis and Elapsed are the skewed clock's; a wait ends only while the
// process runs.
func (p *simProcess) After(extent time.Duration) <-chan time.Time {
	channel, _ := p.StopAfter(extent)
	return channel
}

func (p *simProcess) StopAfter(extent time.Duration) (<-chan time.Time, func()) {
	channel := make(chan time.Time, 1)
	if extent <= 0 {
		channel <- time.Now()
		return channel, func() {}
	}
	timer := time.AfterFunc(extent, func() {
		if p.run() {
			channel <- time.Now()
		}
	})
	return channel, func() { timer.Stop() }
}

// roll returns random numbers for one call of a kind about a role, so that the
// fates of concurrent calls do not depend on their order.
func (p *simProcess) roll(role coordination.Role, kind string, numbers []float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := role.String() + "/" + kind
	random := p.random[key]
	if random == nil {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s/%s", p.name, key)
		random = rand.New(rand.NewPCG(p.world.seed, h.Sum64()))
		p.random[key] = random
	}
	for i := range numbers {
		numbers[i] = random.Float64()
	}
}

// upTo returns a share of an extent.
func upTo(extent time.Duration, share float64) time.Duration {
	return time.Duration(share * float64(extent))
}

// simFate is what happens to one request.
type simFate struct {
	there, back    time.Duration
	lost, unheard  bool
	busy           bool
	deaf           bool // the caller does not look at its context
	requestTimeout time.Duration
}

func (p *simProcess) fate(role coordination.Role, kind string) simFate {
	var d [6]float64
	p.roll(role, kind, d[:])
	faults := p.world.faults()
	f := simFate{
		there:          50*time.Microsecond + upTo(3*time.Millisecond, d[0]),
		back:           50*time.Microsecond + upTo(3*time.Millisecond, d[1]),
		requestTimeout: time.Second + upTo(time.Millisecond, d[2]),
	}
	slow := upTo(2*time.Second, d[3])
	if faults.network == 0 {
		return f
	}
	switch share := d[4] / faults.network; {
	case share < 0.25:
		f.lost = true
	case share < 0.5:
		f.unheard = true
	case share < 0.7:
		f.there += slow
	case share < 0.8:
		f.back += slow
	case share < 1:
		f.busy = true
	}
	if f.deaf = d[5] < faults.network/10; f.deaf {
		f.back += 3 * slow
	}
	p.mu.Lock()
	f.lost = f.lost || p.world.now() < p.cut
	p.mu.Unlock()
	return f
}

// simCall sends one request and waits for its answer. The request is processed
// in the order of its queue, also after the caller gave up.
func simCall[T any](ctx context.Context, p *simProcess, queue *simQueue, role coordination.Role, kind string, process func() (T, error)) (T, error) {
	var none T
	if !p.run() {
		return none, coordination.ErrTransportClosed
	}
	p.world.check.called(p, kind)
	f := p.fate(role, kind)
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	turn, done := queue.enter()
	go func() {
		<-turn
		defer done()
		<-time.After(f.there)
		switch {
		case f.lost, !p.cluster.reachable():
			p.world.check.meet(metLostRequest)
			done()
			<-time.After(f.requestTimeout)
			answered <- answer{err: errSimTimeout}
			return
		case f.busy:
			p.world.check.meet(metBusy)
			done()
			<-time.After(f.back)
			answered <- answer{err: errSimBusy}
			return
		}
		value, err := process()
		p.world.check.happened()
		done()
		if f.unheard {
			p.world.check.meet(metLostAnswer + kind)
			<-time.After(f.requestTimeout)
			answered <- answer{err: errSimTimeout}
			return
		}
		<-time.After(f.back)
		answered <- answer{value, err}
	}()
	ended := ctx.Done()
	if f.deaf {
		p.world.check.meet(metDeaf)
		ended = nil
	}
	select {
	case a := <-answered:
		if !p.run() {
			return none, coordination.ErrTransportClosed
		}
		return a.value, a.err
	case <-ended:
		if !p.run() {
			return none, coordination.ErrTransportClosed
		}
		return none, ctx.Err()
	case <-p.world.over:
		return none, coordination.ErrTransportClosed
	}
}

// simQueue keeps the requests of one connection in order.
type simQueue struct {
	mu   sync.Mutex // guards last
	last chan struct{}
}

// enter returns the channel that closes when the request before is processed,
// and the function that says that this one is.
func (q *simQueue) enter() (turn <-chan struct{}, done func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, own := q.last, make(chan struct{})
	if before == nil {
		before = make(chan struct{})
		close(before)
	}
	q.last = own
	return before, sync.OnceFunc(func() { close(own) })
}

// retrying repeats a request while that may help and the context holds. A
// client gives up in between now and then.
func retrying[T any](ctx context.Context, p *simProcess, role coordination.Role, kind string, request func() (T, error)) (T, error) {
	backoff := 20 * time.Millisecond
	for {
		value, err := request()
		switch {
		case errors.Is(err, errSimTimeout), errors.Is(err, errSimBusy), errors.Is(err, errSimConcurrent):
		default:
			return value, err
		}
		if ctx.Err() != nil {
			return value, ctx.Err()
		}
		var d [2]float64
		p.roll(role, kind+" retry", d[:])
		if d[0] < p.world.faults().givesUp {
			p.world.check.meet(metGivesUp)
			return value, fmt.Errorf("%w: %w", errSimGivesUp, err)
		}
		wait, stop := p.StopAfter(backoff + upTo(backoff, d[1]))
		select {
		case <-wait:
		case <-ctx.Done():
			stop()
			if !p.run() {
				return value, coordination.ErrTransportClosed
			}
			return value, ctx.Err()
		case <-p.world.over:
			stop()
			return value, coordination.ErrTransportClosed
		}
		backoff = min(2*backoff, 500*time.Millisecond)
	}
}

// simEngine is the transactional producer of one mint.
type simEngine struct {
	role    coordination.Role
	minted  coordination.FencingToken
	mint    int
	turn    chan struct{}
	queue   simQueue
	retired chan struct{}

	// The taker of the turn owns the fields below.
	pending *simPending
	batches int64

	mu        sync.Mutex // guards the fields below
	current   coordination.FencingToken
	unsettled bool // the answer to an end is missing
	fenced    bool
	acked     []byte        // the last acknowledged lease value
	taken     time.Duration // when its write began
	writing   int
}

// simPending is a batch whose answer did not arrive.
type simPending struct {
	part       coordination.TopicPartition
	id         int64
	key, value []byte
}

func (e *simEngine) retire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.fenced {
		e.fenced = true
		close(e.retired)
	}
}

func (p *simProcess) AcquireEpoch(ctx context.Context, role coordination.Role) (coordination.FencingToken, error) {
	return p.AcquireEpochWhile(ctx, role, func(context.Context) error { return nil })
}

func (p *simProcess) AcquireEpochWhile(ctx context.Context, role coordination.Role, still func(context.Context) error) (coordination.FencingToken, error) {
	type minted struct {
		token coordination.FencingToken
		mint  int
	}
	var refused error
	m, err := retrying(ctx, p, role, "mint", func() (minted, error) {
		if refused = still(ctx); refused != nil {
			p.world.check.meet(metNotDue)
			return minted{}, errSimNotDue
		}
		p.world.check.mintsOn(p, role)
		return simCall(ctx, p, new(simQueue), role, "mint", func() (minted, error) {
			token, mint, err := p.cluster.mint(role, simLease)
			return minted{token, mint}, err
		})
	})
	switch {
	case refused != nil:
		return coordination.NoEpoch, refused
	case err != nil:
		return coordination.NoEpoch, err
	}
	e := &simEngine{
		role: role, minted: m.token, mint: m.mint, current: m.token,
		turn: make(chan struct{}, 1), retired: make(chan struct{}),
	}
	e.turn <- struct{}{}
	p.mu.Lock()
	older := p.newest[role]
	p.engines[m.token] = e
	if older == nil || older.mint < m.mint {
		p.newest[role] = e
	} else {
		older = e
	}
	p.mu.Unlock()
	if older != nil {
		older.retire()
	}
	p.world.check.acknowledged(role, m.mint)
	return m.token, nil
}

func (p *simProcess) DescribeEpoch(ctx context.Context, role coordination.Role) (coordination.FencingToken, bool, error) {
	type described struct {
		token coordination.FencingToken
		held  bool
	}
	d, err := retrying(ctx, p, role, "describe", func() (described, error) {
		return simCall(ctx, p, new(simQueue), role, "describe", func() (described, error) {
			token, held := p.cluster.describe(role)
			return described{token, held}, nil
		})
	})
	p.looks()
	return d.token, d.held, err
}

func (p *simProcess) ReadPartition(ctx context.Context, at coordination.TopicPartition) ([]coordination.StateRecord, error) {
	records, _, err := p.read(ctx, at, p.cluster.read)
	if err == nil {
		p.world.check.returned(at, records)
	}
	return records, err
}

func (p *simProcess) read(ctx context.Context, at coordination.TopicPartition, log func(coordination.TopicPartition) ([]coordination.StateRecord, bool)) ([]coordination.StateRecord, bool, error) {
	type part struct {
		records  []coordination.StateRecord
		complete bool
	}
	r, err := retrying(ctx, p, coordination.Role{}, "read", func() (part, error) {
		return simCall(ctx, p, new(simQueue), coordination.Role{}, "read", func() (part, error) {
			records, complete := log(at)
			return part{records, complete}, nil
		})
	})
	if err == nil {
		p.looks()
	}
	return r.records, r.complete, err
}

func (p *simProcess) EnsureTopic(context.Context, string, int) error { return nil }

func (p *simProcess) Lease() coordination.LeaseConfig { return coordination.LeaseConfig{} }

func (p *simProcess) Release(coordination.Role, coordination.FencingToken) {}

// ReadCommitted sees what is committed behind the open transactions of others.
func (p *simProcess) ReadCommitted(ctx context.Context, at coordination.TopicPartition) ([]coordination.StateRecord, bool, error) {
	records, complete, err := p.read(ctx, at, p.cluster.readBehind)
	if err == nil {
		p.world.check.committedOnly(at, records)
		if !complete {
			p.world.check.meet(metBehind)
		}
	}
	return records, complete, err
}

func (p *simProcess) looks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked = p.world.now()
}

func (p *simProcess) Append(ctx context.Context, at coordination.TopicPartition, key, value []byte) error {
	decoded, err := coordination.DecodeKey(key)
	if err != nil {
		return err
	}
	if value == nil {
		p.world.check.deregistered(decoded.Member)
	} else {
		p.mu.Lock()
		p.registers++
		p.mu.Unlock()
	}
	appended := false
	_, err = retrying(ctx, p, decoded.Role, "append", func() (struct{}, error) {
		return simCall(ctx, p, new(simQueue), decoded.Role, "append", func() (struct{}, error) {
			if !appended { // an idempotent producer
				appended = true
				p.cluster.appendPlain(at, key, value)
			}
			return struct{}{}, nil
		})
	})
	return err
}

func (p *simProcess) engine(token coordination.FencingToken) *simEngine {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.engines[token]; e != nil {
		return e
	}
	for _, e := range p.engines {
		e.mu.Lock()
		same := e.current == token
		e.mu.Unlock()
		if same {
			return e
		}
	}
	return nil
}

func (p *simProcess) WriteLease(ctx context.Context, at coordination.TopicPartition, token coordination.FencingToken, key, value []byte) error {
	_, err := p.WriteLeaseAt(ctx, at, token, key, value)
	return err
}

func (p *simProcess) WriteLeaseAt(ctx context.Context, at coordination.TopicPartition, token coordination.FencingToken, key, value []byte) (int64, error) {
	e := p.engine(token)
	if e == nil {
		return -1, fmt.Errorf("token %s was not minted here", token)
	}
	p.world.check.writing(e)
	began := p.world.now()
	e.write(+1)
	defer e.write(-1)
	offset, _, err := p.transact(ctx, e, at, key, value)
	p.world.check.note("%s: lease write of mint %d of %s since %v: failed %t", p.name, e.mint, e.role, began, err != nil)
	if err == nil {
		e.mu.Lock()
		e.acked, e.taken = value, began
		e.mu.Unlock()
	}
	return offset, err
}

// settled says that no end is under way, and returns the pair to go on with.
func (e *simEngine) settled() coordination.FencingToken {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unsettled = false
	return e.current
}

// write counts the writes in flight.
func (e *simEngine) write(change int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writing += change
}

func (p *simProcess) WriteRecords(ctx context.Context, role coordination.Role, token coordination.FencingToken, records []coordination.GuardedRecord) error {
	e := p.engine(token)
	if e == nil {
		return fmt.Errorf("token %s was not minted here", token)
	}
	p.world.check.writing(e)
	e.write(+1)
	defer e.write(-1)
	for _, r := range records {
		at := coordination.TopicPartition{Topic: r.Topic, Partition: r.Partition}
		if _, sent, err := p.transact(ctx, e, at, r.Key, r.Value); err != nil {
			if sent {
				return &coordination.OutcomeUnknownError{Role: role, Token: token, Err: err}
			}
			return err
		}
	}
	return nil
}

// transact writes one record in one transaction and commits it. It reports
// whether the record may have reached a log.
func (p *simProcess) transact(ctx context.Context, e *simEngine, part coordination.TopicPartition, key, value []byte) (offset int64, sent bool, err error) {
	select {
	case <-e.turn:
	case <-ctx.Done():
		return -1, false, ctx.Err()
	case <-p.world.over:
		return -1, false, coordination.ErrTransportClosed
	}
	defer func() { e.turn <- struct{}{} }()
	own := &simPending{part: part, key: key, value: value}
	for {
		offset, sent, err = p.attempt(ctx, e, own, sent)
		if !errors.Is(err, errSimTxnState) {
			break
		}
		// An end that was given up came through. The pair tells who acts.
		current, _, err := p.DescribeEpoch(ctx, e.role)
		if err != nil {
			return -1, sent, err
		}
		e.mu.Lock()
		fenced := current != e.current
		e.mu.Unlock()
		if fenced {
			e.retire()
			return -1, sent, coordination.ErrFenced
		}
	}
	if errors.Is(err, errSimFenced) {
		e.retire()
		err = fmt.Errorf("%w: %w", coordination.ErrFenced, err)
	}
	return offset, sent, err
}

// attempt goes through the three requests of a transaction.
func (p *simProcess) attempt(ctx context.Context, e *simEngine, own *simPending, sentBefore bool) (offset int64, sent bool, err error) {
	sent = sentBefore
	e.mu.Lock()
	token, fenced, unsettled := e.current, e.fenced, e.unsettled
	e.mu.Unlock()
	if fenced {
		return -1, sent, errSimFenced
	}
	if unsettled && p.cluster.bumping() {
		if err := p.commit(ctx, e); err != nil && !errors.Is(err, errSimTxnState) {
			return -1, sent, err
		}
		token = e.settled()
	}
	batches := []*simPending{own}
	if e.pending != nil && e.pending != own {
		batches = []*simPending{e.pending, own}
	}
	for _, batch := range batches {
		if _, err := retrying(ctx, p, e.role, "add", func() (struct{}, error) {
			return simCall(ctx, p, &e.queue, e.role, "add", func() (struct{}, error) {
				return struct{}{}, p.cluster.add(e.role, token, batch.part)
			})
		}); err != nil {
			return -1, sent, err
		}
		if batch.id == 0 {
			e.batches++
			batch.id = e.batches
		}
		e.pending = batch
		sent = sent || batch == own
		offset, err = retrying(ctx, p, e.role, "produce", func() (int64, error) {
			return simCall(ctx, p, &e.queue, e.role, "produce", func() (int64, error) {
				return p.cluster.produce(e.role, token, batch.part, batch.id, batch.key, batch.value)
			})
		})
		if err != nil {
			return -1, sent, err
		}
		e.pending = nil
	}
	if err := p.commit(ctx, e); err != nil {
		return -1, sent, err
	}
	return offset, sent, nil
}

// commit ends the transaction and takes over the pair that the answer tells.
func (p *simProcess) commit(ctx context.Context, e *simEngine) error {
	e.mu.Lock()
	token := e.current
	e.unsettled = true
	e.mu.Unlock()
	next, err := retrying(ctx, p, e.role, "commit", func() (coordination.FencingToken, error) {
		return simCall(ctx, p, &e.queue, e.role, "commit", func() (coordination.FencingToken, error) {
			return p.cluster.commit(e.role, token)
		})
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current, e.unsettled = next, false
	return nil
}

func (p *simProcess) CurrentToken(_ coordination.Role, minted coordination.FencingToken) (coordination.FencingToken, bool) {
	p.mu.Lock()
	e := p.engines[minted]
	p.mu.Unlock()
	if e == nil {
		return coordination.NoEpoch, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current, !e.fenced
}

func (p *simProcess) Superseded(_ coordination.Role, minted coordination.FencingToken) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engines[minted].retired
}

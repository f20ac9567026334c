// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// The answers of the simulated brokers that a client tells apart.
var (
	errSimFenced     = errors.New("simulated: the pair is not the newest")
	errSimConcurrent = errors.New("simulated: the previous transaction completes")
	errSimTxnState   = errors.New("simulated: no transaction is open")
)

// simTraits are the choices of one seed about its cluster.
type simTraits struct {
	bumps       bool          // every end of a transaction advances the epoch
	maxEpoch    int16         // the last epoch of a producer id
	extraBump   bool          // a mint over an open transaction advances by two
	markerDelay time.Duration // from the end of a transaction to its markers
	abortScan   time.Duration // between two looks for timed-out transactions
	loading     time.Duration // until then the coordinator is not ready to mint
}

// simCluster is a Kafka cluster as far as an election can see it: a transaction
// coordinator and logs with transactional records. It follows the virtual time
// of its bubble, and every method is one instant.
type simCluster struct {
	traits simTraits
	begin  time.Time
	check  *simChecker

	mu       sync.Mutex // guards the fields below
	logs     map[coordination.TopicPartition]*simLog
	states   map[coordination.Role]*simTxn
	node     int           // the broker that is the coordinator
	blocks   [2]int64      // the next producer id of each broker
	down     time.Duration // no broker answers until then
	draining []*simTxnEnd
	lastScan time.Duration
}

// simTxn is what the coordinator holds for one role.
type simTxn struct {
	pid    int64
	epoch  int16
	mint   int  // counts mints, and names the leadership
	gone   bool // the coordinator forgot the pair
	owned  bool
	last   coordination.FencingToken // the pair before the last end, while the same owner holds the role
	open   bool
	opened time.Duration
	expiry time.Duration
	parts  map[coordination.TopicPartition]bool
	ending *simTxnEnd
}

// simTxnEnd is a transaction whose markers are not written yet.
type simTxnEnd struct {
	state  *simTxn
	role   coordination.Role
	due    time.Duration
	commit bool
	parts  []coordination.TopicPartition
	mint   int
}

type simLog struct {
	next    int64
	entries []*simEntry
	batches map[simBatch]int64
}

// simBatch identifies a produced batch for the brokers' duplicate check.
type simBatch struct {
	token coordination.FencingToken
	id    int64
}

// simEntry is one record of a log. Markers take an offset and no entry.
type simEntry struct {
	offset     int64
	role       coordination.Role
	mint       int // 0 for a record outside a transaction
	open       bool
	aborted    bool
	key, value []byte
}

func newSimCluster(traits simTraits, check *simChecker) *simCluster {
	return &simCluster{
		traits: traits, begin: time.Now(), check: check,
		logs:   make(map[coordination.TopicPartition]*simLog),
		states: make(map[coordination.Role]*simTxn),
		blocks: [2]int64{1000, 0},
	}
}

func (c *simCluster) now() time.Duration { return time.Since(c.begin) }

func (c *simCluster) log(at coordination.TopicPartition) *simLog {
	if c.logs[at] == nil {
		c.logs[at] = &simLog{batches: make(map[simBatch]int64)}
	}
	return c.logs[at]
}

// settle writes the markers and aborts the transactions that are due.
func (c *simCluster) settle() {
	now := c.now()
	for {
		var next *simTxnEnd
		for _, end := range c.draining {
			if end.due <= now && (next == nil || end.due < next.due) {
				next = end
			}
		}
		scan := c.lastScan + c.traits.abortScan
		if scan <= now && (next == nil || scan < next.due) {
			c.lastScan = scan
			c.abortExpired(scan)
			continue
		}
		if next == nil {
			return
		}
		c.mark(next)
	}
}

func (c *simCluster) abortExpired(at time.Duration) {
	for role, state := range c.states {
		if state.open && state.opened+state.expiry <= at {
			c.check.meet(metTimeout)
			c.end(role, state, false, at)
			c.advance(role, state, at)
			state.owned = false
			c.check.bumped(role, at)
		}
	}
}

// advance moves the pair of a role on, to another producer id when the epochs
// are used up.
func (c *simCluster) advance(role coordination.Role, state *simTxn, at time.Duration) {
	state.last = coordination.NoEpoch
	if state.epoch < c.traits.maxEpoch && !state.gone {
		state.epoch++
	} else {
		state.pid, state.epoch, state.gone = c.blocks[c.node], 0, false
		c.blocks[c.node]++
	}
	c.check.moved(role, c.token(state), at)
}

// end ends an open transaction; its markers follow.
func (c *simCluster) end(role coordination.Role, state *simTxn, commit bool, at time.Duration) {
	end := &simTxnEnd{state: state, role: role, due: at + c.traits.markerDelay, commit: commit, mint: state.mint}
	for part := range state.parts {
		end.parts = append(end.parts, part)
	}
	slices.SortFunc(end.parts, func(x, y coordination.TopicPartition) int {
		return bytes.Compare([]byte(x.String()), []byte(y.String()))
	})
	state.open, state.parts, state.ending = false, nil, end
	c.draining = append(c.draining, end)
	if commit {
		for _, part := range end.parts {
			for _, entry := range c.log(part).entries {
				if entry.open && entry.role == role {
					c.check.committed(part, entry, c.log(part))
				}
			}
		}
	}
}

func (c *simCluster) mark(end *simTxnEnd) {
	c.draining = slices.DeleteFunc(c.draining, func(other *simTxnEnd) bool { return other == end })
	if end.state.ending == end {
		end.state.ending = nil
	}
	for _, part := range end.parts {
		log := c.log(part)
		for _, entry := range log.entries {
			if entry.open && entry.role == end.role && entry.mint == end.mint {
				entry.open, entry.aborted = false, !end.commit
			}
		}
		log.next++
	}
}

// mint is InitProducerId without an expected pair. It returns the pair and the
// number of the mint.
func (c *simCluster) mint(role coordination.Role, timeout time.Duration) (coordination.FencingToken, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	state := c.states[role]
	switch {
	case c.now() < c.traits.loading:
		c.check.meet(metLoading)
		return coordination.NoEpoch, 0, errSimBusy
	case state == nil:
		state = &simTxn{pid: c.blocks[c.node]}
		c.blocks[c.node]++
		c.states[role] = state
		c.check.moved(role, c.token(state), c.now())
	case state.ending != nil:
		return coordination.NoEpoch, 0, errSimConcurrent
	case state.open:
		c.end(role, state, false, c.now())
		c.advance(role, state, c.now())
		state.owned = false
		c.check.bumped(role, c.now())
		c.check.meet(metOpenMint)
		if c.traits.extraBump {
			c.check.meet(metExtraBump)
			return coordination.NoEpoch, 0, errSimConcurrent
		}
	default:
		c.advance(role, state, c.now())
	}
	state.mint++
	state.owned, state.last, state.expiry = true, coordination.NoEpoch, timeout
	c.check.minted(role, state.mint, c.token(state), c.now())
	return c.token(state), state.mint, nil
}

// token is the pair of a role, or NoEpoch for one that was forgotten.
func (c *simCluster) token(state *simTxn) coordination.FencingToken {
	if state.gone {
		return coordination.NoEpoch
	}
	token, err := coordination.NewFencingToken(state.pid, state.epoch)
	if err != nil {
		panic(err)
	}
	return token
}

func (c *simCluster) describe(role coordination.Role) (coordination.FencingToken, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	state := c.states[role]
	if state == nil || state.gone {
		return coordination.NoEpoch, false
	}
	return c.token(state), true
}

// add is AddPartitionsToTxn.
func (c *simCluster) add(role coordination.Role, token coordination.FencingToken, part coordination.TopicPartition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	state := c.states[role]
	switch {
	case c.token(state) != token:
		return errSimFenced
	case state.ending != nil:
		return errSimConcurrent
	case !state.open:
		state.open, state.opened, state.parts = true, c.now(), make(map[coordination.TopicPartition]bool)
	}
	state.parts[part] = true
	return nil
}

// produce appends a transactional record. A batch that was appended before is
// acknowledged again, whatever it holds.
func (c *simCluster) produce(role coordination.Role, token coordination.FencingToken, part coordination.TopicPartition, id int64, key, value []byte) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	state, log := c.states[role], c.log(part)
	if offset, appended := log.batches[simBatch{token, id}]; appended {
		return offset, nil
	}
	if c.token(state) != token {
		return -1, errSimFenced
	}
	if !state.open || !state.parts[part] {
		return -1, errSimTxnState
	}
	offset := c.append(log, &simEntry{role: role, mint: state.mint, open: true, key: key, value: value})
	log.batches[simBatch{token, id}] = offset
	return offset, nil
}

// append is also the write of a plain producer.
func (c *simCluster) append(log *simLog, entry *simEntry) int64 {
	entry.offset = log.next
	log.next++
	log.entries = append(log.entries, entry)
	return entry.offset
}

func (c *simCluster) appendPlain(part coordination.TopicPartition, key, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	entry := &simEntry{key: key, value: value}
	c.append(c.log(part), entry)
	c.check.appended(part, entry)
}

// commit is EndTxn(commit). It returns the pair to go on with.
func (c *simCluster) commit(role coordination.Role, token coordination.FencingToken) (coordination.FencingToken, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	state := c.states[role]
	if c.traits.bumps && state.owned && state.last == token {
		return c.token(state), nil // the answer to a retry
	}
	switch {
	case c.token(state) != token:
		return coordination.NoEpoch, errSimFenced
	case !state.open && (c.traits.bumps || state.mint == 0):
		return coordination.NoEpoch, errSimTxnState
	case !state.open:
		return token, nil // a retry, or nothing to end
	}
	c.end(role, state, true, c.now())
	if c.traits.bumps {
		c.check.meet(metMovingEpoch)
		c.advance(role, state, c.now())
		state.last = token
	}
	return c.token(state), nil
}

// stable returns the last stable offset of a log.
func (l *simLog) stable() int64 {
	for _, entry := range l.entries {
		if entry.open {
			return entry.offset
		}
	}
	return l.next
}

// read returns the committed records below the last stable offset, and whether
// nothing stands above it.
func (c *simCluster) read(part coordination.TopicPartition) ([]coordination.StateRecord, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	log := c.log(part)
	stable := log.stable()
	records := make([]coordination.StateRecord, 0, len(log.entries))
	for _, entry := range log.entries {
		if entry.offset < stable && !entry.aborted {
			records = append(records, coordination.StateRecord{Offset: entry.offset, Key: entry.key, Value: entry.value})
		}
	}
	return records, stable == log.next
}

// readBehind returns every committed record, also behind open transactions.
func (c *simCluster) readBehind(part coordination.TopicPartition) ([]coordination.StateRecord, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	log := c.log(part)
	records := make([]coordination.StateRecord, 0, len(log.entries))
	for _, entry := range log.entries {
		if !entry.open && !entry.aborted {
			records = append(records, coordination.StateRecord{Offset: entry.offset, Key: entry.key, Value: entry.value})
		}
	}
	return records, log.stable() == log.next
}

// compact removes what a newer record of the same key supersedes, below the
// last stable offset, and aborted records.
func (c *simCluster) compact(part coordination.TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	log := c.log(part)
	stable := log.stable()
	newest := make(map[string]int64, len(log.entries))
	for _, entry := range log.entries {
		if !entry.open && !entry.aborted && entry.offset < stable {
			newest[string(entry.key)] = entry.offset
		}
	}
	log.entries = slices.DeleteFunc(log.entries, func(entry *simEntry) bool {
		return entry.offset < stable && newest[string(entry.key)] != entry.offset
	})
}

// bumping reports whether every transaction advances the epoch.
func (c *simCluster) bumping() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.traits.bumps
}

// upgrade makes every transaction from here on advance the epoch.
func (c *simCluster) upgrade() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.traits.bumps = true
}

// restart stops the brokers for a while. The coordinator is another one then.
func (c *simCluster) restart(until time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = until
	c.node = 1 - c.node
}

func (c *simCluster) reachable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now() >= c.down
}

// forget expires the transactional id of a role, unless it is in use.
func (c *simCluster) forget(role coordination.Role) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	state := c.states[role]
	if state == nil || state.gone || state.open || state.ending != nil {
		return
	}
	state.gone, state.owned = true, false
	c.check.meet(metForgotten)
	c.check.moved(role, coordination.NoEpoch, c.now())
	c.check.bumped(role, c.now())
}

// move makes the other broker the coordinator.
func (c *simCluster) move() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node = 1 - c.node
}

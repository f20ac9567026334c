// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// kafkaTerm is what the transport keeps for an epoch that it minted: the
// producer of one leadership.
type kafkaTerm struct {
	role   Role
	minted FencingToken
	moves  bool          // the brokers may move the epoch with a transaction
	over   chan struct{} // closed when the epoch is known to be superseded

	written chan struct{} // closed when a transaction is committed or nothing is written any more
	writes  sync.Once     // closes written

	current  atomic.Pointer[FencingToken]
	ids      []int64 // every producer id so far, oldest first; guarded by kafkaTerms.mu
	released bool    // nobody writes under its tokens any more; guarded by kafkaTerms.mu

	// turn holds one token. Its taker owns the fields below.
	turn      chan struct{}
	tracking  bool // the brokers advance the epoch with every transaction
	decided   bool // tracking is final
	undecided bool // a transaction ended, and its effect on the epoch is not known
	ending    ending
	suspect   bool // the coordinator may not be done with the last transaction
	strays    strays
	last      written
	sequences map[TopicPartition]int32

	// unsettled are batches that were sent and not acknowledged. The next
	// batch of the same partition goes after them: their sequence numbers are
	// taken, and another batch under the same numbers would be acknowledged
	// and lost.
	unsettled map[TopicPartition]*kafkaBatch
}

// written is where the last acknowledged batch of a term is.
type written struct {
	at     TopicPartition
	offset int64
}

// ending is the end of a transaction that was asked for and is not known to
// have happened.
type ending int

const (
	endingNone   ending = iota
	endingCommit        // the request to commit was sent
	endingAbort         // the records of the transaction must not become visible
)

// pair returns the producer id and epoch that the next request carries.
func (m *kafkaTerm) pair() FencingToken { return *m.current.Load() }

// take waits for the turn and returns the function that passes it on.
func (m *kafkaTerm) take(ctx context.Context) (pass func(), err error) {
	select {
	case <-m.turn:
		return func() { m.turn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ended(ctx, nil)
	}
}

// superseded reports whether the epoch is known to be superseded.
func (m *kafkaTerm) superseded() bool {
	select {
	case <-m.over:
		return true
	default:
		return false
	}
}

// wrote says that a transaction is committed, or that none will be.
func (m *kafkaTerm) wrote() { m.writes.Do(func() { close(m.written) }) }

// kafkaTerms are the epochs that a transport minted.
type kafkaTerms struct {
	mu      sync.Mutex // guards the fields below
	minting map[Role]*mintTurn
	newest  map[Role]*kafkaTerm
	terms   map[int64][]*kafkaTerm // that are not released, by every producer id

	// spent are the tokens of released terms that were superseded, oldest
	// first. A bounded number is remembered.
	spent []termTokens
}

const rememberedTerms = 1024

func newKafkaTerms() *kafkaTerms {
	return &kafkaTerms{minting: make(map[Role]*mintTurn), newest: make(map[Role]*kafkaTerm), terms: make(map[int64][]*kafkaTerm)}
}

// lastEpoch is the highest epoch that coordinators hand out. The next one is
// epoch 0 of another producer id.
const lastEpoch = math.MaxInt16 - 1

// mintTurn is the right to mint an epoch of a role, for one at a time. The
// answers of two mints at once could not be put in order.
type mintTurn struct {
	taken chan struct{}
	users int
}

// mint waits until no other mint of the role is under way, and reports whether
// one was.
func (r *kafkaTerms) mint(ctx context.Context, role Role) (pass func(), waited bool, err error) {
	r.mu.Lock()
	turn := r.minting[role]
	if turn == nil {
		turn = &mintTurn{taken: make(chan struct{}, 1)}
		r.minting[role] = turn
	}
	turn.users++
	waited = turn.users > 1
	r.mu.Unlock()
	leave := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if turn.users--; turn.users == 0 {
			delete(r.minting, role)
		}
	}
	select {
	case turn.taken <- struct{}{}:
		return func() {
			<-turn.taken
			leave()
		}, waited, nil
	case <-ctx.Done():
		leave()
		return nil, waited, ended(ctx, nil)
	}
}

// writtenPatience bounds the wait for the first write of a term.
const writtenPatience = time.Second

// settle waits for the first write of the newest term of a role, a moment at
// most. Whoever minted it is about to write a lease, and before that nobody can
// see that it leads.
func (r *kafkaTerms) settle(ctx context.Context, role Role) {
	r.mu.Lock()
	term := r.newest[role]
	r.mu.Unlock()
	if term == nil {
		return
	}
	patience := time.NewTimer(writtenPatience)
	defer patience.Stop()
	select {
	case <-term.written:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// install makes a term of a minted token. The term before it is superseded.
// With tracking it is known that the brokers advance the epoch.
func (r *kafkaTerms) install(role Role, token FencingToken, moves, tracking bool) *kafkaTerm {
	term := &kafkaTerm{
		role:      role,
		minted:    token,
		moves:     moves,
		ids:       []int64{token.producerID},
		over:      make(chan struct{}),
		written:   make(chan struct{}),
		turn:      make(chan struct{}, 1),
		tracking:  tracking,
		decided:   tracking,
		sequences: make(map[TopicPartition]int32),
		unsettled: make(map[TopicPartition]*kafkaBatch),
	}
	term.current.Store(&token)
	term.turn <- struct{}{}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.newest[role]; before != nil {
		before.supersede()
	}
	r.newest[role] = term
	r.terms[token.producerID] = append(r.terms[token.producerID], term)
	return term
}

// adopt moves a term on to the pair that the coordinator gave it.
func (r *kafkaTerms) adopt(term *kafkaTerm, pair FencingToken) {
	r.mu.Lock()
	defer r.mu.Unlock()
	term.current.Store(&pair)
	if slices.Contains(term.ids, pair.producerID) {
		return
	}
	term.ids = append(term.ids, pair.producerID)
	if !term.released {
		r.terms[pair.producerID] = append(r.terms[pair.producerID], term)
	}
}

// end says that the epoch of a term is superseded.
func (r *kafkaTerms) end(term *kafkaTerm) {
	r.mu.Lock()
	defer r.mu.Unlock()
	term.supersede()
}

// supersede runs with the lock of the terms.
func (m *kafkaTerm) supersede() {
	if !m.superseded() {
		close(m.over)
	}
	m.wrote()
}

// release says that nobody writes under a minted token any more. It reports
// whether the transport leads the role no more.
func (r *kafkaTerms) release(role Role, minted FencingToken) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.terms[minted.producerID], func(m *kafkaTerm) bool { return m.role == role && m.minted == minted })
	if at < 0 {
		return false
	}
	term := r.terms[minted.producerID][at]
	term.released = true
	term.wrote()
	for _, producerID := range term.ids {
		others := slices.DeleteFunc(r.terms[producerID], func(m *kafkaTerm) bool { return m == term })
		if r.terms[producerID] = others; len(others) == 0 {
			delete(r.terms, producerID)
		}
	}
	if term.superseded() {
		r.spent = append(r.spent[max(0, len(r.spent)-rememberedTerms+1):], term.tokens())
	}
	last := r.newest[role] == term
	if last {
		delete(r.newest, role)
	}
	return last
}

// find returns the term of a token: the minted one or any that followed it.
func (r *kafkaTerms) find(token FencingToken) (*kafkaTerm, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, term := range slices.Backward(r.terms[token.producerID]) {
		if term.tokens().cover(token) {
			if term.superseded() {
				return nil, errSuperseded(token)
			}
			return term, nil
		}
	}
	if slices.ContainsFunc(r.spent, func(s termTokens) bool { return s.cover(token) }) {
		return nil, errSuperseded(token)
	}
	return nil, fmt.Errorf("%w: token %s belongs to a leadership that is over or to another transport", ErrNotHeld, token)
}

// termTokens are the tokens that a term had, from the minted one on.
type termTokens struct {
	minted, current FencingToken
	ids             []int64
}

// tokens runs with the lock of the terms.
func (m *kafkaTerm) tokens() termTokens { return termTokens{m.minted, m.pair(), m.ids} }

// cover reports whether the token is one of the term.
func (t termTokens) cover(token FencingToken) bool {
	first, last := int16(0), int16(lastEpoch)
	if token.producerID == t.minted.producerID {
		first = t.minted.producerEpoch
	}
	if token.producerID == t.current.producerID {
		last = t.current.producerEpoch
	}
	return slices.Contains(t.ids, token.producerID) && token.producerEpoch >= first && token.producerEpoch <= last
}

// term returns the term of a role that started with a token.
func (t *KafkaTransport) term(role Role, minted FencingToken) (*kafkaTerm, bool) {
	if !t.built() {
		return nil, false
	}
	term, err := t.terms.find(minted)
	return term, err == nil && term.role == role
}

// CurrentToken implements [TermTransport].
func (t *KafkaTransport) CurrentToken(role Role, minted FencingToken) (FencingToken, bool) {
	term, known := t.term(role, minted)
	if !known {
		return NoEpoch, false
	}
	return term.pair(), true
}

// Superseded implements [TermTransport]: the channel closes when another member
// mints over this transport, or when a broker rejects the token.
func (t *KafkaTransport) Superseded(role Role, minted FencingToken) <-chan struct{} {
	term, known := t.term(role, minted)
	if !known {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return term.over
}

// Release implements [TermTransport]. A later write under a token of the
// leadership is an error that matches [ErrNotHeld], or [ErrFenced] where the token
// was superseded and is one of the last thousand.
func (t *KafkaTransport) Release(role Role, minted FencingToken) {
	if t.built() && t.terms.release(role, minted) {
		t.forgetCoordinator(role)
	}
}

func errSuperseded(token FencingToken) error {
	return fmt.Errorf("%w: token %s was superseded", ErrFenced, token)
}

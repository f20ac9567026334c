// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// metadataAge is how old topic ids may be.
const metadataAge = time.Minute

// joinSettles bounds the wait for the client to take in the answer to a join.
const joinSettles = time.Second

// endPatience is how long the client may take to commit before it is asked no
// more and the broker tells what happened.
const endPatience = 10 * time.Second

// markerPause is the wait between attempts to add offsets while the markers of
// the transaction before are being written.
const markerPause = 2 * time.Millisecond

// errRebalanced is the cause of a transaction that a rebalance ended.
var errRebalanced = errors.New("the group rebalanced during the transaction")

// transaction is the state of a member's transaction.
type transaction struct {
	implicit bool        // brokers add offsets to a transaction without a request of their own
	sent     atomic.Bool // a record was sent
	ready    atomic.Bool // further records need no look at the fields below
	opening  sync.Mutex  // held while the client's session begins

	producerID    int64 // of the transaction; set while opening is held
	producerEpoch int16

	mu       sync.Mutex // guards the fields below
	begun    bool       // BeginTransaction was called
	active   bool       // the client's session has begun
	doomed   error      // why it can only abort
	fenced   error      // terminal
	doubt    error      // a commit whose outcome is not known keeps what follows
	unended  bool       // an abort did not get through
	offsets  map[columnar.TopicPartition]int64
	notes    map[columnar.TopicPartition]string // beside offsets
	metadata groupMetadata
	mark     string // tells the offsets of this transaction from all others

	closeOnce sync.Once
	closeErr  error
}

// terminal returns why nothing goes on.
func (x *transaction) terminal() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fenced != nil {
		return x.fenced
	}
	return x.doubt
}

// isFenced returns the error of a newer owner, if there is one.
func (x *transaction) isFenced() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.fenced
}

func (x *transaction) begin() error {
	if err := x.terminal(); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.begun {
		return fmt.Errorf("kafka: begin transaction: one is open already")
	}
	x.begun = true
	return nil
}

// note remembers err if it is terminal, and returns it.
func (x *transaction) note(err error) error {
	if fenced := (*columnar.FencedError)(nil); errors.As(err, &fenced) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.fenced == nil {
			x.fenced = fenced
			x.ready.Store(false)
		}
	}
	return err
}

// doom keeps the transaction from committing.
func (x *transaction) doom(err error) {
	_ = x.note(err)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.doomed == nil {
		x.doomed = err
	}
}

// failure returns why the transaction cannot commit.
func (x *transaction) failure() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fenced != nil {
		return x.fenced
	}
	return x.doomed
}

// end makes the member ready for the next transaction.
func (x *transaction) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.begun, x.active, x.doomed, x.offsets, x.notes = false, false, nil, nil, nil
	x.sent.Store(false)
	x.ready.Store(false)
}

// noteSent remembers that the open transaction has a record.
func (x *transaction) noteSent() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent.Store(true)
	x.ready.Store(x.active && x.fenced == nil && x.doubt == nil)
}

func (x *transaction) state() (begun, active bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.begun, x.active
}

// isUnended reports whether an abort has yet to be repeated.
func (x *transaction) isUnended() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.unended
}

func (x *transaction) leaveUnended() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unended = true
}

// initialise gets the producer id, which fences whoever used the transactional
// id before and ends that one's open transaction.
func (t *TransactionalMember) initialise(ctx context.Context) error {
	if _, _, err := t.client.ProducerID(ctx); err != nil {
		return t.txn.note(t.typed(fmt.Sprintf("initialise transactional id %q", t.transactionalID), err))
	}
	t.txn.implicit = t.addsOffsetsImplicitly(ctx)
	return nil
}

// addsOffsetsImplicitly reports whether the second version of the transaction
// protocol is in force.
func (t *TransactionalMember) addsOffsetsImplicitly(ctx context.Context) bool {
	if limit, ok := t.client.OptValue(kgo.MaxVersions).(*kversion.Versions); ok && limit != nil {
		for key, least := range map[kmsg.Key]int16{kmsg.Produce: 12, kmsg.EndTxn: 5, kmsg.TxnOffsetCommit: 5} {
			if highest, ok := limit.LookupMaxKeyVersion(key.Int16()); !ok || highest < least {
				return false
			}
		}
	}
	for _, broker := range t.client.DiscoveredBrokers() {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "krabka-streams-go", "1" // brokers refuse empty ones
		resp, err := req.RequestWith(ctx, broker)
		if err != nil || resp.ErrorCode != 0 {
			continue
		}
		for _, feature := range resp.FinalizedFeatures {
			if feature.Name == "transaction.version" {
				return feature.MaxVersionLevel >= 2
			}
		}
	}
	return false
}

// open begins the client's transaction if that has not happened yet.
func (t *TransactionalMember) open(ctx context.Context) error {
	if err := t.txn.terminal(); err != nil {
		return err
	}
	begun, active := t.txn.state()
	if !begun {
		return fmt.Errorf("kafka: no transaction of %q is open", t.transactionalID)
	}
	if active {
		return nil
	}
	t.txn.opening.Lock()
	defer t.txn.opening.Unlock()
	if _, active = t.txn.state(); active {
		return nil
	}
	if t.txn.isUnended() {
		if err := t.heal(ctx); err != nil {
			return err
		}
		t.resume()
	}
	t.settleSession()
	err := t.session.Begin()
	if err == nil {
		t.txn.producerID, t.txn.producerEpoch, err = t.client.ProducerID(ctx)
	}
	if err != nil {
		return t.txn.note(t.typed(fmt.Sprintf("begin transaction of %q", t.transactionalID), err))
	}
	t.txn.mu.Lock()
	defer t.txn.mu.Unlock()
	t.txn.active = true
	return nil
}

// stash keeps offsets and notes for the commit.
func (t *TransactionalMember) stash(offsets map[columnar.TopicPartition]int64, notes map[columnar.TopicPartition]string, metadata any) error {
	member, ok := metadata.(groupMetadata)
	if !ok {
		return fmt.Errorf("kafka: send offsets: group metadata is a %T, not what this member returns", metadata)
	}
	if current, _ := t.client.GroupMetadata(); current != member.memberID {
		return &columnar.RebalancedError{Group: t.group, Cause: fmt.Errorf("member %q polled, member %q sends offsets", member.memberID, current)}
	}
	if _, err := t.movedOffsets(offsets); err != nil {
		return err
	}
	t.txn.mu.Lock()
	defer t.txn.mu.Unlock()
	t.txn.metadata = member
	t.txn.mark = rand.Text()
	if t.txn.offsets == nil {
		t.txn.offsets = make(map[columnar.TopicPartition]int64, len(offsets))
		t.txn.notes = make(map[columnar.TopicPartition]string, len(notes))
	}
	maps.Copy(t.txn.offsets, offsets)
	maps.Copy(t.txn.notes, notes)
	return nil
}

// inscription is what is committed beside an offset: the mark, and behind a space
// the note if there is one.
func (x *transaction) inscription(tp columnar.TopicPartition) string {
	if note, ok := x.notes[tp]; ok {
		return x.mark + " " + note
	}
	return x.mark
}

// commit ends the transaction and finds out how it ended.
func (t *TransactionalMember) commit(ctx context.Context) error {
	begun, active := t.txn.state()
	if !begun {
		if err := t.txn.terminal(); err != nil {
			return err
		}
		return fmt.Errorf("kafka: commit transaction: none of %q is open", t.transactionalID)
	}
	defer t.txn.end()
	if !active {
		return t.txn.terminal()
	}
	if err := t.client.Flush(ctx); err != nil {
		// The client has not been asked to commit, so nothing can be visible;
		// the abort needs time that ctx does not have.
		late, cancel := t.bounded()
		defer cancel()
		return t.abortFor(late, fmt.Errorf("records not acknowledged: %w", err))
	}
	if err := t.txn.failure(); err != nil {
		return t.abortFor(ctx, err)
	}
	if err := t.awaitJoin(ctx); err != nil {
		return t.abortFor(ctx, err)
	}
	if err := t.addOffsets(ctx); err != nil {
		return t.abortFor(ctx, err)
	}
	if err := t.beat(ctx); err != nil {
		return t.abortFor(ctx, err)
	}
	committed, err := t.end(ctx)
	if err == nil && committed {
		t.noteCommitted(t.txn.offsets)
		return nil
	}
	if err == nil {
		return t.decide(ctx, errRebalanced, true)
	}
	var rebalanced *columnar.RebalancedError
	if errors.As(err, &rebalanced) {
		return t.decide(ctx, rebalanced, true)
	}
	if err := t.typed(fmt.Sprintf("commit transaction of %q", t.transactionalID), err); errors.As(err, new(*columnar.FencedError)) {
		return t.txn.note(err)
	}
	return t.settle(ctx, err)
}

// end asks the client to commit. Within that the client waits for a heartbeat,
// which never comes if the group has forgotten the member: the client wants to
// tell the listener first, and that waits for the next Poll. So the wait is
// bounded, and what became of the commit found out.
func (t *TransactionalMember) end(ctx context.Context) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	return t.session.End(kgo.PreTxnCommitFnContext(ctx, t.fill), kgo.TryCommit)
}

// beat asks the group after a long round whether the member still belongs to
// it. A process that was stopped learns here that its session has ended.
func (t *TransactionalMember) beat(ctx context.Context) error {
	session, _ := t.client.OptValue(kgo.SessionTimeout).(time.Duration)
	if len(t.txn.offsets) == 0 || time.Since(t.txn.metadata.polled) < session/2 {
		return nil
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = t.group
	req.MemberID, req.Generation = t.client.GroupMetadata()
	if t.instanceID != "" {
		req.InstanceID = &t.instanceID
	}
	resp, err := req.RequestWith(ctx, t.client)
	if err != nil {
		return t.typed("heartbeat", err)
	}
	// During a rebalance the member keeps its partitions until its next Poll.
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil && !errors.Is(err, kerr.RebalanceInProgress) {
		return t.typed("heartbeat", err)
	}
	return nil
}

// awaitJoin waits for a join on its way, so that the offsets go out under the
// generation that it brings: the member keeps its partitions until the next
// Poll. It gives up before brokers end the transaction by its timeout.
func (t *TransactionalMember) awaitJoin(ctx context.Context) error {
	if len(t.txn.offsets) == 0 {
		return nil
	}
	timeout, _ := t.client.OptValue(kgo.TransactionTimeout).(time.Duration)
	ctx, cancel := context.WithTimeout(ctx, timeout/2)
	defer cancel()
	if !t.joins.wait(ctx) {
		return &columnar.RebalancedError{Group: t.group, Cause: errors.New("a rebalance goes on for too long")}
	}
	if t.joins.count() == t.txn.metadata.joins {
		return nil
	}
	// The client learns of the generation a moment after the answer; of none
	// if the answer is an error, which the commit then meets too.
	ctx, cancel = context.WithTimeout(ctx, joinSettles)
	defer cancel()
	for {
		if _, generation := t.client.GroupMetadata(); generation != t.txn.metadata.generation || !sleep(ctx, time.Millisecond) {
			return nil
		}
	}
}

// fill makes the client commit the offsets of SendOffsets, and no others. It
// runs inside the client's commit and may only change the request.
func (t *TransactionalMember) fill(req *kmsg.TxnOffsetCommitRequest) error {
	offsets := t.txn.offsets
	if len(offsets) > 0 && req.MemberID != t.txn.metadata.memberID {
		return &columnar.RebalancedError{Group: t.group, Cause: fmt.Errorf("member %q polled, member %q commits", t.txn.metadata.memberID, req.MemberID)}
	}
	ids := map[string][16]byte{}
	for _, topic := range req.Topics {
		ids[topic.Topic] = topic.TopicID
	}
	req.Topics = t.offsetTopics(ids)
	return nil
}

// offsetTopics returns the offsets of the transaction in the form of a request.
func (t *TransactionalMember) offsetTopics(ids map[string][16]byte) []kmsg.TxnOffsetCommitRequestTopic {
	offsets := t.txn.offsets
	var topics []kmsg.TxnOffsetCommitRequestTopic
	for _, tp := range slices.SortedFunc(maps.Keys(offsets), comparePartitions) {
		if n := len(topics); n == 0 || topics[n-1].Topic != tp.Topic {
			topic := kmsg.NewTxnOffsetCommitRequestTopic()
			topic.Topic = tp.Topic
			topic.TopicID = ids[tp.Topic]
			topics = append(topics, topic)
		}
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition = int32(tp.Partition)
		p.Offset = offsets[tp]
		p.Metadata = kmsg.StringPtr(t.txn.inscription(tp))
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	return topics
}

// addOffsets adds offsets to a transaction that has no records. Brokers refuse
// them while the markers of the transaction before are being written, and the
// client gives the transaction up then; asked first and patiently, they accept,
// and the client's own request only repeats it. Where records were sent, the
// client has waited for the markers already.
func (t *TransactionalMember) addOffsets(ctx context.Context) error {
	if !t.txn.implicit || t.txn.sent.Load() || len(t.txn.offsets) == 0 {
		return nil
	}
	ids, err := t.topicIDs(ctx)
	if err != nil {
		return err
	}
	id, epoch, err := t.client.ProducerID(ctx)
	if err != nil {
		return nil // the client's own commit meets the same error and sorts it
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID = t.transactionalID
	req.Group = t.group
	req.ProducerID = id
	req.ProducerEpoch = epoch
	req.MemberID, req.Generation = t.client.GroupMetadata()
	if t.instanceID != "" {
		req.InstanceID = &t.instanceID
	}
	req.Topics = t.offsetTopics(ids)
	for {
		resp, err := req.RequestWith(ctx, t.client)
		if err != nil || !concurrentTransactions(resp) {
			return nil
		}
		if !sleep(ctx, markerPause) {
			return fmt.Errorf("add offsets to the transaction: %w", kerr.ConcurrentTransactions)
		}
	}
}

func concurrentTransactions(resp *kmsg.TxnOffsetCommitResponse) bool {
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode == kerr.ConcurrentTransactions.Code {
				return true
			}
		}
	}
	return false
}

// topicIDs returns the ids of the topics with offsets.
func (t *TransactionalMember) topicIDs(ctx context.Context) (map[string][16]byte, error) {
	req := kmsg.NewPtrMetadataRequest()
	names := map[string]bool{}
	for tp := range t.txn.offsets {
		if !names[tp.Topic] {
			names[tp.Topic] = true
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = kmsg.StringPtr(tp.Topic)
			req.Topics = append(req.Topics, topic)
		}
	}
	resp, err := t.client.RequestCachedMetadata(ctx, req, metadataAge)
	if err != nil {
		return nil, t.typed("metadata", err)
	}
	ids := map[string][16]byte{}
	for _, topic := range resp.Topics {
		if topic.Topic != nil {
			ids[*topic.Topic] = topic.TopicID
		}
	}
	return ids, nil
}

// abort ends the transaction without effect.
func (t *TransactionalMember) abort(ctx context.Context) error {
	begun, active := t.txn.state()
	if !begun {
		if t.txn.isFenced() == nil && t.txn.terminal() != nil {
			err := t.heal(ctx)
			t.rewind()
			return err
		}
		return nil
	}
	defer t.txn.end()
	if !active {
		t.rewind()
		return t.txn.terminal()
	}
	err := t.abortFor(ctx, nil)
	if aborted := (*columnar.TransactionAbortedError)(nil); errors.As(err, &aborted) {
		return aborted.Cause
	}
	return err
}

// abortFor aborts, takes positions back and returns an error that says so.
func (t *TransactionalMember) abortFor(ctx context.Context, cause error) error {
	if err := t.txn.terminal(); err != nil {
		// A fenced client must not speak for the transactional id again: under
		// the first version of the protocol it would take it back.
		_ = t.client.AbortBufferedRecords(ctx)
		return err
	}
	_, err := t.session.End(ctx, kgo.TryAbort)
	t.rewind()
	if err != nil {
		err = t.txn.note(t.typed(fmt.Sprintf("abort transaction of %q", t.transactionalID), err))
		if errors.As(err, new(*columnar.FencedError)) {
			return err
		}
		t.txn.leaveUnended()
	}
	return &columnar.TransactionAbortedError{TransactionalID: t.transactionalID, Cause: errors.Join(cause, err)}
}

// settleSession makes the client's session forget a rebalance. The session
// aborts the transaction after a rebalance, and until it has ended one it keeps
// further rebalances from the listener. A transaction that is open is aborted;
// otherwise nothing is sent. Ending takes positions back to the committed
// offsets, also of records that were delivered and wait to be processed, so
// they are set again.
func (t *TransactionalMember) settleSession() {
	if !t.disturbed.Swap(false) || t.txn.terminal() != nil {
		return
	}
	ctx, cancel := t.bounded()
	defer cancel()
	if _, active := t.txn.state(); active {
		t.txn.doom(&columnar.RebalancedError{Group: t.group, Cause: errRebalanced})
	}
	if _, err := t.session.End(ctx, kgo.TryAbort); err != nil {
		_ = t.txn.note(t.typed("abort transaction", err))
		t.txn.leaveUnended()
	}
	t.resume()
}

// closeTransaction aborts what is open when the member closes.
func (t *TransactionalMember) closeTransaction(ctx context.Context) error {
	if _, active := t.txn.state(); !active || t.txn.terminal() != nil {
		return nil
	}
	return t.abort(ctx)
}

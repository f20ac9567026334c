// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

var errKilled = errors.New("the process is gone")

// fakeCluster is a Kafka cluster in memory: partition logs with control records
// and aborted data, one consumer group with generations, committed offsets, and
// transactions that readers see only when they are committed.
type fakeCluster struct {
	mu           sync.Mutex
	rand         *rand.Rand
	logs         map[TopicPartition]*fakeLog
	committed    map[TopicPartition]int64
	notes        map[TopicPartition]string
	rewinds      int // commits below what was committed
	generation   int
	members      []*fakeMember // in the order in which they joined
	owner        map[TopicPartition]*fakeMember
	epochs       map[string]int // of transactional ids
	transactions map[string]*fakeTransaction
}

type fakeLog struct {
	start   int64
	entries []fakeEntry // by offset
}

type fakeEntry struct {
	record      ConsumedRecord
	control     bool
	transaction *fakeTransaction // nil outside transactions
}

type fakeTransaction struct {
	ended     bool
	committed bool
	touched   map[TopicPartition]bool
	offsets   map[TopicPartition]int64
	notes     map[TopicPartition]string
}

func newFakeCluster(seed uint64, partitions map[string]int) *fakeCluster {
	c := &fakeCluster{
		rand: rand.New(rand.NewPCG(seed, 2)), logs: map[TopicPartition]*fakeLog{}, committed: map[TopicPartition]int64{}, notes: map[TopicPartition]string{},
		owner: map[TopicPartition]*fakeMember{}, epochs: map[string]int{}, transactions: map[string]*fakeTransaction{},
	}
	for topic, count := range partitions {
		for partition := range count {
			c.logs[TopicPartition{topic, partition}] = &fakeLog{}
		}
	}
	return c
}

// append adds entries to a log. mu is held.
func (c *fakeCluster) append(tp TopicPartition, entry fakeEntry) int64 {
	log := c.logs[tp]
	entry.record.Partition, entry.record.Offset = tp.Partition, int64(len(log.entries))
	log.entries = append(log.entries, entry)
	return entry.record.Offset
}

// produce appends records outside transactions, and now and then what a reader
// must not see: a control record, or a record of an aborted transaction.
func (c *fakeCluster) produce(tp TopicPartition, values ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, value := range values {
		switch c.rand.IntN(8) {
		case 0:
			c.append(tp, fakeEntry{control: true})
		case 1:
			c.append(tp, fakeEntry{record: ConsumedRecord{Value: []byte("aborted 1000000")}, transaction: &fakeTransaction{ended: true}})
		}
		c.append(tp, fakeEntry{record: ConsumedRecord{Key: []byte("k"), Value: []byte(value), Timestamp: int64(i)}})
	}
}

// cut writes a marker into every partition of topics and publishes the manifest.
func (c *fakeCluster) cut(group string, epoch int64, topics ...string) map[TopicPartition]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	offsets := map[TopicPartition]int64{}
	for _, tp := range slices.SortedFunc(maps.Keys(c.logs), compareTopicPartitions) {
		if slices.Contains(topics, tp.Topic) {
			offsets[tp] = c.append(tp, fakeEntry{control: true})
		}
	}
	key, value, err := EncodeBarrierCut(BarrierCut{Group: group, Epoch: epoch, Offsets: offsets})
	if err != nil {
		panic(err)
	}
	c.append(barrierTP(0), fakeEntry{record: ConsumedRecord{Key: key, Value: value}})
	return offsets
}

// stable is the first offset that a reader may not read yet. mu is held.
func (l *fakeLog) stable() int64 {
	for offset, entry := range l.entries {
		if entry.transaction != nil && !entry.transaction.ended {
			return int64(offset)
		}
	}
	return int64(len(l.entries))
}

func (e fakeEntry) visible() bool {
	return !e.control && (e.transaction == nil || e.transaction.committed)
}

// values returns what a reader of committed data sees in a topic's partitions,
// one after the other.
func (c *fakeCluster) values(topic string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var values []string
	for _, tp := range slices.SortedFunc(maps.Keys(c.logs), compareTopicPartitions) {
		if tp.Topic != topic {
			continue
		}
		log := c.logs[tp]
		for _, entry := range log.entries[:log.stable()] {
			if entry.visible() {
				values = append(values, string(entry.record.Value))
			}
		}
	}
	return values
}

// drained reports whether the group has committed every record of topics.
func (c *fakeCluster) drained(topics ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tp, log := range c.logs {
		if !slices.Contains(topics, tp.Topic) {
			continue
		}
		for offset := max(c.committed[tp], log.start); offset < int64(len(log.entries)); offset++ {
			if log.entries[offset].visible() {
				return false
			}
		}
	}
	return true
}

// trim deletes the records of a partition below offset.
func (c *fakeCluster) trim(tp TopicPartition, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs[tp].start = offset
}

// expire removes a member that has not left: it does not know.
func (c *fakeCluster) expire(m *fakeMember) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = slices.DeleteFunc(c.members, func(other *fakeMember) bool { return other == m })
	maps.DeleteFunc(c.owner, func(_ TopicPartition, owner *fakeMember) bool { return owner == m })
	c.generation++
}

// target is who should own a partition. Partitions of the same number of all
// topics go to one member. mu is held.
func (c *fakeCluster) target(tp TopicPartition) *fakeMember {
	if len(c.members) == 0 {
		return nil
	}
	return c.members[tp.Partition%len(c.members)]
}

// fakeMember is a group member with a producer in a process of its own. It is
// every optional seam.
type fakeMember struct {
	cluster  *fakeCluster
	id       string
	epoch    int
	step     func(op string) error // ahead of each call
	after    func(op string) error // behind its effect, before its answer
	maxPoll  int
	topics   []string
	listener RebalanceListener

	generation  int
	assigned    bool // by Assign, outside the group
	positions   map[TopicPartition]int64
	paused      map[TopicPartition]bool
	resumed     map[TopicPartition]int // polls that a resumed partition misses
	transaction *fakeTransaction
}

func (c *fakeCluster) member(id string) *fakeMember {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epochs[id]++
	if open := c.transactions[id]; open != nil {
		c.end(open, false)
		delete(c.transactions, id)
	}
	free := func(string) error { return nil }
	return &fakeMember{
		cluster: c, id: id, epoch: c.epochs[id], step: free, after: free, maxPoll: 20,
		positions: map[TopicPartition]int64{}, paused: map[TopicPartition]bool{}, resumed: map[TopicPartition]int{},
	}
}

// end ends a transaction. mu is held.
func (c *fakeCluster) end(t *fakeTransaction, commit bool) {
	t.ended, t.committed = true, commit
	for tp := range t.touched {
		c.append(tp, fakeEntry{control: true})
	}
	if commit {
		c.commit(t.offsets, t.notes)
	}
}

// commit is the group's commit. mu is held.
func (c *fakeCluster) commit(offsets map[TopicPartition]int64, notes map[TopicPartition]string) {
	for tp, offset := range offsets {
		if offset < c.committed[tp] {
			c.rewinds++
		}
		c.committed[tp], c.notes[tp] = offset, notes[tp]
	}
}

func (m *fakeMember) Subscribe(topics []string, listener RebalanceListener) error {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	m.topics, m.listener = topics, listener
	m.cluster.members = append(m.cluster.members, m)
	m.cluster.generation++
	return nil
}

func (m *fakeMember) Assign(partitions []TopicPartition) error {
	m.assigned = true
	m.positions = map[TopicPartition]int64{}
	for _, tp := range partitions {
		m.positions[tp] = 0
	}
	return nil
}

func (m *fakeMember) Seek(tp TopicPartition, offset int64) error {
	if err := m.step("seek"); err != nil {
		return err
	}
	if _, ok := m.positions[tp]; !ok {
		return fmt.Errorf("%v is not assigned", tp)
	}
	m.positions[tp] = offset
	return nil
}

// Poll runs the callbacks of a rebalance and returns some of the records. Like that of
// a real client, a pause outlives the assignment in which it began.
func (m *fakeMember) Poll(ctx context.Context, _ time.Duration) (map[TopicPartition][]ConsumedRecord, error) {
	if err := m.step("poll"); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !m.assigned {
		m.rebalance()
	}
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	fetched := map[TopicPartition][]ConsumedRecord{}
	partitions := slices.SortedFunc(maps.Keys(m.positions), compareTopicPartitions)
	c.rand.Shuffle(len(partitions), func(i, j int) { partitions[i], partitions[j] = partitions[j], partitions[i] })
	for i, tp := range partitions {
		if m.resumed[tp] > 0 {
			m.resumed[tp]--
			continue
		}
		if m.paused[tp] || (i > 0 && !m.assigned && c.rand.IntN(3) == 0) {
			continue
		}
		log := c.logs[tp]
		if m.positions[tp] < log.start {
			return nil, &OffsetOutOfRangeError{Partition: tp, Offset: m.positions[tp], Start: log.start, End: int64(len(log.entries)), Cause: errors.New("trimmed")}
		}
		for limit := 1 + c.rand.IntN(m.maxPoll); m.positions[tp] < log.stable() && limit > 0; m.positions[tp]++ {
			if entry := log.entries[m.positions[tp]]; entry.visible() {
				fetched[tp] = append(fetched[tp], entry.record)
				limit--
			}
		}
	}
	return fetched, nil
}

func (m *fakeMember) rebalance() {
	c := m.cluster
	c.mu.Lock()
	inGroup := slices.Contains(c.members, m)
	var lost, revoked, assigned []TopicPartition
	for _, tp := range slices.SortedFunc(maps.Keys(c.logs), compareTopicPartitions) {
		_, held := m.positions[tp]
		switch {
		case !slices.Contains(m.topics, tp.Topic):
		case held && (!inGroup || c.owner[tp] != m):
			lost = append(lost, tp)
		case held && c.target(tp) != m:
			revoked = append(revoked, tp)
		}
	}
	c.mu.Unlock()
	if len(lost) > 0 {
		for _, tp := range lost {
			delete(m.positions, tp)
		}
		m.listener.OnPartitionsLost(lost)
	}
	if len(revoked) > 0 {
		m.listener.OnPartitionsRevoked(revoked)
	}
	c.mu.Lock()
	for _, tp := range revoked {
		delete(m.positions, tp)
		delete(c.owner, tp)
	}
	if !inGroup {
		c.members = append(c.members, m)
		c.generation++
	}
	for _, tp := range slices.SortedFunc(maps.Keys(c.logs), compareTopicPartitions) {
		if slices.Contains(m.topics, tp.Topic) && c.target(tp) == m && c.owner[tp] == nil {
			c.owner[tp] = m
			committed, ok := c.committed[tp]
			if !ok {
				committed = c.logs[tp].start
			}
			m.positions[tp] = committed
			assigned = append(assigned, tp)
		}
	}
	m.generation = c.generation
	c.mu.Unlock()
	if len(assigned) > 0 {
		m.listener.OnPartitionsAssigned(assigned)
	}
}

// allowed fails unless the member may commit offsets. mu is held.
func (m *fakeMember) allowed(offsets map[TopicPartition]int64, generation int) error {
	if generation != m.cluster.generation {
		return &RebalancedError{Group: "group", Cause: fmt.Errorf("generation %d, not %d", m.cluster.generation, generation)}
	}
	for tp := range offsets {
		if m.cluster.owner[tp] != m {
			return &RebalancedError{Group: "group", Cause: fmt.Errorf("%v belongs to another member", tp)}
		}
	}
	return nil
}

func (m *fakeMember) CommitOffsets(_ context.Context, offsets map[TopicPartition]int64) error {
	if err := m.step("commit offsets"); err != nil {
		return err
	}
	m.cluster.mu.Lock()
	err := m.allowed(offsets, m.generation)
	if err == nil {
		m.cluster.commit(offsets, nil)
	}
	m.cluster.mu.Unlock()
	return firstError(err, m.after("commit offsets"))
}

func (m *fakeMember) GroupMetadata() any { return m.generation }

func (m *fakeMember) Positions(_ context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error) {
	positions := map[TopicPartition]int64{}
	for _, tp := range partitions {
		if position, ok := m.positions[tp]; ok {
			positions[tp] = position
		}
	}
	return positions, m.step("positions")
}

func (m *fakeMember) Committed(_ context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error) {
	if err := m.step("committed"); err != nil {
		return nil, err
	}
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	committed := map[TopicPartition]int64{}
	for _, tp := range partitions {
		if offset, ok := m.cluster.committed[tp]; ok {
			committed[tp] = offset
		}
	}
	return committed, nil
}

func (m *fakeMember) StartOffsets(_ context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error) {
	return m.offsets(partitions, func(log *fakeLog) int64 { return log.start })
}

func (m *fakeMember) EndOffsets(_ context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error) {
	return m.offsets(partitions, (*fakeLog).stable)
}

func (m *fakeMember) offsets(partitions []TopicPartition, of func(*fakeLog) int64) (map[TopicPartition]int64, error) {
	if err := m.step("offsets"); err != nil {
		return nil, err
	}
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	offsets := map[TopicPartition]int64{}
	for _, tp := range partitions {
		offsets[tp] = of(m.cluster.logs[tp])
	}
	return offsets, nil
}

func (m *fakeMember) PartitionCounts(_ context.Context, topics []string) (map[string]int, error) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	counts := map[string]int{}
	for tp := range m.cluster.logs {
		if slices.Contains(topics, tp.Topic) {
			counts[tp.Topic]++
		}
	}
	return counts, nil
}

func (m *fakeMember) Pause(partitions []TopicPartition) {
	for _, tp := range partitions {
		m.paused[tp] = true
	}
}

// Resume takes effect with the fetch behind the one that waits at the broker.
func (m *fakeMember) Resume(partitions []TopicPartition) {
	for _, tp := range partitions {
		if m.paused[tp] {
			m.resumed[tp] = 3
		}
		delete(m.paused, tp)
	}
}

func (m *fakeMember) Send(topic string, record ProduceRecord, done func(error)) {
	err := m.step("send")
	if err == nil && m.transaction != nil {
		err = m.fenced()
	}
	if err == nil {
		m.cluster.mu.Lock()
		tp := TopicPartition{topic, 0}
		if m.transaction != nil {
			m.transaction.touched[tp] = true
		}
		m.cluster.append(tp, fakeEntry{transaction: m.transaction, record: ConsumedRecord{Key: record.Key, Value: record.Value, Timestamp: record.Timestamp, Headers: record.Headers}})
		m.cluster.mu.Unlock()
		err = m.after("send")
	}
	done(err)
}

func (m *fakeMember) fenced() error {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if m.epoch != m.cluster.epochs[m.id] {
		return &FencedError{ID: m.id, Cause: fmt.Errorf("epoch %d, not %d", m.cluster.epochs[m.id], m.epoch)}
	}
	return nil
}

func (m *fakeMember) BeginTransaction() error {
	if err := firstError(m.step("begin"), m.fenced()); err != nil {
		return err
	}
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if m.transaction != nil {
		m.cluster.end(m.transaction, false)
	}
	m.transaction = &fakeTransaction{touched: map[TopicPartition]bool{}, offsets: map[TopicPartition]int64{}, notes: map[TopicPartition]string{}}
	m.cluster.transactions[m.id] = m.transaction
	return nil
}

func (m *fakeMember) SendOffsets(offsets map[TopicPartition]int64, metadata any) error {
	return m.SendOffsetsNoted(context.Background(), offsets, nil, metadata)
}

func (m *fakeMember) CommittedNotes(_ context.Context, partitions []TopicPartition) (map[TopicPartition]string, error) {
	if err := m.step("committed notes"); err != nil {
		return nil, err
	}
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	notes := map[TopicPartition]string{}
	for _, tp := range partitions {
		if note := m.cluster.notes[tp]; note != "" {
			notes[tp] = note
		}
	}
	return notes, nil
}

func (m *fakeMember) SendOffsetsNoted(_ context.Context, offsets map[TopicPartition]int64, notes map[TopicPartition]string, metadata any) error {
	if err := firstError(m.step("send offsets"), m.fenced()); err != nil {
		return err
	}
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if err := m.allowed(offsets, metadata.(int)); err != nil {
		return err
	}
	maps.Copy(m.transaction.offsets, offsets)
	maps.Copy(m.transaction.notes, notes)
	return m.after("send offsets")
}

func (m *fakeMember) CommitTransaction() error {
	if err := firstError(m.step("commit"), m.fenced()); err != nil {
		return err
	}
	m.endTransaction(true)
	return m.after("commit")
}

func (m *fakeMember) AbortTransaction() error {
	if err := firstError(m.step("abort"), m.fenced()); err != nil {
		return err
	}
	m.endTransaction(false)
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	// Like a real client's session, an abort goes back to the committed offsets.
	for tp := range m.positions {
		committed, ok := m.cluster.committed[tp]
		if !ok {
			committed = m.cluster.logs[tp].start
		}
		m.positions[tp] = committed
	}
	return nil
}

func (m *fakeMember) endTransaction(commit bool) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if m.transaction == nil {
		return
	}
	m.cluster.end(m.transaction, commit)
	delete(m.cluster.transactions, m.id)
	m.transaction = nil
}

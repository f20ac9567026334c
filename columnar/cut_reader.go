// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/barrierlog"
)

const (
	// defaultCutPollTimeout is how long a cut reader waits for records.
	defaultCutPollTimeout = 250 * time.Millisecond
	// defaultCutIdlePolls is how many empty polls in a row end a read where the
	// consumer cannot tell the end of a partition.
	defaultCutIdlePolls = 1
	// defaultCutStableWait is how long a read waits for open transactions to end.
	defaultCutStableWait = time.Second
	// followWait is how long one poll of a follower waits for records.
	followWait = 30 * time.Second
)

// CutReader reads the cuts of barrier groups from the barrier state topic. It
// keeps what it has read, so a later call reads only what has arrived since.
//
// Where the consumer is an [OffsetRangeReader] and a [PositionReader], a read
// starts at the first available offset and ends at the end offsets of its
// beginning, whatever lies between. Otherwise it starts at offset 0 and ends
// after a number of empty polls.
//
// While a transaction is open on a partition, what was committed behind its
// first record is out of sight. Where the consumer is a [LogEndReader] too, a
// read notices that, waits for the end of the transaction, and fails with an
// [*IncompleteReadError] rather than return a cut that may not be the newest.
//
// A reader needs a consumer of its own: it replaces the consumer's assignment.
// The consumer stays the caller's to close. A CutReader is safe for concurrent
// use by multiple goroutines.
type CutReader struct {
	consumer    Consumer
	partitions  []TopicPartition
	topic       string
	pollTimeout time.Duration
	idlePolls   int
	stableWait  time.Duration

	turn     chan struct{} // holds a token while a call uses the consumer and what follows
	assigned bool
	next     map[TopicPartition]int64 // behind the last record seen
	looked   time.Time
	pins     map[TopicPartition]int64 // stable offsets below the end, when last looked

	mu     sync.Mutex // guards what follows
	loaded bool       // the topic has been read to its end
	groups map[string]*cutHistory
	bad    []error                // malformed records not yet reported
	hidden []*IncompleteReadError // by transactions that were open at the look before, too

	follower *follower
}

// cutHistory is what the topic says about one barrier group.
type cutHistory struct {
	cuts      map[int64]publishedCut
	newest    int64 // highest epoch of any cut, complete or not, since the group was made
	started   int64 // highest epoch that was announced and not withdrawn
	lastEpoch int64 // of the last group record
}

// publishedCut is a complete cut, with the reason why it cannot be used.
type publishedCut struct {
	BarrierCut
	unusable error
}

// CutReaderOption configures a [CutReader].
type CutReaderOption func(*CutReader)

// WithCutPollTimeout sets how long one poll of a read waits for records. The
// default is 250 milliseconds; 0 takes what is ready. A runner's polls
// between rounds never wait.
func WithCutPollTimeout(timeout time.Duration) CutReaderOption {
	return func(r *CutReader) { r.pollTimeout = timeout }
}

// WithCutIdlePolls sets how many empty polls in a row end a read where the
// consumer cannot tell the end of a partition. The default is
// 1.
func WithCutIdlePolls(polls int) CutReaderOption {
	return func(r *CutReader) { r.idlePolls = polls }
}

// WithCutStableWait sets how long a read waits for a transaction of somebody
// else to end that may hide committed cuts, before it fails with an
// [*IncompleteReadError]. The default is one second; 0 does not wait.
// A runner's reads between rounds never wait.
func WithCutStableWait(wait time.Duration) CutReaderOption {
	return func(r *CutReader) { r.stableWait = wait }
}

// WithCutTopic sets the topic that is read. The default is
// [BarrierStateTopic].
func WithCutTopic(topic string) CutReaderOption {
	return func(r *CutReader) { r.topic = topic }
}

// NewCutReader returns a reader of all partitions, numbered from 0, of the
// barrier state topic. It does not use the consumer yet.
func NewCutReader(consumer Consumer, partitions int, options ...CutReaderOption) (*CutReader, error) {
	r := &CutReader{
		consumer:    consumer,
		topic:       BarrierStateTopic,
		pollTimeout: defaultCutPollTimeout,
		idlePolls:   defaultCutIdlePolls,
		stableWait:  defaultCutStableWait,
		turn:        make(chan struct{}, 1),
		next:        map[TopicPartition]int64{},
		groups:      map[string]*cutHistory{},
	}
	r.follower = newFollower(r.follow)
	var errs []error
	for i, option := range options {
		if option == nil {
			errs = append(errs, fmt.Errorf("cut reader option %d is nil", i))
			continue
		}
		option(r)
	}
	if consumer == nil {
		errs = append(errs, errors.New("a cut reader needs a consumer"))
	}
	if partitions < 1 {
		errs = append(errs, errors.New("a cut reader needs at least one partition"))
	}
	if r.idlePolls < 1 {
		errs = append(errs, errors.New("a cut reader needs at least one idle poll"))
	}
	if r.pollTimeout < 0 {
		errs = append(errs, fmt.Errorf("cut poll timeout %v is negative", r.pollTimeout))
	}
	if r.stableWait < 0 {
		errs = append(errs, fmt.Errorf("cut stable wait %v is negative", r.stableWait))
	}
	if r.topic == "" {
		errs = append(errs, errors.New("a cut reader needs a topic"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for partition := range partitions {
		r.partitions = append(r.partitions, TopicPartition{Topic: r.topic, Partition: partition})
	}
	return r, nil
}

// LatestCompleteCut reads to the end of the topic and returns the complete cut
// of group with the highest epoch, or nil when there is none. The caller owns
// the cut.
//
// A malformed record is an error that matches [*BarrierFormatError], returned
// by the first call that meets it; the records around it count, and the next
// call succeeds. An [*IncompleteReadError] says that a newer cut may be hidden
// behind an open transaction; it is retriable. When ctx ends, what was read so far
// is kept.
func (r *CutReader) LatestCompleteCut(ctx context.Context, group string) (*BarrierCut, error) {
	cuts, err := r.CompleteCutsAfter(ctx, group, -1)
	if err != nil || len(cuts) == 0 {
		return nil, err
	}
	return &cuts[len(cuts)-1], nil
}

// CompleteCutsAfter reads to the end of the topic and returns the complete cuts
// of group with an epoch above epoch, in ascending order. The caller owns them.
// Errors are those of [CutReader.LatestCompleteCut].
func (r *CutReader) CompleteCutsAfter(ctx context.Context, group string, epoch int64) ([]BarrierCut, error) {
	if err := r.acquire(ctx); err != nil {
		return nil, err
	}
	defer r.release()
	if err := r.readToEnd(ctx, r.stableWait); err != nil {
		return nil, err
	}
	if err := r.takeBad(); err != nil {
		return nil, err
	}
	published := r.after(group, epoch)
	cuts := make([]BarrierCut, len(published))
	for i, cut := range published {
		cuts[i] = cut.BarrierCut
	}
	return cuts, nil
}

// usable reads to the end of the topic and returns the complete cuts of group
// that are not contradictory, in ascending order. Malformed records do not keep
// the others back; they are left for another call to report.
func (r *CutReader) usable(ctx context.Context, group string) ([]publishedCut, error) {
	if err := r.acquire(ctx); err != nil {
		return nil, err
	}
	defer r.release()
	if err := r.readToEnd(ctx, r.stableWait); err != nil {
		return nil, err
	}
	cuts := r.after(group, barrierlog.NoEpoch)
	return slices.DeleteFunc(cuts, func(cut publishedCut) bool { return cut.unusable != nil }), nil
}

// cutNews is what a refresh knows.
type cutNews struct {
	cuts    []publishedCut         // complete and above the epoch asked for, ascending
	newest  int64                  // epoch of the group whatever its status; -1 for none
	started int64                  // epoch of a start whose cut has yet to come; -1 for none
	bad     error                  // of malformed records, which do not keep the others back
	hidden  []*IncompleteReadError // what a transaction hides that stays open
}

// refresh takes what is ready, without waiting once the topic has been read to
// its end. Open transactions do not hold it up: what they hide is news of a later
// refresh.
func (r *CutReader) refresh(ctx context.Context, group string, epoch int64) (cutNews, error) {
	if err := r.acquire(ctx); err != nil {
		return cutNews{}, err
	}
	defer r.release()
	if err := r.advance(ctx, 0); err != nil {
		return cutNews{}, err
	}
	return r.news(group, epoch)
}

// advance reads the topic to its end, once, and then whatever comes within wait.
func (r *CutReader) advance(ctx context.Context, wait time.Duration) error {
	var err error
	if r.isLoaded() {
		_, err = r.poll(ctx, wait)
	} else if err = r.readToEnd(ctx, 0); errors.As(err, new(*IncompleteReadError)) {
		err = nil
	}
	if err == nil {
		r.look(ctx)
	}
	return err
}

// news returns what is known of a group, and the error of a follower that cannot
// read, once.
func (r *CutReader) news(group string, epoch int64) (cutNews, error) {
	if err := r.follower.takeFailure(); err != nil {
		return cutNews{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	news := cutNews{bad: errors.Join(r.bad...), hidden: r.hidden, newest: barrierlog.NoEpoch, started: barrierlog.NoEpoch}
	r.bad = nil
	if history := r.groups[group]; history != nil {
		news.cuts, news.newest = history.after(epoch), history.newest
		if history.started > history.newest {
			news.started = history.started
		}
	}
	return news, nil
}

// follows reports whether the topic can be followed: polls of the consumer wait at
// the broker and can be ended, so that a follower is in nobody's way.
func (r *CutReader) follows() bool {
	_, wakes := r.consumer.(PollWaker)
	_, ranged := r.consumer.(OffsetRangeReader)
	_, positioned := r.consumer.(PositionReader)
	return wakes && ranged && positioned
}

// follow is one read of the follower. It waits for its turn without ending the poll
// of whoever has it.
func (r *CutReader) follow(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer r.release()
	return r.advance(ctx, followWait)
}

// acquire waits for the turn. A follower that waits for records gives it up.
func (r *CutReader) acquire(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	default:
	}
	if waker, ok := r.consumer.(PollWaker); ok {
		waker.WakePoll()
	}
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *CutReader) release() { <-r.turn }

func (r *CutReader) isLoaded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded
}

func (r *CutReader) noteLoaded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loaded = true
}

func (r *CutReader) takeBad() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := errors.Join(r.bad...)
	r.bad = nil
	return err
}

// start takes the assignment, once, and seeks to the first available offsets.
func (r *CutReader) start(ctx context.Context) error {
	if r.assigned {
		return nil
	}
	var starts map[TopicPartition]int64
	if ranges, ok := r.consumer.(OffsetRangeReader); ok {
		var err error
		if starts, err = ranges.StartOffsets(ctx, r.partitions); err != nil {
			return textPrefix.Wrap(err, "start offsets of %q", r.topic)
		}
	}
	if err := r.consumer.Assign(slices.Clone(r.partitions)); err != nil {
		return textPrefix.Wrap(err, "assigning %q", r.topic)
	}
	for _, tp := range r.partitions {
		if err := r.consumer.Seek(tp, starts[tp]); err != nil {
			return textPrefix.Wrap(err, "seeking %s/%d to %d", tp.Topic, tp.Partition, starts[tp])
		}
	}
	r.assigned = true
	return nil
}

// poll takes one fetch into the history and returns its number of records.
func (r *CutReader) poll(ctx context.Context, timeout time.Duration) (int, error) {
	fetched, err := r.consumer.Poll(ctx, timeout)
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for _, tp := range slices.SortedFunc(maps.Keys(fetched), compareTopicPartitions) {
		if tp.Topic != r.topic {
			continue
		}
		for _, record := range fetched[tp] {
			count++
			r.next[tp] = max(r.next[tp], record.Offset+1)
			if err := r.take(record); err != nil {
				r.bad = append(r.bad, textPrefix.Wrap(err, "%s/%d offset %d", tp.Topic, tp.Partition, record.Offset))
			}
		}
	}
	if err != nil {
		r.startOver(err)
		return count, textPrefix.Wrap(err, "polling %q", r.topic)
	}
	return count, nil
}

// startOver makes the next read start from nothing where err says that the topic
// is not the one that was read: deleted and made anew, or cut short. The caller
// holds mu.
func (r *CutReader) startOver(err error) {
	if !errors.As(err, new(*TopicError)) && !errors.As(err, new(*OffsetOutOfRangeError)) {
		return
	}
	if r.consumer.Assign(nil) != nil {
		return // the read that follows fails as this one did
	}
	r.assigned, r.loaded = false, false
	clear(r.next)
	clear(r.groups)
}

// take folds one record into the history of its group. The caller holds mu.
func (r *CutReader) take(record ConsumedRecord) error {
	key, err := barrierlog.DecodeKey(record.Key)
	if err != nil {
		return err
	}
	switch key.Kind {
	case barrierlog.KindGroup:
		r.takeGroup(key.Group, record.Value)
		return nil
	case barrierlog.KindStart:
		r.takeStart(key, record.Value)
		return nil
	case barrierlog.KindCut:
	default:
		return nil
	}
	if len(record.Value) == 0 {
		if history := r.groups[key.Group]; history != nil {
			delete(history.cuts, key.Epoch)
		}
		return nil
	}
	cut, duplicate, err := decodeCutValue(key, record.Value)
	if err != nil {
		return err
	}
	history := r.history(key.Group)
	history.newest = max(history.newest, cut.Epoch)
	if !cut.Complete() {
		delete(history.cuts, cut.Epoch)
		return nil
	}
	unusable := checkCut(cut)
	if duplicate != nil {
		unusable = fmt.Errorf("%s/%d is named twice", duplicate.Topic, duplicate.Partition)
	}
	history.cuts[cut.Epoch] = publishedCut{BarrierCut: *cut, unusable: unusable}
	return nil
}

// takeStart folds an announcement. Its value is not looked at, apart from a
// tombstone, which withdraws it.
func (r *CutReader) takeStart(key barrierlog.Key, value []byte) {
	history := r.history(key.Group)
	switch {
	case len(value) > 0:
		history.started = max(history.started, key.Epoch)
	case history.started == key.Epoch:
		history.started = barrierlog.NoEpoch
	}
}

// takeGroup folds a group record: a tombstone ends the group with all its cuts,
// and a last epoch that goes down is a group made anew under the same name.
func (r *CutReader) takeGroup(group string, value []byte) {
	if len(value) == 0 {
		delete(r.groups, group)
		return
	}
	lastEpoch, ok := barrierlog.LastEpoch(value)
	if !ok {
		return
	}
	history := r.history(group)
	if lastEpoch < history.lastEpoch {
		delete(r.groups, group)
		history = r.history(group)
	}
	history.lastEpoch = lastEpoch
}

func (r *CutReader) history(group string) *cutHistory {
	history := r.groups[group]
	if history == nil {
		history = &cutHistory{cuts: map[int64]publishedCut{}, newest: barrierlog.NoEpoch, started: barrierlog.NoEpoch, lastEpoch: barrierlog.NoEpoch}
		r.groups[group] = history
	}
	return history
}

// after returns copies of the complete cuts of group above epoch.
func (r *CutReader) after(group string, epoch int64) []publishedCut {
	r.mu.Lock()
	defer r.mu.Unlock()
	history := r.groups[group]
	if history == nil {
		return nil
	}
	return history.after(epoch)
}

// after returns copies of the complete cuts above epoch, ascending.
func (h *cutHistory) after(epoch int64) (cuts []publishedCut) {
	for cutEpoch, cut := range h.cuts {
		if cutEpoch > epoch {
			cut.BarrierCut = cut.clone()
			cuts = append(cuts, cut)
		}
	}
	slices.SortFunc(cuts, func(a, b publishedCut) int { return cmp.Compare(a.Epoch, b.Epoch) })
	return cuts
}

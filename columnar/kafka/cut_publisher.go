// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

const (
	// publishBackoff is the wait of Run after a failed cut, and publishBackoffMax
	// what it grows to.
	publishBackoff    = 250 * time.Millisecond
	publishBackoffMax = 10 * time.Second
	// cutPollTimeout is how long one poll of the barrier topic waits.
	cutPollTimeout = 250 * time.Millisecond
)

// CutPublisher publishes cuts of a barrier group on clusters whose brokers do
// not, one after the other. It announces a cut, waits for [WithCutNotice], takes
// the stable end offsets that all partitions of the group's topics have at that
// moment, and publishes the manifest.
//
// One publisher publishes for a group. [WithLeadership] elects it; without it
// the caller sees to that. In any case the brokers fence: each cut is one
// transaction under an id that belongs to the group, so that a publisher that
// was replaced cannot bring in a late manifest, and gets a
// [columnar.FencedError].
//
// A CutPublisher is safe for concurrent use by multiple goroutines; cuts are
// taken one after the other. The zero value is not usable.
type CutPublisher struct {
	*connection
	reader    *Reader
	group     string
	topics    []string
	partition int32 // of the barrier topic; unset until it is read

	life context.Context // ends with Close
	end  context.CancelFunc

	turn       chan struct{} // holds a token while a call uses what follows
	history    *epochHistory
	partitions []columnar.TopicPartition // of the barrier topic; nil until assigned
	producer   *connection               // transactional client of the present term
	leadership Leadership
	fenced     error // terminal without an election
	closed     bool

	callers []kgo.Opt
}

// NewCutPublisher returns a publisher for a barrier group of topics. It does
// not talk to a broker yet. The caller closes it.
//
// Options of a producer and of a reader that the adapter owns may not be
// changed, as in [NewProducer] and [NewReader]: an [OptionError] names each.
func NewCutPublisher(group string, topics []string, opts ...kgo.Opt) (*CutPublisher, error) {
	topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	problems := []error{checkBarrierString("barrier group", group)}
	if len(topics) == 0 {
		problems = append(problems, fmt.Errorf("kafka: barrier group %q has no topics", group))
	}
	for _, topic := range topics {
		problems = append(problems, checkBarrierString("topic", topic))
	}
	own, callers, err := splitOptions(opts, forPublisher)
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	reader, err := NewReader(callers...)
	if err != nil {
		return nil, err
	}
	reader.settings = own
	life, end := context.WithCancel(context.Background())
	return &CutPublisher{
		life:       life,
		end:        end,
		connection: reader.connection,
		reader:     reader,
		group:      group,
		topics:     topics,
		turn:       make(chan struct{}, 1),
		history:    newEpochHistory(group),
		callers:    callers,
	}, nil
}

// EnsureTopic creates the barrier state topic, compacted and with one
// partition, or checks that the existing one is compacted: otherwise the error
// is a [TopicConfigError].
func (p *CutPublisher) EnsureTopic(ctx context.Context) error {
	return p.ensureCompacted(ctx, p.settings.barrierTopic, 1)
}

// Publish announces one cut, takes it when the notice has passed, and returns it
// once it is committed. The epoch is one above the last epoch that the topic knows
// for the group. The cut is partial if a partition has no leader.
//
// With [WithLeadership] it first waits for the leadership. Errors:
// [columnar.FencedError] when another publisher has taken over; the reason why
// the leadership ended when it is over, after which the next Publish waits for
// another one; [columnar.TopicError] for a topic that does not exist; whatever
// the election returns. An error that is retriable leaves the question open
// whether the cut was published; the next Publish finds out and takes the next
// epoch.
func (p *CutPublisher) Publish(ctx context.Context) (columnar.BarrierCut, error) {
	return p.publish(ctx, 0)
}

// Run publishes a cut at once and then one every so often, until ctx ends,
// which is no error, or the publisher is closed. Failures that may pass are
// retried with a growing pause.
// With [WithLeadership] it waits for the leadership, resigns when it returns,
// and waits again after losing it; an error of the election ends it unless the
// error is retriable. Without, a [columnar.FencedError] ends it.
func (p *CutPublisher) Run(ctx context.Context, every time.Duration) error {
	if every <= 0 {
		return fmt.Errorf("kafka: publish cuts of %q: interval %v is not positive", p.group, every)
	}
	defer p.resign()
	living, cancel := p.living(ctx)
	defer cancel()
	for backoff := publishBackoff; ; {
		begun := time.Now()
		_, err := p.publish(living, every)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			backoff = publishBackoff
			if !sleep(living, every-time.Since(begun)) {
				return p.ended(ctx)
			}
		case p.permanent(err):
			return err
		default:
			if !sleep(living, backoff) {
				return p.ended(ctx)
			}
			backoff = min(2*backoff, publishBackoffMax)
		}
	}
}

// living returns a context that Close ends too.
func (p *CutPublisher) living(ctx context.Context) (context.Context, context.CancelFunc) {
	living, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(p.life, cancel)
	return living, func() {
		stop()
		cancel()
	}
}

// ended returns why Run stopped in a pause: nil when its context ended.
func (p *CutPublisher) ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	return p.errClosed()
}

func (p *CutPublisher) errClosed() error {
	return textPrefix.Wrap(ErrClosed, "publish cut of %q", p.group)
}

// permanent reports whether trying again is of no use.
func (p *CutPublisher) permanent(err error) bool {
	if errors.Is(err, ErrClosed) {
		return true
	}
	if errors.As(err, new(*columnar.FencedError)) {
		return p.settings.acquire == nil
	}
	if errors.As(err, new(*electionError)) {
		return !columnar.IsRetriable(err)
	}
	return errors.As(err, new(*AccessError)) || errors.As(err, new(*columnar.TopicError)) && !columnar.IsRetriable(err)
}

// Close ends the calls that are under way, with an error that matches
// [ErrClosed], resigns the leadership and ends the clients. A second Close does
// nothing.
func (p *CutPublisher) Close() error {
	p.end()
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	if p.closed {
		return nil
	}
	p.closed = true
	err := p.step()
	return errors.Join(err, p.reader.Close())
}

func (p *CutPublisher) resign() {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	_ = p.step() // the leadership ends by itself if nobody renews it
}

// step ends the present term.
func (p *CutPublisher) step() error {
	p.drop()
	if p.leadership == nil {
		return nil
	}
	ctx, cancel := p.bounded()
	defer cancel()
	err := p.leadership.Resign(ctx)
	p.leadership = nil
	return err
}

// drop closes the transactional client.
func (p *CutPublisher) drop() {
	if p.producer != nil {
		p.producer.cancel()
		p.producer.client.Close()
		p.producer = nil
	}
}

func (p *CutPublisher) publish(ctx context.Context, every time.Duration) (columnar.BarrierCut, error) {
	living, cancel := p.living(ctx)
	defer cancel()
	cut, err := p.publishInTurn(living, every)
	if err != nil && p.life.Err() != nil && !errors.Is(err, ErrClosed) {
		return cut, errors.Join(p.errClosed(), err)
	}
	return cut, err
}

func (p *CutPublisher) publishInTurn(ctx context.Context, every time.Duration) (columnar.BarrierCut, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return columnar.BarrierCut{}, ctx.Err()
	}
	defer func() { <-p.turn }()
	if p.closed {
		return columnar.BarrierCut{}, p.errClosed()
	}
	if p.fenced != nil {
		return columnar.BarrierCut{}, p.fenced
	}
	ctx, cancel, err := p.lead(ctx)
	if err != nil {
		return columnar.BarrierCut{}, err
	}
	defer cancel()
	cut, err := p.publishLeading(ctx, every)
	if err != nil {
		p.drop()
		if errors.As(err, new(*columnar.FencedError)) {
			err = p.replaced(ctx, err)
		}
	}
	return cut, err
}

// replaced decides what a fence means. In an election the one that fenced may
// have led before and not know that it is over.
func (p *CutPublisher) replaced(ctx context.Context, err error) error {
	if p.settings.acquire == nil {
		p.fenced = err
		return err
	}
	if renewable, ok := p.leadership.(RenewableLeadership); ok && renewable.Renew(ctx) == nil {
		return err
	}
	return errors.Join(err, p.step())
}

// lead waits for the leadership and returns a context that ends with it.
func (p *CutPublisher) lead(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if p.leadership != nil {
		select {
		case <-p.leadership.Done():
			p.drop()
			p.leadership = nil
		default:
		}
	}
	if p.leadership == nil && p.settings.acquire != nil {
		leadership, err := p.settings.acquire(ctx)
		if err != nil {
			return nil, nil, &electionError{group: p.group, err: err}
		}
		p.leadership = leadership
	}
	led, cancel := context.WithCancelCause(ctx)
	if p.leadership == nil {
		return led, func() { cancel(nil) }, nil
	}
	leadership, left := p.leadership, make(chan struct{})
	go func() {
		defer close(left)
		select {
		case <-leadership.Done():
			cancel(textPrefix.Wrap(leadership.Err(), "leadership of the cuts of %q ended", p.group))
		case <-led.Done():
		}
	}()
	return led, func() { cancel(nil); <-left }, nil
}

// publishLeading takes and writes one cut.
func (p *CutPublisher) publishLeading(ctx context.Context, every time.Duration) (columnar.BarrierCut, error) {
	if err := p.openTerm(ctx); err != nil {
		return columnar.BarrierCut{}, p.why(ctx, err)
	}
	if err := p.readHistory(ctx); err != nil {
		return columnar.BarrierCut{}, p.why(ctx, err)
	}
	cut := columnar.BarrierCut{Group: p.group, Epoch: p.history.last + 1, TriggeredAt: time.Now().UnixMilli()}
	if err := p.announce(ctx, cut); err != nil {
		return columnar.BarrierCut{}, p.why(ctx, err)
	}
	if err := p.take(ctx, &cut); err != nil {
		return columnar.BarrierCut{}, p.why(ctx, err)
	}
	if err := p.write(ctx, cut, every); err != nil {
		return columnar.BarrierCut{}, p.why(ctx, err)
	}
	return cut, nil
}

// why prefers the end of the leadership to what followed from it.
func (p *CutPublisher) why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != cause {
		return errors.Join(cause, err)
	}
	return err
}

// openTerm starts a client under the group's transactional id, which fences
// the publisher before and ends what that one left open.
//
// The leadership is renewed before that, so as not to fence a successor, and
// after it: whoever leads later comes later to the transactional id too.
func (p *CutPublisher) openTerm(ctx context.Context) error {
	if p.producer != nil {
		return nil
	}
	if err := p.renew(ctx); err != nil {
		return err
	}
	if err := p.fencePredecessor(ctx); err != nil {
		return err
	}
	return p.renew(ctx)
}

func (p *CutPublisher) renew(ctx context.Context) error {
	renewable, ok := p.leadership.(RenewableLeadership)
	if !ok {
		return nil
	}
	if err := renewable.Renew(ctx); err != nil {
		return textPrefix.Wrap(err, "lead the cuts of %q", p.group)
	}
	return nil
}

func (p *CutPublisher) fencePredecessor(ctx context.Context) error {
	id := "krabka-barrier-" + p.group
	callers := slices.Concat([]kgo.Opt{kgo.MetadataMinAge(markerMetadataAge)}, p.callers)
	producer, err := connect(forProducer, callers,
		append(producing(), owned{name: "TransactionalID", opt: kgo.TransactionalID(id), want: id}),
		[]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, kgo.NewClient)
	if err != nil {
		return err
	}
	p.producer = producer
	if err := producer.reach(ctx); err != nil {
		return err
	}
	if _, _, err := producer.client.ProducerID(ctx); err != nil {
		return producer.typed(fmt.Sprintf("initialise transactional id %q", id), err)
	}
	return nil
}

// readHistory reads the barrier topic up to its end. Records of other groups in
// an open transaction hold the reader up; the wait ends with ctx.
func (p *CutPublisher) readHistory(ctx context.Context) error {
	if p.partitions == nil {
		counts, err := p.PartitionCounts(ctx, []string{p.settings.barrierTopic})
		if err != nil {
			return err
		}
		for n := range counts[p.settings.barrierTopic] {
			p.partitions = append(p.partitions, columnar.TopicPartition{Topic: p.settings.barrierTopic, Partition: n})
		}
		hash := fnv.New32a()
		hash.Write([]byte(p.group))
		p.partition = int32(hash.Sum32() % uint32(len(p.partitions)))
	}
	return p.reader.readToEnd(ctx, p.partitions, func(record columnar.ConsumedRecord) {
		p.history.take(record.Key, record.Value)
	})
}

// announce writes the start of a cut, in a transaction of its own so that readers
// see it, and waits for the notice. The offsets of the cut are taken later, so
// they lie above whatever a runner had read when it saw the start.
func (p *CutPublisher) announce(ctx context.Context, cut columnar.BarrierCut) error {
	if p.settings.cutNotice == 0 {
		return nil
	}
	counts, err := p.PartitionCounts(ctx, p.topics)
	if err != nil {
		return err
	}
	start := encodeBarrierStart(barrierStart{triggered: cut.TriggeredAt, counts: counts})
	if err := p.commit(ctx, fmt.Sprintf("announce cut %d of %q", cut.Epoch, p.group), p.record(barrierStartKind, cut.Epoch, start)); err != nil {
		return err
	}
	p.history.starts[cut.Epoch] = true
	if !sleep(ctx, p.settings.cutNotice) {
		return ctx.Err()
	}
	return nil
}

// take collects the offsets of a cut.
func (p *CutPublisher) take(ctx context.Context, cut *columnar.BarrierCut) error {
	cut.Offsets = map[columnar.TopicPartition]int64{}
	details, err := p.topicDetails(ctx, p.topics)
	if err != nil {
		return err
	}
	listed, err := p.admin.ListCommittedOffsets(ctx, p.topics...)
	if len(listed) == 0 && err != nil {
		return p.topicsError(ctx, "stable end offsets", p.topics, err)
	}
	for _, topic := range p.topics {
		for _, detail := range details[topic].Partitions.Sorted() {
			tp := columnar.TopicPartition{Topic: topic, Partition: int(detail.Partition)}
			offset, ok := listed.Lookup(topic, detail.Partition)
			switch {
			case ok && offset.Err == nil:
				cut.Offsets[tp] = offset.Offset
			case ok && errors.Is(offset.Err, kerr.TopicAuthorizationFailed):
				return topicError(topic, tp.Partition, offset.Err)
			default:
				cut.Missing = append(cut.Missing, tp)
				cut.Status = columnar.CutPartial
			}
		}
	}
	cut.CompletedAt = time.Now().UnixMilli()
	return nil
}

// write publishes a cut in one transaction, with the group's record and the
// deletion of what retention drops and of the starts that the cut answers.
func (p *CutPublisher) write(ctx context.Context, cut columnar.BarrierCut, every time.Duration) error {
	records := []*kgo.Record{
		p.record(barrierCutKind, cut.Epoch, encodeBarrierCut(cut)),
		p.record(barrierGroupKind, barrierGroupEpoch, encodeBarrierGroup(barrierGroup{
			topics: p.topics, interval: every, retained: p.settings.retainedCuts, lastEpoch: cut.Epoch,
		})),
	}
	for _, epoch := range p.history.answered(cut.Epoch) {
		records = append(records, p.record(barrierStartKind, epoch, nil))
	}
	for _, epoch := range p.history.outdated(cut.Epoch, p.settings.retainedCuts) {
		records = append(records, p.record(barrierCutKind, epoch, nil))
	}
	return p.commit(ctx, fmt.Sprintf("publish cut %d of %q", cut.Epoch, p.group), records...)
}

// commit writes records in one transaction.
func (p *CutPublisher) commit(ctx context.Context, doing string, records ...*kgo.Record) error {
	client := p.producer.client
	if err := client.BeginTransaction(); err != nil {
		return p.producer.typed(doing, err)
	}
	for _, result := range client.ProduceSync(ctx, records...) {
		if result.Err != nil {
			// The next term ends the transaction.
			return fmt.Errorf("%s: %w", doing, p.producer.sendError(result.Record, result.Err))
		}
	}
	if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return p.producer.typed(doing, err)
	}
	return nil
}

func (p *CutPublisher) record(kind int16, epoch int64, value []byte) *kgo.Record {
	return &kgo.Record{
		Topic:     p.settings.barrierTopic,
		Partition: p.partition,
		Key:       encodeBarrierKey(kind, p.group, epoch),
		Value:     value,
	}
}

// readToEnd reads partitions up to the high watermarks of this moment, also
// above a transaction that is open, once it has ended. A first call starts at
// the log start, a later one where the one before ended.
func (r *Reader) readToEnd(ctx context.Context, partitions []columnar.TopicPartition, take func(columnar.ConsumedRecord)) error {
	r.mu.Lock()
	var fresh []columnar.TopicPartition
	for _, tp := range partitions {
		if r.partitions[tp] == nil {
			fresh = append(fresh, tp)
		}
	}
	assigned := slices.Collect(maps.Keys(r.partitions))
	r.mu.Unlock()
	if len(fresh) > 0 {
		starts, err := r.StartOffsets(ctx, fresh)
		if err != nil {
			return err
		}
		if err := r.Assign(append(assigned, fresh...)); err != nil {
			return err
		}
		for _, tp := range fresh {
			if err := r.Seek(tp, starts[tp]); err != nil {
				return err
			}
		}
	}
	ends, err := r.listOffsets(ctx, "end", partitions, r.admin.ListEndOffsets)
	if err != nil {
		return err
	}
	return r.readBeyond(ctx, ends, take)
}

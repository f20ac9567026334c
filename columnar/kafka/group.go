// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"cmp"
	"context"
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

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// leaveGrace is how long Close waits for a rebalance in flight before it tells
// the coordinator by a request of its own.
const leaveGrace = 500 * time.Millisecond

// joinPatience is how long SubscribeContext waits for a broker.
const joinPatience = 5 * time.Second

// rebalance is a callback of the client that waits for the polling goroutine.
type rebalance struct {
	handle func()
	done   chan struct{}
}

func (r rebalance) run() {
	defer close(r.done)
	r.handle()
}

// groupMetadata identifies the member and generation of one poll.
type groupMetadata struct {
	memberID   string
	generation int32
	joins      int // answered to this client so far
	polled     time.Time
}

// groupConsumer is what both members share: a consumer in a group.
type groupConsumer struct {
	*consumer
	joins *joinWatch
	dials dialWatch
	// settle runs on the polling goroutine when a rebalance has ended, before
	// the listener hears of new partitions.
	settle func()
	// prepare runs in Subscribe before the member joins.
	prepare func(context.Context) error

	metadata groupMetadata // written by Poll

	calling   atomic.Bool            // a callback runs
	disturbed atomic.Bool            // partitions were taken since settle last ran
	pending   atomic.Pointer[func()] // told when a rebalance waits

	listener   columnar.RebalanceListener
	subscribed bool
	sought     time.Time // since when SubscribeContext has looked for a broker
	closeOnce  sync.Once
	closeErr   error
}

// groupOptions are the owned options of a member.
func groupOptions(group string) []owned {
	balancers := []kgo.GroupBalancer{copartitioning()}
	return slices.Concat(producing(), consuming(), []owned{
		{name: "ConsumerGroup", opt: kgo.ConsumerGroup(group), want: group},
		{name: "Balancers", opt: kgo.Balancers(balancers...), want: balancers},
		{name: "DisableAutoCommit", opt: kgo.DisableAutoCommit(), want: true},
		{name: "BlockRebalanceOnPoll", opt: kgo.BlockRebalanceOnPoll(), want: true},
		{name: "ServerSideBalancer", want: false},
		{name: "GroupProtocol", want: "consumer"},
	})
}

// joinGroup builds the client of a member. The callbacks need the consumer and
// the client needs the callbacks, so the consumer comes first and empty.
func joinGroup(group string, opts []kgo.Opt, owns []owned, build func(...kgo.Opt) (*kgo.Client, error)) (*groupConsumer, error) {
	if group == "" {
		return nil, &OptionError{Option: "ConsumerGroup", Have: `""`, Want: "a group"}
	}
	g := &groupConsumer{joins: newJoinWatch()}
	built := make(chan struct{})
	defer close(built)
	// A client that is given up before the consumer exists may call back too.
	after := func(call func(map[string][]int32)) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(ctx context.Context, _ *kgo.Client, m map[string][]int32) {
			select {
			case <-built:
				call(m)
			case <-ctx.Done():
			}
		}
	}
	last := []kgo.Opt{
		kgo.WithHooks(g.joins, &g.dials),
		kgo.OnPartitionsAssigned(after(g.assigned)),
		kgo.OnPartitionsRevoked(after(g.revoked)),
		kgo.OnPartitionsLost(after(g.lost)),
		kgo.OnPartitionsCallbackBlocked(func(ctx context.Context, cl *kgo.Client) { after(g.blocked)(ctx, cl, nil) }),
		kgo.AdjustFetchOffsetsFn(func(ctx context.Context, m map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			<-built
			return m, g.begin(ctx, m)
		}),
	}
	c, err := connect(forGroup, opts, slices.Concat(groupOptions(group), owns), last, build)
	if err != nil {
		return nil, err
	}
	g.consumer = newConsumer(c)
	g.rebalances = make(chan rebalance)
	return g, nil
}

// Assign returns an error: the group assigns a member's partitions.
func (g *groupConsumer) Assign([]columnar.TopicPartition) error {
	return fmt.Errorf("kafka: assign: partitions of a member of group %q are assigned by the group; use a Reader", g.group)
}

// Subscribe joins the group for topics, once. The listener may be nil.
//
// It waits for a broker, at most as long as [WithCallTimeout] says, and checks
// that the topics exist and have equal partition counts. Errors:
// [UnreachableError], [AccessError], [columnar.TopicError],
// [UnequalPartitionsError]; after an error Subscribe may be called again.
func (g *groupConsumer) Subscribe(topics []string, listener columnar.RebalanceListener) error {
	return g.subscribe(context.Background(), g.settings.callTimeout, topics, listener)
}

// SubscribeContext is Subscribe, bounded by ctx too. It waits for a broker for five
// seconds at most, so that a runner can tell that it waits and try again. When the
// name of no broker has been known for as long as [WithCallTimeout] says, the
// [UnreachableError] is not retriable any more: the address is wrong.
func (g *groupConsumer) SubscribeContext(ctx context.Context, topics []string, listener columnar.RebalanceListener) error {
	if g.sought.IsZero() {
		g.sought = time.Now()
	}
	err := g.subscribe(ctx, min(joinPatience, g.settings.callTimeout), topics, listener)
	var away *UnreachableError
	if errors.As(err, &away) && isUnknownHost(away.Cause) && time.Since(g.dials.latest(g.sought)) >= g.settings.callTimeout {
		away.wrong = true
	}
	return err
}

// Membership returns the group, and the names that one member at a time can go by:
// those of its transactional id and of its instance.
func (g *groupConsumer) Membership() (group string, names []string) {
	if g.transactionalID != "" {
		names = append(names, fmt.Sprintf("transactional id %q", g.transactionalID))
	}
	if g.instanceID != "" {
		names = append(names, fmt.Sprintf("instance id %q of group %q", g.instanceID, g.group))
	}
	return g.group, names
}

// subscribe waits for a broker at most for patience, and for the rest as long as
// [WithCallTimeout] says.
func (g *groupConsumer) subscribe(ctx context.Context, patience time.Duration, topics []string, listener columnar.RebalanceListener) error {
	if g.subscribed {
		return fmt.Errorf("kafka: subscribe: the member of group %q is subscribed already", g.group)
	}
	topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	if len(topics) == 0 {
		return fmt.Errorf("kafka: subscribe: no topics")
	}
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if err := g.reach(waiting); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, g.settings.callTimeout)
	defer cancel()
	counts, err := g.PartitionCounts(ctx, topics)
	if err != nil {
		return err
	}
	if distinct := slices.Compact(slices.Sorted(maps.Values(counts))); len(distinct) > 1 && !g.settings.unequalPartitions {
		return &UnequalPartitionsError{Counts: counts}
	}
	if g.prepare != nil {
		if err := g.prepare(ctx); err != nil {
			return err
		}
	}
	g.listener = listener
	g.subscribed = true
	g.client.AddConsumeTopics(topics...)
	return nil
}

// Poll returns fetched records by partition, in offset order. It waits at most
// timeout, and with a timeout of 0 returns what is ready. The records alias the
// client's memory, which is never reused. Rebalance callbacks run inside Poll, on
// its goroutine; a member that does not poll within the rebalance timeout loses
// its partitions.
//
// Errors are those of [Reader.Poll], and beside them [columnar.FencedError] and
// [columnar.RebalancedError]. They come when there are no records to return.
func (g *groupConsumer) Poll(ctx context.Context, timeout time.Duration) (map[columnar.TopicPartition][]columnar.ConsumedRecord, error) {
	if !g.subscribed {
		return nil, fmt.Errorf("kafka: poll: the member of group %q is not subscribed", g.group)
	}
	records, err := g.consumer.Poll(ctx, timeout)
	joins := g.joins.count()
	member, generation := g.client.GroupMetadata()
	g.metadata = groupMetadata{memberID: member, generation: generation, joins: joins, polled: time.Now()}
	return records, err
}

// GroupMetadata identifies the member and generation of the latest Poll, for
// SendOffsets of the same member. It is opaque.
func (g *groupConsumer) GroupMetadata() any { return g.metadata }

// Seek makes offset the next to be delivered for an assigned partition and
// drops whatever was fetched ahead. It does nothing when offset is the next
// already. It returns an error for a partition that is not assigned. A
// [columnar.RebalanceListener] may call it for a partition that is just being
// assigned.
func (g *groupConsumer) Seek(tp columnar.TopicPartition, offset int64) error {
	move, err := g.setPosition(tp, offset)
	if move {
		g.client.SetOffsets(epochOffsets(map[columnar.TopicPartition]int64{tp: offset}))
	}
	return err
}

// Committed returns the committed next-record offsets. It waits, within ctx,
// for offsets of a transaction that is being completed. Partitions without a
// commit are omitted.
func (g *groupConsumer) Committed(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]int64, error) {
	return g.committed(ctx, partitions)
}

// CommitOffsets commits next-record offsets for the group and waits for the
// answer. Offsets that are committed already are left out, and so is an offset
// below the committed one, unless the partition was sought back to it or
// further since the last commit: a commit never moves backwards by accident.
//
// A [columnar.RebalancedError] says that the group has moved on or that a
// partition is not assigned; then nothing is committed for certain. Refusals of
// single partitions are joined [columnar.TopicError] values.
func (g *groupConsumer) CommitOffsets(ctx context.Context, offsets map[columnar.TopicPartition]int64) error {
	moved, err := g.movedOffsets(offsets)
	if err != nil || len(moved) == 0 {
		return err
	}
	var problems []error
	g.client.CommitOffsetsSync(ctx, epochOffsets(moved), func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			problems = append(problems, g.typed("commit offsets", err))
			return
		}
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					problems = append(problems, g.commitError(topic.Topic, int(p.Partition), err))
				}
			}
		}
	})
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	g.noteCommitted(moved)
	return nil
}

// commitError types the refusal of one partition's commit.
func (g *groupConsumer) commitError(topic string, partition int, err error) error {
	if isRebalance(err) || isFencing(err) || isAccess(err) && !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return g.typed(fmt.Sprintf("commit offset of %s/%d", topic, partition), err)
	}
	return topicError(topic, partition, err)
}

// movedOffsets returns the offsets whose commit changes something.
func (g *groupConsumer) movedOffsets(offsets map[columnar.TopicPartition]int64) (map[columnar.TopicPartition]int64, error) {
	moved := make(map[columnar.TopicPartition]int64, len(offsets))
	g.mu.Lock()
	defer g.mu.Unlock()
	for tp, offset := range offsets {
		p, ok := g.partitions[tp]
		if !ok {
			return nil, &columnar.RebalancedError{Group: g.group, Cause: fmt.Errorf("%s/%d is not assigned", tp.Topic, tp.Partition)}
		}
		if offset < 0 {
			return nil, fmt.Errorf("kafka: commit %s/%d: offset %d is negative", tp.Topic, tp.Partition, offset)
		}
		if offset == p.committed || offset < p.committed && (p.rewound == unknown || offset < p.rewound) {
			continue
		}
		moved[tp] = offset
	}
	return moved, nil
}

// noteCommitted remembers what the group has committed.
func (g *groupConsumer) noteCommitted(offsets map[columnar.TopicPartition]int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for tp, offset := range offsets {
		if p, ok := g.partitions[tp]; ok {
			p.committed = offset
			p.rewound = unknown
		}
	}
}

// deliver hands a callback of the client to the polling goroutine and waits for
// it. When the member closes nobody polls any more, and the callback runs here
// without the listener.
func (g *groupConsumer) deliver(handle func(columnar.RebalanceListener)) {
	r := rebalance{done: make(chan struct{}), handle: func() {
		g.calling.Store(true)
		defer g.calling.Store(false)
		handle(g.listener)
	}}
	select {
	case g.rebalances <- r:
		<-r.done
	case <-g.closing:
		handle(nil)
	}
}

func (g *groupConsumer) assigned(m map[string][]int32) {
	g.deliver(func(listener columnar.RebalanceListener) {
		partitions := fromTopics(m)
		g.mu.Lock()
		for _, tp := range partitions {
			g.track(tp)
		}
		g.mu.Unlock()
		if g.settle != nil {
			g.settle()
		}
		if len(partitions) > 0 && listener != nil {
			listener.OnPartitionsAssigned(partitions)
		}
	})
}

func (g *groupConsumer) revoked(m map[string][]int32) {
	if len(m) == 0 {
		return
	}
	g.disturbed.Store(true)
	g.deliver(func(listener columnar.RebalanceListener) {
		partitions := fromTopics(m)
		if len(partitions) > 0 && listener != nil {
			listener.OnPartitionsRevoked(partitions)
		}
		g.forget(partitions)
	})
}

func (g *groupConsumer) lost(m map[string][]int32) {
	g.disturbed.Store(true)
	if len(m) == 0 {
		return
	}
	g.deliver(func(listener columnar.RebalanceListener) {
		partitions := fromTopics(m)
		g.forget(partitions)
		if len(partitions) > 0 && listener != nil {
			listener.OnPartitionsLost(partitions)
		}
	})
}

func (g *groupConsumer) blocked(map[string][]int32) {
	if g.settings.rebalancePending != nil {
		g.settings.rebalancePending()
	}
	if pending := g.pending.Load(); pending != nil {
		(*pending)()
	}
}

// NotifyRebalance makes the member call pending, on a goroutine of the client,
// whenever a rebalance waits for its next Poll. A runner uses it; for functions of
// one's own there is [WithRebalancePending].
func (g *groupConsumer) NotifyRebalance(pending func()) { g.pending.Store(&pending) }

// begin learns where reading of new partitions begins. Partitions without a
// commit begin at the log start, which is looked up here so that the position
// of a partition is known before its first record.
func (g *groupConsumer) begin(ctx context.Context, offsets map[string]map[int32]kgo.Offset) error {
	var fresh []columnar.TopicPartition
	for topic, numbers := range offsets {
		for n, offset := range numbers {
			tp := columnar.TopicPartition{Topic: topic, Partition: int(n)}
			if at := offset.EpochOffset().Offset; at >= 0 {
				g.beginAt(tp, at, at)
			} else {
				fresh = append(fresh, tp)
			}
		}
	}
	starts, err := g.StartOffsets(ctx, fresh)
	if err != nil {
		return err
	}
	for tp, start := range starts {
		offsets[tp.Topic][int32(tp.Partition)] = kgo.NewOffset().At(start)
		g.beginAt(tp, start, unknown)
	}
	return nil
}

func (g *groupConsumer) beginAt(tp columnar.TopicPartition, start, committed int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := g.partitions[tp]
	if !ok {
		return
	}
	p.start = start
	p.committed = committed
	if !p.sought {
		p.position = start
	}
}

// Close leaves the group and ends the client. It is safe to call more than
// once, also while Poll waits on another goroutine; that Poll returns an error
// that matches [ErrClosed]. Close does not call the listener and does not
// commit: close the runner first. It returns within the time of
// [WithCallTimeout], also while the group rebalances.
func (g *groupConsumer) Close() error {
	g.closeOnce.Do(func() { g.closeErr = g.close() })
	return g.closeErr
}

func (g *groupConsumer) close() error {
	close(g.closing)
	ctx, cancel := g.bounded()
	defer cancel()
	err := g.leave(ctx)
	// Ending the client's context ends whatever request is still in flight, so
	// that the client's own Close does not wait for it.
	stop := context.AfterFunc(ctx, g.cancel)
	g.client.CloseAllowingRebalance()
	stop()
	g.cancel()
	return err
}

// leave leaves the group. The client waits for a join in flight, which can take
// as long as the slowest member of the group; after a short while the
// coordinator is told directly, which ends that join too.
func (g *groupConsumer) leave(ctx context.Context) error {
	if !g.subscribed {
		return nil
	}
	g.client.AllowRebalance()
	short, cancel := context.WithTimeout(ctx, leaveGrace)
	defer cancel()
	err := g.client.LeaveGroupContext(short)
	if isContext(err) {
		err = g.leaveDirectly(ctx)
		// The join may never be answered; there is nothing to wait for.
		g.cancel()
	}
	if err == nil || isRebalance(err) || isFencing(err) {
		return nil // gone already
	}
	return g.typed(fmt.Sprintf("leave group %q", g.group), err)
}

func (g *groupConsumer) leaveDirectly(ctx context.Context) error {
	id, _ := g.client.GroupMetadata()
	if id == "" || g.instanceID != "" {
		return nil // not in the group yet, or a static member that keeps its place
	}
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = id
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = g.group
	req.MemberID = id
	req.Members = append(req.Members, member)
	resp, err := req.RequestWith(ctx, g.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

func epochOffsets(offsets map[columnar.TopicPartition]int64) map[string]map[int32]kgo.EpochOffset {
	m := make(map[string]map[int32]kgo.EpochOffset)
	for tp, offset := range offsets {
		if m[tp.Topic] == nil {
			m[tp.Topic] = make(map[int32]kgo.EpochOffset)
		}
		m[tp.Topic][int32(tp.Partition)] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	return m
}

func comparePartitions(a, b columnar.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// fake is a coordinator and a log in memory, with the four methods that a
// transport needs and no other. A hook runs before its call takes effect, with
// the number of the call from 1 on, and its error is the answer.
type fake struct {
	onRead     func(ctx context.Context, n int) error
	onAppend   func(ctx context.Context, n int) error
	onMint     func(ctx context.Context, n int) error
	onWrite    func(ctx context.Context, n int) error
	onDescribe func(ctx context.Context, n int) error
	compacts   bool // the log keeps the newest record of each key alone

	mu        sync.Mutex // guards the fields below
	next      map[coordination.TopicPartition]int64
	log       map[coordination.TopicPartition][]coordination.StateRecord
	epochs    map[coordination.Role]coordination.FencingToken
	calls     map[string]int
	order     []string
	changed   chan struct{}
	producers int64
}

var _ coordination.Transport = (*fake)(nil)

func newFake() *fake {
	return &fake{
		log:       make(map[coordination.TopicPartition][]coordination.StateRecord),
		next:      make(map[coordination.TopicPartition]int64),
		epochs:    make(map[coordination.Role]coordination.FencingToken),
		calls:     make(map[string]int),
		changed:   make(chan struct{}),
		producers: 1,
	}
}

// enter counts a call and runs its hook.
func (f *fake) enter(ctx context.Context, name string, hook func(context.Context, int) error) error {
	f.mu.Lock()
	f.calls[name]++
	f.order = append(f.order, name)
	n := f.calls[name]
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, n); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// count returns the number of calls so far.
func (f *fake) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

// await waits until a call was made at least n times.
func (f *fake) await(tb testing.TB, name string, n int) {
	tb.Helper()
	ctx := within(tb, patience)
	for {
		f.mu.Lock()
		reached, changed := f.calls[name] >= n, f.changed
		f.mu.Unlock()
		if reached {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			tb.Fatalf("%d calls of %s, want %d", f.count(name), name, n)
		}
	}
}

func (f *fake) AcquireEpoch(ctx context.Context, role coordination.Role) (coordination.FencingToken, error) {
	if err := f.enter(ctx, "mint", f.onMint); err != nil {
		return coordination.NoEpoch, err
	}
	return f.supersede(role), nil
}

// supersede mints an epoch as another process does.
func (f *fake) supersede(role coordination.Role) coordination.FencingToken {
	f.mu.Lock()
	defer f.mu.Unlock()
	producerID, epoch := f.producers, int16(0)
	if last, taken := f.epochs[role]; taken {
		producerID, epoch = last.ProducerID(), last.ProducerEpoch()+1
	} else {
		f.producers++
	}
	minted, err := coordination.NewFencingToken(producerID, epoch)
	if err != nil {
		panic(err)
	}
	f.epochs[role] = minted
	return minted
}

func (f *fake) DescribeEpoch(ctx context.Context, role coordination.Role) (coordination.FencingToken, bool, error) {
	if err := f.enter(ctx, "describe", f.onDescribe); err != nil {
		return coordination.NoEpoch, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	minted, taken := f.epochs[role]
	return minted, taken, nil
}

func (f *fake) ReadPartition(ctx context.Context, partition coordination.TopicPartition) ([]coordination.StateRecord, error) {
	if err := f.enter(ctx, "read", f.onRead); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log[partition]), nil
}

func (f *fake) Append(ctx context.Context, partition coordination.TopicPartition, key, value []byte) error {
	if err := f.enter(ctx, "append", f.onAppend); err != nil {
		return err
	}
	f.put(partition, key, value)
	return nil
}

func (f *fake) WriteLease(ctx context.Context, partition coordination.TopicPartition, token coordination.FencingToken, key, value []byte) error {
	_, err := f.writeLease(ctx, partition, token, key, value)
	return err
}

func (f *fake) writeLease(ctx context.Context, partition coordination.TopicPartition, token coordination.FencingToken, key, value []byte) (int64, error) {
	if err := f.enter(ctx, "write", f.onWrite); err != nil {
		return -1, err
	}
	decoded, err := coordination.DecodeKey(key)
	if err != nil {
		return -1, err
	}
	f.mu.Lock()
	newest := f.epochs[decoded.Role]
	f.mu.Unlock()
	if newest != token {
		return -1, fmt.Errorf("token %s: %w", token, coordination.ErrFenced)
	}
	return f.put(partition, key, value), nil
}

func (f *fake) put(partition coordination.TopicPartition, key, value []byte) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	offset := f.next[partition]
	f.next[partition]++
	if f.compacts {
		f.log[partition] = slices.DeleteFunc(f.log[partition], func(r coordination.StateRecord) bool { return bytes.Equal(r.Key, key) })
	}
	f.log[partition] = append(f.log[partition], coordination.StateRecord{
		Offset: offset, Key: bytes.Clone(key), Value: bytes.Clone(value),
	})
	return offset
}

// register puts a registration into the log.
func (f *fake) register(at coordination.TopicPartition, role coordination.Role, member coordination.MemberID, registeredAt int64) {
	f.put(at, coordination.EncodeKey(coordination.RegistrationKey(role, member)),
		coordination.EncodeRegistration(coordination.Registration{Member: member, RegisteredAt: registeredAt}))
}

// grant puts a lease into the log, under the newest epoch of the role.
func (f *fake) grant(at coordination.TopicPartition, role coordination.Role, member coordination.MemberID, grantedAt, deadline int64) {
	minted := f.supersede(role)
	f.put(at, coordination.EncodeKey(coordination.LeaseKey(role)), coordination.EncodeLease(coordination.Lease{
		Member: member, Token: minted, GrantedAt: grantedAt, Deadline: deadline,
	}))
}

// leases returns the lease records of a role in log order, nil for a
// tombstone.
func (f *fake) leases(tb testing.TB, at coordination.TopicPartition, role coordination.Role) []*coordination.Lease {
	tb.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var leases []*coordination.Lease
	for _, record := range f.log[at] {
		key, err := coordination.DecodeKey(record.Key)
		if err != nil {
			tb.Fatal(err)
		}
		if key.Kind != coordination.KindLease || key.Role != role {
			continue
		}
		if coordination.IsTombstone(record.Value) {
			if record.Value != nil {
				tb.Error("a lease was cleared with an empty value instead of null")
			}
			leases = append(leases, nil)
			continue
		}
		lease, err := coordination.DecodeLease(record.Value)
		if err != nil {
			tb.Fatal(err)
		}
		leases = append(leases, &lease)
	}
	return leases
}

// within returns a context that ends when a test has waited too long.
func within(tb testing.TB, extent time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), extent)
	tb.Cleanup(cancel)
	return ctx
}

// patienceVariable holds another [patience], for tests that are meant to fail.
const patienceVariable = "COORDINATION_TEST_PATIENCE"

// patience bounds a wait of a test; reaching it is a failure. It is long enough
// for a machine that is busy with much else.
var patience = func() time.Duration {
	if other, err := time.ParseDuration(os.Getenv(patienceVariable)); err == nil {
		return other
	}
	return 3 * time.Minute
}()

var errBroken = errors.New("broken transport")

// brokenAfter is a hook that fails every call but the first ones.
func brokenAfter(calls int) func(context.Context, int) error {
	return func(_ context.Context, n int) error {
		if n > calls {
			return errBroken
		}
		return nil
	}
}

// fixture is one role on a fake, with the timings that most tests share.
type fixture struct {
	*fake
	clock *coordination.ManualClock
	role  coordination.Role
	at    coordination.TopicPartition
}

func newFixture(tb testing.TB, nowMillis int64) *fixture {
	tb.Helper()
	f := &fixture{fake: newFake(), clock: coordination.NewManualClock(nowMillis), role: role(tb, "controller")}
	var err error
	if f.at, err = coordination.RoleTopicPartition(f.role, f.options()...); err != nil {
		tb.Fatal(err)
	}
	return f
}

func (f *fixture) options(more ...coordination.Option) []coordination.Option {
	return append([]coordination.Option{
		coordination.WithClock(f.clock),
		coordination.WithPartitions(1),
		coordination.WithLeaseDuration(30 * time.Second),
		coordination.WithRenewInterval(10 * time.Second),
		coordination.WithChallengeStagger(5 * time.Second),
		coordination.WithPollInterval(time.Second),
	}, more...)
}

// acquire takes the role for a member that does not have to wait, and resigns
// when the test ends.
func (f *fixture) acquire(tb testing.TB, name string, more ...coordination.Option) *coordination.Leadership {
	tb.Helper()
	l, err := coordination.AcquireLeadership(tb.Context(), f.fake, f.role, member(tb, name), f.options(more...)...)
	if err != nil {
		tb.Fatal(err)
	}
	release(tb, l)
	return l
}

// release ends the leadership with the test.
func release(tb testing.TB, l *coordination.Leadership) {
	tb.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := l.Resign(ctx); err != nil && !errors.Is(err, errBroken) && !errors.Is(err, context.Canceled) {
			tb.Errorf("resign at the end of the test: %v", err)
		}
	})
}

// outcome is what AcquireLeadership returned.
type outcome struct {
	leadership *coordination.Leadership
	err        error
}

// compete acquires in the background.
func (f *fixture) compete(ctx context.Context, tb testing.TB, name string, more ...coordination.Option) <-chan outcome {
	return f.competeOn(ctx, tb, f.fake, name, more...)
}

func (f *fixture) competeOn(ctx context.Context, tb testing.TB, transport coordination.Transport, name string, more ...coordination.Option) <-chan outcome {
	tb.Helper()
	id := member(tb, name)
	result := make(chan outcome, 1)
	go func() {
		l, err := coordination.AcquireLeadership(ctx, transport, f.role, id, f.options(more...)...)
		if l != nil {
			release(tb, l)
		}
		result <- outcome{l, err}
	}()
	return result
}

// receive waits for the outcome of a background acquisition.
func receive(tb testing.TB, result <-chan outcome) outcome {
	tb.Helper()
	select {
	case o := <-result:
		return o
	case <-within(tb, patience).Done():
		tb.Fatal("the acquisition did not return")
		return outcome{}
	}
}

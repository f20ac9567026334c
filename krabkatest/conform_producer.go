// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// CheckProducer checks that producers do what a runner relies on a
// [columnar.Producer] to do. It returns nil or the joined [*CaseError] values. ctx
// bounds the suite. It needs NewTopic, Read and NewProducer.
func CheckProducer(ctx context.Context, clients Clients) error {
	return runCases(ctx, "CheckProducer", clients, []conformanceCase{
		{"what was acknowledged is there, as it was sent", producerRecords},
		{"done is called once for each record, also of concurrent sends", producerDone},
		{"bytes belong to the caller behind done", producerBytes},
		{"records of one key keep their order", producerOrder},
	})
}

// CheckPositionReader checks that members that are a [columnar.PositionReader] tell
// the next offset that they deliver, which barriers close by. It returns nil or the
// joined [*CaseError] values. ctx bounds the suite. It needs NewTopic, NewGroup,
// Produce, NewMember and NewTransactional.
func CheckPositionReader(ctx context.Context, clients Clients) error {
	return runCases(ctx, "CheckPositionReader", clients, []conformanceCase{
		{"the position of an empty partition is known, and of a strange one not", positionOfEmpty},
		{"the position is behind what was delivered, and not ahead of it", positionBehindRecords},
		{"the position passes what is never delivered", positionPassesAborted},
		{"the position is that of a seek", positionOfSeek},
	})
}

// CheckTransactionalProducer checks that transactional members do what an
// exactly-once runner relies on a [columnar.TransactionalProducer] to do, with the
// optional seams that they have. It returns nil or the joined [*CaseError] values. ctx
// bounds the suite. It needs NewTopic, NewGroup, Produce, Read and NewTransactional.
func CheckTransactionalProducer(ctx context.Context, clients Clients) error {
	return runCases(ctx, "CheckTransactionalProducer", clients, []conformanceCase{
		{"records and offsets become visible together", transactionCommits},
		{"an aborted transaction has not happened", transactionAborts},
		{"a transaction may hold offsets alone, or nothing", transactionWithoutRecords},
		{"an abort without a transaction does nothing", transactionAbortsNothing},
		{"transactions follow each other at once", transactionsBackToBack},
		{"a newer owner of the id fences the older one", transactionFencing},
		{"offsets of another member are refused", transactionForeignOffsets},
		{"offsets of a generation that has passed are refused", transactionOldGeneration},
		{"a note stays beside its offset until the next commit", transactionNotes},
	})
}

func (s *checks) producer() (columnar.Producer, error) {
	p, close, err := s.clients.NewProducer()
	if err == nil {
		s.closers = append(s.closers, close)
	}
	return p, err
}

func producerRecords(s *checks) error {
	topic, _, err := s.topic(1)
	if err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	want := []columnar.ProduceRecord{
		{Key: []byte("k"), Value: []byte("v"), Timestamp: 1000, Headers: []columnar.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}}},
		{Key: []byte("k"), Value: nil, Timestamp: 1001},
		{Key: []byte("k"), Value: []byte{}, Timestamp: 1002},
	}
	for _, record := range want {
		done := make(chan error, 1)
		p.Send(topic, record, func(err error) { done <- err })
		if err := s.await(done); err != nil {
			return err
		}
	}
	got, err := s.clients.Read(s.ctx, topic, 0)
	if err != nil || len(got) != len(want) {
		return errors.Join(err, fmt.Errorf("%d records are there, want %d", len(got), len(want)))
	}
	for i := range want {
		if !sameRecord(want[i], got[i]) {
			s.errorf("record %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	return nil
}

func (s *checks) await(done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-s.ctx.Done():
		return fmt.Errorf("waiting for an acknowledgement: %w", s.ctx.Err())
	}
}

func producerDone(s *checks) error {
	topic, _, err := s.topic(1)
	if err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	const senders, each = 4, 25
	var calls [senders * each]atomic.Int32
	acknowledged := make(chan error, 2*len(calls))
	var sending sync.WaitGroup
	for sender := range senders {
		sending.Go(func() {
			for i := range each {
				n := sender*each + i
				p.Send(topic, columnar.ProduceRecord{Key: []byte{byte(sender)}, Value: []byte(fmt.Sprint(n))}, func(err error) {
					calls[n].Add(1)
					acknowledged <- err
				})
			}
		})
	}
	sending.Wait()
	for range calls {
		if err := s.await(acknowledged); err != nil {
			return err
		}
	}
	records, err := s.clients.Read(s.ctx, topic, 0)
	if len(records) != len(calls) {
		s.errorf("%d records are there, want %d", len(records), len(calls))
	}
	for n := range calls {
		if got := calls[n].Load(); got != 1 {
			s.errorf("done of record %d was called %d times", n, got)
		}
	}
	return err
}

func producerBytes(s *checks) error {
	topic, _, err := s.topic(1)
	if err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	value := []byte("before")
	done := make(chan error, 1)
	p.Send(topic, columnar.ProduceRecord{Value: value}, func(err error) { done <- err })
	if err := s.await(done); err != nil {
		return err
	}
	copy(value, "behind")
	return s.expectOutput(topic, "before")
}

func producerOrder(s *checks) error {
	topic, _, err := s.topic(1)
	if err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	values := make([]string, 50)
	for i := range values {
		values[i] = fmt.Sprint(i)
	}
	if err := s.sendAll(p, topic, values...); err != nil {
		return err
	}
	return s.expectOutput(topic, strings.Join(values, " "))
}

// position returns the position of a partition; -1 where it is omitted.
func (s *checks) position(o *observed, tp columnar.TopicPartition) (int64, error) {
	positions, err := o.Consumer.(columnar.PositionReader).Positions(s.ctx, []columnar.TopicPartition{tp})
	if at, ok := positions[tp]; ok {
		return at, err
	}
	return -1, err
}

// untilPosition polls until a partition stands at a position.
func (s *checks) untilPosition(o *observed, tp columnar.TopicPartition, want int64) error {
	var failed error
	last := int64(-1)
	err := s.until(fmt.Sprintf("position %d of %s/%d", want, tp.Topic, tp.Partition), func() bool {
		last, failed = s.position(o, tp)
		return failed != nil || last == want
	}, o)
	if err != nil {
		return fmt.Errorf("the position is %d: %w", last, err)
	}
	return failed
}

// positioned returns a member that tells positions.
func (s *checks) positioned(topic string) (*observed, error) {
	m, err := s.member(s.clients.NewGroup(), topic)
	if err == nil {
		if _, ok := m.Consumer.(columnar.PositionReader); !ok {
			err = fmt.Errorf("a %T is no PositionReader", m.Consumer)
		}
	}
	return m, err
}

func positionOfEmpty(s *checks) error {
	topic, tp, err := s.topic(1)
	if err != nil {
		return err
	}
	m, err := s.positioned(topic)
	if err == nil {
		err = s.untilPosition(m, tp, 0)
	}
	if err != nil {
		return err
	}
	if at, err := s.position(m, columnar.TopicPartition{Topic: topic, Partition: 5}); at >= 0 || err != nil {
		s.errorf("the position of a partition that is not assigned is %d, %v", at, err)
	}
	return nil
}

func positionBehindRecords(s *checks) error {
	topic, tp, err := s.topic(1, "a", "b", "c", "d")
	if err != nil {
		return err
	}
	m, err := s.positioned(topic)
	if err != nil {
		return err
	}
	if bounder, ok := m.Consumer.(columnar.PollBounder); ok {
		bounder.BoundPolls(1)
	}
	next := int64(0)
	for next < 4 {
		records, err := m.pollRaw(s.ctx)
		if err != nil {
			return err
		}
		if n := len(records[tp]); n > 0 {
			next = records[tp][n-1].Offset + 1
		}
		if at, err := s.position(m, tp); err != nil || at > next || at < next && len(records[tp]) > 0 {
			s.errorf("the position is %d, %v behind a poll up to offset %d", at, err, next)
		}
	}
	return nil
}

func positionPassesAborted(s *checks) error {
	topic, tp, err := s.topic(1, "a")
	if err != nil {
		return err
	}
	scratch, _, err := s.topic(1)
	if err != nil {
		return err
	}
	_, p, err := s.transactional(s.clients.NewGroup(), s.clients.NewGroup(), scratch)
	if err == nil {
		err = errors.Join(p.BeginTransaction(), s.sendAll(p, topic, "x", "y"), p.AbortTransaction())
	}
	if err != nil {
		return err
	}
	m, err := s.positioned(topic)
	if err != nil {
		return err
	}
	return s.untilPosition(m, tp, 4) // a record, two of the transaction, and its marker
}

func positionOfSeek(s *checks) error {
	topic, tp, err := s.topic(1, "a", "b", "c")
	if err != nil {
		return err
	}
	m, err := s.positioned(topic)
	if err == nil {
		err = s.untilPosition(m, tp, 3)
	}
	if err == nil {
		err = m.Seek(tp, 1)
	}
	if err != nil {
		return err
	}
	if at, err := s.position(m, tp); at != 1 || err != nil {
		s.errorf("the position behind a seek to 1 is %d, %v", at, err)
	}
	return nil
}

// transactionCase is a topic to read, one to write, and a member that owns the first.
type transactionCase struct {
	*observed
	columnar.TransactionalProducer
	group, out string
	in         columnar.TopicPartition
}

func (s *checks) transactionCase() (*transactionCase, error) {
	topic, in, err := s.topic(1, "a", "b")
	if err != nil {
		return nil, err
	}
	out, _, err := s.topic(1)
	if err != nil {
		return nil, err
	}
	c := &transactionCase{group: s.clients.NewGroup(), out: out, in: in}
	c.observed, c.TransactionalProducer, err = s.transactional(c.group, s.clients.NewGroup(), topic)
	if err == nil {
		err = s.expect(c.observed, in, "a", "b")
	}
	return c, err
}

func (c *transactionCase) moves(offset int64) error {
	return c.SendOffsets(map[columnar.TopicPartition]int64{c.in: offset}, c.GroupMetadata())
}

// expectCommitted compares what the group has committed, -1 for nothing, and the
// output.
func (s *checks) expectCommitted(c *transactionCase, offset int64, output string) error {
	err := s.expectOutput(c.out, output)
	reader, ok := c.Consumer.(columnar.CommittedReader)
	if err != nil || !ok {
		return err
	}
	committed, err := reader.Committed(s.ctx, []columnar.TopicPartition{c.in})
	if at, ok := committed[c.in]; ok != (offset >= 0) || ok && at != offset {
		s.errorf("committed are %v, want %d", committed, offset)
	}
	return err
}

func transactionCommits(s *checks) error {
	c, err := s.transactionCase()
	if err != nil {
		return err
	}
	if err := errors.Join(c.BeginTransaction(), s.sendAll(c, c.out, "x", "y"), c.moves(1)); err != nil {
		return err
	}
	if err := s.expectOutput(c.out, ""); err != nil {
		return err
	}
	if err := c.CommitTransaction(); err != nil {
		return err
	}
	return s.expectCommitted(c, 1, "x y")
}

func transactionAborts(s *checks) error {
	c, err := s.transactionCase()
	if err != nil {
		return err
	}
	if err := errors.Join(c.BeginTransaction(), s.sendAll(c, c.out, "x"), c.moves(2), c.AbortTransaction()); err != nil {
		return err
	}
	if err := s.expectCommitted(c, -1, ""); err != nil {
		return err
	}
	if err := c.Seek(c.in, 0); err != nil {
		return err
	}
	if err := s.expect(c.observed, c.in, "a", "b"); err != nil {
		return err
	}
	if err := errors.Join(c.BeginTransaction(), s.sendAll(c, c.out, "y"), c.moves(2), c.CommitTransaction()); err != nil {
		return err
	}
	return s.expectCommitted(c, 2, "y")
}

func transactionWithoutRecords(s *checks) error {
	c, err := s.transactionCase()
	if err != nil {
		return err
	}
	if err := errors.Join(c.BeginTransaction(), c.moves(1), c.CommitTransaction()); err != nil {
		return err
	}
	if err := s.expectCommitted(c, 1, ""); err != nil {
		return err
	}
	if err := errors.Join(c.BeginTransaction(), c.CommitTransaction()); err != nil {
		return err
	}
	return s.expectCommitted(c, 1, "")
}

func transactionAbortsNothing(s *checks) error {
	c, err := s.transactionCase()
	if err != nil {
		return err
	}
	if err := errors.Join(c.AbortTransaction(), c.BeginTransaction(), c.AbortTransaction(), c.AbortTransaction()); err != nil {
		return err
	}
	return s.expectCommitted(c, -1, "")
}

func transactionsBackToBack(s *checks) error {
	c, err := s.transactionCase()
	if err != nil {
		return err
	}
	var want []string
	for i := range 10 {
		value := fmt.Sprint(i)
		want = append(want, value)
		if err := errors.Join(c.BeginTransaction(), s.sendAll(c, c.out, value), c.moves(int64(1+i%2)), c.CommitTransaction()); err != nil {
			return fmt.Errorf("transaction %d: %w", i, err)
		}
	}
	return s.expectCommitted(c, 2, strings.Join(want, " "))
}

func transactionFencing(s *checks) error {
	topic, in, err := s.topic(1, "a")
	if err != nil {
		return err
	}
	out, _, err := s.topic(1)
	if err != nil {
		return err
	}
	group, id := s.clients.NewGroup(), s.clients.NewGroup()
	old, fenced, err := s.transactional(group, id, topic)
	if err == nil {
		err = s.expect(old, in, "a")
	}
	if err == nil {
		err = errors.Join(fenced.BeginTransaction(), s.sendAll(fenced, out, "x"))
	}
	if err != nil {
		return err
	}
	_, newer, err := s.transactional(group, id, topic)
	if err != nil {
		return err
	}
	if err := errors.Join(newer.BeginTransaction(), s.sendAll(newer, out, "y"), newer.CommitTransaction()); err != nil {
		return fmt.Errorf("the newer owner: %w", err)
	}
	err = errors.Join(s.sendAll(fenced, out, "z"), fenced.CommitTransaction())
	if !errors.As(err, new(*columnar.FencedError)) {
		s.errorf("the older owner's transaction ended with %v, want a FencedError", err)
	}
	return s.expectOutput(out, "y")
}

func transactionForeignOffsets(s *checks) error {
	c, err := s.transactionCase()
	if err != nil {
		return err
	}
	if err := errors.Join(c.BeginTransaction(), s.sendAll(c, c.out, "x")); err != nil {
		return err
	}
	foreign := columnar.TopicPartition{Topic: c.in.Topic, Partition: 9}
	err = c.SendOffsets(map[columnar.TopicPartition]int64{foreign: 1}, c.GroupMetadata())
	if err == nil {
		err = c.CommitTransaction()
	}
	if err == nil {
		s.errorf("the transaction was committed")
	}
	if err := c.AbortTransaction(); err != nil {
		return err
	}
	return s.expectCommitted(c, -1, "")
}

func transactionOldGeneration(s *checks) error {
	topic, _, err := s.topic(2)
	if err != nil {
		return err
	}
	out, _, err := s.topic(1)
	if err != nil {
		return err
	}
	group := s.clients.NewGroup()
	first, p, err := s.transactional(group, s.clients.NewGroup(), topic)
	if err == nil {
		err = s.settle(2, first)
	}
	if err != nil {
		return err
	}
	metadata := first.GroupMetadata()
	second, _, err := s.transactional(group, s.clients.NewGroup(), topic)
	if err == nil {
		err = s.settle(2, first, second)
	}
	if err != nil {
		return err
	}
	moved := sorted(second.owned)[0]
	if err := errors.Join(p.BeginTransaction(), s.sendAll(p, out, "x")); err != nil {
		return err
	}
	err = p.SendOffsets(map[columnar.TopicPartition]int64{moved: 0}, metadata)
	if err == nil {
		err = p.CommitTransaction()
	}
	if err == nil {
		s.errorf("the transaction was committed with the offset of a partition that has moved")
	}
	if err := p.AbortTransaction(); err != nil {
		return err
	}
	return s.expectOutput(out, "")
}

func transactionNotes(s *checks) error {
	c, err := s.transactionCase()
	if err != nil {
		return err
	}
	noter, ok := c.TransactionalProducer.(columnar.OffsetNoter)
	if !ok {
		return nil
	}
	for _, note := range []string{"one", "two", ""} {
		notes := map[columnar.TopicPartition]string{}
		if note != "" {
			notes[c.in] = note
		}
		err := errors.Join(c.BeginTransaction(), noter.SendOffsetsNoted(s.ctx, map[columnar.TopicPartition]int64{c.in: 1}, notes, c.GroupMetadata()), c.CommitTransaction())
		if err != nil {
			return err
		}
		got, err := noter.CommittedNotes(s.ctx, []columnar.TopicPartition{c.in})
		if err != nil || got[c.in] != note {
			s.errorf("the note is %q, %v; want %q", got[c.in], err, note)
		}
	}
	return nil
}

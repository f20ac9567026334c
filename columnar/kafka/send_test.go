// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// contextHook is a tracer that gives records another context.
type contextHook struct{ seen int }

func (h *contextHook) OnProduceRecordBuffered(r *kgo.Record) {
	h.seen++
	r.Context = context.Background()
}

// Hooks of the caller may see records, and may take their context away: whoever
// sent them hears of them all the same.
func TestRecordsThatHooksSeeAreAcknowledged(t *testing.T) {
	c := newFake(t)
	in, out := c.topic(t, 1), c.topic(t, 1)
	for _, hooked := range []bool{false, true} {
		hook := &contextHook{}
		var options []kgo.Opt
		if hooked {
			options = append(options, kgo.WithHooks(hook))
		}
		producer, err := kafka.NewProducer(c.opts(options...)...)
		if err != nil {
			t.Fatalf("new producer: %v", err)
		}
		closing(t, producer)
		member := c.transactional(t, unique("group"), unique("id"), nil, []string{in}, options...)
		if err := member.BeginTransaction(); err != nil {
			t.Fatalf("begin: %v", err)
		}
		for _, sender := range []columnar.Producer{producer, member} {
			if diff := cmp.Diff([]error{nil, nil}, sendAll(t, sender, out, "x", "y")); diff != "" {
				t.Errorf("hooked %v: outcomes of a %T mismatch (-want +got):\n%s", hooked, sender, diff)
			}
			var topicErr *columnar.TopicError
			if errs := sendAll(t, sender, "nowhere", "z"); !errors.As(errs[0], &topicErr) || topicErr.Topic != "nowhere" {
				t.Errorf("hooked %v: outcome of a %T = %v, want a TopicError of nowhere", hooked, sender, errs)
			}
		}
		if err := member.CommitTransaction(); !errors.As(err, new(*columnar.TransactionAbortedError)) {
			t.Errorf("hooked %v: commit behind a record that failed = %v, want a TransactionAbortedError", hooked, err)
		}
		if want := map[bool]int{false: 0, true: 6}[hooked]; hook.seen != want {
			t.Errorf("hooked %v: the hook saw %d records, want %d", hooked, hook.seen, want)
		}
	}
	if diff := cmp.Diff([]string{"x", "y", "x", "y"}, c.values(t, out)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

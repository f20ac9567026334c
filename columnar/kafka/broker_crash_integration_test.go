// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kafka_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// struckMember calls strike ahead of the steps that end a transaction.
type struckMember struct {
	*kafka.TransactionalMember
	strike func(step string)
}

func (m struckMember) SendOffsetsNoted(ctx context.Context, offsets map[columnar.TopicPartition]int64, notes map[columnar.TopicPartition]string, metadata any) error {
	m.strike("offsets")
	return m.TransactionalMember.SendOffsetsNoted(ctx, offsets, notes, metadata)
}

func (m struckMember) CommitTransactionContext(ctx context.Context) error {
	m.strike("commit")
	return m.TransactionalMember.CommitTransactionContext(ctx)
}

// The only broker crashes while a transaction has records, and while it has
// offsets too, and comes back.
func TestRealCountsAreExactThroughABrokerCrash(t *testing.T) {
	broker := kafkatest.Start(t, kafkatest.Options{TransactionVersion: 2})
	for _, step := range []string{"offsets", "commit"} {
		t.Run(step, func(t *testing.T) {
			j := newTallyJob(t, cluster{brokers: []string{broker.Addr}}, true)
			member, err := kafka.NewTransactionalMember(j.group, j.id, j.opts()...)
			if err != nil {
				t.Fatal(err)
			}
			closing(t, member)
			armed := false
			struck := struckMember{member, func(at string) {
				if armed && at == step {
					armed = false
					broker.Kill()
					broker.Restart()
				}
			}}
			runner, err := columnar.NewGroupRunner(j.topology(t, &faults{}), struck, struck,
				columnar.WithStateStore(columnar.NewFileStateStore(j.dir)))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = runner.Close() })
			j.fill(t, 30)
			for i := range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
				defer cancel()
				for !cmp.Equal(j.ends(), j.committed(t, j.group, j.in)) {
					_, err := runner.RunOnceTransactional(ctx, 200*time.Millisecond)
					if err != nil && !columnar.IsRetriable(err) && !errors.As(err, new(*columnar.CommitUnknownError)) {
						t.Fatalf("round = %v", err)
					}
					if err != nil {
						t.Logf("round: %v", err)
					}
				}
				if i == 0 {
					armed = true
					j.fill(t, 30)
				}
			}
			if armed {
				t.Error("the broker did not crash")
			}
			j.check(t)
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The service counts, is stopped, and goes on counting where it was.
func TestServiceCountsAcrossRestarts(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "visits", "visits-per-user", "visits-failed"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	brokers, state := cluster.ListenAddrs()[0], t.TempDir()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.ConsumeTopics("visits-per-user", "visits-failed"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	for _, run := range []struct {
		visits []string
		want   map[string]string
	}{
		{
			visits: []string{`{"user":"ada"}`, `{"user":"alan"}`, `{"user":"ada"}`},
			want: map[string]string{
				`visits-per-user {"user":"ada"}`:  `{"user":"ada","visits":2}`,
				`visits-per-user {"user":"alan"}`: `{"user":"alan","visits":1}`,
			},
		},
		{
			visits: []string{`{"user":7}`, `{"user":"ada"}`},
			want: map[string]string{
				`visits-failed `:                 `{"user":7}`,
				`visits-per-user {"user":"ada"}`: `{"user":"ada","visits":3}`,
			},
		},
	} {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		var records []*kgo.Record
		for _, visit := range run.visits {
			records = append(records, &kgo.Record{Topic: "visits", Value: []byte(visit)})
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- serve(ctx, brokers, state) }()
		got := map[string]string{}
		for !maps.Equal(got, run.want) && ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				got[r.Topic+" "+string(r.Key)] = string(r.Value)
			})
		}
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if diff := cmp.Diff(run.want, got); diff != "" {
			t.Errorf("counts mismatch (-want +got):\n%s", diff)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// constructors build each kind of client with given options.
var constructors = map[string]func(...kgo.Opt) (closer, error){
	"member":               func(opts ...kgo.Opt) (closer, error) { return kafka.NewMember("g", opts...) },
	"transactional member": func(opts ...kgo.Opt) (closer, error) { return kafka.NewTransactionalMember("g", "id", opts...) },
	"reader":               func(opts ...kgo.Opt) (closer, error) { return kafka.NewReader(opts...) },
	"producer":             func(opts ...kgo.Opt) (closer, error) { return kafka.NewProducer(opts...) },
}

func TestOptionsThatTheAdapterOwnsAreRefused(t *testing.T) {
	members := []string{"member", "transactional member"}
	consumers := append([]string{"reader"}, members...)
	producers := append([]string{"producer"}, members...)
	tests := []struct {
		option string // as the error names it
		opt    kgo.Opt
		refuse []string
	}{
		{"FetchIsolationLevel", kgo.FetchIsolationLevel(kgo.ReadUncommitted()), consumers},
		{"ConsumeResetOffset", kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), consumers},
		{"ConsumeStartOffset", kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()), consumers},
		{"ConsumeTopics", kgo.ConsumeTopics("t"), consumers},
		{"ConsumePartitions", kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset()}}), []string{"reader"}},
		{"ConsumeRegex", kgo.ConsumeRegex(), consumers},
		{"ConsumerGroup", kgo.ConsumerGroup("other"), consumers},
		{"TransactionalID", kgo.TransactionalID("other"), []string{"member", "transactional member", "reader", "producer"}},
		{"Balancers", kgo.Balancers(kgo.RangeBalancer()), members},
		{"Balancers", kgo.Balancers(kgo.CooperativeStickyBalancer()), members},
		{"ServerSideBalancer", kgo.ServerSideBalancer(), members},
		{"GroupProtocol", kgo.GroupProtocol("connect"), members},
		{"ManualFlushing", kgo.ManualFlushing(), producers},
		{"RecordDeliveryTimeout", kgo.RecordDeliveryTimeout(time.Minute), producers},
		{"DisableIdempotentWrite", kgo.DisableIdempotentWrite(), []string{"member", "producer"}},
		{"WithContext", kgo.WithContext(context.Background()), []string{"member", "transactional member", "reader", "producer"}},
		{"WithRetainedCuts", kafka.WithRetainedCuts(3), []string{"member", "transactional member", "reader", "producer"}},
		{"WithUnequalPartitions", kafka.WithUnequalPartitions(), []string{"reader", "producer"}},
		{"WithCommitGroup", kafka.WithCommitGroup("g"), producers},
		{"WithCallTimeout", kafka.WithCallTimeout(0), []string{"member", "transactional member", "reader", "producer"}},
		{"WithDeliveryTimeout", kafka.WithDeliveryTimeout(-1), producers},
		{"WithRebalancePending", kafka.WithRebalancePending(nil), members},
		{"WithCommitGroup", kafka.WithCommitGroup(""), []string{"reader"}},
	}
	for _, tt := range tests {
		for _, kind := range tt.refuse {
			c, err := constructors[kind](tt.opt)
			if err == nil {
				t.Errorf("%s with %s: no error", kind, tt.option)
				_ = c.Close()
				continue
			}
			var option *kafka.OptionError
			if !errors.As(err, &option) || option.Option != tt.option {
				t.Errorf("%s with %s: %v, want an OptionError that names it", kind, tt.option, err)
			}
		}
	}
}

func TestAllRefusedOptionsAreNamed(t *testing.T) {
	_, err := kafka.NewReader(kgo.FetchIsolationLevel(kgo.ReadUncommitted()), kgo.ConsumeTopics("t"))
	want := "kafka: option FetchIsolationLevel is 0, need 1\nkafka: option ConsumeTopics is [t], need []"
	if err == nil || err.Error() != want {
		t.Errorf("error = %v, want %q", err, want)
	}
	_, err = kafka.NewReader(nil, kafka.WithRetainedCuts(1))
	if err == nil || !strings.Contains(err.Error(), "option 0 is nil") || !strings.Contains(err.Error(), "WithRetainedCuts") {
		t.Errorf("error = %v, want it to name both options", err)
	}
}

func TestIdentityIsRequired(t *testing.T) {
	for name, build := range map[string]func() error{
		"ConsumerGroup":   func() error { _, err := kafka.NewMember(""); return err },
		"TransactionalID": func() error { _, err := kafka.NewTransactionalMember("g", ""); return err },
	} {
		var option *kafka.OptionError
		if err := build(); !errors.As(err, &option) || option.Option != name {
			t.Errorf("error = %v, want an OptionError of %s", err, name)
		}
	}
}

func TestOptionsThatTheCallerOwnsAreTaken(t *testing.T) {
	for kind, build := range constructors {
		c, err := build(kgo.ClientID("me"), kgo.SeedBrokers("127.0.0.1:1"), kgo.FetchMaxBytes(1<<20), kgo.ProducerLinger(0),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if err := c.Close(); err != nil {
			t.Errorf("%s: close: %v", kind, err)
		}
	}
}

func TestUnreachableBrokersAreNamedInTime(t *testing.T) {
	m, err := kafka.NewMember("g", kgo.SeedBrokers("127.0.0.1:1", "127.0.0.1:2"), kafka.WithCallTimeout(200*time.Millisecond))
	if err != nil {
		t.Fatalf("new member: %v", err)
	}
	closing(t, m)
	begun := time.Now()
	err = m.Subscribe([]string{"t"}, nil)
	var unreachable *kafka.UnreachableError
	if !errors.As(err, &unreachable) {
		t.Fatalf("Subscribe = %v, want an UnreachableError", err)
	}
	if diff := cmp.Diff([]string{"127.0.0.1:1", "127.0.0.1:2"}, unreachable.Seeds); diff != "" {
		t.Errorf("seeds mismatch (-want +got):\n%s", diff)
	}
	if !unreachable.Retriable() || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v, want a retriable one that tells the cause", err)
	}
	if took := time.Since(begun); took > patience {
		t.Errorf("Subscribe took %v", took)
	}
}

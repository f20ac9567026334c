// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// producerFunc is a [Producer] made of its Send.
type producerFunc func(topic string, record ProduceRecord, done func(error))

func (f producerFunc) Send(topic string, record ProduceRecord, done func(error)) {
	f(topic, record, done)
}

func outputsTo(topic string, values ...string) []ProducedToTopic {
	var outputs []ProducedToTopic
	for _, value := range values {
		outputs = append(outputs, ProducedToTopic{Topic: topic, Record: ProduceRecord{Value: []byte(value)}})
	}
	return outputs
}

func TestSendAllSendsInOrderAndReturnsTheError(t *testing.T) {
	failure := errors.New("record too large")
	var sent []string
	producer := producerFunc(func(topic string, record ProduceRecord, done func(error)) {
		sent = append(sent, topic+":"+string(record.Value))
		if string(record.Value) == "b" {
			done(failure)
			return
		}
		done(nil)
	})
	if err := SendAll(outputsTo("out", "a", "b", "c"), producer); err != failure {
		t.Errorf("SendAll error = %v; want %v", err, failure)
	}
	if diff := cmp.Diff([]string{"out:a", "out:b", "out:c"}, sent); diff != "" {
		t.Errorf("sends mismatch (-want +got):\n%s", diff)
	}
	if err := SendAll(outputsTo("out", "a", "c"), producer); err != nil {
		t.Errorf("SendAll without a failure = %v", err)
	}
	if err := SendAll(nil, nil); err != nil {
		t.Errorf("SendAll of nothing = %v", err)
	}
}

func TestSendAllJoinsTheFirstErrors(t *testing.T) {
	var outputs []ProducedToTopic
	for i := range 20 {
		outputs = append(outputs, outputsTo("out", fmt.Sprint(i))...)
	}
	err := SendAll(outputs, producerFunc(func(_ string, record ProduceRecord, done func(error)) {
		done(errors.New(string(record.Value)))
	}))
	if want := "0\n1\n2\n3\n4\n5\n6\n7"; err == nil || err.Error() != want {
		t.Errorf("SendAll error = %v; want %q", err, want)
	}
}

func TestSendAllWaitsForAcknowledgementsAndIgnoresExtraOnes(t *testing.T) {
	var acks []func(error)
	sent := make(chan struct{}, 3)
	finished := make(chan error)
	go func() {
		finished <- SendAll(outputsTo("out", "a", "b", "c"), producerFunc(func(_ string, _ ProduceRecord, done func(error)) {
			acks = append(acks, done)
			sent <- struct{}{}
		}))
	}()
	for range 3 {
		<-sent
	}
	acks[2](nil)
	acks[0](nil)
	select {
	case err := <-finished:
		t.Fatalf("SendAll returned %v with one record unacknowledged", err)
	default:
	}
	acks[1](nil)
	if err := <-finished; err != nil {
		t.Errorf("SendAll = %v", err)
	}
	acks[1](errors.New("late"))
}

func TestSendsAreBoundedInFlight(t *testing.T) {
	var mu sync.Mutex
	var acks []func(error)
	peak := 0
	step := make(chan struct{}, 10)
	finished := make(chan error)
	go func() {
		finished <- sendAll(t.Context(), outputsTo("out", "a", "b", "c", "d", "e"), producerFunc(func(_ string, _ ProduceRecord, done func(error)) {
			mu.Lock()
			acks = append(acks, done)
			peak = max(peak, len(acks))
			mu.Unlock()
			step <- struct{}{}
		}), 2)
	}()
	for range 5 {
		<-step
		mu.Lock()
		if len(acks) == 2 {
			acks[0](nil)
			acks = acks[1:]
		}
		mu.Unlock()
	}
	mu.Lock()
	for _, ack := range acks {
		ack(nil)
	}
	mu.Unlock()
	if err := <-finished; err != nil {
		t.Errorf("sendAll = %v", err)
	}
	if peak != 2 {
		t.Errorf("%d records in flight; want 2", peak)
	}
}

func TestSendsEndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	sent := 0
	err := sendAll(ctx, outputsTo("out", "a", "b", "c"), producerFunc(func(string, ProduceRecord, func(error)) {
		sent++
		if sent == 2 {
			cancel()
		}
	}), 10)
	if !errors.Is(err, context.Canceled) || sent != 2 {
		t.Errorf("sendAll = %v after %d sends; want %v after 2", err, sent, context.Canceled)
	}
}

func TestSendsAlreadyAcknowledgedOutliveTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := sendAll(ctx, outputsTo("out", "a"), producerFunc(func(_ string, _ ProduceRecord, done func(error)) {
		done(nil)
		cancel()
	}), 10)
	if err != nil {
		t.Errorf("sendAll = %v; every record was acknowledged", err)
	}
}

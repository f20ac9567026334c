// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"sync"
)

// defaultMaxInFlight is how many records of a round are sent ahead of their
// acknowledgements.
const defaultMaxInFlight = 16384

// maxSendErrors bounds how many failures of one round are reported.
const maxSendErrors = 8

// SendAll sends outputs in order and waits for every acknowledgement. A failed
// send does not keep the ones behind it from being sent. It returns nil for no
// outputs, the error if one send failed, and the first errors, joined in the
// order of their arrival, if several did.
func SendAll(outputs []ProducedToTopic, producer Producer) error {
	return sendAll(context.Background(), outputs, producer, defaultMaxInFlight)
}

// sendAll is SendAll with at most maxInFlight records unacknowledged. When ctx
// ends it sends no more and returns without waiting for what is outstanding.
func sendAll(ctx context.Context, outputs []ProducedToTopic, producer Producer, maxInFlight int) error {
	if len(outputs) == 0 {
		return nil
	}
	flight := inFlight{limit: maxInFlight, goal: nobodyWaits, wake: make(chan struct{}, 1)}
	done := flight.done // one function value for all records
	for _, output := range outputs {
		if err := flight.reserve(ctx); err != nil {
			return errors.Join(err, flight.err())
		}
		producer.Send(output.Topic, output.Record, done)
	}
	if err := flight.drain(ctx); err != nil {
		return errors.Join(err, flight.err())
	}
	return flight.err()
}

// nobodyWaits is a goal that is never reached.
const nobodyWaits = -1

// inFlight counts records that are sent and not acknowledged. One goroutine
// sends; done is called on any.
type inFlight struct {
	limit int
	wake  chan struct{} // holds a token when goal has been reached

	mu      sync.Mutex // guards what follows
	pending int
	goal    int // how many may be pending for the waiting sender to go on
	errs    []error
}

// reserve waits for room for one more record and takes it.
func (f *inFlight) reserve(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.await(ctx, f.limit-1, 1)
}

// drain waits for every acknowledgement.
func (f *inFlight) drain(ctx context.Context) error {
	return f.await(ctx, 0, 0)
}

// await waits until at most limit records are pending, and adds more to them.
func (f *inFlight) await(ctx context.Context, limit, more int) error {
	for {
		f.mu.Lock()
		if f.pending <= limit {
			f.pending += more
			f.mu.Unlock()
			return nil
		}
		f.goal = limit
		f.mu.Unlock()
		select {
		case <-f.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// done takes one acknowledgement. An extra one, from a producer that calls back
// twice, is ignored.
func (f *inFlight) done(err error) {
	f.mu.Lock()
	if f.pending > 0 {
		f.pending--
	}
	if err != nil && len(f.errs) < maxSendErrors {
		f.errs = append(f.errs, err)
	}
	reached := f.pending <= f.goal
	if reached {
		f.goal = nobodyWaits
	}
	f.mu.Unlock()
	if reached {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

func (f *inFlight) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) == 1 {
		return f.errs[0]
	}
	return errors.Join(f.errs...)
}

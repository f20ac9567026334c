// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

// pot collects amounts until time is advanced to a multiple of ten, and then
// passes the sum on and starts over.
type pot struct{ sum int64 }

var errPot = errors.New("pot is stuck")

func (p *pot) Process(_ *Context, batch arrow.RecordBatch) error {
	for row := range int(batch.NumRows()) {
		p.sum += batch.Column(1).(*array.Int64).Value(row)
	}
	return nil
}

func (p *pot) AdvanceTime(ctx *Context, timestamp int64) error {
	if timestamp < 0 {
		return errPot
	}
	names, sums := array.NewStringBuilder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	defer names.Release()
	defer sums.Release()
	names.Append(fmt.Sprintf("p%d", ctx.Partition()))
	sums.Append(p.sum)
	columns := []arrow.Array{names.NewArray(), sums.NewArray()}
	defer releaseArrays(columns)
	ctx.Forward(array.NewRecordBatch(amountSchema, columns, 1))
	p.sum = 0
	return nil
}

func (p *pot) Snapshot() ([]byte, error) { return strconv.AppendInt(nil, p.sum, 10), nil }

func (p *pot) Restore(snapshot []byte) (err error) {
	p.sum, err = strconv.ParseInt(string(snapshot), 10, 64)
	return err
}

func potTopology(tb testing.TB) *Topology {
	return through(tb, "pot", func() Processor { return &pot{} }, "in")
}

func TestAdvanceOfTimeSurvivesACrash(t *testing.T) {
	for _, transactional := range []bool{false, true} {
		c := clusterOf(t, map[string]int{"in": 2})
		store := NewFileStateStore(t.TempDir())
		run := func(r *GroupRunner) {
			t.Helper()
			var err error
			if transactional {
				_, err = r.RunOnceTransactional(t.Context(), 0)
			} else {
				_, err = r.RunOnce(t.Context(), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		drain := func(r *GroupRunner) {
			t.Helper()
			for !c.drained("in") || len(r.partitions) < 2 || !r.partitions[0].live() || !r.partitions[1].live() {
				run(r)
			}
		}
		m := c.member("member")
		r := newTestRunner(t, potTopology(t), m, m, WithStateStore(store))
		c.fill(in(0), "a 1", "a 2")
		c.fill(in(1), "a 40")
		drain(r)
		if err := r.AdvanceTime(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		c.fill(in(0), "a 5")
		drain(r)
		c.expire(m) // killed; the only snapshots are those of the beginning
		m = c.member("member")
		r = newTestRunner(t, potTopology(t), m, m, WithStateStore(store))
		drain(r)
		if err := r.AdvanceTime(t.Context(), 20); err != nil {
			t.Fatal(err)
		}
		got := c.values("out")
		slices.Sort(got)
		if diff := cmp.Diff([]string{"p0 3", "p0 5", "p1 0", "p1 40"}, got); diff != "" {
			t.Errorf("transactional %v: outputs mismatch (-want +got):\n%s", transactional, diff)
		}
		err := r.AdvanceTime(t.Context(), -1)
		if !errors.Is(err, errPot) {
			t.Errorf("transactional %v: AdvanceTime(-1) = %v; want %v", transactional, err, errPot)
		}
		c.fill(in(0), "a 7")
		drain(r)
		if err := r.AdvanceTime(t.Context(), 30); err != nil {
			t.Fatal(err)
		}
		if got := c.values("out"); !slices.Contains(got, "p0 7") {
			t.Errorf("transactional %v: outputs %v after a failed advance; want p0 7 among them", transactional, got)
		}
	}
}

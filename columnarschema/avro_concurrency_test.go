// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
	"github.com/krabka-io/krabka-streams-go/schema"
)

func TestOneCodecServesManyGoroutines(t *testing.T) {
	cache := offlineCache(t)
	cache.SeedSubjectID("samples-value", 1)
	cache.SeedWriterSchema(1, sampleSchema)
	codec, err := NewAvroBatchCodec(sampleSchema, cache, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	var workers errgroup.Group
	for worker := range uint64(8) {
		_, body := sampleBody(t, worker)
		workers.Go(func() error {
			for rows := range 20 {
				records := make([]columnar.ConsumedRecord, 1+rows)
				for i := range records {
					records[i].Value = schema.Encode(1, body)
				}
				// A record that fails gives the columns back half full.
				_, err := codec.Decode("samples", append(records[:rows:rows], columnar.ConsumedRecord{Value: schema.Encode(1, body[:len(body)-1])}))
				if err == nil {
					return fmt.Errorf("a truncated record is read")
				}
				batch, err := codec.Decode("samples", records)
				if err != nil {
					return err
				}
				produced, err := codec.Encode("samples", batch)
				batch.Release()
				if err != nil {
					return err
				}
				for i := range produced {
					if diff := cmp.Diff(records[i].Value, produced[i].Value); diff != "" {
						return fmt.Errorf("record %d of worker %d comes back changed:\n%s", i, worker, diff)
					}
				}
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		t.Error(err)
	}
}

func TestProjectedColumnsAreThoseOfTheWholeRecord(t *testing.T) {
	s, err := avroplan.Parse(sampleSchema)
	if err != nil {
		t.Fatal(err)
	}
	cache := offlineCache(t)
	cache.SeedWriterSchema(1, sampleSchema)
	mem := checkedTestAllocator(t)
	var records []columnar.ConsumedRecord
	for seed := range uint64(6) {
		_, body := sampleBody(t, seed)
		records = append(records, columnar.ConsumedRecord{Value: schema.Encode(1, body)})
	}
	whole, err := NewAvroBatchCodec(sampleSchema, cache, mem)
	if err != nil {
		t.Fatal(err)
	}
	all, err := whole.Decode("samples", records)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Release()
	for i, f := range s.Fields {
		codec, err := NewAvroBatchCodec(sampleSchema, cache, mem, WithColumns(f.Name))
		if err != nil {
			t.Fatal(err)
		}
		one, err := codec.Decode("samples", records)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := one.Column(0).String(), all.Column(i).String(); got != want || one.NumCols() != 6 {
			t.Errorf("column %s alone is %s, with the others %s", f.Name, got, want)
		}
		one.Release()
	}
}

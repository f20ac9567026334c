// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"math"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/numtext"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// valueCountState counts the rows that are not null.
type valueCountState struct {
	countState
	nulls  arrays.Validity
	nested []bool // which rows are null, for columns whose nulls lie deeper
}

func (s *valueCountState) load(arr arrow.Array) error {
	s.nulls, s.nested = arrays.ValidityOf(arr), nil
	if arrays.KindOf(arr.DataType()) == arrays.NestedKind {
		s.nested = make([]bool, arr.Len())
		for row := range s.nested {
			s.nested[row] = arr.IsNull(row) || arrays.Value(arr, row) == nil
		}
	}
	return nil
}

func (s *valueCountState) add(ids []uint32, first int) error {
	for i, id := range ids {
		if null := s.nested != nil && s.nested[first+i] || s.nested == nil && s.nulls.IsNull(first+i); !null {
			*s.Word(id, 0)++
		}
	}
	return nil
}

// meanable is a sum of which there is a mean.
type meanable interface {
	accumulator
	// mean is the sum of a group divided by a count that is not 0.
	mean(group uint32, count uint64) float64
}

// averageState holds the sum and the number of the values that are not null.
type averageState struct {
	sum   meanable
	count valueCountState
}

func (s *averageState) Width() int { return s.sum.Width() + s.count.Width() }

func (s *averageState) Place(rows *keytable.Rows, offset int) {
	s.sum.Place(rows, offset)
	s.count.Place(rows, offset+s.sum.Width())
}

func (s *averageState) Placed() int { return s.sum.Placed() }

func (s *averageState) kind() arrays.Kind { return s.sum.kind() }

func (s *averageState) load(arr arrow.Array) error {
	if err := s.count.load(arr); err != nil {
		return err
	}
	return s.sum.load(arr)
}

func (s *averageState) add(ids []uint32, first int) error {
	if err := s.count.add(ids, first); err != nil {
		return err
	}
	return s.sum.add(ids, first)
}

func (s *averageState) build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error) {
	return arrays.Build(mem, dt, len(groups), func(i int) any {
		count := *s.count.Word(groups[i], 0)
		if count == 0 {
			return nil
		}
		return s.sum.mean(groups[i], count)
	})
}

func (s *averageState) encodedSize(groups []uint32) int {
	return s.sum.encodedSize(groups) + s.count.encodedSize(groups)
}

func (s *averageState) encode(w *statebytes.Writer, groups []uint32) {
	s.sum.encode(w, groups)
	s.count.encode(w, groups)
}

func (s *averageState) decode(r *statebytes.Reader, groups int) {
	s.sum.decode(r, groups)
	s.count.decode(r, groups)
}

// decimalAverageState is the average of decimals, whose rows take another form with
// their scale.
type decimalAverageState struct{ averageState }

func (s *decimalAverageState) remember(saved *[]uint64) { s.sum.(rescalable).remember(saved) }

func (s *decimalAverageState) settle() { s.sum.(rescalable).settle() }

func (s *decimalAverageState) unscale() { s.sum.(rescalable).unscale() }

var _ rescalable = (*decimalAverageState)(nil)

func (s *intSumState) mean(group uint32, count uint64) float64 {
	const exact = 1 << 53 // up to which float64 has every integer
	sum := s.sum(group)
	if word, fits := sum.int64(); fits && word >= -exact && word <= exact && count <= exact {
		return float64(word) / float64(count)
	}
	return quotient(new(big.Rat).SetInt(sum.big()), count)
}

func (s *floatSumState) mean(group uint32, count uint64) float64 {
	word, _ := s.get(group)
	return math.Float64frombits(uint64(word)) / float64(count)
}

func (s *decimalSumState) mean(group uint32, count uint64) float64 {
	number, _ := s.get(group)
	return quotient(numtext.Rat(number.BigInt(), s.scale), count)
}

// quotient returns sum divided by count, rounded once.
func quotient(sum *big.Rat, count uint64) float64 {
	mean, _ := sum.Quo(sum, new(big.Rat).SetInt(new(big.Int).SetUint64(count))).Float64()
	return mean
}

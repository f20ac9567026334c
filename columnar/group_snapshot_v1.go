// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/decimals"
	"github.com/krabka-io/krabka-streams-go/internal/numtext"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// readVersion1 reads the older form of a snapshot: the stream time, the number
// of groups and, for each group, its keys, with windows the bounds of the
// window among them, and its aggregates.
func (g *groupKernel) readVersion1(body []byte) (*groupState, error) {
	r := statebytes.NewReader(body)
	s := newGroupState(g.spec)
	s.streamTime = r.Int64()
	groups := r.Count(8)
	if groups > g.spec.limit {
		return nil, &StateLimitError{Limit: g.spec.limit}
	}
	keyCount, aggregateCount := len(g.spec.keys), len(g.spec.aggregations)
	if g.spec.windowed {
		keyCount += 2
	}
	rows := make([][]any, 0)
	for i := 0; i < groups && r.Err() == nil; i++ {
		row := make([]any, 0, keyCount+aggregateCount)
		for _, want := range []int{keyCount, aggregateCount} {
			if got := r.Count(1); got != want && r.Err() == nil {
				return nil, &StateLayoutError{
					Saved: fmt.Sprintf("an operator with %d keys or aggregates", got),
					Want:  fmt.Sprintf("one with %d", want),
				}
			}
			for range want {
				row = append(row, readValue(r, 0))
			}
		}
		rows = append(rows, row)
	}
	r.End()
	if r.Err() != nil {
		return nil, r.Err()
	}
	return s, s.adoptVersion1(rows)
}

// adoptVersion1 makes the groups of a state from rows of keys and aggregates.
func (s *groupState) adoptVersion1(rows [][]any) error {
	for i := range s.spec.keys {
		kind, err := commonKind(rows, i, false)
		if err != nil {
			return err
		}
		s.table.keys[i] = newKeyColumn(kind, i)
	}
	aggregatesAt := len(s.spec.keys)
	if s.spec.windowed {
		aggregatesAt += 2
	}
	for i, aggregation := range s.spec.aggregations {
		kind, err := aggregateKind(aggregation.Function, rows, aggregatesAt+i)
		if err != nil {
			return fmt.Errorf("%s of `%s`: %w", aggregation.Function, aggregation.InputColumn, err)
		}
		s.aggregates[i] = newAccumulator(aggregation.Function, kind)
	}
	if err := s.makeRows(len(rows)); err != nil {
		return err
	}
	for group, row := range rows {
		if err := s.adoptGroup(uint32(group), row, aggregatesAt); err != nil {
			return err
		}
	}
	return s.finishRestore(len(rows))
}

func (s *groupState) adoptGroup(group uint32, row []any, aggregatesAt int) error {
	for i := range s.spec.keys {
		if err := setKey(s.table.keys[i], group, row[i]); err != nil {
			return err
		}
	}
	if s.starts != nil {
		start, end := row[aggregatesAt-2], row[aggregatesAt-1]
		from, ok := start.(int64)
		to, endOK := end.(int64)
		if !ok || !endOK || to-from != s.spec.window.size {
			return &StateLayoutError{Saved: fmt.Sprintf("an operator with the window [%v, %v)", start, end), Want: s.spec.layout()}
		}
		*s.starts.word(group, 0) = uint64(from)
	}
	for i, aggregation := range s.spec.aggregations {
		value := row[aggregatesAt+i]
		if value == nil {
			continue
		}
		if err := setAggregate(s.aggregates[i], group, value); err != nil {
			return fmt.Errorf("%s of `%s`: %w", aggregation.Function, aggregation.InputColumn, err)
		}
	}
	return nil
}

func setKey(column keyColumn, group uint32, value any) error {
	switch column := column.(type) {
	case *wordKeys:
		if value == nil {
			column.expectNulls()
			column.setNull(column.rows, group)
			return nil
		}
		*column.word(group, 0) = uint64(wordOf(value, equalityWord))
	case *byteKeys:
		*column.word(group, 0) = uint64(len(column.data))
		if value == nil {
			column.setNull(column.rows, group)
		} else {
			data, err := bytesOfValue(column.valueKind, value)
			if err != nil {
				return err
			}
			column.data = append(column.data, data...)
		}
		*column.word(group, 1) = uint64(len(column.data))
	}
	return nil
}

func bytesOfValue(kind arrays.Kind, value any) ([]byte, error) {
	switch kind {
	case arrays.TextKind:
		return []byte(value.(string)), nil
	case arrays.BytesKind:
		return value.([]byte), nil
	default:
		return appendKeyValue(nil, value)
	}
}

// commonKind returns the kind of all values in column i of rows. Decimals are
// rationals.
func commonKind(rows [][]any, i int, sum bool) (arrays.Kind, error) {
	common := arrays.AnyKind
	for _, row := range rows {
		kind := arrays.AnyKind
		switch row[i].(type) {
		case nil:
			continue
		case int64:
			kind = arrays.IntKind
		case *big.Int:
			if !sum {
				return arrays.AnyKind, fmt.Errorf("cannot restore a value of type %T", row[i])
			}
			kind = arrays.IntKind
		case uint64:
			kind = arrays.UintKind
		case bool:
			kind = arrays.BoolKind
		case float32:
			kind = arrays.Float32Kind
		case float64:
			kind = arrays.Float64Kind
		case string:
			kind = arrays.TextKind
		case []byte:
			kind = arrays.BytesKind
		case *big.Rat:
			kind = arrays.DecimalKind
		default:
			kind = arrays.NestedKind
		}
		if common != arrays.AnyKind && kind != common {
			return arrays.AnyKind, fmt.Errorf("values are both %s and %s", common, kind)
		}
		common = kind
	}
	return common, nil
}

// wordOf returns a value of a word kind in 64 bits.
func wordOf(value any, encode func(float64) int64) int64 {
	switch value := value.(type) {
	case int64:
		return value
	case uint64:
		return int64(value)
	case bool:
		if value {
			return 1
		}
		return 0
	case float32:
		return encode(float64(value))
	case float64:
		return encode(value)
	default:
		return 0
	}
}

// aggregateKind returns the kind of the accumulator for column i of rows.
func aggregateKind(function AggregateFunction, rows [][]any, i int) (arrays.Kind, error) {
	kind, err := commonKind(rows, i, function == Sum)
	if err != nil {
		return arrays.AnyKind, err
	}
	switch {
	case function == Count && kind != arrays.IntKind && len(rows) > 0,
		function == Sum && (kind == arrays.TextKind || kind == arrays.BytesKind || kind == arrays.BoolKind),
		kind == arrays.NestedKind:
		return arrays.AnyKind, fmt.Errorf("values are %s", kind)
	}
	return heldKind(function, kind), nil
}

// setAggregate makes value, which is not null, that of a group.
func setAggregate(held accumulator, group uint32, value any) error {
	switch held := held.(type) {
	case *countState:
		count := value.(int64)
		if count < 0 {
			return errors.New("count is negative")
		}
		*held.word(group, 0) = uint64(count)
	case *intSumState:
		number, ok := value.(*big.Int)
		if !ok {
			number = big.NewInt(wordOf(value, equalityWord))
		}
		sum, ok := wideIntOf(number)
		if !ok {
			return fmt.Errorf("integer overflow: %s", number)
		}
		held.set(group, sum)
	case *floatSumState:
		held.set(group, wordOf(value, equalityWord))
	case *wordExtremeState:
		word := wordOf(value, arrays.OrderedWord)
		if held.valueKind == arrays.UintKind {
			word = orderedUint(word)
		}
		held.set(group, word)
	case *byteExtremeState:
		data, err := bytesOfValue(held.valueKind, value)
		held.current[group] = append([]byte{}, data...)
		return err
	case *decimalSumState:
		return held.setRational(group, value.(*big.Rat))
	case *decimalExtremeState:
		return held.setRational(group, value.(*big.Rat))
	}
	return nil
}

// setRational makes value that of a group.
func (s *decimalState) setRational(group uint32, value *big.Rat) error {
	scale, exact := value.FloatPrec()
	if !exact || scale > decimals.MaxScale {
		return fmt.Errorf("%s is not a decimal", value)
	}
	if err := s.widen(int32(scale)); err != nil {
		return err
	}
	unscaled := new(big.Rat).Mul(value, new(big.Rat).SetInt(numtext.PowerOfTen(s.scale)))
	number, ok := decimals.FromInt(unscaled.Num())
	if !ok {
		return decimals.ErrOverflow
	}
	s.set(group, number)
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/decimals"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

// evaluation computes expressions for one batch.
type evaluation struct {
	mem   memory.Allocator
	batch arrow.RecordBatch
	rows  int
	held  []arrow.Array // that vectors borrow from
}

func newEvaluation(mem memory.Allocator, batch arrow.RecordBatch) *evaluation {
	return &evaluation{mem: mem, batch: batch, rows: int(batch.NumRows())}
}

func (ev *evaluation) release() { arrays.Release(ev.held) }

// hold keeps arr until the evaluation is released, and takes it over.
func (ev *evaluation) hold(arr arrow.Array) arrow.Array {
	ev.held = append(ev.held, arr)
	return arr
}

// eval computes b. Errors of rows for which ignored is true do not count; nil
// ignores none.
func (ev *evaluation) eval(b *bound, ignored []bool) (vector, error) {
	if b.convert {
		arg, err := ev.eval(b.args[0], ignored)
		if err != nil {
			return vector{}, err
		}
		if arg.one {
			ignored = ignoredByAll(ignored)
		}
		return ev.converted(b, &arg, ignored)
	}
	if b.literal != nil {
		return *b.literal, nil
	}
	switch b.node.op {
	case opColumn:
		return ev.column(b)
	case opAnd, opOr:
		return ev.logic(b, ignored)
	case opIf:
		return ev.choose(b, ignored)
	}
	args := make([]vector, len(b.args))
	for i, arg := range b.args {
		var err error
		if args[i], err = ev.eval(arg, ignored); err != nil {
			return vector{}, err
		}
	}
	rows := ev.rowsOf(args)
	if allOne(args) {
		ignored = ignoredByAll(ignored)
	}
	var operands []*vector
	for i := range args {
		operands = append(operands, &args[i])
	}
	result := vector{kind: b.kind, scale: b.scale, when: b.when, one: rows == 1 && allOne(args)}
	if b.node.op != opIsNull {
		result.nulls = b.mergedNulls(rows, operands...)
	}
	return result, ev.compute(b, &result, args, rows, ignored)
}

// ignoredByAll returns whether the one value of a step without columns is
// ignored: it stands for all rows, so all of them have to ignore it.
func ignoredByAll(ignored []bool) []bool {
	if ignored == nil {
		return nil
	}
	return []bool{!slices.Contains(ignored, false)}
}

// rowsOf returns the number of values that a step computes: one if all operands
// have one.
func (ev *evaluation) rowsOf(args []vector) int {
	if allOne(args) {
		return 1
	}
	return ev.rows
}

func allOne(args []vector) bool {
	for i := range args {
		if !args[i].one {
			return false
		}
	}
	return true
}

func (ev *evaluation) compute(b *bound, result *vector, args []vector, rows int, ignored []bool) error {
	switch op := b.node.op; op {
	case opAdd, opSub, opMul, opDiv, opMod:
		return b.arithmetic(result, &args[0], &args[1], rows, ignored)
	case opEqual, opNotEqual, opLess, opLessOrEqual, opGreater, opGreaterOrEqual:
		result.truths = arrays.Resized(&b.truths, rows)
		compareVectors(op, &args[0], &args[1], result.truths)
	case opNot:
		result.truths = arrays.Resized(&b.truths, rows)
		mask := args[0].mask()
		for row := range result.truths {
			result.truths[row] = args[0].kind == arrays.BoolKind && !args[0].truths[row&mask]
		}
	case opIsNull:
		result.truths = arrays.Resized(&b.truths, rows)
		for row := range result.truths {
			result.truths[row] = args[0].isNull(row)
		}
	case opHasPrefix, opHasSuffix, opContains:
		result.truths = arrays.Resized(&b.truths, rows)
		test := map[operation]func(s, part []byte) bool{
			opHasPrefix: bytes.HasPrefix, opHasSuffix: bytes.HasSuffix, opContains: bytes.Contains,
		}[op]
		for row := range result.truths {
			if !result.isNull(row) {
				result.truths[row] = test(args[0].text(row), args[1].text(row))
			}
		}
	case opCast:
		return ev.castTo(b, result, &args[0], rows, ignored)
	case opBigEndian:
		if args[0].kind == arrays.AnyKind {
			*result = args[0]
			return nil
		}
		*result = args[0].bigEndian(&b.data)
	}
	return nil
}

func (ev *evaluation) column(b *bound) (vector, error) {
	column := ev.batch.Column(b.column)
	plain, err := arrays.Plain(ev.mem, column)
	if err != nil {
		return vector{}, namedcols.Failure(b.node.name, err)
	}
	v, err := readVector(ev.hold(plain), &b.vectorScratch)
	if err != nil {
		return vector{}, namedcols.Failure(b.node.name, err)
	}
	if v.kind == arrays.NestedKind || v.kind == arrays.AnyKind {
		v.nulls = arrays.Resized(&b.nulls, ev.rows)
		for row := range v.nulls {
			v.nulls[row] = plain.IsNull(row) || v.kind == arrays.AnyKind
		}
	}
	return v, nil
}

// logic computes And and Or. The second operand counts only in rows that the
// first one leaves open.
func (ev *evaluation) logic(b *bound, ignored []bool) (vector, error) {
	decisive := b.node.op == opOr // the truth value that decides alone
	left, err := ev.eval(b.args[0], ignored)
	if err != nil {
		return vector{}, err
	}
	settled := make([]bool, ev.rows)
	for row := range settled {
		settled[row] = ignored != nil && ignored[row] || left.decides(row, decisive)
	}
	right, err := ev.eval(b.args[1], settled)
	if err != nil {
		return vector{}, err
	}
	result := vector{kind: arrays.BoolKind, truths: arrays.Resized(&b.truths, ev.rows)}
	result.nulls = b.mergedNulls(ev.rows, &left, &right)
	for row := range result.truths {
		decided := left.decides(row, decisive) || right.decides(row, decisive)
		result.truths[row] = decided == decisive
		if decided && result.nulls != nil {
			result.nulls[row] = false
		}
	}
	return result, nil
}

// decides reports whether a row has that truth value.
func (v *vector) decides(row int, truth bool) bool {
	return v.kind == arrays.BoolKind && !v.isNull(row) && v.truths[row&v.mask()] == truth
}

// choose computes If.
func (ev *evaluation) choose(b *bound, ignored []bool) (vector, error) {
	condition, err := ev.eval(b.args[0], ignored)
	if err != nil {
		return vector{}, err
	}
	skip := [2][]bool{make([]bool, ev.rows), make([]bool, ev.rows)}
	for row := range ev.rows {
		taken := condition.decides(row, true)
		none := ignored != nil && ignored[row]
		skip[0][row], skip[1][row] = none || !taken, none || taken
	}
	var branches [2]vector
	for i := range branches {
		if branches[i], err = ev.eval(b.args[1+i], skip[i]); err != nil {
			return vector{}, err
		}
	}
	of := func(row int) *vector {
		if condition.decides(row, true) {
			return &branches[0]
		}
		return &branches[1]
	}
	result := vector{kind: b.kind, scale: b.scale, when: b.when, nulls: arrays.Resized(&b.nulls, ev.rows)}
	for row := range result.nulls {
		result.nulls[row] = of(row).kind == arrays.AnyKind || of(row).isNull(row)
	}
	switch b.kind {
	case arrays.BoolKind:
		result.truths = chosen(&b.truths, result.nulls, func(row int) bool { v := of(row); return v.truths[row&v.mask()] })
	case arrays.TextKind, arrays.BytesKind:
		result.bytes = arrays.Bytes{Func: func(row int) []byte { return of(row).text(row) }}
	case arrays.DecimalKind:
		result.numbers = chosen(&b.numbers, result.nulls, func(row int) decimal256.Num { v := of(row); return v.numbers[row&v.mask()] })
	case arrays.AnyKind:
	default:
		result.words = chosen(&b.words, result.nulls, func(row int) int64 { v := of(row); return v.words[row&v.mask()] })
	}
	return result, nil
}

func chosen[T any](scratch *[]T, nulls []bool, value func(row int) T) []T {
	values := arrays.Resized(scratch, len(nulls))
	for row, null := range nulls {
		if !null {
			values[row] = value(row)
		}
	}
	return values
}

// castTo computes a cast by way of an array of the type.
func (ev *evaluation) castTo(b *bound, result, arg *vector, rows int, ignored []bool) error {
	cast, err := arg.build(ev.mem, b.dt, rows, ignored)
	if err != nil {
		return err
	}
	plain, err := arrays.Plain(ev.mem, ev.hold(cast))
	if err != nil {
		return err
	}
	one := result.one
	*result, err = readVector(ev.hold(plain), &b.vectorScratch)
	result.one = one
	return err
}

// converted returns arg in the kind and scale of b. What is null in all rows needs
// no kind.
func (ev *evaluation) converted(b *bound, arg *vector, ignored []bool) (vector, error) {
	if arg.kind == arrays.AnyKind {
		return *arg, nil
	}
	result := vector{kind: b.kind, scale: b.scale, when: b.when, nulls: arg.nulls, one: arg.one}
	rows := ev.rowsOf([]vector{*arg})
	fail := func(row int, err error) error {
		if arg.isNull(row) || ignored != nil && ignored[row] {
			return nil
		}
		return namedcols.AtRow(row, err)
	}
	switch {
	case b.when != nil:
		result.words = arrays.Resized(&b.words, rows)
		if err := arg.inFinerUnit(result.words, b.when, fail); err != nil {
			return vector{}, err
		}
	case b.kind == arrays.BytesKind:
		result.bytes = arg.bytes
	case b.kind == arrays.DecimalKind:
		result.numbers = arrays.Resized(&b.numbers, rows)
		for row := range result.numbers {
			number, more := decimal256.Num{}, b.scale
			if arg.kind == arrays.DecimalKind {
				number, more = arg.numbers[row], b.scale-arg.scale
			} else {
				number = decimal256.FromBigInt(arg.integer(row))
			}
			var ok bool
			if result.numbers[row], ok = decimals.Rescaled(number, more); !ok {
				if err := fail(row, decimals.ErrOverflow); err != nil {
					return vector{}, err
				}
			}
		}
	case b.kind == arrays.Float64Kind:
		result.words = arrays.Resized(&b.words, rows)
		for row := range result.words {
			var f float64
			switch arg.kind {
			case arrays.DecimalKind:
				f, _ = numtext.Rat(arg.numbers[row].BigInt(), arg.scale).Float64()
			case arrays.UintKind:
				f = float64(uint64(arg.words[row]))
			default:
				f = float64(arg.words[row])
			}
			result.words[row] = int64(math.Float64bits(f))
		}
	default:
		// Between signed and unsigned integers the bits stay; only those that mean
		// the same are accepted.
		result.words = arg.words
		for row, word := range arg.words {
			if word < 0 {
				if err := fail(row, fmt.Errorf("%w: %s does not fit with %s", errOverflow, arg.integer(row), b.kind)); err != nil {
					return vector{}, err
				}
			}
		}
	}
	return result, nil
}

// integer returns a row of a vector of integers.
func (v *vector) integer(row int) *big.Int {
	if v.kind == arrays.UintKind {
		return new(big.Int).SetUint64(uint64(v.words[row]))
	}
	return big.NewInt(v.words[row])
}

// compareVectors compares operands of one kind, or integers with and without sign. Rows with a null have no defined
// result.
func compareVectors(op operation, left, right *vector, out []bool) {
	if left.kind == arrays.AnyKind || right.kind == arrays.AnyKind {
		return
	}
	switch {
	case left.kind == arrays.IntKind && right.kind == arrays.UintKind:
		compareBy(op, out, func(row int) int {
			return compareSigned(left.words[row&left.mask()], uint64(right.words[row&right.mask()]))
		})
		return
	case left.kind == arrays.UintKind && right.kind == arrays.IntKind:
		compareBy(op, out, func(row int) int {
			return -compareSigned(right.words[row&right.mask()], uint64(left.words[row&left.mask()]))
		})
		return
	case left.when != nil && right.when != nil && nanosOf(left.when) != nanosOf(right.when):
		l, r := nanosOf(left.when), nanosOf(right.when)
		compareBy(op, out, func(row int) int {
			return compareCounts(left.words[row&left.mask()], l, right.words[row&right.mask()], r)
		})
		return
	}
	switch left.kind {
	case arrays.IntKind:
		compareOrdered(op, left.words, left.mask(), right.words, right.mask(), out)
	case arrays.UintKind:
		compareOrdered(op, asUint64(left.words), left.mask(), asUint64(right.words), right.mask(), out)
	case arrays.Float64Kind:
		compareBy(op, out, func(row int) int {
			return cmp.Compare(comparable64(left.words[row&left.mask()]), comparable64(right.words[row&right.mask()]))
		})
	case arrays.BoolKind:
		compareBy(op, out, func(row int) int {
			return cmp.Compare(asBit(left.truths[row&left.mask()]), asBit(right.truths[row&right.mask()]))
		})
	case arrays.TextKind, arrays.BytesKind:
		skip := func(row int) bool { return left.isNull(row) || right.isNull(row) }
		compareBy(op, out, func(row int) int {
			if skip(row) {
				return 0
			}
			return bytes.Compare(left.text(row), right.text(row))
		})
	case arrays.DecimalKind:
		compareBy(op, out, func(row int) int {
			return left.numbers[row&left.mask()].Cmp(right.numbers[row&right.mask()])
		})
	}
}

// comparable64 returns an integer that sorts like the float with those bits, and
// is equal for -0 and 0.
func comparable64(word int64) int64 {
	f := math.Float64frombits(uint64(word))
	if f == 0 {
		return 0
	}
	return arrays.OrderedWord(f)
}

func asBit(truth bool) int {
	if truth {
		return 1
	}
	return 0
}

func asUint64(words []int64) []uint64 { return reinterpreted[uint64](words) }

func compareOrdered[T cmp.Ordered](op operation, left []T, leftMask int, right []T, rightMask int, out []bool) {
	switch op {
	case opEqual:
		for row := range out {
			out[row] = left[row&leftMask] == right[row&rightMask]
		}
	case opNotEqual:
		for row := range out {
			out[row] = left[row&leftMask] != right[row&rightMask]
		}
	case opLess:
		for row := range out {
			out[row] = left[row&leftMask] < right[row&rightMask]
		}
	case opLessOrEqual:
		for row := range out {
			out[row] = left[row&leftMask] <= right[row&rightMask]
		}
	case opGreater:
		for row := range out {
			out[row] = left[row&leftMask] > right[row&rightMask]
		}
	default:
		for row := range out {
			out[row] = left[row&leftMask] >= right[row&rightMask]
		}
	}
}

func compareBy(op operation, out []bool, order func(row int) int) {
	for row := range out {
		switch order := order(row); op {
		case opEqual:
			out[row] = order == 0
		case opNotEqual:
			out[row] = order != 0
		case opLess:
			out[row] = order < 0
		case opLessOrEqual:
			out[row] = order <= 0
		case opGreater:
			out[row] = order > 0
		default:
			out[row] = order >= 0
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package decimals_test

import (
	"errors"
	"fmt"
	"math/big"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/decimals"
)

func TestOfEveryWidth(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	var scratch []decimal256.Num
	for _, dt := range []arrow.DataType{
		&arrow.Decimal32Type{Precision: 5, Scale: 2}, &arrow.Decimal64Type{Precision: 5, Scale: 2},
		&arrow.Decimal128Type{Precision: 5, Scale: 2}, &arrow.Decimal256Type{Precision: 5, Scale: 2},
	} {
		builder := array.NewBuilder(mem, dt)
		for _, value := range []string{"1.25", "-9.99"} {
			if err := arrays.AppendValue(builder, value); err != nil {
				t.Fatal(err)
			}
		}
		column := builder.NewArray()
		if got := fmt.Sprint(decimals.Of(column, &scratch)[0].BigInt(), decimals.Of(column, &scratch)[1].BigInt()); got != "125 -999" {
			t.Errorf("%s: unscaled values = %s, want 125 -999", dt, got)
		}
		column.Release()
		builder.Release()
	}
}

func TestFromRat(t *testing.T) {
	for text, want := range map[string]string{"1.25": "125 2", "-3": "-3 0", "0.1": "1 1", "0": "0 0"} {
		value, _ := new(big.Rat).SetString(text)
		number, scale, err := decimals.FromRat(value)
		if got := fmt.Sprint(number.BigInt(), scale); err != nil || got != want {
			t.Errorf("%s = %s, %v; want %s", text, got, err, want)
		}
	}
	if _, _, err := decimals.FromRat(big.NewRat(1, 3)); err == nil || err.Error() != "1/3 is not a decimal" {
		t.Errorf("error of a third = %v", err)
	}
	if _, _, err := decimals.FromRat(new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 255))); !errors.Is(err, decimals.ErrOverflow) {
		t.Errorf("error of 2^255 = %v, want ErrOverflow", err)
	}
}

func TestRescaledKeepsTheNumberIfItFits(t *testing.T) {
	one, _ := decimals.FromInt(big.NewInt(1))
	wide, ok := decimals.Rescaled(one, decimals.MaxScale)
	if back, _ := decimals.Rescaled(wide, -decimals.MaxScale); !ok || back != one {
		t.Errorf("1 with 76 digits more and less is %s, %t", back.BigInt(), ok)
	}
	if tooWide, ok := decimals.Rescaled(wide, 1); ok {
		t.Errorf("77 digits fit as %s", tooWide.BigInt())
	}
}

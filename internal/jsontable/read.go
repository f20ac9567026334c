// SPDX-License-Identifier: Apache-2.0

package jsontable

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/jsonrows"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// Rows makes the JSON of the rows of a batch.
type Rows struct {
	batch    arrow.RecordBatch
	columns  []jsonrows.Column
	scalar   bool // the first column is the row itself
	nullable bool
}

// NewRows returns the rows of a batch in the form in which values of type row read
// them. With scalar, the row is the value of [ScalarColumn]; with nullable, a row of
// nulls is null. The batch must outlive the result.
func NewRows(batch arrow.RecordBatch, row reflect.Type, scalar, nullable bool) (*Rows, error) {
	columns, err := columnsOf(batch, newDestinations(row), scalar)
	if err != nil {
		return nil, err
	}
	return &Rows{batch: batch, columns: columns, scalar: scalar, nullable: nullable}, nil
}

// columnsOf returns the appenders of a batch's columns.
func columnsOf(batch arrow.RecordBatch, destinations destinations, scalar bool) ([]jsonrows.Column, error) {
	columns := make([]jsonrows.Column, 0, batch.NumCols())
	for i, field := range batch.Schema().Fields() {
		if scalar && field.Name != ScalarColumn {
			continue
		}
		destination := destinations.member(field.Name)
		if scalar {
			destination = destinations.row
		}
		column, err := formFor(destination).Column(field, batch.Column(i), len(columns) == 0)
		if err != nil {
			return nil, fmt.Errorf("cannot read JSON field %s: %w", field.Name, err)
		}
		columns = append(columns, column)
		if scalar {
			break
		}
	}
	if scalar && len(columns) == 0 {
		//lint:ignore ST1005 Arrow is a name
		return nil, fmt.Errorf("Arrow column does not exist: %s", ScalarColumn)
	}
	return columns, nil
}

// Append appends the JSON of a row.
func (r *Rows) Append(dst []byte, row int) ([]byte, error) {
	if r.scalar {
		dst, err := r.columns[0].Append(dst, row)
		if err != nil {
			err = fmt.Errorf("cannot read JSON field %s: %w", r.columns[0].Name, err)
		}
		return dst, err
	}
	if r.nullable && isNullRow(r.batch, row) {
		return append(dst, "null"...), nil
	}
	dst, err := jsonrows.AppendObject(dst, r.columns, row)
	var column *namedcols.Error
	if errors.As(err, &column) {
		err = fmt.Errorf("cannot read JSON field %s: %w", column.Column, column.Cause)
	}
	return dst, err
}

func isNullRow(batch arrow.RecordBatch, row int) bool {
	for _, column := range batch.Columns() {
		if column.IsValid(row) && column.DataType().ID() != arrow.NULL {
			return false
		}
	}
	return true
}

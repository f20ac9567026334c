// SPDX-License-Identifier: Apache-2.0

package jsonrows

import (
	"errors"

	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

var (
	errNumberText = errors.New("text is not a number")
	errBoolText   = errors.New("text is neither true nor false")
)

// drifted reads a value that stands for one of the column's JSON type and starts with
// c. It reads nothing, and done is false, where the value is of that type or of one
// that does not stand for it.
func (d *Decoder) drifted(s *Sink, c byte) (done bool, err *Error) {
	number, truth := c == '-' || c-'0' <= 9, c == 't' || c == 'f'
	start := d.Pos
	switch s.Node.Kind {
	case textNode:
		if !number && !truth {
			return false, nil
		}
		if err := d.skipScalar(c); err != nil {
			return true, err
		}
		s.putText(d.Data[start:d.Pos])
		return true, nil
	case boolNode:
		return d.driftedTruth(s, c)
	case signedNode, unsignedNode, floatNode:
		if truth {
			if err := d.skipScalar(c); err != nil {
				return true, err
			}
			if s.Node.Kind == floatNode {
				s.putFloat(float64(bitOf(c == 't')))
			} else {
				s.putInt(bitOf(c == 't'))
			}
			return true, nil
		}
		return d.driftedNumber(s, c)
	case durationNode, dateNode, clockNode, timestampNode:
		return d.driftedNumber(s, c)
	}
	return false, nil
}

func bitOf(truth bool) uint64 {
	if truth {
		return 1
	}
	return 0
}

// driftedTruth reads true or false from text, or from 1 or 0.
func (d *Decoder) driftedTruth(s *Sink, c byte) (done bool, err *Error) {
	start := d.Pos
	var text []byte
	switch c {
	case '"':
		if text, err = d.Quoted(); err != nil {
			return true, err
		}
	case '0', '1':
		if err := d.number(); err != nil {
			return true, err
		}
		text = d.Data[start:d.Pos]
	default:
		return false, nil
	}
	switch string(text) {
	case "true", "1":
		s.putBool(true)
	case "false", "0":
		s.putBool(false)
	default:
		return true, d.failAt(start, errBoolText)
	}
	s.Valid()
	return true, nil
}

// driftedNumber reads a number from text. Text that is no number is left to columns
// of dates and times, which have texts of their own.
func (d *Decoder) driftedNumber(s *Sink, c byte) (done bool, err *Error) {
	if c != '"' {
		return false, nil
	}
	start := d.Pos
	text, err := d.Quoted()
	if err != nil {
		return true, err
	}
	inner := Reader{Data: text}
	if err := inner.number(); err != nil || inner.Pos < len(text) {
		switch s.Node.Kind {
		case dateNode, clockNode, timestampNode:
			d.Pos = start
			return false, nil
		}
		return true, d.failAt(start, errNumberText)
	}
	data, end := d.Data, d.Pos
	d.Data, d.Pos = text, 0
	err = d.Value(s)
	d.Data, d.Pos = data, end
	if err != nil {
		return true, d.failAt(start, err.Cause)
	}
	return true, nil
}

// epochValue reads a number as a date or timestamp in the unit of the rules. Parts
// below the unit of the column are cut off.
func (d *Decoder) epochValue(s *Sink) *Error {
	start := d.Pos
	if err := d.number(); err != nil {
		return err
	}
	number := d.Decimal(d.Data[start:d.Pos])
	unit := s.Node.unit
	if s.Node.Kind == dateNode {
		unit = numtext.Second
	}
	v, err := number.Floor(unit.Digits() - numtext.UnitOf(s.Node.rules.Epoch).Digits())
	if err != nil {
		return d.failAt(start, errRange(s.Node.Type))
	}
	if s.Node.Kind == dateNode {
		v, _ = numtext.FloorDivMod(v, secondsOfDay)
		days, perDay := v, int64(1)
		if s.Node.width == 8 {
			perDay = 1000 * secondsOfDay
		}
		if v = days * perDay; v/perDay != days || perDay == 1 && int64(int32(v)) != v {
			return d.failAt(start, errRange(s.Node.Type))
		}
	}
	s.putInt(uint64(v))
	return nil
}

const secondsOfDay = 86_400

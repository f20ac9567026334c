// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// textPart is a member of a JSON object that is being written.
type textPart struct {
	field      int    // of a record
	key        string // of a map
	start, end int
}

// avroTextReader reads data as JSON.
type avroTextReader struct{ cursor *avroplan.Cursor }

// appendText reads a datum and appends it to dst as the JSON that Avro
// specifies: values of unions in an object that names the branch, bytes as text
// with a code point for each, logical types as the type beneath. Fields come in
// the order of the reader's schema and the keys of maps in ascending order.
func (r avroTextReader) appendText(dst []byte, n *avroplan.Node) ([]byte, *avroplan.DatumError) {
	c := r.cursor
	if n.Choose != nil {
		return r.appendUnionText(dst, n)
	}
	if n.Err != "" {
		return dst, c.Fail("%s", n.Err)
	}
	switch s := n.Schema; s.Kind {
	case avroplan.Null:
		return append(dst, "null"...), nil
	case avroplan.Boolean:
		v, err := c.Bool()
		return strconv.AppendBool(dst, v), err
	case avroplan.Int, avroplan.Long:
		v, err := n.ReadLong(c)
		return strconv.AppendInt(dst, v, 10), err
	case avroplan.Float:
		v, err := n.ReadFloat(c)
		return appendFloatText(dst, float64(v), 32), err
	case avroplan.Double:
		v, err := n.ReadDouble(c)
		return appendFloatText(dst, v, 64), err
	case avroplan.String:
		v, err := c.RawString()
		return appendQuoted(dst, v), err
	case avroplan.Bytes:
		v, err := c.Bytes()
		return appendQuotedBytes(dst, v), err
	case avroplan.Fixed:
		v, err := c.Fixed(s.Size)
		return appendQuotedBytes(dst, v), err
	case avroplan.Enum:
		i, err := n.ReadSymbol(c)
		if err != nil {
			return dst, err
		}
		return append(append(append(dst, '"'), s.Symbols[i]...), '"'), nil
	case avroplan.Record:
		return r.appendRecordText(dst, n)
	}
	return r.appendItemsText(dst, n)
}

func (r avroTextReader) appendUnionText(dst []byte, n *avroplan.Node) ([]byte, *avroplan.DatumError) {
	b, err := n.Choose.Next(r.cursor)
	if err != nil {
		return dst, err
	}
	if b.Node.Err != "" || b.Reader < 0 || n.Schema.Kind != avroplan.Union || b.Node.Schema.Kind == avroplan.Null {
		return r.appendText(dst, b.Node)
	}
	dst = append(dst, `{"`...)
	dst = append(dst, n.Schema.Branches[b.Reader].BranchName()...)
	dst = append(dst, `":`...)
	dst, err = r.appendText(dst, b.Node)
	return append(dst, '}'), err
}

func (r avroTextReader) appendRecordText(dst []byte, n *avroplan.Node) ([]byte, *avroplan.DatumError) {
	c := r.cursor
	if err := c.Enter(); err != nil {
		return dst, err
	}
	if err := c.Empty(n.Empty); err != nil {
		return dst, err
	}
	begin := len(dst)
	parts := make([]textPart, 0, len(n.Schema.Fields))
	open := func(field int) {
		dst = append(dst, ',')
		parts = append(parts, textPart{field: field, start: len(dst)})
		dst = append(append(append(dst, '"'), n.Schema.Fields[field].Name...), `":`...)
	}
	for _, step := range n.Steps {
		if step.Node == nil {
			if err := c.Skip(step.Writer.Type); err != nil {
				return dst, err.In(step.Writer.Name)
			}
			continue
		}
		open(step.Field)
		var err *avroplan.DatumError
		if dst, err = r.appendText(dst, step.Node); err != nil {
			return dst, err.In(step.Writer.Name)
		}
		parts[len(parts)-1].end = len(dst)
	}
	for _, d := range n.Defaults {
		open(d.Field)
		datum, err := c.EnterDefault(d.Data)
		if err != nil {
			return dst, err
		}
		dst, err = r.appendText(dst, d.Node)
		if err = c.LeaveDefault(datum, err); err != nil {
			return dst, err.In(n.Schema.Fields[d.Field].Name)
		}
		parts[len(parts)-1].end = len(dst)
	}
	c.Leave()
	return joinParts(dst, begin, parts, func(a, b textPart) int { return cmp.Compare(a.field, b.field) }), nil
}

// joinParts makes a JSON object of the parts, which stand in dst from begin on
// with a comma in front of each.
func joinParts(dst []byte, begin int, parts []textPart, order func(a, b textPart) int) []byte {
	if len(parts) == 0 {
		return append(dst, "{}"...)
	}
	if !slices.IsSortedFunc(parts, order) {
		written := slices.Clone(dst)
		slices.SortStableFunc(parts, order)
		dst = dst[:begin]
		for _, p := range parts {
			dst = append(append(dst, ','), written[p.start:p.end]...)
		}
	}
	dst[begin] = '{'
	return append(dst, '}')
}

func (r avroTextReader) appendItemsText(dst []byte, n *avroplan.Node) ([]byte, *avroplan.DatumError) {
	c := r.cursor
	if err := c.Enter(); err != nil {
		return dst, err
	}
	begin, index := len(dst), 0
	var parts []textPart
	for {
		block, err := c.Block(n.ItemSize)
		if err != nil {
			return dst, err
		}
		if block.Count == 0 {
			break
		}
		for range block.Count {
			dst = append(dst, ',')
			part := textPart{start: len(dst)}
			if n.Schema.Kind == avroplan.Map {
				key, err := c.RawString()
				if err != nil {
					return dst, err
				}
				part.key = string(key)
				dst = append(appendQuoted(dst, key), ':')
			}
			if dst, err = r.appendText(dst, n.Items); err != nil {
				if n.Schema.Kind == avroplan.Map {
					return dst, err.Under(part.key)
				}
				return dst, err.At(index)
			}
			part.end = len(dst)
			index++
			if n.Schema.Kind == avroplan.Map {
				parts = append(parts, part)
			}
		}
	}
	c.Leave()
	switch {
	case n.Schema.Kind == avroplan.Map:
		return joinParts(dst, begin, parts, func(a, b textPart) int { return cmp.Compare(a.key, b.key) }), nil
	case index == 0:
		return append(dst, "[]"...), nil
	}
	dst[begin] = '['
	return append(dst, ']'), nil
}

func appendFloatText(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends valid UTF-8 as JSON text.
func appendQuoted(dst, v []byte) []byte {
	dst = append(dst, '"')
	for _, b := range v {
		if b < ' ' || b == '"' || b == '\\' {
			dst = appendEscaped(dst, b)
			continue
		}
		dst = append(dst, b)
	}
	return append(dst, '"')
}

// appendQuotedBytes appends bytes as JSON text with a code point for each.
func appendQuotedBytes(dst, v []byte) []byte {
	dst = append(dst, '"')
	for _, b := range v {
		if b < ' ' || b == '"' || b == '\\' {
			dst = appendEscaped(dst, b)
			continue
		}
		dst = utf8.AppendRune(dst, rune(b))
	}
	return append(dst, '"')
}

func appendEscaped(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&0xf])
}

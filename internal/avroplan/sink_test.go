// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// textSink reads a datum and writes its value as text: records as {a:1,b:2} in
// the order in which the fields arrive, arrays as [..], maps as (key:value),
// strings quoted, bytes in hex, enums as symbols, and the branch of a reader's
// union as @index in front.
type textSink struct {
	cursor Cursor
	out    strings.Builder
}

func readText(n *Node, data []byte) (string, error) {
	var s textSink
	s.cursor.Reset(data)
	if err := s.value(n); err != nil {
		return "", err
	}
	if err := s.cursor.End(); err != nil {
		return "", err
	}
	return s.out.String(), nil
}

func (s *textSink) value(n *Node) *DatumError {
	c := &s.cursor
	if n.Choose != nil {
		b, err := n.Choose.Next(c)
		if err != nil {
			return err
		}
		if b.Reader >= 0 {
			fmt.Fprintf(&s.out, "@%d", b.Reader)
		}
		return s.value(b.Node)
	}
	if n.Err != "" {
		return c.Fail("%s", n.Err)
	}
	var text string
	var err *DatumError
	switch n.Schema.Kind {
	case Null:
		text = "null"
	case Boolean:
		var v bool
		v, err = c.Bool()
		text = strconv.FormatBool(v)
	case Int, Long:
		var v int64
		v, err = n.ReadLong(c)
		text = strconv.FormatInt(v, 10)
	case Float:
		var v float32
		v, err = n.ReadFloat(c)
		text = strconv.FormatFloat(float64(v), 'g', -1, 32)
	case Double:
		var v float64
		v, err = n.ReadDouble(c)
		text = strconv.FormatFloat(v, 'g', -1, 64)
	case Bytes:
		var v []byte
		v, err = c.Bytes()
		text = hex.EncodeToString(v)
	case String:
		var v string
		v, err = c.String()
		text = strconv.Quote(v)
	case Fixed:
		var v []byte
		v, err = c.Fixed(n.Schema.Size)
		text = hex.EncodeToString(v)
	case Enum:
		var i int
		if i, err = n.ReadSymbol(c); err == nil {
			text = n.Schema.Symbols[i]
		}
	case Array, Map:
		return s.items(n)
	case Record:
		return s.record(n)
	}
	s.out.WriteString(text)
	return err
}

func (s *textSink) items(n *Node) *DatumError {
	c := &s.cursor
	if err := c.Enter(); err != nil {
		return err
	}
	defer c.Leave()
	brackets := "[]"
	if n.Schema.Kind == Map {
		brackets = "()"
	}
	s.out.WriteByte(brackets[0])
	for index := 0; ; {
		block, err := c.Block(n.ItemSize)
		if err != nil {
			return err
		}
		if block.Count == 0 {
			break
		}
		for range block.Count {
			if index > 0 {
				s.out.WriteByte(',')
			}
			if n.Schema.Kind == Map {
				key, err := c.String()
				if err != nil {
					return err
				}
				s.out.WriteString(key + ":")
				if err := s.value(n.Items); err != nil {
					return err.Under(key)
				}
			} else if err := s.value(n.Items); err != nil {
				return err.At(index)
			}
			index++
		}
	}
	s.out.WriteByte(brackets[1])
	return nil
}

func (s *textSink) record(n *Node) *DatumError {
	c := &s.cursor
	if err := c.Enter(); err != nil {
		return err
	}
	if err := c.Empty(n.Empty); err != nil {
		return err
	}
	defer c.Leave()
	s.out.WriteByte('{')
	written := 0
	begin := func(field int) {
		if written++; written > 1 {
			s.out.WriteByte(',')
		}
		s.out.WriteString(n.Schema.Fields[field].Name + ":")
	}
	for _, step := range n.Steps {
		if step.Node == nil {
			if err := c.Skip(step.Writer.Type); err != nil {
				return err.In(step.Writer.Name)
			}
			continue
		}
		begin(step.Field)
		if err := s.value(step.Node); err != nil {
			return err.In(step.Writer.Name)
		}
	}
	for _, d := range n.Defaults {
		begin(d.Field)
		text, err := readText(d.Node, d.Data)
		if err != nil {
			return c.Fail("default: %v", err)
		}
		s.out.WriteString(text)
	}
	s.out.WriteByte('}')
	return nil
}

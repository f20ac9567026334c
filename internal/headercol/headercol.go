// SPDX-License-Identifier: Apache-2.0

// Package headercol is the form of the values of the headers column: the headers of a
// record as bytes.
//
// It knows no record. The functions take any type with the fields of a header, so that
// columnar.RecordHeader needs no copy.
package headercol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Header is a type with the fields of a header; a nil Value is a null.
type Header interface {
	~struct {
		Key   string
		Value []byte
	}
}

type header = struct {
	Key   string
	Value []byte
}

// ErrTruncated is the error of a value that ends within a header.
var ErrTruncated = errors.New("truncated Kafka headers")

var (
	errCount         = errors.New("invalid Kafka header count")
	errKeyLength     = errors.New("negative Kafka header key length")
	errValueLength   = errors.New("invalid Kafka header value length")
	errTrailingBytes = errors.New("trailing bytes in Kafka headers")
)

// Size returns the size of the headers column's value for headers.
func Size[H Header](headers []H) (int, error) {
	size := 4
	for _, one := range headers {
		header := header(one)
		if len(header.Key) > math.MaxInt32 || len(header.Value) > math.MaxInt32 {
			return 0, fmt.Errorf("header %.40q is too large", header.Key)
		}
		size += 8 + len(header.Key) + len(header.Value)
	}
	return size, nil
}

// Append appends the headers column's value: a count, then the key and
// the value of each header, each behind its length; all big-endian int32. The
// length -1 stands for a null value.
func Append[H Header](dst []byte, headers []H) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(headers)))
	for _, one := range headers {
		header := header(one)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(header.Key)))
		dst = append(dst, header.Key...)
		if header.Value == nil {
			dst = binary.BigEndian.AppendUint32(dst, math.MaxUint32)
			continue
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(header.Value)))
		dst = append(dst, header.Value...)
	}
	return dst
}

// Decode reads a value of the headers column. The header values are parts of blob.
func Decode[H Header](blob []byte) ([]H, error) {
	count, rest, err := readInt(blob)
	if err != nil {
		return nil, err
	}
	if count < 0 || count > len(rest)/8+1 {
		return nil, errCount
	}
	if count == 0 {
		if len(rest) > 0 {
			return nil, errTrailingBytes
		}
		return nil, nil
	}
	headers := make([]H, count)
	for i := range headers {
		var one header
		var length int
		if length, rest, err = readInt(rest); err != nil {
			return nil, err
		}
		if length < 0 {
			return nil, errKeyLength
		}
		if length > len(rest) {
			return nil, ErrTruncated
		}
		one.Key, rest = string(rest[:length]), rest[length:]
		if length, rest, err = readInt(rest); err != nil {
			return nil, err
		}
		switch {
		case length < -1:
			return nil, errValueLength
		case length > len(rest):
			return nil, ErrTruncated
		case length >= 0:
			one.Value, rest = rest[:length:length], rest[length:]
		}
		headers[i] = H(one)
	}
	if len(rest) > 0 {
		return nil, errTrailingBytes
	}
	return headers, nil
}

func readInt(blob []byte) (int, []byte, error) {
	if len(blob) < 4 {
		return 0, nil, ErrTruncated
	}
	return int(int32(binary.BigEndian.Uint32(blob))), blob[4:], nil
}

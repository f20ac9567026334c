// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Errors of malformed values of the headers column.
var (
	errHeadersTruncated    = errors.New("truncated Kafka headers")
	errHeaderCount         = errors.New("invalid Kafka header count")
	errHeaderKeyLength     = errors.New("negative Kafka header key length")
	errHeaderValueLength   = errors.New("invalid Kafka header value length")
	errHeaderTrailingBytes = errors.New("trailing bytes in Kafka headers")
)

// headersSize returns the size of the headers column's value for headers.
func headersSize(headers []RecordHeader) (int, error) {
	size := 4
	for _, header := range headers {
		if len(header.Key) > math.MaxInt32 || len(header.Value) > math.MaxInt32 {
			return 0, fmt.Errorf("header %.40q is too large", header.Key)
		}
		size += 8 + len(header.Key) + len(header.Value)
	}
	return size, nil
}

// appendHeaders appends the headers column's value: a count, then the key and
// the value of each header, each behind its length; all big-endian int32. The
// length -1 stands for a null value.
func appendHeaders(dst []byte, headers []RecordHeader) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(headers)))
	for _, header := range headers {
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

// decodeHeaders reads a value of the headers column. The header values are
// parts of blob.
func decodeHeaders(blob []byte) ([]RecordHeader, error) {
	count, rest, err := headerInt(blob)
	if err != nil {
		return nil, err
	}
	if count < 0 || count > len(rest)/8+1 {
		return nil, errHeaderCount
	}
	if count == 0 {
		if len(rest) > 0 {
			return nil, errHeaderTrailingBytes
		}
		return nil, nil
	}
	headers := make([]RecordHeader, count)
	for i := range headers {
		var length int
		if length, rest, err = headerInt(rest); err != nil {
			return nil, err
		}
		if length < 0 {
			return nil, errHeaderKeyLength
		}
		if length > len(rest) {
			return nil, errHeadersTruncated
		}
		headers[i].Key, rest = string(rest[:length]), rest[length:]
		if length, rest, err = headerInt(rest); err != nil {
			return nil, err
		}
		switch {
		case length < -1:
			return nil, errHeaderValueLength
		case length > len(rest):
			return nil, errHeadersTruncated
		case length >= 0:
			headers[i].Value, rest = rest[:length:length], rest[length:]
		}
	}
	if len(rest) > 0 {
		return nil, errHeaderTrailingBytes
	}
	return headers, nil
}

func headerInt(blob []byte) (int, []byte, error) {
	if len(blob) < 4 {
		return 0, nil, errHeadersTruncated
	}
	return int(int32(binary.BigEndian.Uint32(blob))), blob[4:], nil
}

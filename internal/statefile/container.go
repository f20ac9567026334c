// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

const (
	containerVersion = 1

	// containerHeader is the size of the version and the count.
	containerHeader = 8
	// containerEntry is the size of an entry's two lengths.
	containerEntry = 8
)

var (
	errContainerTruncated = errors.New("truncated snapshot")
	errContainerVersion   = errors.New("unsupported state snapshot version")
	errContainerTrailing  = errors.New("trailing bytes in state snapshot")
)

// writeContainer writes the container that all implementations of the library
// share: a version, a count, and name and value with their lengths, in
// ascending byte order of the name. It returns the number of bytes written.
func writeContainer(w io.Writer, state map[string][]byte) (int64, error) {
	var written int64
	write := func(p []byte) error {
		n, err := w.Write(p)
		written += int64(n)
		return err
	}
	if uint64(len(state)) > math.MaxUint32 {
		return 0, fmt.Errorf("%d nodes do not fit a state snapshot", len(state))
	}
	scratch := binary.BigEndian.AppendUint32(nil, containerVersion)
	scratch = binary.BigEndian.AppendUint32(scratch, uint32(len(state)))
	if err := write(scratch); err != nil {
		return written, err
	}
	for _, name := range slices.Sorted(maps.Keys(state)) {
		value := state[name]
		if uint64(len(name)) > math.MaxUint32 || uint64(len(value)) > math.MaxUint32 {
			return written, fmt.Errorf("state of node %.100q has %d bytes, more than a state snapshot holds", name, len(value))
		}
		scratch = binary.BigEndian.AppendUint32(scratch[:0], uint32(len(name)))
		scratch = append(scratch, name...)
		scratch = binary.BigEndian.AppendUint32(scratch, uint32(len(value)))
		if err := write(scratch); err != nil {
			return written, err
		}
		if err := write(value); err != nil {
			return written, err
		}
	}
	return written, nil
}

// readContainer reads a container. The values alias data.
func readContainer(data []byte) (map[string][]byte, error) {
	if len(data) < containerHeader {
		return nil, errContainerTruncated
	}
	if binary.BigEndian.Uint32(data) != containerVersion {
		return nil, errContainerVersion
	}
	count := uint64(binary.BigEndian.Uint32(data[4:]))
	data = data[containerHeader:]
	if count > uint64(len(data))/containerEntry {
		return nil, errContainerTruncated
	}
	field := func() ([]byte, bool) {
		if len(data) < 4 {
			return nil, false
		}
		length := uint64(binary.BigEndian.Uint32(data))
		if length > uint64(len(data)-4) {
			return nil, false
		}
		value := data[4 : 4+length : 4+length]
		data = data[4+length:]
		return value, true
	}
	state := make(map[string][]byte, count)
	for ; count > 0; count-- {
		name, ok := field()
		if !ok {
			return nil, errContainerTruncated
		}
		value, ok := field()
		if !ok {
			return nil, errContainerTruncated
		}
		if _, ok := state[string(name)]; ok {
			return nil, fmt.Errorf("node %.100q is in the state snapshot twice", name)
		}
		state[string(name)] = value
	}
	if len(data) > 0 {
		return nil, errContainerTrailing
	}
	return state, nil
}

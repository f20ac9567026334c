// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePorts returns different ports of the loopback address on which nothing
// listens. They lie below the range that systems take for outgoing
// connections, so that a broker finds its ports free when it starts again.
func freePorts(count int) ([]int, error) {
	const low, high, tries = 20_000, 32_000, 100
	var (
		ports []int
		errs  []error
	)
	for len(ports) < count && len(errs) < tries {
		port := low + rand.IntN(high-low)
		listener, err := net.Listen("tcp", loopback(port))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer listener.Close() // at the end, so that no port comes twice
		ports = append(ports, port)
	}
	if len(ports) < count {
		return nil, fmt.Errorf("kafkatest: no free port: %w", errors.Join(errs...))
	}
	return ports, nil
}

// loopback returns the address of a port of this machine.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

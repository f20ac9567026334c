// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"net"
	"testing"
)

func TestFreePortsAreDifferentAndFree(t *testing.T) {
	ports, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	if len(ports) != 20 {
		t.Fatalf("freePorts(20) returned %d ports", len(ports))
	}
	for _, port := range ports {
		if port < 20_000 || port >= 32_000 {
			t.Errorf("port %d is outside 20000 to 31999", port)
		}
		listener, err := net.Listen("tcp", loopback(port)) // fails if a port came twice
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
}

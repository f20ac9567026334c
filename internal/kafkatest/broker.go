// SPDX-License-Identifier: Apache-2.0

package kafkatest

import "testing"

// Broker is a Kafka broker that belongs to one test, which may crash it. It
// ends with the test. A Broker is not safe for concurrent use.
type Broker struct {
	Addr     string // of the plaintext listener
	SASLAddr string // of the listener for SCRAM-SHA-256 over plaintext

	tb   testing.TB
	node *Node
}

// Start starts a broker of the test's own and waits until it answers. The
// folder with Kafka's jar files comes from the environment. If the test fails,
// it shows the end of the broker's log.
func Start(tb testing.TB, options Options) *Broker {
	tb.Helper()
	node, err := StartNode(tb.Context(), tb.TempDir(), variable(tb, LibraryVariable), options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		node.Kill()
		if tb.Failed() {
			tb.Log(node.LogTail())
		}
	})
	return &Broker{Addr: node.Addr, SASLAddr: node.SASLAddr, tb: tb, node: node}
}

// Kill ends the broker at once, as a crash does. Its data survives.
func (b *Broker) Kill() { b.node.Kill() }

// Stop lets the broker end in order. Its data survives.
func (b *Broker) Stop() { b.node.Stop() }

// Restart starts the broker again, with its data and at its addresses, and
// waits until it answers; if it runs, it is stopped first. The test fails at
// once if the broker does not start, so call Restart from the test's own
// goroutine.
func (b *Broker) Restart() {
	b.tb.Helper()
	if err := b.node.Start(b.tb.Context()); err != nil {
		b.tb.Fatal(err)
	}
}

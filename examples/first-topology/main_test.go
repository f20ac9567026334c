// SPDX-License-Identifier: Apache-2.0

package main

// The result stands in the README beside the program.
func Example() {
	main()
	// Output:
	// visits-per-user: {"user":"ada","visits":2}
	// visits-per-user: {"user":"alan","visits":1}
}

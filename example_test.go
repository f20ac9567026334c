// SPDX-License-Identifier: Apache-2.0

package krabkastreams_test

import (
	"fmt"

	krabkastreams "github.com/krabka-io/krabka-streams-go"
)

func ExampleWithDefaults() {
	defaulted := krabkastreams.WithDefaults(map[string]any{"application.id": "order-counter"})
	fmt.Println(defaulted[krabkastreams.GroupProtocolConfig])

	chosen := krabkastreams.WithDefaults(map[string]any{krabkastreams.GroupProtocolConfig: "classic"})
	fmt.Println(chosen[krabkastreams.GroupProtocolConfig])
	// Output:
	// streams
	// classic
}

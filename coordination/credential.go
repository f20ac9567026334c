// SPDX-License-Identifier: Apache-2.0

package coordination

import "fmt"

// Credential is what a holder attaches to a command for a device outside
// Kafka. [Leadership.Credential] builds one, and a [DeviceGuard] checks it.
type Credential struct {
	// Token is the token that the holder held when it issued the command.
	Token FencingToken `json:"token"`

	// Sequence is the sequence of the leadership. It grows strictly from one
	// leadership of a role to the next.
	Sequence int64 `json:"sequence"`
}

// String writes the sequence and the token.
func (c Credential) String() string { return fmt.Sprintf("%d (%s)", c.Sequence, c.Token) }

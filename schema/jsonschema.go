// SPDX-License-Identifier: Apache-2.0

package schema

// jsonOptions are the options of JSON Schema serdes.
type jsonOptions struct{}

// SPDX-License-Identifier: Apache-2.0

package krabkastreams

import "maps"

const (
	// GroupProtocolConfig is the configuration key that selects a consumer's
	// group protocol.
	GroupProtocolConfig = "group.protocol"
	// StreamsGroupProtocol is the group protocol of Kafka Streams clients.
	StreamsGroupProtocol = "streams"
)

// WithDefaults returns a copy of settings in which [GroupProtocolConfig] is
// [StreamsGroupProtocol], unless the key is present: any value it has is kept,
// nil included. The copy is shallow. The caller owns it, and it is never nil.
// Settings are not changed.
//
// The default is for Kafka Streams applications that are configured from Go, as
// on the JVM. librdkafka, and with it confluent-kafka-go, refuses "streams" as a
// group protocol: set "classic" or "consumer" for such a client. The clients of
// this module are configured with kgo options and take no such map.
func WithDefaults(settings map[string]any) map[string]any {
	merged := make(map[string]any, len(settings)+1)
	merged[GroupProtocolConfig] = StreamsGroupProtocol
	maps.Copy(merged, settings)
	return merged
}

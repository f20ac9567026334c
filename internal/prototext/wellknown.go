// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"embed"
	"path"
	"strings"
)

// wellKnownFiles holds files that Confluent's registry has beside those of the
// compiler. Kafka Connect's converter imports them for decimals, dates, times
// and metadata, and registers them nowhere.
//
//go:embed wellknown
var wellKnownFiles embed.FS

// wellKnownProto returns the source text of such a file, or false.
func wellKnownProto(file string) (string, bool) {
	if path.Clean(file) != file || strings.HasPrefix(file, "../") {
		return "", false
	}
	text, err := wellKnownFiles.ReadFile("wellknown/" + file)
	return string(text), err == nil
}

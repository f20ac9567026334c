// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"embed"
	"path"
	"strings"
)

// wellKnownFiles holds the files that Confluent's registry has beside those of
// the compiler: all of google/type, and Confluent's own decimals and metadata.
// Schemas import them, and writers register them nowhere.
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

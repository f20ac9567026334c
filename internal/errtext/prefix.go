// SPDX-License-Identifier: Apache-2.0

// Package errtext writes the prefix of a package's errors once in a text,
// however deep errors of that package are nested.
package errtext

import (
	"fmt"
	"strings"
)

// A Prefix begins the text of each error of a package: the package's name, a
// colon and a blank.
type Prefix string

// Quote returns err's text for use behind the prefix in another error's text.
// The prefix is taken off wherever an error begins: at the front, behind a
// colon, and on each line of joined errors.
func (p Prefix) Quote(err error) string {
	text := fmt.Sprint(err)
	for _, before := range []string{": ", "\n"} {
		text = strings.ReplaceAll(text, before+string(p), before)
	}
	return strings.TrimPrefix(text, string(p))
}

// Wrap returns an error that says what was being done when cause came up, which
// it wraps. Its text begins with the prefix and quotes the cause.
func (p Prefix) Wrap(cause error, doing string, args ...any) error {
	return &wrapped{prefix: p, doing: fmt.Sprintf(doing, args...), cause: cause}
}

type wrapped struct {
	prefix Prefix
	doing  string
	cause  error
}

func (w *wrapped) Error() string {
	return string(w.prefix) + w.doing + ": " + w.prefix.Quote(w.cause)
}

func (w *wrapped) Unwrap() error { return w.cause }

// SPDX-License-Identifier: Apache-2.0

package errtext

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestPrefixStandsOnce(t *testing.T) {
	const own, other = Prefix("own: "), Prefix("other: ")
	tests := map[string]struct {
		cause error
		want  string
	}{
		"a foreign error":             {io.EOF, "own: reading: EOF"},
		"an own error":                {errors.New("own: no rows"), "own: reading: no rows"},
		"an own error in an own one":  {own.Wrap(errors.New("own: no rows"), "topic %q", "in"), `own: reading: topic "in": no rows`},
		"an own error in another's":   {other.Wrap(errors.New("own: no rows"), "poll"), "own: reading: other: poll: no rows"},
		"joined errors":               {errors.Join(errors.New("own: a"), io.EOF, errors.New("own: b")), "own: reading: a\nEOF\nb"},
		"an own error behind a colon": {fmt.Errorf("row 3: %w", errors.New("own: null")), "own: reading: row 3: null"},
		"the word within a text":      {errors.New("the file /own: gone"), "own: reading: the file /own: gone"},
		"nothing":                     {nil, "own: reading: <nil>"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := own.Wrap(test.cause, "reading")
			if got := err.Error(); got != test.want {
				t.Errorf("text is %q, want %q", got, test.want)
			}
			if got := errors.Unwrap(err); got != test.cause {
				t.Errorf("it wraps %v, want %v", got, test.cause)
			}
		})
	}
}

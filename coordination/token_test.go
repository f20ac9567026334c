// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func TestTokenOrder(t *testing.T) {
	cases := []struct {
		left, right coordination.FencingToken
		want        int
	}{
		{token(t, 7, 3), token(t, 7, 3), 0},
		{token(t, 7, 4), token(t, 7, 3), 1},
		{token(t, 7, 2), token(t, 7, 3), -1},
		{token(t, 8, 0), token(t, 7, 9), 1},
		{token(t, 6, 9), token(t, 7, 0), -1},
		{token(t, 5, 0), token(t, 4, math.MaxInt16), 1},
		{token(t, 0, 0), coordination.NoEpoch, 1},
		{coordination.NoEpoch, token(t, 0, 0), -1},
		{coordination.NoEpoch, coordination.NoEpoch, 0},
	}
	for _, c := range cases {
		if got := c.left.Compare(c.right); got != c.want {
			t.Errorf("%s.Compare(%s) = %d, want %d", c.left, c.right, got, c.want)
		}
		if got := c.left.Supersedes(c.right); got != (c.want > 0) {
			t.Errorf("%s.Supersedes(%s) = %t", c.left, c.right, got)
		}
	}
}

func TestNegativePairsAreNoTokens(t *testing.T) {
	for _, c := range []struct {
		producerID    int64
		producerEpoch int16
		want          string
	}{
		{-1, 0, "coordination: producer id -1 must not be negative"},
		{0, -1, "coordination: producer epoch -1 must not be negative"},
		{-1, -1, "coordination: producer id -1 must not be negative"},
	} {
		got, err := coordination.NewFencingToken(c.producerID, c.producerEpoch)
		if err == nil || err.Error() != c.want || got != coordination.NoEpoch {
			t.Errorf("NewFencingToken(%d, %d) = %s, %v, want %s and %q", c.producerID, c.producerEpoch, got, err, coordination.NoEpoch, c.want)
		}
	}
}

func TestTokenText(t *testing.T) {
	for _, text := range []string{"4242:7", "0:0", "9223372036854775807:32767"} {
		parsed, err := coordination.ParseFencingToken(text)
		if err != nil || parsed.String() != text {
			t.Errorf("ParseFencingToken(%q) = %s, %v", text, parsed, err)
		}
	}
	if got := token(t, 4242, 7); got.ProducerID() != 4242 || got.ProducerEpoch() != 7 {
		t.Errorf("parts of %s are %d and %d", got, got.ProducerID(), got.ProducerEpoch())
	}
	for _, text := range []string{
		"", "4242", "4242:7:1", "4242:", ":7", "x:7", "4242:x", "-1:7", "4242:40000",
		"4242:-1", "4242:32768", "+4:7", "04:007", " 4:7", "4: 7", "-1:-1", "9223372036854775808:0",
	} {
		if parsed, err := coordination.ParseFencingToken(text); err == nil || parsed != coordination.NoEpoch {
			t.Errorf("ParseFencingToken(%q) = %s, %v, want an error", text, parsed, err)
		}
	}
}

func TestTokenTravelsAsText(t *testing.T) {
	type command struct {
		Token coordination.FencingToken `json:"token"`
	}
	for _, want := range []command{{token(t, 4242, 7)}, {coordination.NoEpoch}} {
		encoded, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got command
		if err := json.Unmarshal(encoded, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, equateValues); diff != "" {
			t.Errorf("%s mismatch (-want +got):\n%s", encoded, diff)
		}
	}
	kept := command{token(t, 1, 1)}
	if err := json.Unmarshal([]byte(`{"token":"04:7"}`), &kept); err == nil || kept.Token != token(t, 1, 1) {
		t.Errorf("a malformed token gave %s and error %v", kept.Token, err)
	}
}

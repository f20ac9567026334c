// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// fuzzRoundTrip checks the one property that holds for all three decoders: an
// input either encodes back to itself or is a *FormatError of that part.
func fuzzRoundTrip[T any](f *testing.F, part string, decode func([]byte) (T, error), encode func(T) []byte, seeds ...[]byte) {
	for _, seed := range seeds {
		f.Add(seed)
		f.Add(seed[:len(seed)/2])
		f.Add(append(bytes.Clone(seed), 0xff, 0xfe))
	}
	f.Add([]byte{0, 0, 0x7f, 0xff, 'a'})
	f.Add([]byte{0, 0, 0x80, 0x00})
	f.Fuzz(func(t *testing.T, data []byte) {
		value, err := decode(data)
		if err != nil {
			var format *coordination.FormatError
			if !errors.As(err, &format) || format.Part != part {
				t.Fatalf("error %v is no *FormatError of the %s", err, part)
			}
			return
		}
		if encoded := encode(value); !bytes.Equal(encoded, data) {
			t.Fatalf("%x decodes to %v, which encodes to %x", data, value, encoded)
		}
	})
}

func FuzzDecodeKey(f *testing.F) {
	fuzzRoundTrip(f, "key", coordination.DecodeKey, coordination.EncodeKey,
		coordination.EncodeKey(coordination.RegistrationKey(role(f, "controller"), member(f, "node-1"))),
		coordination.EncodeKey(coordination.LeaseKey(role(f, "r\u00f6le"))))
}

func FuzzDecodeRegistration(f *testing.F) {
	fuzzRoundTrip(f, "registration value", coordination.DecodeRegistration, coordination.EncodeRegistration,
		coordination.EncodeRegistration(coordination.Registration{Member: member(f, "node-1"), RegisteredAt: -1}))
}

func FuzzDecodeLease(f *testing.F) {
	fuzzRoundTrip(f, "lease value", coordination.DecodeLease, coordination.EncodeLease,
		coordination.EncodeLease(coordination.Lease{Member: member(f, "node-1"), Token: token(f, 4242, 7), Deadline: 1}))
}

func FuzzParseFencingToken(f *testing.F) {
	for _, seed := range []string{"4242:7", "0:0", "-1:-1", "+4:7", "04:007", "4242:32768", ":", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := coordination.ParseFencingToken(text)
		if err != nil {
			if parsed != coordination.NoEpoch {
				t.Fatalf("ParseFencingToken(%q) failed with token %s", text, parsed)
			}
			return
		}
		if parsed.String() != text || !parsed.Supersedes(coordination.NoEpoch) {
			t.Fatalf("ParseFencingToken(%q) = %s", text, parsed)
		}
	})
}

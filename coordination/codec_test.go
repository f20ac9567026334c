// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func role(tb testing.TB, name string) coordination.Role {
	tb.Helper()
	r, err := coordination.NewRole(name)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func member(tb testing.TB, name string) coordination.MemberID {
	tb.Helper()
	m, err := coordination.NewMemberID(name)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func token(tb testing.TB, producerID int64, producerEpoch int16) coordination.FencingToken {
	tb.Helper()
	t, err := coordination.NewFencingToken(producerID, producerEpoch)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// equateValues lets cmp compare the comparable value types of the package,
// whose fields it cannot see.
var equateValues = cmp.Options{
	cmp.Comparer(func(x, y coordination.Role) bool { return x == y }),
	cmp.Comparer(func(x, y coordination.MemberID) bool { return x == y }),
	cmp.Comparer(func(x, y coordination.FencingToken) bool { return x == y }),
}

func fromHex(tb testing.TB, text string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

const fixtureMillis = 1700000000000

// golden is a value and its bytes.
type golden[T any] struct {
	name  string
	value T
	size  int
	want  string
}

// checkGoldens encodes each value and decodes its bytes.
func checkGoldens[T any](t *testing.T, encode func(T) []byte, decode func([]byte) (T, error), goldens ...golden[T]) {
	t.Helper()
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			encoded := encode(g.value)
			if diff := cmp.Diff(fromHex(t, g.want), encoded); diff != "" {
				t.Errorf("encoding mismatch (-want +got):\n%s", diff)
			}
			if len(encoded) != g.size {
				t.Errorf("encoded to %d bytes, want %d", len(encoded), g.size)
			}
			decoded, err := decode(fromHex(t, g.want))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(g.value, decoded, equateValues); diff != "" {
				t.Errorf("decoding mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKeyGoldens(t *testing.T) {
	controller, umlaut := role(t, "controller"), role(t, "r\u00f6le")
	checkGoldens(t, coordination.EncodeKey, coordination.DecodeKey, []golden[coordination.Key]{
		{"registration", coordination.RegistrationKey(controller, member(t, "node-1")), 24,
			"00000000000a636f6e74726f6c6c657200066e6f64652d31"},
		{"lease", coordination.LeaseKey(controller), 18,
			"00000001000a636f6e74726f6c6c65720000"},
		{"role outside ASCII", coordination.RegistrationKey(umlaut, member(t, "m")), 14,
			"00000000 0005 72c3b66c65 0001 6d"},
	}...)
}

func TestRegistrationGoldens(t *testing.T) {
	checkGoldens(t, coordination.EncodeRegistration, coordination.DecodeRegistration, []golden[coordination.Registration]{
		{"fixture", coordination.Registration{Member: member(t, "node-1"), RegisteredAt: fixtureMillis}, 18,
			"000000066e6f64652d310000018bcfe56800"},
		{"before the epoch", coordination.Registration{Member: member(t, "m"), RegisteredAt: -1}, 13,
			"000000016dffffffffffffffff"},
	}...)
}

func TestLeaseGoldens(t *testing.T) {
	zero := coordination.Lease{Member: member(t, "m"), Token: token(t, 0, 0)}
	checkGoldens(t, coordination.EncodeLease, coordination.DecodeLease, []golden[coordination.Lease]{
		{"fixture", coordination.Lease{
			Member: member(t, "node-1"), Token: token(t, 4242, 7),
			GrantedAt: fixtureMillis, Deadline: fixtureMillis + 30000,
		}, 36, "000000066e6f64652d31000000000000109200070000018bcfe568000000018bcfe5dd30"},
		{"extremes", coordination.Lease{
			Member: member(t, "node-1"), Token: token(t, math.MaxInt64, math.MaxInt16),
			GrantedAt: -1, Deadline: math.MaxInt64,
		}, 36, "000000066e6f64652d317fffffffffffffff7fffffffffffffffffff7fffffffffffffff"},
		{"all zero", zero, 31,
			"000000016d0000000000000000000000000000000000000000000000000000"},
	}...)
	if coordination.IsTombstone(coordination.EncodeLease(zero)) {
		t.Error("an encoded lease counts as a tombstone")
	}
}

func TestLeaseKeyDropsTheMember(t *testing.T) {
	key := coordination.LeaseKey(role(t, "controller"))
	key.Member = member(t, "node-1")
	want := coordination.EncodeKey(coordination.LeaseKey(role(t, "controller")))
	if diff := cmp.Diff(want, coordination.EncodeKey(key)); diff != "" {
		t.Errorf("EncodeKey mismatch (-want +got):\n%s", diff)
	}
}

func TestEncodedUnknownKindIsRejected(t *testing.T) {
	key := coordination.Key{Kind: 9, Role: role(t, "a"), Member: member(t, "m")}
	encoded := coordination.EncodeKey(key)
	if diff := cmp.Diff(fromHex(t, "0000 0009 0001 61 0001 6d"), encoded); diff != "" {
		t.Errorf("EncodeKey mismatch (-want +got):\n%s", diff)
	}
	checkMalformed(t, "key", "unknown coordination state record kind 9", decodeKey(encoded))
}

func decodeKey(data []byte) error {
	_, err := coordination.DecodeKey(data)
	return err
}

func decodeRegistration(data []byte) error {
	_, err := coordination.DecodeRegistration(data)
	return err
}

func decodeLease(data []byte) error {
	_, err := coordination.DecodeLease(data)
	return err
}

func checkMalformed(tb testing.TB, part, text string, err error) {
	tb.Helper()
	var format *coordination.FormatError
	if !errors.As(err, &format) {
		tb.Fatalf("error %v is no *FormatError", err)
	}
	if format.Part != part {
		tb.Errorf("Part = %q, want %q", format.Part, part)
	}
	if !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), part) {
		tb.Errorf("Error() = %q, want it to name the %s and contain %q", err, part, text)
	}
}

func TestMalformedRecords(t *testing.T) {
	const (
		key          = "key"
		registration = "registration value"
		lease        = "lease value"
	)
	decoders := map[string]func([]byte) error{key: decodeKey, registration: decodeRegistration, lease: decodeLease}
	long := "00fa" + strings.Repeat("78", 250)
	cases := []struct {
		name, part, input, text string
	}{
		{"empty key", key, "", "truncated"},
		{"empty registration", registration, "", "truncated"},
		{"empty lease", lease, "", "truncated"},
		{"key version", key, "0001 0000 0001 61 0001 78", "unsupported"},
		{"registration version", registration, "0007 0001 78 0000000000000000", "unsupported"},
		{"lease version", lease, "ffff 0001 78 0000000000000000 0000 0000000000000000 0000000000000000", "unsupported record version -1"},
		{"kind 9", key, "0000 0009 0001 61 0001 78", "unknown coordination state record kind 9"},
		{"kind -1", key, "0000 ffff 0001 61 0001 78", "unknown coordination state record kind -1"},
		{"kind before the rest", key, "0000 0009", "unknown coordination state record kind 9"},
		{"negative role length", key, "0000 0000 ffff", "negative string length"},
		{"negative member length", key, "0000 0000 0001 61 8000", "negative string length"},
		{"negative registration member length", registration, "0000 ffff 0000000000000000", "negative string length"},
		{"negative lease member length", lease, "0000 ffff", "negative string length"},
		{"length past the buffer", key, "0000 0000 7fff 61", "truncated"},
		{"length past the registration", registration, "0000 7fff 61", "truncated"},
		{"length past the lease", lease, "0000 7fff 61", "truncated"},
		{"role not UTF-8", key, "0000 0000 0001 ff 0001 78", "non-UTF-8"},
		{"member not UTF-8", key, "0000 0000 0001 78 0001 ff", "non-UTF-8"},
		{"registration member not UTF-8", registration, "0000 0001 ff 0000000000000000", "non-UTF-8"},
		{"lease member not UTF-8", lease, "0000 0001 ff 0000000000000000 0000 0000000000000000 0000000000000000", "non-UTF-8"},
		{"empty role", key, "0000 0001 0000 0000", "must not be empty"},
		{"long role", key, "0000 0001" + long + "0000", "250 bytes"},
		{"long member in a key", key, "0000 0000 0001 61" + long, "250 bytes"},
		{"long member in a registration", registration, "0000" + long + "0000000000000000", "250 bytes"},
		{"long member in a lease", lease, "0000" + long + "0000000000000000 0000 0000000000000000 0000000000000000", "250 bytes"},
		{"registration key without a member", key, "0000 0000 0001 61 0000", "must not be empty"},
		{"registration without a member", registration, "0000 0000 0000000000000000", "must not be empty"},
		{"lease without a member", lease, "0000 0000 0000000000000000 0000 0000000000000000 0000000000000000", "must not be empty"},
		{"lease key with a member", key, "0000 0001 0001 61 0001 78", "a lease key carries the empty member string"},
		{"negative producer id", lease, "0000 0001 78 ffffffffffffffff 0000 0000000000000000 0000000000000000", "must not be negative"},
		{"negative producer epoch", lease, "0000 0001 78 0000000000000000 ffff 0000000000000000 0000000000000000", "must not be negative"},
		{"trailing before constructor", key, "0000 0001 0000 0000 00", "trailing bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			checkMalformed(t, c.part, c.text, decoders[c.part](fromHex(t, c.input)))
		})
	}
}

func TestEveryPrefixIsTruncatedAndEveryExtensionTrails(t *testing.T) {
	cases := []struct {
		part   string
		decode func([]byte) error
		valid  []byte
	}{
		{"key", decodeKey, coordination.EncodeKey(coordination.RegistrationKey(role(t, "controller"), member(t, "node-1")))},
		{"key", decodeKey, coordination.EncodeKey(coordination.LeaseKey(role(t, "controller")))},
		{"registration value", decodeRegistration, coordination.EncodeRegistration(coordination.Registration{Member: member(t, "node-1")})},
		{"lease value", decodeLease, coordination.EncodeLease(coordination.Lease{Member: member(t, "node-1")})},
	}
	for _, c := range cases {
		for size := range c.valid {
			checkMalformed(t, c.part, "truncated", c.decode(c.valid[:size]))
		}
		checkMalformed(t, c.part, "trailing bytes", c.decode(append(c.valid[:len(c.valid):len(c.valid)], 0)))
	}
}

// A registration key is no value: no decoder accepts a prefix of it, with or
// without two bytes behind.
func TestPrefixesOfARegistrationKeyFitNoDecoder(t *testing.T) {
	valid := coordination.EncodeKey(coordination.RegistrationKey(role(t, "controller"), member(t, "node-1")))
	for size := range len(valid) + 1 {
		for _, input := range [][]byte{valid[:size:size], append(valid[:size:size], 0xff, 0xfe)} {
			for part, decode := range map[string]func([]byte) error{
				"key": decodeKey, "registration value": decodeRegistration, "lease value": decodeLease,
			} {
				err := decode(input)
				if part == "key" && len(input) == len(valid) && size == len(valid) {
					if err != nil {
						t.Errorf("the whole key is rejected: %v", err)
					}
					continue
				}
				var format *coordination.FormatError
				if !errors.As(err, &format) || format.Part != part {
					t.Errorf("%s of %x: %v, want a *FormatError", part, input, err)
				}
			}
		}
	}
}

func TestTombstones(t *testing.T) {
	if !coordination.IsTombstone(nil) || !coordination.IsTombstone([]byte{}) {
		t.Error("a nil and an empty value are tombstones")
	}
	if coordination.IsTombstone([]byte{0}) {
		t.Error("a value of one byte is no tombstone")
	}
}

func TestFormatErrorWithoutAFaultNamesThePart(t *testing.T) {
	if got, want := (&coordination.FormatError{Part: "key"}).Error(), "malformed key"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

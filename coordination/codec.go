// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// recordVersion is the version of the frozen record layout. All numbers are
// big-endian; a string is an int16 byte length and that many UTF-8 bytes.
//
//	key                 version i16, kind i16, role string, member string
//	registration value  version i16, member string, registeredAt i64
//	lease value         version i16, member string, producerID i64,
//	                    producerEpoch i16, grantedAt i64, deadline i64
//
// The Rust and Java libraries share the topic and the layout. A reader stops
// at a version it does not know, so a second version needs every reader
// upgraded before the first writer.
const recordVersion = 0

const (
	partKey          = "key"
	partRegistration = "registration value"
	partLease        = "lease value"
)

// EncodeKey encodes a key of [StateTopic].
//
// EncodeKey writes the empty member string for a lease key, whatever key.Member
// holds, because the frozen layout gives a lease no member. The caller owns
// the returned bytes.
func EncodeKey(key Key) []byte {
	member := key.Member.name
	if key.Kind == KindLease {
		member = ""
	}
	b := make([]byte, 0, 8+len(key.Role.name)+len(member))
	b = binary.BigEndian.AppendUint16(b, recordVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(key.Kind))
	b = appendString(b, key.Role.name)
	return appendString(b, member)
}

// EncodeRegistration encodes the value of a registration record. The caller
// owns the returned bytes.
func EncodeRegistration(registration Registration) []byte {
	b := make([]byte, 0, 12+len(registration.Member.name))
	b = binary.BigEndian.AppendUint16(b, recordVersion)
	b = appendString(b, registration.Member.name)
	return binary.BigEndian.AppendUint64(b, uint64(registration.RegisteredAt))
}

// EncodeLease encodes the value of a lease record. The caller owns the
// returned bytes.
func EncodeLease(lease Lease) []byte {
	b := make([]byte, 0, 30+len(lease.Member.name))
	b = binary.BigEndian.AppendUint16(b, recordVersion)
	b = appendString(b, lease.Member.name)
	b = binary.BigEndian.AppendUint64(b, uint64(lease.Token.producerID))
	b = binary.BigEndian.AppendUint16(b, uint16(lease.Token.producerEpoch))
	b = binary.BigEndian.AppendUint64(b, uint64(lease.GrantedAt))
	return binary.BigEndian.AppendUint64(b, uint64(lease.Deadline))
}

// appendString relies on the constructors, which keep a name far below the
// range of the length.
func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// DecodeKey decodes a key of [StateTopic]. It returns a [*FormatError] for a
// truncated buffer, for trailing bytes, for an unknown version, for an unknown
// kind, for a negative string length, for a string that is not valid UTF-8,
// for a role or a member id that its constructor rejects, and for a lease key
// that names a member. DecodeKey does not keep data.
func DecodeKey(data []byte) (Key, error) {
	r := recordReader{rest: data}
	r.version()
	kind := RecordKind(r.int16("kind"))
	if r.fault == nil && kind != KindRegistration && kind != KindLease {
		r.fault = fmt.Errorf("unknown coordination state record kind %d", int16(kind))
	}
	role := r.text("role")
	member := r.text("member")
	r.end()
	r.check(checkName("role", role, MaxRoleLen))
	if kind == KindLease {
		if member != "" {
			r.check(fmt.Errorf("a lease key carries the empty member string, not %q", member))
		}
	} else {
		r.check(checkName("member id", member, MaxMemberIDLen))
	}
	if r.fault != nil {
		return Key{}, &FormatError{Part: partKey, fault: r.fault}
	}
	return Key{Kind: kind, Role: Role{name: role}, Member: MemberID{name: member}}, nil
}

// DecodeRegistration decodes the value of a registration record. It returns a
// [*FormatError] for what [DecodeKey] refuses in a key, and does not keep data.
func DecodeRegistration(data []byte) (Registration, error) {
	r := recordReader{rest: data}
	r.version()
	member := r.text("member")
	registeredAt := r.int64("registration time")
	r.end()
	r.check(checkName("member id", member, MaxMemberIDLen))
	if r.fault != nil {
		return Registration{}, &FormatError{Part: partRegistration, fault: r.fault}
	}
	return Registration{Member: MemberID{name: member}, RegisteredAt: registeredAt}, nil
}

// DecodeLease decodes the value of a lease record. It returns a [*FormatError]
// for what [DecodeKey] refuses in a key and for a negative producer id or epoch,
// and does not keep data.
func DecodeLease(data []byte) (Lease, error) {
	r := recordReader{rest: data}
	r.version()
	member := r.text("member")
	producerID := r.int64("producer id")
	producerEpoch := r.int16("producer epoch")
	grantedAt := r.int64("grant time")
	deadline := r.int64("deadline")
	r.end()
	r.check(checkName("member id", member, MaxMemberIDLen))
	r.check(checkPair(producerID, producerEpoch))
	if r.fault != nil {
		return Lease{}, &FormatError{Part: partLease, fault: r.fault}
	}
	return Lease{
		Member:    MemberID{name: member},
		Token:     FencingToken{producerID: producerID, producerEpoch: producerEpoch},
		GrantedAt: grantedAt,
		Deadline:  deadline,
	}, nil
}

// recordReader reads the fields of one record part in order. It keeps the
// first fault, and every read after a fault returns the zero value.
type recordReader struct {
	rest  []byte
	fault error
}

func (r *recordReader) take(size int, field string) []byte {
	if r.fault != nil {
		return nil
	}
	if size > len(r.rest) {
		r.fault = fmt.Errorf("truncated in the %s: %d bytes needed, %d left", field, size, len(r.rest))
		return nil
	}
	taken := r.rest[:size]
	r.rest = r.rest[size:]
	return taken
}

func (r *recordReader) int16(field string) int16 {
	if b := r.take(2, field); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *recordReader) int64(field string) int64 {
	if b := r.take(8, field); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *recordReader) text(field string) string {
	size := r.int16(field)
	if r.fault == nil && size < 0 {
		r.fault = fmt.Errorf("negative string length %d of the %s", size, field)
	}
	b := r.take(int(size), field)
	if r.fault == nil && !utf8.Valid(b) {
		r.fault = fmt.Errorf("%w in the %s", errNonUTF8, field)
	}
	return string(b)
}

func (r *recordReader) version() {
	if version := r.int16("version"); r.fault == nil && version != recordVersion {
		r.fault = fmt.Errorf("unsupported record version %d", version)
	}
}

func (r *recordReader) end() {
	if r.fault == nil && len(r.rest) > 0 {
		r.fault = fmt.Errorf("trailing bytes: %d after the last field", len(r.rest))
	}
}

func (r *recordReader) check(fault error) {
	if r.fault == nil {
		r.fault = fault
	}
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func benchLease(b *testing.B) coordination.Lease {
	return coordination.Lease{Member: member(b, "node-1"), Token: token(b, 4242, 7), GrantedAt: fixtureMillis, Deadline: fixtureMillis + 30000}
}

// Twins: the codec of the package, and encoding/binary field by field.
func BenchmarkDecodeLease(b *testing.B) {
	encoded := coordination.EncodeLease(benchLease(b))
	b.Run("package", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(encoded)))
		for b.Loop() {
			if _, err := coordination.DecodeLease(encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("naive", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(encoded)))
		for b.Loop() {
			if _, err := naiveLease(encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func naiveLease(encoded []byte) (lease coordination.Lease, err error) {
	from := bytes.NewReader(encoded)
	var version, length, epoch int16
	var id int64
	for _, field := range []any{&version, &length} {
		if err := binary.Read(from, binary.BigEndian, field); err != nil {
			return lease, err
		}
	}
	name := make([]byte, max(0, min(int(length), from.Len())))
	for _, field := range []any{name, &id, &epoch, &lease.GrantedAt, &lease.Deadline} {
		if err := binary.Read(from, binary.BigEndian, field); err != nil {
			return lease, err
		}
	}
	if lease.Member, err = coordination.NewMemberID(string(name)); err != nil {
		return lease, err
	}
	lease.Token, err = coordination.NewFencingToken(id, epoch)
	return lease, err
}

func BenchmarkEncodeLease(b *testing.B) {
	lease := benchLease(b)
	b.Run("package", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			coordination.EncodeLease(lease)
		}
	})
	b.Run("naive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var to bytes.Buffer
			name := []byte(lease.Member.String())
			for _, field := range []any{
				int16(0), int16(len(name)), name, lease.Token.ProducerID(), lease.Token.ProducerEpoch(), lease.GrantedAt, lease.Deadline,
			} {
				if err := binary.Write(&to, binary.BigEndian, field); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// Twins: the fold of the package, and a sort by offset with a map of keys in
// text, every value decoded.
func BenchmarkFold(b *testing.B) {
	controller := role(b, "controller")
	for _, members := range []int{3, 100} {
		var log []coordination.StateRecord
		for n := range 2 * members {
			id := member(b, fmt.Sprint("node-", n%members))
			log = append(log, coordination.StateRecord{
				Offset: int64(2 * n), Key: coordination.EncodeKey(coordination.RegistrationKey(controller, id)),
				Value: coordination.EncodeRegistration(coordination.Registration{Member: id, RegisteredAt: int64(n)}),
			}, coordination.StateRecord{
				Offset: int64(2*n + 1), Key: coordination.EncodeKey(coordination.LeaseKey(controller)),
				Value: coordination.EncodeLease(coordination.Lease{Member: id, GrantedAt: int64(n), Deadline: int64(n + 1)}),
			})
		}
		want, err := coordination.BuildRoleState(controller, log)
		if err != nil {
			b.Fatal(err)
		}
		for name, fold := range map[string]func(coordination.Role, []coordination.StateRecord) (coordination.RoleState, error){
			"package": coordination.BuildRoleState, "naive": naiveFold,
		} {
			b.Run(fmt.Sprintf("members=%d/%s", members, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					state, err := fold(controller, log)
					if err != nil || len(state.Roster) != len(want.Roster) || *state.Lease != *want.Lease {
						b.Fatalf("state %v, %v", state, err)
					}
				}
				b.ReportMetric(float64(len(log))*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

func naiveFold(of coordination.Role, log []coordination.StateRecord) (state coordination.RoleState, err error) {
	sorted := slices.SortedFunc(slices.Values(log), func(x, y coordination.StateRecord) int { return int(x.Offset - y.Offset) })
	entries := make(map[string]coordination.RosterEntry)
	for _, record := range sorted {
		key, err := coordination.DecodeKey(record.Key)
		if err != nil {
			return state, err
		}
		text := fmt.Sprintf("%d/%s/%s", key.Kind, key.Role, key.Member)
		switch {
		case key.Role != of:
		case key.Kind == coordination.KindLease:
			lease, err := coordination.DecodeLease(record.Value)
			if err != nil {
				return state, err
			}
			state.Lease = &lease
		case coordination.IsTombstone(record.Value):
			delete(entries, text)
		default:
			registration, err := coordination.DecodeRegistration(record.Value)
			if err != nil {
				return state, err
			}
			entries[text] = coordination.RosterEntry{Member: key.Member, Offset: record.Offset, RegisteredAt: registration.RegisteredAt}
		}
	}
	for _, entry := range entries {
		state.Roster = append(state.Roster, entry)
	}
	slices.SortFunc(state.Roster, func(x, y coordination.RosterEntry) int { return int(x.Offset - y.Offset) })
	return state, nil
}

// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// memoryStore keeps the credential of a device.
type memoryStore struct {
	stored []coordination.Credential
	fail   error
	during func()
}

func (s *memoryStore) Load(context.Context) (coordination.Credential, bool, error) {
	if s.fail != nil || len(s.stored) == 0 {
		return coordination.Credential{Token: coordination.NoEpoch, Sequence: -1}, false, s.fail // of no meaning
	}
	return s.stored[len(s.stored)-1], true, nil
}

func (s *memoryStore) Save(_ context.Context, credential coordination.Credential) error {
	if s.during != nil {
		s.during()
	}
	if s.fail != nil {
		return s.fail
	}
	s.stored = append(s.stored, credential)
	return nil
}

func credential(tb testing.TB, sequence, producerID int64, epoch int16) coordination.Credential {
	tb.Helper()
	return coordination.Credential{Token: token(tb, producerID, epoch), Sequence: sequence}
}

func deviceGuard(tb testing.TB, store coordination.CredentialStore) *coordination.DeviceGuard {
	tb.Helper()
	g, err := coordination.NewDeviceGuard(tb.Context(), store)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func TestDeviceAdmitsLaterLeadershipsOnly(t *testing.T) {
	store := new(memoryStore)
	g := deviceGuard(t, store)
	admit := func(c coordination.Credential, want error) {
		t.Helper()
		if err := g.Admit(t.Context(), c); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("credential %s: %v, want %v", c, err, want)
		}
	}
	admit(credential(t, 10, 7, 3), nil)
	admit(credential(t, 10, 7, 3), nil)
	admit(credential(t, 20, 7, 4), nil)
	admit(credential(t, 10, 7, 3), coordination.ErrFenced)
	// The producer id started over at a smaller one; the sequence still grows.
	admit(credential(t, 30, 2, 0), nil)
	admit(credential(t, 20, 7, 4), coordination.ErrFenced)
	// Within one leadership the broker may move the epoch.
	admit(credential(t, 30, 2, 5), nil)
	admit(credential(t, 30, 2, 4), nil)
	// The numbers contradict each other.
	admit(credential(t, 25, 2, 9), coordination.ErrCredentialConflict)
	admit(credential(t, 40, 2, 0), coordination.ErrCredentialConflict)

	want := []coordination.Credential{credential(t, 10, 7, 3), credential(t, 20, 7, 4), credential(t, 30, 2, 0)}
	if diff := cmp.Diff(want, store.stored, equateValues); diff != "" {
		t.Errorf("stored credentials mismatch (-want +got):\n%s", diff)
	}
}

// The first command is of a later leadership than none, whatever its numbers.
func TestDeviceRecordsTheFirstCredential(t *testing.T) {
	for _, first := range []coordination.Credential{credential(t, 0, 0, 0), credential(t, 0, 7, 3), credential(t, 5, 0, 0)} {
		store := new(memoryStore)
		if err := deviceGuard(t, store).Admit(t.Context(), first); err != nil {
			t.Errorf("credential %s: %v", first, err)
		}
		if diff := cmp.Diff([]coordination.Credential{first}, store.stored, equateValues); diff != "" {
			t.Errorf("stored credentials mismatch (-want +got):\n%s", diff)
		}
	}
}

func TestDeviceRemembersAcrossRestarts(t *testing.T) {
	store := new(memoryStore)
	if err := deviceGuard(t, store).Admit(t.Context(), credential(t, 20, 7, 4)); err != nil {
		t.Fatal(err)
	}
	err := deviceGuard(t, store).Admit(t.Context(), credential(t, 10, 7, 3))
	var stale *coordination.StaleCredentialError
	if !errors.As(err, &stale) || stale.Presented != credential(t, 10, 7, 3) || stale.Recorded != credential(t, 20, 7, 4) {
		t.Errorf("error %v", err)
	}
	if want := "coordination: stale command: credential 10 (7:3) was superseded by 20 (7:4)"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestDeviceRefusesWhatItCannotRecord(t *testing.T) {
	store := &memoryStore{fail: errBroken}
	if g, err := coordination.NewDeviceGuard(t.Context(), store); g != nil || !errors.Is(err, errBroken) {
		t.Errorf("guard %v, error %v", g, err)
	}
	if g, err := coordination.NewDeviceGuard(t.Context(), nil); g != nil || err == nil {
		t.Errorf("guard %v, error %v without a store", g, err)
	}
	store.fail = nil
	g := deviceGuard(t, store)
	store.fail = errBroken
	if err := g.Admit(t.Context(), credential(t, 10, 7, 3)); !errors.Is(err, errBroken) {
		t.Errorf("error %v", err)
	}
	store.fail = nil
	if err := g.Admit(t.Context(), credential(t, 5, 7, 2)); err != nil {
		t.Errorf("a credential that was never recorded counts: %v", err)
	}
	for _, c := range []coordination.Credential{
		{Token: token(t, 1, 1), Sequence: -1}, {Token: coordination.NoEpoch, Sequence: 50},
	} {
		if err := g.Admit(t.Context(), c); err == nil || !strings.Contains(err.Error(), "is not one of a leadership") {
			t.Errorf("credential %s: %v", c, err)
		}
	}
}

func TestDeviceAdmitsOneCommandAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := make(chan struct{})
		store := &memoryStore{during: func() { <-blocked }}
		g := deviceGuard(t, store)
		first := make(chan error, 1)
		go func() { first <- g.Admit(context.Background(), credential(t, 20, 7, 4)) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		older := make(chan error, 1)
		go func() { older <- g.Admit(ctx, credential(t, 10, 7, 3)) }()
		synctest.Wait()
		cancel()
		if err := <-older; err != context.Canceled {
			t.Errorf("a command that gave up got %v", err)
		}
		close(blocked)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

func TestCredentialTravelsAsJSON(t *testing.T) {
	want := credential(t, 20, 7, 4)
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != `{"token":"7:4","sequence":20}` {
		t.Errorf("encoded as %s", text)
	}
	var got coordination.Credential
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("decoded %s, %v, want %s", got, err, want)
	}
}

func TestCredentialOfALeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFull()
		l := holder(t, f)
		got, err := l.Credential()
		if err != nil || got != credential(t, 1, 1, 0) {
			t.Errorf("credential %s, %v, want 1 (1:0)", got, err)
		}
		if err := l.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := l.Credential(); !errors.Is(err, coordination.ErrNotHeld) {
			t.Errorf("credential %s, %v after the end", got, err)
		}
	})
	f := newFixture(t, 0)
	if got, err := f.acquire(t, "node-1").Credential(); err == nil || !strings.Contains(err.Error(), "reports no offset") {
		t.Errorf("credential %s, %v from a transport without offsets", got, err)
	}
}

func TestDeviceRefusesAStoreThatHoldsNonsense(t *testing.T) {
	for _, c := range []coordination.Credential{
		{Token: token(t, 7, 3), Sequence: -1},
		{Token: coordination.NoEpoch, Sequence: 10},
	} {
		_, err := coordination.NewDeviceGuard(t.Context(), &memoryStore{stored: []coordination.Credential{c}})
		if err == nil || !strings.Contains(err.Error(), "the recorded credential") || !strings.Contains(err.Error(), "is not one of a leadership") {
			t.Errorf("guard over a store with %s: %v, want an error that names the recorded credential", c, err)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"errors"
	"fmt"
	"testing"
)

func installed(r *kafkaTerms, role Role, producerID int64, epoch int16) FencingToken {
	token := FencingToken{producerID: producerID, producerEpoch: epoch}
	r.install(role, token, false, false)
	return token
}

// A term is forgotten with its leadership, so a process may lead any number of
// roles in its life.
func TestTermsAreForgottenWithTheirHandles(t *testing.T) {
	terms := newKafkaTerms()
	for n := range 3000 {
		role := Role{name: fmt.Sprint("role-", n)}
		first := installed(terms, role, int64(n), 0)
		second := installed(terms, role, int64(n), 1)
		if _, err := terms.find(first); !errors.Is(err, ErrFenced) {
			t.Fatalf("a superseded token: %v, want ErrFenced", err)
		}
		terms.release(role, first)
		if _, err := terms.find(first); !errors.Is(err, ErrFenced) {
			t.Fatalf("a superseded token that was released: %v, want ErrFenced", err)
		}
		if _, err := terms.find(second); err != nil {
			t.Fatal(err)
		}
		if !terms.release(role, second) || terms.release(role, second) {
			t.Fatal("a role is given up once, with its newest term")
		}
	}
	if len(terms.newest) != 0 || len(terms.terms) != 0 || len(terms.minting) != 0 || len(terms.spent) > rememberedTerms {
		t.Errorf("%d roles, %d producer ids, %d mints and %d tokens are left",
			len(terms.newest), len(terms.terms), len(terms.minting), len(terms.spent))
	}
}

// A token whose leadership ended for another reason than a fence is not held
// any more, and that is all the transport knows.
func TestTokenOfAnEndedLeadershipIsNotHeld(t *testing.T) {
	terms := newKafkaTerms()
	role := Role{name: "controller"}
	alone := installed(terms, role, 7, 3)
	terms.release(role, alone)
	other := installed(terms, role, 7, 9)
	kept := installed(terms, Role{name: "other"}, 8, 0)
	for name, tt := range map[string]struct {
		token FencingToken
		want  error
	}{
		"released":               {alone, ErrNotHeld},
		"never minted":           {FencingToken{producerID: 7, producerEpoch: 4}, ErrNotHeld},
		"of an unknown producer": {FencingToken{producerID: 99}, ErrNotHeld},
		"held":                   {other, nil},
		"of another role":        {kept, nil},
	} {
		if _, err := terms.find(tt.token); !errors.Is(err, tt.want) || errors.Is(err, ErrFenced) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

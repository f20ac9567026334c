// SPDX-License-Identifier: Apache-2.0

package krabkatest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/krabkatest"
)

// within bounds a suite, in the time of its bubble.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// suites are the suites of clients by name.
var suites = map[string]func(context.Context, krabkatest.Clients) error{
	"CheckConsumer":              krabkatest.CheckConsumer,
	"CheckProducer":              krabkatest.CheckProducer,
	"CheckPositionReader":        krabkatest.CheckPositionReader,
	"CheckTransactionalProducer": krabkatest.CheckTransactionalProducer,
}

func TestBrokerPassesTheSuitesOfClients(t *testing.T) {
	for name, options := range map[string][]krabkatest.BrokerOption{
		"cooperative": nil,
		"eager":       {krabkatest.WithEagerRebalances()},
		"late":        {krabkatest.WithMarkerDelay(time.Millisecond)},
	} {
		for suite, check := range suites {
			t.Run(suite+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if err := check(within(t), krabkatest.BrokerClients(krabkatest.NewBroker(options...))); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

func TestStoresPassTheirSuite(t *testing.T) {
	memory := krabkatest.NewStateStore()
	directory := t.TempDir()
	for name, open := range map[string]func() (columnar.SnapshotStore, func() error, error){
		"memory": func() (columnar.SnapshotStore, func() error, error) {
			return memory.Open(nil), func() error { return nil }, nil
		},
		"files": func() (columnar.SnapshotStore, func() error, error) {
			store, err := columnar.OpenFileStateStore(directory)
			if err != nil {
				return nil, nil, err
			}
			return store, store.Close, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := krabkatest.CheckSnapshotStore(t.Context(), open); err != nil {
				t.Error(err)
			}
		})
	}
}

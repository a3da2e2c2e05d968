package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Changes of scopes that are held, or being created, a session's own and shared ones, alone and together: they wait
// until the transaction ends, however long that takes, and with a lock timeout they end with it. Several of each come at
// once, so that they also wait in the database, and not only in attempts.
// Guarantee: State: A lock timeout also ends changes that wait for scopes.
func TestChangesOfHeldScopes(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{1, 4} {
		for _, timeout := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond} { // short: the scopes stay held
			t.Run(fmt.Sprintf("%d connections, %v", connections, timeout), func(t *testing.T) {
				t.Parallel()
				databaseURL := pgtest.NewDatabase(t)
				other := pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "application_name", "other"), agentstore.Options{})
				store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: connections, LockTimeout: timeout})
				testChangesOfHeldScopes(t, store, other, timeout > 0)
			})
		}
	}
}

func testChangesOfHeldScopes(t *testing.T, store, other *agentstore.Store, ends bool) {
	t.Helper()
	ids := newSessions(t, other, 3)
	own := func(n int) repo.StateChange {
		return repo.StateChange{Scope: repo.Scope{SessionID: ids[n]}, Key: "n", Op: repo.StateIncrement, By: 1}
	}
	there := []repo.StateChange{plusOne("held", "n"), own(0)}
	if _, err := other.State().Change(t.Context(), append(there, plusOne("free", "n"))); err != nil {
		t.Fatal(err)
	}
	cases := map[string][]repo.StateChange{
		"held": {there[0]}, "own": {own(0)}, "own and free": {own(0), plusOne("free", "n")},
		"new": {plusOne("new", "n")}, "new own": {own(1)}, "new own and free": {own(1), plusOne("free", "n")},
		"free own and new": {own(2), plusOne("new", "n")},
	}
	const each = 3
	ended := map[string]chan error{}
	err := other.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.State().Change(ctx, append(there, own(1), plusOne("new", "n"))); err != nil {
			return err
		}
		for name, changes := range cases {
			results := make(chan error, each)
			ended[name] = results
			for range each {
				go func() { results <- second(store.State().Change(await.Context(t), changes)) }()
			}
		}
		if !ends {
			time.Sleep(time.Second) // pace: several times as long as five attempts at what waits for 20 ms
			return nil
		}
		for name := range cases {
			for range each {
				if err := await.Value(t, name, ended[name]); !errors.Is(err, repo.ErrContention) {
					t.Errorf("%s, with a lock timeout: %v", name, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for name := range cases {
		for range each {
			if ends {
				continue
			}
			if err := await.Value(t, name, ended[name]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

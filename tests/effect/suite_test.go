package effect

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/effect/effecttest"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// age lets time pass for the effects of a database.
func age(t *testing.T, pool *pgxpool.Pool, d time.Duration) {
	t.Helper()
	pgtest.Exec(t, pool, `UPDATE state_values SET updated_at = updated_at - make_interval(secs => $1), value = CASE WHEN value->>'first_sent' IS NULL THEN value
		ELSE jsonb_set(value::jsonb, '{first_sent}', to_jsonb((value->>'first_sent')::timestamptz - make_interval(secs => $1)))::json END
		WHERE key LIKE 'effect/%'`, d.Seconds())
}

// Guarantee: Effects: An effect has one call at a time, and its result is stored once.
func TestEffects(t *testing.T) {
	t.Parallel()
	effecttest.Run(t, func(t *testing.T) (repo.Store, func(*testing.T, time.Duration)) {
		url := pgtest.NewDatabase(t)
		pool := pgtest.NewPool(t, url)
		return pgtest.OpenStore(t, url, agentstore.Options{}), func(t *testing.T, d time.Duration) { t.Helper(); age(t, pool, d) }
	})
}

// Guarantee: Effects: An effect costs the database four round trips beside its call.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	trips := &pgtest.RoundTrips{}
	store := pgtest.OpenStore(t, pgtest.NewDatabase(t), agentstore.Options{Tracer: trips})
	session := pgtest.NewSession(t, store)
	own := repo.Scope{SessionID: session}
	message := func(result json.RawMessage) repo.Turn {
		return repo.Turn{Messages: []repo.NewMessage{{Role: repo.RoleTool, CallID: "a", Content: string(result)}}}
	}
	permit := func(ctx context.Context, tx repo.Repositories) error {
		_, err := tx.State().Change(ctx, []repo.StateChange{{Scope: own, Key: "budget", Op: repo.StateIncrement, By: 1}})
		return err
	}
	once := func(call string, policy effect.Policy) []string {
		t.Helper()
		sent, err := trips.Of(t.Context(), func(ctx context.Context) error {
			_, err := effect.Once(ctx, store, effect.Key{Session: session, Call: call}, nil, policy, func(context.Context, effect.Effect) (json.RawMessage, error) {
				return json.RawMessage(`"receipt"`), nil
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return sent
	}
	once("warm", effect.Policy{}) // prepares the statements
	once("warm too", effect.Policy{Permit: permit, Turn: message})
	alone, err := trips.Of(t.Context(), func(ctx context.Context) error {
		_, err := store.Sessions().Append(ctx, session, message(json.RawMessage(`"receipt"`)).Messages...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		call   string
		policy effect.Policy
		most   int
	}{
		{"plain", effect.Policy{}, 4},
		{"turn", effect.Policy{Turn: message}, 3 + len(alone)},
		{"permit", effect.Policy{Permit: permit}, 8}, // with the two of the change itself
		{"plain", effect.Policy{}, 4},                // again
	} {
		sent := once(of.call, of.policy)
		t.Logf("%s: %d round trips; the message alone: %d", of.call, len(sent), len(alone))
		if len(sent) > of.most {
			t.Errorf("%s: %d round trips, want %d at most:\n%s", of.call, len(sent), of.most, strings.Join(slices.Compact(sent), "\n"))
		}
	}
}

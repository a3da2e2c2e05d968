package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/retention"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Guarantee: Deletion: A repeated turn is recognised until its record is removed, and then added again.
func TestOldTurns(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	repotest.OldTurns(t, store, func(age time.Duration, dryRun bool) (removed, held int64) {
		report, err := retention.Run(t.Context(), store, retention.Policy{Turns: age, DryRun: dryRun})
		if err != nil {
			t.Error(err)
		}
		return report.Turns, report.Held
	})
}

func TestHas(t *testing.T) {
	t.Parallel()
	repotest.Has(t, pgtest.NewStore(t, agentstore.Options{}))
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	repotest.DryRun(t, store, func(age time.Duration, dryRun bool) repotest.Removed {
		ages := map[string]time.Duration{repo.DefaultNamespace: age}
		r, err := retention.Run(t.Context(), store, retention.Policy{Sessions: ages, Plans: ages, DryRun: dryRun})
		if err != nil {
			t.Error(err)
		}
		return repotest.Removed{Sessions: r.Sessions, Messages: r.Messages + r.Kept, Plans: r.Plans, Held: r.Held, InUse: r.InUse}
	})
}

// Turns that were stored at one time, as those of a group are: what a hold keeps of them hides no others, and is counted once.
func TestOldTurnsOfOneTime(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	held, other := pgtest.NewSession(t, store), pgtest.NewSession(t, store)
	if err := store.Sessions().AddHold(t.Context(), repo.LegalHold{SessionID: held, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []repo.ID{held, other} {
		pgtest.Exec(t, store.Pool(), `INSERT INTO session_turns (session_id, id, digest, first_sequence, message_count, created_at)
			SELECT $1, n::text, decode(repeat('00', 32), 'hex'), 0, 0, '2020-01-01' FROM generate_series(1, 1500) n`, [16]byte(id))
	}
	if report, err := retention.Run(t.Context(), store, retention.Policy{Turns: time.Hour}); err != nil || report.Turns != 1500 || report.Held != 1500 {
		t.Errorf("%+v, %v", report, err)
	}
}

// Namespaces are found by their sessions, scopes or leases, each once, in whatever order their names are.
func TestNamespacesOfAll(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	for _, namespace := range []string{"a", "B", "ß"} {
		if _, err := store.Sessions().Create(t.Context(), repo.NewSession{Namespace: namespace}); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range []string{"a", "b", "É"} {
		change := repo.StateChange{Scope: repo.Scope{Name: "x"}, Key: "k", Value: []byte("1")}
		if _, err := store.In(namespace).State().Change(t.Context(), []repo.StateChange{change}); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range []string{"B", "_", "日"} {
		if _, err := store.In(namespace).Leases().Acquire(t.Context(), repo.NewLease{Key: repo.LeaseKey{Kind: "x", Name: "x"}, Owner: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := store.Removal().Namespaces(t.Context())
	slices.Sort(found)
	if want := []string{"B", "_", "a", "b", "É", "ß", "日"}; err != nil || !slices.Equal(found, want) {
		t.Errorf("%q, %v; want %q", found, err, want)
	}
}

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/retention"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

// Retention and erasure of each store, on two connections: what a dry run of all of them counts is removed, and the person's data are
// gone from all. A run in a view takes none of the others' sessions. Each trail is sealed by itself.
// Guarantee: Deletion: Retention and erasure of each shard are together those of all.
func TestRemovalsInShards(t *testing.T) {
	t.Parallel()
	stores := openShards(t, newShards(t))
	spread := newSpread(t, stores)
	in := func(namespace string) repo.Store {
		view, err := spread.In(t.Context(), namespace)
		if err != nil {
			t.Fatal(err)
		}
		return view
	}
	const tenants = 12
	policy := retention.Policy{Sessions: map[string]time.Duration{}, Turns: time.Microsecond}
	scope := repo.Scope{Name: "user:person"}
	for i := range tenants {
		namespace := fmt.Sprint("tenant ", i)
		view := in(namespace)
		policy.Sessions[namespace] = time.Microsecond
		for _, owner := range []string{"person", "another"} {
			session, err := view.Sessions().Create(t.Context(), repo.NewSession{Owner: owner})
			if err != nil {
				t.Fatal(err)
			}
			turn := repo.Turn{
				SessionID: session.ID, ID: "turn", Messages: []repo.NewMessage{user("x"), user("y")},
				State: []repo.StateChange{{Scope: scope, Key: owner, Value: json.RawMessage("1")}},
			}
			if _, err := view.Sessions().AppendTurn(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := view.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.LeaseKey{Kind: "job", Name: "n"}, Owner: "person"}); err != nil {
			t.Fatal(err)
		}
	}
	run := func() (all retention.Report) {
		t.Helper()
		for _, store := range stores {
			report, err := retention.Run(t.Context(), store, policy)
			if err != nil {
				t.Fatal(err)
			}
			all.Sessions, all.Messages, all.Turns, all.Held = all.Sessions+report.Sessions, all.Messages+report.Messages, all.Turns+report.Turns, all.Held+report.Held
		}
		return all
	}
	request := erase.Request{Owner: "person", Scopes: []string{scope.Name}, Key: []byte("sixteen bytes or")}
	var erased erase.Receipt
	var receipts []erase.Receipt
	for _, store := range stores {
		receipt, err := erase.Subject(t.Context(), store, request)
		if err != nil {
			t.Fatal(err)
		}
		receipts = append(receipts, receipt)
		erased.Sessions, erased.Messages, erased.StateKeys, erased.Leases = erased.Sessions+receipt.Sessions, erased.Messages+receipt.Messages,
			erased.StateKeys+receipt.StateKeys, erased.Leases+receipt.Leases
	}
	if erased.Sessions != tenants || erased.Messages != 2*tenants || erased.StateKeys != 2*tenants || erased.Leases != tenants {
		t.Errorf("%+v", erased)
	}
	for _, store := range stores {
		done, err := erase.Replay(t.Context(), store, erase.Request{Key: request.Key}, receipts...)
		if err != nil || len(done) > 0 {
			t.Errorf("%+v, %v", done, err)
		}
	}
	policy.Turns = 0
	if report, err := retention.Run(t.Context(), in("tenant 5"), policy); err != nil || report.Sessions != 1 {
		t.Errorf("in a view: %+v, %v", report, err)
	}
	if err := in("tenant 3").Sessions().AddHold(t.Context(), repo.LegalHold{Namespace: "tenant 3", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	policy.DryRun = true
	would := run()
	policy.DryRun = false
	did := run()
	if want := (retention.Report{Sessions: tenants - 2, Messages: 2 * (tenants - 2), Held: 1}); would != want || did != want {
		t.Errorf("a dry run says %+v, the run did %+v", would, did)
	}
	policy.Turns = time.Microsecond
	if did := run(); did != (retention.Report{Held: 2}) { // the session, and its turn
		t.Errorf("%+v", did)
	}
	for i, store := range stores {
		tables.Seal(t, store)
		if report, err := audit.Verify(t.Context(), store.AuditLog(), audit.VerifyOptions{}); err != nil || !report.Intact() {
			t.Errorf("the trail of shard %d: %+v, %v", i, report, err)
		}
	}
}

// All of it on one connection, by a role of another isolation level, while an old snapshot is open.
func TestRemovalsUnderSettings(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"serializable", "repeatable read"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			old, err := pgtest.Connect(t, databaseURL).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = old.Rollback(context.WithoutCancel(t.Context())) }()
			pgtest.Value[int](t, old, "SELECT count(*) FROM sessions")
			url := pgtest.WithParameter(databaseURL, "default_transaction_isolation", level)
			store := pgtest.OpenStore(t, url, agentstore.Options{MaxConns: 1})
			repotest.Person(t, store, "canary@example.com", "1")
			request := erase.Request{Owner: "canary@example.com", Scopes: []string{"canary@example.com"}, Key: []byte("sixteen bytes or")}
			if receipt, err := erase.Subject(t.Context(), store, request); err != nil || receipt.Sessions != 2 || receipt.Plans != 2 {
				t.Errorf("%+v, %v", receipt, err)
			}
			id := pgtest.NewSession(t, store)
			ages := map[string]time.Duration{repo.DefaultNamespace: time.Microsecond}
			policy := retention.Policy{Sessions: ages, Plans: ages, Turns: time.Microsecond, Audit: time.Hour}
			policy.Wait = func(ctx context.Context) error {
				other := retention.Policy{Plans: map[string]time.Duration{"other": time.Hour}}
				if _, err := retention.Run(ctx, store, other); err == nil || !errors.Is(err, repo.ErrConflict) {
					t.Errorf("another run, with another policy: %v", err)
				}
				return nil
			}
			if report, err := retention.Run(t.Context(), store, policy); err != nil || report.Sessions == 0 || report.Held != 0 {
				t.Errorf("%+v, %v", report, err)
			}
			if _, err := store.Sessions().Get(t.Context(), id); !errors.Is(err, repo.ErrNotFound) {
				t.Error(err)
			}
		})
	}
}

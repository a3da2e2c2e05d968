package audit

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	trail "github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A schema may have any name: functions that run as the owner still find their
// tables.
func TestSchemaOfAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"MixedCase", `with "quotes", and spaces`, "$user", "select", "a\nBEGIN\nb"} {
		quoted := pgx.Identifier{name}.Sanitize()
		searchPath := quoted
		pool := pgtest.NewPool(t, pgtest.NewEmptyDatabase(t), func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["search_path"] = searchPath
		})
		if name == "$user" { // stands for the role's own schema
			quoted = "postgres"
		}
		pgtest.Exec(t, pool, "CREATE SCHEMA "+quoted)
		store, err := agentstore.OpenPool(t.Context(), pool, agentstore.Options{Migrate: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := store.Audit().Record(t.Context(), repo.AuditEntry{Type: events.AuthFailure}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if waiting, err := store.AuditLog().Waiting(t.Context(), 0); err != nil || waiting.Entries != 1 {
			t.Errorf("%s: %+v, %v", name, waiting, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A schema that is renamed, and one that is restored under its old name beside it, are two
// trails: each records, seals, prunes and verifies its own.
func TestSchemaRenamedAndRestored(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	open := func(schema string) *agentstore.Store {
		t.Helper()
		pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = schema })
		store, err := agentstore.OpenPool(t.Context(), pool, agentstore.Options{Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	old := time.Now().AddDate(-1, 0, 0)
	work := func(store auditlog.Keeper) {
		t.Helper()
		if err := store.Audit().Record(t.Context(), entryAt(old), entryAt(time.Now())); err != nil {
			t.Fatal(err)
		}
		sealer, err := trail.NewSealer(store.AuditLog(), trail.SealerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sealer.SealOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if pruned, err := store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: time.Now().AddDate(0, -1, 0)}); err != nil || pruned.Entries != 1 {
			t.Errorf("pruned %+v, %v", pruned, err)
		}
		if _, err := sealer.SealOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if report, err := trail.Verify(t.Context(), store.AuditLog(), trail.VerifyOptions{}); err != nil || !report.Intact() || report.Waiting != 0 {
			t.Errorf("%+v, %v", report, err)
		}
	}
	pgtest.Exec(t, conn, "CREATE SCHEMA one")
	work(open("one"))
	pgtest.Exec(t, conn, "ALTER SCHEMA one RENAME TO two; CREATE SCHEMA one")
	one, two := open("one"), open("two")
	const count = "SELECT count(*) FROM "
	before := pgtest.Value[int](t, conn, count+"two.audit_entries")
	work(one)
	if after := pgtest.Value[int](t, conn, count+"two.audit_entries"); after != before || before == 0 {
		t.Errorf("the other trail has %d entries, had %d", after, before)
	}
	before = pgtest.Value[int](t, conn, count+"one.audit_entries")
	work(two)
	if after := pgtest.Value[int](t, conn, count+"one.audit_entries"); after != before || before == 0 {
		t.Errorf("the other trail has %d entries, had %d", after, before)
	}
	wantCode(t, conn, refused, "DELETE FROM two.audit_entries")
	// While one is sealed, the other can be.
	other, err := trail.NewSealer(two.AuditLog(), trail.SealerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []auditlog.Keeper{one, two} {
		if err := store.Audit().Record(t.Context(), entryAt(time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	undone := errors.New("undone")
	_, err = one.AuditLog().Seal(t.Context(), 10, func(auditlog.Unsealed, auditlog.HashReader) (auditlog.Seal, error) {
		if sealed, err := other.SealOnce(t.Context()); err != nil || sealed != 1 {
			t.Errorf("sealed %d, %v", sealed, err)
		}
		return auditlog.Seal{}, undone
	})
	if !errors.Is(err, undone) {
		t.Error(err)
	}
}

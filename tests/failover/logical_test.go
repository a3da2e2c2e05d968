package failover

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The subscriber of a logical replication applies what the publisher's prunes do to the
// audit trail, and refuses changes of its own. What it has verifies.
func TestAuditTrailOfASubscriber(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := pgtest.NewCluster(t)
	cluster.Start(t, "wal_level=logical")
	publisher := pgtest.Connect(t, cluster.URL("postgres"))
	pgtest.Exec(t, publisher, "CREATE DATABASE subscriber")
	if err := schema.Up(ctx, cluster.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	store := pgtest.OpenStore(t, cluster.URL("postgres"), agentstore.Options{})
	sealer, err := audit.NewSealer(store.AuditLog(), audit.SealerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().AddDate(-1, 0, 0)
	record := func() {
		t.Helper()
		entries := make([]repo.AuditEntry, 20)
		for i := range entries {
			entries[i] = repo.AuditEntry{ID: repo.NewID(), Type: events.ToolInvoked}
			if i%2 == 0 {
				entries[i].OccurredAt = old
			}
		}
		if err := store.Audit().Record(ctx, entries...); err != nil {
			t.Fatal(err)
		}
	}
	seal := func() {
		t.Helper()
		if _, err := sealer.SealOnce(ctx); err != nil {
			t.Fatal(err)
		}
	}
	record() // for the first copy, sealed and not
	seal()
	record()

	dumped, err := cluster.Command(ctx, "pg_dump", "--schema-only", cluster.URL("postgres")).Output()
	if err != nil {
		t.Fatal(err)
	}
	subscriber := pgtest.Connect(t, cluster.URL("subscriber"))
	var sql strings.Builder
	for line := range strings.Lines(string(dumped)) {
		if !strings.HasPrefix(line, `\`) { // psql's own
			sql.WriteString(line)
		}
	}
	pgtest.Exec(t, subscriber, sql.String())
	pgtest.Exec(t, subscriber, "RESET search_path")
	pgtest.Exec(t, publisher, "CREATE PUBLICATION everything FOR ALL TABLES")
	pgtest.Exec(t, publisher, "SELECT pg_create_logical_replication_slot('everything', 'pgoutput')")
	pgtest.Exec(t, subscriber, "CREATE SUBSCRIPTION everything CONNECTION '"+cluster.URL("postgres")+"' PUBLICATION everything WITH (create_slot = false)")

	const state = `SELECT (SELECT count(*) FROM audit_entries) || ' ' || (SELECT count(*) FROM audit_unsealed) || ' ' ||
		(SELECT count(*) FROM audit_leaves) || ' ' || (SELECT count(*) FROM audit_leaves WHERE pruned_by IS NOT NULL)`
	same := func(when string) {
		t.Helper()
		want, got := pgtest.Value[string](t, publisher, state), ""
		defer func() {
			if got != want {
				t.Logf("%s: the subscriber has %s, the publisher %s (entries, unsealed ones, leaves, pruned ones)", when, got, want)
			}
		}()
		await.For(t, "the subscriber has what the publisher has", func() bool { got = pgtest.Value[string](t, subscriber, state); return got == want })
	}
	same("copied")
	seal()
	pruned, err := store.AuditLog().Prune(ctx, auditlog.Prune{Before: time.Now().Add(-time.Hour)})
	if err != nil || pruned.Entries != 20 {
		t.Fatalf("pruned %+v, %v", pruned, err)
	}
	record()
	seal()
	same("pruned")
	copied := pgtest.OpenStore(t, cluster.URL("subscriber"), agentstore.Options{})
	report, err := audit.Verify(ctx, copied.AuditLog(), audit.VerifyOptions{})
	if err != nil || !report.Intact() || report.Pruned != 20 || report.Sealed != 61 {
		t.Errorf("%+v, %v", report, err)
	}
	for _, role := range []string{"origin", "replica"} {
		pgtest.Exec(t, subscriber, "SET session_replication_role = "+role)
		for _, change := range []string{"DELETE FROM audit_entries", "UPDATE audit_leaves SET pruned_by = NULL", "TRUNCATE audit_entries"} {
			if _, err := subscriber.Exec(ctx, change); err == nil {
				t.Errorf("as %s: %s is not refused", role, change)
			}
		}
	}
	pgtest.Unsubscribe(t, subscriber, "everything")
}

// Package copies tests what becomes of a schema that is dumped and restored, renamed, or
// replicated logically: the copies work, apart from one another.
package copies

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// server is a server whose programs the tests run.
type server struct{ *pgtest.Cluster }

// Guarantee: Servers and roles: A dump can be restored into another schema; a logical replica can take over.
func TestCopies(t *testing.T) {
	t.Parallel()
	s := server{pgtest.NewCluster(t)}
	s.Start(t, "wal_level=logical")
	t.Run("Dumped", func(t *testing.T) { t.Parallel(); s.testDumped(t) })
	t.Run("Renamed", func(t *testing.T) { t.Parallel(); s.testRenamed(t) })
	t.Run("Erased", func(t *testing.T) { t.Parallel(); s.testErased(t) })
	t.Run("Replicated", func(t *testing.T) { t.Parallel(); s.testReplicated(t) })
}

// newDatabase makes a database and returns its URL.
func (s server) newDatabase(t *testing.T, name string) string {
	t.Helper()
	pgtest.Exec(t, pgtest.Connect(t, s.URL("postgres")), "CREATE DATABASE "+name)
	return s.URL(name)
}

// dump returns the SQL that restores a database.
func (s server) dump(t *testing.T, databaseURL string, flags ...string) string {
	t.Helper()
	var errors bytes.Buffer
	command := s.Command(t.Context(), "pg_dump", append(flags, "--dbname="+databaseURL)...)
	command.Stderr = &errors
	output, err := command.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v: %s", err, errors.String())
	}
	return string(output)
}

// restore runs what dump has returned.
func (s server) restore(t *testing.T, databaseURL, sql string) {
	t.Helper()
	command := s.Command(t.Context(), "psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output=/dev/null", "--dbname="+databaseURL)
	command.Stdin = strings.NewReader(sql)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("psql: %v: %s", err, output)
	}
}

// in returns the URL whose sessions have one schema.
func in(databaseURL, schema string) string {
	return pgtest.WithParameter(databaseURL, "search_path", schema)
}

// contents are those of the tables of a schema.
func contents(t *testing.T, databaseURL, schema string) map[string]string {
	t.Helper()
	conn := pgtest.Connect(t, in(databaseURL, schema))
	defer func() { _ = conn.Close(t.Context()) }()
	return tables.Contents(t, conn)
}

// use writes and removes rows of every kind, as a service and its owner do.
func use(t *testing.T, store *agentstore.Store) {
	t.Helper()
	ctx := t.Context()
	session, err := store.Sessions().Create(ctx, repo.NewSession{Key: repo.NewID().String(), Owner: "somebody"})
	check(t, err)
	_, err = store.Sessions().AppendTurn(ctx, repo.Turn{
		SessionID: session.ID,
		Messages:  []repo.NewMessage{{ID: repo.NewID(), Role: repo.RoleUser, Content: "x"}}, Usage: &repo.NewUsage{Cost: 1},
		State: []repo.StateChange{{Key: "n", Op: repo.StateIncrement, By: 1}, {Scope: repo.Scope{Name: "shared"}, Key: "n", Op: repo.StateIncrement, By: 1}},
	})
	check(t, err)
	// A plan is claimed and done, and one is cancelled while it waits.
	for range 2 {
		_, err = store.Plans().Use(ctx, tables.Action, repo.UseAction{SessionID: session.ID})
		check(t, err)
	}
	claimed, err := store.Plans().Claim(ctx, repo.Claim{Owner: "user", Limit: 1, TTL: time.Hour})
	check(t, err)
	if len(claimed) != 1 {
		t.Fatalf("%d plans claimed", len(claimed))
	}
	_, err = store.Plans().Transition(ctx, claimed[0].Plan.ID, repo.TransitionComplete, repo.Cause{Fence: claimed[0].Lease.Fence})
	check(t, err)
	if waiting := cancelWaiting(t, store); waiting == 0 {
		t.Error("no plan waits")
	}
	lease, err := store.Leases().Acquire(ctx, repo.NewLease{Key: repo.LeaseKey{Kind: "used", Name: "lease"}, Owner: "user"})
	check(t, err)
	check(t, store.Leases().Release(ctx, lease))
	stream, err := store.Streams().Open(ctx, repo.NewStream{Key: repo.NewID().String(), Owner: "user"})
	check(t, err)
	_, err = store.Streams().Append(ctx, stream, []byte("a"))
	check(t, err)
	check(t, store.Streams().Finish(ctx, stream))
	_, err = store.Sessions().Delete(ctx, session.ID)
	check(t, err)

	old := time.Now().AddDate(0, -3, 0)
	check(t, store.Audit().Record(ctx, repo.AuditEntry{Type: events.ToolInvoked, OccurredAt: old}))
	tables.Seal(t, store)
	pruned, err := store.AuditLog().Prune(ctx, auditlog.Prune{Before: old.Add(time.Second), Reason: "old"})
	check(t, err)
	if pruned.Entries != 1 {
		t.Errorf("%+v", pruned)
	}
	tables.Seal(t, store)
	intact(t, store)
}

// cancelWaiting cancels the plans that wait, and returns how many did.
func cancelWaiting(t *testing.T, store *agentstore.Store) int {
	t.Helper()
	waiting, err := store.Plans().List(t.Context(), repo.PlanFilter{State: repo.PlanQueued}, repo.Page{})
	check(t, err)
	for _, plan := range waiting.Items {
		_, err := store.Plans().Transition(t.Context(), plan.ID, repo.TransitionCancel, repo.Cause{Reason: "enough"})
		check(t, err)
	}
	return len(waiting.Items)
}

// intact checks the audit trail.
func intact(t *testing.T, store *agentstore.Store) {
	t.Helper()
	report, err := audit.Verify(t.Context(), store.AuditLog(), audit.VerifyOptions{})
	if err != nil || !report.Intact() {
		t.Errorf("the audit trail: %+v, %v", report, err)
	}
	findings, err := store.AuditLog().Doctor(t.Context())
	if err != nil {
		t.Errorf("the audit doctor: %v", err)
	}
	for _, finding := range findings {
		if finding.Check != "quarantine" { // Fill puts an entry there
			t.Errorf("the audit doctor: %+v", finding)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package bugreports

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Report #7325: the audit trail's writer and readers shared one session of the
// database.

// auditSize returns the size of the trail.
func auditSize() (recorders, each int) {
	return 32, pgtest.Choose(3125, 100) // 100,000 entries in a full run
}

// The report's implementation: one connection for all. The driver's connection must
// not be used by two goroutines at once, and the race detector would report that of
// the driver. So the test shows it step by step: the writer uses the connection while
// a reader is between two rows.
func TestNaiveAuditSharesAConnection(t *testing.T) {
	t.Parallel()
	conn := pgtest.Connect(t, pgtest.NewDatabase(t))
	pgtest.Exec(t, conn, "CREATE TABLE naive_audit (n int); INSERT INTO naive_audit VALUES (-1), (-2)")
	const entries = 100
	lost := 0
	for i := range entries {
		rows, err := conn.Query(t.Context(), "SELECT n FROM naive_audit")
		if err != nil {
			t.Fatal(err)
		}
		rows.Next()
		// The report's writer logs a failure and continues.
		if _, err := conn.Exec(t.Context(), "INSERT INTO naive_audit VALUES ($1)", i); err != nil {
			lost++
		}
		rows.Close()
	}
	stored := pgtest.Value[int](t, conn, "SELECT count(*) FROM naive_audit WHERE n >= 0")
	if lost == 0 || stored != entries-lost {
		t.Fatalf("%d lost, %d stored: the harness does not catch the naive implementation", lost, stored)
	}
	t.Logf("naive: %d of %d entries were lost", lost, entries)
}

// With 32 recorders, 8 readers, a pruner and a sealer at once, each entry is there
// once, in its recorder's order, and the trail verifies.
func TestAuditOfEverybodyAtOnce(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	recorders, each := auditSize()
	old := pruneable(t, store)
	writer, err := audit.NewWriter(store.AuditLog(), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	var background, recording sync.WaitGroup
	sealer, err := audit.NewSealer(store.AuditLog(), audit.SealerOptions{Interval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	background.Go(func() { sealer.Run(ctx) })
	for range 8 {
		background.Go(func() { readAudit(ctx, t, store) })
	}
	var pruned atomic.Int64
	background.Go(func() { pruneAudit(ctx, t, store, &pruned) })
	for r := range recorders {
		recording.Go(func() {
			for i := range each {
				entry := repo.AuditEntry{
					ID: repo.NewID(), Type: events.ToolInvoked, Actor: fmt.Sprint("recorder/", r), OccurredAt: time.Now(),
					Details: json.RawMessage(fmt.Sprintf(`{"i":%d}`, i)),
				}
				if err := writer.Record(t.Context(), entry); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	recording.Wait()
	if left, err := writer.Close(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("%d entries came back, %v", len(left), err)
	}
	await.For(t, "what is old is pruned", func() bool { return pruned.Load() >= old }) // sealed first, on a busy machine late
	stop()
	background.Wait()
	stats := writer.Stats()
	if err := stats.Check(); err != nil || stats.Written != int64(recorders*each) {
		t.Errorf("%+v, %v", stats, err)
	}
	checkAudit(t, store, recorders, each)

	for sealed := 1; sealed > 0; {
		if sealed, err = sealer.SealOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	report, err := audit.Verify(t.Context(), store.AuditLog(), audit.VerifyOptions{})
	if err != nil || len(report.Breaks) != 0 || report.Pruned != old {
		t.Errorf("%+v, %v; %d were to be pruned", report, err, old)
	}
}

// pruneable records old entries.
func pruneable(t *testing.T, store *agentstore.Store) int64 {
	t.Helper()
	entries := make([]repo.AuditEntry, 1000)
	for i := range entries {
		entries[i] = repo.AuditEntry{Type: events.AuthFailure, OccurredAt: time.Now().AddDate(0, -1, 0)}
	}
	if err := store.Audit().Record(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	return int64(len(entries))
}

func readAudit(ctx context.Context, t *testing.T, store *agentstore.Store) {
	for ctx.Err() == nil {
		page, err := store.Audit().List(ctx, repo.AuditFilter{Type: events.ToolInvoked}, repo.Page{Limit: 100})
		if err == nil && len(page.Items) > 0 {
			_, err = store.Audit().Entry(ctx, page.Items[0].ID)
		}
		if err == nil {
			_, _, err = store.Audit().Count(ctx, repo.AuditFilter{Actor: "recorder/1"}, 1000)
		}
		if err != nil && ctx.Err() == nil {
			t.Errorf("a reader: %v", err)
			return
		}
	}
}

// pruneAudit removes old entries as soon as they are sealed.
func pruneAudit(ctx context.Context, t *testing.T, store *agentstore.Store, pruned *atomic.Int64) {
	for ctx.Err() == nil {
		done, err := store.AuditLog().Prune(ctx, auditlog.Prune{Before: time.Now().AddDate(0, 0, -7), Actor: "pruner"})
		if err != nil && ctx.Err() == nil {
			t.Errorf("the pruner: %v", err)
			return
		}
		pruned.Add(done.Entries)
		select {
		case <-time.After(50 * time.Millisecond): // pace: until it looks again
		case <-ctx.Done():
		}
	}
}

// checkAudit reads each recorder's entries, oldest first by time and id.
func checkAudit(t *testing.T, store *agentstore.Store, recorders, each int) {
	t.Helper()
	for r := range recorders {
		next := 0
		for page := (repo.Page{Limit: repo.MaxPageSize}); ; {
			got, err := store.Audit().List(t.Context(), repo.AuditFilter{Actor: fmt.Sprint("recorder/", r), OldestFirst: true}, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range got.Items {
				if want := fmt.Sprintf(`{"i":%d}`, next); string(entry.Details) != want {
					t.Fatalf("recorder %d: %s, want %s", r, entry.Details, want)
				}
				next++
			}
			if page.After = got.Next; page.After == "" {
				break
			}
		}
		if next != each {
			t.Errorf("recorder %d: %d entries, want %d", r, next, each)
		}
	}
}

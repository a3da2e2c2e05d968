package seeds

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Report #7325: the audit trail's writer and its readers shared one session of the
// database.

// The size of the trail: what the issue asks for, or less in a short run.
func trailSize() (recorders, each int) {
	if testing.Short() {
		return 32, 300
	}
	return 32, 3125 // 100,000 entries
}

// The report's way: one connection for all. That two goroutines use it at once is
// shown step by step, because the driver's connection is not safe for that, and
// the race detector would say so of the driver: a reader is between two rows when
// the writer's turn comes.
func TestNaiveTrailSharesAConnection(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), "CREATE TABLE naive_trail (n int); INSERT INTO naive_trail VALUES (-1), (-2)"); err != nil {
		t.Fatal(err)
	}
	const entries = 100
	lost := 0
	for i := range entries {
		rows, err := conn.Query(t.Context(), "SELECT n FROM naive_trail")
		if err != nil {
			t.Fatal(err)
		}
		rows.Next()
		// As the report's writer did: a failure is logged, and it goes on.
		if _, err := conn.Exec(t.Context(), "INSERT INTO naive_trail VALUES ($1)", i); err != nil {
			lost++
		}
		rows.Close()
	}
	var stored int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM naive_trail WHERE n >= 0").Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if lost == 0 || stored != entries-lost {
		t.Fatalf("%d lost, %d stored: the harness does not catch the naive way", lost, stored)
	}
	t.Logf("naive: %d of %d entries were lost", lost, entries)
}

// 32 recorders, 8 readers, a pruner and a sealer at once: every entry is there
// once, in its recorder's order, and the trail verifies.
func TestTrailOfEverybodyAtOnce(t *testing.T) {
	t.Parallel()
	store, err := agentstore.Open(t.Context(), pgtest.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		pgtest.CheckReturned(t, store.Pool())
		_ = store.Close()
	}()
	recorders, each := trailSize()
	old := pruneable(t, store)
	writer, err := audit.NewWriter(store.Trail(), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	var background, recording sync.WaitGroup
	sealer, err := audit.NewSealer(store.Trail(), audit.SealerOptions{Interval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	background.Go(func() { sealer.Run(ctx) })
	for range 8 {
		background.Go(func() { readTrail(ctx, t, store) })
	}
	background.Go(func() { pruneTrail(ctx, t, store) })
	for r := range recorders {
		recording.Go(func() {
			for i := range each {
				entry := repo.AuditEntry{
					ID: repo.NewID(), Type: repo.EventToolInvoked, Actor: fmt.Sprint("recorder/", r), OccurredAt: time.Now(),
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
	stop()
	background.Wait()
	stats := writer.Stats()
	if err := stats.Check(); err != nil || stats.Written != int64(recorders*each) {
		t.Errorf("%+v, %v", stats, err)
	}
	checkTrail(t, store, recorders, each)

	for sealed := 1; sealed > 0; {
		if sealed, err = sealer.SealOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	report, err := audit.Verify(t.Context(), store.Trail(), audit.VerifyOptions{})
	if err != nil || len(report.Breaks) != 0 || report.Pruned != old {
		t.Errorf("%+v, %v; %d were to be pruned", report, err, old)
	}
}

// pruneable records entries of long ago.
func pruneable(t *testing.T, store *agentstore.Store) int64 {
	t.Helper()
	entries := make([]repo.AuditEntry, 1000)
	for i := range entries {
		entries[i] = repo.AuditEntry{Type: repo.EventAuthFailure, OccurredAt: time.Now().AddDate(0, -1, 0)}
	}
	if err := store.Audit().Record(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	return int64(len(entries))
}

func readTrail(ctx context.Context, t *testing.T, store *agentstore.Store) {
	for ctx.Err() == nil {
		page, err := store.Audit().List(ctx, repo.AuditFilter{Type: repo.EventToolInvoked}, repo.NewestFirst, repo.Page{Limit: 100})
		if err == nil && len(page.Entries) > 0 {
			_, err = store.Audit().Entry(ctx, page.Entries[0].ID)
		}
		if err == nil {
			_, err = store.Audit().Count(ctx, repo.AuditFilter{Actor: "recorder/1"}, 1000)
		}
		if err != nil && ctx.Err() == nil {
			t.Errorf("a reader: %v", err)
			return
		}
	}
}

// pruneTrail removes what is old, as soon as it is sealed.
func pruneTrail(ctx context.Context, t *testing.T, store *agentstore.Store) {
	for ctx.Err() == nil {
		_, err := store.Trail().Prune(ctx, repo.AuditPrune{Before: time.Now().AddDate(0, 0, -7), Actor: "pruner"})
		if err != nil && ctx.Err() == nil {
			t.Errorf("the pruner: %v", err)
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// checkTrail reads every recorder's entries, oldest first by time and id.
func checkTrail(t *testing.T, store *agentstore.Store, recorders, each int) {
	t.Helper()
	for r := range recorders {
		next := 0
		for page := (repo.Page{Limit: repo.MaxPageSize}); ; {
			got, err := store.Audit().List(t.Context(), repo.AuditFilter{Actor: fmt.Sprint("recorder/", r)}, repo.OldestFirst, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range got.Entries {
				if want := fmt.Sprintf(`{"i":%d}`, next); string(entry.Details) != want {
					t.Fatalf("recorder %d: %s where %s is next", r, entry.Details, want)
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

package audit

import (
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// report is how long a reader's transaction stays open.
const report = 3 * time.Second

// A prune that would drop a month during a long report delays no recorder. The naive
// way, DROP TABLE, makes all of them wait for the end of the report.
func TestPruneLocksNobodyOut(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, naive bool) {
		databaseURL := pgtest.NewDatabase(t)
		store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
		conn, reader := pgtest.Connect(t, databaseURL), pgtest.Connect(t, databaseURL)
		if err := store.Audit().Record(t.Context(), entryAt(time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)), entryAt(time.Now())); err != nil {
			t.Fatal(err)
		}
		seal(t, store, 10)
		tx, err := reader.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, tx, "SELECT count(*) FROM audit_entries")
		var longest time.Duration
		var recorded int
		var wg sync.WaitGroup
		begun := time.Now()
		wg.Go(func() {
			for time.Since(begun) < report {
				start := time.Now()
				if err := store.Audit().Record(t.Context(), entryAt(start)); err != nil {
					t.Error(err)
					return
				}
				longest = max(longest, time.Since(start))
				recorded++
			}
		})
		wg.Go(func() {
			time.Sleep(report / 6)
			if naive {
				if _, err := conn.Exec(t.Context(), "DROP TABLE audit_entries_201001"); err != nil {
					t.Error(err)
				}
				return
			}
			for time.Since(begun) < report {
				if _, err := store.AuditStore().Prune(t.Context(), repo.AuditPrune{Before: time.Now().AddDate(0, -1, 0)}); err != nil {
					t.Error(err)
				}
			}
		})
		time.Sleep(time.Until(begun.Add(report)))
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		t.Logf("%d entries, the longest took %s", recorded, longest.Round(time.Millisecond))
		if waited := longest > report/2; waited != naive {
			t.Errorf("recording took up to %s while a report of %s ran", longest, report)
		}
	})
}

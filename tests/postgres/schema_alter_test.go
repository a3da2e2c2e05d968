package postgres

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Changing a column's type under load makes the server refuse prepared statements
// once (0A000, "cached plan must not change result type"). No append fails, and
// afterwards groups are joined as before.
func TestAlterTableUnderLoad(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	others := pgtest.NewPool(t, databaseURL)
	joined := &joinCounter{}
	pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = joined })
	store := pgtest.OpenPool(t, pool, agentstore.Options{})
	// A trigger on the column would keep its type from being changed.
	pgtest.Exec(t, others, "DROP TRIGGER session_activity_move ON session_counters")
	ids := make([]repo.ID, 32)
	for i := range ids {
		ids[i] = pgtest.NewSession(t, store)
	}
	var stop atomic.Bool
	var appended atomic.Int64
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			for !stop.Load() {
				if _, err := store.Sessions().Append(t.Context(), id, user("under load")); err != nil {
					t.Error(err)
					return
				}
				appended.Add(1)
			}
		})
	}
	// settle waits for load, and reports whether groups were joined meanwhile.
	settle := func() bool {
		before, joins := appended.Load(), joined.count.Load()
		await.For(t, "appends continue", func() bool { return appended.Load() >= before+500 || t.Failed() })
		return joined.count.Load() > joins
	}
	if !settle() {
		t.Error("no group was joined before, so this test checks nothing")
	}
	for i, column := range []string{"timestamptz(3)", "timestamptz", "timestamptz(6)"} {
		if _, err := others.Exec(t.Context(), fmt.Sprintf("ALTER TABLE session_counters ALTER COLUMN updated_at TYPE %s", column)); err != nil {
			t.Error(err)
		}
		if !settle() {
			t.Errorf("after change %d no group was joined", i+1)
		}
	}
	stop.Store(true)
	all.Wait()
}

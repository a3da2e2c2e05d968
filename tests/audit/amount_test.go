//go:build !race

package audit

import (
	"context"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// fillOld inserts entries of the last year, of about 650 bytes, which the sealer's queue
// does not learn of.
func fillOld(t *testing.T, conn *pgx.Conn, amount int) {
	t.Helper()
	pgtest.Exec(t, conn, "ALTER TABLE audit_entries DISABLE TRIGGER audit_entries_queue")
	for from := 0; from < amount; from += 100_000 {
		pgtest.Exec(t, conn, `INSERT INTO audit_entries (occurred_at, id, type, actor, user_name, plan_id, session_id, project, details)
			SELECT now() - interval '1 year' + n * interval '1 second', audit_new_id(), 'tool_invoked', 'agent', 'user/' || n % 1000,
				CAST(lpad(to_hex(n % 10000), 32, '0') AS uuid), CAST(lpad(to_hex(n % 20000), 32, '0') AS uuid), 'project',
				CAST('{"tool":"shell","input":"' || repeat('x', 300) || '"}' AS json)
			FROM generate_series($1::int + 1, $2::int) n`, from, min(amount, from+100_000))
	}
	pgtest.Exec(t, conn, "ALTER TABLE audit_entries ENABLE TRIGGER audit_entries_queue")
}

// A prune of many entries beside writers and holds stops none of them: the slowest
// waits for no more than a few batches. What it leaves is room for as many entries:
// AGENTSTORE_PRUNE sets another amount.
func TestAmountPrune(t *testing.T) {
	amount := pgtest.Choose(1_000_000, 200_000)
	if set := os.Getenv("AGENTSTORE_PRUNE"); set != "" {
		var err error
		if amount, err = strconv.Atoi(set); err != nil {
			t.Fatal(err)
		}
	}
	databaseURL := pgtest.NewDatabase(t)
	store, conn := pgtest.OpenStore(t, databaseURL, agentstore.Options{}), pgtest.Connect(t, databaseURL)
	fillOld(t, conn, amount)
	pgtest.Exec(t, conn, `INSERT INTO audit_leaves (sequence, entry_id, occurred_at, recorded_at, type, plan_id, session_id, hidden, hash)
		SELECT row_number() OVER (ORDER BY e.occurred_at, e.id) - 1, e.id, e.occurred_at, e.recorded_at, e.type, e.plan_id, e.session_id, sha256(''), sha256('')
		FROM audit_entries e`)
	// By one process: workers share 64 MB of memory, which is all that a container may have.
	pgtest.Exec(t, conn, "VACUUM (ANALYZE, PARALLEL 0) audit_entries, audit_leaves")
	pgtest.Exec(t, conn, "CHECKPOINT")
	size := func(table string) int64 {
		return pgtest.Value[int64](t, conn, "SELECT pg_total_relation_size($1::regclass) / 1000000", table)
	}
	report := func(when string) {
		t.Logf("%s: audit_entries %d MB, audit_leaves %d MB", when, size("audit_entries"), size("audit_leaves"))
	}
	report("filled")
	kept := pgtest.Value[time.Time](t, conn, "SELECT max(occurred_at) + interval '1 second' FROM audit_entries")

	// Writers record until they are stopped, and a hold is made and released all the time.
	load := func(during func()) (perSecond float64, slowest, hold time.Duration) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		recorded, began := 0, time.Now()
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					start := time.Now()
					if err := store.Audit().Record(t.Context(), benchBatch(10, start)...); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					recorded, slowest = recorded+10, max(slowest, time.Since(start))
					mu.Unlock()
				}
			})
		}
		wg.Go(func() {
			var waited []time.Duration
			for ctx.Err() == nil {
				held := auditlog.Hold{PlanID: repo.NewID(), Reason: "x"}
				start := time.Now()
				if err := store.AuditLog().Hold(t.Context(), held); err != nil {
					t.Error(err)
					return
				}
				waited = append(waited, time.Since(start))
				if err := store.AuditLog().Release(t.Context(), held); err != nil {
					t.Error(err)
				}
				time.Sleep(20 * time.Millisecond)
			}
			slices.Sort(waited)
			hold = waited[len(waited)*99/100]
		})
		during()
		cancel()
		wg.Wait()
		return float64(recorded) / time.Since(began).Seconds(), slowest, hold
	}
	before, slowest, hold := load(func() { time.Sleep(5 * time.Second) })
	t.Logf("before: %.0f entries/s recorded, the slowest call took %s, 99 of 100 holds less than %s", before, slowest.Round(time.Millisecond), hold.Round(time.Millisecond))
	var took time.Duration
	during, slowest, hold := load(func() {
		began := time.Now()
		pruned, err := store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: kept})
		if err != nil || pruned.Entries != int64(amount) {
			t.Errorf("pruned %+v, %v", pruned, err)
		}
		took = time.Since(began)
	})
	t.Logf("during: %.0f entries/s recorded, the slowest call took %s, 99 of 100 holds less than %s; %.0f entries/s removed, in %s",
		during, slowest.Round(time.Millisecond), hold.Round(time.Millisecond), float64(amount)/took.Seconds(), took.Round(time.Second))
	if hold > time.Second || slowest > 5*time.Second {
		t.Errorf("a hold took %s, and a call of a writer %s", hold, slowest)
	}
	report("pruned")
	// The pages of indexes that a vacuum empties are free after the next one, if all
	// transactions that it ran beside, in any database of the server, have ended.
	for range 2 {
		pgtest.Exec(t, conn, "VACUUM (PARALLEL 0) audit_entries")
		pgtest.Exec(t, conn, "VACUUM (PARALLEL 0) audit_leaves")
		next := pgtest.Value[string](t, conn, "SELECT pg_current_xact_id()::xid::text")
		await.For(t, "the end of older transactions", func() bool {
			return pgtest.Value[bool](t, conn, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid <> pg_backend_pid()
				AND greatest(age(a.backend_xmin), age(a.backend_xid)) >= age(CAST($1::text AS xid)))`, next)
		})
	}
	report("vacuumed")
	vacuumed := size("audit_entries")
	fillOld(t, conn, amount)
	report("filled again")
	if again := size("audit_entries"); again > vacuumed*5/4 {
		t.Errorf("the table has grown from %d MB to %d MB: the room that the prune left was not used again", vacuumed, again)
	}
}

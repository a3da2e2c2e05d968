//go:build !race

package audit

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
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

// A prune of many entries stops no writers and no holds, which wait for some batches at most.
// What it leaves is room for as many entries:
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

	// Writers record, and a hold is made and released, until the prune has ended.
	ctx, cancel := context.WithCancel(t.Context())
	var beside sync.WaitGroup
	var recorded, held atomic.Int64
	for range 4 {
		beside.Go(func() {
			for ctx.Err() == nil && recorded.Load() < int64(amount/20) { // they take little of the room that is left
				if err := store.Audit().Record(t.Context(), benchBatch(10, time.Now())...); err != nil {
					t.Error(err)
				}
				recorded.Add(10)
				time.Sleep(20 * time.Millisecond) // pace: batches are removed
			}
		})
	}
	beside.Go(func() {
		for ctx.Err() == nil {
			hold := auditlog.Hold{PlanID: repo.NewID(), Reason: "x"}
			if err := errors.Join(store.AuditLog().Hold(t.Context(), hold), store.AuditLog().Release(t.Context(), hold)); err != nil {
				t.Error(err)
			}
			held.Add(1)
			time.Sleep(20 * time.Millisecond) // pace: batches are removed
		}
	})
	began := time.Now()
	pruned, err := store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: kept})
	took, besides, holds := time.Since(began), recorded.Load(), held.Load()
	cancel()
	beside.Wait()
	if err != nil || pruned.Entries != int64(amount) {
		t.Errorf("pruned %+v, %v", pruned, err)
	}
	t.Logf("%.0f entries/s removed, in %s, beside %d recorded ones and %d holds", float64(amount)/took.Seconds(), took.Round(time.Second), besides, holds)
	if besides < 100 || holds < 3 {
		t.Errorf("while %d entries were removed, only %d were recorded, and %d holds made", amount, besides, holds)
	}
	report("pruned")
	// The pages of indexes that a vacuum empties are free after the next one, if all
	// transactions that it ran beside, in any database of the server, have ended. Other tests
	// begin such transactions all the time.
	for range 5 {
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

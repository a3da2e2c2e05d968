package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Leases are renewed while transactions have all connections of the pool: renewals have one of their
// own, and those that are due at the same time share a statement. It is closed with the store.
func TestRenewalsWithoutThePool(t *testing.T) {
	t.Parallel()
	const holders, size = 40, 4
	tracer := newClaimTracer()
	tracer.claims.name = "LeaseRenew"
	store := process(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) {
		c.ConnConfig.Tracer, c.MaxConns = tracer, size
	})
	var held []*repo.HeldLease
	for n := range holders {
		h, err := repo.HoldLease(t.Context(), store, repo.NewLease{Key: repo.LeaseKey{Kind: "k", Name: fmt.Sprint(n)}, Owner: "o", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, h)
	}
	for range size {
		beginOn(t, store.Pool())
	}
	ctx := await.Context(t)
	// A statement of renewals has a second or so, and without an answer the pool is needed: Hold tries again, and so does
	// this.
	renew := func(lease repo.Lease) error {
		for {
			attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
			_, err := store.Leases().Renew(attempt, lease, time.Hour)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
				return err
			}
		}
	}
	statements := int64(holders)
	for round := 0; round < 20 && statements > holders/2 && !t.Failed(); round++ { // until they come at the same time
		before := tracer.claims.count.Load()
		var running sync.WaitGroup
		for _, h := range held {
			running.Go(func() {
				if err := renew(h.Lease()); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		statements = tracer.claims.count.Load() - before
	}
	if t.Logf("%d statements for %d renewals at once", statements, holders); statements == 0 || statements > holders/2 {
		t.Errorf("%d statements for %d renewals", statements, holders)
	}
	for _, h := range held {
		if err := h.Err(); err != nil {
			t.Error(err)
		}
	}
}

// Beside an open snapshot each renewal leaves a version of the row that cannot be removed. With a hint
// it reads none of them; by the index, as the naive way, all. A hint to another lease's row is of no
// use, and does that lease nothing.
func TestRenewalsBesideASnapshot(t *testing.T) {
	t.Parallel()
	const renewals = 2000
	databaseURL := pgtest.ReadCommitted(pgtest.NewDatabase(t))
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	var held []repo.Lease
	for _, name := range []string{"one", "other"} {
		lease, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.LeaseKey{Kind: "k", Name: name}, Owner: "o", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, lease)
	}
	snapshot := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, snapshot, "BEGIN ISOLATION LEVEL REPEATABLE READ")
	pgtest.Exec(t, snapshot, "SELECT FROM leases")
	conn := pgtest.Connect(t, databaseURL)
	renew := func(hint pgtype.TID, hours float64) db.LeaseRenewRow {
		rows, err := db.New().LeaseRenew(t.Context(), conn, db.LeaseRenewParams{
			Kinds: []string{"k"}, Names: []string{"one"}, Fences: []int64{held[0].Fence}, TtlsSeconds: []float64{3600 * hours},
			Hints: []pgtype.TID{hint}, Namespaces: []string{repo.DefaultNamespace},
		})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows: %v", len(rows), err)
		}
		return rows[0]
	}
	var wrong pgtype.TID
	if err := conn.QueryRow(t.Context(), "SELECT ctid FROM leases WHERE name = 'other'").Scan(&wrong); err != nil {
		t.Fatal(err)
	}
	last := renew(wrong, 3)
	if renewed := last.ExpiresAt.Sub(held[0].ExpiresAt); renewed < time.Hour {
		t.Errorf("with a wrong hint it lives %v longer", renewed)
	}
	if expires := pgtest.Value[time.Time](t, conn, "SELECT expires_at FROM leases WHERE name = 'other'"); !expires.Equal(held[1].ExpiresAt) {
		t.Errorf("the other lease was renewed until %v", expires)
	}
	for range renewals {
		last = renew(last.Hint, 4)
	}
	all := statements(t)
	sql := all[slices.IndexFunc(all, func(s statement) bool { return s.name == "LeaseRenew" })].sql
	blocks := func(hint pgtype.TID) (read int) {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		var answer []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"` // what other tests have driven out of the server's memory
			}
		}
		if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql,
			[]string{repo.DefaultNamespace}, []string{"k"}, []string{"one"}, []int64{held[0].Fence}, []float64{1}, []pgtype.TID{hint},
		).Scan(&answer); err != nil {
			t.Fatal(err)
		}
		return answer[0].Plan.Hit + answer[0].Plan.Read
	}
	placed, naive := blocks(last.Hint), blocks(pgtype.TID{})
	if t.Logf("after %d renewals one reads %d blocks with a hint, %d without", renewals, placed, naive); placed > 20 || naive < 2*placed {
		t.Errorf("it reads %d blocks with a hint, %d without", placed, naive)
	}
}

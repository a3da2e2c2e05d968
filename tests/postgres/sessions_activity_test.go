package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// setBack makes everything that has happened to a session happen that much earlier.
func setBack(t *testing.T, pool *pgxpool.Pool, id repo.ID, by time.Duration) {
	t.Helper()
	for _, sql := range []string{
		"UPDATE sessions SET created_at = created_at - $2::interval, updated_at = updated_at - $2::interval WHERE id = $1",
		"UPDATE session_counters SET updated_at = updated_at - $2::interval WHERE session_id = $1",
		"UPDATE session_activity SET active_at = active_at - $2::interval WHERE session_id = $1",
	} {
		pgtest.Exec(t, pool, sql, id.String(), by.String())
	}
}

// The row of a session's activity is written by the first append of a minute, in
// whichever way that is sent, and not by the next one. In the usual minute the trigger's
// function is not even called.
func TestActivityIsWrittenOnceAMinute(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	ctx, sessions, pool := t.Context(), store.Sessions(), store.Pool()
	id := pgtest.NewSession(t, store)
	next := int64(0)
	written := func() string {
		return pgtest.Value[string](t, pool, "SELECT xmin::text || ' ' || active_at FROM session_activity WHERE session_id = $1", id.String())
	}
	appends := map[string]func() error{
		"one":     func() error { _, err := sessions.Append(ctx, id, user("x")); return err },
		"several": func() error { _, err := sessions.Append(ctx, id, user("x"), user("y")); return err },
		"with an id": func() error {
			_, err := sessions.Append(ctx, id, repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "x"})
			return err
		},
		"expected": func() error { _, err := appendAt(ctx, sessions, id, next, user("x")); return err },
		"bound": func() error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				bound, _ := boundTo(tx)
				_, err := bound.Append(ctx, id, user("x"))
				return err
			})
		},
	}
	for name, add := range appends {
		setBack(t, pool, id, time.Hour)
		for {
			before := written()
			next = readSession(t, store, id).MessageCount
			if err := add(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			first := readSession(t, store, id)
			if now := written(); now == before {
				t.Errorf("%s: the first append in an hour has not written the activity", name)
			}
			before, next = written(), first.MessageCount
			if err := add(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if second := readSession(t, store, id); !second.UpdatedAt.Truncate(time.Minute).Equal(first.UpdatedAt.Truncate(time.Minute)) {
				setBack(t, pool, id, time.Hour)
				continue // a minute ended in between
			}
			if now := written(); now != before {
				t.Errorf("%s: the second append in a minute has written the activity", name)
			}
			break
		}
	}
	const touch = "EXPLAIN (ANALYZE, COSTS off) UPDATE session_counters SET updated_at = "
	calls := func(at string) bool {
		rows, _ := pool.Query(ctx, touch+at+" WHERE session_id = $1", id.String())
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(strings.Join(lines, "\n"), "session_activity_move")
	}
	if calls("updated_at") {
		t.Error("an update in the same minute calls the trigger's function")
	}
	if !calls("updated_at + interval '1 minute'") {
		t.Error("an update in the next minute does not call the trigger's function: the test sees no call")
	}
}

func readSession(t *testing.T, store *agentstore.Store, id repo.ID) repo.Session {
	t.Helper()
	session, err := store.Sessions().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// Sessions of an owner are listed alone. A session is in the list, in whatever way it
// was created.
func TestActivityOfOwners(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	pgtest.Exec(t, store.Pool(), `
		INSERT INTO sessions (id, owner, updated_at) SELECT gen_random_uuid(), 'owner/' || n % 3, now() - n * interval '1 hour' FROM generate_series(1, 9) n;
		INSERT INTO session_counters (session_id, updated_at) SELECT id, updated_at FROM sessions;
		INSERT INTO session_activity (session_id, namespace, owner, active_at) SELECT id, namespace, owner, updated_at FROM sessions`)
	filter := repo.SessionFilter{Owner: "owner/1", ByActivity: true}
	var found []repo.Session
	for page := (repo.Page{Limit: 2}); ; {
		list, err := store.Sessions().List(t.Context(), filter, page)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, list.Items...)
		if page.After = list.Next; list.Next == "" {
			break
		}
	}
	if len(found) != 3 || !slices.IsSortedFunc(found, func(a, b repo.Session) int { return b.UpdatedAt.Compare(a.UpdatedAt) }) ||
		slices.ContainsFunc(found, func(s repo.Session) bool { return s.Owner != "owner/1" }) {
		t.Errorf("found %+v", found)
	}
}

// A group never waits for another transaction's row of session_activity, because a
// writer of one has the lock of the counter row, and such a session is skipped.
func TestActivityStopsNoOther(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	ctx, sessions := t.Context(), store.Sessions()
	held, free := pgtest.NewSession(t, store), pgtest.NewSession(t, store)
	for _, id := range []repo.ID{held, free} {
		setBack(t, store.Pool(), id, time.Hour)
	}
	tx, err := store.Pool().Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	bound, _ := boundTo(tx)
	if _, err := bound.Append(ctx, held, user("holds both rows")); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := sessions.Append(ctx, held, user("waits"))
		waiting <- err
	}()
	for i := range 20 {
		setBack(t, store.Pool(), free, time.Hour)
		if _, err := sessions.Append(ctx, free, user(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-waiting:
		t.Errorf("an append to the held session did not wait: %v", err)
	default:
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

// A page by activity is planned once for all, and not in parallel.
func TestActivityIsPlannedOnce(t *testing.T) {
	t.Parallel()
	databaseURL := newUnattended(t)
	if pgtest.Value[int](t, pgtest.Connect(t, databaseURL), "SELECT current_setting('server_version_num')::int") < 140000 {
		t.Log("PostgreSQL 13 does not count plans, and still plans each page")
		return
	}
	for _, owner := range []string{"", "owner/3"} {
		pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) {
			c.MaxConns = 1
			c.ConnConfig.RuntimeParams["plan_cache_mode"] = "auto" // whatever the server's is
		})
		store := pgtest.OpenPool(t, pool, agentstore.Options{})
		for range 20 {
			if _, err := store.Sessions().List(t.Context(), repo.SessionFilter{ByActivity: true, Owner: owner, AnyOwner: owner == ""}, repo.Page{Limit: 100}); err != nil {
				t.Fatal(err)
			}
		}
		if wantPlannedOnce(t, pool, "SessionListActive "); t.Failed() {
			t.Fatalf("owner %q", owner)
		}
	}
}

// Pages of a list have the exact order where a minute has up to 5,000 sessions. Of a minute
// that has more, as of the others, each session is there once.
// Guarantee: Sessions: A list by last activity has the order of the last appends.
func TestActivityOfCrowdedMinutes(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	fill := func(sessions, minute int) {
		// The exact order is another than that of the first activity in the minute.
		pgtest.Exec(t, store.Pool(), `
			WITH made AS (
				INSERT INTO sessions (id, namespace, created_at, updated_at)
				SELECT gen_random_uuid(), CASE n % 2 WHEN 0 THEN 'a' ELSE 'b' END, t, t FROM generate_series(1, $1::int) n,
					LATERAL (SELECT timestamptz '2026-01-02 03:00:00Z' + $2 * interval '1 minute' + n % 997 * interval '10 milliseconds') AS s (t)
				RETURNING id, namespace, created_at
			), counted AS (
				INSERT INTO session_counters (session_id, updated_at) SELECT id, created_at + random() * interval '40 seconds' FROM made
			)
			INSERT INTO session_activity (session_id, namespace, active_at) SELECT id, namespace, created_at FROM made`, sessions, minute)
	}
	fill(10, 0)
	fill(9990, 1)   // 4,995 in each namespace
	fill(11_000, 2) // 5,500
	fill(700, 3)
	for _, limit := range []int{333, 1000} {
		seen, last := map[repo.ID]bool{}, time.Now()
		for page := (repo.Page{Limit: limit}); ; {
			list, err := store.Sessions().List(t.Context(), repo.SessionFilter{Namespace: "a", AnyOwner: true, ByActivity: true}, page)
			if err != nil {
				t.Fatal(err)
			}
			if list.Next != "" && len(list.Items) != limit {
				t.Fatalf("a page of %d has %d", limit, len(list.Items))
			}
			for _, s := range list.Items {
				seen[s.ID] = true
				// Within the crowded minute the order is another.
				if s.UpdatedAt.After(last) && (s.UpdatedAt.Minute() != 2 || last.Minute() != 2) {
					t.Fatalf("%v comes after %v", s.UpdatedAt, last)
				}
				last = s.UpdatedAt
			}
			if page.After = list.Next; list.Next == "" {
				break
			}
		}
		if want := 5 + 4995 + 5500 + 350; len(seen) != want {
			t.Errorf("pages of %d have %d sessions, want %d", limit, len(seen), want)
		}
	}
}

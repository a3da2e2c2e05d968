package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// joinCounter counts the statements that append to several sessions.
type joinCounter struct{ count atomic.Int64 }

func (c *joinCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "-- name: MessageAppendMany") {
		c.count.Add(1)
	}
	return ctx
}

func (*joinCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *joinCounter) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		_ = c.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: query.SQL})
	}
	return ctx
}

func (*joinCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*joinCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// Two stores, as two processes have them, append to the same sessions in joined
// groups: each session's messages are dense, and each append has its own.
func TestJoinedAppendsOfTwoStores(t *testing.T) {
	t.Parallel()
	const writers, appends = 24, 40
	databaseURL := pgtest.NewDatabase(t)
	joined := &joinCounter{}
	stores := make([]*agentstore.Store, 2)
	for i := range stores {
		config, err := pgxpool.ParseConfig(databaseURL)
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.Tracer = joined
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		if stores[i], err = agentstore.OpenPool(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stores[i].Close() })
	}
	ids := make([]repo.ID, 12)
	for i := range ids {
		ids[i] = newSession(t, stores[0])
	}

	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range appends {
				// Some messages have ids of their own, which are looked for, and
				// are sent twice.
				batch := []repo.NewMessage{user(fmt.Sprintf("%d/%d", w, i)), user("and its neighbour")}
				again := i%5 == 0
				if again {
					batch[0].ID = repo.NewID()
				}
				id := ids[(w+i)%len(ids)]
				first, err := stores[w%2].Sessions().Append(t.Context(), id, batch[:1+i%2]...)
				if err != nil {
					t.Error(err)
					return
				}
				if first[0].Content != batch[0].Content || first[0].SessionID != id {
					t.Errorf("append %d of writer %d got another's message", i, w)
				}
				if !again || i%2 == 1 {
					continue
				}
				second, err := stores[(w+1)%2].Sessions().Append(t.Context(), id, batch[0])
				if err != nil || second[0].Sequence != first[0].Sequence {
					t.Errorf("again: %v, %v", second, err)
				}
			}
		})
	}
	all.Wait()

	total := 0
	for _, id := range ids {
		next := int64(0)
		for message, err := range stores[0].Sessions().Stream(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if message.Sequence != next {
				t.Fatalf("sequence %d after %d messages", message.Sequence, next)
			}
			next++
		}
		total += int(next)
	}
	if want := writers * appends * 3 / 2; total != want {
		t.Errorf("%d messages, not %d", total, want)
	}
	if joined.count.Load() == 0 {
		t.Error("no group was joined: this test has shown nothing")
	}
}

// inOneGroup has appends wait until all are there, so that they go in one group.
// The store is one of openNarrow.
func inOneGroup(t *testing.T, store *agentstore.Store, others *pgxpool.Pool, appends ...func()) {
	t.Helper()
	first := newSession(t, store)
	release := stopWriters(t, others)
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := store.Sessions().Append(t.Context(), first, user("has the connection")); err != nil {
			t.Error(err)
		}
	})
	awaitLockWait(t, others)
	for _, each := range appends {
		all.Go(each)
	}
	time.Sleep(50 * time.Millisecond) // they wait: there is nothing to see it by
	release()
	all.Wait()
}

// What one append of a joined group gets is its own: a missing session, a stored
// message and a conflict do not touch the neighbours.
func TestJoinedNeighbours(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t)
	known := repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "known"}
	ids := make([]repo.ID, 10)
	for i := range ids {
		ids[i] = newSession(t, store)
	}
	if _, err := store.Sessions().Append(t.Context(), ids[0], known); err != nil {
		t.Fatal(err)
	}
	other := known
	other.Content = "other"
	results := make([]error, len(ids)+2)
	var appends []func()
	for i, id := range ids {
		message := user("new")
		switch i {
		case 0:
			message = known
		case 1: // the same id in another session is another message
			message = known
		}
		appends = append(appends, func() { _, results[i] = store.Sessions().Append(t.Context(), id, message) })
	}
	appends = append(appends,
		func() { _, results[len(ids)] = store.Sessions().Append(t.Context(), repo.NewID(), user("nowhere")) },
		func() { _, results[len(ids)+1] = store.Sessions().Append(t.Context(), ids[0], other) })
	inOneGroup(t, store, others, appends...)

	for i := range ids {
		if results[i] != nil {
			t.Errorf("append %d: %v", i, results[i])
		}
		messages, err := store.Sessions().MessagesFrom(t.Context(), ids[i], 0, 10)
		if err != nil || len(messages) != 1 {
			t.Errorf("session %d has %d messages: %v", i, len(messages), err)
		}
	}
	if !errors.Is(results[len(ids)], repo.ErrNotFound) {
		t.Errorf("a missing session: %v", results[len(ids)])
	}
	if _, ok := errors.AsType[*repo.MessageConflict](results[len(ids)+1]); !ok {
		t.Errorf("a conflict: %v", results[len(ids)+1])
	}
}

// What the database refuses of one append touches no other of its group. A trigger
// stands for a rule that is not the library's.
func TestRejectedAppendFailsNoOther(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t)
	for _, sql := range []string{
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.content = 'bad' THEN RAISE EXCEPTION 'refused' USING ERRCODE = '23514', CONSTRAINT = 'own_check'; END IF; RETURN NEW; END $$`,
		"CREATE TRIGGER refuse BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION refuse()",
	} {
		if _, err := others.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	id, another := newSession(t, store), newSession(t, store)
	contents := []string{"good", "bad", "good", "good", "bad", "good"}
	results := make([]error, len(contents))
	var appends []func()
	for i, content := range contents {
		to := []repo.ID{id, id, id, another, another, another}[i]
		appends = append(appends, func() { _, results[i] = store.Sessions().Append(t.Context(), to, user(content)) })
	}
	inOneGroup(t, store, others, appends...)
	for i, content := range contents {
		if bad := content == "bad"; bad != errors.Is(results[i], repo.ErrInvalid) || !bad && results[i] != nil {
			t.Errorf("append %d, %s: %v", i, content, results[i])
		}
	}
}

// A session that somebody holds is skipped, and not waited for: who gives up is
// withdrawn, surely not written. That is so of a lone message and of several.
func TestLockedSessionIsSkipped(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t) // whose one connection waits for nobody
	id := newSession(t, store)
	release := hold(t, others, id)
	for _, messages := range [][]repo.NewMessage{{user("one")}, {user("one"), user("two")}} {
		withdrawn := 0
		for range 3 { // a try may be under way at that moment
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			_, err := store.Sessions().Append(ctx, id, messages...)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, repo.ErrUnknownOutcome) {
				withdrawn++
			}
		}
		if withdrawn == 0 {
			t.Errorf("an append of %d messages was at the server each time", len(messages))
		}
	}
	release()
	if session, err := store.Sessions().Get(t.Context(), id); err != nil || session.MessageCount != 0 {
		t.Errorf("%d messages, %v", session.MessageCount, err)
	}
}

// Appends are planned once for all. A plan for each costs more than the append;
// the server makes one for each if it takes those of the first for cheaper.
func TestAppendsArePlannedOnce(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(pgtest.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	config.ConnConfig.RuntimeParams["plan_cache_mode"] = "auto" // whatever the server's is
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	store, err := agentstore.OpenPool(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	ids := make([]repo.ID, 8)
	for i := range ids {
		ids[i] = newSession(t, store)
	}
	for range 10 {
		if _, err := store.Sessions().Append(t.Context(), ids[0], user("in a small group")); err != nil {
			t.Fatal(err)
		}
		if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			_, err := tx.Sessions().Append(ctx, ids[0], user("alone"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			for range 30 {
				if _, err := store.Sessions().Append(t.Context(), id, user("in a group")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, name := range []string{"MessageAppend ", "MessageAppendMany "} {
		var generic, custom int
		var prepared string
		var parameters int
		if err := pool.QueryRow(t.Context(), `SELECT p.name, cardinality(p.parameter_types),
				coalesce((to_jsonb(p) ->> 'generic_plans')::int, -1), coalesce((to_jsonb(p) ->> 'custom_plans')::int, -1)
			FROM pg_prepared_statements p
			WHERE statement LIKE '-- name: ' || $1 || '%'`, name).Scan(&prepared, &parameters, &generic, &custom); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if generic < 0 { // PostgreSQL 13 does not count them, but shows which one it takes
			if !isGeneric(t, pool, prepared, parameters) {
				t.Errorf("%s: still planned for each", name)
			}
			continue
		}
		// The server always plans the first five by themselves.
		if generic == 0 || custom > 5 {
			t.Errorf("%s: %d generic plans, %d custom ones", name, generic, custom)
		}
	}
}

// isGeneric reports whether the next run of a prepared statement has the plan
// that serves all arguments: it shows parameters instead of values.
func isGeneric(t *testing.T, pool *pgxpool.Pool, prepared string, parameters int) bool {
	t.Helper()
	sql := "EXPLAIN EXECUTE " + pgx.Identifier{prepared}.Sanitize() + "(NULL" + strings.Repeat(", NULL", parameters-1) + ")"
	rows, err := pool.Query(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(strings.Join(lines, "\n"), "$1")
}

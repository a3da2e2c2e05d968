package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// joinCounter counts the statements that append to several sessions.
type joinCounter struct{ count atomic.Int64 }

func (c *joinCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "-- name: MessageInsert ") {
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

// Two stores, like two processes, append to the same sessions in joined groups: each
// session's messages are dense, and each append gets its own.
func TestJoinedAppendsOfTwoStores(t *testing.T) {
	t.Parallel()
	const writers, appends = 24, 40
	databaseURL := pgtest.NewDatabase(t)
	joined := &joinCounter{}
	stores := make([]*agentstore.Store, 2)
	for i := range stores {
		pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = joined })
		stores[i] = pgtest.OpenPool(t, pool, agentstore.Options{})
	}
	ids := make([]repo.ID, 12)
	for i := range ids {
		ids[i] = pgtest.NewSession(t, stores[0])
	}

	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range appends {
				// Some messages have ids, and are sent twice.
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
					t.Errorf("append %d of writer %d got the message of another", i, w)
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
		total += int(pgtest.CountDense(t, stores[0], id))
	}
	if want := writers * appends * 3 / 2; total != want {
		t.Errorf("%d messages, not %d", total, want)
	}
	if joined.count.Load() == 0 {
		t.Error("no group was joined, so this test checks nothing")
	}
}

// inOneGroup makes appends wait until all are there, so that they form one group. The
// store is from openNarrow.
func inOneGroup(t *testing.T, store *agentstore.Store, others *pgxpool.Pool, appends ...func()) {
	t.Helper()
	first := pgtest.NewSession(t, store)
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
	awaitQueued(t, store, len(appends))
	release()
	all.Wait()
}

// A missing session, a stored message and a conflict affect only their own append of
// a joined group.
func TestJoinedNeighbours(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t)
	known := repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "known"}
	ids := make([]repo.ID, 10)
	for i := range ids {
		ids[i] = pgtest.NewSession(t, store)
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
	if _, ok := errors.AsType[*repo.ExistsError](results[len(ids)+1]); !ok {
		t.Errorf("a conflict: %v", results[len(ids)+1])
	}
}

// If the database refuses one append, the others of its group are not affected. A
// trigger stands for a rule that is not the library's.
// Guarantee: Messages: An append that the database refuses makes no other fail.
func TestRejectedAppendFailsNoOther(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{
		"23514": repo.ErrInvalid, "23505": repo.ErrConflict,
		"P0001": repo.ErrConflict, "ZX001": repo.ErrConflict, "54000": repo.ErrConflict, "42501": repo.ErrConflict, // the owner's own
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			store, others := openNarrow(t)
			for _, sql := range []string{
				`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					IF NEW.content = 'bad' THEN RAISE EXCEPTION 'refused' USING ERRCODE = '` + code + `', CONSTRAINT = 'own_check'; END IF; RETURN NEW; END $$`,
				"CREATE TRIGGER refuse BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION refuse()",
			} {
				if _, err := others.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			id, another := pgtest.NewSession(t, store), pgtest.NewSession(t, store)
			contents := []string{"good", "bad", "good", "good", "bad", "good"}
			results := make([]error, len(contents))
			var appends []func()
			for i, content := range contents {
				to := []repo.ID{id, id, id, another, another, another}[i]
				appends = append(appends, func() { _, results[i] = store.Sessions().Append(t.Context(), to, user(content)) })
			}
			inOneGroup(t, store, others, appends...)
			for i, content := range contents {
				if bad := content == "bad"; bad != errors.Is(results[i], want) || !bad && results[i] != nil {
					t.Errorf("append %d, %s: %v", i, content, results[i])
				}
			}
		})
	}
}

// An append is retried if the server had no room for it at the moment, and not if the
// server refused it.
func TestAppendRefusedForTheMoment(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{"53100": 3, "P0001": 1} {
		store, others := openNarrow(t)
		for _, sql := range []string{
			"CREATE SEQUENCE tries",
			`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF nextval('tries') < 3 THEN RAISE EXCEPTION 'refused' USING ERRCODE = '` + code + `'; END IF; RETURN NEW; END $$`,
			"CREATE TRIGGER refuse BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION refuse()",
		} {
			if _, err := others.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		_, err := store.Sessions().Append(t.Context(), pgtest.NewSession(t, store), user("x"))
		var tries int
		if err := others.QueryRow(t.Context(), "SELECT last_value FROM tries").Scan(&tries); err != nil {
			t.Fatal(err)
		}
		if tries != want || (err == nil) != (want == 3) {
			t.Errorf("%s: tried %d times, want %d: %v", code, tries, want, err)
		}
	}
}

// A locked session is skipped, not waited for: if the caller gives up, the append
// is withdrawn and certainly not written, whether it has one message or several.
func TestLockedSessionIsSkipped(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t) // its only connection waits for no lock
	id := pgtest.NewSession(t, store)
	if _, err := store.Sessions().Append(t.Context(), id, user("before")); err != nil { // the store has a hint
		t.Fatal(err)
	}
	release := hold(t, others, id)
	unknown := 1 // with the messages of attempts that were under way, which may arrive late
	for _, messages := range [][]repo.NewMessage{{user("one")}, {user("one"), user("two")}} {
		withdrawn := false
		for try := 0; try < 30 && !withdrawn; try++ { // it may be tried again when it is given up
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() {
				_, err := store.Sessions().Append(ctx, id, messages...)
				result <- err
			}()
			waits := 0
			await.For(t, "the append was skipped, waits or is written", func() bool {
				waits = pgtest.LockWaits(t, others)
				return writesOf(store).Locked > 0 || len(result) > 0 || waits > 0
			})
			if waits > 0 {
				t.Errorf("an append of %d messages waits for the row", len(messages))
			}
			cancel()
			err := <-result
			if errors.Is(err, repo.ErrUnknownOutcome) {
				unknown += len(messages)
			}
			withdrawn = errors.Is(err, context.Canceled) && !errors.Is(err, repo.ErrUnknownOutcome)
		}
		if !withdrawn {
			t.Errorf("an append of %d messages was at the server each time", len(messages))
		}
	}
	release()
	if session, err := store.Sessions().Get(t.Context(), id); err != nil || session.MessageCount > int64(unknown) {
		t.Errorf("%d messages, %d of them of unknown outcome, %v", session.MessageCount, unknown, err)
	}
}

// Appends are planned once, with a generic plan. Planning for each call costs more
// than the append; the server does so if it estimates that plans for the first calls'
// arguments are cheaper.
func TestAppendsArePlannedOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, newUnattended(t), func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.RuntimeParams["plan_cache_mode"] = "auto" // whatever the server's setting is
	})
	store := pgtest.OpenPool(t, pool, agentstore.Options{})
	ids := make([]repo.ID, 8)
	for i := range ids {
		ids[i] = pgtest.NewSession(t, store)
	}
	for range 10 {
		for _, messages := range [][]repo.NewMessage{{user("one")}, {user("one"), user("two")}} {
			if _, err := store.Sessions().Append(t.Context(), ids[0], messages...); err != nil {
				t.Fatal(err)
			}
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
				named := repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "to be looked for"}
				if _, err := store.Sessions().Append(t.Context(), id, named); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, name := range []string{"MessageAdvance ", "MessageInsert ", "TurnLockCounters ", "MessageAppendOne "} {
		wantPlannedOnce(t, pool, name)
	}
}

// newUnattended returns a filled database whose statistics stay as they are: when autovacuum
// has looked at a table, the server compares its plans anew.
func newUnattended(t *testing.T) (databaseURL string) {
	t.Helper()
	databaseURL = newFilled(t)
	leaveAlone(t, pgtest.Connect(t, databaseURL))
	return databaseURL
}

// leaveAlone has autovacuum leave the tables as they are.
func leaveAlone(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	pgtest.Exec(t, conn, `DO $$ DECLARE name regclass; BEGIN
		FOR name IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
			EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', name);
		END LOOP;
	END $$`)
}

func wantPlannedOnce(t *testing.T, pool *pgxpool.Pool, name string) {
	t.Helper()
	if found := plannedAgain(t, pool, name); found != "" {
		t.Error(found)
	}
}

// plannedAgain looks at what the server counted of a statement that was prepared on the
// pool's only connection. The name is that of the query, and a space. The result is empty if
// it was planned once.
func plannedAgain(t *testing.T, pool *pgxpool.Pool, name string) string {
	t.Helper()
	var generic, custom int
	var prepared string
	var parameters int
	if err := pool.QueryRow(t.Context(), `SELECT p.name, cardinality(p.parameter_types),
			coalesce((to_jsonb(p) ->> 'generic_plans')::int, -1), coalesce((to_jsonb(p) ->> 'custom_plans')::int, -1)
		FROM pg_prepared_statements p
		WHERE statement LIKE '-- name: ' || $1 || '%'`, name).Scan(&prepared, &parameters, &generic, &custom); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if generic < 0 { // PostgreSQL 13 does not count them, but shows which it uses
		if !isGeneric(t, pool, prepared, parameters) {
			return name + ": still planned for each"
		}
		return ""
	}
	// The server always plans for the arguments five times.
	if generic == 0 || custom > 5 {
		return fmt.Sprintf("%s: %d generic plans, %d custom ones", name, generic, custom)
	}
	return ""
}

// isGeneric reports whether the next run of a prepared statement has a generic plan, by
// comparing that with the plan for its arguments. The pool has one connection.
func isGeneric(t *testing.T, pool *pgxpool.Pool, prepared string, parameters int) bool {
	t.Helper()
	explain := "EXPLAIN (VERBOSE) EXECUTE " + pgx.Identifier{prepared}.Sanitize() + "(NULL" + strings.Repeat(", NULL", parameters-1) + ")"
	plan := func(mode string) string {
		pgtest.Exec(t, pool, "SET plan_cache_mode = "+mode)
		rows, err := pool.Query(t.Context(), explain, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	custom := plan("force_custom_plan")
	return plan("auto") != custom
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The isolation levels that a transaction may begin with where nobody says
// which, and where that is set.
var (
	levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	places = []string{"server", "database", "role", "URL"}
)

// databaseAt makes a migrated database whose transactions have a level by default.
func databaseAt(t *testing.T, place string, level pgx.TxIsoLevel) string {
	t.Helper()
	if place == "server" {
		server := pgtest.NewKillable(t, pgtest.KillableOptions{Settings: []string{
			"fsync=off", "max_connections=100", "default_transaction_isolation=" + string(level),
		}})
		if err := schema.Up(t.Context(), server.URL); err != nil {
			t.Fatal(err)
		}
		return server.URL
	}
	databaseURL := pgtest.NewDatabase(t)
	if place == "URL" {
		spaced := withParameter(t, databaseURL, "default_transaction_isolation", string(level))
		return strings.ReplaceAll(spaced, "+", "%20")
	}
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	execute := func(ctx context.Context, statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	if place == "database" {
		execute(t.Context(), fmt.Sprintf("ALTER DATABASE %s SET default_transaction_isolation = '%s'", conn.Config().Database, level))
		return databaseURL
	}
	role, password := "isolated_"+strings.ToLower(repo.NewID().String()), repo.NewID().String()
	execute(t.Context(),
		fmt.Sprintf("CREATE ROLE %s SUPERUSER LOGIN PASSWORD '%s'", role, password),
		fmt.Sprintf("ALTER ROLE %s SET default_transaction_isolation = '%s'", role, level))
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), databaseURL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if _, err := conn.Exec(context.Background(), "DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	return withUser(t, databaseURL, role, password)
}

// eachSetting runs a test with the store on a pool of its own and on a caller's,
// at each level that may be the default, wherever that is set.
func eachSetting(t *testing.T, test func(t *testing.T, databaseURL string, open func(t *testing.T) *agentstore.Store)) {
	t.Helper()
	for _, place := range places {
		for _, level := range levels {
			if testing.Short() && (place != "database" || level == pgx.RepeatableRead) {
				continue
			}
			t.Run(place+"/"+strings.ReplaceAll(string(level), " ", "-"), func(t *testing.T) {
				t.Parallel()
				databaseURL := databaseAt(t, place, level)
				wantDefault(t, databaseURL, level)
				t.Run("Open", func(t *testing.T) {
					test(t, databaseURL, func(t *testing.T) *agentstore.Store { return openURL(t, databaseURL, agentstore.Options{MaxConns: 8}) })
				})
				t.Run("OpenPool", func(t *testing.T) {
					test(t, databaseURL, func(t *testing.T) *agentstore.Store { return openPool(t, pgtest.NewPool(t, databaseURL)) })
				})
			})
		}
	}
}

func openPool(t *testing.T, pool *pgxpool.Pool) *agentstore.Store {
	t.Helper()
	store, err := agentstore.OpenPool(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// wantDefault makes sure that the setting is one.
func wantDefault(t *testing.T, databaseURL string, level pgx.TxIsoLevel) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var got string
	if err := conn.QueryRow(t.Context(), "SELECT current_setting('transaction_isolation')").Scan(&got); err != nil || got != string(level) {
		t.Fatalf("transactions begin with %q, want %q: %v", got, level, err)
	}
}

// Under each setting writers do not fail because of one another, and what is
// done to a plan's tree at the same time leaves it whole.
func TestEachIsolationLevel(t *testing.T) {
	t.Parallel()
	eachSetting(t, func(t *testing.T, databaseURL string, open func(t *testing.T) *agentstore.Store) {
		t.Run("writers", func(t *testing.T) { testWriters(t, databaseURL, open(t)) })
		t.Run("tree", func(t *testing.T) { testTree(t, open(t)) })
	})
}

// testWriters has several stores append to few sessions, and others use the same
// rows.
func testWriters(t *testing.T, databaseURL string, store *agentstore.Store) {
	const stores, writers, each = 4, 8, 25 // 800 appends
	all := []*agentstore.Store{store}
	for len(all) < stores { // as other processes have them
		all = append(all, openPool(t, pgtest.NewPool(t, databaseURL)))
	}
	ids := []repo.ID{newSession(t, all[0]), newSession(t, all[0])}
	var wg sync.WaitGroup
	var mu sync.Mutex
	failures := map[string]int{}
	attempt := func(what string, err error) {
		if err == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if failures[what] == 0 {
			t.Logf("%s: %v", what, err)
		}
		failures[what]++
	}
	for _, store := range all {
		for w := range writers {
			wg.Go(func() {
				id := ids[w%len(ids)]
				for range each {
					_, err := store.Sessions().Append(t.Context(), id, user("x"))
					attempt("append", err)
				}
			})
		}
		wg.Go(func() {
			for range each {
				_, err := store.Sessions().AddUsage(t.Context(), ids[0], repo.NewUsage{InputTokens: 1})
				attempt("add usage", err)
				attempt("in a transaction", store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
					_, err := tx.Sessions().Append(ctx, ids[1], user("x"))
					return err
				}))
			}
		})
	}
	wg.Wait()
	for what, count := range failures {
		t.Errorf("%s: %d failed", what, count)
	}
	for _, id := range ids {
		session, err := all[0].Sessions().Get(t.Context(), id)
		want := int64(stores * writers / len(ids) * each)
		if id == ids[1] {
			want += stores * each
		}
		if err != nil || session.MessageCount != want {
			t.Errorf("%d messages, want %d: %v", session.MessageCount, want, err)
		}
	}
}

// family is a root plan, and an action whose plans may be its children.
type family struct {
	store  *agentstore.Store
	action string
	root   repo.ID
}

func newFamily(t *testing.T, store *agentstore.Store) family {
	t.Helper()
	f := family{store: store, action: "a" + strings.ToLower(repo.NewID().String())}
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: f.action, ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	plan, err := store.Plans().Use(t.Context(), f.action, repo.UseAction{})
	if err != nil {
		t.Fatal(err)
	}
	f.root = plan.ID
	return f
}

func (f family) grow(ctx context.Context, plans repo.Plans) error {
	_, err := plans.Use(ctx, f.action, repo.UseAction{ParentID: f.root})
	return err
}

func (f family) cancel(ctx context.Context, plans repo.Plans) error {
	_, err := plans.Transition(ctx, f.root, repo.TransitionCancel, repo.Cause{Reason: "enough"})
	return err
}

// orphans counts the live children of the root, if that is cancelled.
func (f family) orphans(t *testing.T) (count int) {
	t.Helper()
	err := f.store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM plans c JOIN plans r ON r.id = c.root_id
		WHERE r.id = $1 AND r.state = 'cancelled' AND c.state NOT IN ('cancelled', 'applied')`, [16]byte(f.root)).Scan(&count)
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// testTree: a cancelled root has no live child, whoever came first.
func testTree(t *testing.T, store *agentstore.Store) {
	for range 10 {
		f := newFamily(t, store)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := f.grow(t.Context(), store.Plans()); err != nil && !errors.Is(err, repo.ErrConflict) {
					t.Errorf("use: %v", err)
				}
			})
		}
		wg.Go(func() {
			if err := f.cancel(t.Context(), store.Plans()); err != nil {
				t.Errorf("cancel: %v", err)
			}
		})
		wg.Wait()
		if orphans := f.orphans(t); orphans > 0 {
			t.Errorf("a cancelled root has %d live children", orphans)
		}
	}
}

// beside runs one step in a transaction that began before another step was
// committed. It returns the transaction's error.
func (f family) beside(t *testing.T, level pgx.TxIsoLevel, first func(pgx.Tx) error, second func(pgx.Tx) error) error {
	t.Helper()
	return pgx.BeginTxFunc(t.Context(), f.store.Pool(), pgx.TxOptions{IsoLevel: level}, func(late pgx.Tx) error {
		if _, err := postgres.Bind(late).Plans().Get(t.Context(), f.root); err != nil { // it sees the database as of now
			return err
		}
		if err := pgx.BeginFunc(t.Context(), f.store.Pool(), first); err != nil {
			t.Fatal(err)
		}
		return second(late)
	})
}

// In a caller's transaction of any level a tree's growing and its cancellation
// see each other, or one of them is given up with repo.ErrContention. A lock
// alone, as it was taken once, is not enough.
func TestBoundTreeAtEachIsolationLevel(t *testing.T) {
	t.Parallel()
	store := openStore(t, agentstore.Options{MaxConns: 4})
	lock := "SELECT FROM plans WHERE id = $1 FOR NO KEY UPDATE"
	grow := func(f family) func(pgx.Tx) error {
		return func(tx pgx.Tx) error { return f.grow(t.Context(), postgres.Bind(tx).Plans()) }
	}
	cancel := func(f family) func(pgx.Tx) error {
		return func(tx pgx.Tx) error { return f.cancel(t.Context(), postgres.Bind(tx).Plans()) }
	}
	naive := func(f family, statement string, arguments ...any) func(pgx.Tx) error {
		return func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), lock, [16]byte(f.root)); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), statement, arguments...)
			return err
		}
	}
	naiveGrow := func(f family) func(pgx.Tx) error {
		return naive(f, `INSERT INTO plans SELECT (jsonb_populate_record(p, jsonb_build_object(
			'id', $2::uuid, 'parent_id', p.id, 'depth', 1))).* FROM plans p WHERE p.id = $1 AND p.state <> 'cancelled'`, [16]byte(f.root), [16]byte(repo.NewID()))
	}
	naiveCancel := func(f family) func(pgx.Tx) error {
		return naive(f, `UPDATE plans SET state = 'cancelled', cancelled_at = now(), cancel_reason = 'enough' WHERE root_id = $1`, [16]byte(f.root))
	}
	for _, level := range levels {
		for name, steps := range map[string][2]func(family) func(pgx.Tx) error{
			"cancel after use": {grow, cancel}, "use after cancel": {cancel, grow},
		} {
			f := newFamily(t, store)
			err := f.beside(t, level, steps[0](f), steps[1](f))
			contention, conflict := errors.Is(err, repo.ErrContention), errors.Is(err, repo.ErrConflict)
			if orphans := f.orphans(t); orphans > 0 {
				t.Errorf("%s, %s: a cancelled root has %d live children: %v", level, name, orphans, err)
			}
			if level == pgx.ReadCommitted && contention || level != pgx.ReadCommitted && !contention || err != nil && !contention && !conflict {
				t.Errorf("%s, %s: %v", level, name, err)
			}
		}
		f := newFamily(t, store)
		err := f.beside(t, level, naiveGrow(f), naiveCancel(f))
		if orphans := f.orphans(t); (orphans > 0) != (level != pgx.ReadCommitted) {
			t.Errorf("%s: with a lock alone a cancelled root has %d live children (%v): this test would not find one", level, orphans, err)
		}
	}
}

// Every transaction of the store's is read committed, while the caller's session
// stays as the caller made it, and no server is made to warn.
func TestIsolationOfTheCallerStays(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			config, err := pgxpool.ParseConfig(withParameter(t, databaseAt(t, "database", pgx.Serializable), "default_query_exec_mode", mode))
			if err != nil {
				t.Fatal(err)
			}
			config.MaxConns = 1
			notices := &buffer{}
			config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { fmt.Fprintln(notices, notice.Message) }
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			execute := func(sql string) {
				t.Helper()
				if _, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
					t.Fatal(err)
				}
			}
			execute(`CREATE TABLE seen (level text, tab text);
				CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					INSERT INTO seen VALUES (current_setting('transaction_isolation'), TG_TABLE_NAME); RETURN NULL;
				END $$`)
			for _, table := range []string{"sessions", "session_counters", "messages", "plans", "actions", "session_plans", "audit_entries"} {
				execute("CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON " + table + " FOR EACH STATEMENT EXECUTE FUNCTION note()")
			}
			store := openPool(t, pool)
			operate := func() {
				t.Helper()
				id := newSession(t, store)
				f := newFamily(t, store)
				for what, err := range map[string]error{
					"append": func() error { _, err := store.Sessions().Append(t.Context(), id, user("x")); return err }(),
					"add usage": func() error {
						_, err := store.Sessions().AddUsage(t.Context(), id, repo.NewUsage{InputTokens: 1})
						return err
					}(),
					"update":  func() error { _, err := store.Sessions().Update(t.Context(), id, repo.SessionUpdate{}); return err }(),
					"grow":    f.grow(t.Context(), store.Plans()),
					"link":    store.Plans().Link(t.Context(), id, f.root),
					"cancel":  f.cancel(t.Context(), store.Plans()),
					"record":  store.Audit().Record(t.Context(), repo.AuditEntry{Type: repo.EventToolInvoked}),
					"archive": func() error { _, err := store.Actions().Archive(t.Context(), f.action); return err }(),
					"delete":  func() error { _, err := store.Sessions().Delete(t.Context(), id); return err }(),
					"InTx": store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
						_, err := tx.Sessions().Create(ctx, repo.NewSession{})
						return err
					}),
				} {
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			want := func(level string) {
				t.Helper()
				var now, byDefault, others string
				if err := pool.QueryRow(t.Context(), `SELECT current_setting('transaction_isolation'), current_setting('default_transaction_isolation'),
					(SELECT coalesce(string_agg(DISTINCT tab || ': ' || level, ', '), '') FROM seen WHERE level <> 'read committed')`).
					Scan(&now, &byDefault, &others); err != nil {
					t.Fatal(err)
				}
				if now != level || byDefault != level {
					t.Errorf("the caller's transactions are %s, by default %s, want %s", now, byDefault, level)
				}
				if others != "" {
					t.Errorf("the store wrote at other levels than read committed: %s", others)
				}
			}
			operate()
			want("serializable")
			execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ")
			operate()
			want("repeatable read")
			if got := notices.String(); got != "" {
				t.Errorf("the server gave notice: %s", got)
			}
		})
	}
}

// isolated checks that what is sent outside of a transaction says its level.
type isolated struct{ t *testing.T }

func (i isolated) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if conn.PgConn().TxStatus() == 'I' && strings.HasPrefix(data.SQL, "-- name:") {
		i.t.Errorf("a statement does not say its isolation level: %.40s", data.SQL)
	}
	if strings.HasPrefix(data.SQL, "begin") && !strings.Contains(data.SQL, "read committed") {
		i.t.Errorf("a transaction does not say its isolation level: %s", data.SQL)
	}
	return ctx
}
func (isolated) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (i isolated) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if first := data.Batch.QueuedQueries[0].SQL; conn.PgConn().TxStatus() == 'I' && !strings.Contains(first, "read committed") {
		i.t.Errorf("a batch does not say its isolation level: %.40s", first)
	}
	return ctx
}
func (isolated) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (isolated) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func withUser(t *testing.T, databaseURL, user, password string) string {
	t.Helper()
	parsed, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	parsed.User = url.UserPassword(user, password)
	return parsed.String()
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The isolation levels that can be the default, and where the default can be set.
var (
	levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	places = []string{"server", "database", "role", "URL"}
)

// databaseAt makes a migrated database with a default isolation level.
func databaseAt(t *testing.T, place string, level pgx.TxIsoLevel) string {
	t.Helper()
	if place == "server" {
		server := pgtest.NewCluster(t)
		server.Start(t, "default_transaction_isolation="+string(level))
		if err := schema.Up(t.Context(), server.URL("postgres")); err != nil {
			t.Fatal(err)
		}
		return server.URL("postgres")
	}
	databaseURL := pgtest.NewDatabase(t)
	if place == "URL" {
		return pgtest.WithParameter(databaseURL, "default_transaction_isolation", string(level))
	}
	conn := pgtest.Connect(t, databaseURL)
	if place == "database" {
		pgtest.Exec(t, conn, fmt.Sprintf("ALTER DATABASE %s SET default_transaction_isolation = '%s'", conn.Config().Database, level))
		return databaseURL
	}
	role, password := "isolated_"+strings.ReplaceAll(repo.NewID().String(), "-", ""), repo.NewID().String()
	pgtest.Exec(t, conn, fmt.Sprintf("CREATE ROLE %s SUPERUSER LOGIN PASSWORD '%s'", role, password))
	pgtest.Exec(t, conn, fmt.Sprintf("ALTER ROLE %s SET default_transaction_isolation = '%s'", role, level))
	t.Cleanup(func() {
		if _, err := conn.Exec(context.Background(), "DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	return pgtest.WithUser(databaseURL, role, password)
}

// eachSetting runs a test with the store on a pool of its own and on a caller's, with
// each default level, wherever that is set.
func eachSetting(t *testing.T, test func(t *testing.T, databaseURL string, open func(t *testing.T) *agentstore.Store)) {
	t.Helper()
	for _, place := range places {
		for _, level := range levels {
			// Otherwise each level, and each place.
			if !pgtest.Full() && place != "database" && level != pgx.Serializable {
				continue
			}
			t.Run(place+"/"+strings.ReplaceAll(string(level), " ", "-"), func(t *testing.T) {
				t.Parallel()
				databaseURL := databaseAt(t, place, level)
				wantDefault(t, databaseURL, level)
				t.Run("Open", func(t *testing.T) {
					test(t, databaseURL, func(t *testing.T) *agentstore.Store {
						return pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 8})
					})
				})
				t.Run("OpenPool", func(t *testing.T) {
					test(t, databaseURL, func(t *testing.T) *agentstore.Store {
						return pgtest.OpenPool(t, pgtest.NewPool(t, databaseURL), agentstore.Options{})
					})
				})
			})
		}
	}
}

// wantDefault checks that the setting has an effect.
func wantDefault(t *testing.T, databaseURL string, level pgx.TxIsoLevel) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	var got string
	if err := conn.QueryRow(t.Context(), "SELECT current_setting('transaction_isolation')").Scan(&got); err != nil || got != string(level) {
		t.Fatalf("transactions begin with %q, want %q: %v", got, level, err)
	}
}

// Under each setting writers do not make each other fail, and concurrent changes
// leave a plan's tree consistent.
// Guarantee: Faults: Writers do not make each other fail, at any default isolation level.
func TestEachIsolationLevel(t *testing.T) {
	t.Parallel()
	eachSetting(t, func(t *testing.T, databaseURL string, open func(t *testing.T) *agentstore.Store) {
		t.Run("writers", func(t *testing.T) { testWriters(t, databaseURL, open(t)) })
		t.Run("tree", func(t *testing.T) { testTree(t, open(t)) })
	})
}

// testWriters makes several stores append to few sessions while others use the same
// rows.
func testWriters(t *testing.T, databaseURL string, store *agentstore.Store) {
	const stores, writers = 4, 8
	each := pgtest.Choose(25, 8)
	all := []*agentstore.Store{store}
	for len(all) < stores { // like other processes
		all = append(all, pgtest.OpenPool(t, pgtest.NewPool(t, databaseURL), agentstore.Options{}))
	}
	ids := []repo.ID{pgtest.NewSession(t, all[0]), pgtest.NewSession(t, all[0])}
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
			want += int64(stores * each)
		}
		if err != nil || session.MessageCount != want {
			t.Errorf("%d messages, want %d: %v", session.MessageCount, want, err)
		}
	}
}

// family is a root plan, and an action for its children.
type family struct {
	store  *agentstore.Store
	action string
	root   repo.ID
}

func newFamily(t *testing.T, store *agentstore.Store) family {
	t.Helper()
	f := family{store: store, action: "a" + repo.NewID().String()}
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

// orphans counts the live children of the root if that is cancelled.
func (f family) orphans(t *testing.T) (count int) {
	t.Helper()
	err := f.store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM plans c JOIN plans r ON r.id = c.root_id
		WHERE r.id = $1 AND r.state = 'cancelled' AND c.state NOT IN ('cancelled', 'applied')`, [16]byte(f.root)).Scan(&count)
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// testTree checks that a cancelled root has no live child, whichever call came first.
func testTree(t *testing.T, store *agentstore.Store) {
	for range pgtest.Choose(10, 4) {
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

// beside runs a step in a transaction that began before another step was committed,
// and returns the transaction's error.
func (f family) beside(t *testing.T, level pgx.TxIsoLevel, first func(pgx.Tx) error, second func(pgx.Tx) error) error {
	t.Helper()
	return pgx.BeginTxFunc(t.Context(), f.store.Pool(), pgx.TxOptions{IsoLevel: level}, func(late pgx.Tx) error {
		if _, err := postgres.Bind(late).Plans().Get(t.Context(), f.root); err != nil { // takes the snapshot
			return err
		}
		if err := pgx.BeginTxFunc(t.Context(), f.store.Pool(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, first); err != nil {
			t.Fatal(err)
		}
		return second(late)
	})
}

// In callers' transactions of each level, adding to a tree and cancelling it see each
// other, or one of them fails with repo.ErrContention. A lock alone does not suffice.
func TestBoundTreeAtEachIsolationLevel(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
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
			t.Errorf("%s: with only a lock a cancelled root has %d live children (%v), so this test checks nothing", level, orphans, err)
		}
	}
}

// All of the store's transactions are read committed. The caller's session stays as
// it is, and the server issues no warnings.
// Guarantee: Transactions: The isolation level of a caller's session stays.
func TestIsolationOfTheCallerStays(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.WithParameter(databaseAt(t, "database", pgx.Serializable), "default_query_exec_mode", mode)
			notices := &buffer{}
			pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) {
				c.MaxConns = 1
				c.ConnConfig.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { fmt.Fprintln(notices, notice.Message) }
			})
			execute := func(sql string) {
				t.Helper()
				pgtest.Exec(t, pool, sql, pgx.QueryExecModeSimpleProtocol)
			}
			execute(`CREATE TABLE seen (level text, tab text);
				CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					INSERT INTO public.seen VALUES (current_setting('transaction_isolation'), TG_TABLE_NAME); RETURN NULL;
				END $$`)
			for _, table := range []string{"sessions", "session_counters", "messages", "plans", "actions", "session_plans", "audit_entries"} {
				execute("CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON " + table + " FOR EACH ROW EXECUTE FUNCTION note()")
			}
			store := pgtest.OpenPool(t, pool, agentstore.Options{})
			operate := func() {
				t.Helper()
				id := pgtest.NewSession(t, store)
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
					"record":  store.Audit().Record(t.Context(), repo.AuditEntry{Type: events.ToolInvoked}),
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
				t.Errorf("the server issued a notice: %s", got)
			}
		})
	}
}

// The statement that is sent without its level writes nothing at another one.
func TestAppendChecksItsLevel(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	pool := pgtest.NewPool(t, databaseURL)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	session := pgtype.UUID{Bytes: id, Valid: true}
	message := pgtype.UUID{Bytes: repo.NewID(), Valid: true}
	one := db.MessageAppendOneParams{SessionID: session, ID: message, Role: "user", Content: "x", Metadata: "{}"}
	for _, level := range levels {
		err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			_, err := db.New().MessageAppendOne(t.Context(), tx, one)
			written := err == nil
			if errors.Is(err, pgx.ErrNoRows) {
				err = nil
			}
			if written != (level == pgx.ReadCommitted) {
				t.Errorf("%s: written is %v", level, written)
			}
			return errors.Join(err, tx.Rollback(t.Context()))
		})
		if err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s: %v", level, err)
		}
	}
}

// A store whose transactions have another level by default reads at its own, in one round trip.
func TestReadAtAnotherDefaultLevel(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.WithParameter(pgtest.NewDatabase(t), "default_transaction_isolation", "serializable")
	tracer := &pgtest.RoundTrips{}
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{Tracer: tracer, MaxConns: 1})
	ids := []repo.ID{pgtest.NewSession(t, store)}
	for range 2 {
		before := tracer.Count.Load()
		snapshot, err := store.Sessions().Read(t.Context(), repo.ReadSessions{IDs: ids, Last: 1})
		if err != nil || snapshot.Sessions[0] == nil {
			t.Fatalf("%+v: %v", snapshot, err)
		}
		if got := tracer.Count.Load() - before; got != 1 {
			t.Errorf("%d round trips, want 1", got)
		}
	}
}

var isRead = regexp.MustCompile("^-- name: SessionRead(Heads|Ranges|Path|Prompt|State) ")

// isolated checks that what is sent outside of a transaction says its level, or checks
// it.
type isolated struct{ t *testing.T }

func (i isolated) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	checks := strings.Contains(data.SQL, "current_setting('transaction_isolation') = 'read committed'")
	if conn.PgConn().TxStatus() == 'I' && strings.HasPrefix(data.SQL, "-- name:") && !checks {
		i.t.Errorf("a statement does not set its isolation level: %.40s", data.SQL)
	}
	if strings.HasPrefix(data.SQL, "begin") && !strings.Contains(data.SQL, "read committed") {
		i.t.Errorf("a transaction does not set its isolation level: %s", data.SQL)
	}
	return ctx
}
func (isolated) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (i isolated) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	first := data.Batch.QueuedQueries[0].SQL
	if conn.PgConn().TxStatus() != 'I' || strings.Contains(first, "read committed") {
		return ctx
	}
	for _, query := range data.Batch.QueuedQueries[1:] { // a read alone has one snapshot for several statements
		if !strings.Contains(first, "repeatable read") || !isRead.MatchString(query.SQL) {
			i.t.Errorf("a batch does not set its isolation level: %.40s, %.40s", first, query.SQL)
		}
	}
	return ctx
}
func (isolated) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (isolated) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

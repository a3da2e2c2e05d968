package audit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const countPartitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'audit_entries'::regclass"

func entryAt(at time.Time) repo.AuditEntry {
	return repo.AuditEntry{ID: repo.NewID(), OccurredAt: at.UTC().Truncate(time.Microsecond), Type: repo.EventToolInvoked, Actor: "agent"}
}

// If many clients need the same new months at once, each month is created once: on
// the pool, in transactions and by sinks.
func TestPartitionsOnDemand(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 8})
	conn := pgtest.Connect(t, databaseURL)
	before := pgtest.Value[int](t, conn, countPartitions)
	const workers, months = 12, 10
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range workers {
		wg.Go(func() {
			<-start
			for month := range months {
				e := entryAt(time.Date(2010, time.Month(month+1), 15, 0, 0, 0, 0, time.UTC))
				var err error
				switch i % 3 {
				case 0:
					err = store.Audit().Record(t.Context(), e)
				case 1:
					err = store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error { return tx.Audit().Record(ctx, e) })
				case 2:
					var sink repo.AuditSink
					if sink, err = store.AuditStore().Sink(t.Context()); err == nil {
						_, err = sink.Record(t.Context(), []repo.AuditEntry{e})
						_ = sink.Close()
					}
				}
				if err != nil {
					t.Errorf("worker %d, month %d: %v", i, month, err)
				}
			}
		})
	}
	close(start)
	wg.Wait()
	if made := pgtest.Value[int](t, conn, countPartitions) - before; made != months {
		t.Errorf("%d partitions were made, want %d", made, months)
	}
	if rows := pgtest.Value[int](t, conn, "SELECT count(*) FROM audit_entries"); rows != workers*months {
		t.Errorf("%d entries, want %d", rows, workers*months)
	}
	// Each has everything that the first ones have.
	if rows := pgtest.Value[int](t, conn, `SELECT count(*) FROM pg_inherits i WHERE inhparent = 'audit_entries'::regclass
		AND (SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = i.inhrelid AND t.tgenabled = 'A') = 2
		AND (SELECT count(*) FROM pg_index x WHERE x.indrelid = i.inhrelid) = 8`); rows != before+months {
		t.Errorf("%d partitions have their triggers and indexes, want %d", rows, before+months)
	}
}

// A connection remembers existing months. It must not rely on one that was dropped,
// or that was created in a transaction that was rolled back.
func TestPartitionGone(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 1}) // one connection, which remembers
	conn := pgtest.Connect(t, databaseURL)
	at := time.Date(2010, 5, 5, 0, 0, 0, 0, time.UTC)
	sink, err := store.AuditStore().Sink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sink.Close() }()
	ways := map[string]func(e repo.AuditEntry) error{
		"pool": func(e repo.AuditEntry) error { return store.Audit().Record(t.Context(), e) },
		"transaction": func(e repo.AuditEntry) error {
			return store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error { return tx.Audit().Record(ctx, e) })
		},
		"sink": func(e repo.AuditEntry) error {
			_, err := sink.Record(t.Context(), []repo.AuditEntry{e})
			return err
		},
	}
	for name, record := range ways {
		if err := record(entryAt(at)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := record(entryAt(at)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		pgtest.Exec(t, conn, "DROP TABLE audit_entries_201005")
		if err := record(entryAt(at)); err != nil {
			t.Errorf("%s: after the partition was dropped: %v", name, err)
		}
	}
	pgtest.Exec(t, conn, "DROP TABLE audit_entries_201005")
	failed := errors.New("failed")
	for range 2 {
		err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			for range 2 {
				if err := tx.Audit().Record(ctx, entryAt(at)); err != nil {
					return err
				}
			}
			return failed
		})
		if !errors.Is(err, failed) {
			t.Errorf("in a transaction that is rolled back: %v", err)
		}
	}
	if err := ways["transaction"](entryAt(at)); err != nil {
		t.Errorf("after the transaction that made the partition was rolled back: %v", err)
	}
	if err := ways["pool"](entryAt(at)); err != nil {
		t.Error(err)
	}
}

// An open transaction with an entry keeps nobody from creating months or recording.
func TestPartitionsBesideOpenTransaction(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	conn := pgtest.Connect(t, databaseURL)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Bind(tx).Audit().Record(t.Context(), entryAt(time.Now())); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := store.Audit().Record(ctx, entryAt(time.Now()), entryAt(time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC))); err != nil {
		t.Errorf("beside an open transaction: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// A prune drops exactly the months that it empties: not one with an entry on hold,
// not the current month, and not while a reader uses the table.
func TestPruneDropsPartitions(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	conn := pgtest.Connect(t, databaseURL)
	held := entryAt(time.Date(2010, 2, 1, 0, 0, 0, 0, time.UTC))
	held.PlanID = repo.NewID()
	entries := []repo.AuditEntry{
		entryAt(time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)), held,
		entryAt(time.Date(2010, 3, 1, 0, 0, 0, 0, time.UTC)), entryAt(time.Now()),
	}
	if err := store.Audit().Record(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	if err := store.AuditStore().Hold(t.Context(), repo.AuditHold{PlanID: held.PlanID, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	seal(t, store, 100)

	// While a reader's transaction is open, entries are pruned but their months stay.
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, "SELECT FROM audit_entries")
	prune := repo.AuditPrune{Before: time.Now().Add(time.Hour)}
	if got, err := store.AuditStore().Prune(t.Context(), prune); err != nil || got != (repo.AuditPruned{Entries: 3, Held: 1}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	exists := func(name string) bool { return pgtest.Value[bool](t, conn, "SELECT to_regclass($1) IS NOT NULL", name) }
	if !exists("audit_entries_201001") {
		t.Error("a month was dropped under a reader")
	}
	// The next prune finds no old entries except the held one (its own entry is not
	// sealed).
	if got, err := store.AuditStore().Prune(t.Context(), prune); err != nil || got.Entries != 0 || got.Held != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, want := range map[string]bool{
		"audit_entries_201001": false, "audit_entries_201002": true, "audit_entries_201003": false,
		"audit_entries_" + time.Now().UTC().Format("200601"): true,
	} {
		if exists(name) != want {
			t.Errorf("%s exists: %t", name, !want)
		}
	}
	if got, err := store.Audit().List(t.Context(), repo.AuditFilter{}, repo.OldestFirst, repo.Page{}); err != nil || len(got.Entries) != 2 || got.Entries[0].ID != held.ID {
		t.Errorf("what is left: %+v, %v", got.Entries, err)
	}
	// A late entry creates its month again.
	if err := store.Audit().Record(t.Context(), entryAt(time.Date(2010, 1, 2, 0, 0, 0, 0, time.UTC))); err != nil {
		t.Error(err)
	}
}

// A sink works while the pool is exhausted, survives the loss of its connection, and
// connects as the pool does.
func TestSinkConnection(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 1})
	held, err := store.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sink, err := store.AuditStore().Sink(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sink.Close() }()
	if _, err := sink.Record(ctx, []repo.AuditEntry{entryAt(time.Now())}); err != nil {
		t.Fatalf("with an exhausted pool: %v", err)
	}
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid <> $1`, int32(held.Conn().PgConn().PID()))
	e := entryAt(time.Now())
	if _, err := sink.Record(ctx, []repo.AuditEntry{e}); err != nil && !errors.Is(err, repo.ErrUnknownOutcome) && !errors.Is(err, repo.ErrUnavailable) {
		t.Errorf("on a connection that was ended: %v", err)
	}
	if got, err := sink.Record(ctx, []repo.AuditEntry{e}); err != nil || got.Written+got.Known != 1 {
		t.Errorf("afterwards: %+v, %v", got, err)
	}

	// A sink leaves a server that has become read-only.
	pgtest.Exec(t, conn, "ALTER DATABASE "+conn.Config().Database+" SET default_transaction_read_only = on")
	pgtest.Exec(t, conn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid <> $1`, int32(held.Conn().PgConn().PID()))
	for range 2 {
		if _, err := sink.Record(ctx, []repo.AuditEntry{entryAt(time.Now())}); err == nil {
			t.Error("recorded on a read-only server")
		}
	}
	pgtest.Exec(t, conn, "ALTER DATABASE "+conn.Config().Database+" RESET default_transaction_read_only")
	if _, err := sink.Record(ctx, []repo.AuditEntry{entryAt(time.Now())}); err != nil {
		t.Errorf("on the server that takes writes: %v", err)
	}

	// The pool's hook provides the password.
	hooked := pgtest.NewPool(t, databaseURL, func(config *pgxpool.Config) {
		password := config.ConnConfig.Password
		config.ConnConfig.Password = "expired"
		config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			c.Password = password
			return nil
		}
	})
	other, err := postgres.New(hooked, postgres.Options{}).AuditStore().Sink(ctx)
	if err != nil {
		t.Fatalf("with a password that the pool's hook gives: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

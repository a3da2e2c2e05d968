package audit

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// dropMonths drops all partitions, as if a service had created none for a year, or
// its server's clock had leapt.
func dropMonths(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	pgtest.Exec(t, conn, `DO $$ DECLARE name text; BEGIN
		FOR name IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'audit_entries'::regclass LOOP
			EXECUTE 'DROP TABLE ' || name;
		END LOOP; END $$`)
}

// The first operation that needs a missing month creates it: on the pool, in the
// store's transactions and in a caller's, at each isolation level.
func TestMissingMonth(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	operations := map[string]func(ctx context.Context, r repo.Repositories, id repo.ID) error{
		"record": func(ctx context.Context, r repo.Repositories, _ repo.ID) error {
			return r.Audit().Record(ctx, entryAt(time.Now()))
		},
		"create": func(ctx context.Context, r repo.Repositories, _ repo.ID) error {
			_, err := r.Sessions().Create(ctx, repo.NewSession{})
			return err
		},
		"delete": func(ctx context.Context, r repo.Repositories, id repo.ID) error {
			_, err := r.Sessions().Delete(ctx, id)
			return err
		},
		"import": func(ctx context.Context, r repo.Repositories, id repo.ID) error {
			var document bytes.Buffer
			if err := r.Sessions().Export(ctx, id, &document); err != nil {
				return err
			}
			if _, err := r.Sessions().Delete(ctx, id); err != nil {
				return err
			}
			_, err := r.Sessions().Import(ctx, &document)
			return err
		},
	}
	for name, operation := range operations {
		for level, options := range map[string]pgx.TxOptions{
			"read committed":  {IsoLevel: pgx.ReadCommitted},
			"repeatable read": {IsoLevel: pgx.RepeatableRead},
			"serializable":    {IsoLevel: pgx.Serializable},
		} {
			store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
			session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
			if err != nil {
				t.Fatal(err)
			}
			dropMonths(t, conn)
			store.Pool().Reset() // the connections remember months that were dropped
			tx, err := store.Pool().BeginTx(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			if err := operation(t.Context(), postgres.Bind(tx), session.ID); err != nil {
				t.Errorf("%s, bound, %s: %v", name, level, err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Errorf("%s, bound, %s: commit: %v", name, level, err)
			}
		}
		for way, run := range map[string]func(*agentstore.Store, repo.ID) error{
			"InTx": func(store *agentstore.Store, id repo.ID) error {
				return store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error { return operation(ctx, tx, id) })
			},
			"pool": func(store *agentstore.Store, id repo.ID) error { return operation(t.Context(), store, id) },
		} {
			store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
			session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
			if err != nil {
				t.Fatal(err)
			}
			dropMonths(t, conn)
			if err := run(store, session.ID); err != nil {
				t.Errorf("%s, %s: %v", name, way, err)
			}
			// If months that a connection knows are dropped, it fails at most once.
			if session, err = store.Sessions().Create(t.Context(), repo.NewSession{}); err != nil {
				t.Fatal(err)
			}
			dropMonths(t, conn)
			err = run(store, session.ID)
			if errors.Is(err, repo.ErrContention) {
				err = run(store, session.ID)
			}
			if err != nil {
				t.Errorf("%s, %s, months dropped beside it: %v", name, way, err)
			}
		}
	}
}

// If two callers' transactions create the same month, the second waits for the end of
// the first, but no longer than the lock's timeout.
func TestMonthMadeTwice(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		databaseURL := pgtest.NewDatabase(t)
		pool := pgtest.NewPool(t, databaseURL)
		dropMonths(t, pgtest.Connect(t, databaseURL))
		var open []pgx.Tx
		for range 3 {
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM sessions"); err != nil { // takes the snapshot
				t.Fatal(err)
			}
			open = append(open, tx)
		}
		if err := postgres.Bind(open[0]).Audit().Record(t.Context(), entryAt(time.Now())); err != nil {
			t.Fatal(err)
		}
		// One with a short timeout gives up.
		exec2(t, open[2], "SET LOCAL lock_timeout = '100ms'")
		if err := postgres.Bind(open[2]).Audit().Record(t.Context(), entryAt(time.Now())); !errors.Is(err, repo.ErrContention) {
			t.Errorf("%s: while another creates the month: %v", level, err)
		}
		second := make(chan error, 1)
		go func() { second <- postgres.Bind(open[1]).Audit().Record(t.Context(), entryAt(time.Now())) }()
		time.Sleep(200 * time.Millisecond)
		if err := open[0].Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-second; err != nil && (level == pgx.ReadCommitted || !errors.Is(err, repo.ErrContention)) {
			t.Errorf("%s: the second: %v", level, err)
		}
		if err := open[1].Commit(t.Context()); err != nil && level == pgx.ReadCommitted {
			t.Error(err)
		}
		_ = open[2].Rollback(t.Context())
	}
}

func exec2(t *testing.T, tx pgx.Tx, sql string) {
	t.Helper()
	pgtest.Exec(t, tx, sql)
}

// If months were created under another DateStyle and time zone, the doctor finds
// that, and the months beside them are created from the free ranges.
func TestMonthsWithWrongBounds(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	conn := pgtest.Connect(t, databaseURL)
	first := time.Now().UTC().AddDate(0, 1, 0)
	first = time.Date(first.Year(), first.Month(), 1, 0, 0, 0, 0, time.UTC)
	name := "audit_entries_" + first.Format("200601")
	pgtest.Exec(t, conn, "DROP TABLE "+name)
	pgtest.Exec(t, conn, "CREATE TABLE "+name+" (LIKE audit_entries INCLUDING ALL)")
	pgtest.Exec(t, conn, "DROP TABLE audit_entries_"+first.AddDate(0, 1, 0).Format("200601"))
	pgtest.Exec(t, conn, "ALTER TABLE audit_entries ATTACH PARTITION "+name+" FOR VALUES FROM ('"+first.Add(210*time.Minute).Format(time.RFC3339)+
		"') TO ('"+first.AddDate(0, 1, 0).Add(210*time.Minute).Format(time.RFC3339)+"')")
	pgtest.Exec(t, conn, "ALTER TABLE "+name+" ENABLE ALWAYS TRIGGER audit_entries_refuse; CREATE TRIGGER audit_entries_refuse_truncate BEFORE TRUNCATE ON "+name+
		" FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse('entries'); ALTER TABLE "+name+" ENABLE ALWAYS TRIGGER audit_entries_refuse_truncate")
	findings, err := store.AuditDoctor(t.Context())
	if err != nil || len(findings) != 3 || !strings.Contains(findings[0].Problem, "which is not a month in UTC") ||
		!strings.Contains(findings[1].Problem, "3h30m0s long, has no partition") || !strings.Contains(findings[2].Problem, "has no partition") {
		t.Fatalf("the findings are %+v, %v", findings, err)
	}
	for _, at := range []time.Time{first, first.Add(time.Hour), first.Add(4 * time.Hour), first.AddDate(0, 1, 0).Add(time.Hour), first.AddDate(0, 1, 0).Add(4 * time.Hour)} {
		if err := store.Audit().Record(t.Context(), entryAt(at)); err != nil {
			t.Errorf("at %s: %v", at, err)
		}
	}
	// The wrong bounds are still reported. Nothing is missing any more.
	if findings, err := store.AuditDoctor(t.Context()); err != nil || len(findings) != 1 {
		t.Errorf("afterwards the findings are %+v, %v", findings, err)
	}
	for _, want := range []string{name + "_2", "audit_entries_" + first.AddDate(0, 1, 0).Format("200601")} {
		if !pgtest.Value[bool](t, conn, "SELECT to_regclass($1) IS NOT NULL", want) {
			t.Errorf("there is no %s", want)
		}
	}
}

// Bounds are in UTC, whatever the session's settings are.
func TestMonthsUnderAnySettings(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	conn := pgtest.Connect(t, store.Pool().Config().ConnString())
	for i, style := range []string{"ISO, MDY", "SQL, DMY", "German", "Postgres, DMY"} {
		for j, zone := range []string{"Asia/Kolkata", "America/New_York", "UTC"} {
			pgtest.Exec(t, conn, "SET DateStyle = '"+style+"'; SET TimeZone = '"+zone+"'")
			pgtest.Exec(t, conn, "SELECT audit_make_partitions($1, 2)", time.Date(2040+i*10+j, 2, 15, 0, 0, 0, 0, time.UTC))
		}
	}
	if findings, err := store.AuditDoctor(t.Context()); err != nil || len(findings) != 0 {
		t.Errorf("%+v, %v", findings, err)
	}
	if made := pgtest.Value[int](t, conn, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'audit_entries'::regclass"); made < 36 {
		t.Errorf("only %d months", made)
	}
}

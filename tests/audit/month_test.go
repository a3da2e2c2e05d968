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

// dropMonths drops every partition: the state of a service that made none for a
// year, or whose server's clock leaps.
func dropMonths(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	exec(t, conn, `DO $$ DECLARE name text; BEGIN
		FOR name IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'audit_entries'::regclass LOOP
			EXECUTE 'DROP TABLE ' || name;
		END LOOP; END $$`)
}

// Whoever comes first into a month that has no partition, it is made: on the pool, in
// the store's transactions and in a caller's, whatever their level.
func TestMissingMonth(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := connect(t, databaseURL)
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
			store := open(t, databaseURL)
			session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
			if err != nil {
				t.Fatal(err)
			}
			dropMonths(t, conn)
			store.Pool().Reset() // what the connections knew was of another time
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
			store := open(t, databaseURL)
			session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
			if err != nil {
				t.Fatal(err)
			}
			dropMonths(t, conn)
			if err := run(store, session.ID); err != nil {
				t.Errorf("%s, %s: %v", name, way, err)
			}
			// Under the feet of one that knew its months, it fails once at most.
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

// Callers' transactions that make the same month at once: the second waits for the
// first one's end, and no longer than the lock's timeout.
func TestMonthMadeTwice(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		databaseURL := pgtest.NewDatabase(t)
		pool := pgtest.NewPool(t, databaseURL)
		dropMonths(t, connect(t, databaseURL))
		var open []pgx.Tx
		for range 3 {
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM sessions"); err != nil { // its snapshot
				t.Fatal(err)
			}
			open = append(open, tx)
		}
		if err := postgres.Bind(open[0]).Audit().Record(t.Context(), entryAt(time.Now())); err != nil {
			t.Fatal(err)
		}
		// One whose patience is short gives up.
		exec2(t, open[2], "SET LOCAL lock_timeout = '100ms'")
		if err := postgres.Bind(open[2]).Audit().Record(t.Context(), entryAt(time.Now())); !errors.Is(err, repo.ErrContention) {
			t.Errorf("%s: beside one that makes the month: %v", level, err)
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
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// Databases whose months were made under another DateStyle and time zone: the doctor
// sees it, and the months beside them are made of what is left.
func TestMonthsWithWrongBounds(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := open(t, databaseURL)
	conn := connect(t, databaseURL)
	first := time.Now().UTC().AddDate(0, 1, 0)
	first = time.Date(first.Year(), first.Month(), 1, 0, 0, 0, 0, time.UTC)
	name := "audit_entries_" + first.Format("200601")
	exec(t, conn, "DROP TABLE "+name)
	exec(t, conn, "CREATE TABLE "+name+" (LIKE audit_entries INCLUDING ALL)")
	exec(t, conn, "DROP TABLE audit_entries_"+first.AddDate(0, 1, 0).Format("200601"))
	exec(t, conn, "ALTER TABLE audit_entries ATTACH PARTITION "+name+" FOR VALUES FROM ('"+first.Add(210*time.Minute).Format(time.RFC3339)+
		"') TO ('"+first.AddDate(0, 1, 0).Add(210*time.Minute).Format(time.RFC3339)+"')")
	exec(t, conn, "ALTER TABLE "+name+" ENABLE ALWAYS TRIGGER audit_entries_refuse; CREATE TRIGGER audit_entries_refuse_truncate BEFORE TRUNCATE ON "+name+
		" FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse('entries'); ALTER TABLE "+name+" ENABLE ALWAYS TRIGGER audit_entries_refuse_truncate")
	findings, err := store.AuditDoctor(t.Context())
	if err != nil || len(findings) != 3 || !strings.Contains(findings[0].Problem, "which is not a month in UTC") ||
		!strings.Contains(findings[1].Problem, "3h30m0s have no partition") || !strings.Contains(findings[2].Problem, "have no partition") {
		t.Fatalf("the doctor says %+v, %v", findings, err)
	}
	for _, at := range []time.Time{first, first.Add(time.Hour), first.Add(4 * time.Hour), first.AddDate(0, 1, 0).Add(time.Hour), first.AddDate(0, 1, 0).Add(4 * time.Hour)} {
		if err := store.Audit().Record(t.Context(), entryAt(at)); err != nil {
			t.Errorf("at %s: %v", at, err)
		}
	}
	// What is off is said as long as it is so; nothing is missing any more.
	if findings, err := store.AuditDoctor(t.Context()); err != nil || len(findings) != 1 {
		t.Errorf("afterwards the doctor says %+v, %v", findings, err)
	}
	for _, want := range []string{name + "_2", "audit_entries_" + first.AddDate(0, 1, 0).Format("200601")} {
		if !scan[bool](t, conn, "SELECT to_regclass($1) IS NOT NULL", want) {
			t.Errorf("there is no %s", want)
		}
	}
}

// Bounds are UTC's, whatever the session's settings are.
func TestMonthsUnderAnySettings(t *testing.T) {
	t.Parallel()
	store := open(t, pgtest.NewDatabase(t))
	conn := connect(t, store.Pool().Config().ConnString())
	for i, style := range []string{"ISO, MDY", "SQL, DMY", "German", "Postgres, DMY"} {
		for j, zone := range []string{"Asia/Kolkata", "America/New_York", "UTC"} {
			exec(t, conn, "SET DateStyle = '"+style+"'; SET TimeZone = '"+zone+"'")
			exec(t, conn, "SELECT audit_make_partitions($1, 2)", time.Date(2040+i*10+j, 2, 15, 0, 0, 0, 0, time.UTC))
		}
	}
	if findings, err := store.AuditDoctor(t.Context()); err != nil || len(findings) != 0 {
		t.Errorf("%+v, %v", findings, err)
	}
	if made := scan[int](t, conn, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'audit_entries'::regclass"); made < 36 {
		t.Errorf("only %d months", made)
	}
}

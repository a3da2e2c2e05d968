package migrate

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// connect opens a connection for looking at a database from outside.
func connect(t *testing.T, databaseURL string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// query returns the single value of a query.
func query[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func execSQL(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func open(t *testing.T, databaseURL string, options schema.Options) *schema.Migrator {
	t.Helper()
	migrator, err := schema.Open(t.Context(), databaseURL, options)
	if err != nil {
		t.Fatal(err)
	}
	return migrator
}

// empty and migrated give a database as a test wants to find it.
func empty(t *testing.T) string { return pgtest.NewEmptyDatabase(t) }

func migrated(t *testing.T) string {
	t.Helper()
	databaseURL := pgtest.NewEmptyDatabase(t)
	if err := schema.Up(t.Context(), databaseURL); err != nil {
		t.Fatal(err)
	}
	return databaseURL
}

// eventually waits for a condition, for a time that only a failure uses up.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute still not so: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// heldLocks counts the sessions that hold the migration lock of this database.
const heldLocks = `
SELECT count(*) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32 | objid::bigint) = $1`

const insertSession = `INSERT INTO sessions (id) VALUES (gen_random_uuid())`

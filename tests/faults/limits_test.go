package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
)

// The SQLSTATEs that callers must have seen, to show that the fault had an effect.
const (
	tooManyConnections = "53300"
	queryCanceled      = "57014"
	lockNotAvailable   = "55P03"
	diskFull           = "53100"
	fileTooLarge       = "XX000" // the server has no more specific code
)

// The server's limits are reached.
var limitFaults = []fault{
	{name: "too many clients", times: 20, short: 1, strike: func(t *testing.T, s *scene) func() {
		// Connect now: later there is no connection left to end the store's.
		conn := connect(t, s.url)
		var others []*pgx.Conn
		await.For(t, "a caller sees that there are too many clients", func() bool {
			others = append(others, occupy(t, s.url)...)
			if _, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name = 'agentstore'`); err != nil {
				t.Fatal(err)
			}
			return s.seen(tooManyConnections) > 0
		})
		return func() {
			for _, other := range append(others, conn) {
				disconnect(other)
			}
		}
	}},
	{
		name: "statement_timeout", times: 20, short: 1,
		// short: the blocked statements wait until it fires; after others clients send again
		options: agentstore.Options{StatementTimeout: 300 * time.Millisecond},
		strike:  func(t *testing.T, s *scene) func() { return block(t, s, queryCanceled) },
	},
	{
		name: "lock_timeout", times: 20, short: 1,
		// short: the sessions stay locked until it has fired; after others clients send again
		options: agentstore.Options{LockTimeout: 50 * time.Millisecond},
		strike:  func(t *testing.T, s *scene) func() { return block(t, s, lockNotAvailable) },
	},
}

// occupy takes all remaining connections of the server.
func occupy(t *testing.T, databaseURL string) (taken []*pgx.Conn) {
	t.Helper()
	for {
		conn, err := pgx.Connect(context.Background(), databaseURL)
		if err != nil {
			if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != tooManyConnections {
				t.Error(err)
			}
			return taken
		}
		taken = append(taken, conn)
	}
}

// block locks all sessions until a caller has seen the error.
func block(t *testing.T, s *scene, kind string) func() {
	t.Helper()
	conn := connect(t, s.url)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM session_counters ORDER BY session_id FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	s.awaitSeen(t, kind)
	return func() { disconnect(conn) }
}

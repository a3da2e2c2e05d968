package pgtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/repo/repotest"
)

// Elapse has the conformance suite let time pass on a database by moving the times of rows back, as its owner. In a
// transaction, whose rows only the transaction sees, the transaction does so.
func Elapse(ownerURL string) repotest.Option {
	return repotest.Elapse(func(t *testing.T, r repo.Repositories, d time.Duration, what repotest.Aged) {
		t.Helper()
		if tx, is := postgres.Tx(r); is {
			age(t, tx, d, what)
		} else {
			age(t, Connect(t, ReadCommitted(ownerURL)), d, what)
		}
	})
}

// age moves the times of rows back, in whichever schema they are.
func age(t *testing.T, database Database, d time.Duration, what repotest.Aged) {
	t.Helper()
	schemas := Value[[]string](t, database,
		"SELECT array_agg(relnamespace::regnamespace::text) FROM pg_class WHERE relname = 'streams' AND relkind = 'r'")
	move := func(table, column, where string, arguments ...any) (rows int64) {
		t.Helper()
		for _, schema := range schemas {
			sql := fmt.Sprintf("UPDATE %s.%s SET %[3]s = %[3]s - make_interval(secs => $1) WHERE %[4]s", schema, table, column, where)
			rows += Exec(t, database, sql, append([]any{d.Seconds()}, arguments...)...)
		}
		return rows
	}
	moved := int64(0)
	for _, lease := range what.Leases {
		moved += move("leases", "expires_at", "kind = $2 AND name = $3 AND fence = $4", lease.Key.Kind, lease.Key.Name, lease.Fence)
	}
	for _, stream := range what.Streams {
		moved += move("streams", "expires_at", "id = $2", pgtype.UUID{Bytes: stream.ID, Valid: true})
	}
	for _, plan := range what.Plans {
		id := pgtype.UUID{Bytes: plan.ID, Valid: true}
		moved += move("plans", "deadline", "id = $2", id)
		move("plan_queue", "deadline", "plan_id = $2", id)
	}
	if want := int64(len(what.Leases) + len(what.Streams) + len(what.Plans)); moved != want {
		t.Errorf("%d rows have aged, want %d", moved, want)
	}
}

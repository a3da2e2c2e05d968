package pgtest

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/repo/repotest"
)

// Elapse has the conformance suite let time pass on a database by moving the times of rows back, as its owner. In a
// transaction, whose rows nobody else sees, it is the transaction that does so.
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
	move := func(statements []string, arguments ...any) {
		t.Helper()
		rows := int64(0)
		for _, schema := range schemas {
			for _, sql := range statements {
				rows += Exec(t, database, "UPDATE "+schema+"."+sql, append([]any{d.Seconds()}, arguments...)...)
			}
		}
		if rows == 0 {
			t.Errorf("nothing to age: %v", arguments)
		}
	}
	for _, lease := range what.Leases {
		move([]string{"leases SET expires_at = expires_at - make_interval(secs => $1) WHERE kind = $2 AND name = $3 AND token = $4"},
			lease.Key.Kind, lease.Key.Name, lease.Fence)
	}
	for _, stream := range what.Streams {
		move([]string{"streams SET expires_at = expires_at - make_interval(secs => $1) WHERE id = $2"}, pgtype.UUID{Bytes: stream.ID, Valid: true})
	}
	for _, plan := range what.Plans {
		move([]string{
			"plans SET deadline = deadline - make_interval(secs => $1) WHERE id = $2",
			"plan_queue SET deadline = deadline - make_interval(secs => $1) WHERE plan_id = $2",
		}, pgtype.UUID{Bytes: plan.ID, Valid: true})
	}
}

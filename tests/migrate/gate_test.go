package migrate

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// gate blocks migrators that create a table of this name, in the middle of their
// migration, until it is opened. It creates the same table without committing, so
// that PostgreSQL makes them wait for the outcome.
type gate struct {
	tx   pgx.Tx
	look *pgx.Conn
}

func newGate(t *testing.T, databaseURL, table string) *gate {
	t.Helper()
	tx, err := pgtest.Connect(t, databaseURL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, fmt.Sprintf("CREATE TABLE %s ()", table))
	return &gate{tx: tx, look: pgtest.Connect(t, databaseURL)}
}

// waitFor waits until the given number of migrators is connected, and the given
// number of them is blocked by the gate.
func (g *gate) waitFor(t *testing.T, connected, held int) {
	t.Helper()
	await.For(t, fmt.Sprintf("%d migrators connected, %d held at the gate", connected, held), func() bool {
		return pgtest.Value[bool](t, g.look, `
SELECT count(*) = $1 AND count(*) FILTER (WHERE wait_event_type = 'Lock') = $2
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'agentstore migrate'`, connected, held)
	})
}

// open lets them continue, as if the table had never existed.
func (g *gate) open(t *testing.T) {
	t.Helper()
	if err := g.tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

package migrate

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// gate holds back whoever creates a table of this name, in the middle of its
// migration, until the gate is opened: the same table, created here and not yet
// committed, makes PostgreSQL wait for the outcome.
type gate struct {
	tx   pgx.Tx
	look *pgx.Conn
}

func newGate(t *testing.T, databaseURL, table string) *gate {
	t.Helper()
	tx, err := connect(t, databaseURL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), fmt.Sprintf("CREATE TABLE %s ()", table)); err != nil {
		t.Fatal(err)
	}
	return &gate{tx: tx, look: connect(t, databaseURL)}
}

// waitFor waits until so many migrators are connected, and so many of them are
// held back by the gate.
func (g *gate) waitFor(t *testing.T, connected, held int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d migrators connected, %d held at the gate", connected, held), func() bool {
		return query[bool](t, g.look, `
SELECT count(*) = $1 AND count(*) FILTER (WHERE wait_event_type = 'Lock') = $2
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'agentstore migrate'`, connected, held)
	})
}

// open lets them go on, as if the table had never been.
func (g *gate) open(t *testing.T) {
	t.Helper()
	if err := g.tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

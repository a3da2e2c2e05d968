// Package costs counts what calls cost the server: counts do not depend on the machine, and so a change for the worse is seen on any.
package costs

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

var update = flag.Bool("update", false, "write docs/costs.md")

const document = "../../docs/costs.md"

// documented is the version of PostgreSQL that docs/costs.md is of.
const documented = 15

// counted is the name of the store's connections.
const counted = "counted"

// repeats is how often each call is made while it is counted.
const repeats = 16

// cost is what one call costs.
type cost struct {
	trips, statements, rows, buffers int64
}

func (c cost) each() cost {
	round := func(n int64) int64 { return (n + repeats/2) / repeats }
	return cost{round(c.trips), round(c.statements), round(c.rows), round(c.buffers)}
}

// TestCosts compares what a call costs, in the mean of several, with docs/costs.md, or writes that with -update. A call may look at a
// fiftieth more buffers, and on another version of PostgreSQL than the documented one at a quarter and four.
func TestCosts(t *testing.T) {
	cluster := pgtest.NewCluster(t)
	cluster.Start(t, "shared_preload_libraries=pg_stat_statements", "autovacuum=off", "pg_stat_statements.save=off")
	admin := pgtest.NewPool(t, cluster.URL("postgres"))
	version := pgtest.Value[int](t, admin, "SELECT current_setting('server_version_num')::int / 10000")
	if version < 15 {
		t.Log("servers before PostgreSQL 15 tell of the rows that were written only later: nothing is counted")
		return
	}
	pgtest.Exec(t, admin, "CREATE EXTENSION pg_stat_statements")
	must(t, schema.Up(t.Context(), cluster.URL("postgres")))
	tracer := &pgtest.RoundTrips{}
	store := pgtest.OpenStore(t, cluster.URL("postgres")+"&application_name="+counted, agentstore.Options{MaxConns: 1, Tracer: tracer})
	pgtest.Exec(t, admin, "ANALYZE")
	w := newWorld(t, store)
	pgtest.Exec(t, admin, "VACUUM (ANALYZE)")
	var table strings.Builder
	for _, c := range calls {
		for range 3 { // which prepare statements, and learn where rows are
			must(t, c.make(w)(t.Context()))
		}
		got := w.count(admin, tracer, c).each()
		fmt.Fprintf(&table, "| %s | %d | %d | %d | %d |\n", c.name, got.trips, got.statements, got.rows, got.buffers)
		if !*update {
			compare(t, c.name, got, version == documented)
		}
	}
	if *update {
		must(t, os.WriteFile(document, []byte(head+table.String()), 0o644))
	}
}

const head = `# What a call costs

What one call costs the server, in counts that hold on every machine. [Performance](performance.md) has times.

- **Round trips** go to the server; the one that wakes followers in other processes after a commit is left out.
- **Statements** include BEGIN and COMMIT where a call sends them.
- **Rows** are inserted, updated or deleted, in all tables.
- **Buffers** are the pages of 8 KiB that the statements look at.

Each call runs alone, on a connection that has made it before. Calls at the same time share statements and commits. ` + "`go test ./tests/costs`" + `
counts on PostgreSQL 15, and fails when a figure changes.

| call | round trips | statements | rows | buffers |
|---|---|---|---|---|
`

func compare(t *testing.T, name string, got cost, exact bool) {
	t.Helper()
	text, err := os.ReadFile(document)
	must(t, err)
	_, line, found := strings.Cut(string(text), "\n| "+name+" |")
	if !found {
		t.Errorf("%s: docs/costs.md has no line: run go test ./tests/costs -update", name)
		return
	}
	line, _, _ = strings.Cut(line, "\n")
	var want cost
	if _, err := fmt.Sscanf(line, "%d | %d | %d | %d |", &want.trips, &want.statements, &want.rows, &want.buffers); err != nil {
		t.Fatalf("%s: %q: %v", name, line, err)
	}
	most := want.buffers + want.buffers/50 // where many are looked at, one more is where rows lie
	if !exact {
		most += most/4 + 4
	}
	buffers := got.buffers
	if got.buffers = want.buffers; got != want || buffers > most {
		t.Errorf("%s: %d round trips, %d statements, %d rows, %d buffers; docs/costs.md has %+v", name, got.trips, got.statements, got.rows, buffers, want)
	}
}

// written are the rows that were written since the server began.
const written = `SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables`

// looked are the buffers of the store's statements.
const looked = `SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint FROM pg_stat_statements WHERE query !~ 'pg_stat_'`

// count makes a call, again and again, and counts. What prepares a call is not counted.
func (w *world) count(admin *pgxpool.Pool, tracer *pgtest.RoundTrips, c call) (sum cost) {
	w.t.Helper()
	var made []func(context.Context) error
	for range repeats {
		made = append(made, c.make(w))
	}
	w.flush()
	before := pgtest.Value[int64](w.t, admin, written)
	pgtest.Exec(w.t, admin, "SELECT pg_stat_statements_reset()")
	tracer.Count.Store(0)
	tracer.Statements.Store(0)
	for _, call := range made {
		must(w.t, second(tracer.Of(w.t.Context(), call)))
	}
	sum.trips, sum.statements = tracer.Count.Load(), tracer.Statements.Load()
	sum.buffers = pgtest.Value[int64](w.t, admin, looked)
	w.flush()
	w.flushOthers(admin)
	sum.rows = pgtest.Value[int64](w.t, admin, written) - before
	return sum
}

// flush has the server count what the store has written so far, on its connection.
func (w *world) flush() {
	w.t.Helper()
	pgtest.Exec(w.t, w.store.Pool(), "SELECT pg_stat_force_next_flush()")
}

// flushOthers has it count what was written on the connections that the store has beside its pool, for renewals: it ends them.
func (w *world) flushOthers(admin *pgxpool.Pool) {
	w.t.Helper()
	process := pgtest.Value[int](w.t, w.store.Pool(), "SELECT pg_backend_pid()")
	pgtest.Exec(w.t, admin, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = $1 AND pid <> $2", counted, process)
}

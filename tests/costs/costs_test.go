// Package costs counts what calls cost the server: counts do not depend on the machine, and so a change for the worse is seen on any.
package costs

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

var update = flag.Bool("update", false, "write docs/costs.md")

const document = "../../docs/costs.md"

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

// TestCosts compares what each call costs with docs/costs.md, or writes that with -update. Round trips, statements and rows are exact.
// Buffers vary a little with where rows lie: a quarter and four more are allowed.
func TestCosts(t *testing.T) {
	cluster := pgtest.NewCluster(t)
	cluster.Start(t, "shared_preload_libraries=pg_stat_statements", "autovacuum=off", "pg_stat_statements.save=off")
	admin := pgtest.NewPool(t, cluster.URL("postgres"))
	if pgtest.Value[int](t, admin, "SELECT current_setting('server_version_num')::int") < 150000 {
		t.Log("servers before PostgreSQL 15 tell of the rows that were written only later: nothing is counted")
		return
	}
	pgtest.Exec(t, admin, "CREATE EXTENSION pg_stat_statements")
	must(t, schema.Up(t.Context(), cluster.URL("postgres")))
	tracer := &counter{}
	store := pgtest.OpenStore(t, cluster.URL("postgres")+"&application_name=counted", agentstore.Options{MaxConns: 1, Tracer: tracer})
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
			compare(t, c.name, got)
		}
	}
	if *update {
		must(t, os.WriteFile(document, []byte(head+table.String()), 0o644))
	}
}

const head = `# What a call costs

Counted by ` + "`go test ./tests/costs`" + `, which fails when a figure changes. One call at a time, on a connection that has made it before; a group of
calls made at once shares its statements and its commit.

- **Round trips** are to the server, without the one that tells other processes of a commit.
- **Statements** include BEGIN and COMMIT where a call sends them.
- **Rows** are those inserted, updated and deleted, in all tables.
- **Buffers** are the pages of 8 KiB that the statements look at.

| call | round trips | statements | rows | buffers |
|---|---|---|---|---|
`

func compare(t *testing.T, name string, got cost) {
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
	buffers := got.buffers
	if got.buffers = want.buffers; got != want || buffers > want.buffers+want.buffers/4+4 {
		t.Errorf("%s: %d round trips, %d statements, %d rows, %d buffers; docs/costs.md has %+v", name, got.trips, got.statements, got.rows, buffers, want)
	}
}

// written are the rows that were written since the server began.
const written = `SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables`

// looked are the buffers of the store's statements.
const looked = `SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint FROM pg_stat_statements WHERE query !~ 'pg_stat_'`

// count makes a call, again and again, and counts. What prepares a call is not counted.
func (w *world) count(admin *pgxpool.Pool, tracer *counter, c call) (sum cost) {
	w.t.Helper()
	var made []func(context.Context) error
	for range repeats {
		made = append(made, c.make(w))
	}
	w.flush()
	before := pgtest.Value[int64](w.t, admin, written)
	pgtest.Exec(w.t, admin, "SELECT pg_stat_statements_reset()")
	tracer.trips.Store(0)
	tracer.statements.Store(0)
	for _, call := range made {
		must(w.t, call(context.WithValue(w.t.Context(), counted{}, true)))
	}
	sum.trips, sum.statements = tracer.trips.Load(), tracer.statements.Load()
	sum.buffers = pgtest.Value[int64](w.t, admin, looked)
	w.flush()
	sum.rows = pgtest.Value[int64](w.t, admin, written) - before
	return sum
}

// flush has the server count what the store has written so far.
func (w *world) flush() {
	w.t.Helper()
	pgtest.Exec(w.t, w.store.Pool(), "SELECT pg_stat_force_next_flush()")
}

// counter counts what is sent.
type counter struct{ trips, statements atomic.Int64 }

// counted is in the contexts of calls that are counted.
type counted struct{}

func (c *counter) note(statements int) {
	c.trips.Add(1)
	c.statements.Add(int64(statements))
}

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(data.SQL, "pg_stat_") {
		c.note(1)
	}
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if queued := data.Batch.QueuedQueries; !strings.HasPrefix(queued[len(queued)-1].SQL, "-- name: LiveNotify ") {
		c.note(len(queued))
	}
	return ctx
}
func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

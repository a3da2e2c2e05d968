package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// lastQuery keeps the last statement that was sent, and its arguments.
type lastQuery struct {
	sql       string
	arguments []any
}

func (l *lastQuery) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	l.sql, l.arguments = data.SQL, data.Args
	return ctx
}

func (l *lastQuery) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// literal returns an argument as SQL.
func literal(t *testing.T, argument any) string {
	t.Helper()
	switch a := argument.(type) {
	case time.Time:
		return "'" + a.UTC().Format("2006-01-02 15:04:05.999999") + "Z'"
	case pgtype.UUID:
		if !a.Valid {
			return "NULL"
		}
		return "'" + a.String() + "'"
	case *string: // a filter that is set
		return literal(t, *a)
	case string:
		return "'" + strings.ReplaceAll(a, "'", "''") + "'"
	case int32:
		return fmt.Sprint(a)
	default:
		t.Fatalf("an argument of type %T", argument)
		return ""
	}
}

// buffers returns how many of the server's pages a statement reads, with a generic
// plan.
func buffers(t *testing.T, conn *pgx.Conn, sql string, arguments []any) int {
	t.Helper()
	if _, err := conn.Prepare(t.Context(), "measured", sql); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Deallocate(t.Context(), "measured"); err != nil {
			t.Error(err)
		}
	}()
	literals := make([]string, len(arguments))
	for i, argument := range arguments {
		literals[i] = literal(t, argument)
	}
	explain := "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE measured(" + strings.Join(literals, ", ") + ")"
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	for range 2 { // the first run also reads the catalog
		answer := pgtest.Value[[]byte](t, conn, explain, pgx.QueryExecModeSimpleProtocol)
		if err := json.Unmarshal(answer, &plans); err != nil {
			t.Fatal(err)
		}
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

// fill adds entries, spread evenly over the last year, until the trail has count.
func fill(t *testing.T, conn *pgx.Conn, count int) {
	t.Helper()
	pgtest.Exec(t, conn, `INSERT INTO audit_entries (occurred_at, id, type, actor, user_name, plan_id, session_id, project)
		SELECT now() - random() * interval '1 year', gen_random_uuid(), CASE WHEN n % 2 = 0 THEN 'tool_invoked' ELSE 'user_approval' END,
			'actor/' || n % 4, 'user/' || n % 5, CAST(lpad(to_hex(n % 6), 32, '0') AS uuid), CAST(lpad(to_hex(n % 7), 32, '0') AS uuid), 'project/' || n % 3
		FROM generate_series(1, $1 - (SELECT count(*) FROM audit_entries)) n`, count)
	pgtest.Exec(t, conn, "VACUUM (ANALYZE) audit_entries")
}

// A page of a list, and a bounded count, cost the same in a small and in a large
// trail, whatever the filter. Optional filters written as "IS NULL OR" would not.
func TestCostIsFlat(t *testing.T) {
	t.Parallel()
	small, large := 50_000, 100_000 // small has more pages than what is looked at, so that few rows share one
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "SET plan_cache_mode = force_generic_plan")
	tracer := &lastQuery{}
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 1, Tracer: tracer})
	id := repo.ID{15: 3}
	filters := map[string]repo.AuditFilter{
		"none": {}, "type": {Type: events.UserApproval}, "actor": {Actor: "actor/1"}, "user": {User: "user/1"},
		"plan": {PlanID: id}, "session": {SessionID: id}, "project": {Project: "project/1"},
		"actor and type": {Actor: "actor/1", Type: events.UserApproval}, "user and project": {User: "user/1", Project: "project/1"},
		"range": {Project: "project/1", OccurredFrom: time.Now().AddDate(0, -8, 0), OccurredBefore: time.Now().AddDate(0, -3, 0)},
	}
	type key struct{ operation, filter string }
	measure := func() map[key]int {
		costs := map[key]int{}
		for name, filter := range filters {
			for operation, run := range map[string]func() error{
				"newest": func() error {
					_, err := store.Audit().List(t.Context(), filter, repo.Page{Limit: 50})
					return err
				},
				"oldest": func() error {
					filter := filter
					filter.OldestFirst = true
					_, err := store.Audit().List(t.Context(), filter, repo.Page{Limit: 50})
					return err
				},
				"count": func() error {
					_, _, err := store.Audit().Count(t.Context(), filter, 200)
					return err
				},
			} {
				if err := run(); err != nil {
					t.Fatal(err)
				}
				costs[key{operation, name}] = buffers(t, conn, tracer.sql, tracer.arguments)
			}
		}
		costs[key{"naive", "actor"}] = buffers(t, conn, `SELECT * FROM audit_entries
			WHERE ($1::text = '' OR actor = $1) AND ($2::text = '' OR user_name = $2) AND ($3::text = '' OR project = $3)
			ORDER BY recorded_at DESC LIMIT 50`, []any{"actor/1", "", ""})
		return costs
	}
	fill(t, conn, small)
	before := measure()
	fill(t, conn, large)
	after := measure()
	for what, cost := range after {
		t.Logf("%-7s by %-17s %5d pages of %d entries, %5d of %d", what.operation, what.filter, before[what], small, cost, large)
		// Allow for a higher index.
		grown := cost > before[what]*6/5+40
		if grown != (what.operation == "naive") {
			t.Errorf("%s by %s: %d pages of %d entries, %d of %d", what.operation, what.filter, before[what], small, cost, large)
		}
	}
}

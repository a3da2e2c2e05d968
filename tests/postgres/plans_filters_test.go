package postgres

import (
	"context"
	"encoding/json"
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// sentTracer keeps the statements that were sent, and their arguments.
type sentTracer struct {
	mu   sync.Mutex
	sent map[string][]any
}

func (s *sentTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (s *sentTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (s *sentTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (s *sentTracer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(data.SQL, "-- name: ") {
		s.sent[data.SQL] = data.Args
	}
}
func (s *sentTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// take returns what was sent since it was asked last.
func (s *sentTracer) take() map[string][]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer clear(s.sent)
	return maps.Clone(s.sent)
}

// Whatever filters are set, what is sent reads by the index of the first of them,
// in its order: in the generic plan that a prepared statement has in the long run.
// A plan for the arguments takes those of filters, too.
func TestPlansOfFilters(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	databaseURL := pgtest.NewDatabase(t)
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range []string{fill, fillPlans, fillAudit} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	tracer := &sentTracer{sent: map[string][]any{}}
	store := openURL(t, databaseURL, agentstore.Options{Tracer: tracer, MaxConns: 1})
	filters := []struct {
		column string
		set    func(*repo.AuditFilter)
	}{ // in the order of the queries
		{"plan_id", func(f *repo.AuditFilter) { f.PlanID[15] = 3 }},
		{"session_id", func(f *repo.AuditFilter) { f.SessionID[15] = 3 }},
		{"user_name", func(f *repo.AuditFilter) { f.User = "user/3" }},
		{"actor", func(f *repo.AuditFilter) { f.Actor = "actor/3" }},
		{"project", func(f *repo.AuditFilter) { f.Project = "project/3" }},
		{"type", func(f *repo.AuditFilter) { f.Type = repo.EventToolInvoked }},
	}
	names := map[string]bool{}
	for set := range 1 << len(filters) {
		if n := bits.OnesCount(uint(set)); n > 2 && n < len(filters) {
			continue // none, one, two, and all of them
		}
		var filter repo.AuditFilter
		var columns []string
		for i, f := range filters {
			if set>>i&1 == 1 {
				f.set(&filter)
				columns = append(columns, f.column)
			}
		}
		for _, order := range []repo.AuditOrder{repo.NewestFirst, repo.OldestFirst} {
			if _, err := store.Audit().List(ctx, filter, order, repo.Page{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := store.Audit().Count(ctx, filter, 0); err != nil {
			t.Fatal(err)
		}
		sent := tracer.take()
		if len(sent) != 3 {
			t.Fatalf("%v: %d statements were sent", columns, len(sent))
		}
		indexes := []string{"audit_entries_pkey"}
		if len(columns) > 0 {
			indexes = nil
			for _, column := range columns {
				indexes = append(indexes, "audit_entries_"+column+"_occurred_at_id_idx")
			}
		}
		for sql, args := range sent {
			name, _, _ := strings.Cut(strings.TrimPrefix(sql, "-- name: "), " ")
			names[name] = true
			if _, err := conn.Exec(ctx, "SET plan_cache_mode = force_generic_plan"); err != nil {
				t.Fatal(err)
			}
			generic := explain(ctx, t, conn, statement{name: name + strconv.Itoa(set), sql: sql})
			if got := readBy(generic); !slices.Equal(got, indexes[:1]) {
				t.Errorf("%s of %v reads by %v in a generic plan:\n%s", name, columns, got, sql)
			}
			if _, err := conn.Exec(ctx, "SET plan_cache_mode = auto"); err != nil {
				t.Fatal(err)
			}
			for _, index := range readBy(explainWith(ctx, t, conn, sql, args)) {
				// It may sort the little that it finds, and count all entries without an index.
				if !slices.Contains(append(indexes, "Sort"), index) && len(columns) > 0 {
					t.Errorf("%s of %v reads by %s in a plan for the arguments:\n%s", name, columns, index, sql)
				}
			}
		}
	}
	if _, err := conn.Exec(ctx, "SET plan_cache_mode = force_generic_plan"); err != nil {
		t.Fatal(err)
	}
	sessions := func(filter repo.SessionFilter) func() error {
		return func() error { _, err := store.Sessions().List(ctx, filter, repo.Page{}); return err }
	}
	plans := func(filter repo.PlanFilter) func() error {
		return func() error { _, err := store.Plans().List(ctx, filter, repo.Page{}); return err }
	}
	for i, list := range []struct {
		run   func() error
		index string
	}{
		{sessions(repo.SessionFilter{}), "sessions_namespace_created_at_idx"},
		{sessions(repo.SessionFilter{Actor: "actor/3"}), "sessions_namespace_actor_created_at_idx"},
		{plans(repo.PlanFilter{}), "plans_namespace_id_idx"},
		{plans(repo.PlanFilter{ParentID: repo.NewID()}), "plans_parent_id_id_idx"},
		{plans(repo.PlanFilter{ParentID: repo.NewID(), Namespace: "local", Phase: repo.PhaseApply}), "plans_parent_id_id_idx"},
	} {
		if err := list.run(); err != nil {
			t.Fatal(err)
		}
		for sql := range tracer.take() {
			name, _, _ := strings.Cut(strings.TrimPrefix(sql, "-- name: "), " ")
			names[name] = true
			// The rest of a session or a plan is looked up by keys.
			got := slices.DeleteFunc(readBy(explain(ctx, t, conn, statement{name: name + "_" + strconv.Itoa(i), sql: sql})), func(way string) bool {
				return strings.HasSuffix(way, "_pkey") || strings.HasSuffix(way, "_key")
			})
			if !slices.Equal(got, []string{list.index}) {
				t.Errorf("%s reads by %v, not by %s:\n%s", name, got, list.index, sql)
			}
		}
	}
	// What TestPlans leaves to this test, this test has.
	for _, s := range statements(t) {
		if hasFilters.MatchString(s.sql) != names[s.name] {
			t.Errorf("%s is planned as it stands: %t", s.name, names[s.name])
		}
	}
}

// hasFilters matches the statements that are sent for the filters that are set.
var hasFilters = regexp.MustCompile(`\(\$\d+::\w+ IS NULL OR \w\.\w+ =`)

// readBy returns the indexes that a plan uses, each once, and the kinds of its nodes
// that read without one, or sort more than a session's links.
func readBy(found plan) (ways []string) {
	found.walk(func(node plan) {
		way := ofPartition.ReplaceAllString(node.IndexName, "audit_entries_")
		switch {
		case node.NodeType == "Seq Scan":
			way = node.NodeType
		case strings.Contains(node.NodeType, "Sort") && !node.isOfParts():
			way = "Sort"
		}
		if way != "" && !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	})
	return ways
}

// explainWith is explain for the plan that is made for the arguments.
func explainWith(ctx context.Context, t *testing.T, conn *pgx.Conn, sql string, args []any) plan {
	t.Helper()
	var answer []byte
	if err := conn.QueryRow(ctx, "EXPLAIN (FORMAT JSON) "+sql, append([]any{pgx.QueryExecModeDescribeExec}, args...)...).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(answer, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan
}

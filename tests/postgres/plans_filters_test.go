package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// sentTracer records the statements that were sent, with their arguments.
type sentTracer struct {
	mu   sync.Mutex
	sent map[string][]any
}

func (s *sentTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.add(data.SQL, data.Args)
	return ctx
}
func (s *sentTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (s *sentTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *sentTracer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	s.add(data.SQL, data.Args)
}
func (s *sentTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (s *sentTracer) add(sql string, args []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(sql, "-- name: ") {
		s.sent[sql] = args
	}
}

// take returns what was sent since the last call.
func (s *sentTracer) take() map[string][]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer clear(s.sent)
	return maps.Clone(s.sent)
}

// Whatever filters are set, the statement uses the index of the first of them, in its
// order, with a generic plan, which a prepared statement has in the long run. A plan
// for the arguments also uses only indexes of filters that are set.
func TestPlansOfFilters(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	databaseURL := newFilled(t)
	conn := pgtest.Connect(t, databaseURL)
	tracer := &sentTracer{sent: map[string][]any{}}
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{Tracer: tracer, MaxConns: 1})
	filters := []struct {
		column string
		set    func(*repo.AuditFilter)
	}{ // in the order of the queries
		{"plan_id", func(f *repo.AuditFilter) { f.PlanID[15] = 3 }},
		{"session_id", func(f *repo.AuditFilter) { f.SessionID[15] = 3 }},
		{"user_name", func(f *repo.AuditFilter) { f.User = "user/3" }},
		{"namespace", func(f *repo.AuditFilter) { f.Namespace = "namespace/3" }},
		{"actor", func(f *repo.AuditFilter) { f.Actor = "actor/3" }},
		{"project", func(f *repo.AuditFilter) { f.Project = "project/3" }},
		{"type", func(f *repo.AuditFilter) { f.Type = events.ToolInvoked }},
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
		for _, oldest := range []bool{false, true} {
			filter.OldestFirst = oldest
			if _, err := store.Audit().List(ctx, filter, repo.Page{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := store.Audit().Count(ctx, filter, 0); err != nil {
			t.Fatal(err)
		}
		sent := tracer.take()
		if len(sent) != 3 {
			t.Fatalf("%v: %d statements were sent", columns, len(sent))
		}
		indexes := []string{"audit_entries_occurred_at_id_idx"}
		if len(columns) > 0 {
			indexes = nil
			for _, column := range columns {
				indexes = append(indexes, "audit_entries_"+column+"_occurred_at_id_idx")
			}
		}
		for sql, args := range sent {
			name, _, _ := strings.Cut(strings.TrimPrefix(sql, "-- name: "), " ")
			names[name] = true
			pgtest.Exec(t, conn, "SET plan_cache_mode = force_generic_plan")
			generic := explain(ctx, t, conn, statement{name: name + strconv.Itoa(set), sql: sql})
			got := readBy(generic)
			if name == "AuditCount" && len(columns) > 1 {
				// It may sort the few rows that the first filter finds here. Of many it reads an index
				// in its order: TestCostIsFlat in tests/audit.
				got = slices.DeleteFunc(got, func(way string) bool { return way == "Sort" })
			}
			if !slices.Equal(got, indexes[:1]) {
				t.Errorf("%s of %v reads by %v in a generic plan:\n%s", name, columns, got, sql)
			}
			pgtest.Exec(t, conn, "SET plan_cache_mode = auto")
			for _, index := range readBy(explainWith(ctx, t, conn, sql, args)) {
				// It may sort the few rows that it finds, and count all entries
				// without an index.
				if !slices.Contains(append(indexes, "Sort"), index) && len(columns) > 0 {
					t.Errorf("%s of %v reads by %s in a plan for the arguments:\n%s", name, columns, index, sql)
				}
			}
		}
	}
	pgtest.Exec(t, conn, "SET plan_cache_mode = force_generic_plan")
	sessions := func(filter repo.SessionFilter) func() error {
		return func() error { _, err := store.Sessions().List(ctx, filter, repo.Page{}); return err }
	}
	plans := func(filter repo.PlanFilter) func() error {
		return func() error { _, err := store.Plans().List(ctx, filter, repo.Page{}); return err }
	}
	leases := func(filter repo.LeaseFilter) func() error {
		return func() error { _, err := store.Leases().List(ctx, filter, repo.Page{}); return err }
	}
	viewed := func(filter repo.LeaseFilter) func() error {
		return func() error { _, err := store.In("local").Leases().List(ctx, filter, repo.Page{}); return err }
	}
	for i, list := range []struct {
		run   func() error
		index string
	}{
		{viewed(repo.LeaseFilter{Owner: "owner/3"}), "leases_namespace_owner_kind_name_idx"},
		{sessions(repo.SessionFilter{AnyOwner: true}), "sessions_namespace_created_at_idx"},
		{sessions(repo.SessionFilter{AnyOwner: true, Actor: "actor/3"}), "sessions_namespace_actor_created_at_idx"},
		{sessions(repo.SessionFilter{Owner: "owner/3"}), "sessions_namespace_owner_created_at_idx"},
		{sessions(repo.SessionFilter{Owner: "owner/3", Actor: "actor/3"}), "sessions_namespace_owner_created_at_idx"},
		{sessions(repo.SessionFilter{AnyOwner: true, ByActivity: true}), "session_activity_namespace_active_at_idx"},
		{sessions(repo.SessionFilter{ByActivity: true, Owner: "owner/3"}), "session_activity_namespace_owner_active_at_idx"},
		{leases(repo.LeaseFilter{Owner: "owner/3"}), "leases_namespace_owner_kind_name_idx"},
		{leases(repo.LeaseFilter{Owner: "owner/3", Kind: "kind/3", Held: true}), "leases_namespace_owner_kind_name_idx"},
		{leases(repo.LeaseFilter{Kind: "kind/3", Expired: true}), "leases_pkey"},
		{leases(repo.LeaseFilter{Name: "name/3", Kind: "kind/3"}), "leases_pkey"},
		{leases(repo.LeaseFilter{Name: "name/3"}), "leases_pkey"},
		{leases(repo.LeaseFilter{}), "leases_pkey"},
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
			// The other parts of a session or a plan are looked up by keys.
			got := readBy(explain(ctx, t, conn, statement{name: name + "_" + strconv.Itoa(i), sql: sql}))
			if strings.HasSuffix(list.index, "_pkey") {
				if !slices.Equal(got, []string{list.index}) {
					t.Errorf("%s reads by %v, not by %s:\n%s", name, got, list.index, sql)
				}
				continue
			}
			got = slices.DeleteFunc(got, func(way string) bool {
				// Sessions of one minute are sorted by the exact time.
				return strings.HasSuffix(way, "_pkey") || strings.HasSuffix(way, "_key") || name == "SessionListActive" && way == "Sort"
			})
			if !slices.Equal(got, []string{list.index}) {
				t.Errorf("%s reads by %v, not by %s:\n%s", name, got, list.index, sql)
			}
		}
	}
	// This test covers what TestPlans leaves out.
	for _, s := range statements(t) {
		if hasFilters.MatchString(s.sql) != names[s.name] {
			t.Errorf("%s is planned as it stands: %t", s.name, names[s.name])
		}
	}
}

// Whatever a read is asked for, only the statements that it needs are sent, and read by keys, in the order of the messages. Only what
// goes into a prompt is sorted.
func TestPlansOfReads(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	databaseURL := newFilled(t)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "SET plan_cache_mode = force_generic_plan")
	tracer := &sentTracer{sent: map[string][]any{}}
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{Tracer: tracer, MaxConns: 1})
	session := []string{"sessions_pkey", "session_counters_pkey", "session_plans_pkey", "plans_pkey", "session_branches_pkey"}
	var two []repo.ID // that have branches
	for _, place := range []string{"0", "1"} {
		two = append(two, repo.ID(pgtest.Value[[16]byte](t, conn, "SELECT id FROM sessions ORDER BY id LIMIT 1 OFFSET "+place)))
	}
	seen := map[string]bool{}
	for i, ids := range [][]repo.ID{{}, two[:1], two} {
		for j, count := range []repo.ReadSessions{{}, {First: 5}, {Last: 5}, {First: 5, Since: time.Unix(1, 0)}, {Last: 5, Since: time.Unix(1, 0)}, {First: 5, Branches: true}, {Last: 5, Tokens: 100}} {
			for k, state := range []repo.ReadSessions{{}, {State: true}, {Scopes: []string{"x"}}} {
				ask := repo.ReadSessions{IDs: ids, First: count.First, Last: count.Last, Since: count.Since, Branches: count.Branches, Tokens: count.Tokens, State: state.State, Scopes: state.Scopes}
				if _, err := store.Sessions().Read(ctx, ask); err != nil {
					t.Fatal(err)
				}
				want := session
				if j > 0 && (i > 0 || j < 3) {
					want = append(slices.Clone(want), "messages_pkey")
				}
				if count.Tokens > 0 {
					want = append(want, "messages_session_id_instruction_idx")
				}
				if state.State && i > 0 || state.Scopes != nil {
					want = append(slices.Clone(want), "state_scopes_session_id_idx", "state_scopes_namespace_name_key", "state_values_pkey")
				}
				var got []string
				for sql := range tracer.take() {
					name, _, _ := strings.Cut(strings.TrimPrefix(sql, "-- name: "), " ")
					seen[name] = true
					got = append(got, slices.DeleteFunc(readBy(explain(ctx, t, conn, statement{name: fmt.Sprintf("%s_%d_%d_%d", name, i, j, k), sql: sql})), func(way string) bool {
						return way == "Sort" && name == "SessionReadPrompt"
					})...)
				}
				slices.Sort(got)
				got = slices.Compact(got)
				if slices.Sort(want); !slices.Equal(got, want) {
					t.Errorf("%+v reads by %v, not by %v", ask, got, want)
				}
			}
		}
	}
	if len(seen) != 5 {
		t.Errorf("there are %d statements", len(seen))
	}
}

// hasFilters matches the statements that are sent with only the filters that are set.
var hasFilters = regexp.MustCompile(`\(\$\d+::\w+ IS NULL OR \w\.\w+ =`)

// readBy returns the indexes that a plan uses, each once, and the kinds of its nodes
// that read without an index, or sort more than a session's links.
func readBy(found plan) (ways []string) {
	found.walk(func(node plan) {
		way := node.IndexName
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

// explainWith is like explain, for the plan that is made for the arguments.
func explainWith(ctx context.Context, t *testing.T, conn *pgx.Conn, sql string, args []any) plan {
	t.Helper()
	answer := pgtest.Value[[]byte](t, conn, "EXPLAIN (FORMAT JSON) "+sql, append([]any{pgx.QueryExecModeDescribeExec}, args...)...)
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(answer, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan
}

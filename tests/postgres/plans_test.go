package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// plan is a node of EXPLAIN's answer.
type plan struct {
	NodeType  string `json:"Node Type"`
	IndexName string `json:"Index Name"`
	Relation  string `json:"Relation Name"`
	Plans     []plan `json:"Plans"`
}

func (p plan) walk(visit func(plan)) {
	visit(p)
	for _, child := range p.Plans {
		child.walk(visit)
	}
}

// isOfParts reports whether a node reads nothing but the parts of one plan, of
// which there are at most 100, or the links of one session: whether they come
// from an index in order, or are sorted, is all one.
func (p plan) isOfParts() bool {
	parts := true
	p.walk(func(node plan) {
		switch node.Relation {
		case "", "plan_projects", "plan_arguments", "plan_invariants", "action_arguments", "action_invariants":
		case "session_plans", "plans":
			parts = parts && p.startsAt("session_plans")
		default:
			parts = false
		}
	})
	return parts
}

// startsAt reports whether a node reads a relation first.
func (p plan) startsAt(relation string) bool {
	for node := p; ; node = node.Plans[0] {
		if node.Relation != "" || len(node.Plans) == 0 {
			return node.Relation == relation
		}
	}
}

// fill makes tables large enough that an index is worth using.
const fill = `
INSERT INTO sessions (id, namespace, actor)
SELECT gen_random_uuid(), 'local', 'actor/' || n % 50 FROM generate_series(1, 5000) n;
INSERT INTO session_counters (session_id, next_sequence) SELECT id, 10 FROM sessions;
INSERT INTO messages (session_id, sequence, id, role, content)
SELECT s.id, n, gen_random_uuid(), 'user', 'content' FROM sessions s, generate_series(0, 9) n;
INSERT INTO session_usages (session_id, id, input_tokens, output_tokens, cost_nanos)
SELECT s.id, gen_random_uuid(), 1, 1, 1 FROM sessions s, generate_series(0, 3) n;
ANALYZE;`

// Every query has the plan that its comment promises, and none reads a whole
// table or sorts. Plans are generic, as a prepared statement's are in the long
// run: they may not depend on a lucky argument.
func TestPlans(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, pgtest.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range []string{fill, fillPlans, fillAudit, "SET plan_cache_mode = force_generic_plan"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	var version int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	for _, s := range statements(t) {
		if hasFilters.MatchString(s.sql) {
			continue // is never sent as it stands: TestPlansOfFilters
		}
		t.Run(s.name, func(t *testing.T) {
			found := explain(ctx, t, conn, s)
			// PostgreSQL 13 shows the subplans that read the few holds once and hash
			// them, and may choose others when it runs.
			hashesHolds := version < 140000 && s.name == "AuditCountOld"
			var indexes []string
			found.walk(func(node plan) {
				switch {
				case strings.HasPrefix(s.name, "AuditDoctor") && !strings.HasPrefix(node.Relation, "audit_"):
					// The server's catalog is small, and what it has is its own.
				case s.name == "AuditIdentity" || s.name == "AuditVersionOne":
					// One row; and what is asked for once, of all leaves.
				case hashesHolds && node.Relation == "audit_holds":
				case node.NodeType == "Seq Scan":
					t.Errorf("reads all of %s", node.Relation)
				case strings.Contains(node.NodeType, "Sort"):
					// Rows in the order of the caller's ids have no index; and
					// no more than 17 stages' pages are brought together.
					if s.name != "MessageListByIDs" && s.name != "PlanListByStage" && !node.isOfParts() {
						t.Errorf("has a node %s", node.NodeType)
					}
				case node.IndexName != "":
					indexes = append(indexes, ofPartition.ReplaceAllString(node.IndexName, "audit_entries_"))
				}
			})
			for _, alternatives := range s.indexes {
				if hashesHolds && slices.Contains(alternatives, "audit_holds_pkey") {
					continue
				}
				if !slices.ContainsFunc(alternatives, func(index string) bool { return slices.Contains(indexes, index) }) {
					// Inserting uses a unique key without a node of the plan.
					if !strings.Contains(s.sql, "INSERT INTO") {
						t.Errorf("uses none of %v, only %v", alternatives, indexes)
					}
				}
			}
			for _, index := range indexes {
				if !slices.Contains(slices.Concat(s.indexes...), index) {
					t.Errorf("uses %s, which its comment does not name", index)
				}
			}
		})
	}
}

func explain(ctx context.Context, t *testing.T, conn *pgx.Conn, s statement) plan {
	t.Helper()
	prepared := "plan_" + strings.ToLower(s.name)
	if _, err := conn.Exec(ctx, "PREPARE "+prepared+" AS "+s.sql); err != nil {
		t.Fatalf("does not prepare against the migrated schema: %v", err)
	}
	arguments := strings.Repeat(", NULL", s.parameters())
	if arguments != "" {
		arguments = "(" + arguments[2:] + ")"
	}
	var answer []byte
	err := conn.QueryRow(ctx, fmt.Sprintf("EXPLAIN (FORMAT JSON) EXECUTE %s%s", prepared, arguments), pgx.QueryExecModeSimpleProtocol).Scan(&answer)
	if err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(answer, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan
}

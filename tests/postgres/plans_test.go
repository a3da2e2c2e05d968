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

// plan is a node of the output of EXPLAIN.
type plan struct {
	NodeType  string  `json:"Node Type"`
	IndexName string  `json:"Index Name"`
	Relation  string  `json:"Relation Name"`
	Cost      float64 `json:"Total Cost"`
	Plans     []plan  `json:"Plans"`
}

func (p plan) walk(visit func(plan)) {
	visit(p)
	for _, child := range p.Plans {
		child.walk(visit)
	}
}

// isOfParts reports whether a node reads only what a call gave, or the links of one session.
// These may come from an index or be sorted.
func (p plan) isOfParts() bool {
	parts := true
	p.walk(func(node plan) {
		switch node.Relation {
		case "":
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

// newFilled returns the URL of a database with many rows of all kinds.
func newFilled(t *testing.T) string {
	t.Helper()
	return pgtest.NewFilledDatabase(t, fill+fillPlans+fillAudit)
}

// fill makes tables large enough that indexes are worth using.
const fill = `
INSERT INTO sessions (id, namespace, actor, owner)
SELECT gen_random_uuid(), 'local', 'actor/' || n % 50, 'owner/' || n % 500 FROM generate_series(1, 5000) n;
INSERT INTO session_ids SELECT gen_random_uuid() FROM generate_series(1, 5000);
INSERT INTO session_counters (session_id, next_sequence) SELECT id, 10 FROM sessions;
INSERT INTO session_activity (session_id, namespace, owner, active_at) SELECT id, namespace, owner, updated_at FROM sessions;
INSERT INTO messages (session_id, sequence, id, role, call_id, content)
SELECT s.id, n, gen_random_uuid(), 'user', 'call' || n, 'content' FROM sessions s, generate_series(0, 9) n;
INSERT INTO messages (session_id, sequence, id, role, content, follows)
SELECT s.id, 10 + n, gen_random_uuid(), CASE n % 10 WHEN 0 THEN 'system' ELSE 'user' END, 'content', CASE n % 10 WHEN 5 THEN 3 END
FROM (SELECT id FROM sessions ORDER BY id LIMIT 500) s, generate_series(0, 19) n;
INSERT INTO session_branches (session_id) SELECT id FROM sessions ORDER BY id LIMIT 2500;
INSERT INTO session_branches (session_id, parent_id, base, needs, depth) SELECT id, gen_random_uuid(), 5, 4, 1 FROM sessions ORDER BY id OFFSET 2500;
INSERT INTO session_remains (session_id) SELECT gen_random_uuid() FROM generate_series(1, 5000) n;
INSERT INTO session_holds (namespace, owner, session_id, reason)
SELECT 'local', 'held/' || n, '00000000-0000-0000-0000-000000000000', 'reason' FROM generate_series(1, 5000) n;
INSERT INTO state_scopes (id, session_id, namespace, name, version)
SELECT id, id, NULL, NULL, 1 FROM sessions UNION ALL SELECT gen_random_uuid(), NULL, 'local', 'scope/' || n, 1 FROM generate_series(1, 5000) n;
INSERT INTO state_values (scope_id, key, value, version) SELECT s.id, 'key/' || n, '1', 1 FROM state_scopes s, generate_series(0, 9) n;
INSERT INTO leases (name, kind, owner, fence, acquired_at, expires_at)
SELECT 'name/' || n, 'kind/' || n % 20, 'owner/' || n % 20, n, now(), now() + interval '1 hour' FROM generate_series(1, 5000) n;
INSERT INTO streams (id, key, owner, opener, began, fence, status, ttl, expires_at)
SELECT gen_random_uuid(), 'key/' || n / 2, 'owner/' || n, gen_random_uuid(), n, n, CASE n % 2 WHEN 0 THEN 'finished' ELSE 'open' END, '1 minute',
    now() + interval '1 second' * (n - 100) FROM generate_series(1, 5000) n;
INSERT INTO stream_parts (stream_id, sequence, data) SELECT s.id, n, 'part' FROM streams s, generate_series(0, 19) n;
INSERT INTO file_chunks (namespace, blob, position, data) SELECT 'local', 'blob/' || b, n, 'part' FROM generate_series(1, 1000) b, generate_series(0, 19) n;
INSERT INTO session_usages (session_id, id, input_tokens, output_tokens, cost_nanos)
SELECT s.id, gen_random_uuid(), 1, 1, 1 FROM sessions s, generate_series(0, 3) n;
INSERT INTO session_turns (session_id, id, digest, first_sequence, message_count)
SELECT s.id, gen_random_uuid()::text, sha256('turn'), 0, 1 FROM sessions s, generate_series(0, 3) n;
ANALYZE;`

// sorts are the queries that sort: rows in the order of the caller's ids have no index,
// and the others sort no more than one call names or looks at, or one page; an export sorts what it
// reads once.
var sorts = []string{
	"MessageListByIDs", "MessageListNews", "SessionReadPrompt", "PlanListByStage", "StateLockOwn", "StateLockShared", "StateList", "SessionExport", "StreamListNews",
	"SessionListTaken", "PlanLanes", "PlanListByAction", "PlanDeleteKept", "MessageListPath", "MessageListPathBefore",
	"MessageListByCall", "BranchList", "ForkKept", "StateOfSessionLock",
}

// whole are the queries that read tables whole: small ones, and a replay's before anything serves.
var whole = []string{"ActionForget", "AuditQuarantineForget", "NameList"}

// compiled is what a statement has to cost so that the server compiles it (jit_above_cost), which would take it far longer than to run it.
const compiled = 100_000

// Each query has the plan that its comment promises, and none reads a whole table or
// sorts. Plans are generic, as those of prepared statements in the long run, so that
// they do not depend on the arguments.
func TestPlans(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	conn := pgtest.Connect(t, newUnattended(t))
	pgtest.Exec(t, conn, "SET plan_cache_mode = force_generic_plan")
	version := pgtest.Value[int](t, conn, "SELECT current_setting('server_version_num')::int")
	for _, s := range statements(t) {
		if hasFilters.MatchString(s.sql) {
			continue // is never sent in this form: see TestPlansOfFilters
		}
		if strings.Contains(s.sql, "LOCK TABLE") {
			continue // has no plan
		}
		t.Run(s.name, func(t *testing.T) {
			found := explain(ctx, t, conn, s)
			if found.Cost > compiled && s.name != "PlanLanes" { // comes after PlanByIndex, which has it not compiled
				t.Errorf("costs %.0f", found.Cost)
			}
			// PostgreSQL 13 shows the subplans that read the few holds once and hash
			// them, but may choose others when it runs.
			hashesHolds := version < 140000 && s.name == "AuditCountOld"
			var indexes []string
			found.walk(func(node plan) {
				switch {
				case (strings.HasPrefix(s.name, "AuditDoctor") || strings.HasPrefix(s.name, "Health") || s.name == "ForkKept") && !strings.HasPrefix(node.Relation, "audit_"):
					// The server's catalog is small, and not ours.
				case slices.Contains(whole, s.name):
				case hashesHolds && node.Relation == "audit_holds":
				case node.NodeType == "Seq Scan":
					t.Errorf("reads all of %s", node.Relation)
				case strings.Contains(node.NodeType, "Sort"):
					if !slices.Contains(sorts, s.name) && !node.isOfParts() {
						t.Errorf("has a node %s", node.NodeType)
					}
				case node.IndexName != "":
					indexes = append(indexes, node.IndexName)
				}
			})
			for _, alternatives := range s.indexes {
				if hashesHolds && slices.Contains(alternatives, "audit_holds_pkey") {
					continue
				}
				if !slices.ContainsFunc(alternatives, func(index string) bool { return slices.Contains(indexes, index) }) {
					// An insert uses a unique key without a node in the plan.
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

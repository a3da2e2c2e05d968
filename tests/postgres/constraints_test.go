package postgres

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// implied are constraints that cannot be violated alone: another one of their
// table is found first, or a partition's.
var implied = []string{"sessions_budget_nanos_check", "plans_root_id_id_key", "audit_entries_pkey"}

// What the domain forbids, the database refuses too, whoever writes.
func TestConstraints(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t))
	const session = "'00000000-0000-0000-0000-000000000001'"
	if _, err := pool.Exec(t.Context(), `
		INSERT INTO sessions (id) VALUES (`+session+`);
		INSERT INTO session_counters (session_id) VALUES (`+session+`);
		INSERT INTO messages (session_id, sequence, id, role, content) VALUES (`+session+`, 0, `+session+`, 'user', 'x')`); err != nil {
		t.Fatal(err)
	}
	message := func(sequence, id, role, content, rest string) string {
		columns, values := "", ""
		if rest != "" {
			name, value, _ := strings.Cut(rest, "=")
			columns, values = ", "+name, ", "+value
		}
		return "INSERT INTO messages (session_id, sequence, id, role, content" + columns + ") VALUES (" + session +
			", " + sequence + ", " + id + ", " + role + ", " + content + values + ")"
	}
	tried := map[string]string{
		"sessions_pkey":                        "INSERT INTO sessions (id) VALUES (" + session + ")",
		"sessions_namespace_check":             "UPDATE sessions SET namespace = ''",
		"sessions_actor_check":                 "UPDATE sessions SET actor = ''",
		"sessions_automation_profile_check":    "UPDATE sessions SET automation_profile = repeat('x', 256)",
		"sessions_metadata_check":              "UPDATE sessions SET metadata = '[]'",
		"sessions_input_tokens_check":          "UPDATE sessions SET input_tokens = -1",
		"sessions_output_tokens_check":         "UPDATE sessions SET output_tokens = -1",
		"sessions_cost_nanos_check":            "UPDATE sessions SET cost_nanos = -1",
		"sessions_budget_nanos_check":          "UPDATE sessions SET cost_nanos = -2, budget_nanos = -1",
		"sessions_cost_within_budget_check":    "UPDATE sessions SET cost_nanos = 2, budget_nanos = 1",
		"session_usages_pkey":                  "INSERT INTO session_usages VALUES (" + session + ", " + session + ", 0, 0, 0), (" + session + ", " + session + ", 0, 0, 0)",
		"session_usages_session_id_fkey":       "INSERT INTO session_usages VALUES (gen_random_uuid(), " + session + ", 0, 0, 0)",
		"session_usages_input_tokens_check":    "INSERT INTO session_usages VALUES (" + session + ", " + session + ", -1, 0, 0)",
		"session_usages_output_tokens_check":   "INSERT INTO session_usages VALUES (" + session + ", " + session + ", 0, -1, 0)",
		"session_usages_cost_nanos_check":      "INSERT INTO session_usages VALUES (" + session + ", " + session + ", 0, 0, -1)",
		"session_counters_pkey":                "INSERT INTO session_counters (session_id) VALUES (" + session + ")",
		"session_counters_session_id_fkey":     "INSERT INTO session_counters (session_id) VALUES (gen_random_uuid())",
		"session_counters_next_sequence_check": "UPDATE session_counters SET next_sequence = -1",
		"messages_pkey":                        message("0", "gen_random_uuid()", "'user'", "'x'", ""),
		"messages_session_id_id_key":           message("1", session, "'user'", "'x'", ""),
		"messages_session_id_fkey":             "INSERT INTO messages (session_id, sequence, id, role, content) VALUES (gen_random_uuid(), 0, gen_random_uuid(), 'user', 'x')",
		"messages_sequence_check":              message("-1", "gen_random_uuid()", "'user'", "'x'", ""),
		"messages_role_check":                  message("1", "gen_random_uuid()", "'robot'", "'x'", ""),
		"messages_content_check":               message("1", "gen_random_uuid()", "'user'", "''", ""),
		"messages_metadata_check":              message("1", "gen_random_uuid()", "'user'", "'x'", "metadata='3'"),
		"messages_payload_check":               message("1", "gen_random_uuid()", "'user'", "'x'", "payload=convert_to(repeat('x', 16777217), 'UTF8')"),
	}
	if _, err := pool.Exec(t.Context(), planFixture); err != nil {
		t.Fatal(err)
	}
	maps.Copy(tried, planConstraints)
	maps.Copy(tried, auditConstraints)
	for constraint, sql := range tried {
		_, err := pool.Exec(t.Context(), sql)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.ConstraintName != constraint && !slices.Contains(implied, constraint) {
			t.Errorf("%s: %v", constraint, err)
		}
	}
	// Every constraint of the schema is tried above. (Those of the trail's
	// partitions are the parent's; NOT NULL is a constraint from PostgreSQL 18 on.)
	rows, err := pool.Query(t.Context(), `SELECT conname::text FROM pg_constraint
		WHERE connamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND contype <> 'n' AND conrelid <> 'agentstore_migrations'::regclass
			AND conrelid NOT IN (SELECT inhrelid FROM pg_inherits)`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, found := tried[name]; !found {
			t.Errorf("%s is not tried here", name)
		}
	}
	if len(names) != len(tried) {
		t.Errorf("the schema has %d constraints, %d are tried here", len(names), len(tried))
	}
}

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

// implied are constraints that cannot be violated alone: the server finds another one
// of the table first, or a partition's.
var implied = []string{"sessions_budget_nanos_check", "plans_root_id_id_key", "audit_entries_pkey"}

// The database refuses what the domain forbids, whoever writes.
func TestConstraints(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t))
	const session = "'00000000-0000-0000-0000-000000000001'"
	pgtest.Exec(t, pool, `
		INSERT INTO sessions (id) VALUES (`+session+`);
		INSERT INTO session_counters (session_id) VALUES (`+session+`);
		INSERT INTO messages (session_id, sequence, id, role, content) VALUES (`+session+`, 0, `+session+`, 'user', 'x')`)
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
		"sessions_key_check":                   "UPDATE sessions SET key = repeat('é', 128)",
		"sessions_owner_check":                 "UPDATE sessions SET owner = ''",
		"sessions_version_check":               "UPDATE sessions SET version = 0",
		"session_owners_pkey":                  "INSERT INTO session_owners VALUES (" + session + ", 'local', 'x', now()), (" + session + ", 'local', 'y', now())",
		"session_owners_session_id_fkey":       "INSERT INTO session_owners VALUES (gen_random_uuid(), 'local', 'x', now())",
		"session_owners_owner_check":           "INSERT INTO session_owners VALUES (" + session + ", 'local', repeat('x', 1025), now())",
		"session_usages_pkey":                  "INSERT INTO session_usages VALUES (" + session + ", " + session + ", 0, 0, 0), (" + session + ", " + session + ", 0, 0, 0)",
		"session_usages_session_id_fkey":       "INSERT INTO session_usages VALUES (gen_random_uuid(), " + session + ", 0, 0, 0)",
		"session_usages_input_tokens_check":    "INSERT INTO session_usages VALUES (" + session + ", " + session + ", -1, 0, 0)",
		"session_usages_output_tokens_check":   "INSERT INTO session_usages VALUES (" + session + ", " + session + ", 0, -1, 0)",
		"session_usages_cost_nanos_check":      "INSERT INTO session_usages VALUES (" + session + ", " + session + ", 0, 0, -1)",
		"session_activity_pkey":                "INSERT INTO session_activity (session_id, namespace, active_at) VALUES (" + session + ", 'local', now())",
		"session_activity_session_id_fkey":     "INSERT INTO session_activity (session_id, namespace, active_at) VALUES (gen_random_uuid(), 'local', now())",
		"session_turns_pkey":                   "INSERT INTO session_turns VALUES (" + session + ", " + session + ", sha256(''), 0), (" + session + ", " + session + ", sha256(''), 0)",
		"session_turns_session_id_fkey":        "INSERT INTO session_turns VALUES (gen_random_uuid(), " + session + ", sha256(''), 0)",
		"session_turns_digest_check":           "INSERT INTO session_turns VALUES (" + session + ", " + session + ", 'x', 0)",
		"session_turns_first_sequence_check":   "INSERT INTO session_turns VALUES (" + session + ", " + session + ", sha256(''), -1)",
		"session_counters_pkey":                "INSERT INTO session_counters (session_id) VALUES (" + session + ")",
		"session_counters_session_id_fkey":     "INSERT INTO session_counters (session_id) VALUES (gen_random_uuid())",
		"session_counters_next_sequence_check": "UPDATE session_counters SET next_sequence = -1",
		"messages_pkey":                        message("0", "gen_random_uuid()", "'user'", "'x'", ""),
		"messages_session_id_id_key":           message("1", session, "'user'", "'x'", ""),
		"messages_session_id_fkey":             "INSERT INTO messages (session_id, sequence, id, role, content) VALUES (gen_random_uuid(), 0, gen_random_uuid(), 'user', 'x')",
		"messages_sequence_check":              message("-1", "gen_random_uuid()", "'user'", "'x'", ""),
		"messages_role_check":                  message("1", "gen_random_uuid()", "'robot'", "'x'", ""),
		"messages_content_check":               message("1", "gen_random_uuid()", "'user'", "''", ""),
		"messages_kind_check":                  message("1", "gen_random_uuid()", "'user'", "'x'", "kind=repeat('x', 256)"),
		"messages_call_id_check":               message("1", "gen_random_uuid()", "'user'", "'x'", "call_id=''"),
		"message_calls_pkey":                   "INSERT INTO message_calls VALUES (" + session + ", 'x', 0), (" + session + ", 'x', 0)",
		"message_calls_session_id_fkey":        "INSERT INTO message_calls VALUES (gen_random_uuid(), 'x', 0)",
		"message_calls_call_id_check":          "INSERT INTO message_calls VALUES (" + session + ", repeat('x', 1025), 0)",
		"message_calls_sequence_check":         "INSERT INTO message_calls VALUES (" + session + ", 'x', -1)",
		"messages_metadata_check":              message("1", "gen_random_uuid()", "'user'", "'x'", "metadata='3'"),
		"messages_payload_check":               message("1", "gen_random_uuid()", "'user'", "'x'", "payload=convert_to(repeat('x', 16777217), 'UTF8')"),
	}
	pgtest.Exec(t, pool, planFixture+stateFixture)
	maps.Copy(tried, planConstraints)
	maps.Copy(tried, auditConstraints)
	maps.Copy(tried, stateConstraints)
	for constraint, sql := range tried {
		_, err := pool.Exec(t.Context(), sql)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.ConstraintName != constraint && !slices.Contains(implied, constraint) {
			t.Errorf("%s: %v", constraint, err)
		}
	}
	// All constraints of the schema are tested above. (The constraints of the trail's
	// partitions are inherited; from PostgreSQL 18 on NOT NULL is a constraint.)
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
			t.Errorf("%s is not tested", name)
		}
	}
	if len(names) != len(tried) {
		t.Errorf("the schema has %d constraints, %d are tested", len(names), len(tried))
	}
}

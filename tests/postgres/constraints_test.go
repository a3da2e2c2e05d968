package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

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
	for constraint, sql := range map[string]string{
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
		"sessions_times_check":                 "UPDATE sessions SET updated_at = created_at - interval '1 s'",
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
	} {
		_, err := pool.Exec(t.Context(), sql)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || (pgErr.ConstraintName != constraint && constraint != "sessions_budget_nanos_check") {
			t.Errorf("%s: %v", constraint, err)
		}
	}
	// Every constraint of the schema is tried above.
	rows, err := pool.Query(t.Context(), `SELECT count(*) FROM pg_constraint
		WHERE connamespace = 'public'::regnamespace AND conrelid <> 'agentstore_migrations'::regclass`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var count int
		if err := rows.Scan(&count); err != nil {
			t.Fatal(err)
		}
		if count != 22 {
			t.Errorf("the schema has %d constraints, 22 are tried here", count)
		}
	}
}

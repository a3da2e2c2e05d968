package postgres

// stateFixture has a row in each table of state, leases and streams, for TestConstraints.
const stateFixture = `
INSERT INTO state_scopes (id, session_id, version) VALUES ('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000001', 1);
INSERT INTO state_scopes (id, name, version) VALUES ('00000000-0000-0000-0000-0000000000b1', 'app', 1);
INSERT INTO state_values (scope_id, key, value, version) VALUES ('00000000-0000-0000-0000-0000000000b1', 'a', '1', 1);
INSERT INTO leases (name, kind, owner, token, acquired_at, expires_at) VALUES ('a', 'b', 'c', 1, now(), now());
INSERT INTO streams (id, key, owner, opener, began, fence, ttl, expires_at)
VALUES ('00000000-0000-0000-0000-0000000000c1', 'a', 'b', '00000000-0000-0000-0000-0000000000c1', 1, 1, '1 minute', now());
INSERT INTO stream_parts (stream_id, sequence, data) VALUES ('00000000-0000-0000-0000-0000000000c1', 0, 'x');
`

// stateConstraints violate the constraints of state, leases and streams, one each.
var stateConstraints = map[string]string{
	"state_scopes_pkey":            "INSERT INTO state_scopes (id, name, version) VALUES ('00000000-0000-0000-0000-0000000000b1', 'app', 1)",
	"state_scopes_session_id_fkey": "INSERT INTO state_scopes (id, session_id, version) VALUES ('00000000-0000-0000-0000-0000000000b2', '00000000-0000-0000-0000-0000000000b2', 1)",
	"state_scopes_name_check":      "UPDATE state_scopes SET name = repeat('x', 1025) WHERE name = 'app'",
	"state_scopes_whose_check":     "UPDATE state_scopes SET name = NULL WHERE name = 'app'",
	"state_scopes_version_check":   "UPDATE state_scopes SET version = -1",
	"state_values_pkey":            "INSERT INTO state_values (scope_id, key, value, version) VALUES ('00000000-0000-0000-0000-0000000000b1', 'a', '1', 1)",
	"state_values_scope_id_fkey":   "INSERT INTO state_values (scope_id, key, value, version) VALUES ('00000000-0000-0000-0000-0000000000b2', 'a', '1', 1)",
	"state_values_key_check":       "UPDATE state_values SET key = ''",
	"state_values_value_check":     "UPDATE state_values SET value = to_json(repeat('x', 1048575))",
	"leases_pkey":                  "INSERT INTO leases (name, kind, owner, token, acquired_at, expires_at) VALUES ('a', 'b', 'd', 1, now(), now())",
	"leases_name_check":            "UPDATE leases SET name = repeat('x', 769)",
	"leases_kind_check":            "UPDATE leases SET kind = ''",
	"leases_owner_check":           "UPDATE leases SET owner = repeat('é', 513)",
	"leases_token_check":           "UPDATE leases SET token = 0",
	"streams_pkey":                 "INSERT INTO streams (id, key, owner, opener, began, fence, ttl, expires_at) VALUES ('00000000-0000-0000-0000-0000000000c1', 'c', 'b', '00000000-0000-0000-0000-0000000000c1', 1, 1, '1 minute', now())",
	"streams_key_began_key":        "INSERT INTO streams (id, key, owner, opener, began, fence, status, ttl, expires_at) VALUES ('00000000-0000-0000-0000-0000000000c2', 'a', 'b', '00000000-0000-0000-0000-0000000000c1', 1, 1, 'finished', '1 minute', now())",
	"streams_key_check":            "UPDATE streams SET key = repeat('x', 256)",
	"streams_owner_check":          "UPDATE streams SET owner = ''",
	"streams_fence_check":          "UPDATE streams SET fence = 0",
	"streams_status_check":         "UPDATE streams SET status = 'x'",
	"streams_reason_check":         "UPDATE streams SET reason = 'x'",
	"streams_next_sequence_check":  "UPDATE streams SET next_sequence = -1",
	"stream_parts_pkey":            "INSERT INTO stream_parts (stream_id, sequence, data) VALUES ('00000000-0000-0000-0000-0000000000c1', 0, 'x')",
	"stream_parts_sequence_check":  "UPDATE stream_parts SET sequence = -1",
	"stream_parts_data_check":      "UPDATE stream_parts SET data = ''",
	"state_values_version_check":   "UPDATE state_values SET version = 0",
}

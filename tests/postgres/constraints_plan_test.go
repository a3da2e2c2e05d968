package postgres

// planFixture inserts a row into each table, for TestConstraints.
const planFixture = `
INSERT INTO actions (name, namespace, reusable, read_only) VALUES ('local/a', 'local', true, true);
INSERT INTO action_arguments (action_name, position, name, type, required) VALUES ('local/a', 0, 'x', 'string', false);
INSERT INTO action_invariants (action_name, position, text) VALUES ('local/a', 0, 'x');
INSERT INTO plans (id, namespace, action_name, root_id, phase, state) VALUES ('00000000-0000-0000-0000-0000000000a1', 'local', 'local/a', '00000000-0000-0000-0000-0000000000a1', 'strategize', 'queued');
INSERT INTO plans (id, namespace, action_name, root_id, parent_id, depth, phase, state) VALUES ('00000000-0000-0000-0000-0000000000a2', 'local', 'local/a', '00000000-0000-0000-0000-0000000000a1', '00000000-0000-0000-0000-0000000000a1', 1, 'execute', 'queued');
INSERT INTO plan_projects (plan_id, position, project, alias, read_only) VALUES ('00000000-0000-0000-0000-0000000000a1', 0, 'p', 'p', true);
INSERT INTO plan_arguments (plan_id, position, name, value) VALUES ('00000000-0000-0000-0000-0000000000a1', 0, 'x', '1');
INSERT INTO plan_invariants (plan_id, position, text, source) VALUES ('00000000-0000-0000-0000-0000000000a1', 0, 'x', 'action');
INSERT INTO plan_history (plan_id, version, transition, to_phase, to_state) VALUES ('00000000-0000-0000-0000-0000000000a1', 1, 'use', 'strategize', 'queued');
INSERT INTO plan_claims (plan_id, namespace, action_name, phase, owner, token, attempt, max_attempts, check_at) VALUES ('00000000-0000-0000-0000-0000000000a1', 'local', 'local/a', 'strategize', 'o', 1, 1, 5, now());
INSERT INTO session_plans VALUES ('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-0000000000a1');
INSERT INTO audit_entries (occurred_at, id, type) VALUES (date_trunc('month', now()), '00000000-0000-0000-0000-0000000000a1', 'tool_invoked');
INSERT INTO audit_leaves (sequence, occurred_at, entry_id, hash) VALUES (0, '2026-01-01', '00000000-0000-0000-0000-0000000000a1', decode(repeat('00', 32), 'hex'));
INSERT INTO audit_hashes VALUES (0, decode(repeat('00', 32), 'hex'));
INSERT INTO audit_checkpoints VALUES (1, decode(repeat('00', 32), 'hex'), '');
INSERT INTO audit_quarantine VALUES ('00000000-0000-0000-0000-0000000000a1', '', 'x');
INSERT INTO audit_holds VALUES ('00000000-0000-0000-0000-0000000000a1', 'plan', 'x');
`

// planConstraints violate the constraints of actions and plans, one each.
var planConstraints = map[string]string{
	"action_arguments_action_name_fkey":     "INSERT INTO action_arguments (action_name, position, name, type, required) VALUES ('local/none', 1, 'x', 'string', false)",
	"action_arguments_action_name_name_key": "INSERT INTO action_arguments (action_name, position, name, type, required) VALUES ('local/a', 1, 'x', 'string', false)",
	"action_arguments_bounds_check":         "UPDATE action_arguments SET type = 'boolean', min_value = 1",
	"action_arguments_default_value_check":  "UPDATE action_arguments SET required = true, default_value = '1'",
	"action_arguments_description_check":    "UPDATE action_arguments SET description = repeat('x', 65537)",
	"action_arguments_min_value_check":      "UPDATE action_arguments SET min_value = 2, max_value = 1",
	"action_arguments_name_check":           "UPDATE action_arguments SET name = 'a-b'",
	"action_arguments_pattern_check":        "UPDATE action_arguments SET type = 'list', pattern = 'x'",
	"action_arguments_pkey":                 "INSERT INTO action_arguments (action_name, position, name, type, required) VALUES ('local/a', 0, 'y', 'string', false)",
	"action_arguments_position_check":       "UPDATE action_arguments SET position = 100",
	"action_arguments_type_check":           "UPDATE action_arguments SET type = 'text'",
	"action_invariants_action_name_fkey":    "INSERT INTO action_invariants (action_name, position, text) VALUES ('local/none', 0, 'y')",
	"action_invariants_pkey":                "INSERT INTO action_invariants (action_name, position, text) VALUES ('local/a', 0, 'y')",
	"action_invariants_position_check":      "UPDATE action_invariants SET position = -1",
	"action_invariants_text_check":          "UPDATE action_invariants SET text = ''",
	"actions_apply_actor_check":             "UPDATE actions SET apply_actor = ''",
	"actions_automation_profile_check":      "UPDATE actions SET automation_profile = ''",
	"actions_created_by_check":              "UPDATE actions SET created_by = ''",
	"actions_definition_of_done_check":      "UPDATE actions SET definition_of_done = repeat('x', 65537)",
	"actions_description_check":             "UPDATE actions SET description = repeat('x', 65537)",
	"actions_estimation_actor_check":        "UPDATE actions SET estimation_actor = ''",
	"actions_execution_actor_check":         "UPDATE actions SET execution_actor = ''",
	"actions_inputs_schema_check":           "UPDATE actions SET inputs_schema = '1'",
	"actions_invariant_actor_check":         "UPDATE actions SET invariant_actor = ''",
	"actions_name_check":                    "UPDATE actions SET namespace = 'other'",
	"actions_pkey":                          "INSERT INTO actions (name, namespace, reusable, read_only) VALUES ('local/a', 'local', true, true)",
	"actions_review_actor_check":            "UPDATE actions SET review_actor = ''",
	"actions_state_check":                   "UPDATE actions SET state = 'deleted'",
	"actions_strategy_actor_check":          "UPDATE actions SET strategy_actor = ''",
	"actions_tags_check":                    "UPDATE actions SET tags = ARRAY[NULL]::text[]",
	"actions_version_check":                 "UPDATE actions SET version = 0",
	"plan_arguments_name_check":             "UPDATE plan_arguments SET name = ''",
	"plan_arguments_pkey":                   "INSERT INTO plan_arguments (plan_id, position, name, value) VALUES ('00000000-0000-0000-0000-0000000000a1', 0, 'q', '1')",
	"plan_arguments_plan_id_fkey":           "INSERT INTO plan_arguments (plan_id, position, name, value) VALUES ('00000000-0000-0000-0000-0000000000a9', 1, 'x', '1')",
	"plan_arguments_plan_id_name_key":       "INSERT INTO plan_arguments (plan_id, position, name, value) VALUES ('00000000-0000-0000-0000-0000000000a1', 1, 'x', '1')",
	"plan_arguments_position_check":         "UPDATE plan_arguments SET position = 100",
	"plan_claims_attempt_check":             "UPDATE plan_claims SET attempt = 0",
	"plan_claims_max_attempts_check":        "UPDATE plan_claims SET max_attempts = 0",
	"plan_claims_owner_check":               "UPDATE plan_claims SET owner = repeat('é', 128)",
	"plan_claims_pkey":                      "INSERT INTO plan_claims (plan_id, namespace, action_name, phase, owner, token, attempt, max_attempts, check_at) VALUES ('00000000-0000-0000-0000-0000000000a1', 'local', 'local/a', 'strategize', 'o', 2, 1, 5, now())",
	"plan_claims_plan_id_fkey":              "INSERT INTO plan_claims (plan_id, namespace, action_name, phase, owner, token, attempt, max_attempts, check_at) VALUES ('00000000-0000-0000-0000-0000000000a9', 'local', 'local/a', 'strategize', 'o', 2, 1, 5, now())",
	"plan_queue_pkey":                       "INSERT INTO plan_queue (plan_id, namespace, action_name, phase, since) VALUES ('00000000-0000-0000-0000-0000000000a1', 'local', 'local/a', 'strategize', now())",
	"plan_queue_plan_id_fkey":               "INSERT INTO plan_queue (plan_id, namespace, action_name, phase, since) VALUES ('00000000-0000-0000-0000-0000000000a9', 'local', 'local/a', 'strategize', now())",
	"plan_history_actor_check":              "UPDATE plan_history SET actor = ''",
	"plan_history_from_check":               "INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state) VALUES ('00000000-0000-0000-0000-0000000000a1', 2, 'start', 'strategize', 'applied', 'strategize', 'queued')",
	"plan_history_pkey":                     "INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state) VALUES ('00000000-0000-0000-0000-0000000000a1', 1, 'use', NULL, NULL, 'strategize', 'queued')",
	"plan_history_plan_id_fkey":             "INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state) VALUES ('00000000-0000-0000-0000-0000000000a9', 1, 'use', NULL, NULL, 'strategize', 'queued')",
	"plan_history_reason_check":             "UPDATE plan_history SET reason = ''",
	"plan_history_to_check":                 "INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state) VALUES ('00000000-0000-0000-0000-0000000000a1', 2, 'start', 'strategize', 'queued', 'execute', 'constrained')",
	"plan_history_transition_check":         "INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state) VALUES ('00000000-0000-0000-0000-0000000000a1', 2, 'jump', 'strategize', 'queued', 'strategize', 'queued')",
	"plan_history_version_check":            "INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state) VALUES ('00000000-0000-0000-0000-0000000000a1', 2, 'use', NULL, NULL, 'strategize', 'queued')",
	"plan_invariants_pkey":                  "INSERT INTO plan_invariants (plan_id, position, text, source) VALUES ('00000000-0000-0000-0000-0000000000a1', 0, 'q', 'x')",
	"plan_invariants_plan_id_fkey":          "INSERT INTO plan_invariants (plan_id, position, text, source) VALUES ('00000000-0000-0000-0000-0000000000a9', 0, 'q', 'x')",
	"plan_invariants_position_check":        "UPDATE plan_invariants SET position = 200",
	"plan_invariants_source_check":          "UPDATE plan_invariants SET source = ''",
	"plan_invariants_text_check":            "UPDATE plan_invariants SET text = ''",
	"plan_projects_alias_check":             "UPDATE plan_projects SET alias = ''",
	"plan_projects_pkey":                    "INSERT INTO plan_projects (plan_id, position, project, alias, read_only) VALUES ('00000000-0000-0000-0000-0000000000a1', 0, 'q', 'q', true)",
	"plan_projects_plan_id_alias_key":       "INSERT INTO plan_projects (plan_id, position, project, alias, read_only) VALUES ('00000000-0000-0000-0000-0000000000a1', 1, 'q', 'p', true)",
	"plan_projects_plan_id_fkey":            "INSERT INTO plan_projects (plan_id, position, project, alias, read_only) VALUES ('00000000-0000-0000-0000-0000000000a9', 0, 'q', 'q', true)",
	"plan_projects_position_check":          "UPDATE plan_projects SET position = 100",
	"plan_projects_project_check":           "UPDATE plan_projects SET project = ''",
	"plans_action_name_fkey":                "INSERT INTO plans (id, namespace, action_name, root_id, phase, state) VALUES ('00000000-0000-0000-0000-0000000000a9', 'local', 'local/none', '00000000-0000-0000-0000-0000000000a9', 'strategize', 'queued')",
	"plans_attempt_check":                   "UPDATE plans SET attempt = 0 WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_automation_profile_check":        "UPDATE plans SET automation_profile = '', automation_profile_source = 'x' WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_automation_profile_source_check": "UPDATE plans SET automation_profile = 'x' WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_automation_snapshot_check":       "UPDATE plans SET automation_snapshot = '[]' WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_cancel_reason_check":             "UPDATE plans SET cancel_reason = 'x' WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_cancelled_at_check":              "UPDATE plans SET cancelled_at = now() WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_definition_of_done_check":        "UPDATE plans SET definition_of_done = repeat('x', 1048577) WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_depth_check":                     "UPDATE plans SET depth = 1 WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_description_check":               "UPDATE plans SET description = repeat('x', 65537) WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_error_details_check":             "UPDATE plans SET error_details = '{}' WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_error_message_check":             "UPDATE plans SET state = 'errored' WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_last_checkpoint_id_check":        "UPDATE plans SET last_checkpoint_id = '' WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_last_completed_step_check":       "UPDATE plans SET last_completed_step = -1 WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_name_check":                      "UPDATE plans SET name = 'x' WHERE id = '00000000-0000-0000-0000-0000000000a2'",
	"plans_namespace_check":                 "UPDATE plans SET namespace = '' WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_pkey":                            "INSERT INTO plans (id, namespace, action_name, root_id, phase, state) VALUES ('00000000-0000-0000-0000-0000000000a1', 'local', 'local/a', '00000000-0000-0000-0000-0000000000a1', 'strategize', 'queued')",
	"plans_reversion_count_check":           "UPDATE plans SET reversion_count = 4 WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_root_id_check":                   "UPDATE plans SET root_id = '00000000-0000-0000-0000-0000000000a2' WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_root_id_id_key":                  "INSERT INTO plans (id, namespace, action_name, root_id, phase, state) SELECT id, namespace, action_name, root_id, phase, state FROM plans WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_root_id_parent_id_fkey":          "INSERT INTO plans (id, namespace, action_name, root_id, phase, state, parent_id, depth) VALUES ('00000000-0000-0000-0000-0000000000a9', 'local', 'local/a', '00000000-0000-0000-0000-0000000000a8', 'strategize', 'queued', '00000000-0000-0000-0000-0000000000a2', 1)",
	"plans_stage_check":                     "UPDATE plans SET phase = 'execute', state = 'applied' WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"plans_version_check":                   "UPDATE plans SET version = 0 WHERE id = '00000000-0000-0000-0000-0000000000a1'",
	"session_plans_pkey":                    "INSERT INTO session_plans VALUES ('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-0000000000a1')",
	"session_plans_plan_id_fkey":            "INSERT INTO session_plans VALUES ('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-0000000000a9')",
	"session_plans_session_id_fkey":         "INSERT INTO session_plans VALUES ('00000000-0000-0000-0000-0000000000a9', '00000000-0000-0000-0000-0000000000a1')",
}

// auditConstraints violate the constraints of the audit trail, one each.
var auditConstraints = map[string]string{
	"audit_checkpoints_pkey":                  "INSERT INTO audit_checkpoints VALUES (1, decode(repeat('00', 32), 'hex'), '')",
	"audit_checkpoints_root_check":            "INSERT INTO audit_checkpoints VALUES (2, '', '')",
	"audit_checkpoints_size_check":            "INSERT INTO audit_checkpoints VALUES (0, decode(repeat('00', 32), 'hex'), '')",
	"audit_entries_actor_check":               "INSERT INTO audit_entries (occurred_at, id, type, actor) VALUES (now(), '00000000-0000-0000-0000-0000000000a9', 'x', '')",
	"audit_entries_details_check":             "INSERT INTO audit_entries (occurred_at, id, type, details) VALUES (now(), '00000000-0000-0000-0000-0000000000a9', 'x', '[]')",
	"audit_entries_pkey":                      "INSERT INTO audit_entries (occurred_at, id, type) VALUES (date_trunc('month', now()), '00000000-0000-0000-0000-0000000000a1', 'tool_invoked')",
	"audit_entries_project_check":             "INSERT INTO audit_entries (occurred_at, id, type, project) VALUES (now(), '00000000-0000-0000-0000-0000000000a9', 'x', '')",
	"audit_entries_type_check":                "INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), '00000000-0000-0000-0000-0000000000a9', 'Tool')",
	"audit_entries_user_name_check":           "INSERT INTO audit_entries (occurred_at, id, type, user_name) VALUES (now(), '00000000-0000-0000-0000-0000000000a9', 'x', '')",
	"audit_hashes_hash_check":                 "INSERT INTO audit_hashes VALUES (1, '')",
	"audit_hashes_index_check":                "INSERT INTO audit_hashes VALUES (-1, decode(repeat('00', 32), 'hex'))",
	"audit_hashes_pkey":                       "INSERT INTO audit_hashes VALUES (0, decode(repeat('00', 32), 'hex'))",
	"audit_holds_kind_check":                  "UPDATE audit_holds SET kind = 'x'",
	"audit_holds_pkey":                        "INSERT INTO audit_holds VALUES ('00000000-0000-0000-0000-0000000000a1', 'plan', 'x')",
	"audit_holds_reason_check":                "UPDATE audit_holds SET reason = ''",
	"audit_identity_pkey":                     "INSERT INTO audit_identity DEFAULT VALUES",
	"audit_identity_singleton_check":          "INSERT INTO audit_identity (singleton) VALUES (false)",
	"audit_leaves_version_check":              "INSERT INTO audit_leaves (sequence, occurred_at, entry_id, hash, version) VALUES (1, '2026-02-02', '00000000-0000-0000-0000-0000000000a1', decode(repeat('00', 32), 'hex'), 2)",
	"audit_leaves_hash_check":                 "INSERT INTO audit_leaves (sequence, occurred_at, entry_id, hash) VALUES (1, '2026-02-02', '00000000-0000-0000-0000-0000000000a1', '')",
	"audit_leaves_entry_id_occurred_at_key":   "INSERT INTO audit_leaves (sequence, occurred_at, entry_id, hash) VALUES (1, '2026-01-01', '00000000-0000-0000-0000-0000000000a1', decode(repeat('00', 32), 'hex'))",
	"audit_leaves_pkey":                       "INSERT INTO audit_leaves (sequence, occurred_at, entry_id, hash) VALUES (0, '2026-02-02', '00000000-0000-0000-0000-0000000000a1', decode(repeat('00', 32), 'hex'))",
	"audit_leaves_sequence_check":             "INSERT INTO audit_leaves (sequence, occurred_at, entry_id, hash) VALUES (-1, '2026-02-02', '00000000-0000-0000-0000-0000000000a1', decode(repeat('00', 32), 'hex'))",
	"audit_quarantine_pkey":                   "INSERT INTO audit_quarantine VALUES ('00000000-0000-0000-0000-0000000000a1', '', 'x')",
	"audit_unsealed_occurred_at_entry_id_key": "INSERT INTO audit_unsealed (occurred_at, entry_id, recorded_at) SELECT occurred_at, entry_id, now() FROM audit_unsealed LIMIT 1",
	"audit_unsealed_pkey":                     "INSERT INTO audit_unsealed (position, occurred_at, entry_id, recorded_at) OVERRIDING SYSTEM VALUE SELECT position, now(), gen_random_uuid(), now() FROM audit_unsealed LIMIT 1",
}

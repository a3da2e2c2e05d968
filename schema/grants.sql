-- The privileges of agentstore's roles on a migrated database. Run this as the role
-- that owns the tables (and migrates), or as a superuser. It can be run again; it
-- revokes only privileges that earlier versions of it granted and that are not needed.
--
--   application  what a service needs to store sessions and plans, and to record
--                audit entries. No DDL, no TRUNCATE
--   reader       reads everything
--   audit        writes and seals the audit trail, and reads nothing else
--
-- The tables are found through the search_path. schema.Grants and
-- agentstore migrate grants --schema set it; with psql, use PGOPTIONS.
--
-- All roles read agentstore_migrations, because opening a store checks the schema's
-- version. The roles cannot log in: grant them to roles that can.
--
-- If you add a table, add a line for each role. tests/grants compares the lines with
-- the catalog. :"name" stands for a role as an identifier, :'name' as a literal.

BEGIN;

DO $do$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[:'application', :'reader', :'audit'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), name);
    END LOOP;
END
$do$;

GRANT SELECT ON agentstore_migrations TO :"application", :"reader", :"audit";

-- Messages are never changed, but redacted: a trigger leaves an update nothing else. They are deleted only with their
-- session, by a cascade, which runs as the owner of the tables.
GRANT SELECT, INSERT, UPDATE, DELETE ON sessions TO :"application";
-- A session's sequence begins at 0, or a fork's where it was forked. Only an append advances it. A fence begins at 0,
-- too.
REVOKE INSERT, UPDATE ON session_counters FROM :"application";
GRANT SELECT ON session_counters TO :"application";
GRANT INSERT (session_id, next_sequence, updated_at, fenced_only),
UPDATE (next_sequence, updated_at, fence, fenced_only, follows) ON session_counters TO :"application";
GRANT SELECT, INSERT, UPDATE (content, kind, metadata, payload, tokens,
    counter) ON messages TO :"application";
-- A trigger changes and deletes it, with the owner's rights. An import gives what a deletion has left another id.
GRANT SELECT, INSERT, UPDATE (session_id, parent_id) ON session_branches TO :"application";
GRANT SELECT, INSERT ON session_usages TO :"application";
-- Records of old turns are removed, which locks them.
GRANT SELECT, INSERT, DELETE, UPDATE (created_at, digest) ON session_turns TO :"application";
-- A trigger moves it, with the owner's rights.
GRANT SELECT, INSERT ON session_activity TO :"application";
GRANT SELECT, INSERT ON session_ids TO :"application";
-- A trigger removes the rest, with the owner's rights.
GRANT SELECT, UPDATE (batch) ON session_remains TO :"application";
-- A hold is never changed, but for what deletions lock.
GRANT SELECT, INSERT, DELETE, UPDATE (created_at) ON session_holds TO :"application";
GRANT SELECT, INSERT, UPDATE, DELETE ON state_scopes TO :"application";
GRANT SELECT, INSERT, UPDATE, DELETE ON state_values TO :"application";
GRANT SELECT, INSERT, DELETE ON file_chunks TO :"application";
GRANT SELECT, INSERT, DELETE, UPDATE (owner, fence, acquired_at, expires_at) ON leases TO :"application";
GRANT SELECT, INSERT, DELETE, UPDATE (owner, opener, fence, status, reason, ttl,
    expires_at) ON streams TO :"application";
GRANT SELECT, INSERT, DELETE ON stream_parts TO :"application";

-- A plan's parts are written once, with the plan, and deleted with it.
GRANT SELECT, INSERT, UPDATE, DELETE ON actions TO :"application";
GRANT SELECT, INSERT, UPDATE, DELETE ON plans TO :"application";
GRANT SELECT, INSERT, DELETE ON plan_projects TO :"application";
GRANT SELECT, INSERT ON plan_history TO :"application";
GRANT SELECT, INSERT, DELETE ON session_plans TO :"application";
-- Triggers write the queue, and delete claims, with the owner's rights.
GRANT SELECT ON plan_queue TO :"application";
GRANT SELECT, INSERT, UPDATE ON plan_claims TO :"application";
GRANT SELECT, INSERT, UPDATE, DELETE ON plan_limits TO :"application";
GRANT SELECT, UPDATE ON plan_ends TO :"application";

-- The audit trail is append-only. The queue is filled by triggers, with the owner's
-- privileges. Only the owner prunes, and sets holds. No role may set the time of
-- recording and the salts: the database does.
REVOKE INSERT ON audit_entries, audit_quarantine FROM :"application", :"audit";
GRANT SELECT ON audit_entries TO :"application", :"audit";
GRANT INSERT (id, occurred_at, type, namespace, plan_id, session_id, actor, user_name, project,
    details) ON audit_entries TO :"application", :"audit";
GRANT SELECT ON audit_quarantine TO :"application", :"audit";
GRANT INSERT (id, document, reason) ON audit_quarantine TO :"application", :"audit";
-- Recording an entry looks for pruned ones here.
GRANT SELECT ON audit_leaves TO :"application";

-- The rules of the tables, and what statements call. Every role may execute functions, unless
-- the default privileges of the owner say otherwise.
GRANT EXECUTE ON FUNCTION sessions_valid, messages_valid, session_path, session_tail, session_since, session_needed,
session_held, session_in_use, state_scopes_valid, state_values_valid, leases_valid, actions_valid,
    plans_valid, plan_history_valid, plan_claims_valid, streams_valid, audit_entries_valid, audit_new_id,
    audit_session_created,
    rows_left_out TO :"application";
GRANT EXECUTE ON FUNCTION audit_entries_valid, rows_left_out TO :"audit";
GRANT EXECUTE ON FUNCTION session_path, session_tail, session_since TO :"reader";

-- The audit role also seals.
GRANT SELECT, DELETE ON audit_unsealed TO :"audit";
REVOKE INSERT ON audit_leaves, audit_checkpoints FROM :"audit";
GRANT SELECT ON audit_leaves TO :"audit";
GRANT INSERT (sequence, entry_id, occurred_at, recorded_at, type, namespace, plan_id, session_id, hidden,
    hash) ON audit_leaves TO :"audit";
GRANT SELECT, INSERT ON audit_hashes TO :"audit";
GRANT SELECT ON audit_checkpoints TO :"audit";
GRANT INSERT (size, root, note) ON audit_checkpoints TO :"audit";

GRANT SELECT ON sessions TO :"reader";
GRANT SELECT ON session_counters TO :"reader";
GRANT SELECT ON messages TO :"reader";
GRANT SELECT ON session_branches TO :"reader";
GRANT SELECT ON session_usages TO :"reader";
GRANT SELECT ON session_turns TO :"reader";
GRANT SELECT ON session_activity TO :"reader";
GRANT SELECT ON session_ids TO :"reader";
GRANT SELECT ON session_remains TO :"reader";
GRANT SELECT ON session_holds TO :"reader";
GRANT SELECT ON state_scopes TO :"reader";
GRANT SELECT ON state_values TO :"reader";
GRANT SELECT ON file_chunks TO :"reader";
GRANT SELECT ON leases TO :"reader";
GRANT SELECT ON streams TO :"reader";
GRANT SELECT ON stream_parts TO :"reader";
GRANT SELECT ON actions TO :"reader";
GRANT SELECT ON plans TO :"reader";
GRANT SELECT ON plan_projects TO :"reader";
GRANT SELECT ON plan_history TO :"reader";
GRANT SELECT ON session_plans TO :"reader";
GRANT SELECT ON plan_queue TO :"reader";
GRANT SELECT ON plan_claims TO :"reader";
GRANT SELECT ON plan_limits TO :"reader";
GRANT SELECT ON plan_ends TO :"reader";
GRANT SELECT ON audit_entries TO :"reader";
GRANT SELECT ON audit_quarantine TO :"reader";
GRANT SELECT ON audit_unsealed TO :"reader";
GRANT SELECT ON audit_leaves TO :"reader";
GRANT SELECT ON audit_hashes TO :"reader";
GRANT SELECT ON audit_checkpoints TO :"reader";
GRANT SELECT ON audit_holds TO :"reader";

-- Citus sends all columns that have a default to the node, with an INSERT that does not name them: there a role needs
-- the whole table's.
DO $do$
BEGIN
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
        GRANT INSERT ON session_counters, audit_entries, audit_quarantine TO :"application";
        GRANT INSERT ON audit_entries, audit_quarantine, audit_leaves, audit_checkpoints TO :"audit";
    END IF;
END
$do$;

COMMIT;
